"""Where benchmarks put their rows: ``--bench-rows FILE``, one JSON object a line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from benchmarks.rows import Row

Rows = Callable[[Row], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bench-rows", default="reports/bench-rows.jsonl", help="file that rows are appended to")


@pytest.fixture
def rows(request: pytest.FixtureRequest) -> Rows:
    """A function that notes one row."""
    file = Path(request.config.getoption("--bench-rows"))

    def note(row: Row) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") as out:
            out.write(msgspec.json.encode(row) + b"\n")

    return note
