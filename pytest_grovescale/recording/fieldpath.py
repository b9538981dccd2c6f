"""Field paths, and decoders that read only the requested fields from an object's JSON.

``status.phase`` · ``metadata.annotations["grove.io/trigger"]`` (a key that contains dots, JSON string syntax) ·
``status.conditions[type=Ready].status`` (the first element of a list whose key has that value) ·
``spec.containers[0].image`` (an element by number).

Objects of 3 KB arrive by the thousand: decoding them into full dicts would be most of the recorder's work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Union

import msgspec
from msgspec import UNSET, UnsetType

from ..errors import UsageError


class Key(msgspec.Struct, frozen=True):
    """A key of an object."""

    name: str


class Select(msgspec.Struct, frozen=True):
    """The first element of a list of objects whose ``key`` has this value."""

    key: str
    value: str


class Index(msgspec.Struct, frozen=True):
    """An element of a list, from 0."""

    number: int


Step = Key | Select | Index

_NAME = re.compile(r"[^.\[\]\"=\s]+")
_BRACKET = re.compile(
    r"\[(?:(?P<quoted>\"(?:[^\"\\]|\\.)*\")|(?P<index>\d+)|(?P<key>[^\[\]\"=\s]+)=(?P<value>\"(?:[^\"\\]|\\.)*\"|[^\]\"]*))\]"
)
_AWKWARD = re.compile(r"[\\\"\x00-\x1f]")


def parse(path: str) -> tuple[Step, ...]:
    """Return the steps of a path. Raises UsageError with the position of the syntax error."""
    steps: list[Step] = []
    position = 0
    while position < len(path):
        bracket = _BRACKET.match(path, position) if steps else None
        if bracket:
            steps.append(_bracket_step(path, bracket))
            position = bracket.end()
            continue
        if steps:
            if path[position] != ".":
                break
            position += 1
        name = _NAME.match(path, position)
        if not name:
            # Also when a dot is the last character.
            raise _unreadable(path, position)
        steps.append(Key(name.group()))
        position = name.end()
    if position < len(path) or not steps:
        raise _unreadable(path, position)
    return tuple(steps)


def _unreadable(path: str, position: int) -> UsageError:
    return UsageError(
        f"field path {path!r} cannot be read at character {position + 1}",
        next_step='Write it as status.phase, status.conditions[type=Ready].status or metadata.labels["a.b/c"].',
    )


def _bracket_step(path: str, match: re.Match[str]) -> Step:
    if match["index"] is not None:
        return Index(int(match["index"]))
    try:
        if match["quoted"] is not None:
            return Key(msgspec.json.decode(match["quoted"], type=str))
        value = match["value"]
        return Select(match["key"], msgspec.json.decode(value, type=str) if value.startswith('"') else value)
    except msgspec.DecodeError as error:
        raise UsageError(f"field path {path!r}: {error}", next_step="Quote keys as JSON strings.") from error


def lookup(value: Any, steps: Iterable[Step]) -> Any:
    """Return the value at a path in decoded JSON, or UNSET where the object lacks it."""
    for step in steps:
        match step:
            case Key(name):
                value = value.get(name, UNSET) if isinstance(value, dict) else UNSET
            case Index(number):
                value = value[number] if isinstance(value, list) and number < len(value) else UNSET
            case Select(key, wanted):
                elements = value if isinstance(value, list) else []
                value = next((e for e in elements if isinstance(e, dict) and _is(e.get(key, UNSET), wanted)), UNSET)
        if value is UNSET:
            return UNSET
    return value


def _is(value: Any, wanted: str) -> bool:
    if isinstance(value, str):
        return value == wanted
    if isinstance(value, bool):
        return wanted == ("true" if value else "false")
    return isinstance(value, int | float) and str(value) == wanted


class Projection:
    """Reads the values of a set of paths from an object's JSON.

    ``below``: how many steps of each path lead to what it is called with, where that is a part of the object.
    """

    def __init__(self, paths: Iterable[str], *, below: int = 0) -> None:
        self._steps = {path: parse(path)[below:] for path in dict.fromkeys(paths)}
        root = _Node()
        for steps in self._steps.values():
            root.add(steps)
        self._decoder = msgspec.json.Decoder(root.type())
        self._getters = [(path, root.getter(steps)) for path, steps in self._steps.items()]

    def __call__(self, data: bytes | msgspec.Raw) -> dict[str, Any]:
        """Return path → value, without the paths that the object lacks.

        Raises msgspec.DecodeError for invalid JSON.
        """
        try:
            narrow = self._decoder.decode(data)
        except msgspec.ValidationError:
            # A field of another type than its path assumes (a string instead of an object): rare, so slow.
            whole = msgspec.json.decode(data)
            found = ((path, lookup(whole, steps)) for path, steps in self._steps.items())
        else:
            found = ((path, getter(narrow)) for path, getter in self._getters)
        return {path: value for path, value in found if value is not UNSET}


_Getter = Callable[[Any], Any]


class _Node:
    """What the paths need at one place in the object: some keys, the elements of a list, or the whole value."""

    def __init__(self) -> None:
        self.keys: dict[str, _Node] = {}
        self.element: _Node | None = None
        self.whole = False

    def add(self, steps: tuple[Step, ...]) -> None:
        if not steps:
            self.whole = True
            return
        head, rest = steps[0], steps[1:]
        if isinstance(head, Key):
            self.keys.setdefault(head.name, _Node()).add(rest)
            return
        self.element = self.element or _Node()
        self.element.add(rest)
        if isinstance(head, Select):
            self.element.keys.setdefault(head.key, _Node()).whole = True

    @property
    def opaque(self) -> bool:
        """Whether it is decoded untyped: needed whole, as both list and object, or by a key that no struct can have."""
        return self.whole or bool(self.keys and self.element) or any(_AWKWARD.search(name) for name in self.keys)

    def type(self) -> Any:
        if self.opaque:
            return Any
        if self.element is not None:
            # A list element may be null; no path continues through null.
            return list[_optional(self.element.type())]  # type: ignore[misc]
        fields = [(_attribute(i), _maybe(node.type()), UNSET) for i, node in enumerate(self.keys.values())]
        names = {_attribute(i): name for i, name in enumerate(self.keys)}
        return msgspec.defstruct("Narrow", fields, rename=names, gc=False)

    def getter(self, steps: tuple[Step, ...]) -> _Getter:
        """Return the function that reads a path from what `type` decodes."""
        if self.opaque:
            return lambda value: lookup(value, steps)
        head, rest = steps[0], steps[1:]
        if isinstance(head, Key):
            attribute = _attribute(list(self.keys).index(head.name))
            inner = self.keys[head.name].getter(rest)
            if not rest:
                return lambda value: getattr(value, attribute)
            return lambda value: _onward(getattr(value, attribute), inner)
        assert self.element is not None  # `add` saw the same steps
        return self.element.from_list(head, self.element.getter(rest))

    def from_list(self, head: Select | Index, inner: _Getter) -> _Getter:
        if isinstance(head, Index):
            number = head.number
            return lambda value: _onward(value[number], inner, whole=self.opaque) if number < len(value) else UNSET
        key_of = self.getter((Key(head.key),))
        wanted = head.value

        def select(value: list[Any]) -> Any:
            for element in value:
                if element is not None and _is(key_of(element), wanted):
                    return inner(element)
            return UNSET

        return select


def _onward(value: Any, inner: _Getter, *, whole: bool = False) -> Any:
    """Continue from a value that may be absent or null: no path leads through those."""
    return UNSET if value is UNSET or (value is None and not whole) else inner(value)


def _attribute(number: int) -> str:
    return f"f{number}"


def _optional(kind: Any) -> Any:
    return kind if kind is Any else Union[kind, None]  # noqa: UP007 - `kind` is a value here


def _maybe(kind: Any) -> Any:
    # Any includes null already, and msgspec accepts UNSET as the default of a field of type Any.
    return Any if kind is Any else Union[kind, None, UnsetType]  # noqa: UP007 - `kind` is a value here
