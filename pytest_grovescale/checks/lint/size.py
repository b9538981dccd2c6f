"""How many series there are, and where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from .problem import Problem
from .served import Served, fits


def largest(families: Iterable[Served], top: int = 5) -> list[Served]:
    """Return the families with most series, most first."""
    there = [served for served in families if served.series]
    return sorted(there, key=lambda served: (-len(served.series), served.name))[:top]


def in_words(served: Served) -> str:
    """Return what a family's series are made of: ``my_seconds: 312 series with 12 buckets, by verb (8), code (3)``."""
    values = {label: len(values) for label, values in served.labels().items()}
    buckets = len({series.labels.get("le", "") for series in served.series} - {""})
    parts = [f"{label} ({count})" for label, count in sorted(values.items(), key=lambda item: (-item[1], item[0]))]
    of = f", by {', '.join(parts)}" if parts else ""
    return f"{served.name}: {len(served.series):,} series{f' with {buckets} buckets' if buckets else ''}{of}"


def counted(families: Iterable[Served], pattern: str) -> list[Served]:
    """Return the families whose series a bound is for: those that fit a pattern, without one all that are its own."""
    return [served for served in families if (fits(served.name, pattern) if pattern else not served.of_library)]


def of(pattern: str) -> str:
    """Return which families these are, in words."""
    return f"in {pattern}" if pattern else "in its own families"


def problems(families: Sequence[Served], most: int | None, pattern: str = "") -> Iterator[Problem]:
    """Yield that there are more series than ``most`` in the families that count; None: as many as you like."""
    bounded = counted(families, pattern)
    found = sum(len(served.series) for served in bounded)
    if most is not None and found > most:
        where = "; ".join(in_words(served) for served in largest(bounded, 3))
        yield Problem(
            family="",
            rule="series",
            says=f"{found:,} series {of(pattern)}, at most {most:,} ({where})",
            fix="take labels away, or buckets, from the largest families",
        )
