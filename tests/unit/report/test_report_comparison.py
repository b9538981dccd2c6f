"""What a reader of a comparison sees first, and what each row says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.comparability import InForce
from pytest_grovescale.analysis.comparison import Comparison, ComparisonPlan, Discarded, Pair, VariantRun, compare
from pytest_grovescale.analysis.contention import RunContention
from pytest_grovescale.analysis.profiles.comparison import (
    Difference,
    DifferenceRow,
    FunctionsCompared,
    NotProfiled,
    ProfiledSide,
    ProfilesCompared,
)
from pytest_grovescale.analysis.run_metrics import units_of
from pytest_grovescale.report import document
from pytest_grovescale.report.comparison_table import (
    answer,
    blocks,
    ratio,
    rows,
    sections,
    work_alone,
)
from pytest_grovescale.report.html.page import Background, render_comparison
from tests.golden import masked

from .sample import MACHINE


def work_rows(*of: Comparison) -> list[list[str]]:
    (table,) = (block for block in work_alone(of) if isinstance(block, document.Table))
    return [list(row) for row in table.rows]


def render(*of: Any, width: int = 100, color: bool = False) -> str:
    return document.text(blocks(*of), width=width, color=color)


def render_markdown(*of: Any, **more: Any) -> str:
    return document.markdown(blocks(*of, **more))


NOOP = ComparisonPlan(
    a="baseline", b="optimized", differs="variant: baseline, optimized", gated=("noop_cpu", "noop_writes")
)
DEPLOY = msgspec.structs.replace(NOOP, gated=("cpu:deploy", "cpu:delete", "api:deploy"))
BASE = {"noop_cpu": 0.03, "noop_writes": 0.0, "noop_cpu_per_reconcile": 6e-5}
DEPLOY_BASE = {
    "wall:deploy": 12.0,
    "milestone:deploy/pods-ready": 11.0,
    "wall:delete": 8.0,
    "cpu:deploy": 4.3,
    "cpu:delete": 2.0,
    "rss:deploy": 1e8,
    "api:deploy": 6000.0,
    "noop_cpu": 0.05,
}


def pairs(
    base: dict[str, float], factor: float = 1.0, *, noise: float = 0.01, add: dict[str, float] | None = None
) -> list[Pair]:
    chance = np.random.default_rng(545)

    def run(times: float, more: dict[str, float]) -> VariantRun:
        metrics = {
            key: value * (times * chance.lognormal(0, noise) if units_of(key) == "s" else 1) + more.get(key, 0)
            for key, value in base.items()
        }
        return VariantRun(metrics=metrics, saturated=("deploy",))

    return [Pair(a=run(1, {}), b=run(factor, add or {}), first="a" if n % 2 == 0 else "b") for n in range(10)]


def noop(factor: float = 1.0, **kept: float) -> Comparison:
    return compare(NOOP, pairs(BASE, factor, add=kept), machine=MACHINE, facts={"kubernetes": "1.36", "nodes": "100"})


def deploy(factor: float = 1.0, noise: float = 0.01) -> Comparison:
    return compare(DEPLOY, pairs(DEPLOY_BASE, factor, noise=noise), machine=MACHINE)


def first_line(found: Comparison) -> str:
    return render([found], width=200).splitlines()[0]


def lines_with(text: str, part: str) -> str:
    """Return the lines of a text that have a part in them."""
    return "\n".join(line.strip() for line in text.splitlines() if part in line)


def test_the_first_line_is_the_answer(snapshot: SnapshotAssertion) -> None:
    slower, alike, better, more = (
        first_line(found) for found in (noop(1.2), noop(1.0), noop(0.5), noop(1.0, noop_writes=500))
    )
    assert masked(slower, numbers=True) == snapshot(name="slower")
    assert slower.startswith("optimized is slower than baseline: ")
    assert masked(alike, numbers=True) == snapshot(name="alike")
    assert alike.startswith("No regression: ")
    assert "(2 gated metrics" in alike
    assert masked(better, numbers=True) == snapshot(name="better")
    assert better.startswith("No regression: optimized is better")
    assert masked(more, numbers=True) == snapshot(name="more")
    assert " + 500" in more


def test_what_is_worse_outside_of_the_gate_stands_in_the_answer() -> None:
    plan = msgspec.structs.replace(DEPLOY, gated=("rss:deploy",))
    said = answer([compare(plan, pairs(DEPLOY_BASE, add={"api:deploy": 900}), machine=MACHINE)])
    assert said.startswith("No regression: ")
    assert said.endswith("requests by the operator, deploy +15.0 %")
    slower = answer([compare(plan, pairs(DEPLOY_BASE, 1.2, add={"api:deploy": 900, "rss:deploy": 1e8}))])
    assert slower.startswith("optimized needs more than baseline: ")
    assert "not gated" not in slower


def test_counts_are_more_or_fewer_and_not_slow(snapshot: SnapshotAssertion) -> None:
    more = noop(1.0, noop_writes=500)
    assert first_line(more).startswith("optimized needs more than baseline: ")
    assert first_line(more) == snapshot
    assert [row.verdict for row in rows([more], ["noop_writes"])] == ["more"]
    fewer = compare(
        DEPLOY,
        [msgspec.structs.replace(pair, a=pair.b, b=pair.a) for pair in pairs(DEPLOY_BASE, add={"api:deploy": 900})],
    )
    assert [row.verdict for row in rows([fewer], ["api"])] == ["fewer"]


def test_what_decides_stands_first_on_the_page_and_apart_from_what_informs(snapshot: SnapshotAssertion) -> None:
    found = sections([noop(), deploy()])
    assert "\n".join(section.heading for section in found) == snapshot
    assert [section.gated for section in found] == [True, False, False, False]
    assert {row.metric.gated for row in found[0].rows} == {True}
    assert not any(row.metric.gated for section in found[1:] for row in section.rows)


def test_what_cannot_be_reported_says_what_it_takes(snapshot: SnapshotAssertion) -> None:
    undecided = compare(NOOP, pairs(BASE, 1.05, noise=0.1))
    found = first_line(undecided)
    assert masked(found, numbers=True) == snapshot
    assert found.startswith("Can't tell whether ")
    more = undecided.metrics[0].more_pairs
    assert more is not None
    assert f"; {more} more pairs " in found
    assert found.endswith(f": --pairs {undecided.pairs + more}")


def test_finished_runs_have_no_option_for_more_pairs(snapshot: SnapshotAssertion) -> None:
    found = first_line(compare(NOOP, pairs(BASE, 1.05, noise=0.1), weaker="two runs of different days"))
    assert masked(found, numbers=True) == snapshot
    assert " more pairs " in found
    assert "--pairs" not in found


def test_a_broken_variant_is_the_answer_whatever_its_figures(snapshot: SnapshotAssertion) -> None:
    recorded = pairs(BASE, 0.1)
    recorded[3] = msgspec.structs.replace(recorded[3], b=VariantRun(metrics={}, broken="deploy: timeout"))
    found = first_line(compare(NOOP, recorded))
    assert found == snapshot
    assert found.startswith("optimized is broken (1 of 10 ")


def test_the_three_tables_of_two_parts_together() -> None:
    text = render([noop(), deploy()], width=120)
    headings = ["Wall clock", "CPU and memory", "No-op reconciles", "Requests and reconciles"]
    places = [text.index(f"\n\n{heading}") for heading in headings]
    assert places == sorted(places)
    assert text.count("per no-op trigger, idle subtracted") == 1 + 0
    assert "2 × Test CPU" in text
    assert "kubernetes 1.36, nodes 100" in text
    assert "A: baseline, B: optimized (variant: baseline, optimized)" in text


def test_of_a_metric_in_both_parts_the_gated_one_is_shown() -> None:
    [cpu, *_] = rows([deploy(), noop()], ["noop_cpu"])
    assert cpu.metric.gated
    assert cpu.a.endswith("ms")
    assert float(cpu.a.split()[0]) == pytest.approx(30, abs=2)


def test_rows_follow_the_phases_and_verdicts_that_decide_nothing_stand_in_brackets() -> None:
    wall = rows([deploy(1.5)], ["wall", "milestone"])
    assert [row.metric.key for row in wall] == ["wall:deploy", "milestone:deploy/pods-ready", "wall:delete"]
    assert {row.verdict for row in wall} == {"(slower)"}
    assert {row.verdict for row in rows([deploy(1.5)], ["cpu"])} == {"slower"}


def test_wall_times_of_a_saturated_machine_say_so(snapshot: SnapshotAssertion) -> None:
    said = lines_with(render([deploy()], width=200), "machine saturated")
    assert said == snapshot
    assert "18 of 18 runs" in said


def test_wall_times_measured_side_by_side_say_so_and_how_to_have_others(snapshot: SnapshotAssertion) -> None:
    together = compare(msgspec.structs.replace(DEPLOY, parallel=True), pairs(DEPLOY_BASE), machine=MACHINE)
    for name, text in (("terminal", render([together], width=200)), ("markdown", render_markdown([together]))):
        assert lines_with(text, ", parallel") == snapshot(name=name)
        assert lines_with(text, "running at the same time") == snapshot(name="wall times")
        assert text.count("running at the same time") == 1
        assert "--sequential" in text, "how to have others"
    page = render_comparison([together], Background())
    assert "parallel, interim analysis after 10" in page
    assert ", parallel" not in render([deploy()], width=200)
    assert page.count("running at the same time") == 1
    windows = compare(msgspec.structs.replace(NOOP, parallel=True), pairs(BASE), machine=MACHINE)
    assert "--sequential" not in render([windows], width=200), "they have no wall times"


def test_counts_that_never_vary_have_no_interval() -> None:
    [requests] = rows([deploy()], ["api"])
    assert (requests.a, requests.b, requests.change, requests.interval) == ("6,000", "6,000", "0 %", "always so")


def test_what_is_zero_in_both_has_a_row_only_where_it_is_gated() -> None:
    found = compare(NOOP, pairs({**BASE, "noop_requests": 0.0}))
    assert {metric.key for metric in found.metrics} >= {"noop_writes", "noop_requests"}
    assert {row.metric.key for row in rows([found], [*BASE, "noop_requests"])} == {*BASE}


def test_what_was_not_measured_is_no_figure(snapshot: SnapshotAssertion) -> None:
    found = compare(msgspec.structs.replace(NOOP, gated=("noop_cpu", "api:deploy")), pairs(BASE))
    [row] = rows([found], ["api"])
    assert row[1:6] == ("–", "–", "–", "–", "not measured")
    assert "was not measured" in answer([found])
    assert answer([found]) == snapshot


def test_weaker_comparisons_say_why(snapshot: SnapshotAssertion) -> None:
    plan = msgspec.structs.replace(NOOP, pairs=1, warmup=0, looks=(1,))
    found = compare(plan, pairs(BASE)[:1], weaker="two runs of different days")
    said = lines_with(render([found], width=200), "Weaker than")
    assert said == snapshot
    assert "two runs of different days" in said


def test_changes_in_words() -> None:
    assert [ratio(of) for of in (1.0, 1.1, 0.76, 12.3)] == ["0 %", "+10.0 %", "−24.0 %", "× 12.3"]


@pytest.mark.parametrize("comparison", [noop, deploy])
def test_the_same_comparison_gives_the_same_text(comparison: Callable[[], Comparison]) -> None:
    assert render([comparison()]) == render([comparison()])
    assert render_markdown([comparison()]) == render_markdown([comparison()])


def test_markdown_is_a_table_for_each_section_with_the_answer_first() -> None:
    text = render_markdown([noop(1.2), deploy()])
    lines = text.splitlines()
    assert lines[0].startswith("**optimized is slower than baseline")
    assert lines.count("| metric | baseline | optimized | Δ | interval | verdict |") == 4
    assert "**slower**" in text
    widths = {line.count(" | ") for line in lines if line.startswith("| ")}
    assert widths == {5}


def functions(phase: str, rows: int = 30) -> FunctionsCompared:
    found = tuple(
        DifferenceRow(
            function=f"f{n} (m.py)", module="m.py", before=5.0 - n / 10, after=2.0, change=-0.6, beyond_error=True
        )
        for n in range(rows)
    )
    side = ProfiledSide(samples=1000, cpu_s=5.0, profiled_cpu_s=5.5)
    whole = Difference(scale="cpu_s", before=5.0, after=2.0, samples=(1000, 1000), rows=found)
    return FunctionsCompared(
        phase=phase, process="operator", kind="pyspy", before=side, after=side, difference=whole if rows else None
    )


PROFILES = ProfilesCompared(
    functions=(functions("deploy"), functions("steady-state")),
    missing=(
        NotProfiled(variant="optimized", phase="delete", process="operator", why="not permitted. Run as root."),
        NotProfiled(variant="optimized", why="it ended:\n  last words", next_step="Its whole output: pytest.log."),
    ),
)


def test_functions_of_each_phase_are_a_table_with_the_names_of_the_variants() -> None:
    text = render_markdown([noop(), deploy()], PROFILES)
    lines = text.splitlines()
    assert lines.count("| function | baseline | optimized | Δ |  |") == 2
    headings = [line for line in lines if line.startswith("### CPU of")]
    assert headings == ["### CPU of operator: deploy", "### CPU of operator: steady-state"]
    assert sum(line.startswith("| f") for line in lines) == 2 * (1 + 10)
    terminal = render([noop(), deploy()], PROFILES, width=120)
    assert "CPU of operator: steady-state" in terminal
    assert "f9 (m.py)" in terminal
    assert "f10 (m.py)" not in terminal
    assert "baseline 5.50 s instead of 5.00 s" in terminal


def test_a_profile_that_is_not_there_says_why_and_what_to_do(snapshot: SnapshotAssertion) -> None:
    terminal = render([noop()], PROFILES, width=160)
    missing = lines_with(terminal, "No profile")
    assert missing == snapshot
    assert len(missing.splitlines()) == len(PROFILES.missing)
    assert lines_with(render_markdown([noop()], PROFILES).replace("\\", ""), "No profile") == missing
    assert "last words" not in terminal
    page = render_comparison([noop()], Background(not_profiled=PROFILES.missing))
    assert all(f'<p class="note warn">{line.removeprefix("- ")}</p>' in page for line in missing.splitlines())


def test_without_profiles_nothing_is_said_of_them() -> None:
    for text in (render([noop()]), render_markdown([noop()])):
        assert "CPU of each function" not in text
        assert "rofile" not in text


def test_a_name_cannot_break_the_markdown() -> None:
    plan = msgspec.structs.replace(NOOP, b="x|y<script>\x1b[31m\n")
    text = render_markdown([compare(plan, pairs(BASE))])
    assert "x\\|y\\<script\\>" in text
    assert "\x1b" not in text


def test_narrow_terminals_keep_every_row() -> None:
    text = render([noop(), deploy()], width=80)
    assert max(map(len, text.splitlines())) <= 80


WORK = msgspec.structs.replace(DEPLOY, parallel=True)
COUNTED = {"cpu:deploy": 4.3, "cpu:delete": 2.0, "api:deploy": 17_837.0, "reconciles:deploy": 5_100.0}


def alone(**metrics: float) -> VariantRun:
    counts = {key.replace("__", ":"): value for key, value in metrics.items()}
    return VariantRun(metrics=counts, objects=1000)


def in_parallel(plan: ComparisonPlan = WORK) -> Comparison:
    """Runs in parallel that made 14 % more requests than the lone run of A, and as many as the lone run of B."""
    recorded = [
        Pair(
            a=msgspec.structs.replace(pair.a, objects=1000),
            b=msgspec.structs.replace(pair.b, objects=1000),
            first=pair.first,
        )
        for pair in pairs(COUNTED)
    ]
    lone = {
        "a": alone(api__deploy=15_600.0, reconciles__deploy=5_000.0, noop_requests=1.0),
        "b": alone(api__deploy=17_600.0, reconciles__deploy=5_000.0),
    }
    return compare(plan, recorded, alone=lone, machine=MACHINE)


def test_work_in_parallel_stands_beside_the_work_alone_and_a_difference_is_said(snapshot: SnapshotAssertion) -> None:
    found = in_parallel()
    warning = next(text for text in found.warnings if "work of baseline differs" in text)
    assert warning == snapshot(name="warning")
    assert "17.8 in parallel, 15.6 alone (+14 %)" in warning
    assert warning.endswith(": --sequential")
    assert not any("work of optimized differs" in text for text in found.warnings)
    assert "\n".join(row[0] for row in work_rows(found)) == snapshot(name="rows")
    assert [tuple(row[1:]) for row in work_rows(found)] == [
        ("17.8", "15.6", "+14.3 %", "17.8", "17.6", "+1.3 %"),
        ("5.10", "5.00", "+2.0 %", "5.10", "5.00", "+2.0 %"),
    ]
    for text in (render([found], width=200), render_markdown([found]), render_comparison([found], Background())):
        assert "in parallel and alone" in text
        assert text.count("work of baseline differs") == 1


def test_runs_that_had_the_machine_to_themselves_have_no_such_table() -> None:
    for found in (in_parallel(DEPLOY), deploy()):
        assert not found.alone
        assert "in parallel and alone" not in render_markdown([found])


def test_a_lone_run_that_is_broken_or_counts_no_objects() -> None:
    recorded = pairs(COUNTED)
    broken = msgspec.structs.replace(alone(api__deploy=1.0), broken="deploy: timeout")
    uncounted = msgspec.structs.replace(alone(api__deploy=17_000.0), objects=None)
    found = compare(WORK, recorded, alone={"a": broken, "b": uncounted}, machine=MACHINE)
    assert [tuple(row) for row in work_rows(found)] == [
        ("requests by the operator, deploy", "–", "–", "–", "17,837", "17,000", "+4.9 %")
    ]


def test_markdown_lists_the_settings_of_both_variants_and_their_differences(snapshot: SnapshotAssertion) -> None:
    settings = InForce(
        shared={"qps": (0,), "defect": ("",), "burst": (0,), "priority_and_fairness": (True,)},
        differing={"variant": (("baseline",), ("optimized",)), "threads": ((), (4,))},
    )
    text = render_markdown([deploy()], settings=settings).replace("\\", "")
    listed = text.partition("### Settings\n\n")[2].partition("\n\n")[0]
    assert listed == snapshot
    assert "- variant: baseline baseline, optimized optimized\n" in listed
    assert "- threads: baseline none, optimized 4\n" in listed
    assert ": qps 0, burst 0, " in listed
    assert "### Settings" not in render_markdown([deploy()])


def test_contended_pairs_are_named_in_every_report(snapshot: SnapshotAssertion) -> None:
    plan = msgspec.structs.replace(NOOP, max_contention=0.25, repeats=10)

    def contended(of: Pair, share: float) -> Pair:
        a, b = (
            msgspec.structs.replace(run, contention=RunContention(share=taken, phase="noop-3"))
            for run, taken in ((of.a, share), (of.b, 0.02))
        )
        return msgspec.structs.replace(of, a=a, b=b)

    made = [contended(pair, 0.05) for pair in pairs(BASE)]
    calm = compare(plan, made)
    said = lines_with(render([calm], width=300), "at most 10 times")
    assert said == snapshot(name="none")
    assert "none was contended" in said
    found = compare(plan, made, discarded=[Discarded(round=2, pair=contended(made[2], 0.43))])
    texts = [render([found], width=300), render_markdown([found]), render_comparison([found])]
    for text in texts:
        assert "pair 3 (43 % in noop-3)" in text
    for text in texts[:2]:
        said = lines_with(text, "at most 10 times")
        assert said == snapshot(name="terminal" if text is texts[0] else "markdown")
        assert "1 discarded, 0 contended pairs kept" in said
