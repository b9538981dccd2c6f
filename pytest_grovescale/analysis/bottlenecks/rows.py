"""A row of the table, and the words for its suspect."""

from __future__ import annotations

from collections.abc import Mapping

from ..result import BottleneckRow, Suspect

WORDS: Mapping[Suspect, str] = {
    "operator-cpu": "operator CPU-bound",
    "operator-queue": "keys waiting for a free worker at most",
    "operator-rate-limit": "operator held by its client's rate limit",
    "operator-api": "operator waiting for its requests",
    "api-server": "API server CPU-bound",
    "scheduler": "pods waiting for the scheduler",
    "kwok": "pods waiting for kwok",
    "garbage-collector": "objects waiting for the garbage collector",
    "machine": "machine saturated",
    "nobody": "nobody under test at work",
}

AT_MOST: frozenset[Suspect] = frozenset({"operator-queue"})
"""Rows that are upper bounds: how long at most."""


def row(suspect: Suspect, seconds: float, *, of: float, evidence: str) -> BottleneckRow:
    """Return a row; ``of``: seconds of the phase, which no row exceeds."""
    seconds = min(of, max(0.0, seconds))
    return BottleneckRow(suspect=suspect, seconds=seconds, share=seconds / of, evidence=evidence)
