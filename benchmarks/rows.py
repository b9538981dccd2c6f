"""A figure of the bench, with its bound: one row of reports/bench.json."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """``holds`` is None for a figure that is only reported."""

    name: str
    value: float
    unit: str
    bound: float | None = None
    holds: bool | None = None
    spread: tuple[float, float] | None = None
    """Smallest and largest of the repeats that ``value`` was chosen from."""
    how: str = ""


class Bench(msgspec.Struct, frozen=True, kw_only=True):
    """reports/bench.json."""

    schema_version: int
    fingerprint: str
    machine: str
    rows: list[Row]


def at_most(name: str, value: float, unit: str, bound: float, *, spread: Sequence[float] = (), how: str = "") -> Row:
    """Return a row that holds while the value does not exceed its bound."""
    return Row(name=name, value=value, unit=unit, bound=bound, holds=value <= bound, spread=_range(spread), how=how)


def at_least(name: str, value: float, unit: str, bound: float, *, spread: Sequence[float] = (), how: str = "") -> Row:
    """Return a row that holds while the value reaches its bound."""
    return Row(name=name, value=value, unit=unit, bound=bound, holds=value >= bound, spread=_range(spread), how=how)


def reported(name: str, value: float, unit: str, *, spread: Sequence[float] = (), how: str = "") -> Row:
    """Return a row without a bound."""
    return Row(name=name, value=value, unit=unit, spread=_range(spread), how=how)


def line(row: Row) -> str:
    """Return a row as one line of the terminal's table."""
    verdict = "" if row.holds is None else "holds" if row.holds else "MISSED"
    bound = "" if row.bound is None else f"bound {row.bound:g}"
    spread = f"[{row.spread[0]:.3g} … {row.spread[1]:.3g}]" if row.spread else ""
    return f"{row.name:<34} {row.value:>10.4g} {row.unit:<6} {spread:<20} {bound:<12} {verdict}".rstrip()


def write(bench: Bench, path: Path) -> None:
    """Write bench.json, whole or not at all. Rows of an earlier bench that this one did not measure are kept."""
    measured = {row.name for row in bench.rows}
    if path.is_file():
        old = msgspec.json.decode(path.read_bytes(), type=Bench)
        if old.fingerprint == bench.fingerprint:
            kept = [row for row in old.rows if row.name not in measured]
            bench = msgspec.structs.replace(bench, rows=kept + bench.rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(bench), indent=2) + b"\n")
    temporary.replace(path)


def _range(values: Sequence[float]) -> tuple[float, float] | None:
    return (min(values), max(values)) if values else None
