"""Compiled templates are kept between runs, and nothing depends on it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from pytest_grovescale.report.html import templates

TEMPLATE = "run.html"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of compiled templates, which is not there yet."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    yield Path(cache_from_source(str(templates.__file__))).parent
    templates.environment.cache_clear()


def compiled() -> str:
    """Return the name of the template that a new process gets."""
    templates.environment.cache_clear()
    return str(templates.environment().get_template(TEMPLATE).name)


def test_the_next_process_finds_it_compiled(kept: Path) -> None:
    kept.mkdir(parents=True)
    assert compiled() == TEMPLATE
    (file,) = kept.iterdir()
    written = file.stat()
    assert compiled() == TEMPLATE
    assert file.stat().st_ino == written.st_ino, "it was not written again"


def test_what_is_damaged_is_compiled_again(kept: Path) -> None:
    kept.mkdir(parents=True)
    compiled()
    (file,) = kept.iterdir()
    whole = file.read_bytes()
    for damaged in (b"", b"no code", whole[: len(whole) // 2]):
        file.write_bytes(damaged)
        assert compiled() == TEMPLATE
        assert file.read_bytes() == whole


def test_where_none_can_be_kept_it_is_compiled_each_time(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled() == TEMPLATE
    assert not kept.exists()
    kept.mkdir(parents=True)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert compiled() == TEMPLATE
    assert not any(kept.iterdir())
