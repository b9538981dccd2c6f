"""Periodic scrapes of metrics endpoints, each in its own loop; the journal receives the changes."""
