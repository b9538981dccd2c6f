"""Profiles recorded from real programs (tests/data/profiles), and how to read text as one."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from pytest_grovescale.analysis.profiles import folded, pprof
from pytest_grovescale.analysis.profiles.stacks import StackCounter, Stacks
from pytest_grovescale.recording.records import ProfileKind

DATA = Path(__file__).parents[3] / "data" / "profiles"
PYSPY = DATA / "asyncio.raw"
"""py-spy 0.4.3 with --threads: an event loop with three tasks, and a thread named ``wörker; one``."""
CPU, HEAP, GOROUTINES = (DATA / f"known_shares.{kind}.pb.gz" for kind in ("cpu", "heap", "goroutine"))
"""Go 1.26: benchmarks/programs/known_shares_go."""


def read_folded(data: bytes | str, counter: StackCounter | None = None) -> Stacks:
    counter = counter or StackCounter()
    folded.feed(counter, BytesIO(data.encode() if isinstance(data, str) else data))
    return counter.stacks()


def read_pprof(data: bytes, kind: ProfileKind = "pprof") -> Stacks:
    counter = StackCounter()
    pprof.feed(counter, data, kind)
    return counter.stacks()


def names(stacks: Stacks) -> dict[tuple[str, ...], int]:
    return {tuple(function.name for function in functions): weight for functions, weight in stacks.items()}
