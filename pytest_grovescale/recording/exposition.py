"""The Prometheus text format 0.0.4, read fast: series as text, so that a scrape is compared line by line.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (labels with escapes, optional timestamp).
"""

from __future__ import annotations

import re

_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*(\"(?:[^\"\\]|\\.)*\")\s*(,|(?=\}))")
_SPACE = re.compile(r"[ \t]+")


class Scrape:
    """Parses the scrapes of one target; a series seen before costs a dict look-up.

    ``max_series`` bounds what one scrape may hold, and so the memory that a hostile endpoint can take.
    """

    def __init__(self, max_series: int = 200_000) -> None:
        self._known: dict[str, str] = {}
        self._max = max_series

    def parse(self, text: str) -> dict[str, str]:
        """Return series → value as exposed. Labels are sorted by name, timestamps dropped.

        Raises ValueError with the number of the line for anything that is not the format, a series that occurs
        twice, or too many series.
        """
        found: dict[str, str] = {}
        for number, line in enumerate(text.split("\n"), start=1):
            line = line.strip(" \t\r")
            if not line or line[0] == "#":
                continue
            end = line.rfind("}") + 1 or _name_end(line)
            raw, rest = line[:end], line[end:].split()
            series = self._known.get(raw)
            if series is None:
                series = self._known[raw] = _normalised(raw, number)
            if not 1 <= len(rest) <= 2:
                raise ValueError(f"line {number}: a value and at most a timestamp must follow the series")
            _check_value(rest, number)
            if series in found:
                raise ValueError(f"line {number}: {series} occurs twice")
            found[series] = rest[0]
            if len(found) > self._max:
                raise ValueError(f"more than {self._max} series")
        if len(self._known) > 2 * len(found) + 1000:
            # Series that come and go must not pile up here.
            self._known.clear()
        return found


def _name_end(line: str) -> int:
    match = _SPACE.search(line)
    return match.start() if match else len(line)


def _check_value(rest: list[str], number: int) -> None:
    try:
        float(rest[0].replace("_", "?"))
        if len(rest) == 2:
            int(rest[1].replace("_", "?"))
    except ValueError:
        raise ValueError(f"line {number}: {' '.join(rest)[:80]!r} is not a value") from None


def _normalised(raw: str, number: int) -> str:
    name = _METRIC.match(raw)
    if not name:
        raise ValueError(f"line {number}: {raw[:80]!r} does not start with a metric's name")
    position = name.end()
    rest = raw[position:].strip()
    if not rest:
        return name.group()
    labels: dict[str, str] = {}
    if not (rest.startswith("{") and rest.endswith("}")):
        raise ValueError(f"line {number}: {raw[:80]!r} is not a series")
    inside, at = rest[1:], 0
    while inside[at:].strip() != "}":
        match = _LABEL.match(inside, at)
        if not match or match[1] in labels:
            raise ValueError(f"line {number}: the labels of {raw[:80]!r} cannot be read")
        labels[match[1]] = match[2]
        at = match.end()
    if not labels:
        return name.group()
    return name.group() + "{" + ",".join(f"{key}={labels[key]}" for key in sorted(labels)) + "}"
