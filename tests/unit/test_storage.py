"""Folders that cannot be written, and what the operating system refuses: a message with path and option."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import cli, storage
from pytest_grovescale.atomic_write import replacing
from pytest_grovescale.cluster import binaries
from pytest_grovescale.cluster.definition import load_definition
from pytest_grovescale.errors import ExitCode, MachineError
from pytest_grovescale.storage import MB, Folder, explained, raised_here, reports_folder, wrong_with
from tests.golden import masked


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,nr_inodes=64", "tmpfs", str(disk)]).returncode
    ):
        pytest.skip("only root may mount a small disk")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_folder_that_can_be_written_is_left_as_it_was(tmp_path: Path) -> None:
    assert wrong_with(reports_folder(tmp_path / "not" / "there" / "yet", MB)) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_folder_below_a_file_is_named_with_its_option(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "reports"):
        wrong = wrong_with(reports_folder(path))
        assert "--grovescale-reports=DIR" in wrong
        assert masked(wrong, {tmp_path: "folder"}) == snapshot(name=path.name)


def test_a_folder_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    wrong = wrong_with(reports_folder(tmp_path / os.fsdecode(b"caf\xe9")))
    assert "caf\\xe9 cannot be used" in wrong
    assert wrong.endswith("--grovescale-reports=DIR")
    assert wrong_with(reports_folder(tmp_path / "café")) == ""


def test_a_disk_that_has_too_little_left_is_named_with_what_is_needed(disk: Path, snapshot: SnapshotAssertion) -> None:
    assert wrong_with(Folder("the state folder", disk / "state", "STATE=DIR", 2 * MB)) == ""
    wrong = wrong_with(Folder("the state folder", disk / "state", "STATE=DIR", storage.STATE_BYTES))
    assert "4.2 MB" in wrong
    assert "64 MB" in wrong
    assert wrong.endswith("STATE=DIR")
    assert masked(wrong, {disk: "disk"}) == snapshot(name="too little")
    with (disk / "others").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(1 << 16))
    full = wrong_with(Folder("the state folder", disk / "state", "STATE=DIR"))
    assert "No space left on device" in full
    assert masked(full, {disk: "disk"}) == snapshot(name="full")


def test_a_disk_without_inodes_is_said_to_be(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="No space left"):
        for number in range(99):
            (disk / f"{number}").touch()
    assert "no inode left" in wrong_with(Folder("the cache folder", disk, "CACHE=DIR"))
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(disk))
    for path in (disk / "clusters/x", None):
        found = explained(os_error(errno.ENOSPC, path))
        assert found is not None
        assert "no inode left" in found.message
        assert "Remove some files" in found.next_step
    with pytest.raises(OSError, match="no inode left"), replacing(disk / "result.json"):
        pass


def test_a_disk_that_is_read_only_is_named(disk: Path, snapshot: SnapshotAssertion) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    wrong = wrong_with(reports_folder(disk / "reports"))
    assert "Read-only file system" in wrong
    assert masked(wrong, {disk: "disk"}) == snapshot


def test_a_complete_cache_need_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GROVESCALE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    definition = load_definition("default")
    monkeypatch.setattr(binaries, "is_present", lambda name, kubernetes: False)
    assert [folder.what for folder in storage.to_start(definition)] == ["the state folder", "the cache folder"]
    monkeypatch.setattr(binaries, "is_present", lambda name, kubernetes: True)
    assert [folder.what for folder in storage.to_start(definition)] == ["the state folder"]


def test_a_version_that_cannot_be_remembered_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GROVESCALE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    program = tmp_path / "etcd"
    program.write_text("#!/bin/sh\necho etcd Version: 3.6.14\n")
    program.chmod(0o755)
    assert [binaries.probe(program) for _ in range(2)] == ["3.6.14", "3.6.14"]


@pytest.mark.parametrize("command", [["up"], ["setup"], ["status"], ["down", "--all"]])
def test_a_command_whose_home_cannot_be_written_says_so(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    snapshot: SnapshotAssertion,
) -> None:
    """`status` and `down` find nothing there, and need nothing."""
    (tmp_path / "home").touch()
    for name in ("GROVESCALE_STATE_DIR", "GROVESCALE_CACHE_DIR", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path))
    code = cli.main(command)
    said = capsys.readouterr().err
    assert "Traceback" not in said
    if command[0] in ("up", "setup"):
        assert code == ExitCode.INFRASTRUCTURE
        assert f"{tmp_path}/home" in said
        assert masked(said, {tmp_path: "folder"}) == snapshot
    else:
        assert code in (ExitCode.PASSED, ExitCode.USAGE)


def os_error(number: int, path: str | Path | None = None) -> OSError:
    return OSError(number, os.strerror(number), *([str(path)] if path else []))


def test_what_the_machine_refuses_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "state"))
    reports = tmp_path / "reports"
    cases: list[tuple[BaseException, str, str]] = [
        (os_error(errno.ENOSPC, reports / "a"), f"{reports}/a: No space left on device", "--grovescale-reports=DIR"),
        (os_error(errno.ENOENT, reports / "a"), f"{reports}/a: No such file", "--grovescale-reports=DIR"),
        (os_error(errno.EROFS, tmp_path / "state/x"), "Read-only file system", "GROVESCALE_STATE_DIR=DIR"),
        (os_error(errno.EAGAIN), "no further process can be started", "ulimit -u"),
        (RuntimeError("can't start new thread"), "no further thread can be started", "ulimit -u"),
        (os_error(errno.EMFILE, "/any"), "/any: Too many open files", "ulimit -n"),
        (os_error(errno.ENOMEM), "Cannot allocate memory", "memory.max"),
        (os_error(errno.EACCES, "/somewhere"), "/somewhere: Permission denied", "Let this user use it"),
    ]
    for error, message, next_step in cases:
        found = explained(error, reports)
        assert isinstance(found, MachineError), error
        assert message in found.message
        assert next_step in found.next_step


@pytest.mark.parametrize(
    "error", [os_error(errno.EBADF), os_error(errno.ENOENT, "/no/file/of/ours"), RuntimeError("x"), KeyError("y")]
)
def test_a_defect_of_ours_is_none_of_the_machines(error: BaseException) -> None:
    assert explained(error) is None


def test_a_users_own_error_is_reported_from_one_of_ours(tmp_path: Path) -> None:
    """Also when both were raised by the standard library in the end."""
    with pytest.raises(FileNotFoundError) as theirs:
        (tmp_path / "none").read_text()
    assert not raised_here(theirs.value)
    with pytest.raises(FileNotFoundError) as ours, replacing(tmp_path / "none" / "file"):
        pass
    assert raised_here(ours.value)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_does_without_standard_streams(tmp_path: Path, closed: str) -> None:
    code = (
        "import os, sys\n"
        "from pytest_grovescale import cli\n"
        "code = cli.main(['status'])\n"
        # Nothing else may take the numbers of the standard streams.
        "code += sum(os.open('/', os.O_RDONLY) < 3 for _ in range(3))\n"
        "cli.main(['down', 'none'])\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", code],
        env={**os.environ, "GROVESCALE_STATE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_command_writes_every_character(encoding: str) -> None:
    code = (
        "from pytest_grovescale.cli.out import say, write, write_any_character\n"
        "write_any_character()\n"
        "write('1.2 × → … 日 \\udc80')\n"
        "say('→ ≤')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    wanted = {"ascii": "1.2 x -> ... ? ?", "latin-1": "1.2 × -> ... ? ?", "utf-8": "1.2 × → … 日 ?"}
    assert done.stdout.decode(encoding).strip() == wanted[encoding]
    assert done.stderr.decode(encoding).strip() == ("→ ≤" if encoding == "utf-8" else "-> <=")
