"""Metrics endpoints read over and over, each by a loop of its own; what changed goes into the journal."""
