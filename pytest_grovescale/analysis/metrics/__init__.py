"""Series of metrics endpoints in a run: at one moment, and over time."""
