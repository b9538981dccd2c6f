"""Writes ``profile.proto`` messages, as Go's runtime does, so that any profile can be read back."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence

from tests.wire_messages import message, number, varint


def zipped(data: bytes) -> bytes:
    """The same bytes each time: they are names of tests."""
    return gzip.compress(data, mtime=0)


def packed(field: int, numbers: Iterable[int]) -> bytes:
    return message(field, b"".join(varint(value) for value in numbers))


def profile(
    samples: Sequence[tuple[Sequence[Sequence[str]], Sequence[int]]],
    types: Sequence[tuple[str, str]] = (("samples", "count"), ("cpu", "nanoseconds")),
    *,
    packs: bool = True,
) -> bytes:
    """``samples``: (locations innermost first, each the functions that are inlined in it, innermost first; values)."""
    strings = {"": 0}

    def text(value: str) -> int:
        return strings.setdefault(value, len(strings))

    functions: dict[str, int] = {}
    locations: dict[tuple[str, ...], int] = {}
    body = b"".join(message(1, number(1, text(name)) + number(2, text(unit))) for name, unit in types)
    for stack, values in samples:
        ids = [locations.setdefault(tuple(location), len(locations) + 1) for location in stack]
        if packs:
            body += message(2, packed(1, ids) + packed(2, values))
        else:
            body += message(2, b"".join(number(1, one) for one in ids) + b"".join(number(2, one) for one in values))
    for location, identity in locations.items():
        lines = b""
        for name in location:
            function = functions.setdefault(name, len(functions) + 1)
            lines += message(4, number(1, function) + number(2, 7))
        body += message(4, number(1, identity) + number(3, 0x1000) + lines)
    for name, identity in functions.items():
        body += message(5, number(1, identity) + number(2, text(name)) + number(5, 3))
    body += b"".join(message(6, value.encode()) for value in strings)
    return zipped(body + number(9, 1_700_000_000) + varint(99 << 3 | 1) + bytes(8) + varint(98 << 3 | 5) + bytes(4))
