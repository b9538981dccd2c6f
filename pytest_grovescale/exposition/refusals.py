"""What Prometheus refuses a whole response for, although each of its lines can be read; and which samples it drops.

Read as Prometheus does: model/textparse (promlex.l, openmetricslex.l) and scrape/scrape.go, of 2.42 and 3.13; a test
gives the same responses to a Prometheus.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from .families import CLASSIC_LABEL, CLASSIC_NAME, NativeHistogram
from .reader import Format, format_of
from .text import NUMBER

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
_VALUE = re.compile(
    rf"[ \t]*+(?:{CLASSIC_NAME.pattern})?+[ \t]*+(?:\{{(?:[^\"}}]|{_QUOTED})*+\}})?+[ \t]*+(?P<value>\S+)"
)

_WITH_EXEMPLARS = ("_bucket", "_total")
"""Ends of the names of samples that may have one."""

_RETURN = "it ends in a carriage return"

_MEDIA_TYPES = ("text/plain", "application/openmetrics-text", "application/vnd.google.protobuf")
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_CONTENT_TYPE = re.compile(
    rf"\s*(?P<media>{_TOKEN}(?:/{_TOKEN})?)\s*(?:;\s*{_TOKEN}\s*=\s*(?:{_TOKEN}|{_QUOTED})\s*)*;?\s*"
)
"""As Go's mime.ParseMediaType reads it."""


_FIRST_S = 1e9
"""September 2001: no sample is older than Prometheus. As milliseconds it is in January 1970."""
FUTURE_S = 600.0
"""Prometheus drops what lies further ahead (scrape/scrape.go: maxAheadTime)."""
OLD_S = 3600.0
"""Prometheus' head takes nothing older than half of its block's two hours before its newest sample (tsdb/head.go:
appendableMinValidTime)."""
_TIMED = re.compile(rf"[^#](?:.*[\s}}])?(?:{NUMBER})[ \t]+(?P<timestamp>-?[0-9][0-9.eE+]*)[ \t]*")
"""A line of a sample with a timestamp."""


_SCHEMAS = range(-4, 9)
"""Of native histograms: https://prometheus.io/docs/specs/native_histograms/#schema."""
_CUSTOM_BOUNDS = -53
"""The schema whose buckets have bounds of their own."""
_SLACK = 1e-9
"""Of a sum of counts with fractions, relative."""


class Refusal(NamedTuple):
    """Why Prometheus refuses a response, or drops a sample of it."""

    says: str
    """What is wrong, as half a sentence."""
    fix: str = ""


def of_response(body: bytes, content_type: str, now_s: float) -> Iterator[Refusal]:
    """Yield why Prometheus refuses a readable response, or drops samples of it. ``now_s``: when it was served, s."""
    yield from of_headers(content_type, "")
    form = format_of(body, content_type)
    if form == "protobuf":
        return
    texts = list(enumerate(body.decode().split("\n"), start=1))
    yield from of_lines(texts, form, quoted="allow-utf-8" in content_type)
    unit_s = 1.0 if form == "openmetrics" else 1e-3
    for position, text in texts:
        timed = _TIMED.fullmatch(text.partition(" # {")[0])
        if timed is not None and (wrong := wrong_time(float(timed["timestamp"]), unit_s, now_s)):
            yield Refusal(f"line {position}: the timestamp {timed['timestamp']} {wrong}")
            return


def wrong_time(written: float, unit_s: float, now_s: float | None) -> str:
    """Return why Prometheus drops a sample with a timestamp; empty for one that it takes.

    ``unit_s``: the format's unit. ``now_s``: when it was served, s since the epoch; None where this is not known.
    """
    time_s = written * unit_s
    if unit_s < 1 and _FIRST_S <= written < _FIRST_S / unit_s:
        return "is in seconds, and this format has milliseconds"
    if time_s < _FIRST_S:
        return "lies before 2001"
    if now_s is None:
        return ""
    if time_s > now_s + FUTURE_S:
        return "lies more than 10 minutes in the future, and Prometheus drops the sample"
    return "is more than an hour old, and Prometheus drops the sample" if time_s < now_s - OLD_S else ""


def of_headers(content_type: str, encoding: str) -> Iterator[Refusal]:
    """Yield what a scraper refuses a response for by its headers alone."""
    match = _CONTENT_TYPE.fullmatch(content_type)
    expected = "serve text/plain; version=0.0.4"
    if not content_type.strip():
        yield Refusal("it has no Content-Type, and Prometheus 3 refuses the response for it", expected)
    elif match is None:
        yield Refusal(f"its Content-Type {content_type[:80]!r} cannot be read", expected)
    elif match["media"].lower() not in _MEDIA_TYPES:
        says = f"its Content-Type is {match['media'][:80]}, and Prometheus 3 refuses the response for it"
        yield Refusal(says, expected)
    if encoding not in ("", "gzip", "identity"):
        says = f"its Content-Encoding is {encoding[:80]}, and Prometheus unpacks gzip alone"
        yield Refusal(says, "pack it as the scraper's Accept-Encoding asks: gzip, or not at all")


def of_lines(texts: Iterable[tuple[int, str]], form: Format, *, quoted: bool = True) -> Iterator[Refusal]:
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
            yield Refusal(
                f"line {position}: {wrong}", "write it as the format says: Prometheus refuses the whole response"
            )


def of_native(native: Mapping[str, NativeHistogram]) -> Iterator[tuple[str, Refusal]]:
    """Yield series whose native histogram Prometheus refuses the response for, or cannot query; ``native``: by series.

    Counts as in model/histogram (Histogram.Validate): observations of NaN are in the count and in no bucket.
    """
    for series, one in native.items():
        held = one.zero_count + math.fsum(one.positive.values()) + math.fsum(one.negative.values())
        if one.schema not in _SCHEMAS and one.schema != _CUSTOM_BOUNDS:
            says = f"its native histogram has the schema {one.schema}, and there are those from -4 to 8"
            yield series, Refusal(says, "use a client library's histogram: a query of this one may end Prometheus")
        elif held > one.count * (1 + _SLACK) or (one.sum != "NaN" and held < one.count * (1 - _SLACK)):
            says = f"its native histogram's count is {one.count:g}, and its buckets hold {held:g}"
            yield series, Refusal(says, "use a client library's histogram: Prometheus refuses the whole response")


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
    try:
        overflows = math.isinf(float(written)) and "inf" not in written.lower()
    except ValueError:
        return ""
    return f"the number {written[:40]} is larger than any that 64 bits hold" if overflows else ""
