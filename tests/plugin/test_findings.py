"""Findings as users meet them: on a real control plane, with defects that no check asks for."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.analysis.result import Result, TestResult
from pytest_grovescale.cli import main
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.operator import definition
from pytest_grovescale.resources import find

TEST = """
from pytest_grovescale import conditions

def test_deploy_and_delete(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=5, pods_per_replica=2)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", 10, ready=True))
        deploy.milestone("available", pcs.status(availableReplicas=5))
        pcs.apply()
    with scale.phase("delete", timeout="60s") as delete:
        delete.milestone("gone", conditions.gone(pcs))
        delete.milestone("pods-gone", conditions.count("pods", 0))
        pcs.delete()
"""


@pytest.fixture
def cluster(running_cluster: Cluster) -> Cluster:
    return running_cluster


def run(pytester: pytest.Pytester, cluster: Cluster, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(TEST)
    return pytester.runpytest_subprocess("--grovescale", f"--grovescale-cluster={cluster.name}", *arguments)


def result_of(pytester: pytest.Pytester) -> TestResult:
    file = pytester.path / "reports" / "latest" / "result.json"
    (test,) = msgspec.json.decode(file.read_bytes(), type=Result).tests
    return test


def severe(pytester: pytest.Pytester) -> set[str]:
    return {one.id for one in result_of(pytester).findings if one.severity != "note"}


def test_a_sound_operator_has_no_finding_and_passes_where_they_fail(
    pytester: pytest.Pytester, cluster: Cluster
) -> None:
    run(pytester, cluster, "--grovescale-findings=fail").assert_outcomes(passed=1)
    assert severe(pytester) == set()


def test_what_is_left_behind_is_shown_below_the_verdict_and_by_the_command(
    pytester: pytest.Pytester, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = run(pytester, cluster, "--grovescale-set=defect=orphan")
    shown.assert_outcomes(passed=1)
    shown.stdout.fnmatch_lines(["PASSED test_deploy_and_delete: *", "- defect: 5 services *"])
    assert severe(pytester) == {"left-behind"}
    assert main(["findings", str(pytester.path / "reports" / "latest")]) == 0
    out = capsys.readouterr().out
    assert "1 defect" in out
    assert "(left-behind)" in out
    assert main(["findings", "--markdown", str(pytester.path / "reports" / "latest")]) == 0
    assert "- defect: 5 services" in capsys.readouterr().out


def test_a_finding_fails_the_test_where_it_is_to(pytester: pytest.Pytester, cluster: Cluster) -> None:
    shown = run(pytester, cluster, "--grovescale-set=defect=orphan", "--grovescale-findings=fail")
    shown.assert_outcomes(failed=1)
    shown.stdout.fnmatch_lines(["defect: 5 services *(left-behind)", "FAILED test_*: 1 finding"])
    # Beginning of a line: pytest's own short summary repeats a failure's text at a line's end where CI is set.
    assert len([line for line in shown.outlines if line.startswith("- defect: 5 services")]) == 1
    assert result_of(pytester).verdict == "failed"


def test_without_findings_none_are_looked_for(pytester: pytest.Pytester, cluster: Cluster) -> None:
    run(pytester, cluster, "--grovescale-set=defect=orphan", "--grovescale-findings=off").assert_outcomes(passed=1)
    assert result_of(pytester).findings == ()


def copied(pytester: pytest.Pytester, more: str) -> Path:
    """Write the bundled operator's definition, with paths that hold here, and more at its end."""
    source = find(definition.FOLDER, "reference")
    text = source.read_text(encoding="utf-8").replace("../", f"{source.parents[1]}/")
    file = pytester.path / "mine.yaml"
    file.write_text(f"{text}\n{more}", encoding="utf-8")
    return file


def test_a_rule_is_switched_off_with_a_reason_that_is_shown(pytester: pytest.Pytester, cluster: Cluster) -> None:
    file = copied(pytester, "findings:\n  left-behind: they are shared\n")
    shown = run(pytester, cluster, "-v", f"--grovescale-operator={file}", "--grovescale-set=defect=orphan")
    shown.assert_outcomes(passed=1)
    assert severe(pytester) == set()
    shown.stdout.fnmatch_lines(["*left-behind *: they are shared"])


@pytest.mark.parametrize(
    ("findings", "message"),
    [
        ("left-behinds: why", "*mine.yaml:*findings.left-behinds: no rule 'left-behinds'. Did you mean left-behind?*"),
        ("left-behind: ''", "*mine.yaml:*findings.left-behind: no reason*"),
    ],
)
def test_a_rule_that_there_is_not_is_refused_before_anything_starts(
    pytester: pytest.Pytester, findings: str, message: str
) -> None:
    file = copied(pytester, f"findings:\n  {findings}\n")
    pytester.makepyfile(TEST)
    refused = pytester.runpytest_subprocess("--grovescale", f"--grovescale-operator={file}", "--collect-only")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines([message])


def test_credentials_in_the_log_are_counted_with_their_lines(pytester: pytest.Pytester, cluster: Cluster) -> None:
    script = 'echo password=hunter2hunter2; exec \\"$0\\" \\"$@\\"'
    file = copied(pytester, "")
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("command:\n", f'command:\n  - sh\n  - -c\n  - "{script}"\n', 1), encoding="utf-8")
    run(pytester, cluster, f"--grovescale-operator={file}").assert_outcomes(passed=1)
    (found,) = [one for one in result_of(pytester).findings if one.severity == "defect"]
    assert (found.id, found.evidence) == ("credentials-logged", ("operator.log:1",))


CYCLES = """
import pytest
from pytest_grovescale import UsageError, conditions

def test_cycles(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=2, pods_per_replica=1)
    seen = []
    for cycle in scale.cycles(4):
        seen.append(cycle)
        with scale.phase("deploy", timeout="60s") as deploy:
            deploy.milestone("available", pcs.status(availableReplicas=2))
            pcs.apply()
        with scale.phase("delete", timeout="60s") as delete:
            delete.milestone("gone", conditions.gone(pcs))
            delete.milestone("pods-gone", conditions.count("pods", 0))
            pcs.delete()
    assert seen == [1, 2, 3, 4]
    with pytest.raises(UsageError, match="too few"):
        next(scale.cycles(3))
"""


def test_cycles_are_measured_at_rest_and_their_phases_numbered(pytester: pytest.Pytester, cluster: Cluster) -> None:
    pytester.makepyfile(CYCLES)
    pytester.runpytest_subprocess("--grovescale", f"--grovescale-cluster={cluster.name}").assert_outcomes(passed=1)
    result = result_of(pytester)
    names = [phase.name for phase in result.phases]
    assert names[:4] == ["deploy", "delete", "deploy (cycle 2)", "delete (cycle 2)"]
    assert [one.cycle for one in result.cycles] == [0, 1, 2, 3, 4]
    assert all(one.rss_bytes and one.threads and one.watches and one.series for one in result.cycles)
    assert severe(pytester) == set()
