"""What metrics endpoints said in a run: at one moment, and over time."""
