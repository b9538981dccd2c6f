"""How the values of a label are written: each way that means one thing, or nothing, splits a count in two."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from ...exposition.families import Series
from .families import Problem, Served, written

OF_OUTCOMES = frozenset(
    {"reason", "cause", "result", "outcome", "error_type", "type", "status", "state", "phase"}
    | {"controller", "kind", "operation"}
)
"""Labels that say what happened or who did it: there is always an answer."""

_PRINTED = re.compile(r"<?nil>?|<no value>|<none>|null|undefined|NaN|\[object Object\]|%!\w\(.*", re.DOTALL)
"""What programs print where they have no value, or the wrong one."""

_OF_A_LANGUAGE = re.compile(
    r"""[A-Z][a-z]\w*\.[A-Z][A-Z0-9_]+|[A-Z][a-z]\w*::\w+|<[A-Z]\w*\.\w+: .*>|<(?:class|enum|function|object) .*>"""
    r"""|b(?:'.*'|".*")|(?:Some|Ok|Err|Optional|Just)[(\[].*[)\]]|Optional\.empty|Symbol\(.*\)"""
    r"""|\*[a-z]\w*\.[A-Za-z]\w+|[A-Z][A-Za-z]+\(-?\d+\)|\[[\w.-]+(?: [\w.-]+)+\]"""
    r"""|\('?[\w.-]+'?(?:, '?[\w.-]+'?)+\)|[\w./-]+, Kind=\w+""",
    re.DOTALL,
)
"""How a language prints a member of an enumeration (without a name: ``Phase(3)``), a class, bytes, a list, a kind with
its API group, or what may be nothing."""

_PLACEHOLDER = re.compile(r"\$\{[^{}]*\}|\$\(\w+\)|\{\{.*?\}\}|%[A-Z][A-Z_]+%|.*\bREPLACE_?ME\b.*", re.DOTALL)
_MARKUP = re.compile(r"<([a-z]\w*)(?: [^>]*)?>.*</\1>", re.DOTALL)

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
    frozenset({"success", "successful", "succeeded", "succeed", "ok", "okay"}),
    frozenset({"fail", "failed", "failure"}),
    frozenset({"canceled", "cancelled"}),
    frozenset({"timeout", "timedout", "timed_out"}),
    frozenset({"error", "errored", "errors"}),
    frozenset({"skip", "skipped"}),
    frozenset({"reject", "rejected"}),
    frozenset({"done", "completed", "complete", "finished"}),
    frozenset({"in_progress", "inprogress", "in progress", "ongoing"}),
    frozenset({"none", "n/a", "not applicable"}),
)
"""Words for one outcome; what an error is beside a failure is the program's own."""
_CLASS, _CODE = re.compile(r"[1-5]xx", re.IGNORECASE), re.compile(r"[1-5]\d\d")
"""Of an answer of HTTP."""
_NUMBER_OF_GRPC = re.compile(r"1?\d")
_OF_GRPC = re.compile(
    r"OK|Canceled|InvalidArgument|DeadlineExceeded|NotFound|AlreadyExists|PermissionDenied|ResourceExhausted"
    r"|FailedPrecondition|Aborted|OutOfRange|Unimplemented|Internal|Unavailable|DataLoss|Unauthenticated"
)
"""https://grpc.io/docs/guides/status-codes/."""
_OF_KINDS = OF_OUTCOMES | {"resource", "object"}
"""Labels whose values are words for kinds of things: what a path has may well be ``api`` and ``apis``."""
_OF_DEEDS = _OF_KINDS | {"event", "event_type", "action", "verb", "op", "method", "step"}
_PROTOCOLS = frozenset({"http", "ftp", "ldap", "amqp", "mqtt", "redis", "grpc", "smtp", "imap", "pop"})
"""Words that an ``s`` makes another word."""
_LONG_WORD = re.compile(r"[a-z]{7,}")
_DOUBLED = re.compile(r"([a-z])\1")
_LISTED = re.compile(r"[A-Za-z][\w./-]*(?:[,;|]\s?[A-Za-z][\w./-]*)+")
_MANY_LISTS = 2
_MOST_COMPARED = 50
_SEPARATORS = re.compile(r"(?<=[^\W\d])[-_ ](?=[^\W\d])")
_VERSION = re.compile(r"(?<=[a-z])[ v](?=\d)")


def problems(family: Served, label: str, values: Mapping[str, Series]) -> Iterator[Problem]:
    """Yield a label with values that mean the same and are written differently."""
    for says, value, fix in _variants(label, list(values), info=family.name.endswith("_info")):
        yield Problem(family=family.name, rule="label-variants", says=says, series=written(values[value]), fix=fix)


def _variants(label: str, values: Sequence[str], *, info: bool) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with a label, a value that shows it, and the fix. ``info``: they are facts, as one may be."""
    known: dict[str, str] = {}
    for value in values:
        other = known.setdefault(_VERSION.sub("", _SEPARATORS.sub("", value.rstrip(".!;,")).casefold()) or value, value)
        if (wrong := _wrong(value)) is not None:
            yield f"{label} has the value {value[:40]!r}, {wrong[0]}", value, wrong[1]
            return
        if other != value and len(values) <= _MOST_COMPARED:  # more are names that someone chose
            says = f"{label} has the values {other!r} and {value!r}, which differ in capitals or punctuation only"
            yield says, value, "write each value one way"
            return
    yield from _misspelt(label, known)
    before = {value.partition(": ")[0] for value in values}
    if len(values) > 1 and len(before) == 1 and all(": " in value for value in values):
        says = f"each value of {label} begins with {next(iter(before))!r}"
        yield says, values[0], "write what differs alone: the label's name says what it is"
    if "None" in values and len(values) > 2 and all(value.islower() for value in values if value != "None"):
        yield f"{label} has the value 'None', printed where there was none", "None", 'write "none", or what it is'
    lists = [value for value in values if _LISTED.fullmatch(value)]
    parts = Counter(part.strip() for value in lists for part in re.split("[,;|]", value))
    again = any(number > 1 or part in known or part.count(".") > 1 for part, number in parts.items())
    # A single one is a list for certain where one of its names stands alone, too.
    beside = not info and not parts.keys().isdisjoint({*values} - {*lists})
    if (len(lists) >= _MANY_LISTS and again) or beside:
        says = f"a value of {label} is a list ({lists[0][:40]!r}): there is a series for each combination"
        yield says, lists[0], "give each a series, or a family of its own"
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
    numbers, words = (sorted(filter(test, values)) for test in (_NUMBER_OF_GRPC.fullmatch, _OF_GRPC.fullmatch))
    if numbers and words:
        says = f"{label} has the code {numbers[0]} of gRPC and the name {words[0]}, so that a query has to know of both"
        yield says, numbers[0], "write the names"
    for synonyms in _SYNONYMS:
        several = sorted(synonyms & known.keys())
        if len(several) > 1:
            says = f"{label} has the values {' and '.join(several[:2])}, which mean the same"
            yield says, known[several[0]], "write each value one way"
    ways = [way for way in _BOOLEANS if not way.isdisjoint(known)]
    if len(ways) > 1 and known.keys() <= set().union(*_BOOLEANS):
        says = f"{label} says yes or no in {len(ways)} ways: {', '.join(sorted(known))}"
        yield says, values[0], "write true and false"


def _misspelt(label: str, known: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield a value that is another one in the plural, or lacks one of two equal letters, or has two exchanged."""
    for word, value in known.items() if label.lower() in _OF_KINDS else ():
        one = word[:-1]
        kind = word.partition(".")[0]
        # Quotas have ``services`` and ``services.loadbalancers``.
        names = (kind, kind.removesuffix("s")) if word.count(".") > 1 else (kind.removesuffix("s"),)
        same = next((other for other in names if other not in (word, value) and other in known), None)
        if same is not None and "." in value and not any(map(str.isdigit, value)):
            says = f"{label} has the values {known[same]!r} and {value!r}, one with its API group"
            yield says, value, "write each value one way"
            return
        if word.endswith("s") and len(one) > 2 and one in known and one not in _PROTOCOLS and one.isalpha():
            says = f"{label} has the values {known[one]!r} and {value!r}, one in the plural"
            yield says, value, "write each value one way"
            return
    for word, value in known.items() if label.lower() in _OF_DEEDS else ():
        if (done := next((f"{word}{end}" for end in ("d", "ed") if f"{word}{end}" in known), None)) is not None:
            says = f"{label} has the values {value!r} and {known[done]!r}, one verb in two tenses"
            yield says, known[done], "write each value one way"
            return
    words = [word for word, value in known.items() if _LONG_WORD.fullmatch(value)]
    for one, other in combinations(words[:_MOST_COMPARED], 2):
        if _is_one_slip(one, other):
            says = f"{label} has the values {known[one]!r} and {known[other]!r}, of which one is misspelt"
            yield says, known[other], "write each value one way"
            return


def _is_one_slip(word: str, other: str) -> bool:
    """Return whether one of two equal letters is missing, or two neighbours are exchanged."""
    shorter, longer = sorted((word, other), key=len)
    if len(shorter) != len(longer):
        return any(f"{longer[: at.start()]}{longer[at.start() + 1 :]}" == shorter for at in _DOUBLED.finditer(longer))
    if sorted(word) != sorted(other):
        return False
    differ = [place for place, (a, b) in enumerate(zip(word, other, strict=True)) if a != b]
    return len(differ) == 2 and differ[1] == differ[0] + 1


def _wrong(value: str) -> tuple[str, str] | None:
    """Return what is wrong with a value alone, and the fix."""
    if value != value.strip():
        return "with blanks at its ends", "take them away"
    if _PRINTED.fullmatch(value):
        return "printed where there was none", 'write "none", or what it is'
    if _PLACEHOLDER.fullmatch(value):
        return "a placeholder that was not filled in", "fill it in before it is used as a value"
    if not value.isascii() and not any(map(str.isalnum, value)):
        return "a sign that is hard to type into a query", "write the word for it"
    if _MARKUP.fullmatch(value):
        return "with markup around it", "write the text alone"
    if _OF_A_LANGUAGE.fullmatch(value):
        return "as its language prints it", "write the word for it, which stays when the code changes"
    if _STATUS_LINE.fullmatch(value):
        return "a code with its text", "write the code alone: the text says no more"
    if (escaped := _ESCAPED.search(value)) is not None:
        fix = "give the client library the text as it is: it escapes what this format needs"
        return f"with {escaped[0]} as of another format", fix
    return None
