"""What a reader sees of metrics endpoints: in the terminal, in a Markdown summary, on the page."""

from __future__ import annotations

import re
from html import unescape

import msgspec
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.controller_result import BlockedSpell, WorkerRow
from pytest_grovescale.analysis.metrics.summary import Curves, Line
from pytest_grovescale.analysis.result import FamilySummary, FamilyVerdict, RetypedFamily, TargetSummary, TestResult
from pytest_grovescale.analysis.timeline import Timeline
from pytest_grovescale.report.html.page import render_run
from pytest_grovescale.report.run_report import render_markdown, render_test

from .sample import DEPLOY, RESULT, STEADY, TEST

OPERATOR = TargetSummary(
    target="operator",
    scrapes=31,
    up_share=1.0,
    series_first=449,
    series_last=1452,
    series_peak=1460,
    families=34,
    own=(
        FamilySummary(
            family="my_pods_total",
            type="counter",
            series_first=0,
            series_last=1000,
            series_peak=1008,
            value_first=1.0,
            value_last=2_000.0,
            value_max=2_000.5,
        ),
        FamilySummary(family="my_errors_total", type="counter", series_first=24, series_last=24, series_peak=24),
    ),
    own_families=2,
    took_p50_ms=3.997,
    took_p99_ms=8.42,
)
DEAF = TargetSummary(target="kwok", scrapes=0, failures=1, failure="127.0.0.1: no answer\x1b[31m", up_share=0.0)
SHAKY = msgspec.structs.replace(
    OPERATOR, target="etcd", failures=1204, failure="HTTP 500", up_share=0.9871, own=(), own_families=0
)


def having(*targets: TargetSummary) -> TestResult:
    return msgspec.structs.replace(TEST, metrics=targets)


def squeezed(text: str) -> list[str]:
    return [re.sub(r" +", " ", line).strip() for line in text.splitlines()]


def notes(page: str) -> str:
    """Return what stands below the tables of a page, a line each."""
    return "\n".join(unescape(note) for note in re.findall(r'<(?:p|li) class="note[^"]*">(.*?)</(?:p|li)>', page))


def test_the_terminal_has_a_row_for_each_target(snapshot: SnapshotAssertion) -> None:
    lines = squeezed(render_test(having(OPERATOR, SHAKY, DEAF)))
    assert "\n".join(lines[lines.index("Metrics endpoints") :]).split("\n\n")[0] == snapshot
    for line in (
        "target up scrapes families series first last most took p99",
        "operator 100 % 31 34 449 1,452 1,460 4.00 ms 8.42 ms",
        "etcd 99 % 31 34 449 1,452 1,460 4.00 ms 8.42 ms",
        "kwok 0 % 0 – – – – – –",
        "The operator's own metrics",
        "my_pods_total counter 0 1,000 1,008 1 2,000 2,000",
        "my_errors_total counter 24 24 24 – – –",
    ):
        assert line in lines, line


def test_families_that_change_their_types_are_marked_everywhere(snapshot: SnapshotAssertion) -> None:
    one = RetypedFamily(family="my_total", before="counter", after="gauge", when="4.2 s into deploy")
    test = having(msgspec.structs.replace(OPERATOR, retyped=(one,) * 5, type_changes=7))
    terminal = " ".join(squeezed(render_test(test)))
    reported = terminal[terminal.index("- operator changed types: ") :].partition(" and 4 more")[0]
    assert reported == snapshot
    first, second, third, end = reported.removeprefix("- ").split(";")
    assert "my_total" in first
    assert (second, end) == (third, "")
    whole = msgspec.structs.replace(RESULT, tests=(test,))
    assert first.replace("_", chr(92) + "_") in render_markdown(whole)
    assert first in render_run(whole)


def test_each_own_family_has_its_verdict_everywhere(snapshot: SnapshotAssertion) -> None:
    verdicts = (
        FamilyVerdict(family="my_errors_total", kind="novel"),
        FamilyVerdict(
            family="my_pods_total", kind="duplicate", other="x_total", query="sum(x_total)", why="equal at 9"
        ),
    )
    test = having(msgspec.structs.replace(OPERATOR, verdicts=verdicts))
    lines = squeezed(render_test(test))
    assert "my_pods_total counter 0 1,000 1,008 1 2,000 2,000 duplicate" in lines
    assert "my_errors_total counter 24 24 24 – – – novel" in lines
    (reported,) = (line.removeprefix("- ") for line in lines if line.startswith("- my_pods_total: duplicate"))
    assert reported == snapshot
    assert reported.endswith(" sum(x_total)")
    whole = msgspec.structs.replace(RESULT, tests=(test,))
    assert "| my\\_errors\\_total | counter | 24 | 24 | 24 | – | – | – | novel |" in render_markdown(whole)
    assert f"- {reported}".replace("_", chr(92) + "_") in render_markdown(whole)
    assert f"{reported}</li>" in render_run(whole)


def test_one_that_failed_at_last_is_reported_of(snapshot: SnapshotAssertion) -> None:
    last = msgspec.structs.replace(OPERATOR, failures=1, failure="HTTP 401")
    (reported,) = (line for line in squeezed(render_test(having(last))) if line.endswith(": HTTP 401"))
    assert reported == snapshot


def test_it_fits_the_terminal() -> None:
    long = msgspec.structs.replace(OPERATOR, target="a-component-with-a-name-of-some-length")
    assert all(len(line) <= 100 for line in render_test(having(OPERATOR, long)).splitlines())


def test_without_a_target_nothing_is_said_of_metrics() -> None:
    assert "etrics" not in render_test(having())
    assert "metrics of" not in render_markdown(msgspec.structs.replace(RESULT, tests=(having(),)))
    assert "t0-metrics" not in render_run(msgspec.structs.replace(RESULT, tests=(having(),)))


def test_many_targets_are_cut_and_said_to_be() -> None:
    pods = [msgspec.structs.replace(OPERATOR, target=f"pod-{n}", own=(), own_families=0) for n in range(40)]
    lines = squeezed(render_test(having(OPERATOR, *pods)))
    assert "and 31 more in result.json" in lines
    assert not [line for line in lines if line.startswith("pod-9 ")]


def test_the_markdown_summary(snapshot: SnapshotAssertion) -> None:
    text = render_markdown(msgspec.structs.replace(RESULT, tests=(having(OPERATOR, DEAF),)))
    assert "| operator | 100 % | 31 | 34 | 449 | 1,452 | 1,460 | 4.00 ms | 8.42 ms |" in text
    (reported,) = (part for part in text.split("\n\n") if part.startswith("- kwok "))
    assert reported == snapshot
    assert "| my\\_pods\\_total | counter | 0 | 1,000 | 1,008 |" in text
    assert "| my\\_errors\\_total | counter | 24 | 24 | 24 |" in text


def test_the_page(snapshot: SnapshotAssertion) -> None:
    page = render_run(msgspec.structs.replace(RESULT, tests=(having(OPERATOR, SHAKY, DEAF),)))
    shown = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    assert "operator 100 % 31 34 449 1,452 1,460 4.00 ms 8.42 ms" in shown
    failures = notes(page[page.index('id="t0-metrics"') :])
    assert failures == snapshot
    assert "etcd did not answer 1.3 %" in failures
    assert "The operator’s own: 2 families" in shown
    assert "my_pods_total counter 0 1,000 1,008 1 2,000 2,000" in shown
    assert 'href="#t0-metrics"' in page
    assert 'data-chart="series"' not in page
    assert "\x1b" not in page


def test_a_page_with_a_timeline_has_charts() -> None:
    curves = Curves(name="series", unit="series", lines=(Line(name="operator", at_s=(1.0,), values=(449.0,)),))
    timeline = Timeline(seconds=10.0, bin_s=1.0, metrics=(curves,))
    page = render_run(msgspec.structs.replace(RESULT, tests=(having(OPERATOR),)), timelines={TEST.recording: timeline})
    assert page.count('data-chart="series"') == page.count('data-chart="families"') == 1
    assert '"unit":"series"' in page


WAITS = WorkerRow(
    controller="set",
    workers=5,
    active_share=1.0,
    busy_workers=5.0,
    finished_per_s=0.25,
    cores_per_worker=0.003,
    depth_max=95,
    longest_s=20.1,
    scrapes=9,
    blocked=(BlockedSpell(start_s=1.0, end_s=41.5),),
)
IDLE = WorkerRow(controller="clique", workers=5, active_share=0.02, finished_per_s=1.0, scrapes=9)
UNKNOWN = WorkerRow(controller="group", active_share=0.7, scrapes=2, problem="2 scrapes are too few")


def with_workers(*rows: WorkerRow) -> TestResult:
    phases = (msgspec.structs.replace(DEPLOY, workers=rows), STEADY)
    return msgspec.structs.replace(TEST, phases=phases)


def test_the_page_has_the_workers_of_every_controller(snapshot: SnapshotAssertion) -> None:
    page = render_run(msgspec.structs.replace(RESULT, tests=(with_workers(WAITS, IDLE, UNKNOWN),)))
    shown = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    assert "deploy set 5 100 % 0.250/s 0.003 95 20.1 s 40.5 s" in shown
    assert "deploy clique 5 2.0 % 1.00/s – – – 0 s" in shown
    assert "deploy group – 70 % – – – – –" in shown
    assert f"group in deploy: {UNKNOWN.problem}" in shown
    (blocked,) = (note for note in notes(page).splitlines() if "blocked" in note)
    assert blocked == snapshot
    assert "40.5 s of deploy" in blocked
    assert 'href="#t0-workers"' in page


def test_the_terminal_has_those_that_were_busy() -> None:
    lines = squeezed(render_test(with_workers(WAITS, IDLE, UNKNOWN)))
    assert "Workers, where most were busy" in lines
    assert "deploy set 5 100 % 0.250/s 0.003 95 20.1 s 40.5 s" in lines
    assert "deploy group – 70 % – – – – –" in lines
    assert not [line for line in lines if line.startswith("deploy clique")]
    assert "Workers, where most were busy" not in squeezed(render_test(with_workers(IDLE)))
