"""SIGTERM: as from `kill`, from a CI that gives up, from a container that is stopped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pytest_grovescale import interrupts
from pytest_grovescale.recording.journal import read
from pytest_grovescale.recording.records import AnyRecord, Closed, PhaseEnded
from tests.processes import carrying, wait_none, written

TEST = """
from pathlib import Path

import pytest

from pytest_grovescale import conditions


@pytest.mark.grovescale(nodes=2, operator="none")
def test_it(scale):
    with scale.phase("waits", timeout="5m") as waits:
        waits.milestone("never", conditions.count("pods", 999))
        waits.wait(0)
        Path("here").write_text(scale.namespace)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with one scale test that waits for what never comes, and tells when it does."""
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "test_it.py").write_text(TEST, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    os.mkfifo(tmp_path / "here")
    yield tmp_path
    wait_none(str(tmp_path))


def started(folder: Path, *before: str) -> subprocess.Popen[str]:
    command = [*before, sys.executable, "-m", "pytest", "--grovescale", "-p", "no:cacheprovider"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert written(folder / "here", process)
    return process


def records(folder: Path) -> list[AnyRecord]:
    (journal,) = (folder / "reports/latest/recordings").glob("*.jsonl.zst")
    return list(read(journal))


def can_unshare() -> bool:
    """Return whether this user may make a process the first of a process namespace, with a /proc of its own."""
    if not shutil.which("unshare"):
        return False
    return subprocess.run([*FIRST, "true"], capture_output=True, check=False).returncode == 0


FIRST = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
"""What makes the next command process 1, as a container does."""


@pytest.mark.cluster
@pytest.mark.parametrize("before", [(), FIRST], ids=["as-a-process", "as-process-1"])
def test_a_run_ends_as_with_ctrl_c(folder: Path, before: Sequence[str]) -> None:
    if before and not can_unshare():
        pytest.skip("no right to make a process namespace")
    process = started(folder, *before)
    pid = process.pid
    if before:
        pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8"))
    os.kill(pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert "Traceback" not in output
    assert not carrying(str(folder / "state")), "it returns when its cluster is gone"
    reported = records(folder)
    assert isinstance(reported[-1], Closed)
    assert [record.outcome for record in reported if isinstance(record, PhaseEnded)] == ["interrupted"]


@pytest.fixture
def by_default() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("by_default")
def test_the_signal_interrupts_until_the_run_is_over() -> None:
    interrupts.sigterm_interrupts()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    interrupts.restore()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.usefixtures("by_default")
def test_who_handles_the_signal_already_goes_on_to() -> None:
    reported: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: reported.append(number))
    interrupts.sigterm_interrupts()
    signal.raise_signal(signal.SIGTERM)
    interrupts.restore()
    signal.raise_signal(signal.SIGTERM)
    assert reported == [signal.SIGTERM, signal.SIGTERM]
