"""Labels that can take any number of values: each value is a series of its own, for as long as the process lives."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from ...exposition.series import Series
from .problem import Problem
from .served import Served, written

UNBOUNDED = (
    *("namespace", "pod", "pod_name", "name", "object", "object_name", "resource_name", "key"),
    *("uid", "id", "uuid", "request_id", "trace_id", "span_id", "session_id", "container_id", "run_id"),
    *("resource_version", "path", "url", "uri", "message", "msg", "error", "err", "error_message", "stack"),
    *("ip", "pod_ip", "address", "remote_addr", "user", "username", "email", "timestamp"),
)
"""Names of labels whose values nobody can list beforehand: they grow with objects, requests or time."""

_OF_OBJECTS = frozenset({"pod", "pod_name", "name", "object", "object_name", "resource_name"})
_CODED = re.compile(r"(?=\w*[A-Z])[A-Za-z]\w*", re.ASCII)
"""Those of them that mean names of objects, and what these cannot look like: words with capitals, as in code."""

_REST = frozenset({"other", "others"})
"""Values that stand for all the rest: whoever has one has listed those that he tells apart."""

COPIED = ("label_", "annotation_")
"""Beginnings of labels that were copied from objects: what stands there is for whoever writes objects to say."""

MANY = 100
"""Different values of one label from which on somebody should look at it, as
https://prometheus.io/docs/practices/instrumentation/#do-not-overuse-labels has it."""

_SHAPES = {
    "a UUID": re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE),
    "a pod's name": re.compile(r"[a-z0-9.-]+-[bcdf-hj-np-tv-z2-9]{8,10}-[bcdf-hj-np-tv-z2-9]{5}"),
    "an object's namespace and name": re.compile(r"[a-z0-9][a-z0-9-]*/[a-z][a-z0-9]*-[a-z0-9-]*[0-9][a-z0-9-]*"),
    "a time": re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*|1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?"),
    "a hash": re.compile(r"(?=.*\d)(?=.*[a-f])[0-9a-f]{32,}", re.IGNORECASE),
    "an address": re.compile(r"\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?"),
    "a URL": re.compile(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE),
    "a path": re.compile(r"(?:/[^/\s]+){3,}/?"),
    "a sentence": re.compile(r"(?=.{40})\S+(?:\s+\S+){5,}", re.DOTALL),
}
"""What a value looks like, whatever its label is called. Pods' random parts have no vowels and none of 0, 1 and 3
(k8s.io/apimachinery/pkg/util/rand)."""


def problems(
    families: Iterable[Served], *, forbidden: Collection[str] = UNBOUNDED, many: int = MANY
) -> Iterator[Problem]:
    """Yield labels with a forbidden name, and those whose values are many or look as if there were no end to them."""
    for served in families:
        for label, values in sorted(served.own_labels().items()):
            yield from _of_label(served, label, values, forbidden, many)


def _of_label(
    served: Served, label: str, values: Mapping[str, Series], forbidden: Collection[str], many: int
) -> Iterator[Problem]:
    fix = f"take the label {label} away: an Event, a log line or a trace can name the single one"
    example = written(next(iter(values.values())))
    found = f"{len(values):,} value{'s' if len(values) != 1 else ''} so far"
    if label.startswith(COPIED) or (label.lower() in forbidden and not _listed(served, label, values)):
        says = f"nobody can list the values of {label} beforehand ({found})"
        yield Problem(family=served.name, rule="unbounded-label", says=says, series=example, fix=fix)
    elif (shape := None if _tells_of_process(served) else _shape_of(values)) is not None:
        looks, value = shape
        says = f"a value of {label} is {looks}: there is no end to them ({found})"
        yield Problem(family=served.name, rule="unbounded-values", says=says, series=written(values[value]), fix=fix)
    elif len(values) > many:
        says = f"the label {label} has {len(values):,} values"
        yield Problem(family=served.name, rule="unbounded-values", says=says, series=example, fix=fix)


def _listed(served: Served, label: str, values: Collection[str]) -> bool:
    """Return whether the values of a label that sounds endless are a list that somebody wrote.

    There is one for the rest; or what sounds like names of objects is parts of the program: words of its code, the
    word that another label of the series writes as code does, or the same ``name`` on all series of a family.
    """
    if not _REST.isdisjoint(values):
        return True
    if label.lower() not in _OF_OBJECTS:
        return False
    constant = label == "name" and len(values) == 1 and len(served.series) > 1
    if constant or all(_CODED.fullmatch(value) for value in values):
        return True
    return all(_said_in_code(one, label) for one in served.series)


def _said_in_code(series: Series, label: str) -> bool:
    """Return whether a label's value is another one's that has capitals (``name="rbac",type="RBAC"``): no object's."""
    said = series.labels.get(label, "").lower()
    return any(value.lower() == said and _CODED.fullmatch(value) for value in series.labels.values())


def _tells_of_process(served: Served) -> bool:
    """Return whether it is the one series by which a process tells its version, its build, its settings."""
    return served.name.endswith("_info") and len(served.series) == 1


def _shape_of(values: Iterable[str]) -> tuple[str, str] | None:
    """Return what a value looks like, and that value; None where all look as if somebody chose them."""
    for value in values:
        for looks, pattern in _SHAPES.items():
            if pattern.fullmatch(value):
                return looks, value
    return None
