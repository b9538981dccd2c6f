"""Names of functions, split into words, and the functions that a program's source defines.

``ensureFinalizer``, ``ensure_finalizer`` and ``(*R).EnsureFinalizer`` are one name. A name of one word proves nothing,
since words such as ``get`` or ``error`` are names of functions and of much else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PLAIN = re.compile(r"_*[A-Za-z][A-Za-z0-9]*(?:_+[A-Za-z0-9]+)*_*")
_METHOD = re.compile(r"[\w./-]*\(\*?\w+\)\.(\w+)(?:\.func\d+)*(?:\(\))?")
_FUNCTION = re.compile(r"(?:[\w-]+/)*[a-z]\w*\.([A-Z]\w*)(?:\.func\d+)*")
_OF_CLASS = re.compile(r"_*[A-Z]\w*\.([a-z_]\w*)")
_CALL = re.compile(r"([A-Za-z_][\w.:]*)\(\)")

VERBS = frozenset(
    (
        *("add", "apply", "build", "calculate", "check", "cleanup", "collect", "compute", "configure", "create"),
        *("delete", "detect", "determine", "do", "enqueue", "ensure", "evaluate", "execute", "fetch", "fill"),
        *("filter", "find", "generate", "get", "handle", "init", "initialize", "is", "list", "load", "lookup"),
        *("maybe", "merge", "observe", "parse", "patch", "populate", "prepare", "process", "prune", "read"),
        *("reconcile", "record", "refresh", "release", "remove", "render", "reset", "resolve", "run", "save"),
        *("schedule", "select", "send", "set", "setup", "start", "stop", "submit", "sync", "teardown", "trigger"),
        *("try", "update", "upsert", "validate", "verify", "wait", "watch", "write"),
    )
)
"""First words of functions that do something."""

_DEFINITIONS = {
    ".py": re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+([A-Za-z_]\w*)[ \t]*[\[(]", re.MULTILINE),
    ".go": re.compile(r"^func[ \t]+(?:\([^)\n]*\)[ \t]*)?([A-Za-z_]\w*)[ \t]*[\[(]", re.MULTILINE),
}
"""Suffix → a definition of a function or method, at the start of a line as formatters of both languages put it."""

SKIPPED = frozenset({".git", ".venv", "venv", "node_modules", "vendor", "site-packages", "__pycache__", "testdata"})
"""Folders with the source of other programs, or none."""

MAX_BYTES = 4 << 20
"""Of a file; larger ones are generated."""


def words(name: str) -> tuple[str, ...]:
    """Return a name's words in lower case: ``("ensure", "finalizer")``; none for what is no identifier."""
    return tuple(word.lower() for word in _WORDS.findall(name)) if _PLAIN.fullmatch(name) else ()


def qualified(value: str) -> str:
    """Return the function that is named with its package, receiver or brackets, which only code does; else empty."""
    match = _METHOD.fullmatch(value) or _CALL.fullmatch(value)
    if match is not None:
        return match[1]
    match = _FUNCTION.fullmatch(value) or _OF_CLASS.fullmatch(value)
    # Kinds are written so too: v1.Pod, Deployment.apps.
    return match[1] if match is not None and does_something(words(match[1])) else ""


def bare(function: str) -> str:
    """Return a function's own name, of one as a profile has it: ``pkg.(*Type).Method.func1``, ``f (module.py)``."""
    name = function.split(" (", 1)[0]
    parts = [part for part in name.replace("[...]", "").split(".") if not re.fullmatch(r"func\d+|\d+|<\w+>", part)]
    return parts[-1].strip("()*") if parts else ""


def names_one(value: str) -> bool:
    """Return whether a value may be a function's name at all, plain or with what it belongs to: ``Class.method``."""
    return bool(words(bare(value))) and not any(character.isspace() for character in value)


def does_something(name: tuple[str, ...]) -> bool:
    """Return whether a name of several words begins with a verb, as functions' do."""
    return len(name) > 1 and name[0] in VERBS


def functions_in(folder: Path) -> dict[tuple[str, ...], str]:
    """Return functions' names in words → ``file:line`` of the first definition. Raises OSError."""
    places: dict[tuple[str, ...], str] = {}
    for path in sorted(_files(folder)):
        text = path.read_text(encoding="utf-8", errors="replace")
        for match in _DEFINITIONS[path.suffix].finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            places.setdefault(words(match[1]), f"{path.relative_to(folder)}:{line}")
    return places


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink() and path.name not in SKIPPED:
            yield from _files(path)
        elif path.suffix in _DEFINITIONS and path.is_file() and path.stat().st_size <= MAX_BYTES:
            yield path
