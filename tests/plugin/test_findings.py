"""Findings as users meet them: on a real control plane, with defects that no check asks for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from pytest_grovescale.analysis.result import Result, TestResult
from pytest_grovescale.cli import main
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.operator import definition
from pytest_grovescale.resources import find
from tests import forked

TESTS = """
import pytest
from pytest_grovescale import UsageError, conditions

def deploy_and_delete(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=5, pods_per_replica=2)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", 10, ready=True))
        deploy.milestone("available", pcs.status(availableReplicas=5))
        pcs.apply()
    with scale.phase("delete", timeout="60s") as delete:
        delete.milestone("gone", conditions.gone(pcs))
        delete.milestone("pods-gone", conditions.count("pods", 0))
        pcs.delete()

def test_sound(scale):
    deploy_and_delete(scale)

@pytest.mark.grovescale(values={"defect": "orphan"})
def test_orphan(scale):
    deploy_and_delete(scale)

@pytest.mark.grovescale(operator="sharing.yaml", values={"defect": "orphan"})
def test_shared(scale):
    deploy_and_delete(scale)

@pytest.mark.grovescale(operator="logging.yaml")
def test_logged(scale):
    deploy_and_delete(scale)

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


class Run(NamedTuple):
    """A finished run of some of ``TESTS``, which several tests look at."""

    latest: Path
    lines: list[str]
    tests: dict[str, TestResult]

    @property
    def shown(self) -> pytest.LineMatcher:
        return pytest.LineMatcher(self.lines)

    def severe(self, test: str) -> set[str]:
        return {each.id for one in self.tests[test].findings for each in one.all if each.severity != "note"}


def copied(folder: Path, name: str, more: str = "") -> Path:
    """Write the bundled operator's definition, with paths that hold here, and more at its end."""
    source = find(definition.FOLDER, "reference")
    text = source.read_text(encoding="utf-8").replace("../", f"{source.parents[1]}/")
    file = folder / name
    file.write_text(f"{text}\n{more}", encoding="utf-8")
    return file


def run(folder: Path, cluster: Cluster, *options: str) -> Run:
    (folder / "test_it.py").write_text(TESTS, encoding="utf-8")
    (folder / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    copied(folder, "sharing.yaml", "findings:\n  left-behind: they are shared\n")
    file = copied(folder, "logging.yaml")
    script = 'echo password=hunter2hunter2; exec \\"$0\\" \\"$@\\"'
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("command:\n", f'command:\n  - sh\n  - -c\n  - "{script}"\n', 1), encoding="utf-8")
    done = forked.run_pytest(["--grovescale", f"--grovescale-cluster={cluster.name}", *options], cwd=folder)
    latest = folder / "reports" / "latest"
    result = msgspec.json.decode((latest / "result.json").read_bytes(), type=Result)
    return Run(latest, done.stdout.splitlines(), {test.test.rpartition("::")[2]: test for test in result.tests})


@pytest.fixture(scope="module")
def by_default(running_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("default"), running_cluster, "-v")


@pytest.fixture(scope="module")
def failing(running_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(
        tmp_path_factory.mktemp("failing"), running_cluster, "--grovescale-findings=fail", "-k", "sound or orphan"
    )


def test_a_sound_operator_has_no_finding_and_passes_where_they_fail(failing: Run) -> None:
    assert failing.tests["test_sound"].verdict == "passed"
    assert failing.severe("test_sound") == set()


def test_what_is_left_behind_is_shown_below_the_verdict_and_by_the_command(
    by_default: Run, failing: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    by_default.shown.fnmatch_lines(["PASSED test_orphan: *", "- defect: 5 services *"])
    assert by_default.severe("test_orphan") == {"left-behind"}
    assert main(["findings", str(failing.latest)]) == 0
    out = capsys.readouterr().out
    assert "1 defect" in out
    assert "(left-behind)" in out
    assert main(["findings", "--markdown", str(failing.latest)]) == 0
    assert "- defect: 5 services" in capsys.readouterr().out


def test_a_finding_fails_the_test_where_it_is_to(failing: Run) -> None:
    failing.shown.fnmatch_lines(["defect: 5 services *(left-behind)", "FAILED test_*: 1 finding"])
    # Beginning of a line: pytest's own short summary repeats a failure's text at a line's end where CI is set.
    assert len([line for line in failing.lines if line.startswith("- defect: 5 services")]) == 1
    assert failing.tests["test_orphan"].verdict == "failed"


def test_without_findings_none_are_looked_for(running_cluster: Cluster, tmp_path: Path) -> None:
    found = run(tmp_path, running_cluster, "--grovescale-findings=off", "-k", "orphan").tests["test_orphan"]
    assert found.verdict == "passed"
    assert found.findings == ()


def test_a_rule_is_switched_off_with_a_reason_that_is_shown(by_default: Run) -> None:
    assert by_default.tests["test_shared"].verdict == "passed"
    assert by_default.severe("test_shared") == set()
    by_default.shown.fnmatch_lines(["*left-behind *: they are shared"])


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
    file = copied(pytester.path, "mine.yaml", f"findings:\n  {findings}\n")
    pytester.makepyfile("def test_it(scale): pass")
    refused = pytester.runpytest_subprocess("--grovescale", f"--grovescale-operator={file}", "--collect-only")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines([message])


def test_credentials_in_the_log_are_counted_with_their_lines(by_default: Run) -> None:
    assert by_default.tests["test_logged"].verdict == "passed"
    (found,) = [one for one in by_default.tests["test_logged"].findings if one.severity == "defect"]
    assert found.id == "credentials-logged"
    # Each operator of the run has a log.
    (place,) = found.evidence
    assert re.fullmatch(r"operator-\d\.log:1", place)


def test_cycles_are_measured_at_rest_and_their_phases_numbered(by_default: Run) -> None:
    result = by_default.tests["test_cycles"]
    assert result.verdict == "passed"
    names = [phase.name for phase in result.phases]
    assert names[:4] == ["deploy", "delete", "deploy (cycle 2)", "delete (cycle 2)"]
    assert [one.cycle for one in result.cycles] == [0, 1, 2, 3, 4]
    assert all(one.rss_bytes and one.threads and one.watches and one.series for one in result.cycles)
    assert by_default.severe("test_cycles") == set()


NODES = """
from pytest_grovescale import conditions

def test_nodes(scale):
    settings = scale.workload("settings.yaml.j2", objects=12)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("there", conditions.count("configmaps", 12, selector="settings"))
        settings.apply()
    scale.touch_each_kind()
    with scale.phase("delete", timeout="60s") as delete:
        delete.milestone("gone", conditions.gone(settings))
        settings.delete()
"""

SETTINGS = """
{%- for number in range(objects) %}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings-{{ number }}, namespace: "{{ namespace }}", labels: {settings: "yes"}}
{%- endfor %}
"""

WATCHER = """
name: node-watcher
command: ["{python}", "PROGRAM", "--kubeconfig={kubeconfig}", "--health-port={health_port}"]
identity: {namespace: grovescale-node-watcher}
rbac:
  - {apiGroups: [""], resources: [nodes, configmaps], verbs: [get, list, watch]}
readiness: {url: "http://127.0.0.1:{health_port}/readyz"}
trigger: {kind: ConfigMap}
"""


def test_an_operator_that_each_node_wakes_for_all_objects(running_cluster: Cluster, tmp_path: Path) -> None:
    program = Path(__file__).parents[1] / "data/operators/node_watcher.py"
    (tmp_path / "test_it.py").write_text(NODES, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    (tmp_path / "settings.yaml.j2").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "watcher.yaml").write_text(WATCHER.replace("PROGRAM", str(program)), encoding="utf-8")
    options = [f"--grovescale-cluster={running_cluster.name}", "--grovescale-operator=watcher.yaml"]
    done = forked.run_pytest(["--grovescale", *options], cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    latest = tmp_path / "reports" / "latest"
    result = msgspec.json.decode((latest / "result.json").read_bytes(), type=Result)
    texts = [one.text for test in result.tests for one in test.findings if one.id == "reconcile-amplification"]
    assert any("one of the nodes" in text for text in texts), done.stdout
