"""What a test may know of, and do with, the operator under test, however it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from .. import durations, log_files, redaction
from ..cluster.handle import Cluster, ProcessInfo
from ..endpoints import Address, Credentials
from ..kube.portal import Portal
from . import admission, identity, installed
from .running import PROCESS, AnyRunning, Hold, known, shared, stop, transition
from .shape import Admitted, Served

TAIL_LINES = 30

Others = Literal["refuse", "share", "replace"]
Progress = Callable[[str], None]


class Operator(ABC):
    """One operator under test, running on a cluster: a process of this host, or pods; `start.start` makes it."""

    metrics: Address | Served | None
    """Where it serves metrics: at an address of this host, or by its pods; None behind a Service, too."""
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
        """What its definition says of the time between two scrapes, s; None: nothing."""
        self.process = PROCESS
        """Its name in recordings."""
        self.log = Path(running.log)
        self._cluster = cluster
        self._started = running
        self._hold = hold

    @property
    @abstractmethod
    def values(self) -> Mapping[str, str]:
        """What the placeholders of its definition stand for in this start."""

    def credentials(self, part: Admitted) -> Credentials:
        """Return how to be let in to something that its definition names."""
        return admission.credentials(part, self.values)

    @abstractmethod
    def info(self) -> ProcessInfo | None:
        """Return its process on this host, of several replicas that of the one that works; None where none is seen."""

    def served_cpu_s(self) -> float | None:
        """Return the CPU time that it has used, s, as it says itself, in steps of 0.01 s; None when it does not say.

        For one whose processes are none of this host's.
        """
        return None

    @abstractmethod
    def alive(self) -> bool:
        """Whether it runs."""

    def stays(self) -> bool:
        """Return whether it still is the operator that runs on its cluster, and let it run as long as we hold that.

        Another may run in its place, under the same name: a test that measures replaces what others left.
        """
        with transition(self._cluster):
            now = known(self._cluster)
            return now is not None and now.log == self._started.log and shared(self._cluster, now)

    @abstractmethod
    def outlives(self, pid: int) -> bool:
        """Return whether it goes on although this process of its has ended."""

    @abstractmethod
    def describe_exit(self) -> str:
        """Return how it ended: ``exited with code 3``."""

    @abstractmethod
    def check(self) -> None:
        """Raise OperatorError with its last log lines when it does not run, and will not by itself."""

    @abstractmethod
    def restart(self, progress: Progress = lambda text: None) -> None:
        """Stop it and start it again, as the same identity; returns when it is ready."""

    def tail(self, lines: int = TAIL_LINES) -> list[str]:
        """Return the last lines of its output, without what `redaction` takes out."""
        return last_lines(self._started, lines)

    def stop(self) -> None:
        """Stop it and take its webhooks and credentials away, unless others share it. Idempotent.

        CRDs, RBAC and identity stay for the next start; `start.uninstall` takes them out.
        """
        if self._hold.released:
            return
        with transition(self._cluster):
            if self._hold.release():
                stop(self._cluster, self._started)

    def uninstall(self) -> None:
        """After ``stop``: remove what starts of this operator put into the cluster, CRDs included.

        With a CRD go all its objects: remove workloads first, while the operator lives.
        """
        with Portal() as portal:
            client = portal.client(self._cluster.access_as("harness"))
            portal.run(installed.remove(client, self._started.ours, owner=self._cluster.owner))


def last_lines(running: AnyRunning, lines: int = TAIL_LINES) -> list[str]:
    """Return the last lines of an operator's log, without credentials: the file itself holds what it has written."""
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
    """Make an empty log that no other start, of this or another process, writes to."""
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
