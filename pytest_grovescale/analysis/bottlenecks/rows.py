"""A row of the bottleneck table, and the labels of its suspects."""

from __future__ import annotations

from collections.abc import Mapping

from ..result import BottleneckRow, Suspect

WORDS: Mapping[Suspect, str] = {
    "operator-cpu": "operator using CPU",
    "operator-core-wait": "operator waiting for a core",
    "operator-queue": "work-queue wait (upper bound)",
    "operator-rate-limit": "operator held by its client-side rate limit",
    "operator-api": "operator waiting for its requests",
    "api-server": "API server CPU-bound",
    "api-server-core-wait": "API server waiting for a core",
    "scheduler": "pods waiting for the scheduler",
    "scheduler-core-wait": "scheduler waiting for a core",
    "kwok": "pods waiting for the simulated kubelet (kwok)",
    "kwok-core-wait": "simulated kubelet (kwok) waiting for a core",
    "garbage-collector": "objects waiting for the garbage collector",
    "controller-manager-core-wait": "controller manager waiting for a core",
    "machine": "machine saturated",
    "unattributed": "unattributed",
}

ACROSS: frozenset[Suspect] = frozenset({"operator-queue", "api-server", "machine"})
"""Contributing factors: they overlap with the rows that add up to the phase."""

AT_MOST: frozenset[Suspect] = frozenset({"operator-queue"})
"""Rows that are upper bounds."""


def row(suspect: Suspect, seconds: float, *, of: float, evidence: str) -> BottleneckRow:
    """Return a row; ``of``: seconds of the phase, the maximum of any row."""
    seconds = min(of, max(0.0, seconds))
    return BottleneckRow(suspect=suspect, seconds=seconds, share=seconds / of, evidence=evidence)
