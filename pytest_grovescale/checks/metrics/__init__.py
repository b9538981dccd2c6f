"""Checks of an operator's metrics: of what an endpoint serves, and of what it served over a run."""
