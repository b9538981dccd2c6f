"""Protobuf's wire format, without a protobuf library: iterates the fields of a message, and writes them.

Format: https://protobuf.dev/programming-guides/encoding/. A key consists of a field's number and its wire type,
``number << 3 | type``; a field with an unexpected wire type has another key, and is skipped like an unknown one.
"""

from __future__ import annotations

import functools
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

_SIZES = {FIXED64: 8, FIXED32: 4}
_DOUBLE = struct.Struct("<d")


class WireError(ValueError):
    """Bytes that are not a valid message."""


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (key, value) of each field: an int of a VARINT, the bytes of all others. Raises WireError."""
    at, end = 0, len(message)
    while at < end:
        key = message[at]
        at += 1
        if key >= 0x80:
            key, at = varint(message, at - 1)
        elif key < 8:
            raise WireError("a field has the number 0")
        wire = key & 7
        if wire in _SIZES:
            number = _SIZES[wire]
        elif wire not in (VARINT, BYTES):
            raise WireError(f"field {key >> 3} has the unknown wire type {wire}")
        # Most numbers have one byte; a call for each would dominate the cost of reading.
        elif at < end and (number := message[at]) < 0x80:
            at += 1
        else:
            number, at = varint(message, at)
        if wire == VARINT:
            yield key, number
            continue
        begin, at = at, at + number
        if at > end:
            raise WireError("a field is longer than its message")
        yield key, message[begin:at]


def grouped(message: bytes) -> defaultdict[int, list[Any]]:
    """Return key → values, in order, for messages with repeated fields. Raises WireError."""
    found: defaultdict[int, list[Any]] = defaultdict(list)
    for key, value in fields(message):
        found[key].append(value)
    return found


def last(found: Mapping[int, list[Any]], key: int) -> Any:
    """Return a non-repeated field from `grouped`: of several values the last; None if missing."""
    return found[key][-1] if found.get(key) else None


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an integer of 7 bits a byte, lowest first, and where it ends. Raises WireError."""
    number = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number & 0xFFFFFFFFFFFFFFFF, at
    raise WireError("a number has no end")


def varints(value: int | bytes) -> list[int]:
    """Return the integers of a repeated field: one, or many packed into bytes. Raises WireError."""
    if isinstance(value, int):
        return [value]
    numbers = []
    at = 0
    while at < len(value):
        number, at = varint(value, at)
        numbers.append(number)
    return numbers


def double(value: bytes | None) -> float:
    """Return the number of a double field, FIXED64; 0 if missing."""
    return 0.0 if value is None else _DOUBLE.unpack(value)[0]


def doubles(value: bytes) -> tuple[float, ...]:
    """Return the numbers of a double field: one, or many packed. Raises WireError."""
    if len(value) % 8:
        raise WireError("a double has more or less than 8 bytes")
    return struct.unpack(f"<{len(value) // 8}d", value)


def signed(number: int) -> int:
    """Return the value of an ``int32`` or ``int64``: negative ones have all 64 bits."""
    return number - (1 << 64) if number >= 1 << 63 else number


def zigzag(number: int) -> int:
    """Return the value of a ``sint32`` or ``sint64``: 0, -1, 1, -2 … are encoded as 0, 1, 2, 3 …"""
    return number >> 1 ^ -(number & 1)


def write_varint(number: int) -> bytes:
    """Return an integer ≥ 0 as `varint` reads it."""
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


@functools.cache
def _key(number: int, wire: int) -> bytes:
    return write_varint(number << 3 | wire)


def write_int(number: int, value: int) -> bytes:
    """Return field ``number`` of an integer type, ``bool`` or ``enum``; ``value``: ≥ 0."""
    return _key(number, VARINT) + write_varint(value)


def write_double(number: int, value: float) -> bytes:
    """Return field ``number`` of type ``double``."""
    return _key(number, FIXED64) + _DOUBLE.pack(value)


def write_bytes(number: int, value: bytes | str) -> bytes:
    """Return field ``number`` of type ``string`` or ``bytes``, or of a message that is encoded already."""
    content = value.encode() if isinstance(value, str) else value
    return _key(number, BYTES) + write_varint(len(content)) + content
