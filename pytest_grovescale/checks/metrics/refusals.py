"""What Prometheus refuses a whole response for, although each of its lines can be read.

Read as Prometheus does: model/textparse (promlex.l, openmetricslex.l) and scrape/scrape.go, of 2.42 and 3.13; a test
gives the same responses to a Prometheus.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from ...exposition.families import CLASSIC_LABEL, CLASSIC_NAME
from ...exposition.reader import Format
from ...exposition.sample_lines import NUMBER
from .families import Problem, number

_TYPES = ("counter", "gauge", "histogram", "summary", "untyped")
_TYPE = re.compile(rf'#[ \t]+TYPE[ \t]+(?:{CLASSIC_NAME.pattern}|"(?:[^"\\]|\\.)*")[ \t]?(.*)', re.DOTALL)

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_LABELS = rf"\{{(?:(?:(?:{CLASSIC_LABEL.pattern}|{_QUOTED})(?:={_QUOTED})?)(?:,|(?=\}})))*\}}"
_OPENMETRICS = re.compile(
    rf"(?:{CLASSIC_NAME.pattern})?(?:{_LABELS.replace('(?:,|', '(?:,(?!})|')})? (?P<value>{NUMBER})(?: [^ #]\S*)?"
    rf"(?P<exemplar> # \{{[^\n]*)?"
)
"""A line of a sample: one blank between its parts, and no other."""
_NAME = re.compile(rf'({CLASSIC_NAME.pattern})|\{{"((?:[^"\\]|\\.)*)"')
_QUOTED_NAME = re.compile(rf'(?:#[ \t]+\w+[ \t]+|[^"#]*[{{,][ \t]*|\{{(?:[^"]|{_QUOTED})*[{{,][ \t]*)"')
_WITHOUT_TEXT = re.compile(rf"# (HELP|UNIT) (?:{CLASSIC_NAME.pattern}|{_QUOTED})")
_VALUE = re.compile(rf"[ \t]*(?:{CLASSIC_NAME.pattern})?[ \t]*(?:\{{(?:[^\"}}]|{_QUOTED})*\}})?[ \t]*(?P<value>\S+)")

_WITH_EXEMPLARS = ("_bucket", "_total")
"""Ends of the names of samples that may have one."""

_RETURN = "it ends in a carriage return"

_MEDIA_TYPES = ("text/plain", "application/openmetrics-text", "application/vnd.google.protobuf")
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_CONTENT_TYPE = re.compile(
    rf"\s*(?P<media>{_TOKEN}(?:/{_TOKEN})?)\s*(?:;\s*{_TOKEN}\s*=\s*(?:{_TOKEN}|{_QUOTED})\s*)*;?\s*"
)
"""As Go's mime.ParseMediaType reads it."""


def of_headers(content_type: str, encoding: str) -> Iterator[Problem]:
    """Yield what a scraper refuses a response for by its headers alone."""
    match = _CONTENT_TYPE.fullmatch(content_type)
    expected = "serve text/plain; version=0.0.4"
    if not content_type.strip():
        yield _transport("it has no Content-Type, and Prometheus 3 refuses the response for it", expected)
    elif match is None:
        yield _transport(f"its Content-Type {content_type[:80]!r} cannot be read", expected)
    elif match["media"].lower() not in _MEDIA_TYPES:
        says = f"its Content-Type is {match['media'][:80]}, and Prometheus 3 refuses the response for it"
        yield _transport(says, expected)
    if encoding not in ("", "gzip", "identity"):
        says = f"its Content-Encoding is {encoding[:80]}, and Prometheus unpacks gzip alone"
        yield _transport(says, "pack it as the scraper's Accept-Encoding asks: gzip, or not at all")


def of_lines(texts: Iterable[tuple[int, str]], form: Format, *, quoted: bool = True) -> Iterator[Problem]:
    """Yield what Prometheus refuses a response for by its lines, the first of each kind; ``texts``: (number, line).

    ``quoted``: whether names may be in quotes, as the Content-Type then says.
    """
    said: set[str] = set()
    for position, text in texts:
        wrong = _of_text(text) if form == "text" else _of_openmetrics(text)
        if not wrong and not quoted and _QUOTED_NAME.match(text):
            wrong = "a name in quotes, which Prometheus 2 refuses, and the Content-Type lacks escaping=allow-utf-8"
        if wrong and wrong not in said:
            said.add(wrong)
            fix = "write it as the format says: Prometheus refuses the whole response"
            yield Problem(family="", rule="syntax", says=f"line {position}: {wrong}", fix=fix)


def _of_text(line: str) -> str:
    """Return what Prometheus refuses a line of text for; empty for what it takes."""
    if line.startswith("#"):
        match = _TYPE.match(line)
        if match is None or match[1] in _TYPES:
            return ""
        if match[1].endswith("\r"):
            return _RETURN
        if match[1].strip(" \t") in _TYPES:
            return "its type has blanks around it"
        return f"{match[1].strip()[:80]} is a type of OpenMetrics, and this is the text format"
    if line.endswith("\r"):
        return _RETURN
    if line[:1] in (" ", "\t") and line.strip(" \t")[:1] not in ("", "#"):
        return "it begins with a blank, which Prometheus 2 takes for a part of the name"
    match = _VALUE.match(line)
    return _too_large(match["value"]) if match is not None else ""


def _of_openmetrics(line: str) -> str:
    if line.startswith("#"):
        if (match := _WITHOUT_TEXT.fullmatch(line)) is not None:
            return f"a {match[1]} line without a text, and without the blank before it"
        return ""
    if not line:
        return ""
    match = _OPENMETRICS.fullmatch(line)
    if match is None:
        return "it has a blank or a comma where OpenMetrics has none"
    named = _NAME.match(line)
    if match["exemplar"] and named is not None:
        name = named[1] or named[2]
        if not name.endswith(_WITH_EXEMPLARS):
            return f"{name} has an exemplar, which only counters and buckets may have"
    return _too_large(match["value"])


def _too_large(written: str) -> str:
    overflows = math.isinf(number(written)) and "inf" not in written.lower()
    return f"the number {written[:40]} is larger than any that 64 bits hold" if overflows else ""


def _transport(says: str, fix: str) -> Problem:
    return Problem(family="", rule="transport", says=says, fix=fix)
