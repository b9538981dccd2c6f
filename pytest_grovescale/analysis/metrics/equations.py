"""Equations between series, as `invariant` states them: ``sum(a) by (x) == sum(b{code="409"}) by (x)``.

    equation  = side ("==" | "<=" | ">=") side
    side      = term (("+" | "-") term)*
    term      = number | "sum" [by] "(" counted ")" [by]
    counted   = selector | "increase" "(" selector ")"
    by        = "by" "(" label ("," label)* ")"

A part of PromQL, with its words in its meaning, but for one: ``increase`` has no window, it is what a counter grew by
since the recording's first scrape. All sums of an equation have the same ``by``, so that each group on the left has
its counterpart on the right.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, cast

from .selection import Reader, Selector, read_selector

Sign = Literal[1, -1]
Relation = Literal["==", "<=", ">="]

_RELATIONS: tuple[Relation, ...] = ("==", "<=", ">=")


class Sum(NamedTuple):
    """The sum of some series' values, or of their growth."""

    selector: Selector
    increase: bool = False

    def __str__(self) -> str:
        return f"sum(increase({self.selector}))" if self.increase else f"sum({self.selector})"


class Term(NamedTuple):
    """A sum, or a number, that is added to a side or subtracted."""

    sign: Sign
    value: Sum | float


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
    for other, at in by:
        if set(other) != set(labels):
            reader.wrong(
                f"this sum is {_said(other)}, the first one {_said(labels)}",
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
    if reader.take("name", "sum") is None:
        reader.wrong("`sum(…)` or a number is needed here", next_step="Write sum(name), also for a single series.")
    labels = _by(reader)
    reader.need("sign", "`(`", "(")
    counted = _counted(reader)
    reader.need("sign", "`)`", ")")
    if not labels:
        labels = _by(reader)
    by.append((labels, at))
    return Term(sign, counted)


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


def _said(labels: tuple[str, ...]) -> str:
    return f"by {', '.join(labels)}" if labels else "of all series together"
