"""The bundled operator under test, a program of its own.

``python -m pytest_grovescale.reference_operator --help``. It imports nothing of the harness, so that what the
harness measures is what any operator would have to bring along, and the harness imports nothing of it.
"""
