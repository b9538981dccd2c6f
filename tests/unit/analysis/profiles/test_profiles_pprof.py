"""Go's profiles: what a real program's hold, any profile written and read back, and anything else refused in words."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.profiles import pprof
from pytest_grovescale.analysis.profiles.functions import function_table
from pytest_grovescale.analysis.profiles.pprof import decode
from pytest_grovescale.errors import RecordingError
from tests.wire_messages import message, number, varint

from .protobuf import profile, zipped
from .recorded import CPU, GOROUTINES, HEAP, names, read_pprof


def test_a_recorded_cpu_profile() -> None:
    stacks = read_pprof(CPU.read_bytes())
    assert stacks.unit == "samples"
    assert (stacks.rootless, stacks.lost, stacks.damaged) == (0, 0, 0)
    rows = {row.function: row for row in function_table(stacks)}
    assert rows["runtime.main"].module == "runtime"
    assert rows["main.main"].share > 0.95
    assert 0.4 < rows["main.alpha"].share < 0.8
    # The loop is inlined in its four callers, and still a function of its own, inside of them.
    inlined = [stack for stack in names(stacks) if "main.spin" in stack]
    assert {stack[stack.index("main.spin") - 1] for stack in inlined} == {
        "main.alpha",
        "main.beta",
        "main.gamma",
        "main.delta",
    }
    assert all(stack[:2] == ("runtime.main", "main.main") for stack in inlined)


def test_a_recorded_heap_and_its_goroutines() -> None:
    heap = read_pprof(HEAP.read_bytes(), "heap")
    assert heap.unit == "bytes"
    assert heap.total >= 1 << 19  # Go samples one allocation in 512 KiB
    goroutines = read_pprof(GOROUTINES.read_bytes(), "goroutines")
    assert goroutines.unit == "goroutines"
    assert any("main.main" in stack for stack in names(goroutines))


def test_a_profile_of_another_kind_is_refused(snapshot: SnapshotAssertion) -> None:
    with pytest.raises(RecordingError, match=r"inuse_space/bytes.* samples/count") as caught:
        read_pprof(HEAP.read_bytes(), "pprof")
    assert str(caught.value) == snapshot


@pytest.mark.parametrize(
    ("symbol", "name", "module"),
    [
        ("main.main", "main.main", "main"),
        (
            "github.com/ai-dynamo/grove/operator/internal/controller/podclique.(*Reconciler).Reconcile",
            "podclique.(*Reconciler).Reconcile",
            "github.com/ai-dynamo/grove/operator/internal/controller/podclique",
        ),
        ("gopkg.in/yaml%2ev3.(*decoder).unmarshal", "yaml.v3.(*decoder).unmarshal", "gopkg.in/yaml.v3"),
        ("a.b/c.Map[go.shape.struct { x/y.T }].Get", "c.Map[go.shape.struct { x/y.T }].Get", "a.b/c"),
        ("slices.SortFunc[...]", "slices.SortFunc[...]", "slices"),
        ("net/http.(*conn).serve.func1", "http.(*conn).serve.func1", "net/http"),
        ("_cgo_start", "_cgo_start", ""),
        ("größe/模块.f", "模块.f", "größe/模块"),
        ("", "", ""),
    ],
)
def test_names_of_go(symbol: str, name: str, module: str) -> None:
    stacks = read_pprof(profile([([[symbol]], [1, 10])]))
    function = stacks.functions[0]
    assert (function.name, function.module) == (name, module)


def test_code_without_symbols_is_named_so() -> None:
    stacks = read_pprof(profile([([[], ["main.main"]], [3, 30])]))
    assert names(stacks) == {("main.main", "[unknown]"): 3}


def test_samples_that_go_could_not_take_are_lost() -> None:
    stacks = read_pprof(
        profile(
            [
                ([["runtime._LostSIGPROFDuringAtomic64"], ["runtime._System"]], [2, 20]),
                ([["runtime/pprof.lostProfileEvent"]], [3, 30]),
                ([], [4, 40]),
                ([["runtime._GC"]], [5, 50]),
            ]
        )
    )
    assert (stacks.total, stacks.lost) == (5, 9)


def test_stacks_at_the_profilers_depth_have_lost_their_root() -> None:
    stacks = read_pprof(profile([([[f"main.f{depth}"] for depth in range(64)], [2, 20]), ([["main.f0"]], [7, 70])]))
    assert (stacks.total, stacks.rootless) == (9, 2)


def test_a_function_that_calls_itself_counts_once() -> None:
    stacks = read_pprof(profile([([["main.f"], ["main.f"], ["main.main"]], [5, 50])]))
    assert function_table(stacks)[0].samples == 5
    assert {row.function: row.self_samples for row in function_table(stacks)} == {"main.f": 5, "main.main": 0}


def test_a_negative_weight_is_damage() -> None:
    stacks = read_pprof(profile([([["main.f"]], [-1, 0]), ([["main.g"]], [4, 40])]))
    assert (stacks.total, stacks.damaged, stacks.entries) == (4, 1, 2)


def test_every_shortened_file_is_refused() -> None:
    data = CPU.read_bytes()
    for size in range(len(data)):
        with pytest.raises(RecordingError):
            decode(data[:size])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b"404 page not found\n", "not gzipped"),
        (zipped(b"404 page not found\n"), "no Go profile"),
        (b"\x1f\x8b\x08garbage", "cannot be unpacked|cut off"),
        (zipped(message(2, message(1, b"\xff" * 12))), "a number has no end"),
        (zipped(varint(2 << 3 | 2) + varint(1000) + b"x"), "longer than its message"),
        (zipped(varint(2 << 3 | 3)), "wire type 3"),
        (zipped(number(2, 7)), "holds nothing"),
        (zipped(message(5, message(1, b"x"))), "string 0 of 0"),
        (zipped(message(5, number(1, 1) + number(2, 9))), "string 9 of 0"),
        (zipped(message(2, number(2, 9))), "more or fewer values"),
    ],
)
def test_anything_else_is_refused_in_words(data: bytes, why: str) -> None:
    with pytest.raises(RecordingError, match=why):
        read_pprof(data)


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pprof, "MAX_BYTES", 1 << 20)
    with pytest.raises(RecordingError, match="larger than 1 MB"):
        decode(zipped(bytes(1 << 22)))


_LOCATIONS = st.lists(st.sampled_from(["main.f", "main.g", "a/b.(*T).M", "a/b.x"]), min_size=1, max_size=3)
_SAMPLES = st.lists(
    st.tuples(st.lists(_LOCATIONS, min_size=1, max_size=5), st.tuples(st.integers(1, 1 << 40), st.integers(0, 1 << 62)))
)


@given(_SAMPLES, st.booleans())
def test_what_is_written_is_read(samples: list[tuple[list[list[str]], tuple[int, int]]], packs: bool) -> None:
    stacks = read_pprof(profile(samples, packs=packs))
    assert stacks.total == sum(values[0] for _, values in samples)
    expected: dict[tuple[str, ...], int] = {}
    for locations, values in samples:
        frames = tuple(name.removeprefix("a/") for location in locations for name in location)[::-1]
        expected[frames] = expected.get(frames, 0) + values[0]
    assert names(stacks) == expected


@given(st.binary(max_size=200))
def test_any_message_is_a_profile_or_refused(data: bytes) -> None:
    try:
        stacks = read_pprof(zipped(data))
    except RecordingError:
        return
    assert stacks.total >= 0


@given(st.data())
def test_a_profile_with_a_wrong_byte_is_a_profile_or_refused(data: st.DataObject) -> None:
    whole = bytearray(gzip.decompress(CPU.read_bytes()))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        stacks = read_pprof(zipped(bytes(whole)))
    except RecordingError:
        return
    assert sum(stacks.own) == stacks.total
