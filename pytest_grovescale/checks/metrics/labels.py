"""Labels: those that a check forbids, and those that can take any number of values.

Each value of a label is a series of its own, for as long as the process lives.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations, permutations

import msgspec

from ...exposition.families import Series
from ...redaction import REDACTED
from ..check import CheckArgumentError, Outcome, at_most, first
from ..run import Run
from . import label_spelling
from .families import RESERVED, Problem, Served, served, written
from .label_spelling import OF_OUTCOMES
from .series import none_served
from .shapes import NUMBERED, OF_INFOS, are_spread, is_amount, is_identifier, objects_in_paths, shape_of, shape_under
from .target import TargetCheck, ValuesOf, check_selectors, unread, values_of
from .units import ABBREVIATIONS, Unit, unit_in

UNBOUNDED = (
    *("namespace", "ns", "pod", "pod_name", "name", "object", "object_name", "resource_name", "key"),
    *("uid", "id", "uuid", "request_id", "trace_id", "span_id", "session_id", "container_id", "run_id"),
    *("resource_version", "path", "url", "uri", "message", "msg", "error", "err", "error_message", "stack"),
    *("ip", "pod_ip", "address", "remote_addr", "user", "username", "email", "timestamp"),
    *("item", "entity", "ref", "object_ref", "namespaced_name", "user_agent", "query", "pid"),
    *("uptime", "now", "heartbeat", "last_seen", "author", "committer", "reviewer", "assignee", "created_by"),
)
"""Names of unbounded labels: their values grow with objects, requests or time."""

_OF_OBJECTS = frozenset({"pod", "pod_name", "name", "object", "object_name", "resource_name"})
"""Those of `UNBOUNDED` that mean names of objects."""

_NAMESPACES = frozenset({"namespace", "ns"})

_OF_WORK = re.compile(r"reconcil|sync|requeue|retr(?:y|ies)|attempt|request|error|handle|process|event|queue|call")
"""Parts of names of what an operator does, of which there is more with each reconcile."""

_OF_ANYTHING = frozenset(
    {"name", "key", "id", "path", "url", "uri", "ip", "address", "remote_addr", "error", "err", "user", "object"}
    | {"ref", "query", "pid", "item", "entity"}
)
"""Those of `UNBOUNDED` that may as well mean a part of the program: a few values under them that are no identifiers are
worth a look."""

_OF_KINDS = frozenset({"message", "msg"})
"""Those that may mean a kind of message."""

_IDENTIFIES = re.compile(
    r"(?:.*_)?(?:user|customer|account|order|job|task|session|request|transaction|trace|span|correlation|run|build"
    r"|message|event|project|instance|connection|execution|invocation|workflow|client|consumer|producer|member|thread"
    r"|goroutine|process|object|resource|pod|volume|tenant|subscription|batch)_?id|(?:.*_)?[pt]id",
    re.IGNORECASE,
)
"""Labels that identify what comes and goes, unless their values are words."""

_OF_SOMEONE = re.compile(
    r"user|customer|account|tenant|org(?:ani[sz]ation)?|project|order|member|client|subscriber|device", re.IGNORECASE
)
"""Labels that identify what comes and goes where all their values are numbers."""

_OF_KIND = re.compile(
    r"(?:.*_)?(?:cluster|database|db|topic|bucket|site|website|app|application|workload|deployment|statefulset|daemonset"
    r"|replicaset|cronjob|node|machine|volume|pvc|persistentvolumeclaim|tenant|customer|project|broker|release"
    r"|repository|backup|snapshot|gateway|certificate|issuer|claim|secret|config_?map|ingress"
    r"|table|keyspace|stream|consumer_?group)(?:_?name)?",
    re.IGNORECASE,
)
"""Labels named after a kind of things that a program looks after: they are as many as a user makes."""

_OF_NOW = frozenset(
    {"uptime", "now", "heartbeat", "last_seen", "timestamp", "message", "msg", "error", "err", "error_message", "stack"}
    | {"resource_version", "request_id", "trace_id", "span_id"}
)
"""Those of `UNBOUNDED` that change while a program runs, also among the facts of its process."""

_MOST_WORDS = 10
"""Values of such a label; more are no longer few."""

_OF_ROUTES = frozenset({"handler", "route", "endpoint"})
_API_VERSION = re.compile(r"v\d+(?:(?:alpha|beta)\d+)?")
"""As the Java Operator SDK calls the version of a kind's API."""
_DIGITS = re.compile(r"\d+")
_NUMBER_IN_PATH = re.compile(r"/[^/]*\d{2}|/\d")

_FEW = 4
_PLAIN = re.compile(r"[a-z]+(?:_[a-z]+)*")

_CODED = re.compile(r"(?=\w*[A-Z])[A-Za-z]\w*", re.ASCII)
"""Words with capitals, as in code: no object has such a name."""

_CLASS_NAME = re.compile(r"[a-z][A-Z]")

_NUMBER = re.compile(r"(?:^|[^a-zA-Z])\d|\d$")
"""A number in a name; ``e2e`` is none."""

_REST = frozenset({"other", "others"})
"""Values that stand for all the rest: beside one of them the others are a fixed list."""

COPIED = ("label_", "annotation_")
"""Prefixes of labels that were copied from objects: their values are whatever the objects have."""

MANY = 100
"""A label with more different values is reported, after
https://prometheus.io/docs/practices/instrumentation/#do-not-overuse-labels."""

_OF_HARDWARE = re.compile(
    r"(?:.*_)?(?:device|disk|interface|iface|nic|cpu|core|chip|sensor|numa_node|gpu|fan|lane|port)", re.IGNORECASE
)
"""Labels of parts of a machine, which has as many as it has: ``sda1``, ``eth0``."""
_OF_NUMBERS = re.compile(
    r"code|status|port|level|priority|shard|partition|cpu|core|device|disk|slot|channel|version|year|queue|db|vlan|signal"
    r"|errno|size|node|zone|type|class|bits|length|protocol",
    re.IGNORECASE,
)
"""Labels of what is numbered once for all."""

_UNITS = ("unit", "units", "uom")
_OTHER_UNITS = frozenset({"core", "cores", "millicore", "millicores", "integer", "count", "%"})
"""What series are counted in, beside the units that `names` knows."""

_EVERYWHERE = 3
"""Families that must have a label before it is everywhere."""
_SURELY = 5
"""The same of a label that may as well be of what is measured, as of the region of some servers."""
_OF_A_BUILD = re.compile(r"(?:\w+_)?(?:version|revision|commit|build)", re.IGNORECASE)
_CODE = re.compile(r"[1-5]\d\d")
_VERSION = re.compile(r"v?\d+\.\d+(?:\.\d+)?(?:[-+].*)?|(?=.*\d)[0-9a-f]{7,40}")

_OF_TARGETS = frozenset({"region", "datacenter", "dc", "env", "environment", "stage", "hostname"})
"""Labels that say where a program runs."""

_TARGET = ("job", "instance")
"""Labels that Prometheus gives each target: https://prometheus.io/docs/concepts/jobs_instances/."""


class Labels(TargetCheck, tag="labels", frozen=True, kw_only=True):
    """Names of labels that are forbidden, and the values that others may have, on all series that were ever served.

    Labels that a library gave its own families do not count, unless ``family`` names such a family.
    """

    failure_stands = True
    one_scrape = "alone"

    forbidden: list[str] = msgspec.field(default_factory=list)
    allowed_values: dict[str, ValuesOf] = msgspec.field(default_factory=dict)
    """Label → all values that it may have, or a selector of the series whose values they are."""
    family: str = ""

    def validate(self) -> None:
        if not any(self.forbidden) and not self.allowed_values:
            raise CheckArgumentError("labels() forbids nothing", next_step='Give forbidden=["namespace", "name"].')
        check_selectors(self.allowed_values)

    def judge_target(self, run: Run) -> Outcome:
        target = run.metrics().target(self.target)
        families = [family for family in served(target.whole(), pattern=self.family) if family.series]
        if not families:
            raise none_served(target, self.family)
        allowed = values_of(self.allowed_values, target)
        broken = [text for family in families for text in self._broken(family, allowed)]
        there = {label for family in families for label in self._judged(family)}
        missing = sorted(set(self.allowed_values) - there)
        return at_most(
            "",
            "labels that are forbidden, or have a value that is not allowed",
            len(broken),
            0,
            doubts=[*(f"no series has a label {label!r}" for label in missing), *unread(target)],
            evidence=first(broken),
        )

    def _judged(self, family: Served) -> dict[str, dict[str, Series]]:
        return family.labels() if self.family else family.own_labels()

    def _broken(self, family: Served, allowed: Mapping[str, Collection[str]]) -> Iterator[str]:
        """Yield each label that breaks a rule, with examples of its values."""
        for label, values in sorted(self._judged(family).items()):
            if label in self.forbidden:
                yield f"{family.name} has the label {label}, with {_count(values)}: {_examples(values)}; take it away"
            elif label in allowed:
                others = {value: of for value, of in values.items() if value not in allowed[label]}
                if others:
                    yield f"{family.name}: {label} has {_count(others)} that it may not have: {_examples(others)}"


def problems(families: Iterable[Served], *, forbidden: Collection[str] = (), many: int = MANY) -> Iterator[Problem]:
    """Yield labels whose name is unbounded or forbidden, those with values that are many or look unbounded, and those
    everywhere."""
    families = list(families)
    yield from _everywhere(families)
    yield from _of_build(families)
    for family in families:
        for label, values in sorted(family.own_labels().items()):
            yield from _reserved(family, label, next(iter(values.values())))
            yield from _secret(family, label, values)
            yield from label_spelling.problems(family, label, values)
            yield from _units(family, label, values)
            yield from _empty(family, label, values)
            yield from _of_label(family, label, values, forbidden, many)
        if not family.of_library:
            yield from _label_sets(family)
            yield from _same(family)


def _everywhere(families: Iterable[Served]) -> Iterator[Problem]:
    """Yield a label that all series of its own have with one value: a fact of the target, not of what is measured.

    A version there makes all series new with each release:
    https://prometheus.io/docs/instrumenting/writing_exporters/#target-labels-not-static-scraped-labels.
    """
    own = [family for family in families if not family.of_library and not family.name.endswith("_info")]
    if len(own) < _EVERYWHERE:
        return
    for label, values in sorted(own[0].own_labels().items()):
        everywhere = all(one.labels.get(label) == next(iter(values)) for family in own for one in family.series)
        if len(values) == 1 and everywhere and label not in _TARGET:
            ((value, one),) = values.items()
            says = f"all {len(own)} families have {label}={value!r} on each series, which says nothing of one"
            fix = f"take the label {label} away: a family …_info can have it once, or the scrape configuration adds it"
            hint = _VERSION.fullmatch(value) is None and not (len(own) >= _SURELY and label.lower() in _OF_TARGETS)
            yield Problem(family=own[0].name, rule="label-sets", says=says, series=written(one), fix=fix, hint=hint)


def _of_build(families: Iterable[Served]) -> Iterator[Problem]:
    """Yield a version, or what else says which build runs, on series of something else: a release makes them new."""
    said = {
        (label, value)
        for family in families
        if family.name.endswith("_build_info") and len(family.series) == 1
        for label, value in family.series[0].labels.items()
        if _OF_A_BUILD.fullmatch(label) and value
    }
    for family in families if said else ():
        if family.of_library or family.name.endswith("_info"):
            continue
        for label, values in sorted(family.own_labels().items()):
            ((value, one), *others) = values.items()
            if not others and (label, value) in said and len(family.series) > 1:
                says = f"each series has {label}={value!r}, which the info of the build says: a release makes all new"
                fix = f"take the label {label} away; a query joins it from the info where it needs it"
                yield Problem(family=family.name, rule="label-sets", says=says, series=written(one), fix=fix)


def _reserved(family: Served, label: str, one: Series) -> Iterator[Problem]:
    if label.startswith("__"):
        says = f"its label {label} begins with two underscores, which Prometheus keeps for itself"
    elif label.startswith("exported_"):
        says = f"Prometheus renames labels of others that its targets have to {label}, so that it can't have its own"
    elif label in _TARGET:
        says = f"Prometheus gives each target a label {label}, and renames this one exported_{label}"
    else:
        return
    fix = f"give the label {label} another name"
    yield Problem(family=family.name, rule="reserved-label", says=says, series=written(one), fix=fix)


def _secret(family: Served, label: str, values: Mapping[str, Series]) -> Iterator[Problem]:
    for value, one in values.items():
        if REDACTED in value and not value.startswith("arn:"):  # in it stands ``secret:``, and then a name
            says = f"a value of {label} looks like a credential, and everyone who can scrape can read it"
            fix = f"take the label {label} away, and change the credential"
            yield Problem(family=family.name, rule="credential", says=says, series=written(one), fix=fix)
            return


def _empty(family: Served, label: str, values: Mapping[str, Series]) -> Iterator[Problem]:
    """Yield a label that is empty on some series; of most labels that says that something does not apply."""
    if set(values) == {""} and len(family.series) > 1 and not family.name.endswith("_info"):
        says = f"{label} is empty on each of its series, which Prometheus stores without it"
        fix = "leave it out, or write what it is"
        yield Problem(family=family.name, rule="label-sets", says=says, series=written(values[""]), fix=fix, hint=True)
    if "" in values and len(values) > 1:
        says = f"{label} is empty on a series, which Prometheus stores without it"
        fix = 'write what it is, or "none"'
        one = written(values[""])
        hint = label.lower() not in OF_OUTCOMES
        yield Problem(family=family.name, rule="label-sets", says=says, series=one, fix=fix, hint=hint)


def _units(family: Served, label: str, values: Mapping[str, Series]) -> Iterator[Problem]:
    """Yield a label by whose values series differ in their unit: https://prometheus.io/docs/practices/naming/."""
    units = list(values)
    if label.lower() in _UNITS and len(units) > 1 and any(_is_unit(value.lower()) for value in units):
        says = f"its series are in {len(units)} units, {', '.join(sorted(units)[:3])}, which no query can add up"
        fix = "make a family for each unit, with the unit at the end of its name"
        yield Problem(family=family.name, rule="unit", says=says, series=written(values[units[0]]), fix=fix)
        return
    ends = {unit.base if (unit := _unit_at_end(value)) is not None else "" for value in values}
    if len(ends) > 1 and family.family.type in ("gauge", "counter") and unit_in(family.name) is None:
        says = (
            f"its values of {label} name different units, as {', '.join(sorted(units)[:3])}, which no query can add up"
        )
        fix = "make a family for each, with its unit at the end of its name"
        yield Problem(family=family.name, rule="unit", says=says, series=written(values[units[0]]), fix=fix)


def _unit_at_end(value: str) -> Unit | None:
    """Return the unit of a value of several words: ``used_bytes``; None where it has none."""
    before, _, word = value.rpartition("_")
    return unit_in(word) if before else None


def _is_unit(word: str) -> bool:
    return word in _OTHER_UNITS or word in ABBREVIATIONS or unit_in(word) is not None or unit_in(f"{word}s") is not None


def _label_sets(family: Served) -> Iterator[Problem]:
    """Yield a family whose series do not all have the same labels, as a query that joins or adds them up expects."""
    reserved = {*RESERVED.values()}
    sets: dict[frozenset[str], Series] = {}
    for one in family.series:
        sets.setdefault(frozenset(one.labels) - reserved, one)
    if len(sets) > 1:
        least, most = min(sets, key=len), max(sets, key=len)
        missing = ", ".join(sorted(most - least)) or "others"
        says = f"its series do not all have the same labels: some lack {missing}"
        fix = "give all series of a family the same labels, or make two families"
        yield Problem(family=family.name, rule="label-sets", says=says, series=written(sets[least]), fix=fix)


def _of_label(
    family: Served, label: str, values: Mapping[str, Series], forbidden: Collection[str], many: int
) -> Iterator[Problem]:
    fix = f"take the label {label} away: an Event, a log line or a trace can name the single one"
    example = written(next(iter(values.values())))
    seen = f"{_count(values)} so far"
    # A single one may be the program's own, as its instance or its project.
    numbers = _OF_SOMEONE.fullmatch(label) is not None and all(map(str.isdecimal, values))
    identifies = len(values) > 1 and (numbers or _IDENTIFIES.fullmatch(label) is not None)
    refused = label.lower() in UNBOUNDED or label in forbidden
    named = label.startswith(COPIED) or refused or identifies
    named = named and not (label == "resource_version" and all(map(_API_VERSION.fullmatch, values)))
    fact = _describes_process(family) and label.lower() not in _OF_NOW
    info = family.name.endswith("_info")
    several = not info and len(values) > 1
    shape = None if fact or _routes(label, values) else shape_of(values, info=info)
    if shape is not None and shape[0] == NUMBERED and _OF_HARDWARE.fullmatch(label):
        shape = None
    if shape is None:
        shape = objects_in_paths(values)
    if shape is None:
        shape = shape_under(label, values, info=info)
    if shape is not None and shape[0] in OF_INFOS and info:
        shape = None  # what versions belong into
    of_anything = label.lower() in _OF_ANYTHING or (identifies and not refused)
    certain = not of_anything or len(values) > _MOST_WORDS or any(map(is_identifier, values))
    if named and label not in forbidden and shape is None and len(values) <= many and _names_its_object(family, label):
        says = f"{label} is of the names of objects, of which each has a series ({seen})"
        each = "delete an object's series with it, in the reconcile that finds it gone"
        yield Problem(family=family.name, rule="unbounded-label", says=says, series=example, fix=each, hint=True)
    elif named and certain and not fact and not _listed(family, label, values):
        says = f"the values of {label} are unbounded ({seen})"
        yield Problem(family=family.name, rule="unbounded-label", says=says, series=example, fix=fix)
    elif shape is not None:
        looks, value = shape
        says = f"a value of {label} is {looks}: there is no end to them ({seen})"
        yield Problem(family=family.name, rule="unbounded-values", says=says, series=written(values[value]), fix=fix)
    elif not fact and is_amount(label, values):
        says = f"{label} is an amount, which belongs into the value of a series ({seen})"
        yield Problem(family=family.name, rule="unbounded-values", says=says, series=example, fix=fix)
    elif len(values) > many:
        says = f"the label {label} has {len(values):,} values"
        hint = label.lower() in _OF_OBJECTS and _are_code(values)
        yield Problem(family=family.name, rule="unbounded-values", says=says, series=example, fix=fix, hint=hint)
    elif not fact and len(values) >= _MOST_WORDS and _OF_KIND.fullmatch(label) and _differ(values):
        says = f"the values of {label} are the names of things, one for each ({seen})"
        yield Problem(family=family.name, rule="unbounded-label", says=says, series=example, fix=fix)
    elif ((named and not certain) or (several and _OF_KIND.fullmatch(label))) and not _listed(family, label, values):
        says = f"a label named {label} often takes any number of values ({seen})"
        yield Problem(family=family.name, rule="unbounded-label", says=says, series=example, fix=fix, hint=True)
    elif not fact and not _OF_NUMBERS.search(label) and are_spread(values):
        says = f"the values of {label} are numbers, as {next(iter(values))}: what counts on has no end ({seen})"
        yield Problem(family=family.name, rule="unbounded-values", says=says, series=example, fix=fix, hint=True)


def _names_its_object(family: Served, label: str) -> bool:
    """Return whether a label is a part of the name of the object that a series is of.

    A gauge of namespace and name says how an object is, as those of kube-state-metrics do, a counter what happened to
    it: they are as many as the objects, and go with them. What an operator does for each, as its reconciles, is another
    matter.
    """
    labels = family.labels()
    names = {name for name in labels if name in _OF_OBJECTS or _OF_KIND.fullmatch(name)}
    if family.of_library or not names or label not in names | _NAMESPACES or _NAMESPACES.isdisjoint(labels):
        return False
    happens = family.family.type == "counter" and _OF_WORK.search(family.name) is None
    return happens or family.family.type in ("gauge", "info", "stateset")


def _same(family: Served) -> Iterator[Problem]:
    """Yield two labels that have the same value on every series, or of which one is the class of the other."""
    labels = [label for label in family.own_labels() if label not in RESERVED.values()]
    for one, other in combinations(labels, 2):
        values = {series.labels.get(one) for series in family.series}
        if len(values) > 1 and all(series.labels.get(one) == series.labels.get(other) for series in family.series):
            says = f"its labels {one} and {other} have the same value on each of its {len(family.series)} series"
            example = written(family.series[0])
            fix = f"take one of the two away: {other} says what {one} says"
            yield Problem(family=family.name, rule="label-sets", says=says, series=example, fix=fix)
            return
    for code, kind in permutations(labels, 2):
        pairs = {(series.labels.get(code, ""), series.labels.get(kind, "")) for series in family.series}
        if len(pairs) > 1 and all(_CODE.fullmatch(each) and of.lower() == f"{each[0]}xx" for each, of in pairs):
            says = f"its label {kind} says of each series what the first digit of {code} says"
            fix = f'take {kind} away: {code}=~"5.." finds the same'
            one = written(family.series[0])
            yield Problem(family=family.name, rule="label-sets", says=says, series=one, fix=fix)
            return


def _differ(values: Collection[str]) -> bool:
    """Return whether most values differ in more than a number, by which parts of a fixed list differ, as ``db0``."""
    return 2 * len({_DIGITS.sub("", value) for value in values}) > len(values)


def _listed(family: Served, label: str, values: Collection[str]) -> bool:
    """Return whether the values of a label with an unbounded name are nevertheless a fixed list.

    They are where one value stands for the rest, and where a name that may mean anything has a few plain words; and
    where what could be names of objects is parts of the program: words of its code, the word that another label of the
    series writes as code, or one ``name`` on all series.
    """
    if not _REST.isdisjoint(values):
        return True
    words = label.lower() in _OF_ANYTHING or label.lower() in _OF_KINDS or _IDENTIFIES.fullmatch(label)
    if words and len(values) <= _FEW and all(_PLAIN.fullmatch(value) for value in values):
        return True
    if label.lower() not in _OF_OBJECTS:
        return False
    constant = label == "name" and len(values) == 1 and len(family.series) > 1
    if constant or all(_CODED.fullmatch(value) for value in values) or _are_functions(values):
        return True
    return all(_written_as_code(one, label) for one in family.series)


def _are_functions(values: Collection[str]) -> bool:
    """Return whether values are names of a program's parts, most of three words or more with underscores.

    No object of Kubernetes has an underscore in its name, and what people name seldom has two. Beside them may be names
    of classes, with a capital amid each.
    """
    if any(map(_NUMBER.search, values)):
        return False
    functions = sum(value.strip("_").count("_") > 1 for value in values)
    classes = sum(_CLASS_NAME.search(value) is not None for value in values)
    return 2 * functions > len(values) or 4 * (functions + classes) > 3 * len(values)


def _are_code(values: Collection[str]) -> bool:
    """Return whether values are words of a program's code, a list however long: of random ones most have a digit."""
    return all(map(_CODED.fullmatch, values)) and 2 * sum(map(str.isalpha, values)) >= len(values)


def _written_as_code(series: Series, label: str) -> bool:
    """Return whether another label has the same value with capitals (``name="rbac",type="RBAC"``), as no object has."""
    value_here = series.labels.get(label, "").lower()
    return any(value.lower() == value_here and _CODED.fullmatch(value) for value in series.labels.values())


def _routes(label: str, values: Iterable[str]) -> bool:
    """Return whether the values are the paths that a server has handlers for: none has a number of an object."""
    return (
        label.lower() in _OF_ROUTES
        and not any(_NUMBER_IN_PATH.search(value) for value in values)
        and any("/" in value for value in values)
    )


def _describes_process(family: Served) -> bool:
    """Return whether it is the one series with a process's version, build or settings."""
    return family.name.endswith("_info") and len(family.series) == 1


def _count(values: Mapping[str, object]) -> str:
    return f"{len(values):,} value{'s' if len(values) != 1 else ''}"


def _examples(values: Mapping[str, Series]) -> str:
    return ", ".join(written(series) for series in list(values.values())[:2])
