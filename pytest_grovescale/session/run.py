"""One pytest session's run: the resources of its fixtures, test by test, and the cleanup at its end.

pytest's objects (config, items, requests) are used only here and in ``session/``; other packages do not depend on them.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .. import interrupts
from ..analysis.analyse import RECORDINGS
from ..bench.baselines import Baselines
from ..cluster import machine_lock
from ..cluster.handle import Cluster
from ..errors import GrovescaleError, UsageError
from ..operator.handle import Operator
from ..options import Settings
from ..report import progress
from ..scenario.running_phase import end_forked_copy
from ..scenario.running_test import RunningTest
from ..scenario.scale import Scale
from ..storage import explained, raised_here
from . import budget_enforcement, clusters, test_run
from .clusters import Clusters, Lost, locked, never_lost
from .context import Session, open_screen
from .error_translation import translated_errors
from .operators import Operators
from .recordings import conclude_in_background, conclude_without_controller
from .run_folder import RunFolder, groups_file
from .session_summary import conclude, show_unjudged, show_unprofiled
from .test_config import ItemConfig, folders
from .test_run import MeasuredTest

_LOCKED_S = "grovescale/locked_seconds"
"""Key in pytest's cache: test id → how long the test held the machine lock the last time, s."""


class Run:
    """State of a pytest session. Every part is created at first use."""

    def __init__(self, config: pytest.Config, settings: Settings, *, run_id: str = "") -> None:
        # Not from the environment, which also reaches a pytest that a worker's test has started.
        self.worker: str = getattr(config, "workerinput", {}).get("workerid", "")
        self.id = run_id or _new_id()
        self._pid = os.getpid()
        self._screen = open_screen(config, worker=bool(self.worker))
        quiet = config.get_verbosity() < -1
        self._root = config.rootpath
        self._session = Session(
            id=self.id,
            settings=settings,
            folder=RunFolder(settings.reports, self.id, concludes=not self.worker),
            baselines=Baselines(config.rootpath, history=settings.history),
            progress=progress.Progress(self._screen, quiet=bool(self.worker) or quiet),
        )
        self._notices = progress.Progress(self._screen, quiet=quiet, live=False) if self.worker else self.progress
        self._clusters = Clusters(settings, run_id=self.id, worker=self.worker, say=self.say)
        self._operators = Operators(keep=settings.keep, say=self.progress.say)
        self._workers = False
        self._finished = False
        self._left = False
        """Whether the cleanup was left to the cluster's supervisor."""
        self._concluded = False
        self._unwritten: list[str] = []
        """Files of the result that could not be written, with the reasons."""
        self._lost_turn: Lost = never_lost
        self._open: tuple[MeasuredTest, RunningTest] | None = None
        self._recorded: MeasuredTest | None = None
        """The test whose recording is incomplete: pytest's outcome is still missing."""
        self.parameters_read: set[str] = set()
        """By the tests of this process, and, once they have ended, of its xdist workers."""

    @property
    def settings(self) -> Settings:
        return self._session.settings

    @property
    def progress(self) -> progress.Progress:
        return self._session.progress

    def say(self, text: str) -> None:
        """Show a slow step outside of a test's phases: a wait, a start; also from an xdist worker."""
        self._notices.say(f"[{self.worker}] {text}" if self.worker else text)

    # ---- fixtures

    @contextlib.contextmanager
    def turn(self, item: pytest.Item) -> Iterator[None]:
        """Lock the machine for a test: exclusively for one that measures."""
        lock = machine_lock.exclusive if "scale" in getattr(item, "fixturenames", ()) else machine_lock.shared
        # Missing with `-p no:cacheprovider`.
        cache: pytest.Cache | None = getattr(item.config, "cache", None)
        last = cache.get(_LOCKED_S, {}) if cache is not None else {}
        with contextlib.ExitStack() as held:
            with translated_errors():
                held.enter_context(lock(self.say, command=item.nodeid, expected_s=last.get(item.nodeid)))
            began = time.monotonic()
            yield
        if cache is not None:
            cache.set(_LOCKED_S, {**cache.get(_LOCKED_S, {}), item.nodeid: round(time.monotonic() - began, 1)})

    @contextlib.contextmanager
    def cluster(self, item: pytest.Function) -> Iterator[Cluster]:
        """Yield the cluster of a test, started if necessary, while the test holds its lock there."""
        measured = "scale" in item.fixturenames
        uses_operator = measured or "grovescale_operator" in item.fixturenames
        with contextlib.ExitStack() as held:
            with translated_errors():
                cluster = self._find_cluster(item)
                turn = locked(
                    cluster, lambda: self._session.portal, alone=measured, operator=uses_operator, say=self.say
                )
                self._lost_turn = held.enter_context(turn)
            cluster.note_test(item.nodeid)
            try:
                yield cluster
            finally:
                cluster.note_test("")
                self._lost_turn = never_lost

    def _find_cluster(self, item: pytest.Function) -> Cluster:
        wanted = ItemConfig.of(item, self.settings)
        if (cluster := self._clusters.current(wanted)) is not None:
            cluster.check_running()
            return cluster
        needs_one = {"scale", "grovescale_operator"} & set(item.fixturenames)
        operator = wanted.definition(item) if needs_one else None
        self._operators.session_over()
        self._clusters.leave()
        return self._clusters.find(wanted, operator, base=folders(item))

    @contextlib.contextmanager
    def operator(self, item: pytest.Function, cluster: Cluster) -> Iterator[Operator]:
        """Yield the operator of a test, running and ready."""
        wanted = ItemConfig.of(item, self.settings)
        with translated_errors():
            definition = wanted.definition(item)
            if definition is None:
                raise UsageError(
                    "the test asks for an operator and for none", next_step="Leave grovescale_operator or `none` out."
                )
            # On a cluster with other users, it may run only while this test holds the lock.
            per_session = (wanted.start or definition.start) == "session" and not cluster.others_use_it
            logs = self._session.folder.part("logs")
            alone = "scale" in item.fixturenames
            operator = self._operators.find(
                definition, cluster, wanted.operator_key, directory=logs, alone=alone, faults=wanted.faults
            )
        yield operator
        if not per_session:
            self._operators.test_over()

    @contextlib.contextmanager
    def namespace(self, item: pytest.Function, cluster: Cluster) -> Iterator[str]:
        """Yield a namespace for a test; afterwards remove it with all that is in it."""
        portal = self._session.portal
        client = portal.client(cluster.access_as("harness"))
        with translated_errors():
            name = test_run.create_namespace(portal, client, cluster, test=item.name, run_id=self.id)
        yield name
        if self._ended(cluster):
            return
        if self.settings.keep:
            self.progress.say(f"kept: namespace {name} on cluster {cluster.name}")
            return
        with translated_errors():
            test_run.remove_namespace(portal, client, cluster, name, run_id=self.id, say=self.progress.say)

    def end_forked_copy(self) -> None:
        """End this process if it is a copy of the session's that a test has forked."""
        end_forked_copy(self._pid)

    def _ended(self, cluster: Cluster) -> bool:
        """Return whether the cluster has ended, with all objects on it; the test has reported it, or does now."""
        if how := cluster.ended():
            self.progress.say(how)
        return bool(how)

    @contextlib.contextmanager
    def scale(self, request: pytest.FixtureRequest, cluster: Cluster, *, profiled: bool) -> Iterator[Scale]:
        """Yield one test's ``Scale``; afterwards remove its namespace and close its recording."""
        item = request.node
        test = MeasuredTest(self._session, item, cluster, profiled=profiled, lost_turn=self._lost_turn)
        with translated_errors():
            definition = ItemConfig.of(item, self.settings).definition(item)
            if definition is None:
                self._operators.clear(cluster)
        self._recorded = test
        with test.open(definition, lambda: request.getfixturevalue("grovescale_operator")) as running:
            self._open = (test, running)
            try:
                yield Scale(running)
            finally:
                self._open = None
                self.parameters_read |= running.parameters_read
        if test.lost_recording() is None:
            budget_enforcement.give_figures(item, running)

    # ---- after a test's function; debuggers

    def cause_of(self, item: pytest.Item, error: BaseException) -> BaseException:
        """Return the root cause of a test's or fixture's error: the end of its cluster, if that ended.

        Or that of its recording: checks cannot pass without records.
        """
        if "grovescale_cluster" in getattr(item, "fixturenames", ()):
            try:
                self._clusters.check_running()
            except GrovescaleError as ended:
                return ended
        lost = self._open[0].lost_recording() if self._open is not None else None
        return lost or error

    def passes_although(self, item: pytest.Item, error: BaseException) -> bool:
        """Return whether a test passes despite an error in its function; see ``budget_enforcement.leaves_unjudged``."""
        return self._open is not None and budget_enforcement.leaves_unjudged(item, self._open[1], error)

    def note_outcome(self, report: pytest.TestReport, error: BaseException | None) -> None:
        """Record pytest's outcome of a test's set-up, function or teardown."""
        test = self._recorded
        if test is not None and (report.when == "call" or report.failed):
            failed_phase = self._open[1].failed_phase if self._open is not None else ""
            outcome, message = budget_enforcement.outcome_of(report, error, failed_phase=failed_phase)
            test.end(outcome, message, failed=report.failed)
        if report.when == "teardown":
            self._recorded = None

    def hold_to_budget(self, item: pytest.Item) -> None:
        """Fail a finished test by its checks, while its ``Scale`` is still open."""
        if self._open is None:
            return
        test, running = self._open
        with translated_errors():
            # Whatever the options say: without its recording it proves nothing.
            running.recorder.check_written()
        if (lost := test.mark_lost_turn(running)) and not running.profiled:
            budget_enforcement.disturbed(item, lost, inconclusive=self.settings.inconclusive)
        if "profile" not in self.settings.given:
            budget_enforcement.note_unprofiled(item, running)
        budget_enforcement.hold_to_budget(item, running)
        if self.settings.findings == "fail" and not running.profiled:
            with translated_errors():
                test.look_for_findings(running)
            budget_enforcement.hold_to_findings(running)

    def pause(self) -> None:
        """Stop the clocks of an open phase: a debugger is open."""
        if self._open is not None and (phase := self._open[1].current) is not None:
            phase.pause()

    def resume(self) -> None:
        """Resume the clocks of an open phase."""
        if self._open is not None and (phase := self._open[1].current) is not None:
            phase.resume()

    # ---- the end

    @property
    def groups(self) -> Path:
        """The file by which xdist's workers pass on their tests' groups."""
        return groups_file(self._session.folder.path)

    def give_to_worker(self) -> str:
        """Return the run's id for an xdist worker. This process then cleans up after the workers."""
        self._workers = True
        self._session.folder.hold_open()
        return self.id

    def finish(self) -> None:
        """Stop the operator, leave the cluster, close the connections. Idempotent."""
        if self.worker and not self._finished:
            # First: execnet kills a worker whose controller has died after 15 s of cleanup.
            conclude_without_controller(self._session.folder)
        self._finished = True
        if self._left:
            return
        with self._said():
            self._operators.session_over()
        with self._said():
            self._clusters.leave()
        self._session.close()
        if self._workers and not self.settings.keep:
            with self._said():
                clusters.end_all(self.id)

    def cut_short(self) -> None:
        """Clean up in order, after a Ctrl-C during the end of tests; another Ctrl-C skips the cleanup.

        It is then left to the cluster's supervisor, which sees this process end.
        """
        self.say("interrupted again: ending the cluster; once more leaves that to its supervisor")
        try:
            if self._recorded is not None:
                self._recorded.interrupt()
            self.finish()
        except KeyboardInterrupt:
            self._left = True
            self.say("interrupted again: the cluster's supervisor clears up when this process has ended")

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        """Show errors of the cleanup: the tests are over, they must not become errors of them."""
        try:
            yield
        except GrovescaleError as error:
            self.say(str(error))
        except (OSError, RuntimeError) as error:
            if (refused := self.refused(error)) is None:
                raise
            self.say(str(refused))

    def refused(self, error: BaseException) -> GrovescaleError | None:
        """Return the operating system's error, with path and option; None for any other error."""
        return explained(error, self.settings.reports) if raised_here(error) else None

    def summarise(self, reporter: pytest.TerminalReporter) -> None:
        """Show and write the results of the run's recordings; a worker leaves that to its controller."""
        if self.worker:
            return
        self._conclude(reporter)
        show_unjudged(reporter)
        show_unprofiled(reporter)

    def write_result(self) -> bool:
        """Write the files that `summarise` has not, as after an error in pytest's output; return whether all exist."""
        if not self.worker and not self._concluded:
            for text in self._conclude(None):
                self.say(text)
        return not self._unwritten

    def _conclude(self, reporter: pytest.TerminalReporter | None) -> list[str]:
        folder = self._session.folder
        self._concluded = True
        if not (folder.path / RECORDINGS).is_dir():
            return []
        try:
            interrupts.hold(
                self._answer("the result is being written; once more leaves it to the background"), once=True
            )
            self._unwritten = conclude(folder.path, self.settings, self._session.baselines, self._root, reporter)
        except KeyboardInterrupt:
            conclude_in_background(folder)
            self.say(f"interrupted again: {folder.path / 'result.json'} is written in the background")
            raise
        finally:
            self.ends()
        return self._unwritten

    def ends(self) -> None:
        """Block Ctrl-C, from here to the end of the process or `interrupts.release`.

        pytest itself takes a second to show where it was interrupted: another one there would lose the rest of the
        output. One that comes before the handlers are in place does not end what is ending anyway.
        """
        while True:
            try:
                interrupts.hold(self._answer("the run is ending"))
            except KeyboardInterrupt:
                continue
            return

    def _answer(self, text: str) -> Callable[[str], None]:
        """Return a signal's message handler; it bypasses streams, which may be in use when it runs."""

        def answer(name: str) -> None:
            with contextlib.suppress(OSError, ValueError):
                os.write(self._screen.fileno(), f"\n{name}: {text}\n".encode())

        return answer

    def close(self) -> None:
        """Close the run's folder and the screen, which ``finish`` keeps open."""
        self.finish()
        self._session.folder.close()
        self.progress.close()
        with contextlib.suppress(OSError):
            # Unwritten output is still in its buffer: `| head`, or a full disk behind `>`.
            self._screen.close()


def _new_id() -> str:
    now = datetime.datetime.now(datetime.UTC)
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
