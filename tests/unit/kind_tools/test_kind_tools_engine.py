"""Where no engine can be run: which reasons are told, and with which exit status."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import locks
from tests.golden import masked
from tools.kind import __main__ as command
from tools.kind import engine, packages
from tools.kind.engine import Engine, EngineMissing
from tools.kind.processes import CommandFailed, run


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Docker: nothing on PATH but the interpreter, and no engine of ours."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(engine, "_RUN", tmp_path / "run")
    monkeypatch.setenv("GROVESCALE_CACHE_DIR", str(tmp_path / "cache"))
    return folder


def program(folder: Path, name: str) -> None:
    (folder / name).write_text("#!/bin/sh\nexit 1\n")
    (folder / name).chmod(0o755)


def test_only_root_can_start_one(bare: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EngineMissing) as caught:
        engine.ensure(bare, lambda text: None)
    assert str(caught.value) == snapshot


def test_without_docker_and_apt_there_is_none(
    bare: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(EngineMissing) as raised:
        engine.ensure(bare, lambda text: None)
    assert str(raised.value) == snapshot


def test_packages_that_cannot_be_installed_are_a_reason(
    bare: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    program(bare, "apt-get")
    with pytest.raises(EngineMissing) as caught:
        engine.ensure(bare, lambda text: None)
    assert masked(str(caught.value), {bare: "folder"}) == snapshot


def test_a_daemon_that_ends_is_reported_with_its_last_words(
    bare: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for name in ("docker", "iptables"):
        program(bare, name)
    (bare / "dockerd").write_text("#!/bin/sh\necho 'failed to start daemon: no such kernel' >&2\nexit 1\n")
    (bare / "dockerd").chmod(0o755)
    with pytest.raises(EngineMissing) as caught:
        engine.ensure(bare, lambda text: None)
    assert masked(str(caught.value), {bare.parent: "folder"}) == snapshot
    assert "no such kernel" in str(caught.value)
    assert engine.running() is None


@pytest.mark.parametrize(("more", "status"), [([], command.IMPOSSIBLE), (["--where-possible"], 0)])
def test_the_exit_status_reports_a_machine_that_cannot(
    bare: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    status: int,
    snapshot: SnapshotAssertion,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert command.main(["run", *more, "--", "pytest"]) == status
    assert capsys.readouterr().err == snapshot


def test_down_leaves_alone_what_is_not_ours(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["down"]) == 0
    assert "no engine of ours runs" in capsys.readouterr().err


def test_only_an_engine_of_ours_changes_the_environment() -> None:
    assert Engine().environment == {}
    assert not Engine().is_ours
    ours = Engine(host="unix:///run/x.sock", pid=1, started_ticks=2)
    assert ours.environment == {"DOCKER_HOST": "unix:///run/x.sock"}
    assert ours.is_ours


@pytest.mark.parametrize(
    ("lines", "archive"),
    [
        (["Debian http://mirror/debian/", "Debian http://other/debian/"], "http://mirror/debian"),
        (
            ["Node http://node", "Debian http://mirror/debian-security/", "Debian http://mirror/debian/"],
            "http://mirror/debian",
        ),
        (["Ubuntu http://archive.ubuntu.com/ubuntu/"], ""),
        (["Debian "], ""),
        ([], ""),
    ],
)
def test_the_machines_own_debian_archive_is_used(lines: list[str], archive: str) -> None:
    assert packages.archive_among(lines) == archive


def test_a_program_that_fails_is_reported_with_the_end_of_what_it_wrote() -> None:
    script = "import sys; print('out'); sys.stderr.write('why\\n'); sys.exit(3)"
    with pytest.raises(CommandFailed, match=r"failed \(3\):\n  out\n  why"):
        run([sys.executable, "-c", script])


def test_a_program_that_is_not_there_or_takes_too_long_fails() -> None:
    with pytest.raises(CommandFailed, match="No such file"):
        run(["/nowhere/program"])
    with pytest.raises(CommandFailed, match="timed out"):
        run([sys.executable, "-c", "input()"], source=None, timeout_s=0.0)


@pytest.mark.parametrize("others", [False, True])
def test_an_engine_that_others_use_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], others: bool
) -> None:
    monkeypatch.setenv("GROVESCALE_CACHE_DIR", str(tmp_path))
    ended: list[Engine] = []
    ours = Engine(host="unix:///run/x.sock", pid=1, started_ticks=2)
    monkeypatch.setattr(engine, "ensure", lambda cache, say: (ours, True))
    monkeypatch.setattr(engine, "stop", lambda found, say: ended.append(found))
    monkeypatch.setattr(command, "_make", lambda *given: {"GROVESCALE_TEST_KIND": "node:1"})
    other = locks.take(tmp_path / "kind" / "engine.lock", shared=True) if others else None
    asked = "import os, sys; sys.exit(7 if os.environ['GROVESCALE_TEST_KIND'] == 'node:1' else 1)"
    assert command.main(["run", "--", sys.executable, "-c", asked]) == 7
    assert ended == ([] if others else [ours])
    assert ("others use the container engine" in capsys.readouterr().err) is others
    if other is not None:
        other.close()
