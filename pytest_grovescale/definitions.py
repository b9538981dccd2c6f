"""Definition files: YAML into typed structs, with ``file:line: path: what is wrong`` for everything that is.

The shape is the struct's; what a shape cannot say is checked by the room that the definition belongs to, which asks
``where`` for the place to name.
"""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from .errors import DefinitionError

T = TypeVar("T")
Keys = Sequence[str | int]
"""A place in a file: ``("readiness", "url")``, ``("command", 3)``."""

_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[(\.\.\.)\]")
_FIELD = re.compile(r"field `([^`]+)`")
_GOT = re.compile(r"got `(\w+)`")
_YAML_TYPE = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "null": "null",
    "object": "map",
    "array": "seq",
}
_ANY_KEY = "*"


def load(path: Path, type: type[T]) -> T:
    """Return the content of a YAML file as ``type``, a msgspec struct.

    Raises DefinitionError with ``file:line: path: …``: for a file that cannot be read, is no YAML, lacks a field, has
    an unknown one (with near names), a value of the wrong type, or a key that is given twice.
    """
    node = _compose(path)
    if node is None:
        raise DefinitionError(f"{path}:1: is empty", next_step=f"It needs {_fields_text(type)}.")
    _refuse_duplicates(path, node, ())
    content = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    try:
        return msgspec.convert(content, type)
    except msgspec.ValidationError as error:
        raise _located(path, node, str(error), type) from None


def where(path: Path, keys: Keys) -> str:
    """Return ``file:line: path.to.value`` for a place in a file; the nearest place above it that is written there."""
    return f"{path}:{_line(_compose(path), keys)}: {dotted(keys)}"


def dotted(keys: Keys) -> str:
    """Return ``command[3].arguments[0]`` for a place."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")


def _compose(path: Path) -> yaml.Node | None:
    try:
        text = path.read_text(encoding="utf-8")
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.CSafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"{path}:1: cannot be read: {error}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise DefinitionError(
            f"{path}:{mark.line + 1 if mark else 1}: not YAML: {error.problem or error.context}",
            next_step="Quote texts that hold ': ', ' #', '{' or start with '*', '&', '@', '%'.",
        ) from error
    except yaml.YAMLError as error:
        raise DefinitionError(f"{path}:1: not YAML: {error}") from error
    return node


def _refuse_duplicates(path: Path, node: yaml.Node, keys: tuple[str | int, ...]) -> None:
    if isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            _refuse_duplicates(path, child, (*keys, index))
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, child in node.value:
            place = (*keys, str(key.value))
            if key.value in seen:
                raise DefinitionError(f"{path}:{key.start_mark.line + 1}: {dotted(place)}: is there twice")
            seen.add(key.value)
            _refuse_duplicates(path, child, place)


def _located(path: Path, node: yaml.Node, message: str, type: Any) -> DefinitionError:
    """Return a msgspec message as an error with line, place, and near names for an unknown field."""
    match = _AT.match(message)
    what, raw = (match["what"], match["path"] or "") if match else (message, "")
    keys = _known_keys(node, _steps(raw), what)
    field = _FIELD.search(what)
    if field and "unknown" in what:
        place = (*keys, field[1])
        return DefinitionError(
            f"{path}:{_line(node, place)}: {dotted(place)}: unknown field", next_step=_near(field[1], type, keys)
        )
    if field and "missing" in what:
        return DefinitionError(
            f"{path}:{_line(node, keys)}: {dotted((*keys, field[1]))}: missing",
            next_step=f"Needed here: {_fields_text(*_structs_at(type, keys))}.",
        )
    text = what[:1].lower() + what[1:].replace("`", "")
    return DefinitionError(f"{path}:{_line(node, keys)}: {dotted(keys) or 'the file'}: {text}")


def _steps(path: str) -> list[str | int]:
    return [name or (int(index) if index else _ANY_KEY) for name, index, _ in _STEP.findall(path)]


def _known_keys(node: yaml.Node | None, keys: Keys, what: str) -> tuple[str | int, ...]:
    """Return the place with each unnamed mapping key (msgspec says ``[...]``) found by the type complained of."""
    got = _GOT.search(what)
    tag = f"tag:yaml.org,2002:{_YAML_TYPE.get(got[1], got[1])}" if got else ""
    found: list[str | int] = []
    for position, key in enumerate(keys):
        if key == _ANY_KEY and isinstance(node, yaml.MappingNode):
            rest = keys[position + 1 :]
            names = [str(k.value) for k, child in node.value if _tag_at(child, rest) == tag]
            if not names:
                break
            key = names[0]
        found.append(key)
        node = _child(node, key)
    return tuple(found)


def _tag_at(node: yaml.Node | None, keys: Keys) -> str:
    for key in keys:
        node = _child(node, key)
    return str(node.tag) if node is not None else ""


def _child(node: yaml.Node | None, key: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((child for k, child in node.value if k.value == key), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        found: yaml.Node = node.value[key]
        return found
    return None


def _line(node: yaml.Node | None, keys: Keys) -> int:
    """Return the line (from 1) of the key at a place, or of the nearest one above that exists."""
    line = 1
    for key in keys:
        if isinstance(node, yaml.MappingNode):
            pair = next(((k, child) for k, child in node.value if k.value == key), None)
            if pair is None:
                return line
            line, node = pair[0].start_mark.line + 1, pair[1]
        else:
            node = _child(node, key)
            if node is None:
                return line
            line = node.start_mark.line + 1
    return line


def _near(name: str, type: Any, keys: Keys) -> str:
    names = [field.encode_name for struct in _structs_at(type, keys) for field in msgspec.structs.fields(struct)]
    near = difflib.get_close_matches(name, names, n=2)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    return f"{hint}Possible here: {', '.join(names)}."


def _fields_text(*structs: Any) -> str:
    fields = [field for struct in structs if _is_struct(struct) for field in msgspec.structs.fields(struct)]
    return ", ".join(field.encode_name for field in fields if field.required)


def _structs_at(type: Any, keys: Keys) -> list[Any]:
    """Return the structs that may stand at a place, following fields, lists, mappings and unions."""
    found = _alternatives(type)
    for key in keys:
        found = [inner for candidate in found for inner in _alternatives(_inner(candidate, key))]
    return [candidate for candidate in found if _is_struct(candidate)]


def _inner(type: Any, key: str | int) -> Any:
    if _is_struct(type):
        return next((f.type for f in msgspec.structs.fields(type) if f.encode_name == key), None)
    arguments = typing.get_args(type)
    origin = typing.get_origin(type)
    if origin is dict:
        return arguments[1]
    return arguments[0] if origin in (list, tuple) and arguments else None


def _alternatives(type: Any) -> list[Any]:
    if typing.get_origin(type) in (typing.Union, types.UnionType):
        return [inner for argument in typing.get_args(type) for inner in _alternatives(argument)]
    return [type]


def _is_struct(candidate: Any) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, msgspec.Struct)
