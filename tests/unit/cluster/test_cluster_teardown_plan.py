"""What is done when a cluster ends: last made, first undone; kept as long as it fails; found again after a kill."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pytest_grovescale.cluster import state, teardown_plan
from pytest_grovescale.errors import ClusterError


def note(folder: Path, text: str, *, code: int = 0, timeout_s: float = 20.0) -> teardown_plan.Command:
    """Return a command that adds a line to a file beside the cluster's folder."""
    program = f"import sys; open({str(folder.parent / 'done')!r}, 'a').write({text!r} + chr(10)); sys.exit({code})"
    return teardown_plan.Command(
        argv=[sys.executable, "-c", program],
        env=dict(os.environ),
        log=str(folder.parent / "logs" / "end.log"),
        timeout_s=timeout_s,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "clusters" / "one"
    made.mkdir(parents=True)
    return made


def done(folder: Path) -> list[str]:
    return (folder.parent / "done").read_text().splitlines()


def test_what_was_made_last_goes_first_and_only_once(folder: Path) -> None:
    for text in ("first", "second"):
        teardown_plan.plan(folder, note(folder, text))
    assert teardown_plan.longest_s(folder) == 40.0
    teardown_plan.run(folder)
    teardown_plan.run(folder)
    assert done(folder) == ["second", "first"]
    assert teardown_plan.planned(folder) == []


def test_what_fails_stays_with_all_that_comes_after_it(folder: Path) -> None:
    teardown_plan.plan(folder, note(folder, "outer"))
    teardown_plan.plan(folder, note(folder, "fails", code=3))
    teardown_plan.plan(folder, note(folder, "inner"))
    with pytest.raises(ClusterError, match="exit status 3"):
        teardown_plan.run(folder)
    assert done(folder) == ["inner", "fails"]
    assert [command.argv[-1] for command in teardown_plan.planned(folder)] == [
        note(folder, "fails", code=3).argv[-1],
        note(folder, "outer").argv[-1],
    ]


def test_the_end_of_its_log_is_in_the_message(folder: Path) -> None:
    command = note(folder, "")
    broken = teardown_plan.Command(
        argv=[sys.executable, "-c", "raise SystemExit('no engine answers')"],
        env=command.env,
        log=command.log,
        timeout_s=20.0,
    )
    teardown_plan.plan(folder, broken)
    with pytest.raises(ClusterError, match="no engine answers") as caught:
        teardown_plan.run(folder)
    assert "grovescale down --all" in caught.value.next_step


def test_a_program_that_is_not_there_is_reported(folder: Path) -> None:
    teardown_plan.plan(folder, teardown_plan.Command(argv=["/no/such"], env={}, log=str(folder / "log"), timeout_s=1.0))
    with pytest.raises(ClusterError, match="/no/such"):
        teardown_plan.run(folder)


def test_what_a_killed_supervisor_left_is_done_before_its_folder_goes(folder: Path) -> None:
    teardown_plan.plan(folder, note(folder, "undone"))
    assert "cleared up after it" in state.clear_stale(folder)
    assert done(folder) == ["undone"]
    assert not folder.exists()


def test_its_folder_stays_for_the_next_try_when_that_fails(folder: Path) -> None:
    teardown_plan.plan(folder, note(folder, "fails", code=1))
    with pytest.raises(ClusterError):
        state.clear_stale(folder)
    assert teardown_plan.planned(folder)
