"""``python -m tools.faults``: runs that are broken on purpose, and four questions to each.

Left over? Lost? The right message? Does the next run work? CONTRIBUTING.md says how to use it.
"""
