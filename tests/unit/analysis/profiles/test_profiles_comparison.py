"""What the profiles of two variants say, and why where they say nothing."""

from __future__ import annotations

import msgspec
import pytest

from pytest_grovescale.analysis.phase_result import ProfileResult
from pytest_grovescale.analysis.profiles.comparison import (
    FunctionsCompared,
    NotProfiled,
    alone,
    failed,
    functions_compared,
)
from pytest_grovescale.analysis.profiles.phase_profiles import PhaseProfile, every_cpu_profile, matched, with_table
from tests.unit.report.sample import DEPLOY, RESULT, TEST

from .recorded import read_folded

TRUNK = "<module> (m.py:1);main (m.py:1)"
NAMES = ("baseline", "optimized")


def one(phase: str = "deploy", *, burn: int = 300, problem: str = "") -> PhaseProfile:
    stacks = read_folded(f"{TRUNK};burn (m.py:2) {burn}\n{TRUNK};rest (m.py:3) 200\n")
    empty = ProfileResult(process="operator", kind="pyspy", file="profiles/x.raw", profiled_cpu_s=6.0, repeated=20)
    profile = msgspec.structs.replace(empty, problem=problem) if problem else with_table(empty, stacks, cpu_s=5.0)
    return PhaseProfile(test="t", phase=phase, profile=profile)


def test_functions_and_what_the_profiler_cost() -> None:
    (found,) = functions_compared([(one(burn=300), one(burn=50))], top=1)
    assert (found.phase, found.process, found.kind) == ("deploy", "operator", "pyspy")
    assert (found.before.cpu_s, found.before.profiled_cpu_s, found.before.repeated) == (5.0, 6.0, 20)
    assert (found.before.samples, found.after.samples) == (500, 250)
    assert found.difference is not None
    assert [row.function for row in found.difference.rows] == ["main (m.py)"]


def test_a_side_without_a_table_keeps_its_reason() -> None:
    why = "7 on-CPU samples: make the phase longer"
    (found,) = functions_compared([(one(), one(problem=why))])
    assert found.difference is None
    assert (found.before.problem, found.after.problem) == ("", why)


def test_it_is_the_same_again_from_json() -> None:
    found = functions_compared([(one(), one(burn=50)), (one(), one(problem="too few"))])
    assert msgspec.json.decode(msgspec.json.encode(found), type=tuple[FunctionsCompared, ...]) == found


def test_what_could_not_be_taken_comes_with_the_profilers_remedy() -> None:
    why = "py-spy is not permitted to read the process. Run as root."
    phase = msgspec.structs.replace(DEPLOY, missing={"profile:operator": why, "audit": "rotated away"})
    result = msgspec.structs.replace(RESULT, tests=(msgspec.structs.replace(TEST, phases=(phase,)),))
    assert failed("optimized", result) == (
        NotProfiled(variant="optimized", phase="deploy", process="operator", why=why),
    )
    assert every_cpu_profile(result) == ()


@pytest.mark.parametrize(
    ("known", "lacking"),
    [
        ([], ["delete", "steady-state"]),
        ([NotProfiled(variant="optimized", phase="delete", process="operator", why="it crashed")], ["steady-state"]),
        ([NotProfiled(variant="optimized", why="its run ended before it began")], []),
        ([NotProfiled(variant="baseline", why="its run ended before it began")], ["delete", "steady-state"]),
    ],
)
def test_a_profile_that_only_one_variant_has_is_reported_once(known: list[NotProfiled], lacking: list[str]) -> None:
    before, after = [one(), one("delete"), one("steady-state")], [one()]
    assert len(matched(before, after)) == 1
    found = alone(NAMES, before, after, known)
    assert [(missing.variant, missing.phase) for missing in found] == [("optimized", phase) for phase in lacking]
    turned = alone(NAMES, after, before, [])
    assert {missing.variant for missing in turned} == {"baseline"}
