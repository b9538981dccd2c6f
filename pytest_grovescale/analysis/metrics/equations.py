"""Equations between series, ``sum(a) by (x) == sum(b{code="409"}) by (x)``, parsed and evaluated at each scrape.

    equation  = side ("==" | "<=" | ">=") side
    side      = term (("+" | "-") term)*
    term      = number | "sum" [by] "(" counted ")" [by] | "objects" "(" kind ("," state)* ")"
    counted   = selector | "increase" "(" selector ")"
    by        = "by" "(" label ("," label)* ")"
    state     = "ready" "=" ("True" | "False") | "phase" "=" value | "condition" "=" value

A part of PromQL, with its words in its meaning, but for one: ``increase`` has no window, it is what a counter grew by
since the recording's first scrape. All sums of an equation have the same ``by``, so that each group on the left has
its counterpart on the right.

``objects("pods", ready=True)`` is the number of objects that the recorder's watches showed at the scrape: of a kind by
its plural, with its group or without; ``condition="Available"`` is short for ``condition="Available=True"``. Scrapes
shortly before or after a change of such an object are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple, cast

from ...exposition.families import family_of, parse
from ...suggestions import with_all
from .counters import counts, increases
from .history import TargetHistory
from .object_states import ObjectStates, Wanted
from .selectors import Reader, Selector, read_selector

Sign = Literal[1, -1]

Relation = Literal["==", "<=", ">="]

_RELATIONS: tuple[Relation, ...] = ("==", "<=", ">=")

Group = tuple[str, ...]

Groups = dict[Group, float]

_STATES = ("ready", "phase", "condition")
"""What objects can be asked for."""

_ROUNDING = 1e-9
"""Relative difference of sums of seconds that the order of additions may cause."""


class Sum(NamedTuple):
    """The sum of some series' values, or of their growth."""

    selector: Selector
    increase: bool = False

    def __str__(self) -> str:
        return f"sum(increase({self.selector}))" if self.increase else f"sum({self.selector})"


class Objects(NamedTuple):
    """The number of objects of a kind, all or those in some states."""

    wanted: Wanted

    def __str__(self) -> str:
        states = [f"{state}" for state in self.wanted.states] + [f"no {state}" for state in self.wanted.absent]
        return f"objects({', '.join([self.wanted.kind, *states])})"


class Term(NamedTuple):
    """A sum, a number of objects, or a number, that is added to a side or subtracted."""

    sign: Sign
    value: Sum | Objects | float


class Equation(NamedTuple):
    """Two sides and the relation between them."""

    left: tuple[Term, ...]
    relation: Relation
    right: tuple[Term, ...]
    by: tuple[str, ...] = ()
    """Labels for each of whose values it should hold; none: for all series together."""

    @property
    def sums(self) -> tuple[Sum, ...]:
        """All sums on both sides, in their order."""
        return tuple(term.value for term in (*self.left, *self.right) if isinstance(term.value, Sum))

    @property
    def objects(self) -> tuple[Objects, ...]:
        """All numbers of objects on both sides."""
        return tuple(term.value for term in (*self.left, *self.right) if isinstance(term.value, Objects))


class Balance(NamedTuple):
    """Both sides of an equation for one group at one scrape."""

    scrape: int
    group: Group
    """Values of the equation's ``by`` labels."""
    left: float
    right: float
    apart: float
    """Distance from equality (or the bound): 0 where the equation holds."""


class Unknown(NamedTuple):
    """A scrape at which a side could not be computed."""

    scrape: int
    why: str


def equation(text: str) -> Equation:
    """Return the parsed equation. Raises ExpressionError with the place of the error."""
    reader = Reader(text)
    by: list[tuple[tuple[str, ...], int]] = []
    left = _side(reader, by)
    relation = cast(Relation, reader.need("sign", "`==`, `<=`, `>=`, `+` or `-`", *_RELATIONS).text)
    right = _side(reader, by)
    reader.need("end", "`+`, `-` or the end")
    if not by:
        reader.wrong("there is no sum of series in it", at=0, next_step="Write sum(name) for a metric's series.")
    labels = by[0][0]
    if labels and any(isinstance(term.value, Objects) for term in (*left, *right)):
        reader.wrong(
            "objects(…) has no labels, and cannot be compared with a sum by labels",
            at=by[0][1],
            next_step="Select the series by their labels, and write one equation for each.",
        )
    for other, at in by:
        if set(other) != set(labels):
            reader.wrong(
                f"this sum is {_grouping(other)}, the first one {_grouping(labels)}",
                at=at,
                next_step="Give all sums the same `by (…)`.",
            )
    return Equation(left, relation, right, labels)


def _side(reader: Reader, by: list[tuple[tuple[str, ...], int]]) -> tuple[Term, ...]:
    terms = [_term(reader, 1, by)]
    while operator := reader.take("sign", "+", "-"):
        terms.append(_term(reader, 1 if operator.text == "+" else -1, by))
    return tuple(terms)


def _term(reader: Reader, sign: Sign, by: list[tuple[tuple[str, ...], int]]) -> Term:
    if number := reader.take("number"):
        return Term(sign, float(number.text))
    at = reader.next.at
    if reader.take("name", "objects") is not None:
        return Term(sign, Objects(_objects(reader)))
    if reader.take("name", "sum") is None:
        reader.wrong(
            'expected `sum(…)`, `objects("…")` or a number', next_step="Write sum(name), also for a single series."
        )
    labels = _by(reader)
    reader.need("sign", "`(`", "(")
    counted = _counted(reader)
    reader.need("sign", "`)`", ")")
    if not labels:
        labels = _by(reader)
    by.append((labels, at))
    return Term(sign, counted)


def _objects(reader: Reader) -> Wanted:
    reader.need("sign", "`(`", "(")
    kind = _text(reader, 'a kind in quotes, as "pods"')
    states: list[str] = []
    absent: list[str] = []
    while reader.take("sign", ","):
        name = reader.need("name", "ready, phase or condition")
        if name.text not in _STATES:
            reader.wrong(
                f"objects have no {name.text!r}", at=name.at, next_step=with_all(name.text, _STATES, what="There are")
            )
        reader.need("sign", "`=`", "=")
        if name.text == "ready":
            truth = reader.need("name", "`True` or `False`", "True", "False").text
            (states if truth == "True" else absent).append("condition Ready=True")
        elif name.text == "phase":
            states.append(f"phase {_text(reader, 'a phase in quotes')}")
        else:
            condition = _text(reader, "a condition in quotes")
            states.append(f"condition {condition if '=' in condition else condition + '=True'}")
    reader.need("sign", "`,` or `)`", ")")
    return Wanted(kind, tuple(states), tuple(absent))


def _text(reader: Reader, what: str) -> str:
    return reader.need("text", what).text[1:-1]


def _counted(reader: Reader) -> Sum:
    if reader.next.text != "increase":
        return Sum(read_selector(reader))
    reader.take("name")
    reader.need("sign", "`(`", "(")
    chosen = read_selector(reader)
    reader.need("sign", "`)`", ")")
    return Sum(chosen, increase=True)


def _by(reader: Reader) -> tuple[str, ...]:
    if reader.take("name", "by") is None:
        return ()
    reader.need("sign", "`(`", "(")
    labels = [reader.need("name", "the name of a label").text]
    while reader.take("sign", ","):
        labels.append(reader.need("name", "the name of a label").text)
    reader.need("sign", "`,` or `)`", ")")
    return tuple(labels)


def _grouping(labels: tuple[str, ...]) -> str:
    return f"by {', '.join(labels)}" if labels else "of all series together"


class _Column(NamedTuple):
    """A sum at every scrape."""

    groups: list[Groups | None]
    """None where its metric was not served."""
    absent: float | None
    """Value of a group without series: a counter gets its series when it first counts, so until then it is 0."""
    why: str


_Columns = dict[Sum | Objects, _Column]


def balances(
    equation: Equation, target: TargetHistory, objects: ObjectStates | None = None
) -> Iterator[Balance | Unknown]:
    """Yield both sides of an equation for every group at every scrape, or why a side could not be computed.

    ``objects``: what the recording shows of objects; without it, equations with numbers of objects are unknown.
    """
    columns: _Columns = {one: _column(target, one, equation.by) for one in equation.sums}
    columns |= {one: _objects_column(target, one, objects) for one in equation.objects}
    moving = objects is not None and bool(equation.objects)
    for scrape in range(len(target.moments)):
        at = target.moments[scrape].at
        if moving and not all(objects.still(one.wanted.kind, at) for one in equation.objects if objects is not None):
            continue
        unknown = next((c.why for c in columns.values() if c.groups[scrape] is None), "")
        if unknown:
            yield Unknown(scrape, unknown)
            continue
        groups: set[Group] = set() if equation.by else {()}
        groups.update(group for column in columns.values() for group in column.groups[scrape] or ())
        for group in sorted(groups):
            yield _balance(equation, columns, scrape, group)


def _objects_column(target: TargetHistory, one: Objects, objects: ObjectStates | None) -> _Column:
    kind = one.wanted.kind
    if objects is None or not objects.resource(kind):
        known = [] if objects is None else objects.kinds()
        why = f"no watch of the recording shows {kind}"
        return _Column([None] * len(target.moments), None, f"{why}. {with_all(kind, known, what='It shows')}".strip())
    return _Column([{(): float(objects.count(one.wanted, moment.at))} for moment in target.moments], None, "")


def _balance(equation: Equation, columns: _Columns, scrape: int, group: Group) -> Balance | Unknown:
    sides = [_value_of_side(terms, columns, scrape, group) for terms in (equation.left, equation.right)]
    for side in sides:
        if isinstance(side, str):
            return Unknown(scrape, side)
    left, right = (side for side in sides if not isinstance(side, str))
    difference = left - right
    apart = {"==": abs(difference), "<=": max(difference, 0.0), ">=": max(-difference, 0.0)}[equation.relation]
    return Balance(scrape, group, left, right, 0.0 if math.isclose(left, right, rel_tol=_ROUNDING) else apart)


def _value_of_side(terms: tuple[Term, ...], columns: _Columns, scrape: int, group: Group) -> float | str:
    """Return a side's value, or why it has none."""
    total = 0.0
    for sign, value in terms:
        if isinstance(value, float):
            total += sign * value
            continue
        column = columns[value]
        summand = (column.groups[scrape] or {}).get(group, column.absent)
        if summand is None:
            return f"{value} has no series for {', '.join(group)}"
        if math.isnan(summand):
            return f"{value} is NaN"
        total += sign * summand
    return total


def _column(target: TargetHistory, one: Sum, by: tuple[str, ...]) -> _Column:
    chosen = one.selector.of(target.series)
    served = [series for series in target.series if parse(series).name == one.selector.name]
    counting = counts(one.selector.name, target.families)
    why = _why_not(target, one, served, by, counting=counting)
    if why:
        return _Column([None] * len(target.moments), None, why)
    scrapes = zip(*map(target.values, served), strict=True)
    groups: list[Groups | None] = [{} if any(value is not None for value in values) else None for values in scrapes]
    for series, parts in chosen.items():
        group = tuple(parts.labels.get(label, "") for label in by)
        values = increases(target, series) if one.increase else target.values(series)
        for at, value in zip(groups, values, strict=True):
            if at is not None and value is not None:
                at[group] = at.get(group, 0.0) + value
    return _Column(groups, 0.0 if counting else None, f"{one.selector.name} was not served")


def _why_not(target: TargetHistory, one: Sum, served: list[str], by: tuple[str, ...], *, counting: bool) -> str:
    """Return why a sum cannot be computed at any scrape; empty if it can."""
    name = one.selector.name
    if not served:
        members = sorted({parse(text).name for text in target.series} - {name})
        near = [member for member in members if family_of(member, target.families) == name]
        return f"there is no series {name}" + (f"; its samples are {', '.join(near)}" if near else "")
    labels = {label for text in served for label in parse(text).labels}
    needed = (*by, *(matcher.label for matcher in one.selector.matchers))
    if lacking := [label for label in needed if label not in labels]:
        return f"{name} has no label {lacking[0]!r}, it has: {', '.join(sorted(labels)) or 'none'}"
    if one.increase and not counting:
        return f"{name} is not a counter: its increase is undefined"
    if not counting and not one.selector.of(served):
        return f"no series fits {one.selector}"
    return ""
