"""The contributing factors of a phase, which overlap with the attribution rows."""

from __future__ import annotations

from collections.abc import Sequence

from ..contents import Contents, PhaseSpan
from ..result import BottleneckRow, CpuResult, Saturation
from .clocks import API_SERVER, api_server_seconds
from .rows import row
from .scrapes import backlog

_SHOWN = 3


def why(
    contents: Contents, phase: PhaseSpan, cpu: Sequence[CpuResult], saturation: Saturation | None
) -> list[BottleneckRow]:
    """Return the rows of the operator's work queue, the API server's CPU and the machine, as far as measured."""
    length = (contents.end_of(phase) - phase.start) / 1e9
    rows: list[BottleneckRow] = []
    if (queue := backlog(phase)) is not None:
        evidence = f"at most so long did keys of {queue.controller} wait for one of its {queue.workers} workers"
        rows.append(row("operator-queue", queue.seconds, of=length, evidence=evidence))
    if (bound := api_server_seconds(contents, phase)) is not None:
        used = next((f"{one.cores:.2f} cores" for one in cpu if one.process == API_SERVER), "")
        rows.append(row("api-server", bound, of=length, evidence=f"its share of the CPU that others left it: {used}"))
    if saturation is not None and (seconds := _saturated(saturation, length)) is not None:
        rows.append(row("machine", seconds, of=length, evidence=_users_of(cpu, contents.opened.machine.cores)))
    return rows


def _saturated(saturation: Saturation, length: float) -> float | None:
    """Return the saturated seconds of the 1 s timeline; without one, all of the phase or None."""
    if saturation.saturated_s is not None:
        return saturation.saturated_s
    return length if saturation.saturated else None


def _users_of(cpu: Sequence[CpuResult], cores: int) -> str:
    total = sum(one.seconds for one in cpu)
    parts = [f"{one.process} {one.seconds / total * 100:.0f} %" for one in cpu[:_SHOWN] if total > 0]
    return f"seconds with 95 % of {cores} cores in use; of the CPU {', '.join(parts)}"
