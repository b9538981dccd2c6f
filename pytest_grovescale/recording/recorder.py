"""The harness' client of the recorder: starts the process, sends it commands, receives its updates."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from .. import log_files, redaction
from ..cluster import processes
from ..cluster.processes import StoppedFor
from ..errors import RecordingError, UsageError
from ..json_lines import Channel
from . import protocol
from .conditions import Condition, WatchSpec
from .journal import append
from .protocol import (
    Done,
    Outcome,
    PodsToFollow,
    ProcessTarget,
    ProfileTarget,
    RecorderConfig,
    Refused,
    SourceBroke,
    Update,
)
from .records import SETTLED, IncidentKind, LateObject, TestEnded, TestOutcome
from .scrape_targets import ScrapeTarget

__all__ = ["PodsToFollow", "ProcessTarget", "ProfileTarget", "Recorder", "RecorderConfig", "ScrapeTarget"]

_START_S = 60.0
_ORDER_S = 60.0
_BEGIN_S = 120.0
_END_S = 300.0
_GRACE_S = 10.0
_LOOK_S = 0.5
STOPPED_S = 30.0
"""How long to wait for a recorder process that is stopped (SIGSTOP), s. Shorter stops are in its recording."""
_TAIL_LINES = 20


class _Gone:
    """The process has closed its end of the socket."""


class Recorder:
    """A recorder process; create it with `start`. After Ctrl-C in any call, the next call still works.

    All methods but `stop` raise RecordingError when the process has died. Not thread-safe.
    """

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket, journal: Path, log: Path) -> None:
        self.journal = journal
        self.pid = process.pid
        self._process = process
        self._channel: Channel[protocol.AnyAnswer] = Channel(connection, protocol.AnyAnswer)
        self._log = log
        self._ids = itertools.count(1)
        self._heard: queue.SimpleQueue[protocol.AnyAnswer | _Gone] = queue.SimpleQueue()
        self._updates: deque[Update] = deque()
        self._gone = False
        self._journal_lost: RecordingError | None = None
        # A thread receives the bytes: Ctrl-C, which interrupts the main thread, then loses none of them, and neither a
        # busy test nor a debugger blocks the recorder.
        self._ear = threading.Thread(target=self._listen, name="grovescale-recorder", daemon=True)
        self._ear.start()

    @classmethod
    def start(cls, config: RecorderConfig, *, log: Path) -> Self:
        """Start the process, in a session of its own, and return when it records.

        ``log`` receives its standard output and error. Raises RecordingError when it does not start, or when the
        journal cannot be written.
        """
        journal = Path(config.journal)
        ours, theirs = socket.socketpair()
        package_root = str(Path(__file__).resolve().parents[2])
        paths = [package_root, *filter(None, [os.environ.get("PYTHONPATH")])]
        with theirs, log_files.appending(log) as output:
            process = subprocess.Popen(
                # -P: a json.py in the test's folder must not shadow the standard library's.
                [sys.executable, "-P", "-m", "pytest_grovescale.recording", "--control-fd", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                start_new_session=True,
            )
        recorder = cls(process, ours, journal, log)
        config = msgspec.structs.replace(config, concealed=tuple(redaction.concealed()))
        configure = protocol.Configure(
            id=0, config=config, controller=os.getpid(), import_path=[path or str(Path.cwd()) for path in sys.path]
        )
        try:
            recorder._order(configure, _START_S)
        except BaseException:
            recorder.stop("failed")
            raise
        return recorder

    # ---- commands

    def watch(self, specs: Sequence[WatchSpec], timeout: float) -> None:
        """Open the watches that are not open yet; return when all are live.

        Raises RecordingError with the API's message when one is refused or not live within ``timeout`` seconds.
        """
        self._order(protocol.OpenWatches(id=self._id(), specs=list(specs), timeout=timeout), timeout + _ORDER_S)

    def begin_phase(
        self,
        name: str,
        milestones: Sequence[tuple[str, Condition]],
        *,
        timeout: float,
        hold: float = 0.0,
        twin_of: str = "",
        profile: bool = False,
        unprofiled: Mapping[str, str] | None = None,
        edges_only: bool = False,
    ) -> None:
        """Begin a phase: when this returns, every watch is live, the CPU clocks are read and the targets scraped.

        ``timeout`` (s) is journaled; the caller enforces it. ``hold`` (s): the phase completes no earlier. ``twin_of``:
        name of the steady-state phase whose idle twin this one is. ``profile``: a profiler is attached to every profile
        target when this returns, or the recording states why not; ``unprofiled``: process → why it has none.
        ``edges_only``: no scrapes between the phase's edges. Raises UsageError for a condition that cannot be used,
        RecordingError for a watch that cannot be opened.
        """
        self._order(
            protocol.BeginPhase(
                id=self._id(),
                phase=name,
                milestones=list(milestones),
                timeout=timeout,
                hold=hold,
                twin_of=twin_of,
                profile=profile,
                unprofiled=dict(unprofiled or {}),
                edges_only=edges_only,
            ),
            _BEGIN_S,
        )

    def end_phase(self, name: str, outcome: Outcome, message: str = "") -> list[LateObject]:
        """End the phase: reads the audit log up to now, then clocks and targets again.

        Returns the late objects, with reasons, when ``outcome`` is ``timeout``.
        """
        return self._order(protocol.EndPhase(id=self._id(), phase=name, outcome=outcome, message=message), _END_S).late

    def explain(self) -> list[LateObject]:
        """Return objects that each unmet milestone of the open phase waits for, with the API's reasons."""
        return self._order(protocol.Explain(id=self._id()), _END_S).late

    def mark(
        self, label: str, *, state: Literal["begin", "end", "now"] = "now", detail: str = "", count: int = 0
    ) -> None:
        """Journal an action of the harness, before anything that follows from it."""
        self._order(protocol.AddMark(id=self._id(), label=label, state=state, detail=detail, count=count), _ORDER_S)

    def lines(self, source: str, lines: Sequence[str]) -> None:
        """Journal text as evidence, such as the last lines of a log; credentials in it are redacted."""
        self._order(protocol.AddLines(id=self._id(), source=source, lines=list(lines)), _ORDER_S)

    def conceal(self, *secrets: str) -> None:
        """Redact these secrets from here on, in this process and the recorder; see ``redaction.conceal``."""
        before = redaction.concealed()
        redaction.conceal(*secrets)
        if redaction.concealed() != before:
            self._order(protocol.Conceal(id=self._id(), secrets=list(secrets)), _ORDER_S)

    def quiet_phase(self) -> None:
        """Scrape the open phase only at its end from here on; no scrape is running when this returns."""
        self._order(protocol.QuietPhase(id=self._id()), _ORDER_S)

    def add_target(self, target: ScrapeTarget) -> None:
        """Scrape a target from here on; a target with a known name continues its history at the new location."""
        self._order(protocol.AddTarget(id=self._id(), target=target), _ORDER_S)

    def remove_target(self, name: str) -> None:
        """Stop scraping a target and all of its pods."""
        self._order(protocol.RemoveTarget(id=self._id(), name=name), _ORDER_S)

    def scrape(self, name: str) -> None:
        """Scrape a target without an interval (``interval_s=0``) now; ignores an unknown target."""
        self._order(protocol.ScrapeOnce(id=self._id(), name=name), _ORDER_S)

    def declare_check(self, check: dict[str, Any], source: str, *, enforced: bool = True) -> None:
        """Journal a bound that the run must meet, so that it can be judged again from the recording."""
        self._order(protocol.DeclareCheck(id=self._id(), check=check, source=source, enforced=enforced), _ORDER_S)

    def end_test(self, outcome: TestOutcome, message: str = "") -> None:
        """Journal the test's outcome in pytest. After `stop` it is appended to the closed journal."""
        if self._process.poll() is None:
            self._order(protocol.EndTest(id=self._id(), outcome=outcome, message=message), _ORDER_S)
        else:
            append(self.journal, TestEnded(at=time.time_ns(), outcome=outcome, message=redaction.text(message)))

    def add_profile_target(self, target: ProfileTarget) -> None:
        """Allow a process to be profiled in phases that request it, and its stacks to be dumped at a timeout."""
        self._order(protocol.AddProfileTarget(id=self._id(), target=target), _ORDER_S)

    def also_watch(self, specs: Sequence[WatchSpec]) -> None:
        """Add a watch to every phase from the next on, merged with the watches of its milestones."""
        self._order(protocol.AlsoWatch(id=self._id(), specs=list(specs)), _ORDER_S)

    def follow_pods(self, pods: PodsToFollow) -> None:
        """Journal events of pods from here on: container restarts, appearing and disappearing pods, leader changes.

        A target with `OfFollowed` is then scraped at their leader. A failure to follow is journaled as a failure of the
        source, and retried.
        """
        self._order(protocol.FollowPods(id=self._id(), pods=pods), _ORDER_S)

    def incident(self, kind: IncidentKind, subject: str, detail: str = "") -> None:
        """Journal an incident of what is measured, now."""
        self._order(protocol.AddIncident(id=self._id(), kind=kind, subject=subject, detail=detail), _ORDER_S)

    def measure_file(self, path: Path | str) -> None:
        """Also measure the processes in a file: {name: ProcessInfo}, replaced as a whole at every change.

        For processes that no supervisor of grovescale has started, as in containers of this machine. A name that
        another process takes over continues with that one; a removed name is no longer measured, which is not the end
        of its process.
        """
        self._order(protocol.MeasureFile(id=self._id(), path=str(path)), _ORDER_S)

    def settle(self, timeout: float, *, edge: str = SETTLED) -> None:
        """After the workload is gone: give the operator this long (s) to finish, then measure it once more.

        ``edge``: how the recording names that moment.
        """
        self._order(protocol.Settle(id=self._id(), timeout=timeout, edge=edge), timeout + _ORDER_S)

    def flush(self) -> None:
        """Return when everything received so far is on disk: the journal may be analysed."""
        self._order(protocol.Flush(id=self._id()), _ORDER_S)

    def check_written(self) -> None:
        """Return when everything received so far is on disk. Raises RecordingError when it cannot be written."""
        if self.alive():
            self.flush()
        self.check_journal()

    def check_journal(self) -> None:
        """Raise RecordingError when the recorder has reported that the recording cannot be written any more."""
        if self._journal_lost is not None:
            # A new exception: the same one, raised twice, would collect the frames of both.
            raise RecordingError(self._journal_lost.message, next_step=self._journal_lost.next_step)

    def wait(self, timeout: float) -> Update | None:
        """Return the next update, or None when none came within ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while not self._updates:
            left = deadline - time.monotonic()
            heard = self._hear(max(left, 0.0))
            if heard is None:
                if left <= 0:
                    return None
            elif not isinstance(heard, Done | Refused):
                # An answer here belongs to a command that Ctrl-C interrupted.
                self._updates.append(heard)
        return self._updates.popleft()

    def alive(self) -> bool:
        """Return whether the process runs."""
        return not self._gone and self._process.poll() is None

    def stop(self, reason: Literal["stopped", "interrupted", "failed"] = "stopped") -> None:
        """Close the journal and end the process; kill it after 10 s. May be called again."""
        if self._process.poll() is None:
            with contextlib.suppress(RecordingError):
                self._order(protocol.Stop(id=self._id(), reason=reason), _GRACE_S)
        self._channel.close()
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._ear.join(_GRACE_S)

    # ---- the socket

    def _id(self) -> int:
        return next(self._ids)

    def _order(self, request: protocol.Request, timeout: float) -> Done:
        try:
            self._channel.say(request)
        except OSError:
            raise self._died() from None
        deadline = time.monotonic() + timeout
        stopped = StoppedFor(self.pid, patience_s=STOPPED_S)
        while True:
            heard = self._hear(min(max(deadline - time.monotonic(), 0.0), _LOOK_S))
            match heard:
                case None if stopped.too_long():
                    raise RecordingError(
                        f"the recorder (pid {self.pid}) is stopped and does not answer",
                        next_step=f"Let it go on: kill -CONT {self.pid}. What it recorded is in {self.journal}.",
                    )
                case None if time.monotonic() >= deadline:
                    raise RecordingError(
                        f"the recorder did not answer within {timeout:g} s",
                        next_step=f"See its log: {self._log}.",
                    )
                case Done(id=number) if number == request.id:
                    return heard
                case Refused(id=number) if number == request.id:
                    raise (UsageError if heard.usage else RecordingError)(heard.message, next_step=heard.next_step)
                case None | Done() | Refused():
                    pass
                case _:
                    self._updates.append(heard)

    def _hear(self, timeout: float) -> protocol.AnyAnswer | None:
        if self._gone:
            raise self._died()
        try:
            heard = self._heard.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(heard, _Gone):
            self._gone = True
            raise self._died()
        if isinstance(heard, SourceBroke) and heard.source == protocol.JOURNAL:
            self._journal_lost = RecordingError(heard.message, next_step=heard.next_step)
        return heard

    def _listen(self) -> None:
        try:
            while (heard := self._channel.hear()) is not None:
                self._heard.put(heard)
        except OSError:
            # `stop` has closed the socket.
            pass
        finally:
            self._heard.put(_Gone())

    def _died(self) -> RecordingError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.poll()
        how = "runs but has closed its line" if code is None else processes.exit_text(code)
        tail = log_files.last_lines(self._log, _TAIL_LINES)
        return RecordingError(
            "\n".join([f"the recorder process {how}", *(f"  {line}" for line in tail)]),
            next_step=f"What it recorded is in {self.journal}; its log is {self._log}.",
        )
