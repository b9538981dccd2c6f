"""How far verdicts can be trusted: every check against defects of the bundled operator, the power of comparisons."""
