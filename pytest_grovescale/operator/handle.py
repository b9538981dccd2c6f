"""`Operator`: the operator under test as tests see it, as a process or as pods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from .. import durations, log_files, redaction
from ..cluster.handle import Cluster, ProcessInfo
from ..endpoints import Address, Credentials
from ..kube.portal import Portal
from . import endpoints, identity, install
from .operator_state import PROCESS, AnyRunning, Hold, known, shared, stop, transition
from .schema import Admitted, OperatorDefinition, Served

TAIL_LINES = 30

Others = Literal["refuse", "share", "replace"]
Progress = Callable[[str], None]


class Operator(ABC):
    """An operator under test that runs on a cluster: a process of this host, or pods; created by `start.start`."""

    metrics: Address | Served | None
    """Metrics endpoint: an address on this host, or of its pods; None also for one behind a Service."""
    pprof: Address | Served | None
    stacks: Address | Served | None

    def __init__(self, cluster: Cluster, running: AnyRunning, hold: Hold) -> None:
        definition = running.definition
        trigger = definition.trigger
        metrics = definition.own_metrics
        interval = metrics.interval if metrics is not None else None
        self.definition = definition
        self.name = definition.name
        self.identity = definition.user
        self.trigger = trigger.annotation if trigger else ""
        self.trigger_label = trigger.label if trigger else ""
        self.trigger_kind = trigger.kind if trigger else ""
        self.scrape_interval_s = None if interval is None else durations.seconds(interval)
        """Scrape interval in its definition, s; None: not set."""
        self.fault_proxy = running.proxy
        """The proxy on its way to the API server; None: there is none."""
        self.process = PROCESS
        """Process name in recordings."""
        self.log = Path(running.log)
        self.replaced = False
        """Whether another version of it runs now, see ``restart``."""
        self._cluster = cluster
        self._started = running
        self._hold = hold

    @property
    @abstractmethod
    def values(self) -> Mapping[str, str]:
        """Placeholder of its definition → value in this start."""

    def credentials(self, part: Admitted) -> Credentials:
        """Return the credentials for an endpoint of its definition."""
        return endpoints.credentials(part, self.values)

    @abstractmethod
    def info(self) -> ProcessInfo | None:
        """Return its process on this host, with several replicas the leader's; None if none is visible."""

    def served_cpu_s(self) -> float | None:
        """Return its CPU time, s, as reported in its own metrics, in steps of 0.01 s; None if not reported.

        For an operator without processes on this host.
        """
        return None

    @abstractmethod
    def served_metrics(self) -> Mapping[str, str]:
        """Return the series that its metrics endpoint serves now; empty where it has none.

        Of several replicas those of the leader. Raises OSError or GrovescaleError where it does not answer.
        """

    @abstractmethod
    def alive(self) -> bool:
        """Whether it runs."""

    def stays(self) -> bool:
        """Return whether it still is the cluster's operator, and keep it running as long as this process has its share.

        Another operator may run in its place, under the same name: a test that measures replaces the previous one, and
        one that restarts it as another version leaves that.
        """
        with transition(self._cluster):
            now = None if self.replaced else known(self._cluster)
            return now is not None and now.log == self._started.log and shared(self._cluster, now)

    @abstractmethod
    def outlives(self, pid: int) -> bool:
        """Return whether it continues after the end of its process ``pid``."""

    @abstractmethod
    def describe_exit(self) -> str:
        """Return how it ended: ``exited with code 3``."""

    def after_exit(self) -> str:
        """Return what to do where it has ended in a test."""
        return f"Its whole log: {self.log.name} in the run's folder."

    @abstractmethod
    def check(self) -> None:
        """Raise OperatorError with its last log lines if it does not run and will not restart by itself."""

    @abstractmethod
    def restart(self, progress: Progress = lambda text: None, version: OperatorDefinition | None = None) -> None:
        """Stop it and start it again, as the same identity; returns when it is ready.

        ``version``: another definition of it to start. Raises UsageError where that cannot take its place.
        """

    def replaced_by(self, version: AnyRunning) -> None:
        """Note that another version runs now, which no later test may take for this operator."""
        self.replaced = True
        self.definition = version.definition
        self.log = Path(version.log)
        self._started = version

    def tail(self, lines: int = TAIL_LINES) -> list[str]:
        """Return the last lines of its output, redacted by `redaction`."""
        return last_lines(self._started, lines)

    def stop(self) -> None:
        """Stop it and remove its webhooks and credentials, unless others share it. Idempotent.

        CRDs, RBAC and identity stay for the next start; `start.uninstall` removes them.
        """
        if self._hold.released:
            return
        with transition(self._cluster):
            if self._hold.release():
                stop(self._cluster, self._started)

    def uninstall(self) -> None:
        """After ``stop``: remove all objects that starts of this operator created in the cluster, CRDs included.

        Deleting a CRD deletes all its objects: remove workloads first, while the operator runs.
        """
        with Portal() as portal:
            client = portal.client(self._cluster.access_as("harness"))
            portal.run(install.remove(client, self._started.ours, owner=self._cluster.owner))


def last_lines(running: AnyRunning, lines: int = TAIL_LINES) -> list[str]:
    """Return the last lines of an operator's log, redacted: the file itself contains the original output."""
    # Another test process may have started it.
    redaction.conceal(identity.token(Path(running.folder)))
    return log_files.last_lines(Path(running.log), lines)


def tail_text(running: AnyRunning) -> str:
    """Return the last lines of an operator's log as the end of a message."""
    lines = last_lines(running)
    if not lines:
        return "\nits log is empty"
    return "\n".join(["", f"last {len(lines)} lines of its log:", *(f"  {line}" for line in lines)])


def new_log(directory: Path) -> Path:
    """Create an empty log file that no other start, of this or another process, writes to."""
    directory.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        log = directory / (f"{PROCESS}.log" if number == 1 else f"{PROCESS}-{number}.log")
        try:
            log.touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return log
