"""A run in the formats of other programs: Perfetto, CSV, Parquet, OpenMetrics."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from ...atomic_write import replacing
from ...errors import RecordingError
from ...recording import journal
from ...recording import records as rec
from . import openmetrics, perfetto, tables

Format = Literal["perfetto", "csv", "parquet", "openmetrics"]

_FILES: dict[Format, tuple[str, Callable[[Iterable[Iterable[rec.AnyRecord]], Callable[[bytes], object]], None]]] = {
    "perfetto": ("trace.pftrace", perfetto.write),
    "openmetrics": ("run.openmetrics", openmetrics.write),
}
_TABLES: dict[Format, tuple[tuple[str, ...], tables.Tables]] = {
    "csv": (("events.csv", "samples.csv"), tables.in_csv),
    "parquet": (("events.parquet", "samples.parquet"), tables.in_parquet),
}


def export(recordings: Sequence[Path], form: Format, folder: Path) -> list[Path]:
    """Write some recordings in a format into a folder and return the files, which replace older ones.

    Raises RecordingError for a recording that cannot be read, and for a file that cannot be written; UsageError for a
    missing library.
    """
    with _named_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if form in _TABLES:
            names, sinks = _TABLES[form]
            tables.write(_read(recordings), folder, sinks)
            return [folder / name for name in names]
        name, write = _FILES[form]
        with replacing(folder / name) as file:
            write(_read(recordings), file.write)
        return [folder / name]


def write_grove(results: Sequence[bytes], folder: Path) -> list[Path]:
    """Write results in the form of Grove's scale tests, a file each, and return the files. Raises RecordingError."""
    names = ["grove.json"] if len(results) == 1 else [f"grove-{n}.json" for n in range(1, len(results) + 1)]
    with _named_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, result in zip(names, results, strict=True):
            with replacing(folder / name) as file:
                file.write(result)
    return [folder / name for name in names]


@contextlib.contextmanager
def _named_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RecordingError(
            f"the export to {folder} cannot be written: {error.strerror}",
            next_step="Free some space, or name another folder with -o.",
        ) from error


def _read(recordings: Sequence[Path]) -> Iterator[Iterator[rec.AnyRecord]]:
    return (journal.read(path) for path in recordings)
