"""The terminal text: every figure with its unit, plain on request, the same bytes each time, nothing smuggled in."""

from __future__ import annotations

import re

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.phase_result import MilestoneResult, PhaseResult
from pytest_grovescale.analysis.result import CheckResult, Evidence, Finding, Severity, StackGroup, TestResult
from pytest_grovescale.report.html.page import render_run
from pytest_grovescale.report.run_report import render_line, render_summary, render_test, render_warnings
from pytest_grovescale.report.traffic_table import dominating

from .sample import DEPLOY, PASSED, RESULT, STEADY, TEST, row


def squeezed(text: str) -> list[str]:
    """Lines with runs of spaces as one, so that column widths are not asserted."""
    return [re.sub(r" +", " ", line).strip() for line in text.splitlines()]


def test_the_same_result_gives_the_same_bytes() -> None:
    again = msgspec.json.decode(msgspec.json.encode(TEST), type=TestResult)
    assert render_test(TEST) == render_test(again)
    assert render_test(TEST, color=True) == render_test(again, color=True)


def test_the_environment_does_not_change_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = render_test(TEST)
    for name, value in {"COLUMNS": "40", "FORCE_COLOR": "1", "TERM": "dumb", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    assert render_test(TEST) == before


def test_the_verdict_comes_first_then_why_then_what_inflates_the_figures(snapshot: SnapshotAssertion) -> None:
    first, *others = render_test(TEST, width=300).splitlines()[:5]
    assert "\n".join([first, *others]) == snapshot
    assert render_summary(TEST, width=300).splitlines()[:5] == [first, *others]
    assert first.startswith("FAILED test_thousand_pods: ")
    for line, part in zip(others, ("timed out after 2m00s", "t/pod-0", "t/pod-1", "97 % of 2 cores"), strict=True):
        assert line.startswith("- ")
        assert part in line


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("phases", [1, 4, 20])
def test_the_answer_has_at_most_25_lines(width: int, phases: int) -> None:
    many = tuple(msgspec.structs.replace(DEPLOY, name=f"deploy-{n}", outcome="timeout") for n in range(phases))
    findings = tuple(Finding(id="idle-work", severity="defect", text="it works " * 20) for _ in range(5))
    checks = tuple(
        CheckResult(
            check=f"cpu({n})", subject="operator CPU", verdict="fail", text="operator CPU 6.84 s > 5 s", phase="p"
        )
        for n in range(30)
    )
    for test in (TEST, PASSED, msgspec.structs.replace(TEST, phases=(*many, STEADY), checks=checks, findings=findings)):
        assert len(render_summary(test, width=width).splitlines()) <= 25


def test_the_phase_that_failed_is_shown_however_many_there_are() -> None:
    passed = tuple(msgspec.structs.replace(STEADY, name=f"steady-{n}", outcome="passed") for n in range(20))
    late = msgspec.structs.replace(DEPLOY, name="upgrade", outcome="timeout")
    rows = squeezed(render_summary(msgspec.structs.replace(TEST, phases=(*passed, late))))
    shown = [row.split()[0] for row in rows if row.startswith(("steady-", "upgrade"))]
    assert shown[0] == "steady-0"
    assert shown[-1] == "upgrade"


def test_a_row_that_does_not_fit_is_a_paragraph(snapshot: SnapshotAssertion) -> None:
    lines = squeezed(render_summary(TEST, width=40))
    at = lines.index("steady-state")
    paragraph = " ".join(lines[at : at + 3])
    assert paragraph == snapshot
    assert paragraph.endswith(" reconciles 1")


def test_one_line_says_verdict_and_first_reason(snapshot: SnapshotAssertion) -> None:
    failed, passed = render_line(TEST), render_line(PASSED)
    assert failed == snapshot(name="failed")
    assert failed.startswith(f"FAILED {TEST.test} - ")
    assert "\n" not in failed
    assert passed == snapshot(name="passed")
    assert passed.startswith(f"PASSED {PASSED.test} - ")


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({"verdict": "error", "error": "ApiError: 409"}, ("ERROR test_a: ", "ApiError: 409")),
        ({"verdict": "failed", "failure": "assert 3 == 4"}, ("FAILED test_a: ", "- assert 3 == 4")),
    ],
    ids=["error", "failure"],
)
def test_what_ended_a_test_between_phases_is_shown(
    fields: dict[str, str], parts: tuple[str, str], snapshot: SnapshotAssertion
) -> None:
    shown = "\n".join(squeezed(render_test(msgspec.structs.replace(PASSED, **fields), width=300))).split("\n\n")[0]
    assert shown == snapshot
    assert shown.startswith(parts[0])
    assert parts[1] in shown


@pytest.mark.parametrize(
    "line",
    [
        "deploy passed 11.2 s pods-created 4.31 s 4.271 to 4.280 s",
        "steady-state passed 30.0 s held 30.0 s",
        "operator 4.31 s 0.305 s ≥ 1.20 s 96.4 MB 101 MB",
        "all, of the machine 97 % 4.1 % –",
        "watches cut by the server 46 0 –",
        "operator 3,028 – 9 4 1,000 2,003 – 12 3 8.76 ms",
        "2 others 2 2 – – – – – – 0 8.76 ms",
        "delete (at least)",
        "deploy 0.009 0.004 1.00 2.00",
        "podcliqueset 43 (2 failed) 1 –",
        "and 2 more in the recording",
    ],
)
def test_what_it_says(line: str) -> None:
    assert line in squeezed(render_test(TEST, width=140))


@pytest.mark.parametrize(
    "start",
    [
        "pcs-available 11.1 s",
        "delete timeout 2m00s",
        "- delete: phase",
        "- pcs-available: ",
        "No-op in steady-state: ",
        "- pods t/pod-0, ",
        "- audit broke off",
    ],
)
def test_what_it_says_in_sentences(start: str, snapshot: SnapshotAssertion) -> None:
    (line,) = (line for line in squeezed(render_test(TEST, width=140)) if line.startswith(start))
    assert line == snapshot


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize("color", [False, True])
def test_it_keeps_to_its_width(width: int, color: bool) -> None:
    text = re.sub(r"\x1b\[[0-9;]*m", "", render_test(TEST, width=width, color=color))
    assert max(len(line) for line in text.splitlines()) <= width


def test_figures_are_not_cut_at_the_default_width() -> None:
    text = render_test(TEST)
    tables = text[text.index("CPU time") : text.index("What pods-gone")]
    assert "…" not in tables


def test_plain_text_has_no_escape_sequences_and_names_cannot_add_any() -> None:
    evil = msgspec.structs.replace(DEPLOY, name="a\x1b]0;x\x07b\u202e[red]", message="\x1b[2J", outcome="failed")
    text = render_test(msgspec.structs.replace(TEST, phases=(evil,)))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
    assert "[red]" in text


def test_color_marks_the_outcome() -> None:
    assert "\x1b[32m" in render_test(PASSED, color=True)
    assert "\x1b[1;31m" in render_test(TEST, color=True)


def test_an_inconclusive_no_op_says_why(snapshot: SnapshotAssertion) -> None:
    phase = msgspec.structs.replace(STEADY, trigger_writes=0)
    lines = render_test(msgspec.structs.replace(TEST, phases=(phase,)), width=300).splitlines()
    (reported,) = (line for line in lines if "Inconclusive: " in line)
    assert reported == snapshot
    assert "0 writes of 1 " in reported


def test_many_phases_are_split_over_tables() -> None:
    phases = tuple(msgspec.structs.replace(DEPLOY, name=f"phase-{index}") for index in range(12))
    text = render_test(msgspec.structs.replace(TEST, phases=phases))
    assert text.count("CPU time and memory") == 3
    assert "…" not in text[: text.index("log:operator")]


def test_a_test_without_phases_or_figures() -> None:
    bare = msgspec.structs.replace(
        TEST, phases=(), recorder=None, watch_lag=None, watches=(), evidence=(), warnings=(), objects=None
    )
    assert render_test(bare).startswith("FAILED test_thousand_pods")
    phase = PhaseResult(
        name="p",
        outcome="unfinished",
        started="2026-01-31T12:00:00.000Z",
        seconds=0.0,
        timeout_s=1.0,
        milestones=(MilestoneResult(name="m", condition="x and y", met=False),),
        missing={"audit": "a", "reconciles": "b", "saturation": "c"},
    )
    text = render_test(msgspec.structs.replace(bare, phases=(phase,)))
    assert "not met yet: x and y" in text
    for line in ("CPU: not measured (c)", "API requests: not measured (a)", "Reconciles: not measured (b)"):
        assert line in text


def test_a_damaged_recording_is_a_warning_of_the_run() -> None:
    assert render_warnings(RESULT.warnings).endswith("Warnings\n- recordings/x.jsonl: damaged\n")
    assert render_warnings(()) == ""


def test_traffic_of_five_thousand_pods_fits_the_default_width() -> None:
    counts = {"get": 12, "list": 45, "watch": 100, "create": 12_500, "update": 5_000, "patch": 12_500, "delete": 4_950}
    counts["deletecollection"] = 50
    kcm = "kube-controller-manager"
    rows = tuple(row(verb, n, identity=kcm, p99_ms=0.672) for verb, n in counts.items())
    leases = row("update", 5_000, identity=kcm, category="lease", p99_ms=0.672)
    phase = msgspec.structs.replace(DEPLOY, api=(*rows, leases))
    text = render_test(msgspec.structs.replace(TEST, phases=(phase,), evidence=()))
    assert "…" not in text
    assert f"{kcm} 40,157 12 45 100 12,500 5,000 12,500 5,000 5,000 0 0.672 ms" in squeezed(text)


def test_stacks_are_counted_by_place_and_no_line_of_a_dump_is_shown(snapshot: SnapshotAssertion) -> None:
    group = StackGroup(
        kind="reconcile worker",
        count=11,
        of=21,
        function="recorder.RecordErrors",
        place="pkg/recorder.go:31",
        state="chan receive",
        frames=("recorder.RecordErrors (pkg/recorder.go:31)",),
    )
    idle = msgspec.structs.replace(group, count=10, waits_for_key=True)
    others = tuple(
        msgspec.structs.replace(group, kind="goroutine", count=1, of=5, function=f"net.f{n}") for n in range(5)
    )
    dump = Evidence(source="stacks:operator", phase="deploy", lines=("raw",), stacks=(group, idle, *others))
    nothing = Evidence(source="stacks:operator", phase="deploy", lines=())
    text = render_test(msgspec.structs.replace(TEST, evidence=(dump, nothing)))
    title, first, second, *more = text[text.index("Stacks of operator in deploy\n") :].split("\n\n")[0].splitlines()
    assert "\n".join([title, first, second, *more]) == snapshot
    assert first.startswith("- 11 of 21 ")
    assert " recorder.RecordErrors " in first
    assert "(pkg/recorder.go:31), chan receive" in first
    assert second.startswith("- 10 of 21 ")
    assert "- 2 more in 2 other places" in more
    assert "raw" not in text
    page = render_run(msgspec.structs.replace(RESULT, tests=(msgspec.structs.replace(TEST, evidence=(dump,)),)))
    assert first.removeprefix("- ").partition(" (")[0] in page


def test_a_resource_that_dominates_a_verb_is_named() -> None:
    phase = msgspec.structs.replace(
        DEPLOY,
        api=(
            row("create", 900, resource="pods"),
            row("create", 100, resource="podcliques.grove.io"),
            row("patch", 500, resource="podcliques.grove.io/status"),
            row("patch", 500, resource="podcliques.grove.io/status", code=409),
            row("patch", 900, resource="pods"),
            # No resource dominates, too few, a small share, and none of an object.
            *(row("update", 300, resource=name) for name in ("a", "b", "c")),
            row("list", 9, resource="pods"),
            row("delete", 20, resource="pods"),
            row("get", 900, resource="leases.coordination.k8s.io", category="lease"),
            row("patch", 1000, identity="kwok", resource="pods/status"),
            row("get", 3, identity="recorder"),
            row("get", 3, identity="harness"),
        ),
    )
    named = ["operator: create pods 90 %, patch podcliques/status 53 %", "kwok: patch pods/status 100 %"]
    assert list(dominating(phase)) == named
    text = render_test(msgspec.structs.replace(TEST, phases=(phase,)))
    assert all(f"deploy, {line}\n" in text for line in named)
    page = render_run(msgspec.structs.replace(RESULT, tests=(msgspec.structs.replace(TEST, phases=(phase,)),)))
    assert all(f"<li>deploy, {line}</li>" in page for line in named)


@pytest.mark.parametrize(
    ("severities", "shown"),
    [
        (("defect", "note"), ["defect: text 0 (rule-0)", "and 1 more finding, with -v"]),
        (("note", "note"), ["2 notes on the operator, with -v"]),
        ((), []),
    ],
)
def test_notes_are_counted_where_there_is_nothing_worse(severities: tuple[Severity, ...], shown: list[str]) -> None:
    found = tuple(
        Finding(id=f"rule-{number}", severity=severity, text=f"text {number}")
        for number, severity in enumerate(severities)
    )
    lines = render_summary(msgspec.structs.replace(PASSED, findings=found), width=200).splitlines()
    said = [line.removeprefix("- ") for line in lines if "rule-" in line or "-v" in line]
    assert said == shown
