"""The Prometheus text format 0.0.4, and 1.0.0 with its quoted names.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/. Parsed as in Prometheus: of several HELP or TYPE
lines for a family the last one applies, at any position. Stricter in two points: a series may occur only once, and the
last line must have an end, since a truncated number would look like a smaller one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from .body import Limits
from .families import CLASSIC_NAME, Exposition, Family, MetricType, family_of, name_text, parse, unescaped
from .sample_lines import NUMBER, QUOTED, SampleLines, whole_lines, wrong_comment

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
