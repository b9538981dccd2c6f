"""Controllers in the result of a phase, by their own metrics: reconciles, work while idle, waiting workers."""

from __future__ import annotations

from typing import Literal

import msgspec

ReconcileSource = Literal["controller-runtime", "java-operator-sdk", "kube-rs", "work-queue", "declared"]
"""The library whose counter it is, or ``declared``: the one that the operator's definition names; see
`reconcile_counters`. ``work-queue``: items that workers have taken from a client-go queue and given back."""


class ReconcileRow(msgspec.Struct, frozen=True, kw_only=True):
    controller: str
    """The controller, or the work queue that is named after it."""
    result: str
    """How it ended; empty where the operator's counter does not show it."""
    count: int
    lower_bound: bool = False
    """The counter was reset in the phase: the count is a lower bound."""
    source: ReconcileSource = "controller-runtime"
    objects: int | None = None
    """Objects of the controller's kind that existed in the phase, where a watched resource has the controller's name;
    None where none has."""


IdleKind = Literal["object", "watch", "lease", "event", "review", "nonresource"]
"""`Category` of a request in an idle window; ``watch``: one that was opened again, whatever of."""


class IdleRow(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of one verb and resource by the operator in an idle window."""

    what: str
    """Verb and resource: ``list pods``, ``update leases.coordination.k8s.io``."""
    kind: IdleKind
    count: int
    bursts: int
    """How often they came: requests within 0.2 s of each other are one burst."""
    period_s: float | None = None
    """Seconds from one burst to the next, where they come regularly: within the window, or in the whole run."""


class IdleController(msgspec.Struct, frozen=True, kw_only=True):
    """Reconciles of one controller in an idle window, between the first scrape in it and the last."""

    controller: str
    count: int
    objects: int | None = None
    """As of `ReconcileRow`."""


class IdleWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which nothing changed but by the operator itself, and what the operator did in it."""

    phase: str
    start_s: float
    """Seconds from the phase's start."""
    seconds: float
    rested: bool = False
    """Whether it begins with its phase: an idle twin, or a phase before which nothing had changed for a second. Others
    follow a change by a second, and may hold work that it caused."""
    objects: int
    """Objects of the resource that the test's figures are related to, which existed at its end."""
    requests: dict[IdleKind, int] = {}
    """The operator's requests in `requests_window_s`; all kinds are named, also those of which there were none."""
    requests_window_s: float
    """Seconds in which requests were counted: without the first one of a window that begins with its phase, which may
    hold the end of earlier work."""
    rows: tuple[IdleRow, ...] = ()
    """The same by verb and resource, the most frequent first."""
    cpu_s: float | None = None
    """CPU seconds in `cpu_window_s`; None where the operator's clock was not read twice in the window."""
    cpu_window_s: float = 0.0
    reconciles: tuple[IdleController, ...] = ()
    """Of each controller, also those that made none; empty where the operator was not scraped twice in the window."""
    reconciles_window_s: float = 0.0
    """Seconds between the two scrapes; 0 without them."""
    allocated_bytes: int | None = None
    """Memory that the operator allocated in `reconciles_window_s`, where its runtime's metrics have it."""

    @property
    def covers_s(self) -> float:
        """The longest period of which the window shows two occurrences for certain, s."""
        return self.seconds / 2


class BlockedSpell(msgspec.Struct, frozen=True, kw_only=True):
    """An interval in which a controller's workers waited inside reconciles while keys waited for a worker."""

    start_s: float
    """Seconds from the phase's start; as exact as the scrape interval."""
    end_s: float
    starved: bool = False
    """No reconcile ended in the whole interval."""


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One controller's workers in one phase, by the operator's own metrics and its CPU clock.

    Rates are over the phase's scrapes, from the first to the last; None where the operator's metrics do not show them.
    """

    controller: str
    """The controller, or the work queue that is named after it."""
    workers: int | None = None
    """Maximum concurrent reconciles; None where only its queue's metrics are served."""
    active_share: float | None = None
    """S: active workers / `workers`, on average over the scrapes."""
    unfinished_growth: float | None = None
    """B: seconds per second by which the unfinished work grows older: how many workers are stuck."""
    busy_workers: float | None = None
    """W: seconds per second that workers spent in reconciles, ended or not."""
    finished_per_s: float | None = None
    """μ: reconciles that ended, per second."""
    cores_per_worker: float | None = None
    """κ: CPU seconds of the whole operator per second that one of this controller's workers was busy."""
    depth_max: int | None = None
    """Peak number of keys that waited in its queue."""
    longest_s: float | None = None
    """Longest age of a running reconcile at any scrape."""
    scrapes: int = 0
    blocked: tuple[BlockedSpell, ...] = ()
    """As `no_blocked_workers()` finds them with its defaults."""
    problem: str = ""
    """Why blocked workers cannot be detected: too few scrapes."""

    @property
    def blocked_s(self) -> float:
        """Seconds of the phase in which its workers were blocked."""
        return sum(spell.end_s - spell.start_s for spell in self.blocked)


class Saturation(msgspec.Struct, frozen=True, kw_only=True):
    busy_share: float
    """CPU seconds of all processes whose clocks were read / (cores × seconds of the phase); 1 is all cores all the
    time."""
    saturated: bool
    """At least 95 %: wall times of this phase reflect the machine, not the operator."""
    saturated_s: float | None = None
    """Saturated seconds of the phase, from the 1 s timeline."""
    busiest: tuple[str, ...] = ()
    """Processes by CPU, busiest first."""
    terminated_watchers: int | None = None
    """Watch disconnects because a watcher could not keep up (apiserver_terminated_watchers_total)."""
