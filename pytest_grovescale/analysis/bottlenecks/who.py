"""Who was waited for: the rows that add up to the phase."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ...recording.records import Request
from ..api import roles
from ..contents import Contents, PhaseSpan
from ..result import BottleneckRow, Suspect
from .activity import Activity, Sent, activity, sent
from .clocks import Window, used_ns, waiting_ns, windows_of
from .rows import row
from .scrapes import LIMITER, limited_seconds, requests_of_client
from .turns import OPERATOR, Turns, turns
from .waits import Waits

_ROLES: Mapping[str, Suspect] = {
    "kube-scheduler": "scheduler",
    "kwok": "kwok",
    "kube-controller-manager": "garbage-collector",
}
"""Role of an identity → suspect."""

_USERS: Mapping[str, Suspect] = {
    "system:kube-scheduler": "scheduler",
    "system:kube-controller-manager": "garbage-collector",
    "system:serviceaccount:kube-system:generic-garbage-collector": "garbage-collector",
    "system:serviceaccount:kube-system:kwok-controller": "kwok",
}
"""User names that the components have where nobody gave them others → suspect."""

_EVIDENCE: Mapping[Suspect, str] = {
    "scheduler": "pods until their binding was answered, by the audit log",
    "kwok": "objects until kwok's write to them was answered, by the audit log",
    "garbage-collector": "objects until the controller manager's write to them was answered, by the audit log",
}
_TOLD_S = 0.005


def who(contents: Contents, phase: PhaseSpan, waits: Waits, requests: Sequence[Request]) -> list[BottleneckRow]:
    """Return a row for everybody whom the phase's objects waited for. ``requests``: the phase's, from the audit log."""
    read = windows_of(contents, phase, OPERATOR)
    windows = read or [Window(phase.start, contents.end_of(phase))]
    way = sent(requests, contents.opened.identities.get(OPERATOR, ""), contents.clock, requests_of_client(phase))
    split = turns(waits, _actors(contents), way.spans, windows)
    reads = contents.reads[OPERATOR] if read else []
    ready = [waiting_ns(reads, window) for window in windows]
    busy = [(used_ns(reads, window) + (late or 0.0)) / 1e9 for window, late in zip(windows, ready, strict=True)]
    mine = activity(split, busy if read else None, requests_s=way.seconds, limited_s=limited_seconds(phase))
    length = sum(window.ns for window in windows) / 1e9
    rows = _of_operator(mine, way, ready, length) if OPERATOR in contents.opened.identities else []
    return [*rows, *_of_others(split, mine, length, contents)]


def _actors(contents: Contents) -> dict[str, str]:
    """Return user → who it is in the table; a role that is no suspect keeps its name."""
    found: dict[str, str] = dict(_USERS)
    found |= {user: _ROLES.get(role, role) for user, role in roles(contents.opened.identities).items()}
    return found


def _of_operator(mine: Activity, way: Sent, ready: Sequence[float | None], length: float) -> list[BottleneckRow]:
    rows: list[BottleneckRow] = []
    if mine.cpu is not None:
        told = [late for late in ready if late is not None]
        late = f"{sum(told) / 1e9:.2f} s of the phase" if told else "for a time that the kernel did not tell"
        evidence = f"its CPU clock while it was waited for; it was ready to run without a core {late}"
        rows.append(row("operator-cpu", mine.cpu, of=length, evidence=evidence))
    rows.append(row("operator-api", mine.api, of=length, evidence=_of_requests(mine, way)))
    if mine.limited is not None:
        rows.append(row("operator-rate-limit", mine.limited, of=length, evidence=f"{LIMITER} at the phase's edges"))
    return rows


def _of_requests(mine: Activity, way: Sent) -> str:
    found = f"{len(way.spans)} requests in the audit log"
    if way.spans:
        found += f", {way.seconds / len(way.spans) * 1000:.1f} ms each"
    if way.beyond_s:
        found += f", of which {way.beyond_s * 1000:.1f} ms before and after it, by its client's histogram"
    return found + ("; its time on CPU is taken out" if mine.cpu is not None else "; its time on CPU is not known")


def _of_others(split: Sequence[Turns], mine: Activity, length: float, contents: Contents) -> list[BottleneckRow]:
    # Without its CPU clock an operator that makes no request may be at work all the same.
    known = mine.cpu is not None
    others: defaultdict[str, float] = defaultdict(float, mine.passed_on if known else {})
    for turn in split:
        for actor, seconds in turn.others.items():
            others[actor] += seconds
    suspects = {_ROLES[role] for role in contents.opened.identities if role in _ROLES}
    suspects |= {suspect for suspect in _EVIDENCE if others.get(suspect)}
    rows = [row(suspect, others[suspect], of=length, evidence=_EVIDENCE[suspect]) for suspect in sorted(suspects)]
    parts = {"no object waited": sum(turn.idle for turn in split)}
    if known:
        parts["the operator was still while it was waited for"] = mine.still
    parts |= {f"{actor} was waited for": others[actor] for actor in sorted(others) if actor not in _EVIDENCE}
    left_out = 0.0 if known else mine.still + sum(mine.passed_on.values())
    return [*rows, row("nobody", sum(parts.values()), of=length, evidence=_of_nobody(parts, left_out))]


def _of_nobody(parts: Mapping[str, float], left_out: float) -> str:
    found = [f"{what} {seconds:.2f} s" for what, seconds in parts.items() if seconds >= _TOLD_S]
    if left_out >= _TOLD_S:
        found.append(f"{left_out:.2f} s of the operator's turns are left out: its CPU clock was not read")
    return "; ".join(found) or "no gap"
