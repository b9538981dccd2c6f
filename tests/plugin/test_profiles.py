"""Profiles as a user gets them: a second pass behind each scale test, its files, and what it does not judge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import resources
from pytest_grovescale.analysis.result import CheckResult, Result, TestResult
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.recording.journal import read
from pytest_grovescale.recording.records import AnyRecord, Lines, Opened, PhaseEnded, PhaseStarted, ProfileTaken
from tests import forked, goprogram

COLLECTED = """
import pytest

def test_plain(scale): pass

@pytest.mark.parametrize("n", [1, 2])
def test_parametrised(scale, n): pass

@pytest.mark.grovescale(profile="pyspy")
def test_marked(scale): pass

def test_functional(grovescale_operator): pass
"""

MEASURED = ["test_plain", "test_parametrised[1]", "test_parametrised[2]", "test_marked", "test_functional"]


def collected(pytester: pytest.Pytester, *arguments: str) -> list[str]:
    pytester.makepyfile(COLLECTED)
    result = pytester.runpytest("--collect-only", "-q", *arguments)
    return [line.rpartition("::")[2] for line in result.outlines if "::" in line]


def test_each_scale_test_is_followed_by_its_pass_with_profilers(pytester: pytest.Pytester) -> None:
    assert collected(pytester, "--grovescale", "--grovescale-profile=auto") == [
        "test_plain",
        "test_plain[profiled]",
        "test_parametrised[1]",
        "test_parametrised[1-profiled]",
        "test_parametrised[2]",
        "test_parametrised[2-profiled]",
        "test_marked",
        "test_marked[profiled]",
        "test_functional",
    ]


def test_only_what_a_marker_asks_for(pytester: pytest.Pytester) -> None:
    assert set(collected(pytester, "--grovescale")) - set(MEASURED) == {"test_marked[profiled]"}


@pytest.mark.parametrize("arguments", [("--grovescale", "--grovescale-profile=off"), ("--grovescale-profile=auto",)])
def test_nothing_changes_without_it(pytester: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    assert collected(pytester, *arguments) == MEASURED


def test_passes_are_chosen_by_name(pytester: pytest.Pytester) -> None:
    chosen = collected(pytester, "--grovescale", "--grovescale-profile=pprof", "-k", "profiled and plain")
    assert chosen == ["test_plain[profiled]"]


@pytest.mark.parametrize(
    ("value", "message"), [("'perf'", "*profile perf: use `auto` or `pyspy`*"), ("3", "*not of type str*")]
)
def test_a_wrong_marker_is_a_usage_error(pytester: pytest.Pytester, value: str, message: str) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.grovescale(profile={value})\ndef test_it(scale): pass")
    result = pytester.runpytest("--grovescale", "--collect-only")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_a_wrong_option_is_a_usage_error(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--grovescale-profile=perf")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--grovescale-profile perf: use*pyspy*"])


# ---- on a cluster

SMALL = """
from pytest_grovescale import conditions

def test_small(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=10, pods_per_replica=2)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", 20, ready=True))
        pcs.apply()
    with scale.phase("steady-state", timeout="60s") as steady:
        pcs.trigger_reconcile()
        steady.hold("2s")
    with scale.phase("delete", timeout="60s", profile=False) as delete:
        delete.milestone("pods-gone", conditions.count("pods", 0))
        pcs.delete()
    assert deploy.cpu("operator").seconds > 0
"""


def run(pytester: pytest.Pytester, cluster: Cluster, test: str, *arguments: str) -> pytest.RunResult:
    """Run one test file against the running cluster, in a process of its own."""
    pytester.makepyfile(test)
    return pytester.runpytest_subprocess(
        "--grovescale", f"--grovescale-cluster={cluster.name}", "--grovescale-profile=auto", *arguments
    )


def latest(pytester: pytest.Pytester) -> Path:
    return pytester.path / "reports" / "latest"


def recordings(folder: Path) -> dict[str, list[AnyRecord]]:
    """Return the records of each test and pass of a run."""
    return {
        opened.test.rpartition("::")[2]: records
        for path in (folder / "recordings").iterdir()
        if isinstance((opened := (records := list(read(path)))[0]), Opened)
    }


def results(pytester: pytest.Pytester) -> dict[str, TestResult]:
    found = msgspec.json.decode((latest(pytester) / "result.json").read_bytes(), type=Result)
    return {test.test.rpartition("::")[2]: test for test in found.tests}


@pytest.mark.cluster
def test_the_first_pass_measures_and_the_second_leaves_profiles(
    pytester: pytest.Pytester, running_cluster: Cluster, snapshot: SnapshotAssertion
) -> None:
    outcome = run(pytester, running_cluster, SMALL)
    outcome.assert_outcomes(passed=2)
    (reported,) = (line for line in outcome.outlines if "profilers were attached" in line)
    assert reported.startswith("grovescale: ")
    assert reported == snapshot
    found = results(pytester)
    assert [(name, test.profiled) for name, test in sorted(found.items())] == [
        ("test_small", False),
        ("test_small[profiled]", True),
    ]
    recorded = recordings(latest(pytester))
    assert not [record for record in recorded["test_small"] if isinstance(record, ProfileTaken)]
    profiled = recorded["test_small[profiled]"]
    taken = [record for record in profiled if isinstance(record, ProfileTaken)]
    assert [(record.phase, record.process, record.kind) for record in taken] == [
        ("deploy", "operator", "pyspy"),
        ("steady-state", "operator", "pyspy"),
    ]
    texts = [(latest(pytester) / record.file).read_text(encoding="utf-8") for record in taken]
    for record, text in zip(taken, texts, strict=True):
        assert record.samples == sum(int(line.rpartition(" ")[2]) for line in text.splitlines())
        assert covers(profiled, record)
    assert "pytest_grovescale/reference_operator/" in texts[0], "the operator's own code is in it"
    assert found["test_small[profiled]"].phases[1].triggers > 1, "repeated until there are samples enough"
    assert found["test_small"].phases[1].triggers == 1


def covers(records: list[AnyRecord], taken: ProfileTaken) -> bool:
    """Whether a profile covers its phase: attached before it began, and not stopped before it ended by itself."""
    (start,) = (r.at for r in records if isinstance(r, PhaseStarted) and r.phase == taken.phase)
    (end,) = (r.at for r in records if isinstance(r, PhaseEnded) and r.phase == taken.phase)
    return taken.started <= start < taken.ended <= end


JUDGED = """
from pytest_grovescale import conditions

def test_asserts(scale, grovescale_profiled):
    with scale.phase("nothing"):
        pass
    assert False, "too slow"

def test_defective(scale, grovescale_profiled):
    with scale.phase("nothing"):
        pass
    raise RuntimeError("a defect")

def test_knows_its_pass(scale, grovescale_profiled):
    with scale.phase("nothing"):
        pass
    assert not grovescale_profiled

def test_late(scale):
    with scale.phase("deploy", timeout="2s") as deploy:
        deploy.milestone("pods", conditions.count("pods", 1))

def test_restart(scale):
    with scale.phase("restart", timeout="60s") as restart:
        scale.restart_operator()
        restart.hold("2s")
"""


class Judged(NamedTuple):
    """A finished run of ``JUDGED``, which several tests look at."""

    latest: Path
    tests: dict[str, TestResult]
    outcomes: dict[str, str]
    """Test → its outcome in JUnit's words, or ``passed``."""


@pytest.fixture(scope="module")
def judged(running_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    folder = tmp_path_factory.mktemp("judged")
    (folder / "test_judged.py").write_text(JUDGED, encoding="utf-8")
    (folder / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    options = [f"--grovescale-cluster={running_cluster.name}", "--grovescale-profile=auto", "--junit-xml=junit.xml"]
    forked.run_pytest(["--grovescale", *options], cwd=folder)
    found = msgspec.json.decode((folder / "reports/latest/result.json").read_bytes(), type=Result)
    cases = ElementTree.parse(folder / "junit.xml").iter("testcase")
    return Judged(
        folder / "reports" / "latest",
        {test.test.rpartition("::")[2]: test for test in found.tests},
        {
            case.get("name", ""): next((c.tag for c in case if c.tag in ("failure", "error")), "passed")
            for case in cases
        },
    )


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("test", "measured", "profiled"),
    [
        ("test_asserts", "failure", "passed"),
        ("test_defective", "failure", "failure"),
        ("test_knows_its_pass", "passed", "passed"),
        ("test_late", "failure", "failure"),
    ],
)
def test_what_a_test_asserts_is_judged_in_the_first_pass_alone(
    judged: Judged, test: str, measured: str, profiled: str
) -> None:
    assert (judged.outcomes[test], judged.outcomes[f"{test}[profiled]"]) == (measured, profiled)


@pytest.mark.cluster
def test_a_phase_that_fails_leaves_the_operators_stacks_in_both_passes(judged: Judged) -> None:
    recorded = recordings(judged.latest)
    for name in ("test_late", "test_late[profiled]"):
        (stacks,) = (r for r in recorded[name] if isinstance(r, Lines) and r.source == "stacks:operator")
        assert any("MainThread" in line for line in stacks.lines), name


@pytest.mark.cluster
def test_an_operator_restarted_in_a_phase_has_a_profile_of_each_life(judged: Judged) -> None:
    assert judged.outcomes["test_restart[profiled]"] == "passed"
    (phase,) = judged.tests["test_restart[profiled]"].phases
    files = sorted(path.name for path in (judged.latest / "profiles").glob("*/restart-*.txt"))
    assert files == ["restart-operator-pyspy-2.txt", "restart-operator-pyspy.txt"]
    assert "profile:operator" not in phase.missing


@pytest.mark.cluster
def test_what_cannot_be_profiled_is_skipped_with_the_reason(
    pytester: pytest.Pytester, running_cluster: Cluster, snapshot: SnapshotAssertion
) -> None:
    test = "def test_it(scale):\n    with scale.phase('nothing'):\n        pass\n"
    outcome = run(pytester, running_cluster, test, "--grovescale-profile=pprof", "-rs")
    outcome.assert_outcomes(passed=1, skipped=1)
    (reported,) = (line for line in outcome.outlines if line.startswith("SKIPPED"))
    assert reported.partition(": ")[2] == snapshot


CHOSEN = """
import pytest
from pytest_grovescale.errors import UsageError

def test_chosen(scale):
    for name, profile in {"own": "pyspy", "named": "pprof", "open": True, "off": "off"}.items():
        with scale.phase(name, profile=profile) as phase:
            phase.hold("1s")
    with pytest.raises(UsageError, match="profile='perf' is no profiler"):
        scale.phase("wrong", profile="perf")
"""


def taken(pytester: pytest.Pytester) -> list[tuple[str, str]]:
    """Phase and kind of every CPU profile of the run."""
    records = [record for path in (latest(pytester) / "recordings").iterdir() for record in read(path)]
    return [(r.phase, r.kind) for r in records if isinstance(r, ProfileTaken) and r.kind in ("pyspy", "pprof")]


@pytest.fixture
def served_by_go(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[str]:
    """A definition of the reference operator that names a Go program's pprof as its own: so it has both profilers."""
    base = tmp_path_factory.getbasetemp()
    program = goprogram.build(base if worker_id == "master" else base.parent)
    reference = resources.find("fixtures/operators", "reference.yaml")
    written = reference.read_text(encoding="utf-8").replace("../", f"{reference.parents[1]}/")
    with goprogram.running(program, "-resting") as (_, address):
        file = tmp_path_factory.mktemp("operator") / "both.yaml"
        file.write_text(f"{written}\npprof: {{url: {address.url}}}\n", encoding="utf-8")
        yield str(file)


@pytest.mark.cluster
def test_a_phase_chooses_its_profiler(pytester: pytest.Pytester, running_cluster: Cluster, served_by_go: str) -> None:
    run(pytester, running_cluster, CHOSEN, f"--grovescale-operator={served_by_go}").assert_outcomes(passed=2)
    assert taken(pytester) == [("own", "pyspy"), ("named", "pprof"), ("open", "pprof")]


@pytest.mark.cluster
def test_a_phase_that_cannot_be_profiled_as_it_asks_says_why_and_the_others_are(
    pytester: pytest.Pytester, running_cluster: Cluster, snapshot: SnapshotAssertion
) -> None:
    run(pytester, running_cluster, CHOSEN).assert_outcomes(passed=2)
    assert taken(pytester) == [("own", "pyspy"), ("open", "pyspy")]
    phases = {phase.name: phase for phase in results(pytester)["test_chosen[profiled]"].phases}
    assert phases["named"].missing["profile:operator"] == snapshot
    assert [name for name, phase in phases.items() if phase.missing.get("profile:operator")] == ["named"]


@pytest.mark.cluster
def test_a_profiler_without_a_pass_for_it_is_a_notice(
    pytester: pytest.Pytester, running_cluster: Cluster, snapshot: SnapshotAssertion
) -> None:
    pytester.makepyfile(CHOSEN)
    arguments = ("--grovescale", f"--grovescale-cluster={running_cluster.name}")
    outcome = pytester.runpytest_subprocess(*arguments)
    outcome.assert_outcomes(passed=1, warnings=0)
    (reported,) = (line for line in outcome.outlines if "not profiled" in line)
    assert "named by pprof" in reported
    assert reported == snapshot
    switched_off = pytester.runpytest_subprocess(*arguments, "--grovescale-profile=off")
    switched_off.assert_outcomes(passed=1)
    switched_off.stdout.no_fnmatch_line("*profiling pass disabled*")


@pytest.mark.cluster
def test_workers_tell_what_they_did_not_judge(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    test = """
import pytest

@pytest.mark.parametrize("n", [1, 2])
def test_it(scale, n, grovescale_profiled):
    with scale.phase("nothing"):
        pass
    assert not grovescale_profiled, "not in this pass"
"""
    outcome = run(pytester, running_cluster, test, "-n", "2")
    outcome.assert_outcomes(passed=4)
    outcome.stdout.fnmatch_lines_random(
        [f"*test_it?{n}-profiled?: profilers were attached, so this was not judged: not in this pass*" for n in (1, 2)]
    )
    assert set(results(pytester)) == {"test_it[1]", "test_it[1][profiled]", "test_it[2]", "test_it[2][profiled]"}


NAMED = """
import pytest
from pytest_grovescale import checks, conditions

@pytest.mark.grovescale_budget(checks.FunctionNameLabels())
def test_marked(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=10, pods_per_replica=1)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", 10, ready=True))
        pcs.apply()
    if scale.parameter("called", 0):
        scale.check(checks.FunctionNameLabels())
"""


class Named(NamedTuple):
    """A finished run of ``NAMED`` with an operator whose labels are named after its functions."""

    latest: Path
    lines: list[str]
    tests: dict[str, TestResult]


@pytest.fixture(scope="module")
def flawed(running_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Named:
    folder = tmp_path_factory.mktemp("flawed")
    (folder / "test_named.py").write_text(NAMED, encoding="utf-8")
    (folder / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    where = [f"--grovescale-cluster={running_cluster.name}", "--grovescale-profile=auto"]
    options = [*where, "--grovescale-set=defect=function-name-label", "--grovescale-param=called=1"]
    done = forked.run_pytest(["--grovescale", *options], cwd=folder)
    found = msgspec.json.decode((folder / "reports/latest/result.json").read_bytes(), type=Result)
    tests = {test.test.rpartition("::")[2]: test for test in found.tests}
    return Named(folder / "reports/latest", done.stdout.splitlines(), tests)


def verdicts(test: TestResult) -> dict[str, CheckResult]:
    """Return check's source → what it said of one pass."""
    return {check.source: check for check in test.checks}


@pytest.mark.cluster
def test_labels_named_after_functions_fail_the_pass_whose_stacks_have_them(flawed: Named) -> None:
    profiled = flawed.tests["test_marked[profiled]"]
    found = verdicts(profiled)["marker"]
    assert found.verdict == "fail"
    (profile,) = profiled.phases[0].profiles
    # Short functions: a fast machine may have no sample of them, and the label's name alone says it then.
    sampled = ".sync (" in (flawed.latest / profile.file).read_text(encoding="utf-8")
    assert ("profile of deploy" in "\n".join(found.evidence)) == sampled
    pytest.LineMatcher(flawed.lines).fnmatch_lines(["*names of functions 1 > 0*"])


@pytest.mark.cluster
def test_a_call_in_the_test_is_held_in_both_passes(flawed: Named) -> None:
    passes = ("test_marked", "test_marked[profiled]")
    assert [verdicts(flawed.tests[name])["test"].verdict for name in passes] == ["fail"] * 2
    assert [flawed.tests[name].verdict for name in passes] == ["failed"] * 2


@pytest.mark.cluster
def test_a_sound_operator_passes_both(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    run(pytester, running_cluster, NAMED, "--grovescale-param=called=1").assert_outcomes(passed=2)
    for name in ("test_marked", "test_marked[profiled]"):
        assert {source: check.verdict for source, check in verdicts(results(pytester)[name]).items()} == {
            "marker": "pass",
            "test": "pass",
        }
