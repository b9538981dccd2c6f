"""Writes protobuf's wire format, so that any message can be made and read back."""

from __future__ import annotations


def varint(number: int) -> bytes:
    number &= 0xFFFFFFFFFFFFFFFF
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, *content: bytes) -> bytes:
    joined = b"".join(content)
    return varint(field << 3 | 2) + varint(len(joined)) + joined
