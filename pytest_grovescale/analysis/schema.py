"""The JSON Schema of ``result.json``, shipped beside this file and kept equal to the structs by a test.

``python -m pytest_grovescale.analysis.schema`` writes it; with ``--check`` it only checks that it is current.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ..atomic_write import json_schema
from .result import SCHEMA_VERSION, Result

PATH = Path(__file__).with_name("result.schema.json")


def encoded() -> bytes:
    """Return the file's content."""
    return json_schema(Result, title=f"Result of a pytest-grovescale run, schema version {SCHEMA_VERSION}")


def main(arguments: list[str]) -> int:
    """Write the file, or check it; return the exit code."""
    if arguments == ["--check"]:
        if PATH.is_file() and PATH.read_bytes() == encoded():
            return 0
        sys.stderr.write(f"{PATH.name} is not current: run python -m pytest_grovescale.analysis.schema\n")
        return 1
    PATH.write_bytes(encoded())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
