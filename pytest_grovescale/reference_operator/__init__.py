"""The bundled operator under test, a separate program.

``python -m pytest_grovescale.reference_operator --help``. It imports nothing from the harness, so that its cost is
what any operator would have; the harness imports nothing from it.
"""
