"""Bodies in chunks: unpacked as they come, bounded while they are unpacked."""

from __future__ import annotations

import gzip
import itertools
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import ExpositionError
from pytest_grovescale.exposition.body import Body, Limits
from tests.golden import masked

CUTS = st.lists(st.integers(0, 400), max_size=5)


def zipped(data: bytes) -> bytes:
    """The same bytes each time: they are names of tests."""
    return gzip.compress(data, mtime=0)


def chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(edges)]


@given(st.binary(max_size=300), CUTS, st.sampled_from(["", "identity", "gzip", "x-gzip", "GZIP ", "deflate"]))
def test_any_chunks_make_the_same_body(data: bytes, cuts: list[int], encoding: str) -> None:
    kind = encoding.strip().lower()
    packed = gzip.compress(data) if "gzip" in kind else zlib.compress(data) if kind == "deflate" else data
    body = Body(encoding)
    for chunk in chunks(packed, cuts):
        body.add(chunk)
    assert body.whole() == data == whole_body(packed, encoding)


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=3), CUTS)
def test_members_one_after_the_other_are_one_body(parts: list[bytes], cuts: list[int]) -> None:
    body = Body("gzip")
    for chunk in chunks(b"".join(map(gzip.compress, parts)), cuts):
        body.add(chunk)
    assert body.whole() == b"".join(parts)


def whole_body(data: bytes, encoding: str, limits: Limits | None = None) -> bytes:
    body = Body(encoding, limits)
    body.add(data)
    return body.whole()


def bomb(size: int) -> bytes:
    """Return a few bytes that unpack to many."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()


def test_a_bomb_is_refused_before_it_fills_the_memory(snapshot: SnapshotAssertion) -> None:
    packed = bomb(200 << 20)
    assert len(packed) < 300_000
    tracemalloc.start()
    try:
        with pytest.raises(ExpositionError, match=r"^byte 1048576: ") as caught:
            whole_body(packed, "gzip", Limits(max_bytes=1 << 20))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20
    assert str(caught.value) == snapshot


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_an_answer_without_end_is_left_at_the_limit(encoding: str) -> None:
    body = Body(encoding, Limits(max_bytes=10_000))
    packer = zlib.compressobj(0, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    taken = 0
    with pytest.raises(ExpositionError, match="byte 10000: the answer goes on"):
        while True:
            chunk = b"x 1\n" * 100
            body.add(packer.compress(chunk) + packer.flush(zlib.Z_SYNC_FLUSH) if encoding else chunk)
            taken += len(chunk)
    assert taken <= 10_000


def test_a_body_of_just_the_limit_is_whole() -> None:
    data = b"x" * 1000
    for encoding, packed in (("", data), ("gzip", gzip.compress(data))):
        assert whole_body(packed, encoding, Limits(max_bytes=1000)) == data
        with pytest.raises(ExpositionError, match="at most 999 bytes"):
            whole_body(packed, encoding, Limits(max_bytes=999))


@pytest.mark.parametrize(
    ("data", "encoding", "why"),
    [
        (zipped(b"x 1\n" * 100)[:-9], "gzip", "cut off"),
        (b"", "gzip", "has no end"),
        (b"x 1\n", "gzip", "byte 0: .* cannot be unpacked"),
        (zipped(b"x") + b"trailing", "gzip", "byte 1: .* cannot be unpacked"),
        (b"x 1\n", "br", "packed as 'br'"),
        (b"x 1\n", "gzip, gzip", "packed as 'gzip, gzip'"),
    ],
    ids=["cut off", "nothing", "not packed", "more behind its end", "another packing", "packed twice"],
)
def test_anything_else_is_refused(data: bytes, encoding: str, why: str, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(ExpositionError, match=why) as caught:
        whole_body(data, encoding)
    # What zlib says, and how much it had unpacked before, is not ours.
    assert masked(str(caught.value).partition(": Error")[0], numbers=True) == snapshot
