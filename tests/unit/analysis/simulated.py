"""A simulated run as records: an API server with a commit order, clients that write, a watch that lags.

The truth (when each write was committed) is known, so that what analysis says can be held against it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import Condition, Count, FieldTest, Predicate, WatchSpec
from pytest_grovescale.recording.evaluation import Engine

T0 = 1_790_000_000_000_000_000
MS = 1_000_000
S = 1_000_000_000
READY = "status.conditions[type=Ready].status"
PODS = WatchSpec(resource="pods", path="/api/v1/namespaces/t/pods", fields=(READY,))
PCS = WatchSpec(
    resource="podcliquesets.grove.io",
    path="/apis/grove.io/v1alpha1/namespaces/t/podcliquesets",
    fields=("status.availableReplicas",),
)
IDENTITIES = {
    "operator": "system:serviceaccount:op:operator",
    "harness": "grovescale:harness",
    "kwok": "grovescale:kwok",
    "kube-scheduler": "grovescale:scheduler",
    "recorder": "grovescale:recorder",
}
MACHINE = rec.Machine(
    fingerprint="f00", cpu="Test CPU", cores=2, memory_bytes=8_000_000_000, kernel="6.1", python="3.11.9"
)


def pods(n: int, *, ready: bool = False, op: Any = "==") -> Count:
    tests = (FieldTest(path=READY, value="True"),) if ready else ()
    return Count(watch=PODS, where=Predicate(tests=tests), op=op, n=n)


def available(n: int) -> Count:
    tests = (FieldTest(path="status.availableReplicas", value=n),)
    return Count(watch=PCS, name="pcs", where=Predicate(tests=tests), n=1)


def gone(name: str = "pcs") -> Count:
    return Count(watch=PCS, name=name, n=0)


@dataclass
class Simulation:
    """Builds a recording. Times are ms since the recording's start; records are put into journal order at the end."""

    seed: int = 1
    audited: bool = True
    lag_ms: tuple[float, float] = (5, 300)
    identities: dict[str, str] = field(default_factory=lambda: dict(IDENTITIES))
    items: list[tuple[int, int, rec.AnyRecord]] = field(default_factory=list)
    commits: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """(resource, name) → true times of its commits, ns."""
    events: list[tuple[int, WatchSpec, str, str, dict[str, Any]]] = field(default_factory=list)
    """What a watch will show: commit, watch, name, change, fields."""

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.version = 100
        self.seen_until: dict[str, int] = {}
        self.records_made: list[rec.AnyRecord] = []
        self.watch_ids: dict[WatchSpec, str] = {}
        self.add(
            rec.Opened(
                at=T0,
                schema_version=1,
                run="run-1",
                test="tests/scale/test_pods.py::test_pods",
                version="0.1.0",
                machine=MACHINE,
                cluster={"backend": "local", "kubernetes": "v1.36.3", "nodes": 100},
                identities=self.identities,
                parameters={"variant": "optimized", "replicas": 500},
                audited=self.audited,
            )
        )

    def add(self, record: rec.AnyRecord) -> None:
        self.items.append((record.at, len(self.items), record))

    def at(self, ms: float) -> int:
        return T0 + round(ms * MS)

    def watch(self, spec: WatchSpec, ms: float, objects: int = 0) -> None:
        watch = self.watch_ids[spec] = f"w{len(self.watch_ids)}"
        self.add(rec.WatchOpened(at=self.at(ms), watch=watch, spec=spec, mode="stream"))
        self.add(rec.WatchLive(at=self.at(ms + 2), watch=watch, objects=objects))

    def phase(
        self, name: str, start: float, end: float | None, outcome: Any = "passed", **milestones: Condition
    ) -> None:
        for milestone, condition in milestones.items():
            declared = rec.MilestoneDeclared(
                at=self.at(start) - 1, phase=name, name=milestone.replace("_", "-"), condition=condition
            )
            self.add(declared)
        self.add(rec.PhaseStarted(at=self.at(start), phase=name, timeout_ns=60 * S))
        if end is not None:
            self.add(rec.PhaseEnded(at=self.at(end), phase=name, outcome=outcome))

    def request(self, ms: float, took: float = 2.0, *, user: str = "operator", **parts: Any) -> None:
        received = self.at(ms)
        completed = received + round(took * MS)
        self.add(
            rec.Request(
                at=completed + self.random.randint(1, 40 * MS),
                user=self.identities.get(user, user),
                received_wall=received,
                completed_wall=completed,
                **{"code": 200, **parts},
            )
        )

    def write(
        self,
        spec: WatchSpec,
        name: str,
        ms: float,
        *,
        verb: str,
        fields: dict[str, Any] | None = None,
        took: float | None = None,
        shown: bool = True,
        logged_name: str | None = None,
        user: str = "operator",
        **parts: Any,
    ) -> int:
        """One successful write: a request and, if it changes something, the event that follows. Returns its commit."""
        took = self.random.uniform(1, 30) if took is None else took
        commit = self.at(ms + self.random.uniform(0, took))
        resource, _, group = spec.resource.partition(".")
        self.request(
            ms,
            took,
            user=user,
            verb=verb,
            resource=resource,
            group=group,
            namespace="t",
            name=name if logged_name is None else logged_name,
            **{"code": 201 if verb == "create" else 200, **parts},
        )
        if shown:
            self.commits.setdefault((spec.resource, name), []).append(commit)
            change = "added" if verb == "create" and "subresource" not in parts else "modified"
            self.events.append((commit, spec, name, "deleted" if fields is None else change, fields or {}))
        return commit

    def cpu(
        self, process: str, ms: float, cpu_s: float, *, pid: int = 10, edge: str = "", rss: int = 100_000_000
    ) -> None:
        self.add(
            rec.CpuRead(
                at=self.at(ms), process=process, pid=pid, cpu_ns=round(cpu_s * S), rss_bytes=rss, edge=edge,
                peak_rss_bytes=rss + 5_000_000,
            )
        )  # fmt: skip

    def scrape(self, ms: float, samples: dict[str, float], *, edge: str = "", target: str = "operator") -> None:
        self.add(rec.Scraped(at=self.at(ms), target=target, edge=edge, samples=samples))

    def records(self) -> list[rec.AnyRecord]:
        """Return the records in journal order, with events as the watch shows them and milestones as they were met."""
        items = list(self.items)
        for commit, spec, name, change, fields in sorted(self.events, key=lambda event: event[0]):
            self.version += 1
            lag = round(self.random.uniform(*self.lag_ms) * MS)
            # A watch shows events in order: one that is late holds up those behind it.
            seen = max(commit + lag, self.seen_until.get(spec.resource, 0) + 1000)
            self.seen_until[spec.resource] = seen
            shown = rec.ObjectSeen(
                at=seen,
                watch=self.watch_ids[spec],
                change=change,  # type: ignore[arg-type]
                name=name,
                namespace="t",
                resource_version=str(self.version),
                fields=fields,
            )
            items.append((seen, len(items), shown))
        self.seen_until.clear()
        engine = Engine()
        journal: list[rec.AnyRecord] = []
        for _, _, record in sorted(items, key=lambda item: item[:2]):
            met = engine.feed(record)
            journal += [*met, record] if isinstance(record, rec.PhaseEnded) else [record, *met]
        self.records_made = journal
        return journal


def full_run(n: int = 10, seed: int = 1, **options: Any) -> Simulation:
    """Three phases: n pods created, bound and made ready; one no-op; everything deleted."""
    sim = Simulation(seed=seed, **options)
    made = 3000 + n * 4
    done = made + 3000
    held, end = done + 10_000, done + 10_000 + made
    sim.watch(PODS, 1)
    sim.watch(PCS, 4)
    reconciles = 'controller_runtime_reconcile_total{controller="podcliqueset",result="success"}'
    errors = 'controller_runtime_reconcile_total{controller="podcliqueset",result="error"}'
    edges = (("deploy", 100, done), ("steady-state", done + 10, held), ("delete", held + 10, end))
    counts = ((0, 40), (40, 41), (41, 60))
    for index, (name, start, stop) in enumerate(edges):
        for process, rate in (("operator", 0.4), ("kube-apiserver", 0.8), ("recorder", 0.05)):
            sim.cpu(process, start - 1, 1 + rate * start / 1000, edge=f"start:{name}")
            sim.cpu(process, stop - 1, 1 + rate * stop / 1000, edge=f"end:{name}")
        for moment, edge, count in ((start - 1, "start", counts[index][0]), (stop - 1, "end", counts[index][1])):
            sim.scrape(moment, {reconciles: count, errors: 3}, edge=f"{edge}:{name}")
    sim.phase("deploy", 100, done, pods_created=pods(n), pods_ready=pods(n, ready=True), pcs_available=available(n))
    sim.phase("steady-state", done + 10, held)
    sim.phase("delete", held + 10, end, pods_gone=pods(0), pcs_gone=gone())
    _deploy(sim, n)
    sim.add(rec.Mark(at=sim.at(done + 20), label="trigger", state="begin", count=1))
    sim.write(PCS, "pcs", done + 21, verb="patch", user="harness", fields={"status.availableReplicas": n}, took=3)
    sim.add(rec.Mark(at=sim.at(done + 40), label="trigger", state="end", count=1))
    sim.request(done + 60, user="operator", verb="list", resource="pods", namespace="t")
    _delete(sim, n, held + 50)
    sim.request(end + 1, user="recorder", verb="get", path="/readyz?verbose")
    sim.add(rec.Closed(at=sim.at(end + 500), reason="stopped"))
    return sim


def _deploy(sim: Simulation, n: int) -> None:
    ready, waiting = {READY: "True"}, {READY: "False"}
    sim.write(PCS, "pcs", 110, verb="create", user="harness", fields={}, took=4)
    sim.request(
        112, 100, user="operator", verb="watch", resource="podcliquesets", group="grove.io", stage="ResponseStarted"
    )
    for index in range(n):
        name, start = f"pod-{index}", 150 + index * 4 + sim.random.uniform(0, 20)
        sim.write(PODS, name, start, verb="create", fields={})
        sim.write(
            PODS, name, start + 60, verb="create", subresource="binding", user="kube-scheduler", fields=waiting
        )  # fmt: skip
        sim.write(PODS, name, start + 200, verb="patch", subresource="status", user="kwok", fields=ready)
    sim.write(
        PCS, "pcs", 3000 + n * 4, verb="update", subresource="status", fields={"status.availableReplicas": n}, took=4
    )  # fmt: skip


def _delete(sim: Simulation, n: int, start: float) -> None:
    sim.write(PCS, "pcs", start, verb="delete", user="harness", fields={"status.availableReplicas": n}, took=3)
    for index in range(n):
        begin = start + 20 + index * 4
        sim.write(PODS, f"pod-{index}", begin, verb="delete", fields={READY: "True"})
        sim.write(PODS, f"pod-{index}", begin + 60, verb="delete", user="kwok")
    sim.write(PCS, "pcs", start + 400 + n * 4, verb="patch", took=5)
