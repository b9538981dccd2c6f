"""Faults of real operators, enabled by name so that a check can be seen to fail.

Each is queried at one or two places in the code, marked by a comment; no other code depends on it. Each does real
extra (or missing) work, never idle work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

NOOP_WRITES = "noop-writes"
HOT_LOOP = "hot-loop"
QUADRATIC_SELECT = "quadratic-select"
CRASH = "crash"
ORPHAN = "orphan"
EVENT_DROP = "event-drop"
NOOP_CPU_10 = "noop-cpu-10"
BLOCKING_WAIT = "blocking-wait"
RELIST = "relist"
CONFLICT_STORM = "conflict-storm"
MISSING_RIGHT = "missing-right"
SLOW_DELETE = "slow-delete"
LEAK = "leak"
METRICS_STALL = "metrics-stall"
PORT_MOVE = "port-move"
NAMESPACE_LABEL = "namespace-label"
NAME_LABEL = "name-label"
FUNCTION_NAME_LABEL = "function-name-label"
RUN_ID_METRIC = "run-id-metric"
BUILTIN_DUPLICATE = "builtin-duplicate"
BAD_NAMES = "bad-names"
COARSE_BUCKETS = "coarse-buckets"
LAZY_SERIES = "lazy-series"
RESET_ON_SCRAPE = "reset-on-scrape"
ERROR_MISCOUNT = "error-miscount"
GAUGE_DRIFT = "gauge-drift"
BELOW_ZERO = "below-zero"
POLL = "poll"
VOID_WRITES = "void-writes"
LEASE_STORM = "lease-storm"
OPEN_FILES = "open-files"
LONE_WORKER = "lone-worker"
STAMPED_STATUS = "stamped-status"
RIVALS = "rivals"
EVENT_FLOOD = "event-flood"
LOG_FLOOD = "log-flood"
RECOVERED_PANIC = "recovered-panic"
SMALL_LEAK = "small-leak"
WIDE_LIST = "wide-list"
DISCOVERY = "discovery"
WATCH_LEAK = "watch-leak"
LATE_FINALIZER = "late-finalizer"
SERIAL_CREATES = "serial-creates"
REPLACED_PODS = "replaced-pods"
STALE_STATUS = "stale-status"
NO_SELECTOR = "no-selector"
PHASE_GAUGE = "phase-gauge"
WRONG_OWNER = "wrong-owner"
PERIODIC = "periodic"
WAKE_CHILDREN = "wake-children"
GIVE_UP = "give-up"
NO_BACKOFF = "no-backoff"
EARLY_RETRY = "early-retry"
CREATE_TWICE = "create-twice"
PANIC = "panic"
RESTLESS = "restless"
KEEP_FAILED = "keep-failed"
WAIT_GONE = "wait-gone"
OTHER_HASH = "other-hash"
COUNT_HASH = "count-hash"
MISSED_DELETES = "missed-deletes"
NO_DRIFT = "no-drift"
WAKE_ALL = "wake-all"
HISTORY = "history"
LATE_START = "late-start"
FLAPPING = "flapping"
SERIAL_FINALIZER = "serial-finalizer"
STEP_PAUSES = "step-pauses"
BLOCKING_CALL = "blocking-call"
OBJECT_THREADS = "object-threads"
RESTART_GAUGE = "restart-gauge"

AROUND_RECONCILES = frozenset(
    {
        *(STAMPED_STATUS, RIVALS, EVENT_FLOOD, LOG_FLOOD, RECOVERED_PANIC, SMALL_LEAK, WIDE_LIST, DISCOVERY),
        *(WATCH_LEAK, LATE_FINALIZER, WAKE_CHILDREN, RESTLESS, HISTORY),
        *(LATE_START, FLAPPING),
    }
)
"""Those that wrap the reconcile functions (`flawed_reconciles`)."""

KNOWN: Mapping[str, str] = {
    NOOP_WRITES: "every pass over a PodCliqueSet patches all of its PodCliques, changed or not",
    HOT_LOOP: "the PodCliqueSet's status is stamped at each reconcile, and status events wake the controller",
    QUADRATIC_SELECT: "the pods of each clique are found by a scan of all pods",
    CRASH: "the process ends at once after so many pods created (crash=N, default 100)",
    ORPHAN: "headless Services get no owner and are left behind",
    EVENT_DROP: "a watch that was cut is never taken up again; the API server is asked to cut it (event-drop=SECONDS,"
    " default 300)",
    NOOP_CPU_10: "10 % more CPU in a no-op reconcile: some cliques that need nothing are read and compared once more",
    BLOCKING_WAIT: "a PodCliqueSet's reconcile stays until all of its replicas are available, and keeps its worker",
    RELIST: "every pass over a clique lists its pods at the API server, although the cache holds them",
    CONFLICT_STORM: "a heartbeat is written to an object right before its status, which then is out of date: 409",
    MISSING_RIGHT: "each pass over a set asks for a PodDisruptionBudget, which the ClusterRole does not allow: 403",
    SLOW_DELETE: "a set's cliques are deleted one after the other, and each is asked to go again at every look",
    LEAK: "every version of every object is kept, decoded, with a series for each object, also when it is gone",
    METRICS_STALL: "/metrics takes requests and never answers",
    PORT_MOVE: "/metrics moves to another port when the first PodCliqueSet is seen",
    NAMESPACE_LABEL: "a gauge with the label namespace",
    NAME_LABEL: "a gauge with the label name: a series for each PodClique",
    FUNCTION_NAME_LABEL: "a histogram with the label function, whose values are names of Python functions",
    RUN_ID_METRIC: "the labels of a PodCliqueSet are copied onto a metric, the harness' run id among them",
    BUILTIN_DUPLICATE: "reconciles, requeues and reconciles in flight are counted once more under names of its own",
    BAD_NAMES: "families whose names are camelCase, end in an abbreviated unit or in a type, and have no help",
    COARSE_BUCKETS: "a histogram of seconds, with buckets chosen for milliseconds",
    LAZY_SERIES: "series of errors and conflicts appear with the first one, instead of with 0 at the start",
    RESET_ON_SCRAPE: "a counter says what was counted since it was last asked",
    ERROR_MISCOUNT: "a reconcile that asks to be repeated later is counted by type as an error, and is none",
    GAUGE_DRIFT: "a gauge of pods that counts each that is created and none that goes",
    BELOW_ZERO: "a gauge of pods still to come that counts those that go as well",
    POLL: "all pods are listed every 0.4 s, beside the watch",
    VOID_WRITES: "each status is written twice, the second time without a change",
    LEASE_STORM: "a Lease is renewed five times a second",
    OPEN_FILES: "two files are opened for each pod and stay open",
    LONE_WORKER: "a lock around the reconcile lets one worker of each controller work at a time",
    STAMPED_STATUS: "a PodClique's conditions say when they were looked at last, once a second at most",
    RIVALS: "two controllers each write their own name into one annotation of every PodClique",
    EVENT_FLOOD: "an Event is made for each reconcile of a PodClique, each under a name of its own",
    LOG_FLOOD: "each reconcile of a PodClique logs it as a whole, three times",
    RECOVERED_PANIC: "every twentieth reconcile ends in an exception that the controller recovers from",
    SMALL_LEAK: "each reconcile keeps one kilobyte for ever",
    WIDE_LIST: "each reconcile of a set lists all pods of the cluster, without a limit",
    DISCOVERY: "each reconcile of a set asks the API server for the kinds that it serves",
    WATCH_LEAK: "a watch is opened for each PodClique and never closed",
    LATE_FINALIZER: "a PodClique whose last pod is gone is looked at two seconds later",
    SERIAL_CREATES: "pods are created one after the other, with a pause of 25 ms after each",
    REPLACED_PODS: "the first pods of a PodClique get a wrong template hash, and are deleted and made again",
    STALE_STATUS: "a PodCliqueSet's observedGeneration stays at the first one",
    NO_SELECTOR: "a PodClique's status has no selector, by which its scale subresource finds its pods",
    PHASE_GAUGE: "a gauge of pods by phase that counts a pod in each phase it ever was in",
    WRONG_OWNER: "the owner reference of a Service has the UID of no object",
    PERIODIC: "every 5 s all pods are listed, beside the watch, and all PodCliqueSets are reconciled",
    WAKE_CHILDREN: "each pass over a PodCliqueSet has all of its PodCliques reconciled 0.2 s later, whatever changed",
    GIVE_UP: "a reconcile that ends in an error of the API server (5xx) is not repeated",
    NO_BACKOFF: "a failed reconcile is repeated at once, however often it has failed",
    EARLY_RETRY: "a request that is answered 429 is repeated at once, whatever its Retry-After says",
    CREATE_TWICE: "a pod whose creation was not answered is made again, and pods too many stay",
    PANIC: "the process ends when a reconcile ends in an error of the API server (5xx)",
    RESTLESS: "each reconcile of a PodClique writes a new random annotation to it, and leaves the rest to the next",
    KEEP_FAILED: "a pod that has failed still counts, and none takes its place",
    WAIT_GONE: "a pod that is being deleted still counts: another takes its place once it is gone",
    OTHER_HASH: "pod templates have another hash than other versions of the operator give them",
    COUNT_HASH: "the hash of pod templates covers the number of replicas: scaling replaces the pods that stay",
    MISSED_DELETES: "a pod that is deleted wakes no reconcile",
    NO_DRIFT: "what others change in a PodClique stays: it is compared again only when its PodCliqueSet changes",
    WAKE_ALL: "each event of a pod, whatever changed, has all PodCliques reconciled",
    HISTORY: "each reconcile of a PodClique appends a line to an annotation of it",
    LATE_START: "a PodClique is looked at three seconds after it was made",
    FLAPPING: "a PodClique's first condition is set to its opposite and back, once",
    SERIAL_FINALIZER: "a PodClique's finalizer deletes its pods one after the other, each when the one before is gone",
    STEP_PAUSES: "a PodCliqueSet's children are made kind after kind, with a pause of 0.2 s after each",
    BLOCKING_CALL: "a new PodCliqueSet is looked up elsewhere, by a call of 0.25 s that blocks the event loop",
    RESTART_GAUGE: "a gauge of pods that counts those made and gone since the start, and begins at 0 with each process",
    OBJECT_THREADS: "a thread is started for each PodClique, which does not end with it",
}
"""Name → description."""

_WITH_NUMBER = {CRASH: 100, EVENT_DROP: 300}


class UnknownDefect(ValueError):
    """A name that is not in KNOWN, or a number for a defect that takes none."""


class Defects(msgspec.Struct, frozen=True):
    """The enabled defects; empty by default."""

    names: frozenset[str] = frozenset()
    numbers: dict[str, int] = {}
    """The number, for those defects that take one."""

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def number(self, name: str) -> int:
        """Return the number of an enabled defect."""
        return self.numbers[name]


NO_DEFECTS = Defects()


def parse(arguments: Iterable[str]) -> Defects:
    """Return the defects of ``NAME`` and ``NAME=NUMBER`` arguments. Raises UnknownDefect."""
    names: set[str] = set()
    numbers: dict[str, int] = {}
    for argument in arguments:
        name, equals, number = argument.partition("=")
        if name not in KNOWN:
            raise UnknownDefect(f"no defect {name!r}; there are: {', '.join(sorted(KNOWN))}")
        if equals and name not in _WITH_NUMBER:
            raise UnknownDefect(f"{name} takes no number")
        if name in _WITH_NUMBER:
            if equals and not number.isdecimal():
                raise UnknownDefect(f"{argument}: {number!r} is not a number")
            numbers[name] = int(number) if equals else _WITH_NUMBER[name]
        names.add(name)
    return Defects(names=frozenset(names), numbers=numbers)
