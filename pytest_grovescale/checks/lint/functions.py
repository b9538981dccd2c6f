"""Label values that are names of functions: they change with the code, and nobody but its authors knows them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from ...exposition.series import Series
from .identifiers import bare, does_something, names_one, qualified, words
from .problem import Problem
from .served import Served, written

SPEAKING = frozenset({"function", "func", "fn", "function_name", "func_name", "caller", "callee", "callsite"})
"""Labels whose own name says it."""

LEAST = 2
"""So many values of a label must look like functions: one may be a coincidence."""

MOST = 1_000
"""Values of a label; no program has a metric for each of more functions."""

How = Literal["known", "written", "looks"]
"""``known``: code has functions of these names; ``written``: only code writes names so (``pkg.(*T).Method``), or the
label says it; ``looks``: they begin with a verb, as functions do."""


class FunctionLabel(NamedTuple):
    """A label of one family whose values are names of functions."""

    family: str
    label: str
    values: tuple[str, ...]
    """Those of its values that are."""
    how: How
    series: str

    @property
    def certain(self) -> bool:
        return self.how != "looks"


def function_labels(families: Iterable[Served], known: Collection[tuple[str, ...]] = ()) -> Iterator[FunctionLabel]:
    """Yield labels at least half of whose values are names of functions; ``known`` are functions' names in words."""
    for served in families:
        for label, values in sorted(served.own_labels().items()):
            found = _found(label, values, known) if len(values) <= MOST else None
            if found is not None:
                how, names = found
                yield FunctionLabel(served.name, label, names, how, written(values[names[0]]))


def problems(families: Iterable[Served]) -> Iterator[Problem]:
    """Yield the labels whose values are or look like functions' names, where there is no code to look them up in."""
    for found in function_labels(families):
        yield Problem(
            family=found.family,
            rule="function-name",
            says=in_words(found),
            series=found.series,
            fix=fix(found),
        )


def in_words(found: FunctionLabel) -> str:
    """Return what a label's values are, with the first of them."""
    some = ", ".join(found.values[:3]) + (", …" if len(found.values) > 3 else "")
    verb = "look like" if found.how == "looks" else "are"
    return f"values of {found.label} {verb} names of functions ({some})"


def fix(found: FunctionLabel) -> str:
    """Return what to do instead."""
    return (
        f"take the label {found.label} away: which function takes the time is for a profile or a trace to say, and"
        " its name changes with the code"
    )


def _found(
    label: str, values: Mapping[str, Series], known: Collection[tuple[str, ...]]
) -> tuple[How, tuple[str, ...]] | None:
    speaking = label.lower() in SPEAKING
    tries: tuple[tuple[How, Iterable[str]], ...] = (
        ("written", (value for value in values if qualified(value) or (speaking and names_one(value)))),
        ("known", (value for value in values if len(name := words(bare(value))) > 1 and name in known)),
        ("looks", (value for value in values if does_something(words(bare(value))))),
    )
    for how, names in tries:
        found = tuple(names)
        if len(found) >= max(1 if speaking else LEAST, len(values) / 2):
            return how, found
    return None
