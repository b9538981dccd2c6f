"""Repeated runs of one test and their evaluation: comparisons, sweeps and baselines."""
