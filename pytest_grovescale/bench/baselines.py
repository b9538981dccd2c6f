"""Baselines on disk: numbered files for each machine, ``.grovescale/baselines/<fingerprint>/0001_NAME.json``."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..analysis.baseline import SCHEMA_VERSION, Baseline, BaselineTest, baseline_test, portable, same_backend, usable
from ..analysis.result import Result
from ..atomic_write import json_document, read_document
from ..errors import UsageError
from ..recording.machine import machine
from . import history
from .store import named_errors

FOLDER = Path(".grovescale") / "baselines"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FILE = re.compile(r"(?P<number>\d{4,})_(?P<name>.+)\.json")

_OF_HISTORY = re.compile(r"history(:(?P<number>[1-9]\d*))?")

_MOST_RUNS = 20
"""Maximum number of runs of one name that are read: enough to estimate their noise."""


class Baselines:
    """All baselines of a project."""

    def __init__(self, root: Path, *, history: Path | None = None) -> None:
        """``history``: the folder that ``history:N`` stands for the last N runs of."""
        self._history = history
        self._folder = root / FOLDER
        self._here = machine().fingerprint
        self._read: dict[str, Baseline | None] = {}

    def save(self, name: str, result: Result) -> Path:
        """Write a run as the next baseline of this name and return the file.

        Raises UsageError for a run without a test that passed: a broken operator is no baseline.
        """
        check_name(name)
        tests = usable(result)
        if not tests:
            raise UsageError(
                f"baseline {name} is not saved: no test of this run passed all its phases without a profiler",
                next_step="Save one from a run that works.",
            )
        first = next(iter(tests.values()))
        baseline = Baseline(
            name=name,
            saved=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            run=result.run,
            version=result.version,
            machine=first.machine,
            tests={nodeid: baseline_test(test) for nodeid, test in tests.items()},
        )
        return self._write(baseline)

    def names(self) -> list[str]:
        """Return the names of all machines' baselines."""
        matches = (_FILE.fullmatch(file.name) for file in self._folder.glob("*/*.json"))
        return sorted({match["name"] for match in matches if match})

    def find(self, name: str) -> Baseline | None:
        """Return the newest baseline of a name: this machine's, else another's; None when there is none."""
        check_name(name)
        if name not in self._read:
            found = self._files(name)
            mine = [file for file in found if file.parent.name == self._here]
            newest = max(mine or found, key=_number, default=None)
            self._read[name] = _load(newest) if newest is not None else None
        return self._read[name]

    def is_from_here(self, baseline: Baseline) -> bool:
        """Return whether absolute figures are comparable: it was measured on an equal machine."""
        return baseline.machine.fingerprint == self._here

    def metrics(self, name: str, test: str, backend: str = "") -> Mapping[str, float] | None:
        """Return the metrics of a test in a baseline: all, or only counts for another machine or backend."""
        baseline = self.find(name)
        kept = baseline.tests.get(test) if baseline is not None else None
        if baseline is None or kept is None:
            return None
        return kept.metrics if self.is_from_here(baseline) and same_backend(kept, backend) else portable(kept)

    def runs(self, name: str, test: str, backend: str = "") -> list[Mapping[str, float]]:
        """Return the metrics of a test in all runs saved under a baseline's name, the newest first; empty for none.

        Leaves out older ones of another machine or backend, or with other parameters: they differ by more than noise.
        ``history`` and ``history:N`` are the last runs of the history.
        """
        if match := _OF_HISTORY.fullmatch(name):
            number = int(match["number"] or _MOST_RUNS)
            return history.latest(self._history, test, backend, number) if self._history is not None else []
        newest = self.metrics(name, test, backend)
        if newest is None:
            return []
        same = [kept for kept in self._saved_here(name, test) if same_backend(kept, backend)]
        return [newest, *(kept.metrics for kept in same[1:] if kept.parameters == same[0].parameters)]

    def _saved_here(self, name: str, test: str) -> Iterator[BaselineTest]:
        """Yield the saved runs of a test on this machine, the newest first."""
        mine = [file for file in self._files(name) if file.parent.name == self._here]
        for file in sorted(mine, key=_number, reverse=True)[:_MOST_RUNS]:
            if (kept := _load(file).tests.get(test)) is not None:
                yield kept

    def _files(self, name: str) -> list[Path]:
        files = self._folder.glob(f"*/*_{name}.json")
        return [file for file in files if (match := _FILE.fullmatch(file.name)) and match["name"] == name]

    def _write(self, baseline: Baseline) -> Path:
        folder = self._folder / baseline.machine.fingerprint
        content = json_document(baseline)
        with named_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            temporary = folder / f".{baseline.run}.{os.getpid()}"
            try:
                temporary.write_bytes(content)
                return _numbered(temporary, folder, baseline.name)
            finally:
                temporary.unlink(missing_ok=True)


def check_name(name: str) -> None:
    """Raise UsageError for a name that cannot be part of a file name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a baseline", next_step="Use letters, digits, '.', '_' and '-', as in main-2026.1."
        )


def _numbered(temporary: Path, folder: Path, name: str) -> Path:
    """Give a file the next number, across all names; two runs that save at once get different ones."""
    while True:
        taken = [_number(file) for file in folder.glob("*.json") if _FILE.fullmatch(file.name)]
        path = folder / f"{max(taken, default=0) + 1:04d}_{name}.json"
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(temporary)
            return path


def _number(file: Path) -> int:
    match = _FILE.fullmatch(file.name)
    return int(match["number"]) if match else 0


def _load(file: Path) -> Baseline:
    return read_document(
        file, Baseline, schema_version=SCHEMA_VERSION, what="a baseline", next_step="Remove it, or save another."
    )
