"""Protobuf's wire format, which scrapes and Go's profiles are both written in."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.protobuf_wire import (
    WireError,
    double,
    doubles,
    fields,
    grouped,
    last,
    signed,
    varint,
    varints,
    zigzag,
)
from tests import wire_messages as wire

from . import metric_messages as pb

UINT64 = st.integers(0, 2**64 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


def test_the_walk_yields_every_field_with_its_key() -> None:
    body = wire.number(1, 2**64 - 1) + pb.double(2, 1.0) + wire.message(300, b"x") + wire.varint(4 << 3 | 5) + b"abcd"
    assert list(fields(body)) == [(8, 2**64 - 1), (17, struct.pack("<d", 1.0)), (2402, b"x"), (37, b"abcd")]


@given(UINT64, st.binary(max_size=3), st.binary(max_size=3))
def test_an_integer_is_read_where_it_stands(number: int, before: bytes, after: bytes) -> None:
    written = wire.varint(number)
    assert varint(before + written + after, len(before)) == (number, len(before + written))


@given(st.lists(UINT64, max_size=4))
def test_repeated_integers_may_be_packed(numbers: list[int]) -> None:
    packed = b"".join(map(wire.varint, numbers))
    assert varints(packed) == numbers
    (found,) = grouped(wire.message(1, packed)).values()
    assert found == [packed]
    apart = grouped(b"".join(wire.number(1, number) for number in numbers))
    assert [number for value in apart[8] for number in varints(value)] == numbers
    assert last(apart, 8) == (numbers[-1] if numbers else None)


@given(INT64)
def test_integers_below_zero(number: int) -> None:
    assert signed(dict(fields(wire.number(1, number)))[8]) == number
    assert zigzag(dict(fields(pb.zigzag(1, number)))[8]) == number


@given(st.floats())
def test_doubles(number: float) -> None:
    found = dict(fields(pb.double(1, number)))[9]
    assert double(found) == number or math.isnan(number)
    assert len(doubles(found * 3)) == 3
    assert double(None) == 0.0


@given(st.binary(max_size=40))
def test_any_bytes_are_a_message_or_none(body: bytes) -> None:
    try:
        found = list(fields(body))
    except WireError:
        return
    assert all(isinstance(value, bytes if key & 7 else int) for key, value in found)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"\x80" * 11, "a number has no end"),
        (b"\x08", "a number has no end"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "a number has no end"),
        (b"\x00\x00", "a field has the number 0"),
        (b"\x0a\x02x", "longer than its message"),
        (b"\x09" + bytes(7), "longer than its message"),
        (b"\x0d" + bytes(3), "longer than its message"),
        (b"\x0b", "field 1 .* wire type 3"),
        (b"\x0e", "field 1 .* wire type 6"),
    ],
    ids=[
        "key without end",
        "field without value",
        "value without end",
        "field 0",
        "bytes cut off",
        "eight bytes cut off",
        "four bytes cut off",
        "a group",
        "wire type 6",
    ],
)
def test_what_is_no_message(body: bytes, why: str, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(WireError, match=why) as caught:
        list(fields(body))
    assert str(caught.value) == snapshot
