"""The OCI runtime for machines that withhold CAP_SYS_RESOURCE."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.kind import capabilities, oci_runtime

ALL = "000001ffffffffff"
WITHOUT = "000001fffeffffff"
SETS = {"bounding": ["CAP_KILL", "CAP_SYS_RESOURCE"], "effective": ["CAP_SYS_RESOURCE"], "ambient": None}
LEFT = {"bounding": ["CAP_KILL"], "effective": [], "ambient": []}


@pytest.mark.parametrize(("mask", "withheld"), [(ALL, False), (WITHOUT, True), ("1000000", False), ("0", True)])
def test_the_bounding_set_reports_what_is_withheld(mask: str, withheld: bool) -> None:
    assert capabilities.withheld(f"Name:\tx\nCapPrm:\t{ALL}\nCapBnd:\t{mask}\nCapAmb:\t0\n") is withheld


def test_this_machine_says_its_bounding_set() -> None:
    assert capabilities.withheld() in (True, False)


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (["--root", "r", "create", "--bundle", "/b", "id"], "/b"),
        (["create", "--bundle=/b", "id"], "/b"),
        (["create", "-b", "/b", "id"], "/b"),
        (["create", "id"], ""),
    ],
)
def test_options_are_found_as_runc_reads_them(arguments: list[str], value: str) -> None:
    assert oci_runtime.option(arguments, "--bundle", "-b") == value


@pytest.fixture
def runc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of the name runc, first on PATH, that writes its arguments down."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "runc"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/arguments\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return tmp_path / "arguments"


def called(folder: Path, *arguments: str) -> None:
    subprocess.run([capabilities.write_runtime(folder), *arguments], cwd=folder, check=True)


def test_a_container_is_created_without_the_capability(tmp_path: Path, runc: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    configuration = bundle / "config.json"
    configuration.write_text(json.dumps({"process": {"args": ["x"], "capabilities": SETS}, "hostname": "h"}))
    called(tmp_path, "--log", "l", "create", "--bundle", str(bundle), "id")
    assert json.loads(configuration.read_text()) == {"process": {"args": ["x"], "capabilities": LEFT}, "hostname": "h"}
    assert runc.read_text().split() == ["--log", "l", "create", "--bundle", str(bundle), "id"]


def test_without_a_bundle_it_is_the_working_folder(tmp_path: Path, runc: Path) -> None:
    configuration = tmp_path / "config.json"
    configuration.write_text(json.dumps({"process": {"capabilities": SETS}}))
    called(tmp_path, "run", "id")
    assert json.loads(configuration.read_text()) == {"process": {"capabilities": LEFT}}


def test_a_process_is_added_without_the_capability(tmp_path: Path, runc: Path) -> None:
    process = tmp_path / "process.json"
    process.write_text(json.dumps({"args": ["sh"], "capabilities": SETS}))
    called(tmp_path, "exec", "--process", str(process), "id")
    assert json.loads(process.read_text()) == {"args": ["sh"], "capabilities": LEFT}


def test_a_process_that_asks_for_nothing_stays_as_it_is(tmp_path: Path, runc: Path) -> None:
    process = tmp_path / "process.json"
    process.write_text(json.dumps({"args": ["sh"]}))
    called(tmp_path, "exec", f"--process={process}", "id")
    assert json.loads(process.read_text()) == {"args": ["sh"]}


def test_other_commands_reach_runc_as_they_are(tmp_path: Path, runc: Path) -> None:
    called(tmp_path, "delete", "--force", "id")
    assert runc.read_text().split() == ["delete", "--force", "id"]


def test_it_needs_nothing_but_the_standard_library() -> None:
    source = Path(oci_runtime.__file__).read_text(encoding="utf-8")
    imported = {line.split()[1] for line in source.splitlines() if line.startswith(("import ", "from "))}
    assert imported <= {"__future__", *sys.stdlib_module_names}
