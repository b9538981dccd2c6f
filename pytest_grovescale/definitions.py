"""Definition files: YAML into typed structs, with errors as ``file:line: path: message``.

The struct is the schema; further rules are checked by the package that the definition belongs to, which uses ``where``
for the place in its message. A file may extend another (``extends: default``): the two are merged as YAML nodes, which
know the file and line that they come from.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import re
import types
import typing
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import yaml

from . import resources
from .errors import DefinitionError, DefinitionErrors
from .suggestions import near_names, with_all
from .yaml_errors import readable

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
_EXTENDS = "extends"
_NULL, _MERGE = "tag:yaml.org,2002:null", "tag:yaml.org,2002:merge"


class Source(NamedTuple):
    """The text of a definition: a file, merged with those that it extends. Each value knows its file and line."""

    file: Path
    node: yaml.Node | None
    """None: the file is empty."""

    def place(self, keys: Keys) -> tuple[Path, int]:
        """Return file and line (from 1) of the key at a place, or of its nearest existing parent."""
        mark = _mark_at(self.node, keys)
        return (self.file, 1) if mark is None else (Path(mark.name), mark.line + 1)

    def folder(self, keys: Keys) -> Path:
        """Return the folder of the file in which the value at a place is written: its relative paths start there."""
        return self.place(keys)[0].parent

    def where(self, keys: Keys) -> str:
        """Return ``file:line: path.to.value`` for a place; for a missing one, its nearest existing parent."""
        file, line = self.place(keys)
        return f"{file}:{line}: {dotted(keys) or 'the file'}"

    def mistake(self, keys: Keys, text: str, next_step: str = "") -> DefinitionError:
        """Return the error for a place."""
        file, _ = self.place(keys)
        if file != self.file:
            next_step += f" {self.file.name} extends that file: it may give another value, or `null` for none."
        return DefinitionError(f"{self.where(keys)}: {text}", next_step=next_step.lstrip())

    def convert(self, type: type[T]) -> T:
        """Return the content as ``type``. Raises as ``load``."""
        node, path = self.node, self.file
        if node is None:
            raise DefinitionError(f"{path}:1: is empty", next_step=f"It needs {_fields_text(type)}.")
        with readable(path):
            content = yaml.constructor.SafeConstructor().construct_document(node)
            # A list that contains itself can be parsed, but not processed.
            msgspec.to_builtins(content, builtin_types=(datetime.date, datetime.datetime))
        mistakes = Mistakes()
        left_out: list[tuple[str | int, ...]] = []
        while True:
            try:
                found = msgspec.convert(content, type)
            except msgspec.ValidationError as error:
                wrong, place = _located(self, str(error), type)
            else:
                break
            if node_at(node, place) is not None or not _follows(place, left_out):
                mistakes.errors.append(wrong)
            # msgspec stops at the first mistake: without that part it finds the next.
            there = place if node_at(node, place) is not None else place[:-1]
            while there and isinstance(there[-1], int):
                # Removing one item would shift the others' indices.
                there = there[:-1]
            if not there or not _leave_out(content, node, there):
                break
            left_out.append(there)
        mistakes.demand_none()
        return found


def load(path: Path, type: type[T]) -> T:
    """Return the content of a YAML file as ``type``, a msgspec struct.

    Raises DefinitionError with ``file:line: path: …``: for a file that cannot be read, is not YAML, lacks a field, has
    an unknown one (with near names), a value of the wrong type, or a duplicate key. Several of these are one error with
    ``parts``.
    """
    return read(path).convert(type)


def read(path: Path, *, kind: str = "", own: Collection[str] = (), chain: Sequence[Path] = ()) -> Source:
    """Return the text of a definition.

    ``kind``: the folder of the files that its field ``extends`` may name (`resources.find`); empty: the field has no
    meaning. A file is merged over the one that it extends as a JSON Merge Patch (RFC 7396) is: mappings field by field,
    ``null`` removes a field, any other value replaces the whole. ``own``: top-level fields that are not inherited.
    ``chain``: the files that extend this one, outermost first.

    Raises DefinitionError for a file that cannot be read or is not YAML, a duplicate key, an unknown file, a circle.
    """
    node = _compose(path)
    if node is None:
        return Source(path, None)
    with readable(path):
        _refuse_duplicates(node, ())
        _resolve_merge_keys(node)
    source = Source(path, node)
    named = node_at(node, (_EXTENDS,))
    if not kind or not isinstance(named, yaml.ScalarNode) or named.tag == _NULL:
        return source
    try:
        other = resources.find(kind, str(named.value), base=path.parent)
    except DefinitionError as error:
        raise source.mistake((_EXTENDS,), error.message, error.next_step) from None
    files = [*chain, path]
    if other in [file.resolve() for file in files]:
        names = " extends ".join(file.name for file in (*files, other))
        raise source.mistake((_EXTENDS,), f"is a circle: {names}", "Let it extend another file, or none.")
    base = read(other, kind=kind, own=own, chain=files)
    if not isinstance(base.node, yaml.MappingNode):
        raise base.mistake((), "has no fields", f"{path.name} extends it.")
    base.node.value = [pair for pair in base.node.value if pair[0].value not in (*own, _EXTENDS)]
    with readable(path):
        return Source(path, _merged(base.node, node))


def _merged(base: yaml.Node | None, over: yaml.Node) -> yaml.Node:
    """Return a node merged over another, as `read` says."""
    if not isinstance(base, yaml.MappingNode) or not isinstance(over, yaml.MappingNode):
        return over
    own = {key.value: (key, value) for key, value in over.value}
    pairs = [pair for pair in base.value if pair[0].value not in own]
    for key, value in own.values():
        if value.tag != _NULL:
            pairs.append((key, _merged(node_at(base, (key.value,)), value)))
    return yaml.MappingNode(over.tag, pairs, over.start_mark, over.end_mark, flow_style=over.flow_style)


def _resolve_merge_keys(node: yaml.Node) -> None:
    """Replace each ``<<`` by the fields that it stands for; a field that is written out comes before them."""
    if isinstance(node, yaml.MappingNode):
        if any(key.tag == _MERGE for key, _ in node.value):
            yaml.constructor.SafeConstructor().flatten_mapping(node)
            node.value = list({key.value: (key, value) for key, value in node.value}.values())
        for _, child in node.value:
            _resolve_merge_keys(child)
    elif isinstance(node, yaml.SequenceNode):
        for child in node.value:
            _resolve_merge_keys(child)


def _follows(place: Keys, left_out: Sequence[Keys]) -> bool:
    """Return whether a part is missing only because it was wrong and removed, or is there under a misspelt name."""
    misspelt = [str(other[-1]) for other in left_out if other[:-1] == place[:-1]]
    return any(place == other[: len(place)] for other in left_out) or bool(
        place and near_names(str(place[-1]), misspelt)
    )


class Mistakes:
    """Collector of mistakes in definition files, so that all are shown at once."""

    def __init__(self) -> None:
        self.errors: list[DefinitionError] = []

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Collect the DefinitionError that ends the block, and continue after it."""
        try:
            yield
        except DefinitionError as error:
            self.errors += error.parts

    def demand_none(self) -> None:
        """Raise the collected mistake, or all as one DefinitionError, if there are any."""
        if self.errors:
            raise self.errors[0] if len(self.errors) == 1 else DefinitionErrors(self.errors)


def where(path: Path, keys: Keys) -> str:
    """Return ``file:line: path.to.value`` for a place in a file; for a missing one, its nearest existing parent."""
    return Source(path, _compose(path)).where(keys)


def dotted(keys: Keys) -> str:
    """Return ``command[3].arguments[0]`` for a place."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")


def _compose(path: Path) -> yaml.Node | None:
    with readable(path):
        stream = io.StringIO(path.read_text(encoding="utf-8"))
        # The loader puts it on each node.
        stream.name = str(path)
        node: yaml.Node | None = yaml.compose(stream, Loader=yaml.CSafeLoader)
    return node


def _refuse_duplicates(node: yaml.Node, keys: tuple[str | int, ...]) -> None:
    if isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            _refuse_duplicates(child, (*keys, index))
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, child in node.value:
            there = f"{key.start_mark.name}:{key.start_mark.line + 1}"
            if not isinstance(key, yaml.ScalarNode):
                raise DefinitionError(f"{there}: {dotted(keys)}: has a key that is no text")
            place = (*keys, str(key.value))
            if key.value in seen:
                raise DefinitionError(f"{there}: {dotted(place)}: is there twice")
            seen.add(key.value)
            _refuse_duplicates(child, place)


def _located(source: Source, message: str, type: Any) -> tuple[DefinitionError, tuple[str | int, ...]]:
    """Return a msgspec message as an error with line, place, and near names for an unknown field; and the place."""
    match = _AT.match(message)
    what, raw = (match["what"], match["path"] or "") if match else (message, "")
    node = source.node
    keys = _known_keys(node, _steps(raw), what)
    field = _FIELD.search(what)
    if field and "unknown" in what:
        place = (*keys, field[1])
        known = with_all(field[1], _field_names(type, keys), what="Possible here")
        return source.mistake(place, "unknown field", _comma_hint(node, place) or known), place
    if field and "missing" in what:
        place = (*keys, field[1])
        given = node_at(node, keys)
        present = {key.value for key, _ in given.value} if isinstance(given, yaml.MappingNode) else set()
        needed = f"Needed here: {_fields_text(*_structs_at(type, keys), without=present)}."
        return source.mistake(place, "missing", needed), place
    text, next_step = _of_value(what, node_at(node, keys), type, keys)
    return source.mistake(keys, text, _comma_hint(node, keys) or next_step), keys


_EXPECTED = re.compile(r"^Expected `(?P<expected>[^`]+)`, got `(?P<got>\w+)`$")
_IN_WORDS = {
    "array": "a list",
    "object": "a mapping",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing (null)",
}
"""JSON's names of types, as msgspec has them, in the words of YAML."""


def _of_value(what: str, node: yaml.Node | None, type: Any, keys: Keys) -> tuple[str, str]:
    """Return a msgspec message about a value in the words of YAML, and how the value is written instead."""
    if what.startswith("Invalid enum value"):
        values = [value for found in _types_at(type, keys) for value in typing.get_args(found)]
        text = what[:1].lower() + what[1:].replace("enum value", "value")
        return text, with_all(str(getattr(node, "value", "")), map(str, values), what="It may be")
    match = _EXPECTED.match(what)
    if match is None:
        return what[:1].lower() + what[1:].replace("`", ""), ""
    expected = match["expected"].split(" | ")
    wanted = " or ".join(_IN_WORDS.get(each, each) for each in expected)
    text = f"expected {wanted}, not {_IN_WORDS.get(match['got'], match['got'])}"
    scalar = node.value if isinstance(node, yaml.ScalarNode) else ""
    if expected == ["str"] and scalar:
        return text, f'Quote it: "{scalar}".'
    if expected == ["str"] and (placeholder := _unquoted(node)):
        return text, f"Quote it: '{{{placeholder}}}'."
    if "array" in expected and scalar:
        return text, f"Write it as a list: [{', '.join(scalar.split())}]."
    if "object" in expected and (pair := _named_value(node)):
        return text, f"Write it as {pair[0]}: '{pair[1]}', a line for each."
    if "object" in expected:
        names = _field_names(type, keys)
        return text, f"Write it as {{{names[0] if names else 'name'}: …}}."
    return text, f"Write {wanted} here."


def _unquoted(node: yaml.Node | None) -> str:
    """Return the name of a placeholder that is a mapping to YAML, since nothing quotes it: ``{metrics_port}``."""
    if isinstance(node, yaml.MappingNode) and node.flow_style and len(node.value) == 1:
        ((key, value),) = node.value
        return str(key.value) if value.value == "" and isinstance(key, yaml.ScalarNode) else ""
    return ""


def _named_value(node: yaml.Node | None) -> tuple[str, str] | None:
    """Return name and value of the first entry of a list as containers have them: ``- {name: LEVEL, value: debug}``."""
    first = node.value[0] if isinstance(node, yaml.SequenceNode) and node.value else None
    fields = {key.value: value.value for key, value in first.value} if isinstance(first, yaml.MappingNode) else {}
    name, value = fields.get("name"), fields.get("value", "…")
    return (name, value) if isinstance(name, str) and isinstance(value, str) else None


def _comma_hint(node: yaml.Node | None, keys: Keys) -> str:
    """Return the next step for ``{help: one, two}``, where the comma makes ``two`` a field without a value."""
    parent, own = node_at(node, keys[:-1]), node_at(node, keys)
    if not isinstance(parent, yaml.MappingNode) or not parent.flow_style or not keys:
        return ""
    if own is None or own.value != "" or own.start_mark.index != own.end_mark.index:
        return ""
    position = [child is own for _, child in parent.value].index(True)
    if position == 0:
        return ""
    before, text = parent.value[position - 1]
    if not isinstance(text, yaml.ScalarNode):
        return ""
    return f'A text with a comma needs quotes: {before.value}: "{text.value}, {keys[-1]}".'


def _leave_out(content: Any, node: yaml.Node, keys: Keys) -> bool:
    """Remove a mapping's key from a file's content, and from its nodes; return whether it was there."""
    for key in keys[:-1]:
        content = content[key]
    parent = node_at(node, keys[:-1])
    if not isinstance(content, dict) or not isinstance(parent, yaml.MappingNode) or keys[-1] not in content:
        return False
    del content[keys[-1]]
    parent.value = [pair for pair in parent.value if pair[0].value != keys[-1]]
    return True


def _steps(path: str) -> list[str | int]:
    return [name or (int(index) if index else _ANY_KEY) for name, index, _ in _STEP.findall(path)]


def _known_keys(node: yaml.Node | None, keys: Keys, what: str) -> tuple[str | int, ...]:
    """Return the place with each unnamed mapping key (msgspec says ``[...]``) found by the reported type."""
    got, field = _GOT.search(what), _FIELD.search(what)
    tag = f"tag:yaml.org,2002:{_YAML_TYPE.get(got[1], got[1])}" if got else ""

    def is_meant(child: yaml.Node, rest: Keys) -> bool:
        if field is None:
            return _tag_at(child, rest) == tag
        inner = node_at(child, rest)
        has = isinstance(inner, yaml.MappingNode) and any(k.value == field[1] for k, _ in inner.value)
        return has if "unknown" in what else isinstance(inner, yaml.MappingNode) and not has

    found: list[str | int] = []
    for position, key in enumerate(keys):
        if key == _ANY_KEY and isinstance(node, yaml.MappingNode):
            rest = keys[position + 1 :]
            names = [str(k.value) for k, child in node.value if is_meant(child, rest)]
            if not names:
                break
            key = names[0]
        found.append(key)
        node = _child(node, key)
    return tuple(found)


def node_at(node: yaml.Node | None, keys: Keys) -> yaml.Node | None:
    """Return the node at a place; None if there is none."""
    for key in keys:
        node = _child(node, key)
    return node


def _tag_at(node: yaml.Node | None, keys: Keys) -> str:
    found = node_at(node, keys)
    return str(found.tag) if found is not None else ""


def _child(node: yaml.Node | None, key: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((child for k, child in node.value if k.value == key), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        found: yaml.Node = node.value[key]
        return found
    return None


def line_of(node: yaml.Node | None, keys: Keys) -> int:
    """Return the line (from 1) of the key at a place, or of its nearest existing parent."""
    mark = _mark_at(node, keys)
    return 1 if mark is None else int(mark.line) + 1


def _mark_at(node: yaml.Node | None, keys: Keys) -> Any:
    """Return the mark of the key at a place, or of its nearest existing parent; None where there is none."""
    mark = None
    for key in keys:
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        named = next((k for k, _ in pairs if k.value == key), None)
        node = _child(node, key)
        if node is None:
            break
        mark = (named or node).start_mark
    return mark


def _field_names(type: Any, keys: Keys) -> list[str]:
    """Return the fields that are valid at a place: of each struct its own, then those that it shares with others."""
    return [
        field.encode_name
        for struct in _structs_at(type, keys)
        for field in sorted(msgspec.structs.fields(struct), key=lambda field: field.name not in struct.__annotations__)
    ]


def _fields_text(*structs: Any, without: Collection[str] = ()) -> str:
    """Return the names of the fields that structs require, ``without`` those that are there."""
    fields = [field for struct in structs if _is_struct(struct) for field in msgspec.structs.fields(struct)]
    return ", ".join(field.encode_name for field in fields if field.required and field.encode_name not in without)


def _structs_at(type: Any, keys: Keys) -> list[Any]:
    """Return the structs that are valid at a place."""
    return [candidate for candidate in _types_at(type, keys) if _is_struct(candidate)]


def _types_at(type: Any, keys: Keys) -> list[Any]:
    """Return the types that are valid at a place, following fields, lists, mappings and unions."""
    found = _alternatives(type)
    for key in keys:
        found = [inner for candidate in found for inner in _alternatives(_inner(candidate, key))]
    return found


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
