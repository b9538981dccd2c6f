"""Function tables as a reader sees them: in the terminal, in a summary, and for a pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.phase_result import FunctionRow, ProfileResult
from pytest_grovescale.analysis.profiles.comparison import FunctionsCompared, functions_compared
from pytest_grovescale.analysis.profiles.phase_profiles import PhaseProfile, paired
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.errors import UsageError
from pytest_grovescale.report import document
from pytest_grovescale.report.function_table import chosen, differences
from pytest_grovescale.report.run_report import render_markdown, render_test

from .sample import DEPLOY, RESULT, TEST


def tables_text(profiles: Sequence[PhaseProfile], *, width: int = 100, **more: Any) -> str:
    return document.text(chosen(profiles, **more), width=width)


def tables_markdown(profiles: Sequence[PhaseProfile]) -> str:
    return document.markdown(chosen(profiles))


def differences_text(found: Sequence[FunctionsCompared], **more: Any) -> str:
    return document.text(differences(found, **more))


def differences_markdown(found: Sequence[FunctionsCompared]) -> str:
    return document.markdown(differences(found))


def row(name: str, samples: int, *, own: int = 0, cpu_s: float | None = 10.0, module: str = "x/y.py") -> FunctionRow:
    share = samples / 1000
    return FunctionRow(
        function=name,
        module=module,
        self_samples=own,
        samples=samples,
        share=share,
        share_low=max(share - 0.02, 0),
        share_high=min(share + 0.02, 1),
        cpu_s=None if cpu_s is None else share * cpu_s,
    )


def profile(*rows: FunctionRow, **more: Any) -> ProfileResult:
    values: dict[str, Any] = {
        "process": "operator",
        "kind": "pyspy",
        "file": "profiles/deploy.raw",
        "folded": "profiles/deploy.raw",
        "speedscope": "profiles/deploy.raw.speedscope.json",
        "samples": 1000,
        "independent": 1000.0,
        "coverage": 0.98,
        "cpu_s": 10.0,
        "functions": rows,
    }
    return ProfileResult(**{**values, **more})


BEFORE = profile(
    row("<module> (m.py)", 1000),
    row("reconcile (podclique/reconciler.py)", 600, own=100),
    row("list_pods (podclique/pods.py)", 460, own=300),
    row("old (x/y.py)", 100),
)


AFTER = profile(
    row("<module> (m.py)", 1000, cpu_s=5.0),
    row("reconcile (podclique/reconciler.py)", 610, own=200, cpu_s=5.0),
    row("list_pods (podclique/pods.py)", 120, own=90, cpu_s=5.0),
    row("new | <b> (x/y.py)", 100, cpu_s=5.0),
    cpu_s=5.0,
)


def with_profiles(profiles: tuple[ProfileResult, ...], **phase: Any) -> TestResult:
    return msgspec.structs.replace(TEST, phases=(msgspec.structs.replace(DEPLOY, profiles=profiles, **phase),))


def in_deploy(one: ProfileResult) -> list[PhaseProfile]:
    return [PhaseProfile(test="t", phase="deploy", profile=one)]


def compared(before: ProfileResult, after: ProfileResult) -> tuple[FunctionsCompared, ...]:
    return functions_compared(paired(in_deploy(before), in_deploy(after)))


def squeezed(text: str) -> list[str]:
    return [re.sub(r" +", " ", line).strip() for line in text.splitlines()]


def test_a_table_in_the_terminal(snapshot: SnapshotAssertion) -> None:
    lines = squeezed(render_test(with_profiles((BEFORE,)), width=120))
    (start,) = (at for at, line in enumerate(lines) if line.startswith("Functions of operator in deploy: "))
    assert "\n".join(lines[start : start + 7]) == snapshot
    assert {line.split()[0]: line.split()[2:5] for line in lines[start + 2 : start + 5]} == {
        "reconcile": ["100", "600", "60"],
        "list_pods": ["300", "460", "46"],
        "old": ["0", "100", "10"],
    }
    assert lines[start + 5] == f"- speedscope: {BEFORE.speedscope}"
    assert lines[start + 6] == "- folded: profiles/deploy.raw"


def test_without_profiles_nothing_is_said() -> None:
    assert "Functions of" not in render_test(TEST)
    assert "Functions of" not in render_markdown(RESULT)


def test_ten_rows_of_each_phase() -> None:
    rows = [row(f"f{number} (x/y.py)", 900 - number) for number in range(30)]
    text = render_test(with_profiles((profile(*rows),)))
    assert "f9 (x/y.py)" in text
    assert "f10 (x/y.py)" not in text


def test_why_there_is_no_table(snapshot: SnapshotAssertion) -> None:
    few = profile(problem="7 on-CPU samples, fewer than the 100", samples=7)
    lines = squeezed(
        render_test(with_profiles((few,), missing={"profile:webhook": "py-spy may not attach"}), width=200)
    )
    start = lines.index("Functions of operator in deploy")
    assert lines[start + 1] == f"- {few.problem}"
    (missing,) = (line for line in lines if line.startswith("No profile of webhook "))
    assert missing == snapshot


def test_waits_for_a_core_are_reported(snapshot: SnapshotAssertion) -> None:
    (text,) = [
        line
        for line in squeezed(tables_text(in_deploy(profile(row("f", 10), independent=412.3)), width=200))
        if "py-spy" in line
    ]
    assert "1,000 on-CPU samples (worth 412" in text
    assert text == snapshot


def test_what_the_profiler_cost_is_reported(snapshot: SnapshotAssertion) -> None:
    one = msgspec.structs.replace(BEFORE, profiled_cpu_s=11.5)
    once = tables_text(in_deploy(one), width=200).splitlines()[0]
    assert once == snapshot(name="once")
    assert once.endswith(", 11.5 s with it")
    often = tables_text(in_deploy(msgspec.structs.replace(one, repeated=161)), width=200).splitlines()[0]
    assert often == snapshot(name="often")
    assert "11.5 s with it and 161 times " in often


def test_a_long_function_is_cut_before_its_figures() -> None:
    row = msgspec.structs.replace(BEFORE.functions[0], function="f" * 200)
    text = tables_text(in_deploy(msgspec.structs.replace(BEFORE, functions=(row,))), width=80)
    line = next(line for line in text.splitlines() if "ffff" in line)
    assert len(line) <= 80
    assert re.search(r"f… +\d+ +[\d,]+ +100 % +98 to 100 % +10.0 s$", line)


def test_a_files_path_stays_in_one_line() -> None:
    one = msgspec.structs.replace(BEFORE, speedscope="profiles/" + "x" * 150 + ".json")
    assert f"- speedscope: {one.speedscope}\n" in tables_text(in_deploy(one), width=80)


def test_a_heap_has_files_only(snapshot: SnapshotAssertion) -> None:
    heap = profile(kind="heap", file="h.pb.gz", folded="h.folded", speedscope="h.json", samples=None, coverage=0.0)
    lines = squeezed(render_test(with_profiles((heap,))))
    (start,) = (at for at, line in enumerate(lines) if line.startswith("Heap in use of operator "))
    assert lines[start] == snapshot
    assert lines[start + 1 : start + 4] == ["- speedscope: h.json", "- folded: h.folded", "- raw: h.pb.gz"]


def test_a_table_in_a_summary(snapshot: SnapshotAssertion) -> None:
    result = msgspec.structs.replace(RESULT, tests=(with_profiles((BEFORE,)),))
    text = render_markdown(result)
    start = text.index("#### Functions of operator in deploy\n")
    _, facts, table, *_ = text[start:].split("\n\n")
    assert facts == snapshot(name="heading")
    assert table == snapshot(name="table")
    (pods,) = (line for line in table.splitlines() if line.startswith("| list\\_pods "))
    assert pods.split(" | ")[1:4] == ["300", "460", "46 %"]


def test_unknown_cpu_seconds_are_no_zero(snapshot: SnapshotAssertion) -> None:
    text = tables_markdown(in_deploy(profile(row("f (m.py)", 500, cpu_s=None), cpu_s=None)))
    assert "| f (m.py) | 0 | 500 | 50 % | 48 to 52 % | – |" in text
    assert text == snapshot


def test_functions_that_only_lead_to_others_on_request() -> None:
    assert "module" not in tables_text(in_deploy(BEFORE))
    assert "module" in tables_text(in_deploy(BEFORE), trunk=True)


def test_two_runs_as_markdown(snapshot: SnapshotAssertion) -> None:
    lines = differences_markdown(compared(BEFORE, AFTER)).splitlines()
    assert "\n".join(lines) == snapshot
    assert lines[2:9] == [
        "| function | before | after | Δ |  |",
        "|---|---:|---:|---:|---|",
        "| all functions | 10.0 s | 5.00 s | −50 % |  |",
        "| reconcile (podclique/reconciler.py) | 6.00 s | 3.05 s | −49 % |  |",
        "| list\\_pods (podclique/pods.py) | 4.60 s | 0.600 s | −87 % |  |",
        "| old (x/y.py) | 1.00 s | – | gone |  |",
        "| new \\| \\<b\\> (x/y.py) | – | 0.500 s | new |  |",
    ]


def test_two_runs_in_the_terminal(snapshot: SnapshotAssertion) -> None:
    lines = squeezed(differences_text(compared(BEFORE, BEFORE), top=1))
    assert lines[:3] == [
        "CPU of operator: deploy",
        "function before after Δ",
        "all functions 10.0 s 10.0 s +0 %",
    ]
    assert "6.00 s 6.00 s +0 %" in lines[3]
    assert "\n".join(lines) == snapshot


def test_without_exact_cpu_seconds_shares_are_compared_and_labelled(snapshot: SnapshotAssertion) -> None:
    text = differences_markdown(compared(profile(row("f (m.py)", 500), cpu_s=None), AFTER))
    assert "| f (m.py) | 50 % | – | gone |  |" in text
    assert "all functions" not in text
    assert text == snapshot


def test_a_side_without_a_table_says_why() -> None:
    few = profile(problem="7 on-CPU samples", samples=7)
    for render in (differences_markdown, differences_text):
        assert "after: 7 on-CPU samples" in render(compared(BEFORE, few))


def test_what_the_profiler_cost_is_reported_of_both_runs(snapshot: SnapshotAssertion) -> None:
    before = msgspec.structs.replace(BEFORE, profiled_cpu_s=11.5, repeated=161)
    after = msgspec.structs.replace(AFTER, profiled_cpu_s=5.2)
    for render in (differences_markdown, differences_text):
        found = " ".join(render(compared(before, after)).split())
        assert found.count("CPU with a profiler: ") == 1
        reported = found[found.index("CPU with a profiler: ") :]
        assert reported == snapshot
        assert "before 11.5 s instead of 10.0 s for 161 times" in reported
        assert "after 5.20 s instead of" in reported
        assert "CPU with a profiler" not in render(compared(BEFORE, AFTER))


def test_runs_that_have_nothing_in_common(snapshot: SnapshotAssertion) -> None:
    other = [PhaseProfile(test="t", phase="delete", profile=AFTER)]
    with pytest.raises(UsageError) as caught:
        paired(in_deploy(BEFORE), other)
    assert str(caught.value) == snapshot
