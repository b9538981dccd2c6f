"""Renders a result."""
