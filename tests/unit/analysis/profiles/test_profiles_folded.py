"""Folded stacks: what py-spy wrote, names of every kind, files that are damaged, and files of any size."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Iterator
from io import RawIOBase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.analysis.profiles import folded
from pytest_grovescale.analysis.profiles.stacks import OTHER_FUNCTIONS, OTHER_STACKS, StackCounter

from .recorded import PYSPY, names, read_folded


def test_a_recorded_profile() -> None:
    stacks = read_folded(PYSPY.read_bytes())
    # 18 samples stand in the event loop's select; the rest is what the program computed.
    assert (stacks.total, stacks.waiting, stacks.entries) == (263, 18, 5)
    assert (stacks.damaged, stacks.rootless, stacks.cut) == (0, 0, False)
    burn = next(index for index, function in enumerate(stacks.functions) if function.name == "burn (t.py)")
    assert stacks.own[burn] == stacks.within[burn] == 137 + 121  # in both threads
    assert not any("thread" in function.name and "(5" in function.name for function in stacks.functions)


def test_lines_of_one_function_are_one() -> None:
    stacks = read_folded("<module> (m.py:1);f (a/b/c.py:10) 3\n<module> (m.py:2);f (a/b/c.py:20) 4\n")
    assert names(stacks) == {("<module> (m.py)", "f (b/c.py)"): 7}
    assert stacks.functions[1].module == "a/b/c.py"


def test_files_outside_of_the_path_do_not_tell_whose_machine_it_was() -> None:
    stacks = read_folded("<module> (/home/somebody/work/podclique/reconciler.py:1) 3\n")
    assert stacks.functions[0].full == "<module> (podclique/reconciler.py)"


@pytest.mark.parametrize(
    "label",
    [
        "thread (4711): a;b; c;",
        "thread (0x7F00FF)",
        'process 12:"python;x";thread (4711): MainThread',
        "thread (1): (x)",
    ],
)
def test_threads_and_processes_are_no_functions(label: str) -> None:
    stacks = read_folded(f"{label};<module> (m.py:1);f (m.py:2) 3\n")
    assert names(stacks) == {("<module> (m.py)", "f (m.py)"): 3}


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        ("größe (ünï/模块.py:3)", "größe (ünï/模块.py)"),
        ("two words (m.py:3)", "two words (m.py)"),
        ("</script> (m.py:3)", "</script> (m.py)"),
        ("a;b (m.py:3)", "a;b (m.py)"),
        ("f (a;b.py:3)", "f (a;b.py)"),
        ("f (Copy (2)/m.py:3)", "f (Copy (2)/m.py)"),
        ("<lambda> (<string>:1)", "<lambda> (<string>)"),
        ("f (m.py)", "f (m.py)"),
        ("f (m.py:-1)", "f (m.py)"),
    ],
)
def test_names_of_every_kind(frame: str, name: str) -> None:
    stacks = read_folded(f"<module> (m.py:1);{frame};g (m.py:9) 2\n")
    assert names(stacks) == {("<module> (m.py)", name, "g (m.py)"): 2}


def test_frames_without_files_are_kept_as_they_are() -> None:
    stacks = read_folded("main;read file;parse 2\n")
    assert names(stacks) == {("main", "read file", "parse"): 2}
    assert stacks.rootless == 0


def test_bytes_that_are_no_text_are_a_name_like_any_other() -> None:
    stacks = read_folded(b"<module> (m.py:1);f\xff\xfe (m.py:2) 5\n")
    assert (stacks.total, stacks.damaged) == (5, 0)


@pytest.mark.parametrize(
    "line",
    ["", " ", "f (m.py:1)", "f (m.py:1) ", "f (m.py:1) x", "f (m.py:1) -3", "f (m.py:1) 1.5", " 12", "f " + "9" * 5000],
)
def test_lines_that_are_no_stack_are_counted(line: str) -> None:
    stacks = read_folded(f"<module> (m.py:1) 4\n{line}\n<module> (m.py:1) 5\n")
    assert (stacks.total, stacks.damaged, stacks.entries) == (9, 1, 3)


def test_no_samples() -> None:
    assert read_folded(b"").total == 0
    stacks = read_folded("<module> (m.py:1);f (m.py:2) 0\n")
    assert (stacks.total, stacks.counts, stacks.damaged) == (0, {}, 0)


def test_a_file_that_was_cut_says_so() -> None:
    whole = PYSPY.read_bytes()
    stacks = read_folded(whole[:-2])  # the last number has lost a digit, perhaps
    assert stacks.cut
    assert (stacks.damaged, stacks.total) == (1, read_folded(whole).total)
    assert not read_folded(whole).cut


def test_a_line_without_end_is_not_read_into_memory() -> None:
    long = b"f (m.py:1);" * 200_000 + b"g (m.py:1) 1\n"
    stacks = read_folded(b"<module> (m.py:1) 4\n" + long + b"<module> (m.py:1) 5\n")
    assert (stacks.total, stacks.damaged, stacks.cut) == (9, 1, False)
    assert read_folded(long[:-1]).cut


def test_torn_stacks_have_no_root() -> None:
    stacks = read_folded(
        "<module> (m.py:1);f (m.py:2) 5\n"
        "Worker._bootstrap (threading.py:1002);f (m.py:2) 7\n"
        "_run_module_as_main (<frozen runpy>:198);f (m.py:2) 11\n"
        "tick (m.py:10);f (m.py:2) 2\n"
    )
    assert (stacks.total, stacks.rootless) == (25, 2)


def test_beyond_the_cap_stacks_are_one_and_tables_still_whole() -> None:
    text = "".join(f"<module> (m.py:1);f{n} (m.py:2) 1\n" for n in range(50))
    stacks = read_folded(text, StackCounter(max_stacks=10))
    assert (stacks.total, stacks.rest, len(stacks.counts)) == (50, 40, 10)
    assert dict(stacks.items())[(OTHER_STACKS,)] == 40
    assert stacks.within[0] == 50
    assert sum(stacks.own) == 50
    assert read_folded(text, StackCounter(max_frames=20)).rest == 40


def test_beyond_the_cap_functions_are_one() -> None:
    text = "".join(f"<module> (m.py:1);f{n} (m.py:2) 1\n" for n in range(50))
    stacks = read_folded(text, StackCounter(max_functions=10))
    assert len(stacks.functions) == 11
    assert stacks.own[stacks.functions.index(OTHER_FUNCTIONS)] == 41


class Endless(RawIOBase):
    """A file that is made while it is read: different stacks, line after line."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._lines = self._made()

    def _made(self) -> Iterator[bytes]:
        n = 0
        while True:
            n += 1
            deep = ";".join(f"function_{n % 997}_{depth} (package/module_{depth}.py:{n % 89})" for depth in range(20))
            yield f"<module> (m.py:1);{deep};leaf_{n} (m.py:{n}) 3\n".encode()

    def readline(self, size: int | None = -1, /) -> bytes:
        if self._left <= 0:
            return b""
        line = next(self._lines)
        self._left -= len(line)
        return line


def test_memory_does_not_grow_with_the_file() -> None:
    def peak(size: int) -> int:
        counter = StackCounter(max_stacks=20, max_functions=1000)
        tracemalloc.start()
        folded.feed(counter, Endless(size))  # type: ignore[arg-type]  # a BinaryIO, as far as it is used
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert counter.stacks().rest > 0
        return found

    assert peak(600_000) < 1.2 * peak(200_000)


_NAMES = st.text(
    st.characters(exclude_characters="\n;()", categories=["L", "N", "P", "S", "Zs", "Cc"]), min_size=1, max_size=8
)
_FRAMES = st.builds(lambda name, line: f"{name} (m.py:{line})", _NAMES, st.integers(0, 99))
_STACKS = st.lists(_FRAMES, min_size=1, max_size=5).map(tuple)


@given(st.lists(st.tuples(_STACKS, st.integers(1, 1000))))
def test_no_sample_is_lost_or_counted_twice(lines: list[tuple[tuple[str, ...], int]]) -> None:
    text = "".join(f"{';'.join(stack)} {weight}\n" for stack, weight in lines)
    stacks = read_folded(text)
    assert stacks.total + stacks.waiting == sum(weight for _, weight in lines)
    assert sum(stacks.own) == sum(stacks.counts.values()) == stacks.total
    expected: Counter[str] = Counter()
    for stack, weight in lines:
        for name in {frame.rpartition(":")[0] + ")" for frame in stack}:
            expected[name] += weight
    found = {function.name: stacks.within[index] for index, function in enumerate(stacks.functions)}
    assert found == dict(expected)


@given(st.binary(max_size=300))
def test_any_bytes_are_read(data: bytes) -> None:
    stacks = read_folded(data)
    assert stacks.entries == data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
    assert stacks.damaged <= stacks.entries
