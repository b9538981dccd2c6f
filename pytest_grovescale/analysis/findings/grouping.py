"""What findings are evidence of, and which of them another one explains: each cause is shown once, first.

A rule says of a finding what it speaks of (`Aspect`) and by what: requests, fields of objects, times (`About`). Two
rules that met the same requests, or the same field of the same objects, met one cause. The finding that is nearer to
the cause explains the other, which is shown with it.

The order of aspects is that in which an operator's faults become visible: what happens to its process shows in
objects, a state that is not right in requests, requests in amounts, and amounts in time. It is also that of what a
reader wants to know first: what stays after the run stands before what costs a bit.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Collection, Iterable, Sequence

import msgspec

from ..result import SEVERITIES, Finding
from .evidence import ObjectId, Sent, Span

_MOST = 0.8
"""Share of what a finding rests on that another one has to have, to explain it."""

_MANY = 3
"""Findings that a cause explains from which it stands before others of its severity."""

Times = Sequence[tuple[int, int]]
"""Begin and end of each, ns of the recorder's clock."""


class Aspect(enum.IntEnum):
    """What a finding speaks of, from causes to consequences."""

    PROCESS = 1
    """The process itself, and what it is allowed: a crash, a panic, a right that is missing."""
    STATE = 2
    """Objects or figures that are not as they should be, and stay so: left, wrong, contested, growing."""
    ACTION = 3
    """Requests that should not be: without effect, refused, repeated, for what is known."""
    AMOUNT = 4
    """How much there is of something: requests, reconciles, CPU, bytes of a log."""
    TIME = 5
    """How long something took, or that nothing happened."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class About:
    """What one finding speaks of, and by what; without requests, objects or times it explains nothing."""

    aspect: Aspect
    requests: Collection[Sent] = ()
    """All requests that are as they are because of what the finding says, or by which it is known."""
    objects: Collection[tuple[str, ObjectId]] = ()
    """(resource, object) of each that is not as it should be."""
    field: str = ""
    """What of these objects: a path, as ``spec.template``."""
    times: Times = ()
    """When, where that is all that is known: the time of whole phases, of idle windows."""

    @functools.cached_property
    def numbers(self) -> frozenset[int]:
        """The requests, as numbers in the log."""
        return frozenset(one.number for one in self.requests)

    @functools.cached_property
    def places(self) -> frozenset[tuple[str, ObjectId]]:
        """The objects."""
        return frozenset(self.objects)


def of_time(span: Span, requests: Collection[Sent] = ()) -> About:
    """Return what a finding is about that says how long something took in a phase."""
    return About(aspect=Aspect.TIME, requests=requests, times=[(span.start, span.end)])


def of_outcome(aspect: Aspect, phases: Iterable[str]) -> About:
    """Return what a finding is about that says why phases did not reach their milestones."""
    return About(aspect=aspect, objects={("phases", ("", phase)) for phase in phases}, field="outcome")


def of_failures(aspect: Aspect = Aspect.AMOUNT) -> About:
    """Return what a finding is about that says how often reconciles failed, or what with."""
    return About(aspect=aspect, objects={("reconciles", ("", "failed"))}, field="result")


class Found(Finding, frozen=True, kw_only=True):
    """A finding as its rule makes it."""

    about: About


def explains(cause: About, other: About) -> bool:
    """Return whether what one finding says is why there is another; both may explain each other.

    Requests are compared where the other rests on some, fields of objects else, and times where it has neither.
    """
    if cause.aspect > other.aspect:
        return False
    if other.requests:
        return len(cause.numbers & other.numbers) >= _MOST * len(other.numbers)
    if other.objects:
        same = bool(other.field) and _is_part(cause.field, other.field)
        return same and len(cause.places & other.places) >= _MOST * len(other.places)
    # Of two times that are the same, only one of the same nature says why.
    return cause.aspect == other.aspect and bool(other.times) and _common(cause.times, other.times) >= _MOST


def _is_part(path: str, other: str) -> bool:
    """Return whether two paths name one field, or one of them a part of the other's."""
    short, long = sorted((path, other), key=len)
    return bool(short) and (long == short or long.startswith((f"{short}.", f"{short}[")))


def _common(times: Times, others: Times) -> float:
    """Return the share of the others that these times cover."""
    lengths = sum(end - start for start, end in others)
    both = sum(max(0, min(end, until) - max(start, begin)) for start, end in others for begin, until in times)
    return both / lengths if lengths else 0.0


def grouped(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings, the most severe first, then those that explain many, then by aspect; each with what it explains.

    A group is as severe as the most severe of it. Findings without `About` stand alone, as ones of a state where they
    are defects, else of an action.
    """
    ranked = sorted(enumerate(found), key=_rank)
    roots: dict[int, int] = {}
    """Number of a finding → that of its cause; itself without one."""
    for place, (number, one) in enumerate(ranked):
        before = [(cause, other) for cause, other in ranked[:place] if _follows_from(other, one)]
        # What a consequence explains follows from its cause.
        before.sort(key=lambda pair: roots[pair[0]] != pair[0])
        roots[number] = roots[before[0][0]] if before else number
    groups = [
        (_aspect(one), number, joined(one, [other for of, other in ranked if of != number and roots[of] == number]))
        for number, one in ranked
        if roots[number] == number
    ]
    groups.sort(key=_place)
    return tuple(one for _, _, one in groups)


def _place(group: tuple[Aspect, int, Finding]) -> tuple[int, bool, bool, Aspect, int]:
    """Return where a group stands: what explains many others is what to mend first, but for what ends the process."""
    aspect, number, one = group
    severity = SEVERITIES.index(one.severity)
    return severity, aspect is not Aspect.PROCESS, len(one.explains) < _MANY, aspect, number


def by_severity(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in their order, the most severe first."""
    return tuple(sorted(found, key=lambda one: SEVERITIES.index(one.severity)))


def joined(one: Finding, others: Sequence[Finding]) -> Finding:
    """Return a finding with others below it, and is as severe as the most severe of them."""
    below = (*one.explains, *(part for other in others for part in _plain(other).all))
    worst = min((one.severity, *(other.severity for other in below)), key=SEVERITIES.index)
    return _plain(msgspec.structs.replace(one, severity=worst, explains=below))


def _rank(one: tuple[int, Finding]) -> tuple[bool, int, int, int, int]:
    """Return where a finding stands among causes: by its aspect, then those first that rest on most; notes last."""
    number, finding = one
    about = finding.about if isinstance(finding, Found) else None
    return (
        finding.severity == "note",
        _aspect(finding),
        -len(about.numbers) if about is not None else 0,
        -len(about.places) if about is not None else 0,
        number,
    )


def _aspect(one: Finding) -> Aspect:
    if isinstance(one, Found):
        return one.about.aspect
    return Aspect.STATE if one.severity == "defect" else Aspect.ACTION


def _follows_from(cause: Finding, one: Finding) -> bool:
    """Return whether a finding follows from another one. What may be intended is no cause of what is wrong."""
    if not (isinstance(cause, Found) and isinstance(one, Found)) or cause.severity == "note" != one.severity:
        return False
    return explains(cause.about, one.about)


def _plain(one: Finding) -> Finding:
    """Return a finding as results have it."""
    return Finding(
        id=one.id, severity=one.severity, text=one.text, evidence=one.evidence, check=one.check, explains=one.explains
    )
