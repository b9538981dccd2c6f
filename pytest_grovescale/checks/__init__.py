"""Budgets: bounds that a run is held to. A result in, a verdict with its evidence out."""
