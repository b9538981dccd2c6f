"""The end of a log, and why a Go program ended, which it says before the stacks of all its goroutines."""

from __future__ import annotations

from pathlib import Path

from pytest_grovescale.log_files import last_lines, what_to_do

GO = ["starting", "fatal error: all goroutines are asleep - deadlock!", "runtime stack:"]
STACKS = [f"goroutine {number} [select]:" for number in range(500)]


def written(tmp_path: Path, lines: list[str]) -> Path:
    log = tmp_path / "it.log"
    log.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return log


def test_a_log_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "none.log", 30) == []


def test_the_last_lines_are_shown_as_they_are(tmp_path: Path) -> None:
    assert last_lines(written(tmp_path, STACKS), 3) == STACKS[-3:]
    assert last_lines(written(tmp_path, GO), 30) == GO


def test_the_reason_stands_before_them_with_what_was_left_out(tmp_path: Path) -> None:
    found = last_lines(written(tmp_path, [*GO, *STACKS]), 3)
    assert found == [*GO[1:], STACKS[0], "… 496 lines", *STACKS[-3:]]


def test_the_reason_is_that_of_its_last_end(tmp_path: Path) -> None:
    panics = ["panic: first", *STACKS, "restarted", "panic: second", "", *STACKS]
    found = last_lines(written(tmp_path, panics), 2)
    assert found == ["panic: second", "", STACKS[0], "… 497 lines", *STACKS[-2:]]
    klog = ["F1122 10:00:00.000000 1 main.go:3] no such flag", *STACKS]
    assert last_lines(written(tmp_path, klog), 2)[0] == klog[0]


def test_what_the_machine_refuses_a_program_has_a_next_step() -> None:
    assert "ulimit -u" in what_to_do(
        "runtime: may need to increase max user processes (ulimit -u)\nfatal error: newosproc"
    )
    assert "ulimit -u" in what_to_do("BlockingIOError: [Errno 11] Resource temporarily unavailable")
    assert "GROVESCALE_STATE_DIR" in what_to_do("wal: write data: No space left on device")
    assert what_to_do("Error: unknown flag: --no-such-flag") == ""
