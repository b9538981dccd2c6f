"""All rules that an endpoint's response can be checked by without a cluster or a history."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain

import msgspec

from ...analysis.metrics.snapshot import Surface
from ...errors import ExpositionError, ExpositionLineError
from ...exposition import refusals
from ...exposition.body import Limits
from ...exposition.families import Exposition, parse
from ...exposition.families import text as series_text
from ...exposition.reader import Format, Reader, format_of
from . import (
    buckets,
    builtin_duplicates,
    dimensions,
    distributions,
    function_names,
    labels,
    layout,
    names,
    own_duplicates,
    relations,
    series,
    values,
)
from .families import Problem, Rule, Served, served

MOST_LINES = 20
"""Wrong lines that are reported. What has more is no exposition with faults, but something else."""

MAX_BYTES = 4 << 20
"""Of a response that is read again for each wrong line; of a larger one only the first is reported."""

_PARTS = ("_bucket", "_sum", "_count")
_OF_TYPE_LINES: tuple[Rule, ...] = ("help", "unit", "type", "inconsistent", "buckets", "reserved-suffix", "order")
"""What a TYPE line with the name of a sample leads to."""

_FORMATS: dict[Format, str] = {"protobuf": "protobuf", "openmetrics": "OpenMetrics", "text": "the text format"}
_CONTENT_TYPES: dict[Format, str] = {
    "protobuf": "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
    "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
    "text": "text/plain; version=0.0.4",
}

_TWICE = "each series once"


class LintRules(msgspec.Struct, frozen=True, kw_only=True):
    """What an endpoint is checked for, beside the rules that apply to all."""

    max_series: int | None = None
    """In all families that match `max_series_family`."""
    max_series_family: str = ""
    """A family, or several with ``*``; empty: all that no library brought."""
    max_combinations: int = series.MOST_SETS
    """Of the labels of one family that no library brought."""
    forbidden: tuple[str, ...] = ()
    """Labels that no family of its own may have, beside those whose names are unbounded."""
    ignore: tuple[str, ...] = ()
    """Rules, and families (with ``*``), that are not reported."""


class Lint(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules find wrong with an endpoint."""

    target: str
    families: int
    own_families: int
    """Of `families`, those that no known library brought."""
    series: int
    own_series: int
    problems: tuple[Problem, ...]
    """By family; those of the endpoint as a whole first."""
    hints: tuple[Problem, ...] = ()
    """What is worth a look, by family; none is a fault."""
    ignored: int = 0
    """Faults of ignored rules and families."""


def lint(
    surface: Surface,
    rules: LintRules,
    *,
    syntax: Sequence[Problem] = (),
    now_s: float | None = None,
    latest_s: float | None = None,
) -> Lint:
    """Return what is wrong with an endpoint; ``syntax`` are faults that are known, as from `read`, times as there.

    Families that a library brought are counted, and checked only for what was added to them.
    """
    every = served(surface)
    own = [family for family in every if not family.of_library]
    faults = _as_one([*syntax, *_problems(surface, every, own, rules, now_s, latest_s)], own)
    kept = [problem for problem in faults if not _ignored(problem, rules.ignore)]
    kept.sort(key=lambda problem: problem.family)
    return Lint(
        target=surface.target,
        families=len(every),
        own_families=len(own),
        series=len(surface.samples),
        own_series=sum(len(family.series) for family in own),
        problems=tuple(problem for problem in kept if not problem.hint),
        hints=tuple(problem for problem in kept if problem.hint),
        ignored=len(faults) - len(kept),
    )


def _problems(
    surface: Surface,
    every: list[Served],
    own: list[Served],
    rules: LintRules,
    now_s: float | None,
    latest_s: float | None,
) -> Iterator[Problem]:
    known = {family.name for family in every}
    yield from series.problems(every, rules.max_series, rules.max_series_family, most_sets=rules.max_combinations)
    yield from names.problems(own, known, surface.samples)
    yield from labels.problems(every, forbidden=rules.forbidden)
    yield from dimensions.problems(every)
    yield from builtin_duplicates.problems(surface, every, own, now_s=now_s)
    yield from function_names.problems(own)
    yield from buckets.problems(own, surface.samples, surface.native)
    yield from values.problems(own, surface.samples, surface.native, now_s=now_s or latest_s)
    yield from relations.problems(own, surface.samples)
    yield from own_duplicates.problems(own, surface.samples)


def _as_one(faults: list[Problem], own: Iterable[Served]) -> list[Problem]:
    """Return faults with those that a TYPE line of a sample's name leads to as one.

    ``# TYPE x_bucket histogram`` makes x_bucket a histogram without buckets, and x_sum and x_count have no type.
    """
    by_name = {family.name: family for family in own}
    for family in by_name.values():
        suffix = next((part for part in _PARTS if family.name.endswith(part)), "")
        stem = family.name.removesuffix(suffix)
        others = [f"{stem}{part}" for part in _PARTS if part != suffix]
        untyped = [name for name in others if name in by_name and by_name[name].family.type == "unknown"]
        if not suffix or not untyped or family.family.type not in ("histogram", "summary"):
            continue
        parts = {stem, family.name, *untyped}
        fix = f"write the TYPE line of {stem}"
        says = f"its TYPE line names a sample, and not the {family.family.type}"
        kept = [fault for fault in faults if fault.family not in parts or fault.rule not in _OF_TYPE_LINES]
        faults = [*kept, Problem(family=family.name, rule="type", says=says, fix=fix)]
    return _of_another_type(faults, by_name)


def _of_another_type(faults: list[Problem], by_name: Mapping[str, Served]) -> list[Problem]:
    """Return faults with those of a TYPE line that says another type than the samples' names as one.

    Below ``# TYPE x counter`` x_bucket, x_sum and x_count are families of their own, without type and help text.
    """
    wrong: tuple[Rule, ...] = (*_OF_TYPE_LINES, "counter-total")
    for family in by_name.values():
        stem = family.name.removesuffix("_total")
        untyped = [
            name for part in _PARTS if (name := stem + part) in by_name and by_name[name].family.type == "unknown"
        ]
        if family.family.type in ("unknown", "histogram") or (f"{stem}_bucket" not in untyped and len(untyped) < 2):
            continue
        real = "histogram" if f"{stem}_bucket" in untyped else "summary"
        of_summary = all("quantile" in one.labels for one in family.series)
        if family.family.type == real or not (of_summary or family.family.type == "summary"):
            continue
        parts = {family.name, *untyped}
        says = f"its TYPE line says {family.family.type}, and its samples are those of a {real}"
        kept = [fault for fault in faults if fault.family not in parts or fault.rule not in wrong]
        faults = [*kept, Problem(family=family.name, rule="type", says=says, fix=f"make its TYPE line say {real}")]
    return faults


def _ignored(problem: Problem, ignore: Iterable[str]) -> bool:
    return any(pattern == problem.rule or fnmatchcase(problem.family, pattern) for pattern in ignore)


def read(
    body: bytes,
    content_type: str = "",
    limits: Limits | None = None,
    *,
    encoding: str = "",
    now_s: float | None = None,
    latest_s: float | None = None,
) -> tuple[Exposition, list[Problem]]:
    """Return what a response says without its wrong lines; and these, with what is wrong with its headers and layout.

    ``encoding``: its Content-Encoding, of a body that is unpacked already. ``now_s``: when it was served, s since the
    epoch; None where this is not known, as of a file, which has no headers either. ``latest_s``: when it was served at
    the latest, where ``now_s`` is not known. A scraper refuses the whole response
    for a wrong line, and so does Prometheus. Raises ExpositionError for one that is no exposition, or has too many
    wrong lines; in protobuf nothing can be left out.
    """
    if now_s is None:
        exposition, faults = _readable(body, content_type, limits, None, quoted=True)
        return exposition, [*faults, *(late for late in _created(exposition, latest_s) if late not in faults)]
    refused = [_refused("transport", one) for one in refusals.of_headers(content_type, encoding)]
    quoted = "allow-utf-8" in content_type
    try:
        exposition, faults = _readable(body, content_type, limits, now_s, quoted=quoted)
    except ExpositionError:
        if (sniffed := _of_itself(body, content_type, limits, now_s, quoted=quoted, refused=refused)) is None:
            raise
        return sniffed
    if not exposition.samples and not exposition.families:
        sniffed = _of_itself(body, content_type, limits, now_s, quoted=quoted, refused=refused)
        return sniffed or (exposition, [*refused, *faults])
    return exposition, [*refused, *faults]


def _of_itself(
    body: bytes,
    content_type: str,
    limits: Limits | None,
    now_s: float | None,
    *,
    quoted: bool,
    refused: Sequence[Problem],
) -> tuple[Exposition, list[Problem]] | None:
    """Return what a body says whatever its header says, where it is an exposition beyond doubt; otherwise None."""
    try:
        exposition, faults = _readable(body, "", limits, now_s, quoted=quoted)
        form = format_of(body)
    except ExpositionError:
        return None
    if not exposition.families or any(fault.rule == "syntax" for fault in faults):
        return None
    ended = _with_end(body, content_type, limits, now_s, quoted=quoted)
    if ended is not None and len(ended[1]) <= len(faults):
        return ended
    if refused:
        return exposition, [*refused, *faults]
    says = f"the body is {_FORMATS[form]}, and its Content-Type says {content_type.partition(';')[0].strip()}"
    return exposition, [_refused("transport", refusals.Refusal(says, f"serve {_CONTENT_TYPES[form]}")), *faults]


def _with_end(
    body: bytes, content_type: str, limits: Limits | None, now_s: float | None, *, quoted: bool
) -> tuple[Exposition, list[Problem]] | None:
    """Return what OpenMetrics says that lacks its end, and what is wrong with it; None where it is no OpenMetrics."""
    try:
        if format_of(body, content_type) != "openmetrics":
            return None
        exposition, faults = _readable(body + b"# EOF\n", content_type, limits, now_s, quoted=quoted)
    except ExpositionError:
        return None
    says = "it does not end in '# EOF', so that no reader can tell whether it is whole"
    missing = refusals.Refusal(says, "write '# EOF' as its last line: Prometheus refuses the whole response")
    return exposition, [_refused("syntax", missing), *faults]


def _readable(
    body: bytes, content_type: str, limits: Limits | None, now_s: float | None, *, quoted: bool
) -> tuple[Exposition, list[Problem]]:
    lines = body.split(b"\n")
    numbers = list(range(1, len(lines) + 1))
    faults: dict[int, Problem] = {}
    first: ExpositionLineError | None = None
    while True:
        try:
            kept = b"\n".join(lines)
            exposition = Reader(limits).read(kept, content_type)
            form = format_of(kept, content_type)
            texts = [] if form == "protobuf" else list(zip(numbers, kept.decode().split("\n"), strict=True))
            unsuffixed: list[Problem] = []
            if form == "openmetrics":
                exposition, unsuffixed = _with_totals(exposition, texts)
            return exposition, [
                *(faults[number] for number in sorted(faults)),
                *(_refused("syntax", one) for one in refusals.of_lines(texts, form, quoted=quoted)),
                *_retyped(exposition),
                *unsuffixed,
                *_native(exposition),
                *_created(exposition, now_s),
                *layout.problems(texts, exposition.families, form, now_s),
            ]
        except ExpositionLineError as error:
            # A fault that stays when its line is taken out is not that line's.
            if len(body) > MAX_BYTES or numbers[error.line - 1] in faults:
                raise
            first = first or error
            if len(faults) == MOST_LINES:
                raise ExpositionError(f"{first.message}; and more than {MOST_LINES} lines like it") from None
            faults[numbers[error.line - 1]] = _problem(error, numbers[error.line - 1])
            if error.line == len(lines):
                # It has no line feed; the one before has.
                lines[-1] = b""
            else:
                # Taken out: OpenMetrics knows no empty lines.
                del lines[error.line - 1], numbers[error.line - 1]


def _refused(rule: Rule, refusal: refusals.Refusal) -> Problem:
    return Problem(family="", rule=rule, says=refusal.says, fix=refusal.fix)


def _problem(error: ExpositionLineError, number: int) -> Problem:
    says = f"line {number}: {error.what}"
    if _TWICE in error.what:
        return Problem(family="", rule="duplicate", says=says, fix="serve each series once")
    return Problem(family="", rule="syntax" if error.refused else "format", says=says, fix=error.next_step)


def _with_totals(exposition: Exposition, texts: Sequence[tuple[int, str]]) -> tuple[Exposition, list[Problem]]:
    """Return an exposition of OpenMetrics with counters' samples that lack ``_total`` under their families' names.

    Prometheus takes them by the names that they have, and loses type and help text.
    """
    totals = {
        stem: family.name
        for family in exposition.families.values()
        if family.type == "counter" and (stem := family.name.removesuffix("_total")) not in exposition.families
    }
    there: dict[str, str] = {}
    renamed = {}
    for text in exposition.samples:
        name, labels = parse(text)
        renamed[text] = text
        if name in totals and (whole := series_text(totals[name], labels)) not in exposition.samples:
            there.setdefault(name, text)
            renamed[text] = whole
    found = []
    for name in there:
        begins = (f"{name} ", f"{name}{{", f'{{"{name}"')
        number = next((number for number, line in texts if line.strip(" \t\r").startswith(begins)), 0)
        says = f"{f'line {number}: ' * (number > 0)}a counter's sample ends in _total"
        found.append(Problem(family=totals[name], rule="counter-total", says=says, fix=f"write {totals[name]}"))
    if found:
        samples = {renamed[text]: value for text, value in exposition.samples.items()}
        exposition = msgspec.structs.replace(exposition, samples=samples)
    return exposition, found


def _native(exposition: Exposition) -> Iterator[Problem]:
    """Yield families with a native histogram that Prometheus refuses or that contradicts itself, the first of each."""
    said: set[str] = set()
    sums = ((one, wrong) for one, native in exposition.native.items() for wrong in distributions.of_native(native))
    for one, (says, fix) in chain(refusals.of_native(exposition.native), sums):
        family = parse(one).name
        if family not in said:
            said.add(family)
            yield Problem(family=family, rule="inconsistent", says=says, series=one, fix=fix)
    for one, native in exposition.native.items():
        family = parse(one).name
        if family not in said and (coarse := buckets.of_native(native)) is not None:
            said.add(family)
            yield Problem(family=family, rule="buckets", says=coarse, series=one, fix=buckets.FIX_NATIVE)


def _created(exposition: Exposition, latest_s: float | None) -> Iterator[Problem]:
    """Yield families with a series whose creation time is none, the first of each."""
    said: set[str] = set()
    latest_s = latest_s + refusals.FUTURE_S if latest_s is not None else values.LATEST_S
    for one, written in exposition.created.items():
        family, created_s = parse(one).name, float(written)
        if family not in said and not values.FIRST_S <= created_s <= latest_s:
            said.add(family)
            where = "lies before 2001" if created_s < values.FIRST_S else "has not come yet"
            says = f"its creation time {written} {where if math.isfinite(created_s) else 'is none'}"
            fix = "give it the seconds since 1970"
            yield Problem(family=family, rule="timestamp", says=says, series=one, fix=fix)


def _retyped(exposition: Exposition) -> Iterator[Problem]:
    """Yield the families with more than one TYPE line. Prometheus takes the last, others refuse the response."""
    for name, types in sorted(exposition.retyped.items()):
        yield Problem(
            family=name,
            rule="duplicate",
            says=f"it has {len(types)} TYPE lines: {', '.join(types)}",
            fix="describe each family once, above its samples",
        )
