"""Metric families that repeat another one: a built-in one, or one of the operator's own. Found by their values.

*A built-in one.* An own family and a built-in one are the same when, reduced to the labels that they share by whatever
name, they are equal at every scrape: exactly where the operator was idle, and while it worked to within the reconciles
in progress, each of which may be counted by one family and not yet by the other. Seconds are compared when idle only,
and with the tolerance of two clocks around the same work.

Among thousands of slices of built-in families some agree by chance. The evidence against chance is the information
content of the changes that both families share, at the scrapes at which either family changed: a random column with the
same mean matches one of n bits once in 2^n times. (The changes are assumed to be geometrically distributed, which
assumes least of counts with a given mean.) A match counts from one chance in 1000 on, over all slices that were tried.
So a series that hardly changes proves nothing.

*Another of its own.* Two counts of one thing are equal at every scrape, exactly, also while work is in progress: there
an attempt and its success, a start and an end differ. So the comparison is stricter than between a family and a
built-in one, which count the same event at two moments; only whole families are compared, reduced to the labels that
they share; and they have to have changed together several times while work was in progress. That is no proof: attempts
and successes of a run without failures, with short work, look the same.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ...exposition.families import LIBRARIES, Family, MetricType
from ..result import FamilyVerdict, VerdictKind
from .aggregation import Column, Group, Groups, Measure, Slice, measures, project, query, shared_labels, slices
from .history import TargetHistory
from .idleness import at_rest, rests, workers

LEAST_CHANGES = 3
"""Scrapes during work at which both have changed."""

_Key = tuple[bool, tuple[float | None, ...]]
"""Whether it counts, and its sum at each scrape: two families must share both to be compared at all."""

_BITS = 10.0
"""One chance in 1024."""

_BITS_OF_CHANGE = 16.0
"""Upper bound of the evidence from one change, however large."""

_REAL_SHARE = 0.05
"""Two clocks around the same work differ by less than this share of it."""

_BITS_OF_REAL_CHANGE = math.log2(1 / (2 * _REAL_SHARE))

_ROUNDING = 1e-9


_OF_GARBAGE = ("go_gc_cleanups_", "go_gc_finalizers_")
"""What Go's runtime does as values end, of as many as the program makes of a kind: certificates, keys, files. It says
nothing of what they are. (https://pkg.go.dev/runtime#AddCleanup)"""


class Builtin(Protocol):
    """A family of the catalogue."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> MetricType: ...
    @property
    def labels(self) -> tuple[str, ...]: ...


class Collision(NamedTuple):
    """A family with the name of a built-in one."""

    family: str
    builtin: str
    why: str
    """The evidence that they differ."""


class Twin(NamedTuple):
    """A family that another of the same program makes superfluous."""

    family: str
    other: str
    """The family that has the same information, or more."""
    query: str
    """PromQL that gives the same from the other."""
    at_work: int
    """Scrapes during work at which both have changed."""


def verdicts(target: TargetHistory, catalogue: Mapping[str, Builtin]) -> list[FamilyVerdict]:
    """Return the verdict on each family, as served, that no library defines, by name."""
    collided = [
        FamilyVerdict(family=one.family, kind="collision", other=one.builtin, why=one.why)
        for one in collisions(target, catalogue)
    ]
    taken = {verdict.family for verdict in collided}
    all_measures = measures(target)
    repeated = [name for name in all_measures if name in catalogue and not name.startswith(_OF_GARBAGE)]
    scene = _Scene(target, [one for name in repeated for one in all_measures[name]])
    own = {
        family: of
        for family, of in all_measures.items()
        if not (family in taken or family in catalogue or family.startswith(LIBRARIES) or family.endswith("_created"))
    }
    by_values = {family: scene.verdict(family, of) for family, of in own.items()}
    novel = {family: of for family, of in own.items() if by_values[family].kind == "novel"}
    by_values |= {twin.family: _of_twin(twin, target) for twin in twins(target, novel)}
    return sorted([*collided, *by_values.values()], key=lambda verdict: verdict.family)


def _of_twin(twin: Twin, target: TargetHistory) -> FamilyVerdict:
    why = f"equal at all {len(target.moments)} scrapes, and changed with it at {twin.at_work} while work was under way"
    return FamilyVerdict(family=twin.family, kind="duplicate", other=twin.other, of_own=True, query=twin.query, why=why)


def collisions(target: TargetHistory, catalogue: Mapping[str, Builtin]) -> Iterator[Collision]:
    """Yield the families that have a built-in one's name without being it, or whose samples would have its name."""
    labels = {name: {label for one in of for label in one.values} for name, of in measures(target).items()}
    owners = {name: builtin for builtin in catalogue.values() for name in _names(builtin.name, builtin.type)}
    for name, family in sorted(target.families.items()):
        why = ""
        if builtin := catalogue.get(name):
            why = _unlike(family, labels.get(name, set()), builtin)
        elif builtin := next((owners[used] for used in _names(name, family.type) if used in owners), None):
            why = f"a {family.type}: samples, or its name in OpenMetrics, meet those of the built-in {builtin.type}"
        if builtin and why:
            yield Collision(name, builtin.name, why)


def _unlike(family: Family, labels: set[str], builtin: Builtin) -> str:
    """Return why a family is not the built-in one of its name; fewer labels mean an older version."""
    if family.type not in (builtin.type, "unknown"):
        return f"a {family.type}, the built-in one is a {builtin.type}"
    more = sorted(labels - set(builtin.labels))
    return f"with labels that the built-in one lacks: {', '.join(more)}" if more else ""


def _names(name: str, kind: MetricType) -> set[str]:
    """Return the names that a family occupies: its own, its samples', and the one that OpenMetrics gives it."""
    if kind in ("histogram", "summary"):
        return {name, *(name + suffix for suffix in ("_bucket", "_count", "_sum"))}
    return {name, name.removesuffix("_total")} if kind == "counter" else {name}


def twins(target: TargetHistory, own: Mapping[str, list[Measure]]) -> Iterator[Twin]:
    """Yield the families that another one duplicates or contains; of two duplicates, the later one by name."""
    rest = at_rest(target)
    alike: dict[_Key, list[list[Measure]]] = defaultdict(list)
    for _, of_family in sorted(own.items()):
        if sum(rest[scrape] is not True for scrape in of_family[0].changed) >= LEAST_CHANGES:
            alike[_key(of_family[0])].append(of_family)
    for families in alike.values():
        for position, family in enumerate(families):
            containing = [other for other in families if other is not family and _says_no_more(family, other)]
            # The first of several duplicates is kept.
            kept = [other for other in containing if other in families[:position] or not _says_no_more(other, family)]
            if kept:
                at_work = sum(rest[scrape] is not True for scrape in family[0].changed)
                yield Twin(family[0].family, kept[0][0].family, _query(family[0], kept[0][0]), at_work)


def _key(measure: Measure) -> _Key:
    total = project(measure, ())[()]
    return measure.counts, tuple(value or 0.0 for value in total) if measure.counts else tuple(total)


def _says_no_more(family: Sequence[Measure], other: Sequence[Measure]) -> bool:
    """Return whether another family contains all of a family: each of its series, and a histogram's sum too."""
    by_suffix = {one.suffix: one for one in other}
    pairs = [(one, by_suffix.get(one.suffix)) for one in family] if family[0].suffix else [(family[0], other[0])]
    return all(theirs is not None and _equal(ours, theirs) for ours, theirs in pairs)


def _equal(ours: Measure, theirs: Measure) -> bool:
    labels = shared_labels(ours, theirs)
    mine, others = project(ours, tuple(labels)), project(theirs, tuple(labels.values()))
    return len(mine) == len(ours.rows) and _columns(mine, zero=ours.counts) == _columns(others, zero=ours.counts)


def _columns(groups: Mapping[Group, Column], *, zero: bool) -> dict[Group, Column]:
    """Return the columns of groups; ``zero``: missing values count as 0, and columns that are always 0 are left out."""
    if not zero:
        return dict(groups)
    counted = {group: [value or 0.0 for value in column] for group, column in groups.items()}
    return {group: list(column) for group, column in counted.items() if any(column)}


def _query(family: Measure, other: Measure) -> str:
    labels = shared_labels(family, other)
    by = tuple(labels.values())
    return query(other, by, (), project(other, by))


class _Match(NamedTuple):
    measure: Measure
    labels: Mapping[str, str]
    """Labels of the own family → those of the built-in one."""
    taken: Slice
    groups: tuple[tuple[str, ...], ...]
    apart: float
    """The largest difference while work was in progress."""
    bits: float
    """Evidence of their changes against chance."""


class _Scene:
    """The built-in families that an endpoint serves, and the idle state of its scrapes."""

    def __init__(self, target: TargetHistory, served: list[Measure]) -> None:
        self._target = target
        self._served = [measure for measure in served if measure.moved]
        self._rest = at_rest(target)
        self._at_rest = sorted(rests(target))
        self._workers_of: dict[str, list[float]] = {}
        self._projected: dict[tuple[str, tuple[str, ...], Slice], Groups] = {}

    def verdict(self, family: str, own: list[Measure]) -> FamilyVerdict:
        if not any(measure.moved for measure in own):
            return FamilyVerdict(family=family, kind="unmoved", why="it never changed")
        matches = self._matches(own)
        if not matches:
            return FamilyVerdict(family=family, kind="novel")
        best = min(matches, key=_simplest)
        name = best.measure.family if own[0].suffix else best.measure.name
        finer = len(project(own[0], tuple(best.labels))) < len(own[0].rows)
        extra = sorted(own[0].values.keys() - best.labels.keys())
        instead = query(best.measure, tuple(best.labels.values()), best.taken, best.groups)
        why = f"equal at {len(self._rest)} scrapes, {len(self._at_rest)} of them at rest"
        if best.apart:
            why += f", to within {best.apart:g} while it worked"
        if finer:
            why += f", summed over {', '.join(extra)}"
        kind: VerdictKind = "refinement" if finer else "duplicate"
        return FamilyVerdict(family=family, kind=kind, other=name, query=instead, why=why)

    def _matches(self, own: list[Measure]) -> list[_Match]:
        """Return the matches of a family with a built-in one, a histogram in count and sum; empty if due to chance."""
        first, tried = own[0], 0
        agreed: list[_Match] = []
        for built in self._served:
            if bool(first.suffix) and built.suffix != first.suffix:
                continue
            labels = shared_labels(first, built)
            for taken in slices(built, labels.values()):
                tried += 1
                match = self._match(first, built, labels, taken)
                if match is not None and all(self._agrees(more, match) for more in own[1:]):
                    agreed.append(match)
        return [match for match in agreed if match.bits >= _BITS + math.log2(tried)]

    def _agrees(self, more: Measure, match: _Match) -> bool:
        """Return whether a histogram's sum agrees too, given that its count does."""
        other = next((one for one in self._served if one.name == match.measure.family + more.suffix), None)
        return other is not None and self._match(more, other, match.labels, match.taken) is not None

    def _match(self, own: Measure, built: Measure, labels: Mapping[str, str], taken: Slice) -> _Match | None:
        """Return the match of the two, or None where they differ."""
        by = tuple(labels.values())
        ours, theirs = self._groups(own, tuple(labels), ()), self._groups(built, by, taken)
        if not set(ours) & set(theirs) or own.real != built.real:
            return None
        # Both time long work when it ends; while it lasts, one may be ahead by all of it.
        scrapes = self._at_rest or [-1] if own.real else range(len(self._rest))
        compared: list[list[float]] = []
        apart = 0.0
        for group, column in ours.items():
            controller = dict(zip(by, group, strict=True)).get("controller", "")
            pairs = _Pairs(column, theirs.get(group), scrapes, zero=own.counts and built.counts)
            difference = _near(pairs) if own.real else self._apart(pairs, controller)
            if difference is None:
                return None
            apart = max(apart, difference)
            compared.append(list(pairs.changes(own.changed | built.changed, relative=own.real)))
        bits = sum(_bits(changes, apart, real=own.real) for changes in compared)
        return _Match(built, labels, taken, tuple(ours), apart, bits)

    def _apart(self, pairs: _Pairs, controller: str) -> float | None:
        """Return the difference of two counts while work is in progress; None where it exceeds the tolerance."""
        apart = 0.0
        for scrape, a, b in pairs:
            difference = abs(a - b)
            if difference <= _ROUNDING * max(abs(a), abs(b)):
                continue
            if self._rest[scrape] is not False or not difference <= self._workers(controller)[scrape]:
                return None
            apart = max(apart, difference)
        return apart

    def _workers(self, controller: str) -> list[float]:
        if controller not in self._workers_of:
            self._workers_of[controller] = workers(self._target, controller)
        return self._workers_of[controller]

    def _groups(self, measure: Measure, by: tuple[str, ...], taken: Slice) -> Groups:
        key = (measure.name, by, taken)
        if key not in self._projected:
            self._projected[key] = project(measure, by, taken)
        return self._projected[key]


def _near(pairs: _Pairs) -> float | None:
    """Return 0 where two clocks agree; None where they do not."""
    return 0.0 if all(abs(a - b) <= _REAL_SHARE * max(abs(a), abs(b)) for _, a, b in pairs) else None


def _simplest(match: _Match) -> tuple[int, int, bool, float, str]:
    """Order matches: whole families before slices, more shared labels first, plain values before a count or sum."""
    return len(match.taken), -len(match.labels), bool(match.measure.suffix), match.apart, match.measure.name


@dataclass(frozen=True)
class _Pairs:
    """Two columns where both are known, the last scrape first: most differences are largest there."""

    left: Column
    right: Column | None
    scrapes: Sequence[int]
    zero: bool
    """Missing values count as 0."""

    def __iter__(self) -> Iterator[tuple[int, float, float]]:
        for scrape in reversed(self.scrapes):
            a, b = self.left[scrape], self.right[scrape] if self.right is not None else None
            if self.zero:
                yield scrape, a or 0.0, b or 0.0
            elif a is not None and b is not None:
                yield scrape, a, b

    def changes(self, at: Set[int], *, relative: bool) -> Iterator[float]:
        """Yield the left one's changes, at some scrapes; ``relative``: as a share of its value before or after.

        Between two of these scrapes it may have changed at others.
        """
        for (after, one, _), (before, other, _) in itertools.pairwise(self):
            if any(scrape in at for scrape in range(before + 1, after + 1)):
                change = abs(one - other)
                yield change / (max(abs(one), abs(other)) or 1.0) if relative else change


def _bits(changes: Sequence[float], apart: float, *, real: bool) -> float:
    """Return the bits needed to encode a column's changes, each known to within ``apart`` on either side."""
    if real:
        return _BITS_OF_REAL_CHANGE * sum(change > 2 * _REAL_SHARE for change in changes)
    mean = sum(changes) / len(changes) if changes else 0.0
    if not mean:
        return 0.0
    costs = (math.log2(1 + mean) + change * math.log2((1 + mean) / mean) for change in changes)
    return sum(max(min(cost, _BITS_OF_CHANGE) - math.log2(1 + 2 * apart), 0.0) for cost in costs)
