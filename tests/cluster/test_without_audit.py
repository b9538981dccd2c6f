"""One run on a real control plane, recorded twice: with everything, and as on a cluster that is not ours.

The second recorder has no audit log and no process whose clock it could read; all that it knows comes from watches and
from what the operator serves. What it says has to agree with what the first one knows for certain.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from pytest_grovescale.analysis import figures
from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.figures import METHODS
from pytest_grovescale.analysis.phase_result import CpuResult, PhaseResult
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.checks import ApiRequests, Cpu, NoopWrites, SimulatedNodesOnly
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.run import Run
from pytest_grovescale.cluster.definition import load_definition
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.endpoints import Address
from pytest_grovescale.errors import NotMeasuredError
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.operator import start as operators
from pytest_grovescale.operator.definition import load
from pytest_grovescale.operator.handle import Operator
from pytest_grovescale.operator.manifests import Object
from pytest_grovescale.procfs import started_ticks
from pytest_grovescale.recording import journal
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import Condition, Count, FieldTest, Predicate, WatchSpec
from pytest_grovescale.recording.machine import machine
from pytest_grovescale.recording.protocol import PhaseComplete
from pytest_grovescale.recording.recorder import Recorder, RecorderConfig, ScrapeTarget
from pytest_grovescale.recording.scrape_targets import AtUrl
from pytest_grovescale.scenario.quiescence import idle_cores, until_rest
from pytest_grovescale.workload import actions, namespace
from pytest_grovescale.workload.template import render
from tests.cluster.recorder.harness import until

pytestmark = pytest.mark.cluster

READY = "status.conditions[type=Ready].status"
REPLICAS = 20
PODS = 2 * REPLICAS
PHASES = ("deploy", "steady-state", "delete", "restart")


class Twice(NamedTuple):
    """The same run, by both recorders."""

    known: TestResult
    """With the audit log and the operator's clock."""
    reported: TestResult
    """Without either."""
    scraped: TestResult
    """The first recording without the operator's clock: the same edges to the last nanosecond."""
    known_records: list[rec.AnyRecord]
    reported_records: list[rec.AnyRecord]

    def phases(self) -> Iterator[tuple[PhaseResult, PhaseResult]]:
        return zip(self.known.phases, self.reported.phases, strict=True)


class Pair:
    """Two recorders that are told the same."""

    def __init__(self, known: Recorder, reported: Recorder, operator: Operator, idle: float) -> None:
        self.both = (known, reported)
        self._operator = operator
        self._idle = idle

    def begin(self, name: str, *milestones: tuple[str, Condition]) -> None:
        # The one that knows begins first and ends last: what the other one sees lies within.
        for recorder in self.both:
            recorder.begin_phase(name, milestones, timeout=120, edges_only=True)

    def end(self, name: str) -> None:
        for recorder in self.both:
            until(recorder, PhaseComplete, phase=name, seconds=90)
        assert until_rest(self._operator, self._idle, limit_s=60).reached
        for recorder in reversed(self.both):
            recorder.end_phase(name, "passed")

    def mark(self, label: str) -> None:
        for recorder in self.both:
            recorder.mark(label)


@pytest.fixture(scope="module")
def twice(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twice]:
    folder = tmp_path_factory.mktemp("twice")
    with Portal() as portal:
        operator = operators.start(load("reference"), cluster, directory=folder, progress=lambda text: None)
        try:
            yield recorded(cluster, operator, portal, folder)
        finally:
            operator.stop()


def recorded(cluster: Cluster, operator: Operator, portal: Portal, folder: Path) -> Twice:
    client = portal.client(cluster.access_as("harness"))
    name = portal.run(namespace.create(client, test="twice", run_id="twice"))
    workload = render(
        "pcs.yaml.j2", {"replicas": REPLICAS, "pods_per_replica": 2}, namespace=name, run_id="twice"
    ).objects
    known, reported = folder / "known.jsonl", folder / "told.jsonl"
    idle = idle_cores(operator)
    recorders = (start(cluster, operator, known, blind=False), start(cluster, operator, reported, blind=True))
    try:
        spec = WatchSpec(resource="pods", path=f"/api/v1/namespaces/{name}/pods", fields=("spec.nodeName",))
        recorders[1].also_watch([spec])
        _run(Pair(*recorders, operator, idle), operator, portal, client, workload, name)
    finally:
        for recorder in recorders:
            recorder.stop()
        freed = portal.run(namespace.remove(client, name, objects=workload, at_once=True))
    assert freed == []
    whole, less = list(journal.read(known)), list(journal.read(reported))
    without = [record for record in whole if not isinstance(record, rec.CpuRead) or record.process != "operator"]
    return Twice(analyse(whole), analyse(less), analyse(without), whole, less)


def start(cluster: Cluster, operator: Operator, path: Path, *, blind: bool) -> Recorder:
    """Start a recorder; one that is blind sees neither the audit log nor any process but itself and the harness."""
    prefix = load_definition("default").nodes[0].prefix
    opened = rec.Opened(
        at=0,
        schema_version=rec.SCHEMA_VERSION,
        run="twice",
        test="twice",
        version="0",
        machine=machine(),
        cluster=cluster.facts,
        identities={**cluster.identities, "operator": operator.identity},
        audited=not blind,
        # As if all nodes but the first were somebody's machines.
        simulated_nodes={prefix: 1} if blind else {},
    )
    config = RecorderConfig(
        journal=str(path),
        opened=opened,
        access=cluster.access_as("recorder"),
        audit_log="" if blind else str(cluster.audit_log),
        processes_file="" if blind else str(cluster.processes_file),
        extra_processes={"harness": (os.getpid(), started_ticks(os.getpid()))},
    )
    recorder = Recorder.start(config, log=path.with_suffix(".log"))
    assert isinstance(operator.metrics, Address)
    recorder.add_target(ScrapeTarget(name="operator", place=AtUrl(address=operator.metrics), interval_s=0))
    return recorder


def _run(pair: Pair, operator: Operator, portal: Portal, client: Client, workload: list[Object], name: str) -> None:
    pods = WatchSpec(resource="pods", path=f"/api/v1/namespaces/{name}/pods", fields=(READY,))
    ready = Count(watch=pods, where=Predicate(tests=(FieldTest(path=READY, value="True"),)), n=PODS)
    pair.begin("deploy", ("pods-created", Count(watch=pods, n=PODS, op=">=")), ("pods-ready", ready))
    portal.run(actions.apply(client, workload))
    pair.end("deploy")
    pair.begin("steady-state")
    pair.mark("trigger")
    portal.run(actions.trigger(client, workload, operator.trigger, "1"))
    pair.end("steady-state")
    pair.begin("delete", ("pods-gone", Count(watch=pods, n=0)))
    portal.run(actions.delete(client, workload))
    pair.end("delete")
    pair.begin("restart")
    operator.restart()
    pair.end("restart")


def operator_cpu(phase: PhaseResult) -> CpuResult:
    return next(row for row in phase.cpu if row.process == "operator")


def by_method(phase: PhaseResult) -> Counter[tuple[str, str]]:
    """Return (method, code) → the operator's requests by the audit log."""
    found: Counter[tuple[str, str]] = Counter()
    for row in figures.api(phase, "operator").rows:
        found[METHODS[row.verb], str(row.code)] += row.count
    return found


def test_both_saw_the_same_phases_and_one_of_them_no_request(twice: Twice) -> None:
    assert [phase.name for phase in twice.reported.phases] == list(PHASES)
    assert {phase.outcome for phase in (*twice.known.phases, *twice.reported.phases)} == {"passed"}
    assert not any(isinstance(record, rec.Request) for record in twice.reported_records)
    assert {phase.traffic_source for phase in twice.known.phases} == {"audit"}
    assert [phase.traffic_source for phase in twice.reported.phases] == ["metrics", "metrics", "metrics", ""]


def test_milestones_fall_back_to_the_watch_and_are_never_early(twice: Twice) -> None:
    for known, reported in twice.phases():
        for by_server, by_watch in zip(known.milestones, reported.milestones, strict=True):
            assert (by_watch.met, by_watch.clock, by_watch.server_s) == (True, "watch", None)
            assert by_watch.why_not_server == "no audit log"
            if by_server.server_s is not None:
                committed = began(twice.known_records, known.name) + by_server.server_s[0] * 1e9
                heard = began(twice.reported_records, reported.name) + (by_watch.seconds or 0) * 1e9
                assert heard >= committed
    assert twice.reported.watch_lag is None
    assert any(milestone.clock == "server" for phase in twice.known.phases for milestone in phase.milestones)


def began(records: list[rec.AnyRecord], phase: str) -> int:
    return next(record.at for record in records if isinstance(record, rec.PhaseStarted) and record.phase == phase)


def test_the_operators_own_count_is_that_of_the_audit_log(twice: Twice) -> None:
    for known, reported in twice.phases():
        if reported.name == "restart":
            continue
        counted = {(row.method, row.code): row.count for row in reported.client_requests if row.count}
        assert counted == dict(by_method(known)), reported.name
    assert figures.client_requests(twice.reported.phases[0]).by_method["POST"] >= PODS


def test_scraped_cpu_is_that_of_the_clock_within_its_resolution(twice: Twice) -> None:
    for known, scraped in zip(twice.known.phases, twice.scraped.phases, strict=True):
        exact, served = operator_cpu(known), operator_cpu(scraped)
        assert (exact.source, exact.resolution_s, served.source) == ("clock", 0.0, "scrape")
        if known.name != "restart":
            assert not served.lower_bound
            assert abs(served.seconds - exact.seconds) <= served.resolution_s, known.name


def test_the_blind_ones_cpu_is_no_more_than_what_was_used_around_it(twice: Twice) -> None:
    for known, reported in twice.phases():
        if known.name != "restart":
            assert 0 <= operator_cpu(reported).seconds <= operator_cpu(known).seconds + 0.02
            assert operator_cpu(reported).rss_bytes > 10_000_000


def test_a_restart_is_seen_by_its_metrics_alone(twice: Twice) -> None:
    reported = twice.reported.phases[-1]
    row = operator_cpu(reported)
    assert (row.lower_bound, row.restarts) == (True, 1)
    assert 0 < row.seconds <= operator_cpu(twice.known.phases[-1]).seconds + 0.02
    assert [(one.kind, one.subject) for one in reported.incidents] == [("process-restart", "operator")]
    assert "restarted" in reported.missing["client_requests"]
    with pytest.raises(NotMeasuredError, match="restarted"):
        figures.client_requests(reported)


def test_a_no_op_without_writes_is_proved_by_the_own_count(twice: Twice) -> None:
    for test in (twice.known, twice.reported):
        found = judge(NoopWrites(), Run(test))
        assert found.verdict == "pass", found.text
    assert "rest_client_requests_total" in judge(NoopWrites(), Run(twice.reported)).text
    assert figures.noop(twice.reported.phases[1]).state == "no-writes"


def test_what_only_an_audit_log_reports_is_inconclusive(twice: Twice) -> None:
    pods = ApiRequests("deploy", "create", resource="pods", max=PODS)
    assert judge(pods, Run(twice.known)).verdict == "pass"
    found = judge(pods, Run(twice.reported))
    assert found.verdict == "inconclusive"
    assert "only an audit log shows" in found.text
    with pytest.raises(NotMeasuredError):
        figures.api(twice.reported.phases[0], "operator")


def test_a_cpu_budget_at_the_very_figure_is_not_decided(twice: Twice) -> None:
    used = operator_cpu(twice.reported.phases[0]).seconds
    assert judge(Cpu("deploy", max=used), Run(twice.reported)).verdict == "inconclusive"
    assert judge(Cpu("deploy", max=used + 5), Run(twice.reported)).verdict == "pass"


def test_pods_on_a_node_that_is_not_ours_are_found(twice: Twice) -> None:
    places = twice.reported.pod_places
    assert places is not None
    assert (places.simulated + places.elsewhere, places.elsewhere > 0) == (PODS, True)
    found = judge(SimulatedNodesOnly(), Run(twice.reported))
    assert (found.verdict, found.figure) == ("fail", places.elsewhere)
    assert not found.evidence[0].endswith("-0")
    assert twice.known.pod_places is None


def test_it_is_still_one_watch_on_pods(twice: Twice) -> None:
    opened = [record.spec for record in twice.reported_records if isinstance(record, rec.WatchOpened)]
    assert [(spec.resource, spec.fields) for spec in opened] == [("pods", ("spec.nodeName", READY))]


def test_results_of_both_are_written_and_read(twice: Twice) -> None:
    for test in (twice.known, twice.reported):
        assert msgspec.json.decode(msgspec.json.encode(test), type=TestResult) == test
