"""The matrix of defects and checks: what is committed is sound, and a cell that differs is told."""

from __future__ import annotations

import io
import json
from pathlib import Path

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis import scaling
from pytest_grovescale.analysis.metrics.history import history_of
from pytest_grovescale.analysis.result import Finding, Severity, Verdict
from pytest_grovescale.analysis.scaling import SizedRun
from pytest_grovescale.bench.screen import Screen
from pytest_grovescale.checks import scaling as scaling_check
from pytest_grovescale.checks.check import tag_of, text_of
from pytest_grovescale.cli import main
from pytest_grovescale.errors import DefinitionError, NotMeasuredError, UsageError
from pytest_grovescale.kube.faults.settings import faults_of
from pytest_grovescale.reference_operator import defects
from pytest_grovescale.report import document
from pytest_grovescale.selftest import matrix, matrix_runs
from pytest_grovescale.selftest.matrix import (
    CLEAN,
    KINDS,
    Cell,
    Defect,
    Expectation,
    Growth,
    Matrix,
    Measured,
    SecondPass,
)
from pytest_grovescale.selftest.matrix_runs import REFERENCE, Runs
from tests.golden import masked
from tests.unit.bench.planned import SUBJECT
from tests.unit.checks.noop_run import NoopRun

COMMITTED = matrix.EXPECTED.read_text()


def measured(run: NoopRun) -> Measured:
    return Measured(run.result(), lambda: history_of(run.simulation().records()))


def small(**named: Defect) -> Matrix:
    """Return a matrix of two checks."""
    return Matrix(
        parameters={"replicas": 1},
        checks={"noop_writes": [{}], "rss": [{"max": {"times_clean": 1.5}}]},
        second_pass=SecondPass(check="no_test_leakage", of=[CLEAN], why="not made"),
        growth=Growth(
            metric="noop_cpu",
            exponent_max=1.3,
            replicas=[1, 2, 4],
            hold_s=1,
            repeats=1,
            most_repeats=2,
            of=[CLEAN],
            why="one size",
        ),
        defects=dict(named),
    )


# ---- what is committed


def test_every_defect_of_the_operator_is_in_it() -> None:
    # One may be there twice: with another workload, too.
    assert {(of.argument or name).partition("=")[0] for name, of in matrix.read().defects.items()} == set(defects.KNOWN)


def test_every_argument_is_one_that_the_operator_takes() -> None:
    expected = matrix.read()
    for name in expected.defects:
        argument, _ = expected.arguments(name)
        assert defects.parse([argument]).names == {argument.partition("=")[0]}


def test_every_check_is_asked_with_arguments_that_can_be() -> None:
    expected = matrix.read()
    asked = matrix.asked(expected)
    assert set(asked) == set(KINDS)
    relative = {kind for kind, times in asked.items() if any(one.relative for one in times)}
    assert {"rss", "cpu", "noop_cpu", "milestone"} <= relative


def test_every_check_has_a_defect_that_trips_it_and_every_defect_a_check() -> None:
    expected = matrix.read()
    for kind in (*KINDS, scaling_check.SCALES):
        assert any(expected.expected(name, kind)[0] == "fires" for name in expected.defects), kind
        assert expected.expected(CLEAN, kind) == ("silent", "")
    for name, defect in expected.defects.items():
        assert defect.caught_by or defect.elsewhere, name


@pytest.mark.parametrize(
    ("written", "wrong", "message"),
    [
        ("  hot_loop: [{}]\n", "  hot_lop: [{}]\n", r"hot_lop: "),
        ("  metric_names: [{}]\n", "", r"checks: metric_names "),
        ("caught_by: hot_loop", "caught_by: series", r"caught_by: series "),
        ("    caught_by: hot_loop\n", "", r"hot-loop: "),
        ("      metric_names: camelCase", "      labels: camelCase", r"checks.metric_names: "),
        ("      noop_cpu: 10 % more", "      noop_cup: 10 % more", r"noop_cup: "),
        ("finds: [left-behind]", "finds: [left-behinds]", r"unowned.finds: "),
        ("  of: [clean, name", "  of: [clean, none, name", r"second_pass.of: .*'none'"),
        ("  of: [clean, quad", "  of: [clean, none, quad", r"growth.of: .*'none'"),
        ("    fires:\n      scales: each", "    fires:\n      hot_loop: each", r"growth: "),
    ],
    ids=[
        "misspelled check",
        "missing check",
        "caught by another",
        "caught by none",
        "no defect for a check",
        "misspelled expectation",
        "misspelled rule",
        "unknown defect of the second pass",
        "unknown defect of growth",
        "no defect for growth",
    ],
)
def test_what_cannot_be_is_refused_with_its_line(
    tmp_path: Path, written: str, wrong: str, message: str, snapshot: SnapshotAssertion
) -> None:
    assert COMMITTED.count(written) == 1
    path = tmp_path / "matrix.yaml"
    path.write_text(COMMITTED.replace(written, wrong))
    with pytest.raises(DefinitionError, match=rf"matrix\.yaml:\d+: .*{message}") as caught:
        matrix.read(path)
    assert masked(str(caught.value), {tmp_path: "folder"}, numbers=True) == snapshot


def test_a_check_cannot_be_expected_to_do_two_things(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    path = tmp_path / "matrix.yaml"
    twice = "      metric_names: camelCase"
    path.write_text(COMMITTED.replace(twice, f"{twice}\n    may:\n      metric_names: or not"))
    with pytest.raises(DefinitionError, match=r"may.metric_names: ") as caught:
        matrix.read(path)
    assert masked(str(caught.value), {tmp_path: "folder"}, numbers=True) == snapshot


# ---- expectations


def test_what_is_named_nowhere_stays_silent() -> None:
    found = Defect(fires={"rss": "grows"}, may={"cpu": "noise"})
    assert found.expected("rss") == ("fires", "grows")
    assert found.expected("cpu") == ("may", "noise")
    assert found.expected("series") == ("silent", "")


def test_the_star_stands_for_what_is_named_nowhere_else() -> None:
    found = Defect(undecided={"rss": "died"}, may={"*": "who knows"})
    assert found.expected("rss") == ("undecided", "died")
    assert found.expected("series") == ("may", "who knows")


def test_without_the_second_pass_its_check_is_undecided() -> None:
    expected = small(leak=Defect(fires={"rss": ""}), named=Defect(fires={"no_test_leakage": "seen all the same"}))
    assert expected.expected(CLEAN, "no_test_leakage")[0] == "silent"
    assert expected.expected("leak", "no_test_leakage") == ("undecided", "not made")
    assert expected.expected("named", "no_test_leakage")[0] == "fires"
    assert expected.arguments(CLEAN) == ("", {"replicas": 1, "untracked": 1})
    assert expected.arguments("leak") == ("leak", {"replicas": 1, "untracked": 0})
    assert expected.expected("leak", "scales") == ("undecided", "one size")
    assert expected.arguments(REFERENCE) == ("", {"replicas": 1, "untracked": 0})


@pytest.mark.parametrize(
    ("expected", "right"),
    [
        ("fires", {"fail"}),
        ("undecided", {"inconclusive"}),
        ("silent", {"pass"}),
        ("may", {"pass", "fail", "inconclusive"}),
    ],
)
def test_which_verdicts_hold(expected: Expectation, right: set[Verdict]) -> None:
    said: tuple[Verdict, ...] = ("pass", "fail", "inconclusive")
    cells = [Cell(defect="d", check="c", expected=expected, said=verdict, asked="", text="") for verdict in said]
    assert {cell.said for cell in cells if cell.holds} == right


# ---- judging


def test_a_relative_bound_is_a_multiple_of_the_clean_figure() -> None:
    run = measured(NoopRun(rss=100_000_000))
    peak = max(row.peak_rss_bytes for phase in run.test.phases for row in phase.cpu if row.process == "operator")
    checks = matrix.bounded(matrix.asked(small()), run)
    bound = int(text_of(checks["rss"][0]).removeprefix("rss(max=").removesuffix(")"))
    assert bound == pytest.approx(1.5 * peak, rel=0.005)
    assert [tag_of(check) for check in checks["noop_writes"]] == ["noop_writes"]


def test_a_small_bound_keeps_its_digits() -> None:
    expected = msgspec.structs.replace(
        small(), checks={"noop_cpu": [{"per_reconcile": {"times_clean": 1.5}}], "cpu": [{"phase": "deploy", "max": 1}]}
    )
    run = NoopRun(steady_cpu=0.3, idle_cpu=0.1, reconciles={"podcliqueset": 1, "podclique": 2})
    checks = matrix.bounded(matrix.asked(expected), measured(run))
    assert text_of(checks["noop_cpu"][0]) == "noop_cpu(per_reconcile=0.1)"


def test_a_clean_run_without_the_figure_bounds_nothing() -> None:
    expected = msgspec.structs.replace(small(), checks={"noop_cpu": [{"per_reconcile": {"times_clean": 1.5}}]})
    with pytest.raises(NotMeasuredError, match="without a defect was not measured"):
        matrix.bounded(matrix.asked(expected), measured(NoopRun(twin=False)))


def test_a_relative_bound_that_is_none_is_refused() -> None:
    wrong = {"rss": [{"max": {"times_clean": "twice"}}]}
    with pytest.raises(DefinitionError, match=r"rss\(max\)"):
        matrix.asked(msgspec.structs.replace(small(), checks=wrong))


def test_the_worst_of_several_answers_counts(snapshot: SnapshotAssertion) -> None:
    expected = msgspec.structs.replace(
        small(leak=Defect(fires={"noop_writes": "writes"})),
        checks={"noop_writes": [{"max": 9}, {"max": 2}, {"max": 9}]},
    )
    run = measured(NoopRun(writes=5))
    checks = matrix.bounded(matrix.asked(expected), run)
    cell, _ = matrix.cells(expected, checks, "leak", run)
    assert (cell.said, cell.expected, cell.why, cell.holds) == ("fail", "fires", "writes", True)
    assert cell.asked == "noop_writes(max=2)"
    assert cell.text.endswith(" 5 > 2")
    assert cell.text == snapshot


@pytest.mark.parametrize(
    ("defect", "there", "holds"),
    [
        (CLEAN, [], True),
        (CLEAN, ["note"], True),
        (CLEAN, ["waste"], False),
        ("leak", ["waste"], True),
        ("leak", ["note"], False),
        ("leak", [], False),
        ("slow", ["defect"], True),
        ("slow", [], True),
    ],
)
def test_the_clean_operator_has_no_finding_and_a_defect_those_that_must_be(
    defect: str, there: list[Severity], holds: bool
) -> None:
    expected, _ = _cells()
    findings = tuple(Finding(id="initial-state", severity=severity, text="…") for severity in there)
    test = msgspec.structs.replace(NoopRun().result(), findings=findings)
    assert matrix.findings_cell(expected, defect, test).holds is holds


# ---- what is shown


def _cells() -> tuple[Matrix, list[Cell]]:
    expected = small(
        leak=Defect(fires={"rss": "grows"}, may={"noop_writes": "perhaps"}, caught_by="rss", finds=["initial-state"]),
        slow=Defect(elsewhere="a comparison"),
    )

    def cell(defect: str, check: str, said: Verdict) -> Cell:
        expectation, why = expected.expected(defect, check)
        return Cell(
            defect=defect,
            check=check,
            expected=expectation,
            why=why,
            said=said,
            asked=f"{check}(…)",
            text=said,
            evidence=("first", "second"),
        )

    return expected, [
        cell(CLEAN, "noop_writes", "pass"),
        cell(CLEAN, "rss", "pass"),
        cell(CLEAN, "scales", "pass"),
        cell(CLEAN, "findings", "pass"),
        cell("leak", "noop_writes", "inconclusive"),
        cell("leak", "rss", "fail"),
        cell("leak", "scales", "inconclusive"),
        cell("leak", "findings", "fail"),
        cell("slow", "noop_writes", "fail"),
        cell("slow", "rss", "pass"),
        cell("slow", "scales", "inconclusive"),
        cell("slow", "findings", "pass"),
    ]


def test_the_table_marks_every_cell(snapshot: SnapshotAssertion) -> None:
    expected, cells = _cells()
    lines = document.text(matrix.blocks(expected, cells), width=matrix.WIDTH).splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.split()[:1] != []}
    assert "1 noop_writes" in lines[0]
    at = lines.index(next(line for line in lines if line.startswith("defect")))
    assert [line.split() for line in lines[at + 1 : at + 4]] == [
        ["clean", "·", "·", "·", "·"],
        ["leak", "u", "✓", "?", "✓"],
        ["slow", "✗f", "·", "?", "p"],
    ]
    assert rows["✗"][:2] == ["slow:", "noop_writes(…)"]
    assert "11 of 12 cells" in lines[-1]
    assert lines[-1] == snapshot


def test_each_defect_is_reported_with_what_catches_it() -> None:
    expected, cells = _cells()
    assert matrix.caught(expected, cells) == [("leak", "rss", "fail (first)"), ("slow", "–", "a comparison")]
    markdown = document.markdown(matrix.blocks(expected, cells))
    assert "| `leak` | rss | fail (first) |" in markdown
    assert "| `slow` | ✗f | · | ? | p |" in markdown


def test_what_is_made_at_one_size_only_is_undecided(tmp_path: Path) -> None:
    expected = small(leak=Defect(fires={"rss": "grows"}))
    found = matrix_runs.growth_cell(Runs(tmp_path, expected, SUBJECT), "leak", Screen(io.StringIO()))
    assert (found.check, found.said, found.holds, found.text) == ("scales", "inconclusive", True, "one size")
    assert found.asked == 'scales("noop_cpu", exponent_max=1.3)'


def test_the_files(tmp_path: Path) -> None:
    expected, cells = _cells()
    files = matrix.write_files(tmp_path, expected, cells)
    assert [file.name for file in files] == ["defects.json", "defects.md"]
    content = json.loads(files[0].read_text())
    assert (content["schema_version"], content["holds"], len(content["cells"])) == (1, False, 12)


# ---- runs


def test_a_run_is_gone_on_with_only_when_it_is_the_same(tmp_path: Path) -> None:
    runs = Runs(tmp_path, small(leak=Defect(fires={"rss": ""})), SUBJECT)
    assert runs.measured("leak") is None
    runs.reports("leak").mkdir(parents=True)
    (runs.reports("leak") / "done.json").write_text('{"arguments": ["--another"], "seconds": 1}')
    assert runs.measured("leak") is None
    (runs.reports("leak") / "done.json").write_text("cut sho")
    assert runs.measured("leak") is None


def test_what_is_measured_again_is_forgotten(tmp_path: Path) -> None:
    runs = Runs(tmp_path, small(leak=Defect(fires={"rss": ""})), SUBJECT)
    runs.forget("leak")
    done, sample = runs.reports("leak") / "done.json", runs.sweeps("leak") / "sweep-1/samples/one.json"
    for file in (done, sample):
        file.parent.mkdir(parents=True)
        file.write_text("{}")
    runs.forget("leak")
    assert not done.exists()
    assert not sample.exists()


def test_the_folder_to_go_on_with(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(UsageError) as caught:
        matrix_runs.folder_of(tmp_path, "")
    assert masked(str(caught.value), {tmp_path: "folder"}) == snapshot
    for name in ("defects-20260101-000000-aaaa", "defects-20260102-000000-aaaa"):
        (tmp_path / name / "runs").mkdir(parents=True)
    assert matrix_runs.folder_of(tmp_path, "").name == "defects-20260102-000000-aaaa"
    older = tmp_path / "defects-20260101-000000-aaaa"
    assert matrix_runs.folder_of(tmp_path, str(older)) == older
    assert matrix_runs.folder_of(tmp_path, None).parent == tmp_path


def test_an_unknown_defect_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["selftest", "defects", "--only", "hot-lop", "--reports", str(tmp_path)]) == 2
    assert "no defect hot-lop" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("exponents", "decided"),
    [
        ([1.0], False),  # one run of each size
        ([1.0, 1.01], True),
        ([2.0, 2.01], True),
        ([0.7, 1.9], False),  # the bound lies between
        ([0.7, 1.9, *[1.01, 1.02, 1.0, 0.99] * 4], True),
    ],
)
def test_sizes_are_run_until_the_bound_is_not_in_doubt(exponents: list[float], decided: bool) -> None:
    runs = [SizedRun(size=size, metrics={"noop_cpu": size**power}) for power in exponents for size in (1, 2, 4)]
    growth = msgspec.structs.replace(small().growth, repeats=2)
    assert growth.decided(scaling.sweep("replicas", runs)) is decided


def test_faults_are_given_to_the_scenario_as_scale_takes_them() -> None:
    committed = matrix.read()
    under_faults = [name for name, defect in committed.defects.items() if defect.faults]
    assert under_faults
    for name in under_faults:
        _, parameters = committed.arguments(name)
        assert faults_of(json.loads(str(parameters["faults"]))).any
