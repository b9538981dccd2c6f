"""State folders and supervisors without a control plane."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_grovescale.cluster import launch, state
from tests.waiting import wait_until

from .supervised import Supervised


@pytest.fixture
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of this test's own, with a space in its name and longer than a socket's address may be."""
    folder = tmp_path / ("a long name " * 10).strip()
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(folder))
    return folder


@pytest.fixture
def eventually() -> Callable[[Callable[[], object], str], None]:
    """Wait for something that nothing announces, and fail with what it was."""
    return wait_until


@pytest.fixture
def python() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Run Python code in a process of its own; killed at the end of the test if it still runs."""
    started: list[subprocess.Popen[str]] = []

    def run(code: str, *arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def supervised(state_dir: Path) -> Iterator[Supervised]:
    folder = state_dir / "clusters" / "one"
    made = Supervised(folder)
    yield made
    made.lease.release()
    if (owner := state.owner(folder)) is not None:
        launch.end(folder, owner)
    state.clear_stale(folder)
