"""Conditions in a test, before their kinds are resolved by the cluster's API discovery.

``count("pods", 1000, ready=True)`` names a kind; its API path and namespace are known only when the phase starts.
``resolve`` then turns it into the recorder's condition.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from .. import durations
from ..errors import UsageError
from ..kube.resources import Resource
from ..recording import conditions as recorded
from ..recording.conditions import (
    AVAILABLE_PATH,
    KEPT_PATHS,
    READY_PATH,
    AllOf,
    AnyOf,
    Condition,
    Count,
    FieldTest,
    Predicate,
    Timer,
    WatchSpec,
)

Scalar = str | int | float | bool | None
Operator = Literal["==", ">=", "<="]

_ALSO_OF = {"pods": ("spec.nodeName", 'metadata.labels["grove.io/podclique"]')}

# The readiness condition of kinds where it is not called Ready.
_READY_CONDITION = {"deployments.apps": AVAILABLE_PATH, "apiservices.apiregistration.k8s.io": AVAILABLE_PATH}


class ObjectName(msgspec.Struct, frozen=True, kw_only=True):
    """One object: kind as the user wrote it, API version where known, namespace and name."""

    kind: str
    name: str
    api_version: str = ""
    namespace: str | None = None


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A number of objects of a kind that satisfy a predicate; returned by ``count``, ``field`` and ``gone``."""

    kind: str
    n: int
    op: Operator = "=="
    api_version: str = ""
    name: str | tuple[str, ...] = ""
    """Only the object of this name, or of one of these."""
    namespace: str | None = None
    """None: the test's own namespace; ``*``: all."""
    ready: bool | None = None
    where: tuple[FieldTest, ...] = ()
    expression: str = ""
    function: str = ""
    fields: tuple[str, ...] = ()
    selector: str = ""
    field_selector: str = ""


class Combined(msgspec.Struct, frozen=True, kw_only=True):
    """All or any of several conditions."""

    how: Literal["all", "any"]
    of: tuple[Wanted | Combined | Timer, ...]


Declared = Wanted | Combined | Timer


def count(
    kind: str,
    n: int,
    *,
    ready: bool | None = None,
    where: Mapping[str, Scalar] | None = None,
    op: Operator = "==",
    selector: str = "",
    field_selector: str = "",
    namespace: str | None = None,
) -> Wanted:
    """The number of objects of ``kind`` is ``n`` (``op``: exactly, at least, at most).

    ``kind`` is any name kubectl takes: ``pods``, ``pod``, ``podcliquesets.grove.io``, ``pcs``. ``ready`` counts only
    objects whose condition Ready (Deployments: Available) is True, or with False only the others. ``where`` maps
    field paths to values: ``{"status.phase": "Running"}``. ``selector`` and ``field_selector`` are the API's own.
    ``namespace`` defaults to the test's own; ``"*"`` means all.
    """
    if n < 0:
        raise UsageError(f"count({kind!r}, {n}): a count cannot be negative", next_step="Give n ≥ 0.")
    return Wanted(
        kind=kind,
        n=n,
        op=op,
        ready=ready,
        where=_tests(where or {}),
        selector=selector,
        field_selector=field_selector,
        namespace=namespace,
    )


def matching(
    kind: str,
    n: int,
    predicate: str | Callable[[Mapping[str, Any]], bool],
    *,
    fields: Sequence[str],
    op: Operator = "==",
    selector: str = "",
    namespace: str | None = None,
) -> Wanted:
    """The number of objects of ``kind`` that satisfy a predicate of the user's own is ``n``.

    ``predicate`` is a Python expression over the dict ``fields`` (``fields["spec.replicas"] > 1``) or a function
    that takes that dict. It runs in the recorder and again over the journal, so a function must be importable (no
    closure, no lambda) and pure. ``fields`` are the paths that it reads; it sees no others.
    """
    if not fields:
        raise UsageError(
            f"matching({kind!r}, …) declares no fields",
            next_step='Name what the predicate reads: fields=["status.phase"].',
        )
    expression, function = (predicate, "") if isinstance(predicate, str) else ("", _importable(predicate))
    return Wanted(
        kind=kind,
        n=n,
        op=op,
        expression=expression,
        function=function,
        fields=tuple(fields),
        selector=selector,
        namespace=namespace,
    )


def field(target: ObjectName, path: str, value: Scalar, *, op: recorded.Comparison = "==") -> Wanted:
    """One object's field has a value: ``field(pcs.name, "status.phase", "Done")``; ``op`` compares otherwise."""
    return Wanted(
        kind=target.kind,
        api_version=target.api_version,
        name=target.name,
        namespace=target.namespace,
        n=1,
        where=(FieldTest(path=path, op=op, value=value),),
    )


class Named(Protocol):
    """Something with object names, such as a workload's handle."""

    def names(self) -> Sequence[ObjectName]: ...


def gone(target: Named | ObjectName) -> Declared:
    """The object, or all objects of a workload, no longer exist (or do not yet)."""
    return each_of((target,) if isinstance(target, ObjectName) else target.names(), gone=True)


def each_of(targets: Sequence[ObjectName], tests: tuple[FieldTest, ...] = (), *, gone: bool = False) -> Declared:
    """Each of the objects exists and satisfies all tests; or none of them does."""
    groups: dict[tuple[str, str, str | None], list[str]] = {}
    for one in targets:
        groups.setdefault((one.kind, one.api_version, one.namespace), []).append(one.name)
    counts = [
        Wanted(
            kind=kind,
            api_version=api_version,
            namespace=namespace,
            name=names[0] if len(names) == 1 else tuple(names),
            where=tests,
            n=0 if gone else len(names),
        )
        for (kind, api_version, namespace), names in groups.items()
    ]
    return counts[0] if len(counts) == 1 else all_of(*counts)


def timer(duration: str | float) -> Timer:
    """A time after the phase's start: ``timer("30s")``."""
    return Timer(seconds=durations.seconds(duration))


def all_of(*conditions: Declared) -> Combined:
    """All of them hold at the same moment."""
    return _combined("all", conditions)


def any_of(*conditions: Declared) -> Combined:
    """At least one of them holds."""
    return _combined("any", conditions)


def kinds(condition: Declared) -> set[tuple[str, str]]:
    """Return every (kind, API version) that a condition names; the version is empty where the user gave none."""
    match condition:
        case Wanted():
            return {(condition.kind, condition.api_version)}
        case Combined():
            return set().union(*(kinds(part) for part in condition.of))
        case Timer():
            return set()


def resolve(condition: Declared, resources: Mapping[tuple[str, str], Resource], *, namespace: str) -> Condition:
    """Return the recorder's condition. ``resources`` has an entry for every pair of ``kinds(condition)``."""
    match condition:
        case Timer():
            return condition
        case Combined():
            parts = tuple(resolve(part, resources, namespace=namespace) for part in condition.of)
            return AllOf(of=parts) if condition.how == "all" else AnyOf(of=parts)
        case Wanted():
            return _resolve_count(condition, resources[condition.kind, condition.api_version], namespace)


def _resolve_count(wanted: Wanted, resource: Resource, namespace: str) -> Count:
    tests = wanted.where
    if wanted.ready is not None:
        path = _READY_CONDITION.get(resource.qualified, READY_PATH)
        tests = (*tests, FieldTest(path=path, op="==" if wanted.ready else "!=", value="True"))
    scope = None if wanted.namespace == "*" else wanted.namespace or namespace
    fields = {*KEPT_PATHS, *_ALSO_OF.get(resource.qualified, ()), *wanted.fields, *(test.path for test in tests)}
    return Count(
        watch=WatchSpec(
            resource=resource.qualified,
            path=resource.path(scope),
            label_selector=wanted.selector,
            field_selector=wanted.field_selector,
            fields=tuple(sorted(fields)),
        ),
        name=wanted.name,
        where=Predicate(tests=tests, expression=wanted.expression, function=wanted.function),
        op=wanted.op,
        n=wanted.n,
    )


def _tests(where: Mapping[str, Scalar]) -> tuple[FieldTest, ...]:
    return tuple(FieldTest(path=path, value=value) for path, value in where.items())


def _combined(how: Literal["all", "any"], conditions: tuple[Declared, ...]) -> Combined:
    if not conditions:
        raise UsageError(f"{how}_of() needs at least one condition", next_step=f"Write {how}_of(a, b, …).")
    return Combined(how=how, of=conditions)


def _importable(function: Callable[..., object]) -> str:
    """Return ``module:name``; raises UsageError for a function that another process cannot import."""
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    found = inspect.getmodule(function)
    if not name or "." in name or "<" in name or found is None or getattr(found, name, None) is not function:
        raise UsageError(
            f"{name or function!r} cannot run in the recorder, a process of its own",
            next_step="Use a function at the top of a module, or an expression in a string.",
        )
    return f"{module}:{name}"
