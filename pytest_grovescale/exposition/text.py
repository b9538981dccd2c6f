"""The Prometheus text format 0.0.4, and 1.0.0 with its quoted names.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/. Parsed as in Prometheus: of several HELP or TYPE
lines for a family the last one applies, at any position. Stricter in two points: a series may occur only once, and the
last line must have an end, since a truncated number would look like a smaller one.

Its sample lines (a series, then numbers) and number formats are those of OpenMetrics, too.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

import msgspec

from ..errors import ExpositionError, ExpositionLineError
from .body import Limits
from .families import (
    CLASSIC_LABEL,
    CLASSIC_NAME,
    Exposition,
    Family,
    MetricType,
    family_of,
    name_text,
    parse,
    text,
    unescaped,
)

_DIGITS = r"(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"
_INFINITY = r"[iI][nN][fF](?:[iI][nN][iI][tT][yY])?"
NUMBER = rf"(?:[+-]?(?:{_DIGITS}|{_INFINITY})|[nN][aA][nN])"
"""Pattern of a value: as Go's ``strconv.ParseFloat``, without ``_`` and hexadecimals, as in Prometheus."""


@functools.lru_cache(maxsize=10_000)
def written(value: float) -> str:
    """Return a number as Go writes it in the text format: ``0.25``, ``64``, ``1.5e+06``, ``+Inf``.

    The shortest digits that read back the same, with an exponent below 1e-4 and from 1e+06 on, as
    ``strconv.FormatFloat(value, 'g', -1, 64)``.
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e6:
        return repr(value).removesuffix(".0")
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)  # finite
    first, *others = map(str, digits)
    power = exponent + len(digits) - 1
    return f"{'-' * sign}{first}{'.' * bool(others)}{''.join(others)}e{'-' if power < 0 else '+'}{abs(power):02}"


QUOTED = r'"((?:[^"\\]++|\\.)*+)"'
"""Pattern of a quoted string, with its contents as the group."""

_RAW = re.compile(rf'(?:{CLASSIC_NAME.pattern})?+(?:[ \t]*+\{{(?:[^"}}]++|"(?:[^"\\]++|\\.)*+")*+\}})?+')
_TERM = re.compile(
    rf"[ \t]*+(?:({CLASSIC_LABEL.pattern})|{QUOTED})[ \t]*+(?:=[ \t]*+{QUOTED}[ \t]*+)?+(?:,[ \t]*+|(?=\}}))"
)
_UNSEPARATED = re.compile(rf"(?:{CLASSIC_LABEL.pattern}[ \t]*+=[ \t]*+{QUOTED}[ \t]*+,?+[ \t]*+)++\}}")
"""What Prometheus takes although commas are missing."""


class SampleLines:
    """Reads the samples of one endpoint's responses. A known series or number costs one dict look-up.

    ``after``: the pattern of what follows a series in a line, with the groups ``value`` and ``timestamp``. ``points``:
    a series may occur again at a later timestamp, and the last one counts.
    """

    def __init__(self, after: str, limits: Limits, *, points: bool = False) -> None:
        self._after = re.compile(after)
        self._limits = limits
        self._points = points
        self._series: dict[str, str] = {}
        self._numbers: set[str] = set()

    def read(self, lines: Sequence[str]) -> tuple[dict[str, str], list[str]]:
        """Return series → value, and the lines that are comments. Raises ExpositionError."""
        self._forget(len(lines))
        samples: dict[str, str] = {}
        comments: list[str] = []
        count = 0
        series_of, numbers = self._series.get, self._numbers
        for number, line in enumerate(lines, start=1):
            if line[:1] == "#":
                comments.append(line)
                continue
            head, _, value = line.rpartition(" ")
            series = series_of(head)
            if series is None or value not in numbers:
                line = line.strip(" \t\r")
                if not line:
                    continue
                if line[0] == "#":
                    comments.append(line)
                    continue
                if len(samples) >= self._limits.max_series:
                    raise self._too_many(number)
                if len(line) > self._limits.max_line_length:
                    raise wrong(
                        number,
                        f"at most {self._limits.max_line_length:,} characters in a line",
                        line,
                        refused=False,
                    )
                series, value, _ = self._sample(line, number)
            samples[series] = value
            count += 1
        if count != len(samples):
            self._check_repeated(lines)
        if len(samples) > self._limits.max_series:
            raise self._too_many(len(lines))
        return samples, comments

    def _sample(self, line: str, number: int) -> tuple[str, str, str | None]:
        """Return series, value and timestamp of a line."""
        raw = _RAW.match(line)
        assert raw is not None  # it matches the empty text too
        series = self._series.get(raw[0])
        if series is None:
            series = self._series[raw[0]] = self._named(raw[0], line, number)
        after = self._after.fullmatch(line, raw.end())
        if after is None:
            raise wrong(number, "a value and at most a timestamp after the series", line[raw.end() :])
        value = after["value"]
        if len(value) > self._limits.max_value_length:
            most = f"a number of at most {self._limits.max_value_length:,} characters"
            raise wrong(number, most, value, refused=False)
        self._numbers.add(value)
        return series, value, after["timestamp"]

    def _named(self, raw: str, line: str, number: int) -> str:
        """Return a series as `series.text` writes it."""
        classic, brace, inside = raw.partition("{")
        name = classic.rstrip(" \t") or None
        labels: dict[str, str] = {}
        for key, value in _terms(inside, number, commas=self._points) if brace else ():
            if value is None:
                if name is not None:
                    raise wrong(number, "one name for the metric, or '=' after a label's", line)
                name = key
            elif key in labels:
                raise wrong(number, f"each label once, not a second {key!r}", line)
            else:
                labels[key] = value
        if not name:
            raise wrong(number, "a metric's name", line)
        self._check(name, labels, line, number)
        return text(name, labels)

    def _check(self, name: str, labels: Mapping[str, str], line: str, number: int) -> None:
        if "" in labels or "__name__" in labels:
            raise wrong(number, "labels with names of their own, neither empty nor __name__", line)
        if len(labels) > self._limits.max_labels_per_series:
            most = f"at most {self._limits.max_labels_per_series} labels, not {len(labels)}"
            raise wrong(number, most, line, refused=False)
        if max(map(len, (name, *labels, *labels.values()))) > self._limits.max_value_length:
            most = f"at most {self._limits.max_value_length:,} characters in a name or a label"
            raise wrong(number, most, line, refused=False)

    def _check_repeated(self, lines: Sequence[str]) -> None:
        """Raise ExpositionError for a series that occurs twice, unless with increasing timestamps."""
        last: dict[str, str | None] = {}
        for number, line in enumerate(lines, start=1):
            line = line.strip(" \t\r")
            if not line or line[0] == "#":
                continue
            series, _, timestamp = self._sample(line, number)
            if series in last and not (self._points and _later(last[series], timestamp)):
                raise wrong(number, "each series once", line)
            last[series] = timestamp

    def _too_many(self, number: int) -> ExpositionError:
        return ExpositionError(f"line {number}: more than {self._limits.max_series:,} series; at most so many are read")

    def _forget(self, lines: int) -> None:
        """Drop the caches when most of their entries are stale: series come and go, values change."""
        if len(self._series) > 2 * lines + 1000:
            self._series.clear()
        if len(self._numbers) > 2 * lines + 1000:
            self._numbers.clear()


def whole_lines(body: str, limits: Limits) -> list[str]:
    """Return the lines of a text. Raises ExpositionError when the last line has no end, or there are too many."""
    if not body:
        return []
    count = body.count("\n")
    if count > limits.max_lines:
        raise ExpositionError(f"line {limits.max_lines}: the answer has {count:,} lines; at most so many are read")
    lines = body.split("\n")
    if lines.pop():
        raise ExpositionLineError(
            count + 1,
            "its end is missing; the answer was cut off, or the program forgot the last line feed",
            refused=False,
        )
    return lines


def wrong(number: int, expected: str, found: str, *, refused: bool = True) -> ExpositionLineError:
    """Return the error for a malformed line; ``refused``: whether Prometheus refuses the response for it too."""
    return ExpositionLineError(number, f"expected {expected}, found {found[:80]!r}", refused=refused)


def wrong_comment(expected: str, position: int, lines: Sequence[str], *, refused: bool = True) -> ExpositionError:
    """Return the error for a comment; ``position``: number of comments before it."""
    comments = ((number, line) for number, line in enumerate(lines, start=1) if line.lstrip(" \t\r").startswith("#"))
    number, comment = next(itertools.islice(comments, position, None))
    return wrong(number, expected, comment, refused=refused)


def _terms(inside: str, number: int, *, commas: bool) -> Iterator[tuple[str, str | None]]:
    """Yield (label, value) pairs from the braces; the value is None for a quoted name on its own.

    ``commas``: whether Prometheus wants one after each pair, as in OpenMetrics.
    """
    at, end = 0, len(inside) - 1
    while inside[at:end].strip(" \t"):
        match = _TERM.match(inside, at)
        if match is None:
            refused = commas or not _UNSEPARATED.fullmatch(inside, at)
            raise wrong(number, 'name="value" and a comma or the end of the labels', inside[at:], refused=refused)
        classic, quoted, value = match.groups()
        if classic is not None and value is None:
            raise wrong(number, f"'=' after the label {classic!r}", inside[at:])
        yield (
            classic if classic is not None else unescaped(quoted),
            None if value is None else unescaped(value),
        )
        at = match.end()


def _later(before: str | None, now: str | None) -> bool:
    return before is not None and now is not None and float(now) > float(before)


_AFTER = rf"(?:(?<=\}})[ \t]*+|[ \t]++)(?P<value>{NUMBER})(?:[ \t]++(?P<timestamp>-?[0-9]{{1,19}}))?"
_DESCRIBED = re.compile(r"#[ \t]++(?:HELP[ \t]++[^ \t\r]|TYPE(?:[ \t\r]|$))")
_DESCRIPTION = re.compile(rf"#[ \t]++(HELP|TYPE)[ \t]++(?:({CLASSIC_NAME.pattern})|{QUOTED})(?:[ \t](.*))?", re.DOTALL)
_NAMED_HELP = re.compile(r"#[ \t]++HELP[ \t]++[a-zA-Z_:]")
_TYPES: dict[str, MetricType] = {
    "counter": "counter",
    "gauge": "gauge",
    "histogram": "histogram",
    "summary": "summary",
    "untyped": "unknown",
    # OpenMetrics types, which some programs use here too.
    "unknown": "unknown",
    "info": "info",
    "stateset": "stateset",
    "gaugehistogram": "gaugehistogram",
}


class TextReader:
    """Reads one endpoint's responses; caches make repeated ones fast."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lines = SampleLines(_AFTER, limits)
        self._comments: list[str] = []
        self._described = _Described({}, {})

    def read(self, body: str) -> Exposition:
        """Return the contents of a response; reuses the last response's ``families`` object while unchanged.

        Raises ExpositionError with the line number.
        """
        lines = whole_lines(body, self._limits)
        samples, comments = self._lines.read(lines)
        if comments != self._comments:
            self._described = _families(comments, lines, self._limits)
            self._comments = comments
        return Exposition(families=self._described.families, samples=samples, retyped=self._described.retyped)


class _Described(NamedTuple):
    """The contents of a response's comments."""

    families: dict[str, Family]
    retyped: dict[str, tuple[MetricType, ...]]


def _families(comments: Sequence[str], lines: Sequence[str], limits: Limits) -> _Described:
    found: dict[str, Family] = {}
    types: dict[str, tuple[MetricType, ...]] = {}
    for position, comment in enumerate(comments):
        if not _DESCRIBED.match(comment):
            continue
        description = _DESCRIPTION.fullmatch(comment)
        if description is None:
            # Prometheus takes the rest of such a HELP line for the text.
            raise wrong_comment("a metric's name", position, lines, refused=not _NAMED_HELP.match(comment))
        what, classic, quoted, said = description.groups()
        name = classic if classic is not None else unescaped(quoted)
        if not name:
            raise wrong_comment("a metric's name", position, lines)
        family = found.get(name) or Family(name=name)
        if what == "HELP":
            found[name] = msgspec.structs.replace(family, help=_help(said or ""))
        elif (kind := _TYPES.get((said or "").strip(" \t\r"))) is not None:
            found[name] = msgspec.structs.replace(family, type=kind)
            types[name] = (*types.get(name, ()), kind)
        else:
            raise wrong_comment("one of the types counter, gauge, histogram, summary or untyped", position, lines)
        if len(comment) > limits.max_value_length:
            most = f"at most {limits.max_value_length:,} characters"
            raise wrong_comment(most, position, lines, refused=False)
        if len(found) > limits.max_series:
            raise wrong_comment(f"at most {limits.max_series:,} families", position, lines, refused=False)
    return _Described(found, {name: kinds for name, kinds in types.items() if len(kinds) > 1})


def _help(said: str) -> str:
    # Unlike in a label's value, a quote is not escaped here.
    return re.sub(r"\\[\\n]", lambda match: "\n" if match[0] == "\\n" else "\\", said) if "\\" in said else said


_WRITTEN_TYPES: dict[MetricType, str] = {
    "unknown": "untyped",
    # The format knows five types; other types map to those that prometheus_client writes.
    "info": "gauge",
    "stateset": "gauge",
    "gaugehistogram": "untyped",
}


def text_of(exposition: Exposition) -> str:
    """Return the text: families in their order, each with its series, then series without a family.

    Units, native histograms, creation times and OpenMetrics' own types do not exist in this format; everything else
    reads back the same.
    """
    lines: dict[str, list[str]] = defaultdict(list)
    for name, family in exposition.families.items():
        quoted = name_text(name)
        if family.help:
            lines[name].append(f"# HELP {quoted} {_escaped(family.help)}")
        lines[name].append(f"# TYPE {quoted} {_WRITTEN_TYPES.get(family.type, family.type)}")
    for series, value in exposition.samples.items():
        lines[family_of(parse(series).name, exposition.families)].append(f"{series} {value}")
    return "".join(f"{line}\n" for group in lines.values() for line in group)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
