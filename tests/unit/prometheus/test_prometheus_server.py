"""What is told of a Prometheus that has ended."""

from __future__ import annotations

from pathlib import Path

from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster.handle import ProcessInfo
from pytest_grovescale.prometheus.server import died, last_words


def ended(code: int) -> ProcessInfo:
    return ProcessInfo(name="prometheus", pid=1, started_ticks=1, log="", running=False, exit_code=code)


def test_the_end_of_the_log_is_shown(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    error = died(ended(2), log, "before it was ready")
    assert error.message == snapshot
    assert "exited with code 2" in error.message.splitlines()[0]
    assert error.message.splitlines()[2:] == [f"  line {number}" for number in range(85, 100)]
    assert str(log) in error.next_step


def test_only_what_this_start_wrote_is_its_own(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    log = tmp_path / "log"
    log.write_text("of another start\n")
    killed = died(ended(-9), log, "while it was needed", from_byte=log.stat().st_size).message
    assert killed == snapshot
    assert "SIGKILL" in killed
    assert killed.splitlines()[1:] == ["its log is empty"]
    assert "its log is empty" in died(None, tmp_path / "none", "while it was needed").message


def test_stacks_of_a_crash_do_not_hide_why(tmp_path: Path) -> None:
    before = [f"ts=1 level=info msg={number}" for number in range(30)] + ["ts=2 err=no space left"]
    crash = ["unexpected fault address 0x7f", "fatal error: fault", "[signal SIGBUS: bus error]", ""]
    stacks = [f"goroutine {number} [running]:" for number in range(500)]
    shown = last_words([*before, *crash, *stacks])
    assert shown[-4:] == [before[-1], *crash[:3]]
    assert len(shown) == 15
