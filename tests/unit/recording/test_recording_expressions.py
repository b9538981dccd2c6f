"""A user's own predicates: what they may do, and how they are refused."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_grovescale.errors import UsageError
from pytest_grovescale.recording.conditions import (
    FieldTest,
    Predicate,
    WatchSpec,
    compile_expression,
    compile_predicate,
    load_function,
)

PATHS = ("status.phase", "status.replicas", "spec.gates")


def answers(fields: dict[str, Any]) -> bool:
    return bool(fields["status.phase"] == "Running")


def forgets(fields: dict[str, Any]) -> None:
    return None


@pytest.mark.parametrize(
    ("expression", "fields", "answer"),
    [
        ('fields["status.phase"] == "Running"', {"status.phase": "Running"}, True),
        ('fields["status.phase"] == "Running"', {"status.phase": "Pending"}, False),
        ('(fields["status.replicas"] or 0) >= 3', {"status.replicas": None}, False),
        ('len(fields["spec.gates"] or []) == 2', {"spec.gates": [1, 2]}, True),
        ('all(g["name"] != "x" for g in fields["spec.gates"])', {"spec.gates": [{"name": "y"}]}, True),
        ('sum([r * 2 for r in fields["spec.gates"] if r > 1]) == 10', {"spec.gates": [1, 2, 3]}, True),
        ('fields["status.phase"] in ("A", "B") if fields["status.replicas"] else False', {"status.replicas": 0}, False),
        ('fields["spec.gates"][0:1] == [1]', {"spec.gates": [1, 2]}, True),
    ],
)
def test_expressions(expression: str, fields: dict[str, Any], answer: bool) -> None:
    full = {path: fields.get(path) for path in PATHS}
    assert compile_expression(expression, PATHS)(full) is answer


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "not a Python expression"),
        ("fields[", "not a Python expression"),
        ("x = 1", "not a Python expression"),
        ('fields["spec.nodeName"] == "n"', "not among the declared fields"),
        ("open('/etc/passwd')", "calls something else"),
        ("fields.__class__", "uses Attribute"),
        ("().__class__.__mro__", "uses Attribute"),
        ("__import__('os')", "calls something else"),
        ("(lambda: 1)()", "uses Lambda|calls something else"),
        ("9 ** 9 ** 9 ** 9", "uses Pow"),
        ("1 << 9999999999", "uses LShift"),
        ("[fields for fields in [1]]", "gives a new meaning"),
        ("[x for len in [1] for x in [2]]", "gives a new meaning"),
        ("unknown == 1", "reads 'unknown'"),
        ("(y := 1)", "uses NamedExpr"),
        ("f'{fields}'", "uses JoinedStr"),
        ("min(key=len)", "calls something else"),
        ("a\0b", "not a Python expression"),
    ],
)
def test_refused_expressions_say_why(expression: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as refusal:
        compile_expression(expression, PATHS)
    assert repr(expression) in str(refusal.value)


def test_functions_by_name() -> None:
    assert load_function(f"{__name__}:answers")({"status.phase": "Running"}) is True
    with pytest.raises(TypeError, match="answered None"):
        load_function(f"{__name__}:forgets")({})


@pytest.mark.parametrize(
    "name", ["", "os", ":x", "os:", "no_such_module:f", "os:no_such", "os:path", f"{__name__}:PATHS"]
)
def test_functions_that_cannot_be_used(name: str) -> None:
    with pytest.raises(UsageError, match="function"):
        load_function(name)


WATCH = WatchSpec(resource="pods", path="/api/v1/pods", fields=("n", "s"))


@pytest.mark.parametrize(
    ("op", "wanted", "fields", "answer"),
    [
        ("==", 1, {"n": 1}, True),
        ("==", 1, {"n": 1.0}, True),
        ("==", 1, {"n": True}, False),
        ("==", True, {"n": 1}, False),
        ("==", None, {"n": None}, True),
        ("==", None, {}, False),
        ("!=", None, {}, True),
        ("!=", 1, {}, True),
        (">=", 1, {}, False),
        ("<", 1, {"n": None}, False),
        (">=", 2, {"n": 2}, True),
        (">", 2, {"n": 2}, False),
        ("<", "b", {"n": "a"}, True),
    ],
)
def test_field_tests(op: Any, wanted: Any, fields: dict[str, Any], answer: bool) -> None:
    judge = compile_predicate(Predicate(tests=(FieldTest(path="n", op=op, value=wanted),)), WATCH)
    assert judge(fields) is answer


@pytest.mark.parametrize(("wanted", "value"), [(1, "1"), ("1", 1), (1, [1]), (1, {"a": 1})])
def test_what_has_no_order_raises(wanted: Any, value: Any) -> None:
    judge = compile_predicate(Predicate(tests=(FieldTest(path="n", op=">=", value=wanted),)), WATCH)
    with pytest.raises(TypeError, match="cannot be compared"):
        judge({"n": value})


def test_undeclared_path_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'status\.phase'"):
        compile_predicate(Predicate(tests=(FieldTest(path="status.phase", value=1),)), WATCH)


def test_all_parts_must_hold_and_none_means_it_exists() -> None:
    both = Predicate(tests=(FieldTest(path="n", value=1),), expression='fields["s"] == "x"')
    judge = compile_predicate(both, WATCH)
    assert judge({"n": 1, "s": "x"})
    assert not judge({"n": 1})
    assert not judge({"n": 2, "s": "x"})
    assert compile_predicate(Predicate(), WATCH)({})
