"""What prometheus_client's parsers say of the same text, in the names of the text format 0.0.4."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families as text
from prometheus_client.samples import Sample as ClientSample

from pytest_grovescale.exposition.families import Exposition, family_of, parse

from .samples import canonical

openmetrics: Callable[[str], Iterable[Metric]] = openmetrics_parser.text_string_to_metric_families


Sample = tuple[str, frozenset[tuple[str, str]]]
"""Name and labels."""


class Said(NamedTuple):
    """An answer, in one shape for both."""

    families: dict[str, tuple[str, str, str]]
    """Of those that are more than a name: type, help, unit."""
    samples: dict[Sample, tuple[str, str]]
    """→ the family that it belongs to, and its value."""
    created: dict[Sample, tuple[str, str]]
    """Times of creation by the family's name and the labels."""


def of_text(body: str, ours: Exposition) -> Said:
    """``ours`` tells a counter declared as ``x`` from one declared as ``x_total``: the client calls both ``x``."""
    said = Said({}, {}, {})
    for metric in text(body):
        counter = metric.type == "counter"
        bare = counter and metric.name in ours.families and f"{metric.name}_total" not in ours.families
        name = f"{metric.name}_total" if counter and not bare else metric.name
        _describe(said, name, metric)
        for sample in metric.samples:
            _add(said.samples, sample.name.removesuffix("_total") if bare else sample.name, sample, name)
    return said


def of_openmetrics(body: str) -> Said:
    said = Said({}, {}, {})
    for metric in openmetrics(body):
        name = metric.name + {"counter": "_total", "info": "_info"}.get(metric.type, "")
        _describe(said, name, metric)
        for sample in metric.samples:
            if sample.name == f"{metric.name}_created" and metric.type in ("counter", "histogram", "summary"):
                _add(said.created, name, sample, name)
            else:
                _add(said.samples, sample.name, sample, name)
    return said


def ours(found: Exposition) -> Said:
    """Return our own answer."""

    def by_parts(values: dict[str, str]) -> dict[Sample, tuple[str, str]]:
        parts = {series: parse(series) for series in values}
        return {
            (name, frozenset(labels.items())): (family_of(name, found.families), canonical(float(values[series])))
            for series, (name, labels) in parts.items()
        }

    families = {name: (family.type, family.help, family.unit) for name, family in found.families.items()}
    return Said(
        {name: about for name, about in families.items() if about != ("unknown", "", "")},
        by_parts(found.samples),
        by_parts(found.created),
    )


def _describe(said: Said, name: str, metric: Metric) -> None:
    # The client yields a family anew when its samples are interrupted; what is known of it adds up.
    kind, help_text, _ = said.families.get(name, ("unknown", "", ""))
    about = (metric.type if metric.type != "unknown" else kind, metric.documentation or help_text, metric.unit)
    if about != ("unknown", "", ""):
        said.families[name] = about


def _add(samples: dict[Sample, tuple[str, str]], name: str, sample: ClientSample, family: str) -> None:
    samples[name, frozenset(sample.labels.items())] = family, canonical(sample.value)
