"""``profile.proto``, gzipped, as Go writes it: decoded without a protobuf library.

Format: github.com/google/pprof/blob/main/proto/profile.proto, protobuf.dev/programming-guides/encoding.
Only the fields that make stacks are read; others are skipped by their wire type.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from ...errors import RecordingError

MAX_BYTES = 1 << 29
"""Of a profile unpacked. A CPU profile of a minute at 1000 pods has 2 MB."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Sample(NamedTuple):
    """One stack: location ids, innermost first, and a value for each sample type."""

    locations: tuple[int, ...]
    values: tuple[int, ...]


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded profile."""

    types: tuple[tuple[str, str], ...]
    """(type, unit) of each sample's values: ``("samples", "count")``, ``("cpu", "nanoseconds")``."""
    samples: tuple[Sample, ...]
    locations: dict[int, tuple[int, ...]]
    """Location → its functions' ids, innermost first: more than one where the compiler inlined."""
    functions: dict[int, str]

    def column(self, wanted: tuple[str, str]) -> int | None:
        """Return which of a sample's values is of a type and unit."""
        return self.types.index(wanted) if wanted in self.types else None


def decode(data: bytes) -> Profile:
    """Return a profile. Raises RecordingError for anything but a whole, gzipped ``profile.proto``."""
    types: list[tuple[int, int]] = []
    samples: list[Sample] = []
    locations: dict[int, tuple[int, ...]] = {}
    functions: dict[int, int] = {}
    strings: list[str] = []
    for field, value in _fields(_unpacked(data)):
        match field:
            case 1:
                types.append(_pair(_bytes(value), 1, 2))
            case 2:
                samples.append(_sample(_bytes(value)))
            case 4:
                location, lines = _location(_bytes(value))
                locations[location] = lines
            case 5:
                function, name = _pair(_bytes(value), 1, 2)
                functions[function] = name
            case 6:
                strings.append(_bytes(value).decode("utf-8", "replace"))
    if any(len(sample.values) != len(types) for sample in samples):
        raise damaged("a sample has more or fewer values than there are types")
    return Profile(
        types=tuple((_string(strings, kind), _string(strings, unit)) for kind, unit in types),
        samples=tuple(samples),
        locations=locations,
        functions={function: _string(strings, name) for function, name in functions.items()},
    )


def _unpacked(data: bytes) -> bytes:
    if data[:2] != b"\x1f\x8b":
        raise damaged("it is not gzipped" if data else "the file is empty")
    unzip = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        whole = unzip.decompress(data, MAX_BYTES)
    except zlib.error as error:
        raise damaged(f"it cannot be unpacked: {error}") from error
    if not unzip.eof:
        larger = len(whole) >= MAX_BYTES
        raise damaged(f"it is larger than {MAX_BYTES >> 20} MB unpacked" if larger else "it is cut off")
    return whole


def _sample(data: bytes) -> Sample:
    locations: list[int] = []
    values: list[int] = []
    for field, value in _fields(data):
        if field == 1:
            locations += _numbers(value)
        elif field == 2:
            values += (_signed(number) for number in _numbers(value))
    return Sample(tuple(locations), tuple(values))


def _location(data: bytes) -> tuple[int, tuple[int, ...]]:
    identity = 0
    lines: list[int] = []
    for field, value in _fields(data):
        if field == 1:
            identity = _number(value)
        elif field == 4:
            lines.append(_pair(_bytes(value), 1, 2)[0])
    return identity, tuple(lines)


def _pair(data: bytes, first: int, second: int) -> tuple[int, int]:
    """Return two integer fields of a message; one that is not there is 0, as the format says."""
    found = {field: _number(value) for field, value in _fields(data) if field in (first, second)}
    return found.get(first, 0), found.get(second, 0)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) of one message: an integer, or the bytes of what has a length."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        field, wire = key >> 3, key & 7
        if wire == _VARINT:
            number, at = _varint(data, at)
            yield field, number
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(wire)
        if wire == _BYTES:
            size, at = _varint(data, at)
        if size is None:
            raise damaged(f"field {field} has the unknown wire type {wire}")
        if at + size > len(data):
            raise damaged("a field is longer than its message")
        value = data[at : at + size]
        at += size
        yield field, value if wire == _BYTES else int.from_bytes(value, "little")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an integer of 7 bits a byte, lowest first, and where it ends."""
    number = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number & 0xFFFFFFFFFFFFFFFF, at
    raise damaged("a number has no end")


def _numbers(value: int | bytes) -> Sequence[int]:
    """Return the integers of a repeated field: one, or many packed into bytes."""
    if isinstance(value, int):
        return [value]
    numbers = []
    at = 0
    while at < len(value):
        number, at = _varint(value, at)
        numbers.append(number)
    return numbers


def _number(value: int | bytes) -> int:
    if isinstance(value, int):
        return value
    raise damaged("a number's field holds text")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    raise damaged("a message's field holds a number")


def _string(strings: Sequence[str], index: int) -> str:
    if index < len(strings):
        return strings[index]
    raise damaged(f"it names string {index} of {len(strings)}")


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


def damaged(why: str) -> RecordingError:
    """Return what to raise for a profile that cannot be read."""
    return RecordingError(
        f"no Go profile can be read: {why}", next_step="Profile the phase again; `go tool pprof FILE` may tell more."
    )
