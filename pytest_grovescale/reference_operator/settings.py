"""The command-line settings."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from . import defects
from .defects import Defects


class Switches(msgspec.Struct, frozen=True, kw_only=True):
    """The four switches that distinguish ``optimized`` (all on) from ``baseline`` (all off)."""

    parallel_groups: bool = True
    """Components of a PodCliqueSet run in three groups, each group at once; off: one component after another."""
    narrow_selector: bool = True
    """A clique's pods come from an index on the label ``grove.io/podclique``; off: all pods of the namespace are
    matched against the managed-by, part-of and podclique labels."""
    memoise: bool = True
    """Within one reconcile the parent and the pod list are read once; off: at every use."""
    skip_noop_status: bool = True
    """An unchanged status is not written; off: every reconcile ends with a status write."""


VARIANTS = {
    "optimized": Switches(),
    "baseline": Switches(parallel_groups=False, narrow_selector=False, memoise=False, skip_noop_status=False),
}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one operator process."""

    kubeconfig: Path | None = None
    """None: the credentials of the pod that this runs in."""
    context: str = ""
    bind_address: str = "127.0.0.1"
    metrics_port: int = 8080
    health_port: int = 8081
    concurrency: int = 20
    """Concurrent reconciles per controller, and concurrent requests within one PodCliqueSet reconcile."""
    kube_api_qps: float = 0.0
    """Client-side limit of requests per second, without watches; 0: no limit."""
    kube_api_burst: int = 0
    """Requests that may be sent at once; 0: as many as in one second."""
    switches: Switches = Switches()
    defects: Defects = Defects()
    leader_election: bool = False
    leader_election_namespace: str = "default"
    status_interval: float = 10.0
    """Seconds. The status of an object in progress is published at most this often; that of an object that has reached
    its spec is published at once."""
    shutdown_grace: float = 10.0
    """Seconds that running reconciles get to finish after SIGTERM."""
    log_level: str = "info"


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Return the settings of a command line; for an invalid one, print usage and exit with status 2."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        switches = _switches(given.variant, given.switch)
        active = defects.parse(given.defect)
    except ValueError as error:
        parser.error(str(error))
    return Settings(
        kubeconfig=given.kubeconfig,
        context=given.context,
        bind_address=given.bind_address,
        metrics_port=given.metrics_port,
        health_port=given.health_port,
        concurrency=given.concurrency,
        kube_api_qps=given.kube_api_qps,
        kube_api_burst=given.kube_api_burst,
        switches=switches,
        defects=active,
        leader_election=given.leader_elect,
        leader_election_namespace=given.leader_election_namespace,
        status_interval=given.status_interval,
        shutdown_grace=given.shutdown_grace,
        log_level=given.log_level,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_grovescale.reference_operator",
        description="An operator for multi-pod inference workloads (PodCliqueSet, PodClique, PodCliqueScalingGroup).",
        epilog="Defects: " + "; ".join(f"{name}: {text}" for name, text in sorted(defects.KNOWN.items())) + ".",
    )
    add = parser.add_argument
    add("--kubeconfig", type=Path, help="credentials of the operator's own identity (default: those of its pod)")
    add("--context", default="", help="context of the kubeconfig (default: its current one)")
    add("--bind-address", default="127.0.0.1", help="address of both servers (default %(default)s)")
    add("--metrics-port", type=int, default=8080, help="/metrics (default %(default)s; 0 = none)")
    add(
        "--health-port",
        type=int,
        default=8081,
        help="/healthz, /readyz, /debug/counts, /debug/tasks (default %(default)s)",
    )
    add("--concurrency", type=_positive, default=20, help="reconciles at a time per controller (default %(default)s)")
    add("--kube-api-qps", type=_rate, default=0.0, help="requests a second (default %(default)g; 0 = no limit)")
    add("--kube-api-burst", type=_count, default=0, help="requests at once (default %(default)s; 0 = one second's)")
    add("--variant", choices=sorted(VARIANTS), default="optimized", help="all switches on, or all off")
    add("--switch", action="append", default=[], metavar="NAME=on|off", help="one switch, over the variant's")
    add("--defect", action="append", default=[], metavar="NAME", help="a fault to show; may be repeated")
    add("--leader-elect", action="store_true", help="work only while holding a Lease (default off)")
    add("--leader-election-namespace", default="default", help="where the Lease lies (default %(default)s)")
    add("--status-interval", type=float, default=10.0, help="seconds between interim statuses (default %(default)s)")
    add("--shutdown-grace", type=float, default=10.0, help="seconds for reconciles in flight (default %(default)s)")
    add("--log-level", choices=["debug", "info", "warning", "error"], default="info")
    return parser


def _positive(value: str) -> int:
    number = int(value)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return number


def _count(value: str) -> int:
    number = int(value)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must not be negative, not {value}")
    return number


def _rate(value: str) -> float:
    number = float(value)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"must be 0 or a number of requests a second, not {value}")
    return number


def _switches(variant: str, overrides: Sequence[str]) -> Switches:
    values = msgspec.structs.asdict(VARIANTS[variant])
    for override in overrides:
        name, _, state = override.partition("=")
        field = name.replace("-", "_")
        if field not in values or state not in ("on", "off"):
            known = ", ".join(sorted(f.replace("_", "-") for f in values))
            raise ValueError(f"--switch {override}: write NAME=on or NAME=off, NAME one of {known}")
        values[field] = state == "on"
    return Switches(**values)
