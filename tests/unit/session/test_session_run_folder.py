"""A run's folder: names that no two runs of a test share, and who writes its result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_grovescale.cluster import locks
from pytest_grovescale.session.run_folder import RunFolder, file_name, is_open


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "reports"


@pytest.mark.parametrize(
    ("nodeid", "name"),
    [
        ("tests/scale/test_a.py::test_it", "test_a.py-test_it"),
        ("tests/test_a.py::TestX::test_it[a/b c]", "test_a.py-TestX-test_it-a-b-c"),
        ("test_a.py::test_it[" + "x" * 300 + "]", ("test_a.py-test_it-" + "x" * 300)[:120]),
    ],
)
def test_names_tell_the_test(nodeid: str, name: str) -> None:
    assert file_name(nodeid) == name


def test_each_run_of_a_test_has_a_name_of_its_own(reports: Path) -> None:
    folders = [RunFolder(reports, "run-1", concludes=False) for _ in range(2)]
    claimed = [
        folder.claim(nodeid) for folder in folders for nodeid in ("a/test_x.py::test_it", "b/test_x.py::test_it")
    ]
    assert claimed == ["test_x.py-test_it", *(f"test_x.py-test_it-{number}" for number in (2, 3, 4))]


def test_the_newest_run_is_the_latest(reports: Path) -> None:
    for run in ("run-1", "run-2"):
        RunFolder(reports, run, concludes=False).part("logs")
    assert (reports / "latest").resolve() == reports / "run-2"


def test_a_run_is_open_as_long_as_the_process_lives_that_concludes_it(reports: Path) -> None:
    code = """
import sys
from pathlib import Path
from pytest_grovescale.session.run_folder import RunFolder
folder = RunFolder(Path(sys.argv[1]), "run-1", concludes=True)
folder.part("logs")
print("open", flush=True)
sys.stdin.read()
"""
    folder = reports / "run-1"
    assert not is_open(folder)
    command = [sys.executable, "-c", code, str(reports)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        assert is_open(folder)
        process.kill()
        process.communicate()
    assert not is_open(folder)
    assert not list((reports.parent / "state" / "runs").iterdir()), "what a killed one left is gone"


def test_closing_it_leaves_no_lock(reports: Path) -> None:
    folder = RunFolder(reports, "run-1", concludes=True)
    folder.part("logs")
    assert is_open(folder.path)
    folder.close()
    folder.close()
    assert not is_open(folder.path)
    assert not list((reports.parent / "state" / "runs").iterdir())


def test_an_xdist_worker_does_not_conclude(reports: Path) -> None:
    folder = RunFolder(reports, "run-1", concludes=False)
    folder.part("logs")
    assert not locks.is_held(reports.parent / "state" / "runs" / "run-1.lock")
