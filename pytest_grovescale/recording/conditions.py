"""Conditions of milestones as data, and predicates compiled from them: paths, expressions, functions.

A scenario declares a condition; the recorder evaluates it in O(1) per event; the analysis evaluates it again from the
journal. Both use `evaluation.py` and give the same result.
"""

from __future__ import annotations

import ast
import importlib
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec

from ..errors import UsageError
from .fieldpath import Key, parse

READY_PATH = "status.conditions[type=Ready].status"
AVAILABLE_PATH = "status.conditions[type=Available].status"

KEPT_PATHS = ("metadata.deletionTimestamp", AVAILABLE_PATH, READY_PATH, "status.phase")
"""Fields that are kept of every object: one watch serves the operator's kinds and conditions on them, later phases find
theirs in it, and a late object can be explained."""

Comparison = Literal["==", "!=", ">=", "<=", ">", "<"]


def is_builtin(resource: str) -> bool:
    """Return whether a kind is one of Kubernetes' own, by its group: ``configmaps``, ``deployments.apps``."""
    group = resource.partition(".")[2]
    return "." not in group or group.endswith(".k8s.io")


class WatchSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One LIST+WATCH and the fields kept of each object. Equal specs share one watch."""

    resource: str
    """Plural with group: ``pods``, ``podcliquesets.grove.io``."""
    path: str
    """Collection's URL path, ``/api/v1/namespaces/x/pods``."""
    label_selector: str = ""
    field_selector: str = ""
    fields: tuple[str, ...] = ()
    """Field paths to keep, sorted. ``status.phase``; ``status.conditions[type=Ready].status``;
    ``metadata.annotations["grove.io/trigger"]`` for a key that contains dots."""

    def same_objects(self, other: WatchSpec) -> bool:
        """Return whether a watch of ``other`` shows the same objects, whatever it keeps of them."""
        return (self.path, self.label_selector, self.field_selector) == (
            other.path,
            other.label_selector,
            other.field_selector,
        )

    def covers(self, other: WatchSpec) -> bool:
        """Return whether a watch of this spec has all that one of ``other`` would have."""
        return self.same_objects(other) and set(other.fields) <= set(self.fields)

    def check_readable(self) -> None:
        """Raise UsageError for a watch that would record a Secret's content."""
        if self.resource != "secrets":
            return
        for path in self.fields:
            names = [step.name for step in parse(path) if isinstance(step, Key)]
            # One of kubectl's annotations holds the whole object, data included.
            if names[0] in ("data", "stringData") or names == ["metadata"] or names[:2] == ["metadata", "annotations"]:
                raise UsageError(
                    f"a condition reads {path!r} of Secrets; their content never goes into a recording",
                    next_step="Test metadata.name, metadata.labels or type instead.",
                )


def merged(specs: Iterable[WatchSpec]) -> list[WatchSpec]:
    """Return one spec for those that differ only in their fields: the union of all fields."""
    merged: dict[tuple[str, str, str], WatchSpec] = {}
    for spec in specs:
        key = (spec.path, spec.label_selector, spec.field_selector)
        fields = set(spec.fields) | set(merged[key].fields if key in merged else ())
        merged[key] = msgspec.structs.replace(spec, fields=tuple(sorted(fields)))
    return list(merged.values())


class FieldTest(msgspec.Struct, frozen=True, kw_only=True):
    """Compares ``path`` with ``value``; a path that the object lacks is unequal to every value."""

    path: str
    op: Comparison = "=="
    value: str | int | float | bool | None = None


class Predicate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Requirements on one object. All given parts must hold; without any, the object must exist."""

    tests: tuple[FieldTest, ...] = ()
    expression: str = ""
    """Python expression over ``fields`` (path → value, only those declared), e.g.
    ``fields["status.phase"] == "Running"``; no calls but len, min, max, sum, any, all, abs, str, int, float."""
    function: str = ""
    """``module:function``, called with the dict of declared fields; must be pure."""


class Count(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="count", tag_field="condition"):
    """Compares the number of objects in a watch that satisfy a predicate with ``n``.

    Also expresses "object X has status Y" (``name`` given, n = 1), "each of these objects has it" (several names, n =
    their number) and "they are gone" (n = 0).
    """

    watch: WatchSpec
    name: str | tuple[str, ...] = ""
    """Counts only the object of this name, or of one of these (the watch's path fixes the namespace)."""
    where: Predicate = Predicate()
    op: Literal["==", ">=", "<="] = "=="
    n: int

    @property
    def names(self) -> tuple[str, ...]:
        """The only names that are counted; empty: all."""
        return ((self.name,) if self.name else ()) if isinstance(self.name, str) else self.name


class Timer(msgspec.Struct, frozen=True, kw_only=True, tag="timer", tag_field="condition"):
    """Holds from ``seconds`` after the start of the phase on."""

    seconds: float


class AllOf(msgspec.Struct, frozen=True, kw_only=True, tag="all", tag_field="condition"):
    """Holds while all conditions hold at the same time."""

    of: tuple[Condition, ...]


class AnyOf(msgspec.Struct, frozen=True, kw_only=True, tag="any", tag_field="condition"):
    """Holds while at least one condition holds."""

    of: tuple[Condition, ...]


Condition = Count | Timer | AllOf | AnyOf


def watches(condition: Condition) -> frozenset[WatchSpec]:
    """Return every watch that a condition reads."""
    match condition:
        case Count():
            return frozenset({condition.watch})
        case AllOf() | AnyOf():
            return frozenset().union(*(watches(part) for part in condition.of))
        case Timer():
            return frozenset()


Judge = Callable[[dict[str, Any]], bool]
"""Takes declared path → value (None where the object lacks it); raises whatever the user's code raises."""

_CALLS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (len, min, max, sum, any, all, abs, str, int, float)}

_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.UAdd, ast.BinOp, ast.Add, ast.Sub,
    ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is,
    ast.IsNot, ast.In, ast.NotIn, ast.IfExp, ast.Constant, ast.Name, ast.Load, ast.Store, ast.Subscript, ast.Slice,
    ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Call, ast.GeneratorExp, ast.ListComp, ast.comprehension,
)  # fmt: skip
"""No attributes, lambdas, imports or powers: nothing that escapes the fields or runs without bound."""


def compile_expression(expression: str, paths: Sequence[str]) -> Judge:
    """Return the judge function for an expression over ``fields``.

    Raises UsageError, with the expression and the reason, for an expression that cannot be parsed, uses syntax that is
    not allowed, or reads a path that is not in `paths`.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        raise _refused(expression, f"is not a Python expression: {error}") from error
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if taken := bound & {"fields", *_CALLS}:
        raise _refused(expression, f"gives a new meaning to {taken.pop()}")
    for node in ast.walk(tree):
        _check(expression, node, bound, paths)
    code = compile(tree, "<expression>", "eval")

    def judge(fields: dict[str, Any]) -> bool:
        # One namespace as globals: comprehensions see no others.
        return bool(eval(code, {"__builtins__": {}, **_CALLS, "fields": fields}))

    return judge


def _check(expression: str, node: ast.AST, bound: set[str], paths: Sequence[str]) -> None:
    if not isinstance(node, _ALLOWED):
        raise _refused(expression, f"uses {type(node).__name__}, which is not allowed")
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS and not node.keywords:
            pass
        case ast.Call():
            raise _refused(expression, f"calls something else than {', '.join(_CALLS)}")
        case ast.Name(id=name) if name != "fields" and name not in bound and name not in _CALLS:
            raise _refused(expression, f"reads {name!r}; it may read only `fields`")
        case ast.Subscript(value=ast.Name(id="fields"), slice=ast.Constant(value=path)) if path not in paths:
            raise _refused(expression, f"reads {path!r}, which is not among the declared fields {sorted(paths)}")
        case ast.comprehension(is_async=is_async) if is_async:
            raise _refused(expression, "is asynchronous")


def _refused(expression: str, reason: str) -> UsageError:
    return UsageError(
        f"the expression {expression!r} {reason}",
        next_step='Write it over declared fields, as fields["status.phase"] == "Running", or give a module:function.',
    )


def load_function(name: str) -> Judge:
    """Return the function ``module:function`` (dots after the colon reach into classes).

    Raises UsageError, with the name and the reason, when it cannot be imported or called.
    """
    module, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(module) if module and attribute else None
        for part in attribute.split(".") if found else ():
            found = getattr(found, part)
    except Exception as error:  # the user's module may raise anything when it is imported
        raise UsageError(
            f"the condition's function {name!r} cannot be loaded: {type(error).__name__}: {error}",
            next_step="It must be importable by name from the test's process: module:function.",
        ) from error
    if not callable(found):
        raise UsageError(f"the condition's function {name!r} is no function", next_step="Name it as module:function.")
    function: Callable[[dict[str, Any]], Any] = found
    return lambda fields: _yes_or_no(name, function(fields))


def _yes_or_no(name: str, answer: object) -> bool:
    # None comes from a function without a return statement: a mistake, not False.
    if not isinstance(answer, bool):
        raise TypeError(f"{name} answered {answer!r}; a condition answers True or False")
    return answer


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
