"""What help texts say: a unit, a type, that numbers stand for words, how something ended, or nothing."""

from __future__ import annotations

import re
from collections.abc import Collection

COUNTS = re.compile(r"(?:\[\w+\] )?(?:the )?(?:total |current )?(?:number|count) of\b", re.IGNORECASE)
"""How a help text begins that says: what it measures are things, and no unit."""

_LONG = {
    "ms": "milliseconds",
    "us": "microseconds",
    "µs": "microseconds",
    "ns": "nanoseconds",
    "kb": "kilobytes",
    "mb": "megabytes",
    "gb": "gigabytes",
    "percentage": "percent",
    "kib": "kibibytes",
    "mib": "mebibytes",
    "gib": "gibibytes",
}
_UNIT = re.compile(
    r"(?:\bin |, |\bunit: ?|[(\[]|^(?=[a-z]{4})(?:the )?(?:total )?(?:number of )?)"
    r"((?:milli|micro|nano)?seconds|minutes|hours|days|(?:kilo|mega|giga|kibi|mebi|gibi)?bytes"
    r"|percent(?:age)?|(?!(?-i:US))[mun]s|µs|[KMG]i?B|[kMG]bps)(?=[\s.,;)\]]|$)",
    re.IGNORECASE,
)
"""A unit that a help text says: "in milliseconds", "(MiB)", "Bytes of …"."""

_LONGEST = 1_000
"""Characters that are looked at: a longer text is no sentence, and patterns with several gaps take long on it."""

_PLACEHOLDER = re.compile(
    r"(?:todo|fixme|xxx|tbd|no help|lorem ipsum)\b.*|n/?a|none|[\W_]+"
    r"|(?:help|description|(?:the |a |this )?metric)\.?",
    re.IGNORECASE,
)
_NAMED = r"(?: ?(?:[=:–(-]|is|for|means|stands for)? ?(?:[^\W\d]{3,}|(?:ok|up|no|on)\b)| ?[=:] ?[^\W\d]{2,})"
_NUMBERED_WORDS = re.compile(
    "|".join(
        rf"(?<![\w.]){one}{_NAMED}[^.]*(?<![\w.]){two}{_NAMED}[^.]*(?<![\w.]){three}{_NAMED}"
        for one, two, three in ("012", "123")
    )
)

_WINDOW = re.compile(
    r"\b(?:since|from) the (?:last|previous) (?:scrape|collection|read(?:ing)?|query|poll|interval|report)\b"
    r"|\b(?:in|over|within|during) the (?:last|past) (?:\d+ ?)?(?:s|sec|m|min|h|seconds?|minutes?|hours?|interval)\b",
    re.IGNORECASE,
)
"""Of a number that starts again and again."""

_NOW = re.compile(
    r"(?:\[\w+\] )?(?:the )?(?:current(?:ly)?\b|(?:number|count|amount) of (?:\S+ )?(?:currently|now)\b)", re.I
)
_JUST_NOW = re.compile(
    r"\b(?:right now|just now|at the moment|at present|at this (?:moment|time))\b|\b(?<!till )(?<!to )now\.?$",
    re.IGNORECASE,
)
_A_TIME = re.compile(
    r"(?:the )?(?:total |cumulative |average |longest |maximum )*(?:time (?!(?:at|when|of)\b|stamp)\w+|how long\b"
    r"|(?:duration|latency|age) of\b)",
    re.IGNORECASE,
)
"""How a help text begins that says: what it measures is a time from one moment to another."""
_SO_FAR = re.compile(
    r"\b(?:cumulative (?:number|count)|(?:number|count) of (?!\w*(?:seconds|minutes|hours|days)\b).*"
    r"\b(?:since (?:\w+ ){0,3}(?:re)?(?:start|boot|launch)(?:s|ed|up)?|so far|ever)\b)",
    re.IGNORECASE,
)
_EVENTS = re.compile(
    r"(?:the )?(?:total )?(?:number|count) of (?:failed|successful|succeeded|rejected|dropped|received|sent|processed"
    r"|handled|completed|retried|aborted) (?:\w+ )?(?:requests|queries|calls|messages|events|responses|packets|attempts"
    r"|lookups|deliveries|operations|writes|reads|reconciles|reconciliations)\.?$"
    r"|(?:the )?(?:total )?(?:number|count) of (?:\w+ ){0,2}(?:requests|queries|calls|messages|events|responses)"
    r" (?:received|sent|processed|handled|rejected|dropped|served|delivered|published|consumed)\.?$",
    re.IGNORECASE,
)
"""Of things that happen, and of how they ended: no such number falls."""
_SINCE_START = re.compile(r"\bso far\b|\bsince (?:\w+ ){0,3}(?:re)?(?:start|boot|launch)(?:s|ed|up)?\b", re.IGNORECASE)
_MOST = re.compile(r"\b(?:max(?:imum)?|highest|largest|longest|slowest|peak|most)\b", re.IGNORECASE)
_HAPPENED = re.compile(
    r"_(?:\w*(?<!us)ed|sent|seen|written|read|lost|done|made|(?:re)?(?:starts|tries|connects)|errors|failures|crashes)$"
)
"""The end of the name of what happens, one after the other; ``used`` is a state."""
_NO_COUNT = re.compile(
    r"\b(?:time|times?tamp|seconds|minutes|hours|days|duration|whether|if|max(?:imum)?|min(?:imum)?|highest|lowest"
    r"|largest|smallest|longest|peak|most|least|average|mean|last|latest|ratio|rate|share|part|percent\w*|set)\b",
    re.IGNORECASE,
)
"""Words of what was measured since a start and does not only grow."""

_WAYS = (
    (r"succe(?:ss(?:es|ful|fully)?|ed(?:ed|s)?)", r"fail(?:s|ed|ing|ures?)?"),
    (r"hits?", r"miss(?:es|ed)?"),
    (r"allowed|accepted|admitted|granted", r"denied|rejected|refused"),
)
"""Pairs of outcomes that exclude each other: of one family its name and its help text say the same one. What one side
sends the other receives: such pairs depend on who speaks."""
_OPPOSITES = [
    (re.compile(rf"(?<![^\W_])(?:{one})(?![^\W_])", re.I), re.compile(rf"(?<![^\W_])(?:{other})(?![^\W_])", re.I))
    for pair in _WAYS
    for one, other in (pair, pair[::-1])
]
_NEGATED = re.compile(
    r"\b(?:not|no|non|never|neither|nor|without|unless|un\w+|instead|but|except|after|before|until|cannot|lack\w*"
    r"|if|because|when|where|while|than|retr\w+)\b|n't\b",
    re.IGNORECASE,
)
"""Words of a help text that says more than one thing, or says it by the opposite."""


def is_none(text: str) -> bool:
    """Return whether a help text says nothing."""
    return not text.strip() or _PLACEHOLDER.fullmatch(text.strip()) is not None


def is_name(text: str, name: str) -> bool:
    """Return whether a help text is a name once more: all of it, or what follows the program's up to the unit."""
    words = _letters(text)
    # OpenMetrics names a counter without the ending that its series have.
    name = name.removesuffix("_total") if not re.search(r"[\W_]total[\W_]*$", text.lower()) else name
    ends = re.search(r"[\W_](?:total|count|seconds|bytes|ratio|info)[\W_]*$", text.lower())
    return words == _letters(name) or (ends is not None and words == _letters(name.partition("_")[2]))


def _letters(text: str) -> str:
    """Return a text's letters and digits in lower case."""
    return re.sub(r"[\W_]+", "", text).lower()


def unit_of(text: str) -> tuple[str, str] | None:
    """Return a unit that a help text says: as it is written, and in full; None where it says none."""
    said = _UNIT.search(text[:_LONGEST])
    return (said[1], _LONG.get(said[1].lower(), said[1].lower())) if said is not None else None


def says_a_time(text: str) -> bool:
    """Return whether a help text says that what is measured is a time, from one moment to another."""
    return _A_TIME.match(text) is not None


def says_most_so_far(text: str) -> bool:
    """Return whether a help text says that what is measured is the most since a start, which never falls."""
    return _SINCE_START.search(text[:_LONGEST]) is not None and _MOST.search(text[:_LONGEST]) is not None


def numbers_words(text: str) -> bool:
    """Return whether a help text says that numbers stand for words: ``0=pending, 1=running, 2=failed``."""
    return _NUMBERED_WORDS.search(text[:_LONGEST]) is not None


def says_now(text: str) -> bool:
    """Return whether a help text says that what is measured goes up and down."""
    text = text[:_LONGEST]
    return bool(_NOW.match(text) or _JUST_NOW.search(text) or _WINDOW.search(text))


def says_so_far(text: str, name: str) -> bool:
    """Return whether a help text says that what is measured only goes up; where it says no number, the name has to."""
    text = text[:_LONGEST]
    if _SO_FAR.search(text) or _EVENTS.match(text.strip()):
        return True
    happened = _SINCE_START.search(text) is not None and _HAPPENED.search(name) is not None
    return happened and not _NO_COUNT.search(text)


def opposite_of(name: str, text: str, labels: Collection[str] = ()) -> tuple[str, str] | None:
    """Return what a name says and its help text says the opposite of: both words; None where they agree.

    A help text of several clauses, or with a negation, may well name both.
    """
    text = text[:_LONGEST]
    if _NEGATED.search(text):
        return None
    for ours, theirs in _OPPOSITES:
        said, other = ours.search(name), theirs.search(text)
        if said and other and not theirs.search(name) and not ours.search(text):
            return said[0], other[0]
    return None
