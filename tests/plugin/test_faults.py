"""What goes wrong around a phase: the control plane, the supervisor, a crash loop, another run beside it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import cli
from pytest_grovescale.analysis.result import Result, TestResult
from pytest_grovescale.cluster import state
from pytest_grovescale.cluster.processes import ProcessInfo
from pytest_grovescale.errors import ExitCode
from tests import forked
from tests.golden import masked
from tests.processes import wait_none, written

pytestmark = pytest.mark.cluster

# The test tells through a pipe when its phase is open, and goes on when it is told to.
TEST = """
import asyncio
from pathlib import Path

import pytest

from pytest_grovescale import conditions


@pytest.mark.grovescale(nodes=2)
def test_it(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=2, pods_per_replica=2)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("ready", conditions.count("pods", 4, ready=True))
        scale.run(asyncio.sleep(0))
        Path("here").write_text(scale.cluster.name)
        Path("go-on").read_text()
        while not scale.run(scale.client.ready()):
            pass
        pcs.apply()
    with scale.phase("delete", timeout="60s") as delete:
        delete.milestone("gone", conditions.count("pods", 0))
        pcs.delete()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with one scale test, and clusters of its own to be looked for afterwards."""
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "test_it.py").write_text(TEST, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    for name in ("here", "go-on"):
        os.mkfifo(tmp_path / name)
    yield tmp_path
    wait_none(str(tmp_path))


def start(folder: Path, *options: str) -> forked.Process:
    return forked.Process("pytest", ["--grovescale", "-p", "no:cacheprovider", *options], cwd=folder)


def where(folder: Path, process: forked.Process) -> Path:
    """Wait until the phase is open; return the cluster's folder. Fails with the run's output if that ends before."""
    return state.directory(written(folder / "here", process))


def go_on(folder: Path) -> None:
    (folder / "go-on").write_text("go on", encoding="utf-8")


def finish(process: forked.Process) -> str:
    output, _ = process.communicate(timeout=240)
    return output


def recorded(folder: Path) -> TestResult:
    result = msgspec.json.decode((folder / "reports/latest/result.json").read_bytes(), type=Result)
    (test,) = result.tests
    return test


def component(cluster: Path, name: str) -> ProcessInfo:
    return state.process_list(cluster)[name]


def test_api_server_killed_in_a_phase_is_started_again_and_the_phase_goes_on(
    folder: Path, snapshot: SnapshotAssertion
) -> None:
    process = start(folder)
    cluster = where(folder, process)
    before = component(cluster, "kube-apiserver")
    os.kill(before.pid, signal.SIGKILL)
    go_on(folder)
    output = finish(process)
    assert process.returncode == 0, output
    test = recorded(folder)
    assert [phase.outcome for phase in test.phases] == ["passed", "passed"]
    api_server = next(row for row in test.phases[0].cpu if row.process == "kube-apiserver")
    assert api_server.lower_bound, "two processes share the name: the sum is a lower bound"
    (ended,) = (warning for warning in test.warnings if f"(pid {before.pid})" in warning)
    assert masked(ended, {before.pid: "pid"}) == snapshot(name="warning")
    restart, *others = test.phases[0].disruptions
    assert (restart.kind, restart.subject, others) == ("component-restart", "kube-apiserver", [])
    assert not test.phases[1].disruptions
    assert f"{restart.from_s:.1f} s" in restart.text
    assert masked(restart.text, numbers=True) == snapshot(name="disruption")
    assert {"milestone ready", "CPU", "API traffic"} <= set(restart.uncertain)
    assert f"{restart.text}." in output, "beside the figures, where no check is held to them"


def test_supervisor_killed_in_a_phase_ends_it_with_the_reason(folder: Path) -> None:
    process = start(folder)
    owner = state.owner(where(folder, process))
    assert owner is not None
    os.kill(owner.pid, signal.SIGKILL)
    go_on(folder)
    output = finish(process)
    assert process.returncode == pytest.ExitCode.TESTS_FAILED, output
    assert "INTERNALERROR" not in output
    assert "1 error" in output, output
    assert f"supervisor was killed (pid {owner.pid})" in output
    assert "last lines of its log:" in output
    assert "the operator exited" not in output
    assert "pytest_grovescale/" not in output, "no frames of ours"
    assert recorded(folder).phases[0].outcome in ("failed", "timeout")


STALLS = """
import asyncio
import os
import signal

import pytest

from pytest_grovescale import checks


@pytest.mark.filterwarnings("ignore::pytest_grovescale.errors.InconclusiveWarning")
def test_it(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=1, pods_per_replica=1)
    with scale.phase("deploy", timeout="60s"):
        pcs.apply()
    components = scale.cluster.processes()
    pids = {name: components[name].pid for name in ("kube-apiserver", "etcd")} | {"recorder": scale._test.recorder.pid}
    for name, pid in pids.items():
        with scale.phase(name, timeout="60s") as phase:
            phase.hold("3s")
            pcs.trigger_reconcile()
            os.kill(pid, signal.SIGSTOP)
            try:
                scale.run(asyncio.sleep(2))
            finally:
                os.kill(pid, signal.SIGCONT)
        for check in (checks.Cpu(name, max="10m"), checks.Cpu(name, max=0), checks.NoopWrites(phase=name)):
            found = scale.check(check)
            assert found.verdict == "inconclusive", found.text
            assert name in found.evidence[0], found.evidence
    with scale.phase("undisturbed", timeout="60s") as phase:
        phase.hold("1s")
    assert scale.check(checks.Cpu("undisturbed", max="10m")).verdict == "pass"
"""


def test_what_is_stopped_in_a_phase_is_reported_with_its_time_and_decides_nothing(folder: Path, shared: str) -> None:
    (folder / "test_it.py").write_text(STALLS, encoding="utf-8")
    process = start(folder, shared, "--grovescale-inconclusive=warn")
    output = finish(process)
    assert process.returncode == 0, output
    phases = {phase.name: phase for phase in recorded(folder).phases}
    assert phases.pop("deploy").disruptions == phases.pop("undisturbed").disruptions == ()
    for name, phase in phases.items():
        [stall] = phase.disruptions
        assert (stall.kind, stall.subject) == ("stall", name)
        assert stall.to_s is not None
        assert 1.7 < stall.to_s - stall.from_s < 4, "2 s, seen every 0.1 s, on a busy machine"
        assert any(figure.startswith("samples") for figure in stall.uncertain), stall.uncertain
        assert f"{stall.text.removeprefix('the ')}" in " ".join(output.split())
    assert all("/livez" not in row.resource for phase in phases.values() for row in phase.api)


def test_a_stopped_supervisor_is_killed_at_the_end_of_its_run(folder: Path) -> None:
    process = start(folder)
    owner = state.owner(where(folder, process))
    assert owner is not None
    os.kill(owner.pid, signal.SIGSTOP)
    try:
        go_on(folder)
        output, _ = process.communicate(timeout=100)
        assert f"(pid {owner.pid}) is stopped" in output
        assert "its cluster removed" in output
        assert "INTERNALERROR" not in output
        assert [phase.outcome for phase in recorded(folder).phases] == ["passed", "passed"], "nothing there needs it"
        assert state.names() == []
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(owner.pid, signal.SIGCONT)


def test_a_crash_loop_fails_with_the_operators_last_words(folder: Path, shared: str) -> None:
    definition = """
name: crash-loop
command: ["{python}", -c, "import sys; sys.exit('no such flag: --frobnicate')"]
readiness: {url: "http://127.0.0.1:{health_port}/readyz"}
env: {HEALTH: "{health_port}"}
"""
    (folder / "crash-loop.yaml").write_text(definition, encoding="utf-8")
    (folder / "test_it.py").write_text("def test_it(scale): pass\n", encoding="utf-8")
    done = forked.run_pytest(["--grovescale", shared, "--grovescale-operator=crash-loop.yaml"], cwd=folder)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "no such flag: --frobnicate" in done.stdout
    assert "exited with code 1" in done.stdout


def test_two_runs_at_once_both_pass_one_after_the_other(folder: Path) -> None:
    test = TEST.replace('        Path("here").write_text(scale.cluster.name)\n', "").replace(
        '        Path("go-on").read_text()\n', ""
    )
    (folder / "test_it.py").write_text(test, encoding="utf-8")
    runs = [start(folder) for _ in range(2)]
    outputs = [finish(run) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    results = [
        msgspec.json.decode(path.read_bytes(), type=Result) for path in (folder / "reports").glob("2*/result.json")
    ]
    spans = sorted((r.tests[0].phases[0].started, r.tests[0].phases[-1].started) for r in results)
    assert len(spans) == 2
    assert spans[0][1] < spans[1][0], "measured tests take turns"


LEAVING = """
import pytest
from pytest_grovescale.cluster import teardown_plan

@pytest.mark.grovescale(nodes=1)
def test_it(grovescale_cluster):
    log = str(grovescale_cluster.directory.parents[1] / "end.log")
    command = teardown_plan.Command(argv=["/no/such"], env={}, log=log, timeout_s=5)
    teardown_plan.plan(grovescale_cluster.directory, command)
"""


def test_what_cannot_be_cleared_up_at_the_end_is_reported_and_costs_no_result(
    folder: Path, snapshot: SnapshotAssertion
) -> None:
    (folder / "test_it.py").write_text(LEAVING, encoding="utf-8")
    process = start(folder)
    output = finish(process)
    assert process.returncode == 0, output
    assert "1 passed" in output
    # What pytest shows of its progress may stand before it.
    (reported,) = {line.rpartition("%]")[2] for line in output.splitlines() if "cannot clear up" in line}
    assert reported == snapshot
    assert "grovescale down --all" in output
    [name] = state.names()
    (state.directory(name) / "at_end.json").unlink()
    assert state.clear_stale(state.directory(name)) == [f"removed {state.directory(name)}"]


def test_a_live_runs_cluster_is_refused_to_down_and_its_session_says_when_it_was_forced(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    after = "\n\n@pytest.mark.grovescale(nodes=2)\ndef test_next(grovescale_cluster):\n    pass\n"
    (folder / "test_it.py").write_text(TEST + after, encoding="utf-8")
    process = start(folder, "--junitxml=junit.xml")
    name = where(folder, process).name
    for arguments in (["down", name], ["down", "--all"]):
        assert cli.main(arguments) == ExitCode.USAGE
        refused = capsys.readouterr().err
        assert f"{name} is in use by pid {process.pid} " in refused
        assert "test_it.py::test_it" in refused
    assert cli.main(["down"]) == ExitCode.USAGE
    assert f"others: {name}" in capsys.readouterr().err
    assert cli.main(["kubeconfig", name]) == ExitCode.PASSED
    assert Path(capsys.readouterr().out.strip()).is_file()
    assert cli.main(["down", name, "--force"]) == ExitCode.PASSED
    go_on(folder)
    output = finish(process)
    assert process.returncode == pytest.ExitCode.TESTS_FAILED, output
    assert "2 errors" in output, output
    assert "test_it.py::test_it - " in output
    assert output.count(f"cluster {name} ended while this session") >= 2
    assert output.count("stopped from outside") >= 2
    assert "Traceback" not in output
    assert "pytest_grovescale/" not in output, "no frames of ours"
    assert recorded(folder).phases[0].outcome == "failed"
    suite = ElementTree.parse(folder / "junit.xml").getroot()[0]
    assert (suite.get("errors"), suite.get("failures")) == ("2", "0")
    assert state.names() == []


STUCK = """
import pytest

from pytest_grovescale import conditions


@pytest.mark.grovescale(nodes=1)
def test_it(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=1, pods_per_replica=1)
    pcs.objects[0]["metadata"]["finalizers"] = ["example.com/nobody-takes-it-off"]
    pcs.apply()
    with scale.phase("delete", timeout="2s") as delete:
        delete.milestone("gone", conditions.gone(pcs))
        pcs.delete()
"""


def test_what_was_not_deleted_in_its_phase_is_not_waited_for_again_on_a_cluster_that_ends(folder: Path) -> None:
    """Its 300 s would be for nothing: the finalizers come off, and the cluster ends."""
    (folder / "test_it.py").write_text(STUCK, encoding="utf-8")
    process = start(folder)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == pytest.ExitCode.TESTS_FAILED, output
    assert "phase 'delete' timed out after 2.00 s" in output
    assert "after 5 s there are still:" in output
    assert "nobody-takes-it-off" in output


ITS_OWN = """
import os
import signal
import sys
import time

import pytest

from pytest_grovescale import conditions
from pytest_grovescale.kube.errors import NotFound
from pytest_grovescale.kube.resources import UnknownResource

pytestmark = pytest.mark.grovescale(operator="none")


def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_forks(scale):
    with scale.phase("forks", timeout="60s") as phase:
        if not (pid := os.fork()):
            sys.exit(7)
        assert ended(pid) == 7
        phase.hold("1s")
    if not (pid := os.fork()):
        raise ValueError("in the copy")
    assert ended(pid) == 1


def test_namespace(scale):
    async def delete():
        await scale.client.delete(await scale.client.resource("Namespace", "v1"), scale.namespace)

    with scale.phase("deploy", timeout="2s") as deploy:
        deploy.milestone("ready", conditions.count("pods", 1, ready=True))
        scale.run(delete())


def test_crd(scale):
    async def made():
        await scale.client.create(CRD)
        while True:
            try:
                return await scale.client.list(await scale.client.resource("Thing", "faults.example.com/v1"))
            except (UnknownResource, NotFound):
                pass

    async def deleted():
        crds = await scale.client.resource("CustomResourceDefinition", "apiextensions.k8s.io/v1")
        await scale.client.delete(crds, CRD["metadata"]["name"])

    scale.run(made())
    things = scale.workload("thing.yaml")
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("there", conditions.count("things.faults.example.com", 1))
        things.apply()
    scale.run(deleted())


@pytest.mark.grovescale(operator="reference")
def test_operator(scale):
    with scale.phase("dies") as dies:
        dies.hold("0.1s")
        process = scale.cluster.processes()[scale.operator.process]
        os.kill(process.pid, signal.SIGKILL)
        while scale.cluster.processes()[scale.operator.process].running:
            time.sleep(0.05)
    raise AssertionError("the phase passed without its operator")


CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.faults.example.com"},
    "spec": {
        "group": "faults.example.com",
        "names": {"kind": "Thing", "plural": "things"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}},
        ],
    },
}
"""


def test_what_a_test_does_to_its_own_run_is_named_and_ends_no_other_test(folder: Path, shared: str) -> None:
    """Copies that it forks, its namespace, the definition of its objects, its operator."""
    (folder / "test_it.py").write_text(ITS_OWN, encoding="utf-8")
    thing = "apiVersion: faults.example.com/v1\nkind: Thing\nmetadata: {name: a, namespace: '{{ namespace }}'}\n"
    (folder / "thing.yaml").write_text(thing, encoding="utf-8")
    done = forked.run_pytest(["--grovescale", shared, "-s", "-p", "no:cacheprovider", "-rA"], cwd=folder)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "2 failed, 2 passed" in done.stdout, done.stdout
    assert re.search(r"the operator was killed .* in phase 'dies'", done.stdout), done.stdout
    assert "ValueError: in the copy" in done.stdout
    # The cause comes right behind what happened, before the objects that were waited for.
    lines = [line for line in done.stdout.splitlines() if line.startswith("E ")]
    assert "timed out" in lines[0]
    assert re.search(r"namespace \S+ (is being deleted|does not exist)", lines[1])


EXITS = """
import pytest


@pytest.mark.grovescale(operator="none")
def test_it(scale):
    with scale.phase("ends", timeout="60s") as phase:
        phase.wait("10ms")
        pytest.exit("enough", 9)
"""


def test_a_session_that_ends_with_a_code_of_its_own_shows_what_it_has(folder: Path, shared: str) -> None:
    """pytest itself shows no summary then."""
    (folder / "test_it.py").write_text(EXITS, encoding="utf-8")
    done = forked.run_pytest(["--grovescale", shared, "-p", "no:cacheprovider"], cwd=folder)
    assert done.returncode == 9, done.stdout
    assert f"reports/{(folder / 'reports/latest').resolve().name}" in done.stdout
    assert [phase.outcome for phase in recorded(folder).phases] == ["failed"]
