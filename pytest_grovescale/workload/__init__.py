"""Workload objects that the operator reconciles: creation, changes, removal."""
