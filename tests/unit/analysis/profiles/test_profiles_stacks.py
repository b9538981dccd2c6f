"""Speedscope files: what the viewer needs is there, whatever the functions are called and however many they are."""

from __future__ import annotations

from typing import Any

import msgspec

from pytest_grovescale.analysis.profiles.stacks import SCHEMA, StackCounter, Stacks, speedscope

from .recorded import CPU, HEAP, PYSPY, read_folded, read_pprof


def decoded(stacks: Stacks, name: str = "operator in deploy") -> tuple[dict[str, Any], dict[tuple[str, ...], int]]:
    """Return the file's content, and its stacks by the names of their frames."""
    content = msgspec.json.decode(speedscope(stacks, name))
    frames, (profile,) = content["shared"]["frames"], content["profiles"]
    assert content["$schema"] == SCHEMA
    assert len(profile["samples"]) == len(profile["weights"])
    assert (profile["type"], profile["startValue"], profile["endValue"]) == ("sampled", 0, sum(profile["weights"]))
    named = [tuple(frames[index]["name"] for index in sample) for sample in profile["samples"]]
    return content, dict(zip(named, profile["weights"], strict=True))


def test_every_stack_with_its_weight() -> None:
    for stacks in (read_folded(PYSPY.read_bytes()), read_pprof(CPU.read_bytes())):
        _, found = decoded(stacks)
        assert found == {tuple(function.full for function in frames): weight for frames, weight in stacks.items()}


def test_bytes_are_distinguished_from_samples() -> None:
    assert decoded(read_pprof(HEAP.read_bytes(), "heap"))[0]["profiles"][0]["unit"] == "bytes"
    assert decoded(read_pprof(CPU.read_bytes()))[0]["profiles"][0]["unit"] == "none"


def test_a_frame_that_would_end_a_script() -> None:
    stacks = read_folded("<module> (m.py:1);</script> (m.py:2);größe (m.py:3) 4\n")
    text = speedscope(stacks, "</SCRIPT>")
    assert b"</" not in text
    content, found = decoded(stacks, "</SCRIPT>")
    assert content["name"] == "</SCRIPT>"
    assert found == {("<module> (m.py)", "</script> (m.py)", "größe (m.py)"): 4}


def test_three_thousand_functions() -> None:
    stacks = read_folded("".join(f"<module> (m.py:1);f{n} (m.py:{n}) {n + 1}\n" for n in range(3000)))
    content, found = decoded(stacks)
    assert len(content["shared"]["frames"]) == 3001
    assert len(found) == 3000
    assert sum(found.values()) == stacks.total


def test_the_rest_is_named() -> None:
    text = "".join(f"<module> (m.py:1);f{n} (m.py:2) 1\n" for n in range(50))
    _, found = decoded(read_folded(text, StackCounter(max_stacks=10)))
    assert found["[other stacks]",] == 40
    assert sum(found.values()) == 50


def test_nothing_at_all() -> None:
    assert decoded(read_folded(b""))[1] == {}
