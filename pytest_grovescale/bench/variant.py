"""The variants of a comparison: definitions with values, or git revisions checked out and built."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from .. import log_files, redaction
from ..errors import GrovescaleError, UsageError
from ..operator.definition import load

_TAIL_LINES = 25

Say = Callable[[str], None]


_ID = 12
"""Characters of a commit's id that are shown."""


class BuildError(GrovescaleError):
    """A revision could not be checked out or built."""


def repository() -> Path:
    """Return the top folder of the git repository that contains the working directory."""
    return Path(_git(Path.cwd(), "rev-parse", "--show-toplevel"))


def commit(top: Path, revision: str) -> str:
    """Return the id of the commit that a revision (branch, tag, id) currently names."""
    return _git(top, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")


def is_dirty(top: Path) -> bool:
    """Return whether tracked files differ from the commit that is checked out."""
    return bool(_git(top, "status", "--porcelain", "--untracked-files=no"))


class Revision(NamedTuple):
    """One commit of a range."""

    commit: str
    subject: str
    """First line of its message."""


def between(top: Path, good: str, bad: str) -> list[Revision]:
    """Return the commits after ``good`` up to ``bad``, the oldest first; of merges, only the merge itself.

    Raises UsageError where ``good`` is not an ancestor of ``bad``.
    """
    said = _git(top, "log", "--reverse", "--first-parent", "--format=%H %s", f"{good}..{bad}", "--")
    found = [Revision(*line.partition(" ")[::2]) for line in said.splitlines()]
    # The first parents of bad must lead to good: else the range has a part of good's own history.
    before = _git(top, "rev-list", "--max-count=1", "--first-parent", f"{found[0].commit}~1", "--") if found else good
    if not found or before != good:
        raise UsageError(
            f"{good[:12]} is no ancestor of {bad[:12]} along its first parents",
            next_step="Name the older commit first, and one on the same branch.",
        )
    return found


@contextlib.contextmanager
def built(top: Path, revision: str, command: str, folder: Path, *, say: Say) -> Iterator[Path]:
    """Check a commit out into ``folder``, build it there by a shell command, and remove it afterwards.

    Replaces a checkout left by a killed comparison. Raises BuildError with the build's last lines.
    """
    remove(top, folder)
    say(f"{revision[:_ID]}: checked out to {folder}")
    _git(top, "worktree", "add", "--detach", "--force", str(folder), revision)
    try:
        if command:
            say(f"{revision[:_ID]}: {command}")
            _build(command, folder, revision)
        yield folder
    finally:
        remove(top, folder)


def remove(top: Path, folder: Path) -> None:
    """Remove a checkout, complete or not."""
    if folder.exists():
        shutil.rmtree(folder)
    _git(top, "worktree", "prune")


def _build(command: str, folder: Path, revision: str) -> None:
    log = folder.with_name(f"{folder.name}-build.log")
    log.unlink(missing_ok=True)
    with log_files.appending(log) as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        try:
            code = process.wait()
        except BaseException:
            # Ctrl-C, or our own end: no process of the build may remain.
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise
    if code:
        lines = log_files.last_lines(log, _TAIL_LINES)
        said = "".join(f"\n  {line}" for line in lines)
        raise BuildError(
            f"{revision[:_ID]}: `{command}` ended with code {code}; its last lines:{said}",
            next_step=f"Its whole output: {log}.",
        )


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise UsageError(
            f"git {' '.join(arguments[:2])}: {said[-1] if said else f'ended with code {done.returncode}'}",
            next_step="Run it within the operator's repository, with revisions that it has.",
        )
    return done.stdout.strip()


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
    # CI names the base by its whole id, which is wider than a table of a pull request's comment.
    names = [commit[:_ID] if name == commit else name for name, commit in commits]
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
    ids = [
        f"{name} ({commit[:_ID]})" if name != commit[:_ID] else name
        for name, (_, commit) in zip(names, commits, strict=True)
    ]
    differs = "" if same else f"revision: {', '.join(ids)}"
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
