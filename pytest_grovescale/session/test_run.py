"""One run of a measured test: its recording, its sources, its namespace, and the state that its ``Scale`` shows."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import pytest

from .. import log_files
from ..analysis.analyse import OPERATOR_START, TURN_LOST
from ..analysis.findings import credentials, operator_log
from ..analysis.findings.observed_requests import CLEAN_UP
from ..analysis.reconcile_counters import controllers_of
from ..checks.budgets import Budget, held_to
from ..checks.check import text_of
from ..cluster.backend import backend
from ..cluster.handle import Cluster
from ..errors import GrovescaleError, RecordingError, UsageError
from ..kube.client import Client
from ..kube.portal import Portal
from ..operator.handle import Operator
from ..operator.manifests import Object
from ..operator.schema import OperatorDefinition
from ..prometheus.statistics import Live
from ..recording.protocol import Profiler
from ..recording.recorder import ProfileTarget, Recorder
from ..recording.records import TestOutcome
from ..scenario import driver_protocol
from ..scenario.faults import end as end_faults
from ..scenario.quiet import Quietness
from ..scenario.running_test import RunningTest
from ..suggestions import with_all
from ..workload import namespace
from . import recordings, target_discovery, test_code
from .budget_enforcement import held_to_simulated_nodes
from .clusters import Lost
from .context import Session
from .error_translation import translated_errors
from .recordings import processes_files, start_recorder
from .session_summary import baselines_of
from .stash_keys import BUDGET, RUNS
from .test_config import ItemConfig, folders, has_profiled_pass, node_id

_CONTROLLERS_S = 5.0
"""Time for an operator that is ready to start its last controller, s."""
_LOOK_S = 0.1

Start = Callable[[], Operator]
"""Starts the operator of the test, or finds it running."""


def _controllers(operator: Operator) -> set[str]:
    """Return the operator's controllers, as far as `controllers_of` knows all of them."""
    try:
        served = operator.served_metrics()
    except (OSError, GrovescaleError):
        # Scraping it reports what is wrong.
        return set()
    return controllers_of(served, recordings.reconcile_counter(operator.definition))


class MeasuredTest:
    """One run of one test, on its cluster, with or without profilers."""

    def __init__(
        self, session: Session, item: pytest.Function, cluster: Cluster, *, profiled: bool, lost_turn: Lost
    ) -> None:
        self._session = session
        self._item = item
        self._cluster = cluster
        self._profiled = profiled
        self._lost_turn = lost_turn
        self._wanted = ItemConfig.of(item, session.settings)
        self._recorder: Recorder | None = None
        self._looked = False
        self._ended = False
        self._failed = False
        """Whether pytest has shown a failure of this test; a lost recording then raises no second one."""

    @contextlib.contextmanager
    def open(self, definition: OperatorDefinition | None, start: Start) -> Iterator[RunningTest]:
        """Yield the running test; afterwards remove its namespace and close its recording."""
        with translated_errors():
            recorder = self._recorder = self._start_recorder(definition)
        failed = True
        try:
            self._scrape_components(recorder)
            operator = self._recorded_operator(start, recorder) if definition else None
            if operator is not None:
                with translated_errors():
                    self._demand_known_controllers(operator)
            self._let_look_into(operator, recorder)
            with self._prometheus(operator, recorder) as live:
                with translated_errors():
                    test = self._open(operator, recorder, live)
                try:
                    yield test
                finally:
                    self._close(test)
            failed = False
        finally:
            # Ctrl-C ends a test's function without an outcome, and its fixtures as if it had passed.
            recorder.stop("stopped" if self._ended or failed else "interrupted")
        if not self._failed:
            with translated_errors():
                # The last records may not have fitted on the disk.
                recorder.check_journal()

    def interrupt(self) -> None:
        """Close the recording, where Ctrl-C has prevented the end of the test's fixtures."""
        if self._recorder is not None:
            self._recorder.stop("interrupted")

    def lost_recording(self) -> RecordingError | None:
        """Return why the recording could not be written to its end; None where it could, so far."""
        try:
            if self._recorder is not None:
                self._recorder.check_journal()
        except RecordingError as error:
            return error
        return None

    def end(self, outcome: TestOutcome, message: str, *, failed: bool) -> None:
        """Record pytest's outcome of the test, if there is a recording that can be written.

        ``failed``: pytest shows it as a failure or an error.
        """
        self._ended = True
        self._failed = self._failed or failed
        if self._recorder is None or not self._recorder.journal.exists():
            return
        try:
            self._recorder.end_test(outcome, message)
        except RecordingError as error:
            self._say(f"the recording does not say that the test ended: {error}")

    def mark_lost_turn(self, test: RunningTest) -> str:
        """Record that the test lost its cluster lock; return why, or an empty text if it did not."""
        lost = self._lost_turn()
        if lost and test.recorder.alive():
            test.recorder.mark(TURN_LOST, detail=lost)
        return lost

    def _start_recorder(self, definition: OperatorDefinition | None) -> Recorder:
        return start_recorder(
            self._item,
            self._cluster,
            definition,
            run_id=self._session.id,
            folder=self._session.folder,
            parameters=self._session.settings.parameters,
            contention_limit=self._session.settings.contention_limit,
            profiled=self._profiled,
            faults=self._wanted.faults and definition is not None,
        )

    def _recorded_operator(self, start: Start, recorder: Recorder) -> Operator:
        recorder.mark(OPERATOR_START, state="begin")
        operator = start()
        target_discovery.follow_operator(operator, recorder, self._wanted.scrape_interval_s)
        recorder.mark(OPERATOR_START, state="end")
        return operator

    def _demand_known_controllers(self, operator: Operator) -> None:
        """Raise UsageError for a controller that a check or the test's code names and the operator does not have.

        It is known from counters of reconciles that serve all their series from the start, as controller-runtime's do.
        """
        named = [
            (name, f"{source}: {text_of(check)}")
            for check, source in self._item.stash.get(BUDGET, ())
            for name in check.controllers()
        ]
        root = f"{self._item.config.rootpath}{os.sep}"
        named += [(one.name, one.where.removeprefix(root)) for one in test_code.controllers(self._item)]
        deadline = time.monotonic() + _CONTROLLERS_S
        while unknown := [one for one in named if one[0] not in (known := _controllers(operator))]:
            if not known:
                return
            # An operator may be ready before all of its controllers have started.
            if time.monotonic() >= deadline:
                name, where = unknown[0]
                raise UsageError(
                    f"{where}: operator {operator.name} has no controller {name!r}",
                    next_step=with_all(name, sorted(known), what="It has"),
                )
            time.sleep(_LOOK_S)

    def _scrape_components(self, recorder: Recorder) -> None:
        if self._session.settings.scrape != "components":
            return
        name = self._cluster.name
        if not self._cluster.metrics:
            self._say(f"cluster {name} does not tell where its components serve metrics: not scraped")
        for target in target_discovery.component_targets(self._cluster, self._wanted.scrape_interval_s):
            recorder.add_target(target)

    def _let_look_into(self, operator: Operator | None, recorder: Recorder) -> None:
        """Give the recorder the operator's profile target; skip a profiling pass without one."""
        target = self._profile_target(operator, None)
        if isinstance(target, ProfileTarget):
            recorder.add_profile_target(target)
            if self._profiled:
                self._say(
                    f"profiling pass ({target.profiler}): its figures are not judged, as those of the last one were"
                )
        elif self._profiled:
            recorder.stop()
            recorder.journal.unlink()
            pytest.skip(f"nothing to profile: {target}")

    def _profile_target(self, operator: Operator | None, asked: Profiler | None) -> ProfileTarget | str:
        """Return how the operator is profiled: as a phase requests, else as the run or the test's marker does."""
        return target_discovery.profile_target(operator, self._wanted.profile if asked is None else asked)

    @contextlib.contextmanager
    def _prometheus(self, operator: Operator | None, recorder: Recorder) -> Iterator[Live | None]:
        """Yield the Prometheus that the test requests; one of its own scrapes what the recorder scrapes."""
        if self._wanted.prometheus == "off":
            yield None
            return
        session = self._session
        components = session.settings.scrape == "components"
        starts = self._wanted.prometheus in ("start", "keep")
        found = target_discovery.found_for_prometheus(self._cluster, operator, session.portal) if starts else None
        opened = recordings.opened(
            self._wanted.prometheus,
            self._cluster,
            session.portal,
            target_discovery.for_prometheus(self._cluster, operator, components=components),
            recordings.occasion(
                recorder, node_id(self._item), session.settings, run_id=session.id, folder=session.folder
            ),
            recorder,
            session.settings,
            self._say,
            coming=[found] if found is not None else [],
        )
        with contextlib.ExitStack() as running:
            with translated_errors():
                live = running.enter_context(opened)
            yield live

    def _open(self, operator: Operator | None, recorder: Recorder, live: Live | None) -> RunningTest:
        session, item, cluster = self._session, self._item, self._cluster
        settings = session.settings
        client = session.portal.client(cluster.access_as("harness"))
        namespace = create_namespace(session.portal, client, cluster, test=item.name, run_id=session.id)
        held = held_to_simulated_nodes(cluster, recorder, namespace)
        return RunningTest(
            run_id=session.id,
            cluster=cluster,
            operator=operator,
            recorder=recorder,
            portal=session.portal,
            client=client,
            namespace=namespace,
            progress=session.progress,
            parameters=settings.parameters,
            base=folders(item),
            longest_hold_s=math.inf if settings.hold_s is None else settings.hold_s,
            stall_limit_s=math.inf if settings.stall_s is None else settings.stall_s,
            wait_quiet_s=settings.wait_quiet_s,
            quietness=Quietness(processes_files(cluster, operator)),
            driver=driver_protocol.inherited_channel(),
            runs=item.config.stash.get(RUNS, None),
            profiled=self._profiled,
            profilers_follow=has_profiled_pass(item),
            profiler_aim=functools.partial(self._profile_target, operator),
            prometheus=live,
            budget=Budget(
                declared=held_to(item.stash.get(BUDGET, ()), held, profiled=self._profiled),
                enforced=settings.budgets,
                inconclusive=settings.inconclusive,
                baselines=baselines_of(session.baselines, node_id(item), cluster.backend),
            ),
        )

    def _close(self, test: RunningTest) -> None:
        if how := test.cluster.ended():
            # With all objects on it: there is nothing to remove.
            self._say(how)
            return
        self.mark_lost_turn(test)
        with translated_errors():
            end_faults(test)
        if self._session.settings.keep:
            self._say(f"kept: namespace {test.namespace} on cluster {test.cluster.name}")
            return
        with translated_errors():
            self.look_for_findings(test)
        self._mark_clean_up(test, "begin")
        with translated_errors():
            remove_namespace(
                self._session.portal,
                test.client,
                test.cluster,
                test.namespace,
                run_id=self._session.id,
                objects=[obj for workload in test.workloads for obj in workload.objects],
                operator_lives=test.operator is not None and test.operator.alive(),
                failed=bool(test.failed_phase),
                say=self._say,
            )
        self._mark_clean_up(test, "end")

    def look_for_findings(self, test: RunningTest) -> None:
        """Record, once, what findings need and nothing else does: the operator's state after the workload is gone."""
        if self._session.settings.findings == "off" or self._profiled or self._looked or not test.recorder.alive():
            return
        self._looked = True
        end_faults(test)
        if test.operator is not None:
            self._settle(test)
            self._note_credentials(test.operator, test.recorder)

    def _settle(self, test: RunningTest) -> None:
        """Give the operator time to react, where the test has deleted its workloads."""
        # Two workloads may be of the same objects: the second one is how a test changes what the first has made.
        applied = {name for workload in test.workloads if workload.applied for name in workload.names()}
        deleted = {name for workload in test.workloads if workload.deleted for name in workload.names()}
        if applied and applied <= deleted and not test.failed_phase:
            test.recorder.settle(_SETTLED_S)

    def _note_credentials(self, operator: Operator, recorder: Recorder) -> None:
        """Record which lines of the operator's log have credentials, of those that are new since the last test."""
        searched = self._session.searched
        self._note_log(operator.log, recorder, from_byte=searched.get(operator.log, 0))
        lines = log_files.lines_with_credentials(operator.log, from_byte=searched.get(operator.log, 0))
        if operator.log.exists():
            searched[operator.log] = operator.log.stat().st_size
        if lines:
            places = ", ".join(f"{operator.log.name}:{number}" for number in lines[:_PLACES])
            recorder.mark(credentials.MARK, detail=places, count=len(lines))

    @staticmethod
    def _note_log(log: Path, recorder: Recorder, *, from_byte: int) -> None:
        """Record how much the operator has logged since the last test, and what it says of itself."""
        facts = log_files.facts(log, from_byte=from_byte)
        if not facts.lines:
            return
        recorder.mark(operator_log.LINES, count=facts.lines)
        recorder.mark(operator_log.BYTES, count=facts.size)
        for label, numbers in (
            (operator_log.PANICS, facts.panics),
            (operator_log.MEMORY, facts.out_of_memory),
            (operator_log.TRACES, facts.traces),
        ):
            if numbers:
                places = ", ".join(f"{log.name}:{number}" for number in numbers[:_PLACES])
                recorder.mark(label, detail=places, count=len(numbers))
        if facts.exception:
            recorder.mark(operator_log.EXCEPTION, detail=facts.exception)
        if facts.errors:
            recorder.mark(operator_log.ERRORS, detail=facts.error, count=facts.errors)

    @staticmethod
    def _mark_clean_up(test: RunningTest, state: Literal["begin", "end"]) -> None:
        # A recorder that has died has failed the test already.
        if test.recorder.alive():
            test.recorder.mark(CLEAN_UP, state=state, detail=test.namespace)

    def _say(self, text: str) -> None:
        self._session.progress.say(text)


Say = Callable[[str], None]

_SETTLED_S = 3.0
"""Time for an operator to delete what it has made, after the workload is gone, s."""

_PLACES = 5
"""Lines of a log that are named."""

_WITHOUT_OPERATOR_S = 5.0
"""Time for objects to go without an operator that removes their finalizers, s."""


def create_namespace(portal: Portal, client: Client, cluster: Cluster, *, test: str, run_id: str) -> str:
    """Create a namespace for a test and return its name. Raises WorkloadError."""
    made = namespace.create(client, test=test, run_id=run_id, lease_id=cluster.lease_id, labels=cluster.owner.labels)
    return portal.run(made)


def remove_namespace(
    portal: Portal,
    client: Client,
    cluster: Cluster,
    name: str,
    *,
    run_id: str,
    objects: Sequence[Object] = (),
    operator_lives: bool = True,
    failed: bool = False,
    say: Say,
) -> None:
    """Remove a test's namespace, its ``objects`` first, and return when it is gone. Raises WorkloadError.

    ``failed``: a phase did not pass; work that the operator did not finish in that phase is not waited for: on a
    cluster that ends with the run, finalizers are removed without it.
    """
    hurry = (
        {}
        if operator_lives and not (failed and not cluster.standing and not cluster.others_use_it)
        else {"objects_timeout": _WITHOUT_OPERATOR_S, "timeout": _WITHOUT_OPERATOR_S}
    )
    portal.run(
        namespace.remove(
            client,
            name,
            run_id=run_id,
            objects=objects,
            **hurry,
            at_once=not backend(cluster.backend).foreign,
            progress=say,
        )
    )
