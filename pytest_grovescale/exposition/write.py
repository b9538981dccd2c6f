"""Writes an exposition in the text format 0.0.4, for files and for other programs."""

from __future__ import annotations

from collections import defaultdict

from .families import Exposition, MetricType, family_of, name_text, parse

_TYPES: dict[MetricType, str] = {
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
        lines[name].append(f"# TYPE {quoted} {_TYPES.get(family.type, family.type)}")
    for series, value in exposition.samples.items():
        lines[family_of(parse(series).name, exposition.families)].append(f"{series} {value}")
    return "".join(f"{line}\n" for group in lines.values() for line in group)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
