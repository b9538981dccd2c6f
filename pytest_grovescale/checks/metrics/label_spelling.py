"""How the values of a label are written: each way that means one thing, or nothing, splits a count in two."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ...exposition.families import Series
from .families import Problem, Served, written

OF_OUTCOMES = frozenset(
    {"reason", "cause", "result", "outcome", "error_type", "type", "status", "state", "phase"}
    | {"controller", "kind", "operation"}
)
"""Labels that say what happened or who did it: there is always an answer."""

_PRINTED = re.compile(r"<nil>|<no value>|<none>|null|undefined|NaN|\[object Object\]|%!\w\(.*", re.DOTALL)
"""What programs print where they have no value, or the wrong one."""

_OF_A_LANGUAGE = re.compile(
    r"""[A-Z][a-z]\w*\.[A-Z][A-Z0-9_]+|[A-Z][a-z]\w*::\w+|<[A-Z]\w*\.\w+: .*>|<(?:class|enum|function|object) .*>"""
    r"""|b(?:'.*'|".*")|(?:Some|Ok|Err|Optional|Just)[(\[].*[)\]]|Optional\.empty|Symbol\(.*\)""",
    re.DOTALL,
)
"""How a language prints a member of an enumeration, a class, bytes or what may be nothing."""

_ESCAPED = re.compile(
    r"&(?:amp|lt|gt|quot|apos|nbsp|#\d+|#x[0-9a-f]+);|%(?:2[0-9a-f]|3[a-f]|5[bd]|7[bd])|\\u[0-9a-f]{4}", re.I
)
"""What was escaped for HTML, a URL or JSON, and not for this format."""

_STATUS_LINE = re.compile(r"[1-5]\d\d [A-Z][A-Za-z' -]+")

_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'", re.DOTALL)

_NUMBERED = re.compile(
    r"phase|state|mode|role|outcome|result|reason|cause"
    r"|(?!(?:.*_)?(?:exit|http|grpc|response|return|wait)_).+_(?:phase|state|status)",
    re.I,
)
"""Labels whose values are words."""

_BOOLEANS = ({"true", "false"}, {"0", "1"}, {"yes", "no"}, {"on", "off"})
_SYNONYMS = (
    frozenset({"success", "successful", "succeeded", "succeed"}),
    frozenset({"fail", "failed", "failure"}),
    frozenset({"canceled", "cancelled"}),
    frozenset({"timeout", "timedout", "timed_out"}),
)
"""Words for one outcome; what an error is beside a failure is the program's own."""
_CLASS, _CODE = re.compile(r"[1-5]xx", re.IGNORECASE), re.compile(r"[1-5]\d\d")
"""Of an answer of HTTP."""
_SEPARATORS = re.compile(r"(?<=[^\W\d])[-_ ](?=[^\W\d])")


def problems(family: Served, label: str, values: Mapping[str, Series]) -> Iterator[Problem]:
    """Yield a label with values that mean the same and are written differently."""
    for says, value, fix in _variants(label, list(values)):
        yield Problem(family=family.name, rule="label-variants", says=says, series=written(values[value]), fix=fix)


def _variants(label: str, values: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with a label, a value that shows it, and the fix."""
    known: dict[str, str] = {}
    for value in values:
        other = known.setdefault(_SEPARATORS.sub("", value).casefold(), value)
        if (wrong := _wrong(value)) is not None:
            yield f"{label} has the value {value[:40]!r}, {wrong[0]}", value, wrong[1]
            return
        if other != value:
            says = f"{label} has the values {other!r} and {value!r}, which differ in capitals or hyphens only"
            yield says, value, "write each value one way"
            return
    quoted = [value for value in values if _QUOTED.fullmatch(value)]
    if quoted and (label.lower() in OF_OUTCOMES or 1 < len(quoted) == len(values)):
        yield f"{label} has the value {quoted[0][:40]}, with quotes around it", quoted[0], "take them away"
    classes = [value for value in values if _CLASS.fullmatch(value)]
    if classes and any(map(_CODE.fullmatch, values)):
        says = f"{label} has the class {classes[0]} and single codes, so that a query has to know of both"
        yield says, classes[0], "write classes or codes"
    if _NUMBERED.fullmatch(label) and len(values) > 1 and all(re.fullmatch(r"\d\d?", value) for value in values):
        says = f"the values of {label} are numbers that stand for words ({', '.join(sorted(values)[:3])})"
        yield says, values[0], "write the words"
    for words in _SYNONYMS:
        several = sorted(words & known.keys())
        if len(several) > 1:
            says = f"{label} has the values {' and '.join(several[:2])}, which mean the same"
            yield says, known[several[0]], "write each value one way"
    ways = [way for way in _BOOLEANS if not way.isdisjoint(known)]
    if len(ways) > 1 and known.keys() <= set().union(*_BOOLEANS):
        says = f"{label} says yes or no in {len(ways)} ways: {', '.join(sorted(known))}"
        yield says, values[0], "write true and false"


def _wrong(value: str) -> tuple[str, str] | None:
    """Return what is wrong with a value alone, and the fix."""
    if value != value.strip():
        return "with blanks at its ends", "take them away"
    if _PRINTED.fullmatch(value):
        return "printed where there was none", 'write "none", or what it is'
    if _OF_A_LANGUAGE.fullmatch(value):
        return "as its language prints it", "write the word for it, which stays when the code changes"
    if _STATUS_LINE.fullmatch(value):
        return "a code with its text", "write the code alone: the text says no more"
    if (escaped := _ESCAPED.search(value)) is not None:
        fix = "give the client library the text as it is: it escapes what this format needs"
        return f"with {escaped[0]} as of another format", fix
    return None
