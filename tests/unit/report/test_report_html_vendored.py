"""The libraries of other people, in a page and in the tests of pages, are those that VENDORED.md names: unchanged, each
with its licence."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from pytest_grovescale.report.html.templates import D3, VENDOR

TESTED_WITH = Path(__file__).parents[2] / "browser" / "vendor"
FOLDERS = (VENDOR, TESTED_WITH)
_ROW = re.compile(r"\| (\S+) \| ([\d.]+) \| ([\w.-]+) \| `([^`]+)` \| `([0-9a-f]{64})` \|")
TABLES = {folder: _ROW.findall((folder / "VENDORED.md").read_text(encoding="utf-8")) for folder in FOLDERS}


@pytest.mark.parametrize(
    ("file", "sha256"), [(folder / row[3], row[4]) for folder, table in TABLES.items() for row in table]
)
def test_a_file_is_as_published(file: Path, sha256: str) -> None:
    assert hashlib.sha256(file.read_bytes()).hexdigest() == sha256


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_is_named(folder: Path) -> None:
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert there == {row[3] for row in TABLES[folder]} | {"VENDORED.md"}


@pytest.mark.parametrize(
    ("folder", "licences"), [(VENDOR, {"Apache-2.0", "BSD-3-Clause", "ISC", "MIT"}), (TESTED_WITH, {"MPL-2.0"})]
)
def test_every_library_has_its_licence(folder: Path, licences: set[str]) -> None:
    for library in (path for path in folder.iterdir() if path.is_dir()):
        assert (library / "LICENSE").read_text(encoding="utf-8").strip()
    assert {row[2] for row in TABLES[folder]} == licences


def test_every_module_of_d3_is_used() -> None:
    assert {path.name for path in VENDOR.glob("d3-*")} == {*D3, "d3-flame-graph"}
