"""OpenMetrics 1.0, normalised to the names of the text format 0.0.4.

Format: https://prometheus.io/docs/specs/om/open_metrics_spec/. A counter ``x`` becomes the family ``x_total`` and an
info ``x`` the family ``x_info``, the names of their samples; ``_created`` samples become creation times. The syntax is
checked strictly, except for blanks between labels and at the ends of a line; the rules on values and on the order of
samples are not checked, as in Prometheus. Exemplars are parsed and dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, get_args

from ..errors import ExpositionError
from .body import Limits
from .families import CLASSIC_LABEL, CLASSIC_NAME, Exposition, Family, MetricType, family_of, parse, text, unescaped
from .text import NUMBER, QUOTED, SampleLines, whole_lines, wrong, wrong_comment

_TIME = r"-?[0-9]++(?:\.[0-9]*+)?(?:[eE][+-]?[0-9]{1,3})?"
_LABEL = rf'(?:{CLASSIC_LABEL.pattern}|"(?:[^"\\]++|\\.)*+")="(?:[^"\\]++|\\.)*+"'
_EXEMPLAR = rf" # \{{(?:{_LABEL}(?:,{_LABEL})*+)?+\}} (?:{NUMBER})(?: {_TIME})?"
_AFTER = rf" (?P<value>{NUMBER})(?: (?P<timestamp>{_TIME}))?(?:{_EXEMPLAR})?"
_DESCRIPTION = re.compile(rf"# (HELP|TYPE|UNIT) (?:({CLASSIC_NAME.pattern})|{QUOTED})(?: (.*))?", re.DOTALL)
_TYPES: dict[str, MetricType] = {kind: kind for kind in get_args(MetricType)}
_SUFFIXES = {"counter": "_total", "info": "_info"}
"""Type → suffix that its samples' names add to the family's name."""


class OpenMetricsReader:
    """Reads one endpoint's responses; caches make repeated ones fast."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lines = SampleLines(_AFTER, limits, points=True)
        self._comments: list[str] = []
        self._families: dict[str, Family] = {}

    def read(self, body: str) -> Exposition:
        """Return the contents of a response; reuses the last response's ``families`` object while unchanged.

        Raises ExpositionError with the line number.
        """
        lines = _before_eof(body, self._limits)
        samples, comments = self._lines.read(lines)
        if comments != self._comments:
            self._families = _families(comments, lines, self._limits)
            self._comments = comments
        return Exposition(families=self._families, samples=samples, created=_created(samples, self._families))


def _before_eof(body: str, limits: Limits) -> list[str]:
    lines = whole_lines(body if body.endswith("\n") else f"{body}\n", limits)
    if "# EOF" not in lines:
        raise ExpositionError(f"line {len(lines)}: expected '# EOF' at the end; the answer was cut off")
    end = lines.index("# EOF")
    if len(lines) > end + 1:
        raise wrong(end + 2, "nothing after '# EOF'", lines[end + 1])
    if "" in lines:
        raise wrong(lines.index("") + 1, "no empty line", "")
    return lines[:end]


class _Described(NamedTuple):
    """Consecutive comments about one family."""

    name: str
    position: int
    """Position of the first of them among all comments."""
    said: dict[str, str]
    """HELP, TYPE or UNIT → the text after the name."""


def _families(comments: Sequence[str], lines: Sequence[str], limits: Limits) -> dict[str, Family]:
    found: dict[str, Family] = {}
    for described in _described(comments, lines, limits):
        family = _family(described)
        if family.name in found:
            raise wrong_comment("each family once", described.position, lines, refused=False)
        found[family.name] = family
        if len(found) > limits.max_series:
            raise wrong_comment(f"at most {limits.max_series:,} families", described.position, lines, refused=False)
    return found


def _described(comments: Sequence[str], lines: Sequence[str], limits: Limits) -> Iterator[_Described]:
    """Yield families. Go's client names a gauge ``x`` and a counter ``x_total`` both ``x``, one after the other."""
    last = _Described("", 0, {})
    for position, comment in enumerate(comments):
        match = _DESCRIPTION.fullmatch(comment)
        if match is None:
            raise wrong_comment("# HELP, # TYPE or # UNIT with a metric's name", position, lines)
        what, classic, quoted, words = match.groups("")
        name = classic or unescaped(quoted)
        if len(comment) > limits.max_value_length:
            most = f"at most {limits.max_value_length:,} characters"
            raise wrong_comment(most, position, lines, refused=False)
        if expected := _expected(what, name, words):
            raise wrong_comment(expected, position, lines)
        if last.name and (name != last.name or what in last.said):
            yield last
            last = _Described("", 0, {})
        last = _Described(name, last.position if last.name else position, {**last.said, what: words})
    if last.name:
        yield last


def _expected(what: str, name: str, words: str) -> str:
    """Return the expected text of a comment; empty for a correct one."""
    if not name:
        return "a metric's name"
    if what == "TYPE" and words not in _TYPES:
        return f"one of the types {', '.join(_TYPES)}"
    if what == "UNIT" and words and not name.endswith(f"_{words}"):
        return f"a metric whose name ends in its unit, _{words}"
    return ""


def _family(described: _Described) -> Family:
    name, said = described.name, described.said
    kind = _TYPES[said.get("TYPE", "unknown")]
    suffix = _SUFFIXES.get(kind, "")
    return Family(
        name=name if name.endswith(suffix) else f"{name}{suffix}",
        type=kind,
        help=unescaped(said.get("HELP", "")),
        unit=said.get("UNIT", ""),
    )


def _created(samples: dict[str, str], families: dict[str, Family]) -> dict[str, str]:
    """Remove the ``_created`` samples; return their values by the series that they belong to."""
    found = {}
    for series in [series for series in samples if "_created" in series]:
        name, labels = parse(series)
        family = family_of(name, families)
        if name.endswith("_created") and family != name:
            found[text(family, labels)] = samples.pop(series)
    return found
