"""How a test knows that an operator is done with its custom resources: the milestones that their status offers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ..operator.manifests import Object, as_mapping
from .custom_resources import CustomResource

_DONE = (
    *("Complete", "Completed", "Succeeded", "Done", "Finished"),
    *("Ready", "Available", "Healthy", "Active", "Synced", "Bound", "Running"),
)
"""Values of a condition's type, or of a phase, that mean that nothing is left to be done; the first found counts.

Those that are the last one of all stand first: an object whose Job runs is Running for a while, and Complete for ever.
"""
_PASSING = ("Running", "Active")
"""Values that pass where Jobs do the work: their pods end."""
_NOT_DONE = re.compile(
    r"fail|err|degraded|unknown|invalid|reject|denied|abort|cancel|expired|lost|unhealthy|unavail|terminat|delet|remov"
    r"|ing$|progress|scheduled|queued|started|^(?:new|init|none|in|up)",
    re.IGNORECASE,
)
"""Values of a phase that do not last, or are no success."""
_BEGUN = re.compile("scheduled|started", re.IGNORECASE)
"""Those that last where there is no other."""
_COMPARED = re.compile(r"""(?:[=!]=|\bcase)\s*["'](\w+)["']|["'](\w+)["']\s*[=!]=""")
_AMONG = re.compile(r"""\bin\s*[(\[{](?:\s*["']\w+["'],?)*\s*[)\]}]""")
"""Values that something is looked for in: ``pod.phase in ("Failed", "Succeeded")``."""
_IN_COLUMN = re.compile(r"""\.status\.conditions\[\?\(\s*@\.type\s*==\s*["'](\w+)["']\s*\)\]\.status""")
_CONDITION_TYPE = re.compile(
    r"""(?:(?:type|cond)\w*["']?(?:(?:\s+[\w.]+)?\s*:?[:=]|\()"""
    r"""|\b(?!is|has|get|find)\w*cond\w*\((?:[^"'()]|\([^()]*\)){0,80},)\s*["'](\w+)["']""",
    re.IGNORECASE,
)
"""A literal that something named after a type or a condition is: ``typeAvailable = "Available"``, ``withType("…")``; or
that a function named after conditions gets, but for one that reads them: ``setCondition(status, "Ready", …)``."""
_SETS_CONDITIONS = re.compile(
    r"ConditionTrue|SetStatusCondition|[\"']conditions[\"']|\b(?:set|with|add)\w*Conditions?\("
    r"|\b[Cc]onditions(?:\.(?:push|add|Add)\(|\s*[:=]\s*(?:vec!|Some|List|new|\[))"
)
_FUNCTION = re.compile(r"^(?=(?:func|(?:async )?def|(?:pub )?(?:async )?fn|(?:export )?(?:async )?function|@)\b)", re.M)
"""Where a function begins that is not part of another, or its decorators."""
_PHASES = ("phase", "state")
_DECLARED_PHASES = (*_PHASES, "status")
"""With their values in the CRD: of others a program's text does not say which literals are a status'."""
_OBSERVES = re.compile(
    r"""\.Status\.ObservedGeneration\s*=|["']observedGeneration["']\s*[:,\]]|\b(?:set|with)ObservedGeneration\("""
    r"""|\bobserved_generation\s*[:=][^=]"""
)


class Milestone(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on the workload that holds once the operator is done, as an expression of a test."""

    name: str
    expression: str
    """``widgets`` is the workload, ``count`` its number of objects."""
    reason: str
    """What it is derived from."""
    is_guess: bool


def milestones(
    resource: CustomResource, obj: Object, source: str, workload: str, *, runs_jobs: bool = False
) -> list[Milestone]:
    """Return the milestones of a deployment that can be derived, best first; none where nothing can.

    ``obj``: the sample; ``source``: the program's text, whose literals name condition types and phases; ``workload``:
    the variable of the workload in the test. Declared by the CRD: a printer column with a condition, a scale
    subresource. The rest is guessed from the fields of the status and the program's literals. ``runs_jobs``: it makes
    Jobs, whose pods end.
    """
    resource = _with_status(resource, source)
    condition = _condition(resource, source)
    if condition is not None:
        return [condition_milestone(workload, *condition)]
    for field in _DECLARED_PHASES:
        schema = as_mapping(resource.status.get(field))
        if schema.get("type") == "string" and (schema.get("enum") or field in _PHASES):
            values = _phases(schema.get("enum") or [], source)
            # As it is spelt there: enums of Java and Rust are often in capitals.
            spelt = {_word(value): value for value in sorted(values, reverse=True)}
            passing = {_word(value) for value in _PASSING}
            known = [spelt[word] for word in map(_word, _DONE) if word in spelt and not (runs_jobs and word in passing)]
            # A word of its own, as Issued: the last that the CRD lists, or the only one.
            own = [value for value in schema.get("enum") or sorted(values) if value in values]
            is_only = len(values) == 1 and not schema.get("enum")
            own = [value for value in own if not (_NOT_DONE.search(value) and not (is_only and _BEGUN.search(value)))]
            own = [value for value in own if _word(value) not in passing]
            known = known or (own[-1:] if schema.get("enum") or len(own) == 1 else [])
            if known:
                return [
                    Milestone(
                        name=known[0].lower(),
                        expression=f'{workload}.status({field}="{known[0]}")',
                        reason=f"status.{field} is {known[0]} when it is done",
                        is_guess=True,
                    )
                ]
    for field in (value.lower() for value in _DONE if not (runs_jobs and value in _PASSING)):
        if as_mapping(resource.status.get(field)).get("type") == "boolean":
            return [
                Milestone(
                    name=field,
                    expression=f"{workload}.status({field}=True)",
                    reason=f"status.{field} is true when it is done",
                    is_guess=True,
                )
            ]
    if replicas := _replicas(resource, obj, workload):
        return [replicas]
    if "observedGeneration" in resource.status and _OBSERVES.search(source):
        return [
            Milestone(
                name="observed",
                expression=f"{workload}.status(observedGeneration=1)",
                reason="the operator writes status.observedGeneration when it is done",
                is_guess=True,
            )
        ]
    return []


def sources_of(resource: CustomResource, texts: Sequence[str]) -> list[str]:
    """Return what a program says of a kind: the functions that name it, then the files; none where nothing does.

    A file may be about several kinds, and the phases in it are those of all.
    """
    naming = re.compile(rf"\b(?:{resource.kind}|{resource.target.partition('.')[0]})\b")
    parts: Iterable[Iterable[str]] = (_functions("\n".join(texts)), texts)
    found = ("\n".join(each for each in part if naming.search(each)) for part in parts)
    return [text for text in found if text]


def _functions(text: str) -> Iterator[str]:
    """Yield the parts of a program's text, each a function with its decorators."""
    decorators = ""
    for part in _FUNCTION.split(text):
        if part.startswith("@"):
            decorators += part
        else:
            yield decorators + part
            decorators = ""


def _word(value: str) -> str:
    return value.replace("_", "").lower()


_IN_STATUS = re.compile(r"\.status\.(\w+)$")
_FIELD = re.compile(r"^\s*\w+\s+([\w.\[\]*]+)\s+`json:\"(\w+)", re.MULTILINE)
_GO_TYPES = {"string": "string", "bool": "boolean", "int": "integer", "int32": "integer", "int64": "integer"}


def _with_status(resource: CustomResource, source: str) -> CustomResource:
    """Return a resource whose schema leaves its status open, with the fields that are known otherwise.

    Those of the struct of a program in Go, of printer columns, and the conditions that a program sets.
    """
    if resource.status:
        return resource
    struct = re.search(rf"^type {resource.kind}Status struct \{{(.*?)^\}}", source, re.MULTILINE | re.DOTALL)
    fields = {name: {"type": _GO_TYPES.get(type_, "")} for type_, name in _FIELD.findall(struct[1])} if struct else {}
    for column in resource.columns:
        if found := _IN_STATUS.match(str(column.get("jsonPath", ""))):
            fields.setdefault(found[1], {"type": str(column.get("type", ""))})
    if not struct and _sets_conditions(source):
        fields["conditions"] = {"type": "array"}
    properties = {**as_mapping(resource.schema.get("properties")), "status": {"properties": fields}}
    return msgspec.structs.replace(resource, schema={**resource.schema, "properties": properties})


_SET = re.compile(r"""(?:phase|state(?!ful))\w*["']?\]?\s*(?::?=|:|,|\()\s*["']\w+["']""", re.IGNORECASE)
_VALUE = re.compile(r"""["'](\w+)["'](?!\s*[:\]])""")
"""A literal that a phase or a state gets: ``phase = "Online"``, ``{"state": "Scheduled"}``."""


def _phases(declared: Sequence[str], source: str) -> set[str]:
    """Return the values that a phase may reach: those of the CRD that the program sets, by its literals.

    Without a declaration those on lines that name a phase or a state, if there are any.
    """
    compared = {value for pair in _COMPARED.findall(source) for value in pair if value}
    text = _AMONG.sub("", _COMPARED.sub("", source))
    named = literals(text)
    if declared:
        known = set(declared) & (named | compared)
        return known or set(declared)
    lines = "\n".join(line for line in text.splitlines() if re.search(r"phase|state(?!ful)", line, re.IGNORECASE))
    if any(value in _DONE or (value.isupper() and value.capitalize() in _DONE) for value in literals(lines)):
        return literals(_CONDITION_TYPE.sub("", lines))
    # Both values of a line with a condition count, and no keys.
    given = {value for line in text.splitlines() if _SET.search(line) for value in _VALUE.findall(line)}
    return given or named & set(_DONE)


def condition_milestone(workload: str, type_: str, reason: str, is_guess: bool) -> Milestone:
    """Return the milestone of a condition that is True."""
    return Milestone(
        name=re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", type_).lower(),
        expression=f'{workload}.status(conditions={{"{type_}": "True"}})',
        reason=reason,
        is_guess=is_guess,
    )


def _condition(resource: CustomResource, source: str) -> tuple[str, str, bool] | None:
    columns = [match[1] for column in resource.columns if (match := _IN_COLUMN.match(str(column.get("jsonPath", ""))))]
    for type_ in sorted(columns, key=lambda each: _DONE.index(each) if each in _DONE else len(_DONE)):
        return type_, f"the CRD shows the condition {type_} in a column", type_ not in _DONE
    if "conditions" not in resource.status or not _sets_conditions(source):
        return None
    named = set(_CONDITION_TYPE.findall(source))
    known = [type_ for type_ in _DONE if type_ in named]
    return (known[0], f"the program has a condition {known[0]}, as it seems", True) if known else None


def _sets_conditions(source: str) -> bool:
    return bool(_SETS_CONDITIONS.search(source))


def _replicas(resource: CustomResource, obj: Object, workload: str) -> Milestone | None:
    """Return the milestone of a scale subresource: status and spec agree on the number."""
    in_spec, in_status = (str(resource.scale.get(key, "")) for key in ("specReplicasPath", "statusReplicasPath"))
    number: Any = obj
    for key in in_spec.strip(".").split("."):
        number = number.get(key) if isinstance(number, dict) else None
    ready = next((name for name in ("readyReplicas", "availableReplicas") if name in resource.status), "")
    field = ready or in_status.removeprefix(".status.")
    if not isinstance(number, int) or not number or not field or "." in field:
        return None
    return Milestone(
        name="replicas-ready" if ready else "replicas",
        expression=f"{workload}.status({field}={number})",
        reason=f"status.{field} reaches the sample's {in_spec.lstrip('.')}",
        is_guess=True,
    )


def literals(source: str) -> set[str]:
    """Return the words that stand alone in quotes."""
    return set(re.findall(r"[\"'](\w+)[\"']", source))
