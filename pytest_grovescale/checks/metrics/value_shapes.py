"""What values of labels look like: identifiers, of which there is no end, against words of a fixed list."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SHAPES = {
    "a UUID": re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE),
    "a pod's name": re.compile(r"[a-z0-9.-]+-[bcdf-hj-np-tv-z2-9]{8,10}-[bcdf-hj-np-tv-z2-9]{5}"),
    "an object's namespace and name": re.compile(r"[a-z0-9][a-z0-9-]*/[a-z][a-z0-9]*-[a-z0-9-]*[0-9][a-z0-9-]*"),
    "a name with a ReplicaSet's hash": re.compile(r"[a-z][a-z0-9.-]*-(?=[a-z]*\d)[bcdf-hj-np-tv-z2-9]{8,10}"),
    "a generated name": re.compile(r"[a-z][a-z0-9.-]*-(?=[a-z]*\d)(?=\d*[a-z])[bcdf-hj-np-tv-z2-9]{5}"),
    "a ULID": re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}"),
    "a KSUID": re.compile(r"(?=.*\d)(?=.*[a-z])(?=.*[A-Z])[0-9A-Za-z]{27}"),
    "an email address": re.compile(r"[^\s@]+@[^\s@]+\.[a-z]{2,}", re.IGNORECASE),
    "a time": re.compile(
        r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?|\d{4}/\d\d/\d\d.*|\d\d:\d\d:\d\d(?:\.\d+)?"
        r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? .*\d\d:\d\d:\d\d.*|1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?"
    ),
    "a date": re.compile(r"\d{1,2}[./]\d{1,2}[./]\d{4}"),
    "a duration": re.compile(r"-?(?:\d+h)?(?:\d+m)?\d+\.\d{3,}(?:s|ms|µs|us)"),
    "a machine's name": re.compile(r"ip-\d{1,3}(?:-\d{1,3}){3}(?:[.:].*)?|[a-z][a-z0-9-]*-[0-9a-f]{8}-[a-z0-9]{4}"),
    "a hash": re.compile(r"(?:sha\d+:)?(?=.*\d)(?=.*[a-f])[0-9a-f]{32,}", re.IGNORECASE),
    "an image's digest": re.compile(r"\S+@sha256:[0-9a-f]{8,}"),
    "an address": re.compile(
        r"\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?"
        r"|\[?(?=.*[0-9a-f]:)(?=(?:.*:){2})[0-9a-f:]{3,45}\]?(?:%\w+)?(?::\d+)?",
        re.IGNORECASE,
    ),
    "a pointer": re.compile(r"0x[0-9a-f]{6,16}", re.IGNORECASE),
    "a number with many digits": re.compile(r"-?\d+\.\d{4,}(?:e[+-]?\d+)?", re.IGNORECASE),
    "a URL with a number or a query": re.compile(
        r"[a-z][a-z0-9+.-]*://(?:\d{1,3}(?:\.\d{1,3}){3}\S*|[^/\s]+/\S*(?:\d{2}|[0-9a-f]{8}|\?|=)\S*)"
    ),
    "the path of an object": re.compile(r"\S*/(?:namespaces|pods|nodes)/[^/\s{]+(?:/\S*)?"),
    "a path with a number or a query": re.compile(
        r"/(?:[^/\s?]+/)*(?:[^/\s?]*\d{2}[^/\s?]*|\d|[0-9a-f-]*\d[0-9a-f-]{8,})(?:/[^\s]*)?(?:\?\S*)?|/[^\s?]+\?\S+"
    ),
    "a sentence": re.compile(r"(?=.{40})\S+(?:\s+\S+){5,}", re.DOTALL),
    "a message about one object": re.compile(r'(?=.{20})(?>.*?\S\s).*["\'][a-z0-9][\w./-]+["\'].*', re.DOTALL),
    "a message with an address": re.compile(r"(?=.{20}).*\s\d{1,3}(?:\.\d{1,3}){3}:\d+.*", re.DOTALL),
    "an error with its message": re.compile(r"[A-Z]\w*(?:Error|Exception): .+", re.DOTALL),
    "a client's version": re.compile(r"\S+/v?\d+\.\d+\S* \(.*\).*"),
    "a database's query": re.compile(r"(?:SELECT|INSERT|UPDATE|DELETE)\s.+", re.DOTALL | re.IGNORECASE),
    "a document": re.compile(r"[{\[].*[:,].*[}\]]|&?\{.*\}|map\[.*\]", re.DOTALL),
    "a text of several lines": re.compile(r".*\n.*", re.DOTALL),
    "a text of more than 200 characters": re.compile(r".{200,}", re.DOTALL),
    "an ARN": re.compile(r"arn:[\w-]+:\S+:\S+"),
    "a stack trace": re.compile(r".*\bgoroutine \d+ \[.*|.*\.(?:go|py|java|rs):\d+.*", re.DOTALL),
}
"""What a value looks like, whatever its label is called. Pods' random parts have no vowels and none of 0, 1 and 3
(k8s.io/apimachinery/pkg/util/rand)."""

_MANY_SHAPES = {
    "a hash": (2, re.compile(r"(?=.*\d)(?=.*[a-f])[0-9a-f]{7,}")),
    "a random name": (3, re.compile(r"(?=\D*\d)(?=.*[a-z].*[a-z])(?=.*\d\D+\d|.*[a-z]\d+[a-z])[a-z0-9]{8,20}")),
    "a URL": (5, re.compile(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)),
    "a duration": (3, re.compile(r"-?(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)(?:s|ms|µs|us|ns)")),
    "a number of six digits": (3, re.compile(r"(?!0)\d{6,}")),
    "a large number": (8, re.compile(r"(?!0)\d{6,}|6553[6-9]|655[4-9]\d|65[6-9]\d\d|6[6-9]\d{3}|[7-9]\d{4}")),
    "a number with a fraction": (10, re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?", re.IGNORECASE)),
}
"""What one value may look like by coincidence or as a setting: only so many that do are unbounded.
Ports end at 65535."""

_NUMBERS = re.compile(r"\d+")
_NAMED_NUMBER = re.compile(r"(?=.*[a-z]{2}).*\d.*", re.IGNORECASE)
# Not `.*[a-z].*…`: values may be long, and are matched in linear time.
_SEPARATED = re.compile(r"(?=.*[a-z]).*[-_./]\d+", re.IGNORECASE)
_NETWORK = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}", re.IGNORECASE)

_MANY_NUMBERS = 5
_SPREAD_NUMBERS = 4
_FAR = 100
"""Numbers from here on are identifiers sooner than parts of a fixed list: zones, devices, versions."""


_IDENTIFIER = re.compile(r"\d+|.*[-_./:]\d+|.*\d{2}.*|[a-z0-9][\w.-]*/[a-z0-9][\w.-]*", re.DOTALL)

_PORT = re.compile(r"(?<=[a-z]):\d{2,5}(?=/|$)")


def is_identifier(value: str) -> bool:
    """Return whether a value under a label that often holds identifiers is one: it has a number of its own."""
    return _IDENTIFIER.fullmatch(_PORT.sub("", value)) is not None and not _NETWORK.fullmatch(value)


def shape_of(values: Iterable[str]) -> tuple[str, str] | None:
    """Return what a value looks like, and that value; None where none looks unbounded."""
    # A network card's address is as fixed as the card.
    values = [value for value in values if value and not _NETWORK.fullmatch(value)]
    for looks, (least, pattern) in _MANY_SHAPES.items():
        alike = [value for value in values if pattern.fullmatch(value)]
        if len(alike) >= least and 2 * len(alike) >= len(values):
            return looks, alike[0]
    for value in values:
        for looks, pattern in _SHAPES.items():
            if pattern.fullmatch(value):
                return looks, value
    return _numbered(values)


def _numbered(values: Iterable[str]) -> tuple[str, str] | None:
    """Return values that differ in a number only, where they are too many or too large for a fixed list."""
    alike: dict[str, list[str]] = {}
    for value in values:
        if _NAMED_NUMBER.fullmatch(value):
            alike.setdefault(_NUMBERS.sub("#", value), []).append(value)
    for some in alike.values():
        ends = sum(_SEPARATED.fullmatch(value) is not None for value in some)
        far = max(int(number) for value in some for number in _NUMBERS.findall(value)) >= _FAR
        if ends >= _MANY_NUMBERS or (far and len(some) >= _SPREAD_NUMBERS):
            return "one of many that differ in a number", some[0]
    return None
