"""Checks as users meet them: in a test, in a marker and in budgets.yaml, on a real control plane and before one."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.result import CheckResult, Result, TestResult
from pytest_grovescale.cluster.handle import Cluster
from tests import forked

HEAD = """
import pytest
from pytest_grovescale import checks, conditions
"""

NOOP = """
def test_noop(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=2, pods_per_replica=2)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("available", pcs.status(availableReplicas=2))
        deploy.milestone("pods-ready", conditions.count("pods", 4, ready=True))
        pcs.apply()
    scale.wait_idle()
    with scale.phase("steady-state", timeout="60s") as steady:
        pcs.trigger_reconcile()
        steady.hold("2s")
"""


def run(pytester: pytest.Pytester, cluster: Cluster, test: str, *arguments: str) -> pytest.RunResult:
    """Run one test file against the running cluster, in a process of its own."""
    pytester.makepyfile(HEAD + test)
    # Other tests use the machine: a bound that is exceeded is to fail all the same.
    limit = "--grovescale-contention-limit=100%"
    return pytester.runpytest_subprocess("--grovescale", f"--grovescale-cluster={cluster.name}", limit, *arguments)


def checks_of(pytester: pytest.Pytester) -> list[CheckResult]:
    file = pytester.path / "reports" / "latest" / "result.json"
    (test,) = msgspec.json.decode(file.read_bytes(), type=Result).tests
    return list(test.checks)


def budgets(pytester: pytest.Pytester, text: str) -> None:
    (pytester.path / "budgets.yaml").write_text(text, encoding="utf-8")


# ---- without a cluster


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("'noop_writes'", "*::test_it: 'noop_writes' is not a check*"),
        ("checks.NoopWrites(), 3", "*::test_it: 3 is not a check*"),
        ("max=3", "*::test_it: @pytest.mark.grovescale_budget takes checks only*"),
    ],
)
def test_a_marker_of_something_else_is_a_usage_error(pytester: pytest.Pytester, arguments: str, message: str) -> None:
    pytester.makepyfile(HEAD + f"@pytest.mark.grovescale_budget({arguments})\ndef test_it(scale): pass")
    result = pytester.runpytest("--collect-only")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


def test_a_bound_that_cannot_be_is_reported_where_it_stands(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        HEAD + "@pytest.mark.grovescale_budget(checks.Cpu('deploy', max='4x'))\ndef test_it(scale): pass"
    )
    result = pytester.runpytest("--collect-only")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*.py:3: in <module>", "*cpu(max='4x'): *"])


def test_a_budget_for_a_test_that_measures_nothing_is_a_usage_error(
    pytester: pytest.Pytester, snapshot: SnapshotAssertion
) -> None:
    pytester.makepyfile(HEAD + "@pytest.mark.grovescale_budget(checks.NoopWrites())\ndef test_it(): pass")
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (reported,) = (line for line in result.errlines if line.startswith("ERROR: "))
    assert "`scale`" in reported
    assert reported == snapshot


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_wrong_file_is_a_usage_error_with_its_line(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    pytester.makepyfile("def test_it(scale): pass")
    budgets(pytester, "tests:\n  test_it:\n    - noop_write: {max: 0}\n")
    result = pytester.runpytest_subprocess(*workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = f"{result.stdout}\n{result.stderr}"
    assert "budgets.yaml:3: " in text
    assert "did you mean noop_writes" in text


def test_a_wrong_file_beside_other_tests_is_no_matter(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    budgets(pytester, "somebody else's\n")
    pytester.runpytest().assert_outcomes(passed=1)


@pytest.mark.parametrize("argument", ["--grovescale-inconclusive=ignore", "--grovescale-budgets=no"])
def test_wrong_options_are_usage_errors(pytester: pytest.Pytester, argument: str) -> None:
    result = pytester.runpytest(argument)
    assert result.ret == pytest.ExitCode.USAGE_ERROR


# ---- on a control plane


SOUND = (
    HEAD
    + "from pytest_grovescale.errors import UsageError\n"
    + "@pytest.mark.grovescale_budget(checks.NoopWrites(max=0))"
    + NOOP
    + '    scale.check(checks.ApiRequests("deploy", "create", resource="pods", max=1, per_object=True))\n'
    + "@pytest.mark.grovescale_budget(checks.Scales('cpu:deploy'))"
    + NOOP.replace("test_noop", "test_swept")
    + "    scale.check(checks.Scales('rss:deploy', exponent_max=1))\n"
    + "@pytest.mark.grovescale_budget(checks.NoopReconciles(per_trigger={'podcliqueset': 1, 'podclique': 2}))"
    + NOOP.replace("test_noop", "test_repeated").replace("reconcile()", "reconcile(times=5)")
    + "    with pytest.raises(UsageError, match='once or more'):\n        pcs.trigger_reconcile(times=0)\n"
)
BUDGETS = """
tests:
  test_noop:
    - noop_reconciles: {per_trigger: {podcliqueset: 1, podclique: 2}}
    - hot_loop
    - cpu: {phase: deploy, max: 30s}
    - rss: {max: 2Gi}
  test_swept: [hot_loop, {scales: {metric: noop_cpu}}]
"""


class Sound(NamedTuple):
    """A finished run of ``SOUND``, which several tests look at."""

    folder: Path
    shown: pytest.LineMatcher
    tests: dict[str, TestResult]


@pytest.fixture(scope="module")
def sound(running_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Sound:
    folder = tmp_path_factory.mktemp("sound")
    (folder / "test_sound.py").write_text(SOUND, encoding="utf-8")
    (folder / "budgets.yaml").write_text(BUDGETS, encoding="utf-8")
    (folder / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    options = [f"--grovescale-cluster={running_cluster.name}", "--grovescale-contention-limit=100%"]
    done = forked.run_pytest(["--grovescale", *options, "-v", "--junit-xml=junit.xml"], cwd=folder)
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert "warning" not in done.stdout.splitlines()[-1]
    result = msgspec.json.decode((folder / "reports/latest/result.json").read_bytes(), type=Result)
    tests = {test.test.rpartition("::")[2]: test for test in result.tests}
    return Sound(folder, pytest.LineMatcher(done.stdout.splitlines()), tests)


@pytest.mark.cluster
def test_marker_file_and_call_hold_a_sound_operator(sound: Sound) -> None:
    test = sound.tests["test_noop"]
    assert {check.verdict for check in test.checks} == {"pass"}
    assert [check.source for check in test.checks] == [
        "marker",
        *(f"budgets.yaml:{n}" for n in (4, 5, 6, 7)),
        "test",
    ]
    sound.shown.fnmatch_lines(["PASSED test_noop: 6 checks, 3 phases*"])
    twin = next(phase for phase in test.phases if phase.name == "steady-state (idle)")
    steady = next(phase for phase in test.phases if phase.name == "steady-state")
    assert steady.idle_twin == twin.name
    # As long as the phase, but for what its edges took: a busy machine's are some ms apart.
    assert twin.seconds >= 0.95 * steady.seconds
    assert twin.triggers == 0
    (case,) = ElementTree.parse(sound.folder / "junit.xml").iterfind(".//testcase[@name='test_noop']")
    properties = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert properties["grovescale.check.noop_writes.steady-state"] == "pass"


@pytest.mark.cluster
def test_what_a_sweep_judges_is_recorded_and_decides_nothing(sound: Sound) -> None:
    sound.shown.fnmatch_lines(
        [
            "Checks: 1 passed",
            '- *: scales("cpu:deploy", exponent_max=1.15)*',
            '- *: scales("noop_cpu", exponent_max=1.15)*',
            '- *: scales("rss:deploy", exponent_max=1)*',
        ]
    )
    assert [check.check for check in sound.tests["test_swept"].checks] == ["hot_loop()"]


@pytest.mark.cluster
def test_a_trigger_may_be_repeated_until_its_cost_is_reported(sound: Sound) -> None:
    test = sound.tests["test_repeated"]
    (check,) = test.checks
    assert check.verdict == "pass"
    (steady,) = (phase for phase in test.phases if phase.name == "steady-state")
    # Each came once the operator was done with the last: none melted into another in its queue.
    assert steady.triggers == 5


@pytest.mark.cluster
def test_noop_writes_of_a_defective_operator_fail_the_test(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    outcome = run(
        pytester,
        running_cluster,
        "@pytest.mark.grovescale_budget(checks.NoopWrites(max=0), checks.NoopReconciles(max=1000))" + NOOP,
        "--grovescale-set=defect=noop-writes",
    )
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(
        [
            "*steady-state 2 > 0 (fail; *, marker)",
            "    wrote podcliques.grove.io */*",
            "*grovescale checks*",
            "FAILED test_noop: 1 of 2 checks*",
            "- *steady-state 2 > 0 (marker)",
        ]
    )
    outcome.stdout.no_fnmatch_line("*INTERNALERROR*")


@pytest.mark.cluster
def test_unknown_controllers_are_reported_before_anything_is_measured(
    pytester: pytest.Pytester, running_cluster: Cluster
) -> None:
    budgets(pytester, "tests: {test_file: [{noop_reconciles: {controller: podcliqeset, per_trigger: 1}}]}\n")
    calls = '    scale.check(checks.NoopReconciles(per_trigger={"podcliqueset": 1, "podcliques": 2}))\n'
    outcome = run(pytester, running_cluster, NOOP.replace("noop", "file") + NOOP.replace("noop", "code") + calls)
    outcome.assert_outcomes(errors=2)
    outcome.stdout.fnmatch_lines(
        [
            "*budgets.yaml:1: noop_reconciles(*): * 'podcliqeset'",
            "*Did you mean podcliqueset *",
            f"test_*.py:{len((HEAD + NOOP + NOOP + calls).strip().splitlines())}: * 'podcliques'",
            "*Did you mean podclique *",
        ]
    )
    outcome.stdout.no_fnmatch_line("*deploy: begins*")


@pytest.mark.cluster
def test_a_hot_loop_goes_on_in_the_idle_twin(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    budgets(pytester, "tests: {test_noop: [hot_loop]}\n")
    # It never is: to wait a minute for that is a minute of its work.
    test = NOOP.replace("wait_idle()", "wait_idle(timeout='1s')")
    outcome = run(pytester, running_cluster, test, "--grovescale-set=defect=hot-loop")
    outcome.assert_outcomes(failed=1)
    (found,) = checks_of(pytester)
    assert found.verdict == "fail"
    assert found.figure is not None
    assert found.bound is not None
    assert found.figure > found.bound
    outcome.stdout.fnmatch_lines(["*steady-state*(fail; hot_loop(), *"])


INCONCLUSIVE = "@pytest.mark.grovescale_budget(checks.NoopWrites(identity='nobody'))" + NOOP


@pytest.mark.cluster
def test_what_cannot_be_reported_fails_or_warns(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    outcome = run(pytester, running_cluster, INCONCLUSIVE)
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(["noop_writes(*): *'nobody'*(inconclusive; *"])
    outcome = run(pytester, running_cluster, INCONCLUSIVE, "--grovescale-inconclusive=warn")
    outcome.assert_outcomes(passed=1, warnings=1)
    outcome.stdout.fnmatch_lines(["*InconclusiveWarning: noop_writes(*"])


@pytest.mark.cluster
def test_a_call_fails_where_it_stands_and_can_be_judged_again(
    pytester: pytest.Pytester, running_cluster: Cluster
) -> None:
    calls = """
    assert scale.check(checks.NoopWrites()).verdict == "pass"
    with pytest.raises(AssertionError, match="has no idle twin.*inconclusive"):
        scale.check(checks.NoopCpu(times_idle=3))
    scale.check(checks.Cpu("deploy", max="1ms"))
"""
    outcome = run(pytester, running_cluster, NOOP + calls)
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(["E *CPU in deploy * > 1 ms (fail; *"])
    assert [check.verdict for check in checks_of(pytester)] == ["pass", "inconclusive", "fail"]
    budgets(pytester, "tests: {'test_*': [{cpu: {phase: deploy, max: 1ms}}]}\n")
    called = NOOP.replace("test_noop", "test_called") + calls.splitlines()[-1]
    outcome = run(pytester, running_cluster, NOOP + called, "--grovescale-budgets=off")
    outcome.assert_outcomes(passed=1, failed=1)
    file = pytester.path / "reports" / "latest" / "result.json"
    tests = msgspec.json.decode(file.read_bytes(), type=Result).tests
    assert [[check.verdict for check in test.checks] for test in tests] == [["not enforced"], ["not enforced", "fail"]]
    outcome.stdout.fnmatch_lines(["PASSED test_noop: *"])


@pytest.mark.cluster
def test_budgets_hold_under_xdist(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    budgets(pytester, "tests:\n  'test_*':\n    - noop_writes\n    - rss: {max: 1Ki}\n")
    other = NOOP.replace("test_noop", "test_other")
    outcome = run(pytester, running_cluster, NOOP + other, "-n", "2")
    outcome.assert_outcomes(failed=2)
    result = msgspec.json.decode((pytester.path / "reports/latest/result.json").read_bytes(), type=Result)
    assert [[check.verdict for check in test.checks] for test in result.tests] == [["pass", "fail"]] * 2
