"""``python -m tools.faults``: fault injection into runs, judged by four questions.

Anything left over? Data lost? The right message? Does the next run work? CONTRIBUTING.md describes its use.
"""
