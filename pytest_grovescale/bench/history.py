"""The history on disk: a file for each run, ``DIR/<machine's fingerprint>/<time>_<run>.json``.

Files are added and never changed, so branches and machines merge in git without conflicts.
"""

from __future__ import annotations

import datetime
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ..analysis.baseline import BaselineTest, same_backend
from ..analysis.history import SCHEMA_VERSION, Commit, HistoryRun, history_run, in_order
from ..analysis.result import Result
from ..atomic_write import json_document, read_document, replacing
from ..errors import RecordingError, UsageError
from ..recording.machine import machine

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")


def commit_of(folder: Path) -> Commit | None:
    """Return the commit that a folder's repository is at; None outside of one, and where there is none yet."""
    said = _git(folder, "show", "--no-patch", "--format=%H %cI", "HEAD")
    if not said:
        return None
    number, time = said.split()
    return Commit(id=number, time=time, dirty=bool(_git(folder, "status", "--porcelain", "--untracked-files=no")))


def commit_at(folder: Path, revision: str) -> Commit:
    """Return the commit that a revision names. Raises UsageError for one that the repository does not have."""
    said = _git(folder, "show", "--no-patch", "--format=%H %cI", "--end-of-options", f"{revision}^{{commit}}")
    if not said:
        raise UsageError(
            f"{revision} is no commit of the repository here", next_step="Run it within the operator's repository."
        )
    number, time = said.split()
    return Commit(id=number, time=time)


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        # A machine without git: its runs have no commit.
        return ""
    return "" if done.returncode else done.stdout.strip()


def save(folder: Path, result: Result, *, project: Path) -> Path | None:
    """Add a run to the history in ``folder``; return its file, or None where no test of it may be compared with.

    ``project``: the folder whose commit it measured. Raises RecordingError.
    """
    saved = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    run = history_run(result, saved=saved, commit=commit_of(project))
    return add(folder, run) if run is not None else None


def add(folder: Path, run: HistoryRun) -> Path:
    """Write a run's file. Raises RecordingError."""
    stamp = datetime.datetime.fromisoformat(run.saved).strftime("%Y%m%d-%H%M%S")
    path = folder / run.machine.fingerprint / f"{stamp}_{_NOT_IN_NAMES.sub('_', run.run)}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(json_document(run))
    except OSError as error:
        raise RecordingError(
            f"{path} cannot be written: {error.strerror}",
            next_step="Once mended, add the run: grovescale history DIR --add RUN.",
        ) from error
    return path


def read(folder: Path) -> list[HistoryRun]:
    """Return all runs, in the order of their commits.

    Raises UsageError for a folder without any, RecordingError for a damaged file and one of a newer version.
    """
    files = sorted(folder.glob("*/*.json"))
    if not files:
        raise UsageError(
            f"{folder} holds no history",
            next_step=f"Add runs: pytest --grovescale --grovescale-history={folder}.",
        )
    return in_order(_read(file) for file in files)


def _read(file: Path) -> HistoryRun:
    return read_document(
        file,
        HistoryRun,
        schema_version=SCHEMA_VERSION,
        what="a run of a history",
        next_step="Take it from git again, or remove it: the other runs stand without it.",
    )


def latest(folder: Path, test: str, backend: str, number: int) -> list[Mapping[str, float]]:
    """Return the metrics of a test's last runs on this machine and backend, the newest first; empty without any.

    Only those with the parameters of the newest, and of commits as they are: a changed worktree is no reference.
    """
    own = sorted((folder / machine().fingerprint).glob("*.json"), reverse=True)
    kept: list[BaselineTest] = []
    for file in own:
        run = _read(file)
        one = run.tests.get(test)
        clean = run.commit is None or not run.commit.dirty
        if one is not None and clean and same_backend(one, backend):
            kept += [one] if not kept or one.parameters == kept[0].parameters else []
        if len(kept) == number:
            break
    return [one.metrics for one in kept]
