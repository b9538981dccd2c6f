"""Compiled predicates: evaluate an object's declared fields to true, false or unknown."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ..errors import UsageError
from .conditions import FieldTest, Predicate, WatchSpec
from .expressions import Judge, compile_expression, load_function

_ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


def compile_predicate(predicate: Predicate, watch: WatchSpec) -> Judge:
    """Return the judge function of a predicate over the fields that ``watch`` declares.

    It takes path → value, without lacking paths, and raises what the user's code raises, or TypeError for values that
    cannot be compared. Raises UsageError for an expression or function that cannot be used, or a path that is not
    declared.
    """
    judges: list[Judge] = [_field_test(test, watch) for test in predicate.tests]
    if predicate.expression:
        judges.append(_with_all_fields(compile_expression(predicate.expression, watch.fields), watch.fields))
    if predicate.function:
        judges.append(_with_all_fields(load_function(predicate.function), watch.fields))
    if len(judges) == 1:
        return judges[0]
    return lambda fields: all(judge(fields) for judge in judges)


def _with_all_fields(judge: Judge, paths: tuple[str, ...]) -> Judge:
    # Only the declared paths, so that the result is the same whichever wider watch serves the condition.
    return lambda fields: judge({path: fields.get(path) for path in paths})


def _field_test(test: FieldTest, watch: WatchSpec) -> Judge:
    if test.path not in watch.fields:
        raise UsageError(
            f"a condition on {watch.resource} tests {test.path!r}, which is not among the fields its watch keeps",
            next_step=f"Declare it; declared are: {', '.join(watch.fields) or 'none'}.",
        )
    path, wanted = test.path, test.value
    if test.op in ("==", "!="):
        equal = test.op == "=="
        return lambda fields: (path in fields and same(fields[path], wanted)) is equal
    order = _ORDERS[test.op]

    def judge(fields: dict[str, Any]) -> bool:
        value = fields.get(path)
        if value is None:
            return False
        if isinstance(value, str) is not isinstance(wanted, str) or not isinstance(value, str | int | float):
            raise TypeError(f"{path} is {value!r}, which cannot be compared with {wanted!r}")
        return bool(order(value, wanted))

    return judge


def same(value: object, wanted: object) -> bool:
    """Return whether two JSON values are equal; true is not 1."""
    return value == wanted and isinstance(value, bool) is isinstance(wanted, bool)
