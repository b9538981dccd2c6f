"""Names and help texts of metric families: promlint's rules, each with what to write instead.

Rules as in client_golang, prometheus/testutil/promlint/validations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec

from ...errors import NotMeasuredError
from ...exposition.families import CLASSIC_NAME, FRAMEWORKS, MetricType
from ..check import Outcome, at_most, first
from ..run import Run
from . import help_texts
from .families import Problem, Rule, Served, line, own, written
from .help_texts import COUNTS
from .target import OwnFamiliesCheck, unread
from .units import ABBREVIATIONS, MULTIPLES, OF_TEMPERATURES, unit_in
from .values import timestamps

_DURATIONS = ("duration", "latency", "elapsed", "delay", "uptime")
"""Last words of a name that promise a duration."""

_EACH_TIME = re.compile(r"(?:\b(?:per|an?|each|every) |/)(?:s|sec(?:ond)?|min(?:ute)?|hour|day)\b", re.IGNORECASE)
_SPLIT_BY = re.compile(r"_by_([a-z]+)(?=_total$|$)")
_DERIVED = re.compile(
    r"_per_(?:second|minute|hour|sec|min)$|_(?:qps|rps|tps|iops)$|_(?:requests?|errors?|success|failures?)_rate$|_(?:avg|average|mean|median|p\d{2,3}|percentile)(?=_|$)"
)
"""Words of a gauge that is computed from what a counter or a histogram says."""

_SETTING = re.compile(
    r"(?<![^_])(?:throttle|throttling|limit|max|maximum|quota|budget|allowed|target|configured"
    r"|speed|bandwidth|capacity|link|nominal|rate(?=_(?:bytes|bits)_))(?![^_])"
)
"""Words of a rate that someone set or that a device has, and that no query computes."""

_OF_SCRAPES = re.compile(
    r"up|ALERTS(?:_FOR_STATE)?|scrape_(?:duration_seconds|samples_scraped|samples_post_metric_relabeling|series_added"
    r"|timeout_seconds|sample_limit|body_size_bytes)"
)
"""Series that Prometheus writes itself: https://prometheus.io/docs/concepts/jobs_instances/."""

_AGE = re.compile(r"_(?:age|ago)(?=_|$)|_since_")
"""Words of a gauge that ages by itself."""
_OF_THE_OLDEST = re.compile(r"(?<![^_])(?:oldest|longest|unfinished|waiting|pending)(?![^_])")
"""Of several, of which another one is the oldest next time: no time of one event would say it."""

_FEW_WORDS = 4
"""Of a help text; shorter ones are equal by chance."""

_ALIKE_WORDS = 3
"""At the end of two names that say the same of two parts of a program."""

_NUMBERS = ("num", "nr", "cnt")
"""Words of a name that only say that it is a number."""

_TYPE_WORDS = ("counter", "gauge", "gauge_histogram", "histogram", "summary")

_BESIDE_UNIT = re.compile(rf"_(?:per|since|until|ratio|info|created|max|min|limit|{'|'.join(_TYPE_WORDS)})(?=_|$)")
"""What may follow a unit: what it is measured by, which of several it is, and what another rule is about."""

_SINGULAR = re.compile(r"(?<!_per)_((?:nano|micro|milli)?second|minute|hour|(?:kilo|mega|giga)?byte)(?:_total)?$")

_TWICE = re.compile(r"(?<![^_])([a-z]{3,})(_\1)(?=_|$)")

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_UNCLASSIC = re.compile(r"[^a-zA-Z0-9_]+")

_SUFFIXES: dict[str, tuple[MetricType, ...]] = {
    "_bucket": ("histogram", "gaugehistogram"),
    "_count": ("histogram", "summary"),
    "_sum": ("histogram", "summary"),
    "_timestamp_seconds": ("gauge",),
}
"""Suffix → the types that may have it."""

_LABELS: dict[str, tuple[MetricType, ...]] = {"le": ("histogram", "gaugehistogram"), "quantile": ("summary",)}


_PROPOSED = re.compile(r"(?<=\bname it )[a-zA-Z_:][a-zA-Z0-9_:]*(?=[:,]|$)|(?<=, as )[a-zA-Z_:][a-zA-Z0-9_:]*$")
"""The name that a fix proposes, whatever the fix says besides."""


class MetricNames(OwnFamiliesCheck, tag="metric_names", frozen=True, kw_only=True):
    """Names and help texts of the families that no library brought, by the rules of Prometheus' own linter."""

    failure_stands = True
    one_scrape = "alone"

    def judge_target(self, run: Run) -> Outcome:
        target = run.metrics().target(self.target)
        surface = target.whole()
        families = own(surface, ignore=self.ignore)
        if not families:
            raise NotMeasuredError(f"{target.target} serves no family of its own")
        faults = [line(problem) for problem in problems(families, {*surface.families, *surface.by_family()})]
        return at_most(
            "",
            f"faults in the names of {len(families)} families",
            len(faults),
            0,
            doubts=unread(target),
            evidence=first(faults),
        )


def problems(
    families: Iterable[Served], names: Collection[str], samples: Mapping[str, float] | None = None
) -> Iterator[Problem]:
    """Yield what is wrong with families' names; ``names`` are those of all families of the endpoint.

    ``samples``: the values of their series, which may tell the unit of a time.
    """
    every = [family for family in families if not family.name.startswith(FRAMEWORKS)]
    proposed: dict[str, str] = {}
    for family in every:
        for problem in chain.from_iterable(rule(family) for rule in _RULES):
            yield _free(problem, family, names, proposed)
        yield from (_free(one, family, names, proposed) for one in timestamps(family, samples or {}, names))
        yield from _duplicate(family, names)
    yield from _same_help(every)


def _free(problem: Problem, family: Served, names: Collection[str], proposed: dict[str, str]) -> Problem:
    """Return a fault whose fix proposes a name without another fault, that no other family has and none was proposed.

    ``proposed``: name → the family that it was proposed for; is added to.
    """
    match = _PROPOSED.search(problem.fix)
    if match is None:
        return problem
    name = _mended(match[0], family)
    taken = name in names and name != family.name
    if name == family.name:
        fix = "give it another name"
    elif taken or proposed.setdefault(name, family.name) != family.name:
        fix = f"take it away where {name} says the same, or give it another name"
    else:
        fix = f"{problem.fix[: match.start()]}{name}{problem.fix[match.end() :]}"
    return msgspec.structs.replace(problem, fix=fix)


def _mended(name: str, family: Served) -> str:
    """Return a proposed name without what the rules on labels' words, units and ``_total`` would say of it."""
    name = _without_labels(name, family.own_labels())
    unit = unit_in(name)
    if unit is not None and unit.word == unit.base and _is_amid(unit.word, name):
        name = _with_unit_last(name, unit.word)
    kind = family.family.type
    if kind == "unknown":
        return name
    stem = _TOTALS.sub("", name)
    return f"{stem}_total" if kind == "counter" else stem


def _help(family: Served) -> Iterator[Problem]:
    if help_texts.is_none(family.family.help):
        yield _problem(family, "help", "it has no help text", "say in one sentence what is counted or measured")
    elif help_texts.is_name(family.family.help, family.name):
        yield _problem(
            family, "help", "its help text is its name once more", "say what is counted or measured, and when"
        )
    elif (said := help_texts.unit_of(family.family.help)) is not None:
        unit, (word, of_help) = unit_in(family.name), said
        if unit is not None and unit.word != of_help:
            says = f"its help text says {word}, and its name {unit.word}"
            yield _problem(family, "help", says, "say the unit in which it is, the same in both")
    elif (ways := help_texts.opposite_of(family.name, family.family.help)) is not None:
        says = f"its name says {ways[0]}, and its help text {ways[1]}"
        yield _problem(family, "help", says, "say in both what is counted")


def _kind(family: Served) -> Iterator[Problem]:
    """Yield a help text or a name that says another type than the TYPE line."""
    text = family.family.help
    if _is_info_of_another_type(family):
        says = f"an info is a gauge that is 1, and this is a {family.family.type}"
        yield _problem(family, "type", says, "make it a gauge")
    elif family.family.type == "counter" and (help_texts.says_now(text) or "current" in family.name.split("_")):
        what = "help text" if help_texts.says_now(text) else "name"
        says = f"its {what} says that it goes up and down, and this is a counter"
        yield _problem(family, "type", says, "make it a gauge, without _total")
    elif family.family.type == "gauge" and help_texts.says_so_far(text, family.name):
        says = "its help text says that it only goes up, and this is a gauge"
        yield _problem(family, "type", says, f"make it a counter, {_as_counter(family.name)}")


def _unit(family: Served) -> Iterator[Problem]:
    unit, name = unit_in(family.name), family.name
    if (many := MULTIPLES.search(name)) is not None:
        fix = f"count in ones, as {MULTIPLES.sub('', name)}"
        yield _problem(family, "unit", f"its name says {many[0].strip('_')}, which no base unit is", fix)
    elif unit is not None and unit.word != unit.base:
        yield _problem(
            family,
            "unit",
            f"{unit.word} is no base unit",
            f"expose {unit.base}, as {name.replace(unit.word, unit.base)}",
        )
    elif unit is not None and _is_amid(unit.word, name) and not _is_derived(family):
        fix = f"name it {_with_unit_last(name, unit.word)}"
        yield _problem(family, "unit", f"its unit, {unit.word}, is not the end of its name", fix)
    elif unit is None and family.family.type in ("histogram", "summary") and name.endswith("_time"):
        yield _problem(
            family, "unit", "its name promises a duration, and no unit", f"expose seconds, as {name}_seconds"
        )
    elif unit is None and family.family.type == "counter" and COUNTS.match(family.family.help):
        pass  # of what took a time, and no time
    elif unit is None and family.family.type != "unknown" and name.removesuffix("_total").endswith(_DURATIONS):
        fix = f"expose seconds, as {name.removesuffix('_total')}_seconds{'_total' * name.endswith('_total')}"
        yield _problem(family, "unit", "its name promises a duration, and no unit", fix)
    elif unit is not None or any(_has_word(name, word) for word in ABBREVIATIONS):
        pass  # another rule's
    elif (said := help_texts.unit_of(family.family.help)) is not None and not COUNTS.match(family.family.help):
        of_help = unit_in(said[1])
        base = of_help.base if of_help is not None else ABBREVIATIONS.get(said[1], said[1])
        fix = f"expose {base}, as {_with_unit_last(name, base)}"
        says = f"its help text says {said[0]}, and its name no unit"
        # Of a base unit the values are right, and the name alone is short.
        yield msgspec.structs.replace(_problem(family, "unit", says, fix), hint=base == said[1])
    elif family.family.type != "unknown" and help_texts.says_a_time(family.family.help):
        fix = f"expose seconds, as {_with_unit_last(name, 'seconds')}"
        yield _problem(family, "unit", "its help text says a time, and its name no unit", fix)
    stated = family.family.unit
    if stated and not name.removesuffix("_total").endswith(f"_{stated}"):
        yield _problem(family, "unit", f"its unit is {stated}, and its name does not end so", f"name it …_{stated}")


def _derived(family: Served) -> Iterator[Problem]:
    """Yield gauges that say what a query can: https://prometheus.io/docs/practices/instrumentation/#timestamps-not-time-since
    and #counter-vs-gauge-summary-vs-histogram."""
    if family.family.type not in ("gauge", "unknown"):
        return
    if (match := _DERIVED.search(family.name)) is not None and not (
        "_per_" in match[0] and _SETTING.search(family.name)
    ):
        word = match[0].strip("_").replace("_", " ")
        fix = "expose a counter or a histogram; rate() and histogram_quantile() compute it over any time"
        yield _problem(family, "derived", f"its name says {word}, which cannot be added up or averaged again", fix)
    elif family.name.endswith("_rate") and _EACH_TIME.search(family.family.help):
        fix = "expose a counter; rate() computes it over any time"
        yield _problem(family, "derived", "its help text says how often of late, which rate() says of any time", fix)
    elif _AGE.search(family.name) and not _OF_THE_OLDEST.search(family.name):
        fix = "expose the time when it happened as …_timestamp_seconds, and subtract it from time() in the query"
        yield _problem(family, "derived", "it ages by itself: it stands still where its program does", fix)
    elif help_texts.says_most_so_far(family.family.help):
        fix = "expose a histogram, which says it of any time"
        says = "its help text says that it is the most since a start: it never falls, and shows nothing after the first"
        yield msgspec.structs.replace(_problem(family, "derived", says, fix), hint=True)


def _words_as_numbers(family: Served) -> Iterator[Problem]:
    if family.family.type == "gauge" and help_texts.numbers_words(family.family.help):
        fix = "expose a series for each state, 1 for the one that holds and 0 for the others"
        yield _problem(family, "derived", "its numbers stand for words, which no query can add up or compare", fix)


def _empty_words(family: Served) -> Iterator[Problem]:
    """Yield a name with an underscore that joins nothing, or with a word that is there twice."""
    if "__" in family.name or family.name.startswith("_") or family.name.endswith("_"):
        fix = f"name it {re.sub('_+', '_', family.name).strip('_')}"
        yield _problem(family, "reserved-character", "its name has an underscore without a word beside it", fix)
    elif (twice := _TWICE.search(family.name)) is not None:
        fix = f"name it {family.name[: twice.start(2)]}{family.name[twice.end(2) :]}"
        yield _problem(family, "prefix", f"its name says {twice[1]} twice", fix)


def _prefix(family: Served) -> Iterator[Problem]:
    """Yield a name that Prometheus' own series have, or one of one word: it begins with what it is of.

    https://prometheus.io/docs/practices/naming/.
    """
    if _OF_SCRAPES.fullmatch(family.name):
        says = "Prometheus writes series of this name about each target itself"
        yield _problem(family, "builtin-collision", says, f"name it <program>_{family.name.lower()}")
    elif (
        "_" not in family.name.removesuffix("_total") and CLASSIC_NAME.fullmatch(family.name) and ":" not in family.name
    ):
        yield _problem(
            family, "prefix", "its name does not begin with what it is of", f"name it <program>_{family.name}"
        )


def _same_help(families: Sequence[Served]) -> Iterator[Problem]:
    """Yield families with the help text of another one, copied and not changed."""
    known: dict[str, Served] = {}
    for family in families:
        text = family.family.help.strip().lower()
        if len(text.split()) < _FEW_WORDS:
            continue
        other = known.setdefault(text, family)
        alike = family.name.split("_")[-_ALIKE_WORDS:] == other.name.split("_")[-_ALIKE_WORDS:]
        if other is not family and not alike and not family.name.startswith(other.name):
            says = f"its help text is that of {other.name}, word for word"
            yield _problem(family, "help", says, "say what this one counts or measures")


def _label_in_name(family: Served) -> Iterator[Problem]:
    promised = _SPLIT_BY.search(family.name)
    if promised is not None and not family.labels() and family.series:
        says = f"its name says by {promised[1]}, and it has no label"
        fix = f"give it the label {promised[1]}, or name it {family.name.replace(promised[0], '', 1)}"
        yield _problem(family, "label-in-name", says, fix)
    for label, values in family.own_labels().items():
        per = family.family.type != "gauge" and _has_word(family.name, f"per_{label}")  # of a gauge it is a ratio
        if per or _has_word(family.name, f"by_{label}"):
            name = _without_labels(family.name, family.own_labels())
            yield Problem(
                family=family.name,
                rule="label-in-name",
                says=f"its name says by {label}, and sum() over {label} says that no more",
                series=written(next(iter(values.values()))),
                fix=f"name it {name}",
            )


def _counter_total(family: Served) -> Iterator[Problem]:
    name, kind = family.name, family.family.type
    if kind == "counter" and not name.endswith("_total") and not _is_info_of_another_type(family):
        better = _as_counter(re.sub(r"_total(?=_)", "", name))
        yield _problem(family, "counter-total", "a counter's name ends in _total", f"name it {better}")
    if kind not in ("counter", "unknown") and name.endswith("_total"):
        fix = f"name it {name.removesuffix('_total')}, or make it a counter"
        yield _problem(family, "counter-total", f"only a counter's name ends in _total, and this is a {kind}", fix)


def _reserved_suffix(family: Served) -> Iterator[Problem]:
    kind = family.family.type
    if kind == "unknown":
        return
    for suffix, types in _SUFFIXES.items():
        if family.name.endswith(suffix) and kind not in types:
            says = f"{suffix} is what series of a {types[0]} end in, and this is a {kind}"
            name = _as_counter(family.name) if kind == "counter" else _without_suffix(family.name, suffix)
            yield _problem(family, "reserved-suffix", says, f"name it {name}")
    if family.name.endswith("_created"):
        says = "in OpenMetrics _created is the end of the time at which a series began"
        fix = f"name it {family.name.removesuffix('_created')}_creation_timestamp_seconds"
        yield msgspec.structs.replace(_problem(family, "reserved-suffix", says, fix), hint=True)
    labels = {label: series for series in family.series for label in series.labels}
    for label, types in _LABELS.items():
        if label in labels and kind not in types:
            says = f"the label {label} is a {types[0]}'s, and this is a {kind}"
            yield Problem(
                family=family.name,
                rule="reserved-suffix",
                says=says,
                series=written(labels[label]),
                fix=f"give the label {label} another name, or make the family a {types[0]}",
            )


def _type_in_name(family: Served) -> Iterator[Problem]:
    for word in _TYPE_WORDS:
        if _has_word(family.name, word):
            fix = f"name it {_without_word(family.name, word)}: its type is in # TYPE"
            yield _problem(family, "type-in-name", f"its name says {word}", fix)
    for word in _NUMBERS:
        if _has_word(family.name, word):
            fix = f"name it {_without_word(family.name, word)}, after what it counts, in the plural"
            yield _problem(family, "type-in-name", f"its name says {word}, and every value is a number", fix)


def _reserved_character(family: Served) -> Iterator[Problem]:
    name = family.name
    if ":" in name:
        fix = f"name it {name.replace(':', '_')}"
        yield _problem(family, "reserved-character", "colons are for the names of recording rules", fix)
    elif not CLASSIC_NAME.fullmatch(name):
        fix = f"name it {_UNCLASSIC.sub('_', name)}"
        yield _problem(family, "reserved-character", "every query has to put this name in quotes", fix)


def _camel_case(family: Served) -> Iterator[Problem]:
    if _CAMEL.search(family.name) or (family.name.isupper() and "_" in family.name):
        fix = f"name it {_snake(family.name)}"
        yield _problem(family, "camel-case", "its name is written in camelCase", fix)
    labels = {label: series for series in family.series for label in series.labels}
    for label in sorted(labels):
        if _CAMEL.search(label) or label[:1].isupper():
            yield Problem(
                family=family.name,
                rule="camel-case",
                says=f"its label {label} is written {'in camelCase' if _CAMEL.search(label) else 'with a capital'}",
                hint=_CAMEL.search(label) is None,
                series=written(labels[label]),
                fix=f"name the label {_snake(label)}",
            )


def _singular_unit(family: Served) -> Iterator[Problem]:
    if (one := _SINGULAR.search(family.name)) is not None:
        name = f"{family.name[: one.end(1)]}s{family.name[one.end(1) :]}"
        yield _problem(family, "unit", f"its unit {one[1]} is in the singular", f"name it {name}")


def _unit_abbreviation(family: Served) -> Iterator[Problem]:
    for word, base in {**ABBREVIATIONS, **OF_TEMPERATURES}.items():
        # Amid a name it is short for namespace.
        if _has_word(family.name, word) and (word != "ns" or re.search(r"_ns(?:_total)?$", family.name)):
            fix = f"expose {base}, as {_replaced_word(family.name, word, base)}"
            yield _problem(family, "unit-abbreviation", f"its name has the abbreviated unit {word}", fix)


_RULES: tuple[Callable[[Served], Iterator[Problem]], ...] = (
    _help,
    _kind,
    _unit,
    _counter_total,
    _reserved_suffix,
    _type_in_name,
    _reserved_character,
    _camel_case,
    _singular_unit,
    _unit_abbreviation,
    _derived,
    _words_as_numbers,
    _empty_words,
    _prefix,
    _label_in_name,
)


def _duplicate(family: Served, names: Collection[str]) -> Iterator[Problem]:
    """Yield a counter whose name in OpenMetrics, where it has no suffix, is that of another family."""
    stem = family.name.removesuffix("_total")
    if family.family.type == "counter" and stem != family.name and stem in names:
        says = f"in OpenMetrics it goes by the name {stem}, which another family has"
        yield _problem(family, "duplicate", says, "give one of the two another name")


def _problem(family: Served, rule: Rule, says: str, fix: str) -> Problem:
    return Problem(family=family.name, rule=rule, says=says, fix=fix)


_TOTALS = re.compile(r"(?:_total)+$")


def _with_unit_last(name: str, word: str) -> str:
    stem = name.replace(f"_{word}", "", 1)
    return f"{stem.removesuffix('_total')}_{word}{'_total' * stem.endswith('_total')}"


def _without_labels(name: str, labels: Collection[str]) -> str:
    """Return a name without the words by which it is split, where they are its labels: ``_by_view_method``."""
    words = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))
    return _TOTALS.sub("_total", re.sub(rf"_(?:by|per)(?:_(?:{words}))+(?=_|$)", "", name)) if words else name


def _is_derived(family: Served) -> bool:
    return family.family.type in ("gauge", "unknown") and _DERIVED.search(family.name) is not None


def _is_info_of_another_type(family: Served) -> bool:
    return family.name.endswith("_info") and family.family.type in ("counter", "histogram", "summary")


def _is_amid(word: str, name: str) -> bool:
    """Return whether a unit stands amid a name, and not beside what it is measured by (``_bytes_per_second``)."""
    rest = name.removesuffix("_total").partition(f"_{word}")[2]
    return bool(rest) and not _BESIDE_UNIT.match(rest) and unit_in(rest[1:]) is None


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
    name = name.removesuffix("_total")
    suffix = next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), "")
    return f"{_without_suffix(name, suffix)}_total"


def _plural(word: str) -> str:
    return word if word.endswith("s") else f"{word}es" if word.endswith(("x", "ch", "sh")) else f"{word}s"


def _snake(name: str) -> str:
    return _CAMEL.sub("_", name).lower()
