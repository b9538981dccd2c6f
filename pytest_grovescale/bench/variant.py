"""The subject of a comparison: an operator definition with values, of a revision where it comes from git."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from .. import redaction
from ..errors import UsageError
from ..operator.definition import load


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One operator under test."""

    label: str
    """Name in the tables, which distinguishes it from the others."""
    operator: str
    """Absolute path of the definition file; within the revision, relative to the repository's top folder."""
    values: dict[str, str] = {}
    """``--grovescale-set``."""
    parameters: dict[str, str] = {}
    """``--grovescale-param``."""
    revision: str = ""
    """Commit to build it from; empty: the working tree as it is."""
    build: str = ""
    """Shell command that builds it, run in the revision's top folder."""


class Pairing(msgspec.Struct, frozen=True, kw_only=True):
    """Two variants, and how they differ."""

    a: Variant
    b: Variant
    differs: str
    """``variant: baseline, optimized``; empty for a variant against itself."""


def of_definitions(
    a: str, b: str, *, values: Mapping[str, str], other: Mapping[str, str], parameters: Mapping[str, str]
) -> Pairing:
    """Return the pair of two definitions (files or names; ``b`` empty: the same), or of one with two sets of values.

    ``values`` apply to A, and to B where ``other`` does not override them. Reads both definitions: raises
    DefinitionError and UsageError as they do.
    """
    first, second = load(a, values=values), load(b or a, values={**values, **other})
    changed = [name for name in first.values if first.values[name] != second.values.get(name)]
    if first.source != second.source:
        labels = _names(Path(first.source), Path(second.source))
        differs = f"definition: {', '.join(labels)}"
    elif changed:
        ours, theirs = redaction.parameters(first.values), redaction.parameters(second.values)
        labels = (_text(ours, changed), _text(theirs, changed))
        differs = "; ".join(f"{name}: {ours[name]}, {theirs[name]}" for name in changed)
    else:
        labels, differs = (first.name, f"{first.name} again"), ""
    sides = [
        Variant(label=label, operator=found.source, values=dict(chosen), parameters=dict(parameters))
        for label, found, chosen in zip(labels, (first, second), (values, {**values, **other}), strict=True)
    ]
    return Pairing(a=sides[0], b=sides[1], differs=differs)


def of_revisions(
    top: Path,
    definition: str,
    commits: Sequence[tuple[str, str]],
    *,
    build: str,
    values: Mapping[str, str],
    parameters: Mapping[str, str],
) -> Pairing:
    """Return the pair of two revisions, (name, commit) each, of an operator whose definition is in the repository.

    ``definition`` is a path from the working directory; each revision has its own version of the file. Reads the
    working tree's now, so that a wrong value is found before anything is built.
    """
    found = load(definition, values=values)
    try:
        inside = Path(found.source).relative_to(top.resolve())
    except ValueError:
        raise UsageError(
            f"{found.source} is not in the repository {top}",
            next_step="Revisions differ in nothing where the definition and the operator are elsewhere.",
        ) from None
    names = [name for name, _ in commits]
    if names[0] == names[1]:
        names[1] = f"{names[1]} again"
    sides = [
        Variant(
            label=name,
            operator=str(inside),
            values=dict(values),
            parameters=dict(parameters),
            revision=commit,
            build=build,
        )
        for name, (_, commit) in zip(names, commits, strict=True)
    ]
    same = commits[0][1] == commits[1][1]
    differs = "" if same else "revision: " + ", ".join(f"{name} ({commit[:12]})" for name, commit in commits)
    return Pairing(a=sides[0], b=sides[1], differs=differs)


def pairs_of(option: str, given: Sequence[str]) -> dict[str, str]:
    """Return NAME=VALUE arguments as a mapping. Raises UsageError for any other form."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            shown = redaction.arguments([option, text])[1]
            raise UsageError(f"{option} {shown}: not NAME=VALUE", next_step=f"Write it as {option} variant=baseline.")
        found[name.strip()] = value.strip()
    redaction.conceal(*redaction.secrets_in(found))
    return found


def _names(first: Path, second: Path) -> tuple[str, str]:
    """Return the shortest distinct ends of two different paths: ``old/mine`` and ``new/mine``."""
    ways = (first.parts, second.parts)
    length = next(n for n in itertools.count(1) if ways[0][-n:] != ways[1][-n:])
    return str(Path(*ways[0][-length:]).with_suffix("")), str(Path(*ways[1][-length:]).with_suffix(""))


def _text(values: Mapping[str, str], names: Sequence[str]) -> str:
    if len(names) == 1:
        return values[names[0]] or f"no {names[0]}"
    return ", ".join(f"{name}={values[name]}" for name in names)
