"""What commands print with ``--json`` is what the shipped schemas say."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import msgspec
import pytest

from pytest_grovescale import cli
from pytest_grovescale.cli import schemas
from pytest_grovescale.errors import ExitCode

SAMPLE = str(Path("reports/sample").absolute())
LINT = str(Path("tests/data/lint/bad.prom").absolute())


@pytest.mark.parametrize("name", schemas.NAMES)
def test_the_shipped_schema_is_current(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = schemas.documents()[name]
    assert schemas.path_of(name).read_bytes() == document.schema(), "run: python -m tools.schemas"
    assert cli.main(["schema", name]) == ExitCode.PASSED
    assert json.loads(capsys.readouterr().out)["$schema"].endswith("/draft/2020-12/schema")


def test_every_document_has_its_command_and_a_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuple(schemas.documents()) == schemas.NAMES
    for document in schemas.documents().values():
        assert "schema_version" in {field.name for field in msgspec.structs.fields(document.content)}
    assert cli.main(["schema"]) == ExitCode.PASSED
    assert capsys.readouterr().out.split() == list(schemas.NAMES)
    assert _with_json(cli.parser()) == {document.command for document in schemas.documents().values()} | {"up"}


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("clusters", ["status"], 0),
        ("comparison", ["compare", SAMPLE, SAMPLE], 0),
        ("backends", ["backends", SAMPLE, f"again={SAMPLE}"], 0),
        ("lint-metrics", ["lint-metrics", LINT], 1),
        ("power", ["selftest", "power", "--pairs", "6"], 0),
    ],
)
def test_what_a_command_prints_is_its_document(
    name: str,
    arguments: list[str],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "state/clusters/left").mkdir(parents=True)
    assert cli.main([*arguments, "--json"]) == code
    document = schemas.documents()[name]
    assert document.command == " ".join(arguments[: len(document.command.split())])
    printed = msgspec.json.decode(capsys.readouterr().out)
    # Strictly: no field is missing, and none is more than the schema names.
    found: object = msgspec.convert(printed, document.content)
    assert msgspec.json.decode(msgspec.json.encode(found)) == printed
    assert printed["schema_version"] >= 1


def _with_json(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> set[str]:
    """Return the commands that have the option, by their words."""
    found = {" ".join(words)} if "--json" in parser._option_string_actions else set()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, one in action.choices.items():
                found |= _with_json(one, (*words, word))
    return found
