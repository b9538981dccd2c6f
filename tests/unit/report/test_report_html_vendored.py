"""The libraries in a page are those that VENDORED.md names, unchanged, each with its licence."""

from __future__ import annotations

import hashlib
import re

import pytest

from pytest_grovescale.report.html.assets import D3, VENDOR

_ROW = re.compile(r"\| (\S+) \| ([\d.]+) \| ([\w.-]+) \| `([^`]+)` \| `([0-9a-f]{64})` \|")
TABLE = _ROW.findall((VENDOR / "VENDORED.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("file", "sha256"), [(row[3], row[4]) for row in TABLE])
def test_a_file_is_as_published(file: str, sha256: str) -> None:
    assert hashlib.sha256((VENDOR / file).read_bytes()).hexdigest() == sha256


def test_every_file_is_named() -> None:
    there = {path.relative_to(VENDOR).as_posix() for path in VENDOR.rglob("*") if path.is_file()}
    assert there == {row[3] for row in TABLE} | {"VENDORED.md"}


def test_every_library_has_its_licence() -> None:
    for folder in (path for path in VENDOR.iterdir() if path.is_dir()):
        assert (folder / "LICENSE").read_text(encoding="utf-8").strip()
    assert {row[2] for row in TABLE} == {"Apache-2.0", "BSD-3-Clause", "ISC", "MIT"}


def test_every_module_of_d3_is_used() -> None:
    assert {path.name for path in VENDOR.glob("d3-*")} == {*D3, "d3-flame-graph"}
