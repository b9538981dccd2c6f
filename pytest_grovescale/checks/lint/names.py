"""Names and help texts: promlint's rules, each with what to write instead.

Rules as in client_golang, prometheus/testutil/promlint/validations. Whose families they are is the caller's to tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator

from ...exposition.families import MetricType
from ...exposition.series import CLASSIC_NAME
from .problem import Problem, Rule
from .served import Served, written
from .units import ABBREVIATIONS, unit_in

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_UNCLASSIC = re.compile(r"[^a-zA-Z0-9_]+")
_TYPE_WORDS = ("counter", "gauge", "gauge_histogram", "histogram", "summary")

_SUFFIXES: dict[str, tuple[MetricType, ...]] = {
    "_bucket": ("histogram", "gaugehistogram"),
    "_count": ("histogram", "summary"),
    "_sum": ("histogram", "summary"),
    "_timestamp_seconds": ("gauge",),
}
"""Suffix → the types that may have it."""

_LABELS: dict[str, tuple[MetricType, ...]] = {"le": ("histogram", "gaugehistogram"), "quantile": ("summary",)}


def problems(families: Iterable[Served], names: Collection[str]) -> Iterator[Problem]:
    """Yield what is wrong with families' names; ``names`` are those of all families of the endpoint."""
    for served in families:
        for rule in _RULES:
            yield from rule(served)
        yield from _duplicate(served, names)


def _help(served: Served) -> Iterator[Problem]:
    if not served.family.help.strip():
        yield _problem(served, "help", "it has no help text", "say in one sentence what is counted or measured")


def _unit(served: Served) -> Iterator[Problem]:
    found, name = unit_in(served.name), served.name
    if found is not None and found.word != found.base:
        yield _problem(
            served,
            "unit",
            f"{found.word} is no base unit",
            f"expose {found.base}, as {name.replace(found.word, found.base)}",
        )
    told = served.family.unit
    if told and not name.removesuffix("_total").endswith(f"_{told}"):
        yield _problem(served, "unit", f"its unit is {told}, and its name does not end so", f"name it …_{told}")


def _counter_total(served: Served) -> Iterator[Problem]:
    name, kind = served.name, served.family.type
    if kind == "counter" and not name.endswith("_total"):
        yield _problem(served, "counter-total", "a counter's name ends in _total", f"name it {_as_counter(name)}")
    if kind not in ("counter", "unknown") and name.endswith("_total"):
        fix = f"name it {name.removesuffix('_total')}, or make it a counter"
        yield _problem(served, "counter-total", f"only a counter's name ends in _total, and this is a {kind}", fix)


def _reserved_suffix(served: Served) -> Iterator[Problem]:
    kind = served.family.type
    if kind == "unknown":
        return
    for suffix, types in _SUFFIXES.items():
        if served.name.endswith(suffix) and kind not in types:
            says = f"{suffix} is what series of a {types[0]} end in, and this is a {kind}"
            name = _as_counter(served.name) if kind == "counter" else _without_suffix(served.name, suffix)
            yield _problem(served, "reserved-suffix", says, f"name it {name}")
    labels = {label: series for series in served.series for label in series.labels}
    for label, types in _LABELS.items():
        if label in labels and kind not in types:
            says = f"the label {label} is a {types[0]}'s, and this is a {kind}"
            yield Problem(
                family=served.name,
                rule="reserved-suffix",
                says=says,
                series=written(labels[label]),
                fix=f"give the label {label} another name, or make the family a {types[0]}",
            )


def _type_in_name(served: Served) -> Iterator[Problem]:
    for word in _TYPE_WORDS:
        if _has_word(served.name, word):
            fix = f"name it {_without_word(served.name, word)}: its type is told beside it"
            yield _problem(served, "type-in-name", f"its name says {word}", fix)


def _reserved_character(served: Served) -> Iterator[Problem]:
    name = served.name
    if ":" in name:
        fix = f"name it {name.replace(':', '_')}"
        yield _problem(served, "reserved-character", "colons are for the names of recording rules", fix)
    elif not CLASSIC_NAME.fullmatch(name):
        fix = f"name it {_UNCLASSIC.sub('_', name)}"
        yield _problem(served, "reserved-character", "every query has to put this name in quotes", fix)


def _camel_case(served: Served) -> Iterator[Problem]:
    if _CAMEL.search(served.name):
        fix = f"name it {_snake(served.name)}"
        yield _problem(served, "camel-case", "its name is written in camelCase", fix)
    labels = {label: series for series in served.series for label in series.labels}
    for label in sorted(labels):
        if _CAMEL.search(label):
            yield Problem(
                family=served.name,
                rule="camel-case",
                says=f"its label {label} is written in camelCase",
                series=written(labels[label]),
                fix=f"name the label {_snake(label)}",
            )


def _unit_abbreviation(served: Served) -> Iterator[Problem]:
    for word, base in ABBREVIATIONS.items():
        if _has_word(served.name, word):
            fix = f"expose {base}, as {_replaced_word(served.name, word, base)}"
            yield _problem(served, "unit-abbreviation", f"its name has the abbreviated unit {word}", fix)


_RULES: tuple[Callable[[Served], Iterator[Problem]], ...] = (
    _help,
    _unit,
    _counter_total,
    _reserved_suffix,
    _type_in_name,
    _reserved_character,
    _camel_case,
    _unit_abbreviation,
)


def _duplicate(served: Served, names: Collection[str]) -> Iterator[Problem]:
    """Yield a counter whose name in OpenMetrics, where it has no suffix, is that of another family."""
    stem = served.name.removesuffix("_total")
    if served.family.type == "counter" and stem != served.name and stem in names:
        says = f"in OpenMetrics it goes by the name {stem}, which another family has"
        yield _problem(served, "duplicate", says, "give one of the two another name")


def _problem(served: Served, rule: Rule, says: str, fix: str) -> Problem:
    return Problem(family=served.name, rule=rule, says=says, fix=fix)


def _has_word(name: str, word: str) -> bool:
    """Return whether a name has a word (or several), but not as its first."""
    return f"_{word}_" in f"{name.lower()}_"


def _replaced_word(name: str, word: str, by: str) -> str:
    return re.sub(rf"_{word}(?=_|$)", f"_{by}", name, flags=re.IGNORECASE)


def _without_word(name: str, word: str) -> str:
    return re.sub(rf"_{word}(?=_|$)", "", name, flags=re.IGNORECASE)


def _without_suffix(name: str, suffix: str) -> str:
    stem = name.removesuffix(suffix)
    return f"{stem}_seconds" if suffix == "_timestamp_seconds" else _plural(stem) if suffix == "_count" else stem


def _as_counter(name: str) -> str:
    suffix = next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), "")
    return f"{_without_suffix(name, suffix)}_total"


def _plural(word: str) -> str:
    return word if word.endswith("s") else f"{word}es" if word.endswith(("x", "ch", "sh")) else f"{word}s"


def _snake(name: str) -> str:
    return _CAMEL.sub("_", name).lower()
