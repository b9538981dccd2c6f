"""Conditions in words, for reports."""

from __future__ import annotations

from .. import durations
from ..recording.conditions import AllOf, AnyOf, Condition, Count, FieldTest, Predicate, Timer

_READY = "status.conditions[type=Ready].status"


def text(condition: Condition) -> str:
    """Return a condition in words: ``1000 pods ready``, ``podcliqueset x: status.available ≥ 500``, ``0 pods``."""
    match condition:
        case Timer(seconds=seconds):
            return f"{durations.text(seconds)} passed"
        case AllOf(of=parts):
            return " and ".join(_part(part) for part in parts)
        case AnyOf(of=parts):
            return " or ".join(_part(part) for part in parts)
        case Count():
            return _named(condition) if condition.name else _count(condition)


def _part(condition: Condition) -> str:
    inner = text(condition)
    return f"({inner})" if isinstance(condition, AllOf | AnyOf) and len(condition.of) > 1 else inner


def _count(count: Count) -> str:
    how = {"==": "", ">=": "at least ", "<=": "at most "}[count.op]
    kind = count.watch.resource.partition(".")[0]
    which = _predicate(count.where)
    chosen = ", ".join(part for part in (count.watch.label_selector, count.watch.field_selector) if part)
    words = f"{how}{count.n} {kind}" + (f" ({chosen})" if chosen else "")
    if which == "ready":
        return f"{words} ready"
    return f"{words} with {which}" if which else words


def _named(count: Count) -> str:
    who = f"{count.watch.resource.partition('.')[0]} {count.name}"
    which = _predicate(count.where)
    none = count.n == 0 and count.op in ("==", "<=")
    if not which:
        return f"{who} gone" if none else f"{who} exists"
    return f"{who}: not {which}" if none else f"{who}: {which}"


def _predicate(where: Predicate) -> str:
    parts = [_test(test) for test in where.tests]
    parts += [part for part in (where.expression, where.function and f"{where.function}()") if part]
    return " and ".join(parts)


def _test(test: FieldTest) -> str:
    if test.path == _READY and test.value == "True" and test.op in ("==", "!="):
        return "ready" if test.op == "==" else "not ready"
    sign = {"==": "=", "!=": "≠", ">=": "≥", "<=": "≤", ">": ">", "<": "<"}[test.op]
    return f"{test.path} {sign} {'null' if test.value is None else test.value}"
