"""Pages as text: complete, escaped, small, and with nothing in them that a browser would fetch."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.analyse import analyse_run_over_time, merge, result_of
from pytest_grovescale.analysis.baseline import baseline_test, rows
from pytest_grovescale.analysis.comparison import ComparisonPlan, Pair, VariantRun, compare
from pytest_grovescale.analysis.phase_result import BottleneckRow, Contention, FunctionRow, ProfileResult
from pytest_grovescale.analysis.recording_index import Contents
from pytest_grovescale.analysis.result import CheckResult, Finding, Result, TestResult
from pytest_grovescale.analysis.timeline import PhaseTime, Timeline, timeline_of
from pytest_grovescale.cli import main
from pytest_grovescale.recording.journal import read
from pytest_grovescale.report.document import Item
from pytest_grovescale.report.findings_table import findings, not_looked_for, sums
from pytest_grovescale.report.format import figure
from pytest_grovescale.report.html import files, templates
from pytest_grovescale.report.html.page import render_comparison, render_run
from pytest_grovescale.report.html.profiles import Flame, link
from pytest_grovescale.report.html.templates import csp_hash, json_block, reach_of, span_of
from pytest_grovescale.report.html.tiles import Against, strip, tiles
from tests.golden import masked
from tests.unit.analysis.simulated import full_run

from .sample import DEPLOY, PASSED, RESULT, TEST

DATA = Path(__file__).with_name("data")
HOSTILE = "</script><script>alert(1)</script><!--"


def one(test: TestResult) -> Result:
    return msgspec.structs.replace(RESULT, tests=(test,))


def body(page: str) -> str:
    """Return what a page shows: without its own scripts and styles."""
    return re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.DOTALL)


def data_of(page: str) -> list[Any]:
    return [json.loads(block) for block in re.findall(r'type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)]


def test_it_shows_what_a_result_holds(snapshot: SnapshotAssertion) -> None:
    shown = body(render_run(RESULT))
    assert "\n".join(of_lines(shown)) == snapshot
    assert "phase &#39;delete&#39; timed out" in shown
    for text in (
        "pods-gone: 12 left",
        "97 % of 2 cores",
        "4.271 to 4.280 s",
        "did not hold",
        "7 late objects",
        "finalizers: grove.io/pod",
        "in steady-state: 1 trigger",
        "≥ 1.20 s",
        "broke off: rotated away",
        "8.00 GB",
        "damaged",
    ):
        assert text in shown


def test_a_result_from_an_older_version_or_a_killed_run_has_a_page() -> None:
    bare = msgspec.structs.replace(
        TEST, scenario_outcome="unfinished", phases=(), watches=(), watch_lag=None, recorder=None, warnings=(),
        evidence=(), objects=None, closed="", parameters={}, cluster={}, identities={},
    )  # fmt: skip
    shown = body(render_run(one(bare)))
    assert "before the run did" in shown
    assert "No phase was recorded." in shown


@pytest.mark.parametrize("length", [1, 8, 20, 60, 110, 115])
def test_any_prefix_of_a_recording_has_a_page(length: int) -> None:
    contents = Contents()
    for record in list(read(DATA / "configmaps.jsonl"))[:length]:
        contents.feed(record)
    test = result_of(contents, recording="r")
    assert render_run(merge([test]), timelines={"r": timeline_of(contents, test)})


FAILED = CheckResult(
    check='cpu("deploy", max="5s")', subject="operator CPU", id="cpu.deploy", phase="deploy", verdict="fail",
    figure=6.84, bound=5, unit="s", text="operator CPU 6.84 s > 5 s", evidence=("6.84 s in 11 s",),
    source="budgets.yaml:9",
)  # fmt: skip
PASS = CheckResult(
    check="noop_writes(max=0)", subject="no-op writes", id="noop_writes", verdict="pass", figure=0, bound=0,
    text="no-op writes 0 ≤ 0", evidence=("500 reconciles of podclique",), source="marker",
)  # fmt: skip


def of_lines(page: str) -> list[str]:
    """Return the first lines of a page's first test, without their markup."""
    (first, *_) = re.findall(r'<ul class="answer">(.*?)</ul>', page, re.DOTALL)
    return [
        unescape(re.sub(r"<[^>]+>", "", line)).strip() for line in re.findall(r"<li[^>]*>(.*?)</li>", first, re.DOTALL)
    ]


def test_a_failed_check_is_the_first_line_with_its_source_and_its_evidence_is_open(
    snapshot: SnapshotAssertion,
) -> None:
    failure = "operator CPU in deploy 6.84 s > 5 s (fail; ...)"
    test = msgspec.structs.replace(PASSED, verdict="failed", ended="failed", failure=failure, checks=(PASS, FAILED))
    page = render_run(one(test))
    lines = of_lines(page)
    assert "\n".join(lines) == snapshot
    assert lines[0].endswith(" 6.84 s > 5 s budgets.yaml:9")
    assert sum("6.84 s" in line for line in lines) == 1, "the failure that pytest was given only repeats it"
    assert "Checks: 1 failed, 1 passed." in lines
    assert 'class="badge bad">failed<' in page
    checks = page[page.index('id="t0-checks"') :]
    assert checks.index("6.84 s") < checks.index("no-op writes")
    assert re.findall(r"<details( open)?><summary>evidence", checks) == [" open", ""]


def test_a_budget_that_is_not_enforced_is_no_failure(snapshot: SnapshotAssertion) -> None:
    check = msgspec.structs.replace(FAILED, verdict="not enforced")
    page = render_run(one(msgspec.structs.replace(PASSED, checks=(check,))))
    first, second, *_ = of_lines(page)
    assert f"{first}\n{second}" == snapshot
    assert "2 phases passed" in first
    assert second.startswith("not enforced: ")
    assert second.endswith(" budgets.yaml:9")
    assert "badge bad" not in page


def test_contention_is_said_before_where_the_time_went(snapshot: SnapshotAssertion) -> None:
    contention = Contention(cores=2, run_cores=0.8, others_cores=1.1, steal_cores=0.1, others_share=0.6)
    phase = msgspec.structs.replace(DEPLOY, contention=contention, bottleneck="operator using CPU 38 %")
    lines = of_lines(render_run(one(msgspec.structs.replace(PASSED, phases=(phase,)))))
    (others,) = (line for line in lines if line.startswith("Other programs used 1.1 "))
    (went,) = (line for line in lines if line.endswith(f": {phase.bottleneck}"))
    assert f"{others}\n{went}" == snapshot
    assert lines.index(others) < lines.index(went)


def test_what_was_not_looked_for_is_said_in_the_words_of_the_other_reports() -> None:
    test = msgspec.structs.replace(PASSED, findings_off={"gauge": "it is a limit"}, findings_limited=("deploy",))
    page = unescape(render_run(one(test)))
    said = [block.text for block in not_looked_for(test) if isinstance(block, Item)]
    assert len(said) == 2
    assert all(text in page for text in said)


def test_what_a_finding_explains_stands_below_it_in_each_report() -> None:
    consequence = Finding(id="idle-work", severity="waste", text="40 requests while idle", evidence=("4 a second",))
    cause = Finding(id="rival-writers", severity="defect", text="spec.n goes back and forth", explains=(consequence,))
    test = msgspec.structs.replace(PASSED, findings=(cause,))
    page = unescape(body(render_run(one(test))))
    assert "explains 1 more" in page
    items = [block for block in findings(test) if isinstance(block, Item)]
    assert [block.level for block in items] == [0, 1, 2]
    assert items[0].text.endswith(f"({cause.id}; also seen by {consequence.id})")
    assert consequence.text in items[1].text
    assert [items[2].text] == list(consequence.evidence)
    assert all(text in page for text in (consequence.text, *consequence.evidence))
    assert sums(test.findings) == "1 defect"


def test_contributing_factors_stand_below_the_rows_that_add_up() -> None:
    rows = (
        BottleneckRow(suspect="api-server", seconds=8.0, share=0.71, evidence="its CPU clock"),
        BottleneckRow(suspect="operator-cpu", seconds=7.0, share=0.62, evidence="its threads"),
        BottleneckRow(suspect="operator-queue", seconds=3.0, share=0.27, evidence="its work queue"),
        BottleneckRow(suspect="unattributed", seconds=4.2, share=0.38, evidence="no record"),
    )
    phase = msgspec.structs.replace(DEPLOY, bottlenecks=rows)
    shown = body(render_run(one(msgspec.structs.replace(TEST, phases=(phase,)))))
    table = shown[shown.index('id="t0-bottlenecks"') :]
    order = [
        "operator, CPU used",
        "unattributed",
        "Contributing factors (overlapping)",
        "API server CPU-bound",
        "≤ 3.00 s",
    ]
    places = [table.index(text) for text in order]
    assert places == sorted(places)
    assert "width:71.0%" in table


def tile_texts(test: TestResult, against: Against | None = None) -> dict[str, tuple[str, str]]:
    return {tile.name: (tile.value, tile.change) for tile in tiles(test, against)}


def test_the_main_figures_are_tiles_with_their_change_against_a_baseline() -> None:
    assert tile_texts(PASSED) == {
        "Time to pcs-available": ("11.1 s", ""),
        "Operator CPU": ("4.31 s", ""),
        "Requests per pod": ("3.02", ""),
        "No-op writes": ("0", ""),
        "Peak memory": ("101 MB", ""),
    }
    before = baseline_test(PASSED)
    halved = {key: figure / 2 for key, figure in before.metrics.items()}
    found = rows(msgspec.structs.replace(before, metrics=halved), PASSED, same_machine=True)
    changes = {name: change for name, (_, change) in tile_texts(PASSED, Against("main", found)).items()}
    assert changes.pop("No-op writes") == "0 % against main"
    assert set(changes.values()) == {"+100.0 % against main"}
    shown = body(render_run(one(PASSED), baselines={PASSED.test: Against("main", found)}))
    assert shown.count("+100.0 % against main") == 4


def test_the_tiles_are_of_the_deployment_and_not_of_what_is_prepared_for_it() -> None:
    prepare = msgspec.structs.replace(DEPLOY, name="prepare", cpu=())
    assert tile_texts(msgspec.structs.replace(PASSED, phases=(prepare, *PASSED.phases))) == tile_texts(PASSED)


def test_what_was_not_measured_is_no_zero_on_a_tile() -> None:
    bare = msgspec.structs.replace(
        DEPLOY, milestones=(), cpu=(), api=(), audit_complete=False, missing={"cpu": "no clock", "audit": "no log"}
    )  # fmt: skip
    found = tiles(msgspec.structs.replace(PASSED, phases=(bare,)))
    assert {tile.name: tile.value for tile in found} == dict.fromkeys(
        ("Operator CPU", "Requests per pod", "Peak memory"), "not measured"
    )
    late = {tile.name: (tile.value, tile.tone) for tile in tiles(msgspec.structs.replace(TEST, phases=TEST.phases[2:]))}
    assert late["Time to pods-gone"] == ("not met", "bad")


def test_the_strip_begins_with_the_first_phase_however_long_a_build_took() -> None:
    starts, at = [], 100.0
    for phase in PASSED.phases:
        starts.append(PhaseTime(name=phase.name, outcome=phase.outcome, start_s=at, end_s=at + phase.seconds))
        at += phase.seconds
    found = strip(PASSED, Timeline(seconds=at, bin_s=1.0, phases=tuple(starts)))
    assert found == strip(PASSED, None)


def test_milestones_are_named_on_the_strip_and_those_that_would_cover_each_other_share_a_marker() -> None:
    found = strip(PASSED, None)
    assert [(phase.name, phase.left, phase.width) for phase in found.phases] == [
        ("deploy", 0.0, 27.182), ("steady-state", 27.182, 72.818)
    ]  # fmt: skip
    assert [(marker.label, marker.title) for marker in found.markers] == [
        ("1", "deploy: pods-created"), ("2", "deploy: pcs-available")
    ]  # fmt: skip
    closer = tuple(msgspec.structs.replace(one, observed_s=4.3, server_s=None) for one in DEPLOY.milestones)
    (marker,) = strip(
        msgspec.structs.replace(PASSED, phases=(msgspec.structs.replace(DEPLOY, milestones=closer),)), None
    ).markers
    assert marker.label == "1–2"


def test_the_command_that_repeats_a_run_can_be_copied() -> None:
    command = "python -m pytest --grovescale tests/test_a.py::test_a '--grovescale-param=name=a b'"
    shown = body(render_run(one(msgspec.structs.replace(PASSED, command=command))))
    assert f"<code>{command.replace(chr(39), '&#39;')}</code>" in shown
    assert 'id="t0-repeat"' not in body(render_run(one(PASSED)))


def test_names_are_text_wherever_they_stand() -> None:
    phase = msgspec.structs.replace(
        DEPLOY,
        name=HOSTILE,
        message=HOSTILE,
        outcome="failed",
        profiles=(ProfileResult(process=HOSTILE, kind="pyspy", file=HOSTILE, problem=HOSTILE),),
    )
    test = msgspec.structs.replace(TEST, test=HOSTILE, phases=(phase,), warnings=(HOSTILE,), cluster={HOSTILE: HOSTILE})
    page = render_run(one(test))
    assert "alert(1)</script>" not in page
    assert "<!--" not in page
    (data,) = data_of(page)
    assert data["profiles"][0]["process"] == HOSTILE
    assert data["profiles"][0]["links"][0]["href"].startswith("./%3C/script%3E")


def test_terminal_colours_of_a_log_line_are_left_out() -> None:
    assert "panic: xxx" in render_run(RESULT)
    assert "\x1b" not in render_run(RESULT)


@given(st.text())
def test_data_comes_through_and_ends_no_element(text: str) -> None:
    block = json_block({"text": text})
    assert json.loads(block) == {"text": text}
    assert not set(block) & {"<", ">", "&", "\u2028", "\u2029"}


def test_nothing_is_fetched_and_only_its_own_scripts_run() -> None:
    page = render_run(RESULT)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    rules = unescape(policy[1])
    assert rules.startswith("default-src 'none'; script-src 'sha256-")
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert [csp_hash(script) for script in scripts] == re.findall(r"'sha256-[^']+'", rules)
    assert not re.search(r"<link[^>]+href=\"(?!data:)|<[a-z]+[^>]+\ssrc=|@import|url\(", body(page))
    assert "url(" not in templates.styles()


def test_scripts_can_stand_in_a_page() -> None:
    for script in templates.scripts(charts=True, flames=True):
        assert "</script" not in script.lower()
        assert "<!--" not in script
        assert "sourceMappingURL" not in script


def test_a_page_has_only_the_libraries_that_it_needs() -> None:
    assert render_run(RESULT).count("<script>") == 1
    assert len(render_run(RESULT).encode()) < 85_000


def test_three_thousand_pods_are_a_small_page() -> None:
    contents = Contents()
    for record in full_run(3_000).records():
        contents.feed(record)
    test = result_of(contents, recording="r")
    page = render_run(merge([test]), timelines={"r": timeline_of(contents, test)})
    assert len(page.encode()) < 400_000
    assert "3,000" in page


def test_three_thousand_functions_and_a_flame_graph_are_a_small_page() -> None:
    rows = tuple(
        FunctionRow(
            function=f"função_{n} (моду́ль/файл_{n}.py)", module=f"моду́ль/файл_{n}.py", self_samples=n, samples=n,
            share=n / 3000, share_low=0.0, share_high=1.0,
        )
        for n in range(3000)
    )  # fmt: skip
    profile = ProfileResult(process="operator", kind="pyspy", file="profiles/o", functions=rows, samples=3000)
    flame = Flame(
        unit="samples",
        names=tuple(f"函数_{n}" for n in range(3000)),
        depths=tuple(range(3000)),
        frames=tuple(range(3000)),
        values=(1.0,) * 3000,
    )
    phases = tuple(msgspec.structs.replace(DEPLOY, profiles=(profile,)) for _ in range(6))
    page = render_run(one(msgspec.structs.replace(TEST, phases=phases)), flames={"profiles/o": flame})
    assert len(page.encode()) < 3_000_000
    (data,) = data_of(page)
    assert data["profiles"][0]["rows"] == 3000
    assert data["profiles"][0]["functions"][0][0] == "função_2999 (моду́ль/файл_2999.py)"


def test_links_stay_in_the_runs_folder() -> None:
    assert link("profiles/a b.raw") == "./profiles/a%20b.raw"
    assert link("profiles/x", "../runs/1") == "../runs/1/profiles/x"
    assert link("javascript:alert(1)") == "./javascript%3Aalert%281%29"


def plan(**changes: Any) -> ComparisonPlan:
    return msgspec.structs.replace(ComparisonPlan(a="old", b="new", gated=("cpu:deploy",)), **changes)


def pairs(number: int, factor: float) -> list[Pair]:
    wobble = [1 + 0.01 * ((3 * index) % 5 - 2) for index in range(number)]
    return [
        Pair(a=VariantRun(metrics={"cpu:deploy": 4.0 * w}), b=VariantRun(metrics={"cpu:deploy": 4.0 * factor / w}))
        for w in wobble
    ]


def test_a_comparison() -> None:
    shown = body(render_comparison([compare(plan(), pairs(10, 1.2), weaker="from recordings")]))
    for text in ("new compared with old", "regression", "new is slower than old", "from recordings", "4.80 s"):
        assert text in shown


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_comparison_that_has_only_begun(number: int) -> None:
    assert "inconclusive" in body(render_comparison([compare(plan(), pairs(number, 1.2))]))


def test_a_broken_variant_comes_before_all_figures(snapshot: SnapshotAssertion) -> None:
    broken = [Pair(a=pair.a, b=VariantRun(metrics={}, broken="deploy: timeout")) for pair in pairs(10, 1.0)]
    first = of_lines(body(render_comparison([compare(plan(), broken)])))[0]
    assert first.startswith("new is broken (10 of 10 ")
    assert "deploy: timeout" in first
    assert first == snapshot


def test_intervals_stand_on_their_axis() -> None:
    (metric,) = compare(plan(), pairs(10, 1.2)).metrics
    span = span_of(metric, reach_of([metric]))
    assert reach_of([metric]) == 1.25
    assert span is not None
    assert 50 < span.low < span.at < span.low + span.width <= 100
    assert span_of(msgspec.structs.replace(metric, ratio=None), 2.0) is None
    assert span_of(msgspec.structs.replace(metric, low=0.0), 2.0) is None
    assert reach_of([msgspec.structs.replace(metric, low=None, high=None)]) is None
    assert reach_of([msgspec.structs.replace(metric, high=1000.0)]) == 16


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "s", "–"),
        (4.31, "s", "4.31 s"),
        (2e6, "bytes", "2.00 MB"),
        (1003, "", "1,003"),
        (1.5, "writes", "1.50"),
    ],
)
def test_figures_have_their_unit(value: float | None, unit: str, text: str) -> None:
    assert figure(value, unit) == text


def run_folder(folder: Path) -> Path:
    (folder / "recordings").mkdir()
    (folder / "recordings" / "configmaps.jsonl").write_bytes((DATA / "configmaps.jsonl").read_bytes())
    return folder


def test_a_page_is_written_whole_into_the_runs_folder(tmp_path: Path) -> None:
    result, timelines, _ = analyse_run_over_time(run_folder(tmp_path))
    page = files.write_run(tmp_path, result, timelines)
    assert page == tmp_path / "report.html"
    assert page.read_text(encoding="utf-8").rstrip().endswith("</html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["recordings", "report.html"]


def test_a_page_elsewhere_links_back(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    result, timelines, _ = analyse_run_over_time(run_folder(tmp_path / "run"))
    page = files.write_run(tmp_path / "run", result, timelines, to=tmp_path / "x.html")
    assert 'href="run/recordings/configmaps.jsonl"' in page.read_text(encoding="utf-8")


def test_the_command_writes_it_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_folder(tmp_path)
    assert main(["report", str(folder)]) == 0
    assert main(["report", str(folder), "-o", str(tmp_path / "other.html")]) == 0
    reported = capsys.readouterr().err.splitlines()
    assert reported == [f"wrote {folder / 'report.html'}", f"wrote {tmp_path / 'other.html'}"]
    pages = [(tmp_path / name).read_text(encoding="utf-8") for name in ("report.html", "other.html")]
    assert pages[0] == pages[1]


def test_a_page_that_cannot_be_written(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(files.PageError) as caught:
        files.write_run(tmp_path, RESULT, {}, to=tmp_path / "no" / "x.html")
    assert masked(str(caught.value), {tmp_path: "folder"}) == snapshot


def test_a_page_that_cannot_be_made_leaves_nothing_and_says_where_the_figures_are(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    wrong = msgspec.structs.replace(RESULT, tests=(msgspec.structs.replace(TEST, seconds=None),))
    with pytest.raises(files.PageError, match=r"TypeError.*\n.*result\.json") as caught:
        files.write_run(tmp_path, wrong, {})
    # What Python says of the mistake is not ours.
    said = re.sub(r"(TypeError).*", r"\1", str(caught.value))
    assert masked(said, {tmp_path: "folder"}) == snapshot
    assert list(tmp_path.iterdir()) == []
