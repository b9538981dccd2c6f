"""Many runs of one test, and what they say together: comparisons, sweeps and baselines."""
