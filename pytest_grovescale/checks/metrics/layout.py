"""The lines of a response beyond their syntax: order, descriptions, timestamps and control characters.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/#text-format-details. Prometheus drops samples whose
timestamps are too old or lie in the future, and takes what is out of order without a word, while other readers refuse
that. What it refuses all for is in refusals.py.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from ...analysis.metrics.counters import PROCESS_START
from ...exposition.families import CLASSIC_NAME, Family, family_of, unescaped
from ...exposition.reader import Format
from ...exposition.refusals import FUTURE_S, OLD_S, wrong_time
from .families import Problem, number

_DESCRIPTION = re.compile(rf'#[ \t]+(HELP|TYPE)[ \t]+(?:({CLASSIC_NAME.pattern})|"((?:[^"\\]|\\.)*)")')
_SAMPLE = re.compile(
    rf'(?P<name>{CLASSIC_NAME.pattern})?+[ \t]*+(?P<labels>\{{(?:[^"}}]|"(?:[^"\\]|\\.)*")*+\}})?+'
    r"[ \t]*+(?P<value>\S+)(?:[ \t]+(?P<timestamp>[^\s#]\S*))?"
)
_QUOTED_NAME = re.compile(r'\{[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*[,}]')
_LE = re.compile(r'(?<=[{,\s])le="([^"]*)",?')
_HELP = re.compile(r"#[ \t]+HELP\b")
_ESCAPE = re.compile(r'\\[\\"n]')
_ESCAPE_IN_HELP = re.compile(r"\\[\\n]")
"""In the help texts of the text format a quote is a quote."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

_PARTS = ("_sum", "_count")
"""Suffixes beside ``_bucket``; said once, of the buckets."""

_EXEMPLAR = re.compile(r"(?<=\S) # \{(?P<labels>[^\n]*)\} (?P<value>\S+)(?: (?P<timestamp>\S+))?$")
_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_EXEMPLAR_CHARACTERS = 128
"""Of names and values together."""

_FEW_UNTYPED = 3
"""Families; more are reported in one line."""


class _Line(NamedTuple):
    number: int
    family: str
    name: str
    """Of a sample; empty for a description."""
    what: str = ""
    """HELP or TYPE."""
    labels: str = ""
    timestamp: str = ""
    help: str = ""
    """The text of a HELP line."""


def problems(
    texts: Sequence[tuple[int, str]], families: Mapping[str, Family], form: Format, now_s: float | None
) -> Iterator[Problem]:
    """Yield what is wrong with the order and the form of a readable response's lines.

    ``texts``: the lines, each with its number; none of protobuf. ``families``: those that it describes. ``now_s``: when
    it was served, s since the epoch; None where this is not known, as for a file.
    """
    yield from _characters(texts)
    lines = list(_lines(texts, families))
    if form == "text":
        # The reader of OpenMetrics refuses what is described twice or late.
        yield from _descriptions(lines)
        yield from _untyped(lines, {line.family for line in lines if line.what == "TYPE"})
    else:
        yield from _exemplars(texts, families, now_s)
    yield from _said_untyped({line.family for line in lines if line.what == "TYPE"}, families)
    samples = [line for line in lines if line.name]
    yield from _escapes(lines, form)
    yield from _groups(samples)
    yield from _bounds(samples)
    yield from _timestamps(samples, 1.0 if form == "openmetrics" else 1e-3, now_s, _started_s(texts))


def _characters(texts: Sequence[tuple[int, str]]) -> Iterator[Problem]:
    # Of all lines but those of HELP Prometheus refuses a carriage return at the end, which refusals.py reports.
    refused = any(text.endswith("\r") and not _HELP.match(text) for _, text in texts)
    for position, text in texts:
        if (found := _CONTROL.search(text.removesuffix("\r") if refused else text)) is not None:
            says = f"line {position}: it has the control character {ord(found[0]):#04x}"
            yield Problem(family="", rule="format", says=says, fix="replace such characters before they become labels")
            return


def _lines(texts: Sequence[tuple[int, str]], families: Mapping[str, Family]) -> Iterator[_Line]:
    for position, text in texts:
        line = text.strip(" \t\r")
        if line.startswith("#"):
            if (described := _DESCRIPTION.match(line)) is not None:
                what, classic, quoted = described.groups()
                words = line[described.end() :] if what == "HELP" else ""
                yield _Line(position, classic or quoted, "", what, help=words)
        elif (sample := _SAMPLE.match(line)) is not None:
            labels = sample["labels"] or ""
            quoted = _QUOTED_NAME.match(labels)
            name = sample["name"] or (quoted[1] if quoted else "")
            if name:
                timestamp = sample["timestamp"] or ""
                yield _Line(position, family_of(name, families), name, "", labels, timestamp)


def _escapes(lines: Iterable[_Line], form: Format) -> Iterator[Problem]:
    """Yield families with a backslash that escapes nothing: Prometheus keeps it, and other readers refuse the line."""
    said: set[str] = set()
    for line in lines:
        text = line.labels or line.help
        if "\\" not in text or line.family in said:
            continue
        quotes = bool(line.labels) or form == "openmetrics"
        if "\\" in (_ESCAPE if quotes else _ESCAPE_IN_HELP).sub("", text):
            said.add(line.family)
            where = "a label" if line.labels else "its help text"
            says = f"line {line.number}: {where} has a backslash that escapes nothing"
            fix = 'write \\\\ for a backslash, \\n for a line feed and \\" for a quote'
            if not quotes:
                fix = r"write \\ for a backslash and \n for a line feed"
            yield Problem(family=line.family, rule="format", says=says, fix=fix)


def _descriptions(lines: Sequence[_Line]) -> Iterator[Problem]:
    helped = Counter(line.family for line in lines if line.what == "HELP")
    for family, count in helped.items():
        if count > 1:
            says, fix = f"it has {count} HELP lines", "describe each family once, above its samples"
            yield Problem(family=family, rule="duplicate", says=says, fix=fix)
    begun: set[str] = set()
    late: set[str] = set()
    for line in lines:
        if line.name:
            begun.add(line.family)
        elif line.family in begun and helped[line.family] <= 1 and line.family not in late:
            late.add(line.family)
            says = f"line {line.number}: its {line.what} line stands below its samples"
            yield Problem(family=line.family, rule="order", says=says, fix="describe each family above its samples")


def _untyped(lines: Sequence[_Line], typed: Collection[str]) -> Iterator[Problem]:
    untyped = {line.family: line for line in lines if line.name and line.family not in typed}
    for family, line in untyped.items():
        stem = next((family.removesuffix(part) for part in _PARTS if family.endswith(part)), "")
        if not stem or f"{stem}_bucket" not in untyped:
            says, fix = "it has no TYPE line, so that no query can rely on what it is", "write a TYPE line above it"
            yield Problem(family=line.family, rule="type", says=says, fix=fix)


def _said_untyped(typed: Collection[str], families: Mapping[str, Family]) -> Iterator[Problem]:
    untyped = sorted(family for family in typed if family in families and families[family].type == "unknown")
    fix = "make each a counter or a gauge: a query has to know whether it may fall"
    if len(untyped) <= _FEW_UNTYPED:
        for family in untyped:
            yield Problem(family=family, rule="type", says="its type is untyped", fix=fix)
    else:
        some = ", ".join(untyped[:_FEW_UNTYPED])
        yield Problem(family="", rule="type", says=f"{len(untyped):,} families are untyped: {some}, …", fix=fix)


def _exemplars(
    texts: Iterable[tuple[int, str]], families: Mapping[str, Family], now_s: float | None
) -> Iterator[Problem]:
    """Yield exemplars that no scraper keeps: https://prometheus.io/docs/specs/om/open_metrics_spec/#exemplars."""
    said: set[tuple[str, str]] = set()
    for position, line in texts:
        if line.startswith("#") or (match := _EXEMPLAR.search(line)) is None:
            continue
        name = line.partition("{")[0].partition(" ")[0]
        family = family_of(name, families)
        fix, wrong = _exemplar(line, match, now_s)
        if wrong and (family, fix) not in said:
            said.add((family, fix))
            yield Problem(family=family, rule="exemplar", says=f"line {position}: its exemplar {wrong}", fix=fix)


def _exemplar(line: str, match: re.Match[str], now_s: float | None) -> tuple[str, str]:
    """Return how to mend an exemplar, and what is wrong with it; empty where nothing is."""
    size = sum(len(unescaped(text)) for pair in _PAIR.findall(match["labels"]) for text in pair)
    le = _LE.search(line[: match.start()])
    value = number(match["value"])
    if size > _EXEMPLAR_CHARACTERS:
        says = f"has labels of {size} characters, and {_EXEMPLAR_CHARACTERS} are allowed"
        return "keep the trace's id alone", says
    if math.isnan(value) or (le is not None and value > number(le[1])):
        where = f", above the bound {le[1]} of its bucket" if le is not None else ""
        return "give an exemplar to the bucket that its observation fell into", f"is {match['value']}{where}"
    if match["timestamp"] and now_s is not None and number(match["timestamp"]) > now_s + FUTURE_S:
        return "give it the time of its observation, in seconds", f"has the time {match['timestamp']}, in the future"
    return "", ""


def _groups(samples: Sequence[_Line]) -> Iterator[Problem]:
    groups = Counter(family for family, _ in groupby(samples, key=lambda line: line.family))
    for family, count in groups.items():
        if count > 1:
            says = f"its series are in {count} groups, with other families between them"
            yield Problem(family=family, rule="order", says=says, fix="write all series of a family together")


def _bounds(samples: Sequence[_Line]) -> Iterator[Problem]:
    """Yield histograms whose buckets are not in the order of their bounds."""
    found: set[str] = set()
    for line, after in pairwise(line for line in samples if line.name.endswith("_bucket")):
        if line.name != after.name or line.family in found or _LE.sub("", line.labels) != _LE.sub("", after.labels):
            continue
        low, high = (_LE.search(one.labels) for one in (line, after))
        if low is not None and high is not None and number(low[1]) > number(high[1]):
            found.add(line.family)
            says = f"line {after.number}: the bucket of le {high[1]} stands below the one of le {low[1]}"
            yield Problem(family=line.family, rule="order", says=says, fix="write buckets in the order of their bounds")


_NO_TIMESTAMPS = "leave timestamps out: the scraper takes the time of its scrape"


def _started_s(texts: Sequence[tuple[int, str]]) -> float | None:
    """Return when the process started, by its own series; None where it does not say so."""
    values = (text.split()[1:2] for _, text in texts if text.startswith(f"{PROCESS_START} "))
    return next((number(value) for (value,) in values), None)


def _timestamps(
    samples: Sequence[_Line], unit_s: float, now_s: float | None, started_s: float | None
) -> Iterator[Problem]:
    found: dict[tuple[str, str], list[_Line]] = {}
    for line in samples:
        if not line.timestamp:
            continue
        wrong = wrong_time(number(line.timestamp), unit_s, now_s)
        if not wrong and started_s is not None and number(line.timestamp) * unit_s < started_s - OLD_S:
            wrong = "is more than an hour older than the process: a scrape of now has no sample of then"
        if wrong:
            found.setdefault((line.family, wrong), []).append(line)
    said = {family for family, _ in found}
    for line in samples:
        if line.timestamp and line.family not in said:
            said.add(line.family)
            says = f"line {line.number}: its samples have timestamps: those that do not move are dropped, and none ends"
            yield Problem(family=line.family, rule="timestamp", says=says, fix=_NO_TIMESTAMPS, hint=True)
    for (family, wrong), lines in found.items():
        says = f"line {lines[0].number}: the timestamp {lines[0].timestamp} {wrong}"
        yield Problem(family=family, rule="timestamp", says=says, fix=_NO_TIMESTAMPS)
