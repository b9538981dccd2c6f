"""``budgets.yaml``: bounds beside the tests, to be reviewed and changed without touching code.

    tests:
      test_thousand_pods:
        - noop_writes: {max: 0}
        - cpu: {phase: deploy, max: 4s}
      "test_*":
        - hot_loop

It holds for the tests of its own folder. A key is a test's name, with or without its parameters or its file
(``test_a[big]``, ``test_scale.py::test_a``), or a pattern with ``*`` and ``?``; all keys that fit a test hold for it.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import re
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..definitions import Mistakes, load, where
from ..errors import DefinitionError, UsageError
from .arguments import unknown
from .bundle import BUNDLES, AnyBundle
from .check import Check
from .shape import AnyCheck

FILE = "budgets.yaml"

_KINDS: dict[str, type[AnyCheck]] = {kind.__struct_config__.tag: kind for kind in typing.get_args(AnyCheck)}
_DEFINED = re.compile(r"^\s*(?:async\s+)?def\s+(\w+)", re.MULTILINE)
_PATTERN = re.compile(r"[*?]")

Arguments = dict[str, Any]


class Declared(NamedTuple):
    """A check that a test is held to, and who asks for it: ``tests/scale/budgets.yaml:4``, ``marker``."""

    check: AnyCheck
    source: str


class _File(msgspec.Struct, forbid_unknown_fields=True):
    tests: dict[str, list[str | dict[str, Any]]]


def read(path: Path, root: Path) -> dict[str, list[Declared]]:
    """Return key → checks of a budgets file; sources are relative to ``root``.

    Raises DefinitionError with ``file:line``, of all mistakes at once: for an unknown check or argument, a bad value,
    and a plain name that no test beside the file has: its bounds would hold for nothing.
    """
    content = load(path, _File)
    mistakes = Mistakes()
    defined = {name for file in path.parent.glob("*.py") for name in _DEFINED.findall(file.read_text("utf-8"))}
    found: dict[str, list[Declared]] = {}
    for key, entries in content.tests.items():
        name = re.sub(r"\[.*\]$", "", key.rpartition("::")[2])
        if not _PATTERN.search(key) and name not in defined:
            what = unknown("test", name, sorted(n for n in defined if n.startswith("test")))
            mistakes.errors.append(_wrong(path, ("tests", key), what))
        found[key] = []
        for index, entry in enumerate(entries):
            place = ("tests", key, index)
            with mistakes.noted():
                found[key] += [Declared(check, _source(path, place, root)) for check in _checks(path, place, entry)]
    mistakes.demand_none()
    return found


def fitting(budgets: dict[str, list[Declared]], names: Sequence[str]) -> list[Declared]:
    """Return the checks for a test of these names, in the order of the file."""
    return [
        declared
        for key, entries in budgets.items()
        if any(name == key or fnmatch.fnmatchcase(name, key) for name in names)
        for declared in entries
    ]


def marked(arguments: Sequence[object]) -> list[Declared]:
    """Return the checks in a marker's arguments. Raises UsageError for anything else."""
    for argument in arguments:
        if not isinstance(argument, Check):
            raise UsageError(f"{argument!r} is not a check", next_step=f"There are: {', '.join(_KINDS)}.")
    checks = (
        check for argument in arguments for check in (argument if isinstance(argument, AnyBundle) else [argument])
    )
    return [Declared(typing.cast(AnyCheck, check), "marker") for check in checks]


def _checks(path: Path, place: tuple[str | int, ...], entry: str | dict[str, Any]) -> Iterator[AnyCheck]:
    named: dict[str, Any] = {entry: None} if isinstance(entry, str) else entry
    for name, arguments in named.items():
        kind = _KINDS.get(name) or BUNDLES.get(name)
        if kind is None:
            raise _wrong(path, (*place, name), unknown("check", name, [*_KINDS, *BUNDLES]))
        if arguments is not None and not isinstance(arguments, dict):
            raise _wrong(path, (*place, name), f"takes arguments by name{_by_name(kind, arguments)}")
        found = _check(path, (*place, name), kind, arguments or {})
        yield from found if isinstance(found, AnyBundle) else [found]


def _by_name(kind: type[AnyCheck | AnyBundle], argument: object) -> str:
    """Return how a bare argument is written: by the first name that it can be meant for, if any."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    required = [name for name, field in fields.items() if field.required]
    for name in dict.fromkeys([*kind.positional, *required, *fields]):
        with contextlib.suppress(msgspec.ValidationError):
            msgspec.convert(argument, fields[name].type)
            return f", as {{{name}: {json.dumps(argument, ensure_ascii=False, default=str)}}}"
    return ""


def _check(
    path: Path, place: tuple[str | int, ...], kind: type[AnyCheck | AnyBundle], arguments: Arguments
) -> AnyCheck | AnyBundle:
    fields = msgspec.structs.fields(kind)
    for name in arguments:
        if name not in {field.name for field in fields}:
            raise _wrong(path, (*place, name), unknown("argument", name, (field.name for field in fields)))
    lacking = [field.name for field in fields if field.required and field.name not in arguments]
    if lacking:
        raise _wrong(path, place, f"needs {', '.join(lacking)}")
    try:
        return kind(**arguments)
    except UsageError as error:
        raise _wrong(path, place, error.message, error.next_step) from None


def _wrong(path: Path, place: tuple[str | int, ...], what: str, next_step: str = "") -> DefinitionError:
    return DefinitionError(f"{where(path, place)}: {what}", next_step=next_step)


def _source(path: Path, place: tuple[str | int, ...], root: Path) -> str:
    line = where(path, place).removeprefix(f"{path}:").partition(":")[0]
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
    return f"{shown}:{line}"
