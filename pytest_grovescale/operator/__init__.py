"""Starts the operator under test from its definition file."""
