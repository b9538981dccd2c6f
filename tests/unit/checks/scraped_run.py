"""A recorded run of an endpoint that a test scrapes: text expositions in, the history of its metrics out.

Read by the reader that the recorder uses, and journaled as the recorder journals: only what changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_grovescale.analysis.metrics.history import MetricsHistory, TargetHistory, history_of
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.run import Run
from pytest_grovescale.exposition.families import Exposition, Family, parse
from pytest_grovescale.exposition.reader import Reader
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import Timer, WatchSpec
from pytest_grovescale.recording.scraping.target import NOTHING, changes
from tests.unit.analysis.simulated import MACHINE, MS, T0
from tests.unit.checks.noop_run import NoopRun

RUN = "20261121-130557-f392"
NAMESPACE = "test-thousand-pods-0a1b2c"

ACTIVE = "controller_runtime_active_workers"
DEPTH = "workqueue_depth"
DONE = "controller_runtime_reconcile_total"
FAILED = "controller_runtime_reconcile_errors_total"
LIMIT = "controller_runtime_max_concurrent_reconciles"
TIMES = "controller_runtime_reconcile_time_seconds"
SENT = "rest_client_requests_total"
OWN_ERRORS = "grove_operator_reconcile_errors_total"
OWN_CONFLICTS = "grove_operator_status_update_conflict_total"

TYPES: Mapping[str, Any] = {
    ACTIVE: "gauge",
    DEPTH: "gauge",
    DONE: "counter",
    FAILED: "counter",
    LIMIT: "gauge",
    TIMES: "histogram",
    SENT: "counter",
    OWN_ERRORS: "counter",
    OWN_CONFLICTS: "counter",
    "process_start_time_seconds": "gauge",
}


class ScrapedRun:
    """Scrapes one after the other, 1 s apart; phases as they are begun and ended."""

    def __init__(self) -> None:
        self.records: list[rec.AnyRecord] = [
            rec.Opened(at=T0, schema_version=1, run=RUN, test="t.py::test_t", version="0.1.0", machine=MACHINE)
        ]
        self._last: dict[str, Exposition] = {}
        self._reader = Reader()
        self._now = T0

    def begin(self, phase: str, *milestones: str) -> None:
        for name in milestones:
            declared = rec.MilestoneDeclared(at=self._at(), phase=phase, name=name, condition=Timer(seconds=1))
            self.records.append(declared)
        self.records.append(rec.PhaseStarted(at=self._at(), phase=phase, timeout_ns=10**11))

    def end(self, phase: str) -> None:
        self.records.append(rec.PhaseEnded(at=self._at(), phase=phase, outcome="passed"))

    def watch(self, namespace: str) -> None:
        spec = WatchSpec(resource="pods", path=f"/api/v1/namespaces/{namespace}/pods")
        self.records.append(rec.WatchOpened(at=self._at(), watch="w0", spec=spec, mode="stream"))

    def pods_seen(self, count: int) -> None:
        """All pods of the namespace are watched, and there are so many."""
        self.watch("t")
        for number in range(count):
            self.records.append(rec.ObjectSeen(at=self._at(), watch="w0", change="added", name=f"pod-{number}"))
        self._at()

    def scrape(
        self,
        samples: Mapping[str, float],
        *,
        edge: str = "",
        target: str = "operator",
        types: Mapping[str, Any] = TYPES,
        help: str = "",
        created: Mapping[str, str] | None = None,
    ) -> None:
        """Let it be scraped: ``samples`` is all that it serves, ``types`` what it says of its families."""
        names = {parse(series).name for series in samples}
        families = {
            name: Family(name=name, type=kind, help=help)
            for name, kind in types.items()
            if any(member.startswith(name) for member in names)
        }
        values = {series: repr(float(value)) for series, value in samples.items()}
        self.exposed(
            Exposition(families=families, samples=values, created=dict(created or {})), edge=edge, target=target
        )

    def answer(self, text: str, *, edge: str = "", target: str = "operator") -> None:
        """Let it be scraped: ``text`` is what it answers."""
        self.exposed(self._reader.read(text.encode()), edge=edge, target=target)

    def exposed(self, found: Exposition, *, edge: str = "", target: str = "operator") -> None:
        last = self._last.get(target, NOTHING)
        self.records.append(changes(last, found, target=target, at=self._at(), edge=edge))
        self._last[target] = found

    def end_process(self) -> None:
        """Let the operator's process end: what is scraped next is another one."""
        self.records.append(rec.ProcessGone(at=self._at(), process="operator", pid=1))

    def history(self) -> MetricsHistory:
        return history_of(self.records)

    def target(self) -> TargetHistory:
        return self.history().target()

    def judged(self, check: Any, test: TestResult | None = None) -> tuple[str, str]:
        """Return a check's verdict, and its text with the evidence."""
        found = judge(check, Run(test or NoopRun().result(), metrics=self.history))
        return found.verdict, "\n".join([found.text, *found.evidence])

    def _at(self) -> int:
        self._now += 1000 * MS
        return self._now


def controllers(name: str, values: Mapping[str, float], **labels: str) -> dict[str, float]:
    """Return a series for each controller: ``{"podclique": 3}`` → ``name{controller="podclique"} 3``."""
    more = "".join(f',{label}="{value}"' for label, value in sorted(labels.items()))
    return {f'{name}{{controller="{controller}"{more}}}': value for controller, value in values.items()}
