"""Suggestions for unknown names: the only place that compares names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``Did you mean cluster or clusters?`` for the nearest known names; empty where none is near."""
    near = near_names(name, known)
    return f"Did you mean {' or '.join(near)}?" if near else ""


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """Return at most two known names that are close to a name, the nearest first; case does not count."""
    by_fold = {other.casefold(): other for other in sorted(known)}
    return [by_fold[found] for found in difflib.get_close_matches(name.casefold(), by_fold, n=2)]


def with_all(name: str, known: Iterable[str], *, what: str) -> str:
    """Return the next step for an unknown name: the near ones, then all: ``Did you mean pods? Known: nodes, pods.``

    ``what`` introduces all of them, as ``Known``; empty where nothing is known.
    """
    names = list(dict.fromkeys(known))
    if not names:
        return ""
    return f"{did_you_mean(name, names)} {what}: {', '.join(names)}.".lstrip()
