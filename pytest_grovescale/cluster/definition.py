"""Cluster definition files: backend, node pools, limits of the components."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from .. import resources
from ..definitions import Keys, Mistakes, Source, read
from ..errors import DefinitionError, UsageError
from ..suggestions import with_all
from ..yaml_errors import readable
from . import versions
from .backend import backend
from .backend import names as backend_names

KIND = "fixtures/clusters"

POOL_LABEL = "grovescale.io/pool"
"""Label of every simulated node; its value is the prefix of its pool."""

_LEASE_SECONDS = 40
_NOT_INHERITED = ("name", "description")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9.]{0,200}[a-z0-9])?")
_QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
_LABEL = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
# What an operator's objects need: garbage collection, namespace deletion, role aggregation; and its children.
CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "pod-garbage-collector-controller",
    "clusterrole-aggregation-controller",
    "persistentvolumeclaim-protection-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "cronjob-controller",
    "ttl-after-finished-controller",
    "endpointslice-controller",
    "disruption-controller",
    "resourcequota-controller",
)
"""Those that a cluster runs by default."""
# kube-controller-manager knows them by their older names, too.
_NODE_LIFECYCLE = ("node-lifecycle-controller", "nodelifecycle")
_BINDER = ("persistentvolume-binder-controller", "persistentvolume-binder")
_CLAIM, _SERVICE = "PersistentVolumeClaim", "Service"
_RESERVED_FLAGS = {
    "etcd-servers",
    "secure-port",
    "bind-address",
    "client-ca-file",
    "tls-cert-file",
    "tls-private-key-file",
    "audit-log-path",
    "audit-policy-file",
    "kubeconfig",
}

EngineName = Literal["auto", "docker", "podman"]


class Taint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class NodePool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Identical simulated nodes, named ``<prefix>-0``, ``<prefix>-1``, …"""

    prefix: str
    count: int
    template: str = "simulated.yaml"
    """Node manifest of the pool, relative to this file, or a name in fixtures/nodes."""
    capacity: dict[str, str | int] = {}
    """Resource → quantity, overrides the template's; all of it is allocatable."""
    labels: dict[str, str] = {}
    taints: list[Taint] = []


class ApiServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of the API server; defaults as in production."""

    priority_and_fairness: bool = True
    max_requests_inflight: int = 400
    """Concurrent read requests; 0: unlimited."""
    max_mutating_requests_inflight: int = 200
    """Concurrent write requests; 0: unlimited."""
    gomaxprocs: int = 0
    """Threads that run Go code; 0: one per core. A value above the number of cores shortens the delay of watches."""
    gogc: int = 0
    """Heap growth between two garbage collections, percent; 0: Go's default (100). A higher value takes more memory and
    less CPU, which on a small machine leaves more CPU to the operator and all other processes."""
    memory_percent: int = 0
    """Share of the memory of this machine (of the container, if that has less) that ``gogc`` may take, percent; beyond,
    it collects as often as it must. 0: no limit."""
    extra_args: dict[str, str] = {}
    """Flags without the dashes."""


class ClientLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Client-side rate limits of a component for the API server. Kubernetes' defaults would be the bottleneck."""

    qps: int = 5000
    burst: int = 10000


class ControllerManager(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    controllers: list[str] = msgspec.field(default_factory=lambda: list(CONTROLLERS))
    """Names as ``kube-controller-manager --help`` lists them; ``*``: all that are on by default, ``-NAME``: not that
    one. Only on ``local``."""
    limits: ClientLimits = ClientLimits()
    concurrent_gc_syncs: int = 40
    extra_args: dict[str, str] = {}

    def runs(self, *names: str) -> bool:
        """Return whether a controller runs that is on by default. ``names``: all that it is known by."""
        off = any(f"-{name}" in self.controllers for name in names)
        return any(name in self.controllers for name in names) or ("*" in self.controllers and not off)

    @property
    def names(self) -> str:
        """The controllers as kube-controller-manager is given them, separated by commas."""
        return self.extra_args.get("controllers", ",".join(self.controllers))


class Scheduler(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limits: ClientLimits = ClientLimits()
    percentage_of_nodes_to_score: int = 0
    """Share of the nodes that are looked at for a pod once enough of them fit, at least 100 nodes; 0: kube-scheduler's
    own, 50 % of 100 nodes and 42 % of 1000. What fits is not affected, only how evenly pods are spread."""
    default_spreading: bool = True
    """Whether pods of a Service, ReplicaSet or StatefulSet without `topologySpreadConstraints` are spread over zones
    and nodes as far as it goes. For that kube-scheduler compares each pod with all Services of its namespace and all
    nodes: work that grows with the square of the size."""
    extra_args: dict[str, str] = {}


class Kwok(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pod_parallelism: int = 16
    """Stages that kwok plays for pods at a time."""
    node_parallelism: int = 16
    lease_seconds: int = 0
    """Duration of node leases, renewed at a quarter of it; 0: 40, as a kubelet's, where a node-lifecycle controller
    runs, which gives up nodes whose leases run out; else no leases, which saves their writes."""
    extra_args: dict[str, str] = {}


class Kind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the backend ``kind`` only: a control plane in a container on this machine."""

    cluster: str = ""
    """Name of an existing kind cluster to join and keep. Empty: create one and delete it at the end."""
    engine: EngineName = "auto"
    """``auto``: as ``$KIND_EXPERIMENTAL_PROVIDER`` says, else Docker, else Podman."""
    image: str = ""
    """Node image, which sets the Kubernetes version; empty: one built on this machine for the definition's version,
    else the one that kind publishes for it."""
    config: str = ""
    """kind configuration file to merge in; relative to this file."""
    kwok: Literal["host", "cluster"] = "host"
    """Where kwok runs: as a process on this machine, or as a pod in the cluster."""
    kwok_image: str = ""
    """Image of that pod; loaded into the node if the engine has it. Empty: one built on this machine, else the
    published one."""


class Existing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the backend ``existing`` only: a cluster that grovescale did not create and that others may use."""

    context: str = ""
    """Context of the kubeconfig; empty: its current context."""
    kubeconfig: str = ""
    """kubeconfig file; empty: ``$KUBECONFIG`` or the user's default."""
    in_cluster: bool = False
    """Use the service account of the pod that this process runs in."""
    kwok: Literal["auto", "host", "there"] = "auto"
    """Which kwok simulates the kubelets: grovescale's (``host``), one in the cluster (``there``); ``auto``: detect."""


class ClusterDefinition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of a cluster definition file. Paths are absolute after loading."""

    name: str
    description: str = ""
    extends: str = ""
    """A definition that this one changes: a path relative to this file, or a name in fixtures/clusters. Mappings are
    merged field by field, ``null`` removes a field, and lists are replaced. Name and description are not inherited.
    Empty after loading."""
    backend: str = "local"
    """Name of a backend, see `backend.names`."""
    kubernetes: str = versions.DEFAULT_KUBERNETES
    """``1.36.3``, or ``1.36`` for its pinned patch version."""
    nodes: list[NodePool]
    stages: list[str]
    """Files with kwok Stages; relative to this file, or names in fixtures/stages."""
    api_server: ApiServer = ApiServer()
    controller_manager: ControllerManager = ControllerManager()
    scheduler: Scheduler = Scheduler()
    kwok: Kwok = Kwok()
    kind: Kind | None = None
    existing: Existing | None = None
    binaries: dict[str, str] = {}
    """Binary → path; these binaries are not looked up."""

    @property
    def simulates_claims(self) -> bool:
        """Whether a Stage binds the claims of pods, so that nothing else has to."""
        return any(_plays(stage, _CLAIM) for stage in self.stages)

    @property
    def node_count(self) -> int:
        return sum(pool.count for pool in self.nodes)

    def with_nodes(self, count: int) -> ClusterDefinition:
        """Return the definition with ``count`` nodes in total; several pools keep their proportions."""
        if count < 1:
            raise UsageError(f"a cluster cannot have {count} nodes", next_step="Ask for 1 or more.")
        total = self.node_count
        pools, left = [], count
        for position, pool in enumerate(self.nodes):
            share = left if position == len(self.nodes) - 1 else min(left, round(count * pool.count / max(total, 1)))
            pools.append(msgspec.structs.replace(pool, count=share))
            left -= share
        return msgspec.structs.replace(self, nodes=pools)

    def with_version(self, version: str) -> ClusterDefinition:
        """Return the definition with another Kubernetes version; raises UsageError for an unsupported one."""
        if decides := backend(self.backend).version_decided_by(self):
            raise UsageError(f"{decides} decides the Kubernetes version", next_step="Leave the other version out.")
        return msgspec.structs.replace(self, kubernetes=versions.kubernetes(version))


def load_definition(name: str, *, base: resources.Folders | None = None) -> ClusterDefinition:
    """Return the definition for a path, the name of a bundled definition, or ``existing:CONTEXT``.

    Raises DefinitionError, ``file:line: path: reason``; of a file that others extend, that file's.
    """
    bundled, colon, argument = name.partition(":")
    takes_argument = bool(colon) and bundled in backend_names() and bool(backend(bundled).argument)
    path = resources.find(KIND, bundled if takes_argument else name, base=base)
    source = read(path, kind=KIND, own=_NOT_INHERITED)
    definition = _checked(source.convert(ClusterDefinition), source)
    return backend(definition.backend).with_argument(definition, argument) if takes_argument else definition


def _checked(written: ClusterDefinition, source: Source) -> ClusterDefinition:
    def resolved(keys: Keys, kind: str, name: str) -> str:
        try:
            return str(resources.find(kind, name, base=source.folder(keys)))
        except DefinitionError as error:
            raise source.mistake(keys, error.message, error.next_step) from None

    mistakes = Mistakes()
    version = ""
    try:
        version = versions.kubernetes(written.kubernetes)
    except UsageError as error:
        mistakes.errors.append(source.mistake(("kubernetes",), error.message, error.next_step))
    if not written.nodes:
        mistakes.errors.append(source.mistake(("nodes",), "no pool of nodes: nothing could be scheduled"))
    pools = []
    for index, pool in enumerate(written.nodes):
        with mistakes.noted():
            _check_pool(pool, ("nodes", index), source)
            template = resolved(("nodes", index, "template"), "fixtures/nodes", pool.template)
            _check_node(template, source, ("nodes", index, "template"))
            pools.append(msgspec.structs.replace(pool, template=template))
    prefixes = [pool.prefix for pool in written.nodes]
    for index, prefix in enumerate(prefixes):
        if prefix in prefixes[:index]:
            mistakes.errors.append(
                source.mistake(("nodes", index, "prefix"), f"another pool's nodes are named {prefix!r} too")
            )
    if not written.stages:
        mistakes.errors.append(
            source.mistake(("stages",), "no Stage: kwok ends at once without one, and no node would become ready")
        )
    stages = []
    for index, name in enumerate(written.stages):
        with mistakes.noted():
            stages.append(resolved(("stages", index), "fixtures/stages", name))
            _check_stage(stages[-1], source, ("stages", index))
    with mistakes.noted():
        _check_numbers(written, source)
    mistakes.demand_none()
    written = _with_leases(_of_backend(written, source))
    if not backend(written.backend).makes(written):
        # There, claims are bound and Services balanced by what it has for that.
        stages = [stage for stage in stages if not any(_plays(stage, kind) for kind in (_CLAIM, _SERVICE))]
    binaries = {name: _binary(source, name, written.binaries[name]) for name in written.binaries}
    definition = msgspec.structs.replace(
        written, extends="", kubernetes=version, nodes=pools, stages=stages, binaries=binaries
    )
    return _without_binder(definition, source) if definition.simulates_claims else definition


def _of_backend(written: ClusterDefinition, source: Source) -> ClusterDefinition:
    """Return the definition as its backend completes it. Raises DefinitionError for an unknown one."""
    if written.backend not in backend_names():
        known = with_all(written.backend, backend_names(), what="Backends")
        raise source.mistake(("backend",), f"there is no backend {written.backend!r}", known)
    for other in backend_names():
        if other != written.backend and getattr(written, other, None) is not None:
            raise source.mistake(
                (other,),
                f"is for the backend {other}; this one is {written.backend}",
                f"Leave it out, or write `backend: {other}`.",
            )
    return backend(written.backend).check(written, source)


def _with_leases(written: ClusterDefinition) -> ClusterDefinition:
    kwok = written.kwok
    needed = backend(written.backend).node_leases or written.controller_manager.runs(*_NODE_LIFECYCLE)
    if not needed or kwok.lease_seconds:
        return written
    return msgspec.structs.replace(written, kwok=msgspec.structs.replace(kwok, lease_seconds=_LEASE_SECONDS))


def _without_binder(written: ClusterDefinition, source: Source) -> ClusterDefinition:
    """Return the definition without the controller that would take back what a Stage says of claims."""

    def others(names: list[str]) -> list[str]:
        named = any(name.removeprefix("-") in _BINDER for name in names)
        return [*names, f"-{_BINDER[0]}"] if "*" in names and not named else names

    manager = written.controller_manager
    flags = dict(manager.extra_args)
    if "controllers" in flags:
        flags["controllers"] = ",".join(others(flags["controllers"].split(",")))
    manager = msgspec.structs.replace(manager, controllers=others(manager.controllers), extra_args=flags)
    if manager.runs(*_BINDER):
        raise source.mistake(
            ("controller_manager", "controllers"),
            f"{_BINDER[0]} would take back what the Stage of claims says",
            "Leave it out, or claim-bound.yaml out of the definition's stages.",
        )
    return msgspec.structs.replace(written, controller_manager=manager)


def _check_pool(pool: NodePool, keys: tuple[str | int, ...], source: Source) -> None:
    if not _PREFIX.fullmatch(pool.prefix):
        raise source.mistake(
            (*keys, "prefix"), f"{pool.prefix!r} cannot begin a node's name", "Use a-z, 0-9, '-' and '.'."
        )
    if pool.count < 0:
        raise source.mistake((*keys, "count"), "a pool cannot have fewer than 0 nodes")
    for name, quantity in pool.capacity.items():
        if not _QUANTITY.fullmatch(str(quantity)):
            raise source.mistake(
                (*keys, "capacity", name), f"{quantity!r} is no quantity", "Write it as 64, 500m or 256Gi."
            )
    for name in pool.labels:
        if not _LABEL.fullmatch(name):
            raise source.mistake((*keys, "labels", name), "is no label's name")
    for index, taint in enumerate(pool.taints):
        if not _LABEL.fullmatch(taint.key):
            raise source.mistake((*keys, "taints", index, "key"), f"{taint.key!r} is no taint's key")


def _check_numbers(written: ClusterDefinition, source: Source) -> None:
    api = written.api_server
    for name in ("max_requests_inflight", "max_mutating_requests_inflight", "gomaxprocs", "gogc"):
        if getattr(api, name) < 0:
            raise source.mistake(("api_server", name), "cannot be negative")
    if not 0 <= api.memory_percent <= 100:
        raise source.mistake(("api_server", "memory_percent"), "is not between 0 and 100")
    if api.priority_and_fairness and api.max_requests_inflight + api.max_mutating_requests_inflight == 0:
        raise source.mistake(
            ("api_server", "priority_and_fairness"),
            "cannot share out unlimited requests",
            "Set it to false, or give the inflight limits.",
        )
    for section in ("api_server", "controller_manager", "scheduler", "kwok"):
        for flag in getattr(written, section).extra_args:
            if flag.lstrip("-") in _RESERVED_FLAGS:
                raise source.mistake((section, "extra_args", flag), "is set by the harness and cannot be changed")
            if flag.startswith("-"):
                raise source.mistake((section, "extra_args", flag), "write flags without their dashes")
    if not 0 <= written.scheduler.percentage_of_nodes_to_score <= 100:
        raise source.mistake(("scheduler", "percentage_of_nodes_to_score"), "is a percentage: 0 to 100")
    for section in ("controller_manager", "scheduler"):
        limits = getattr(written, section).limits
        if limits.qps < 1 or limits.burst < 1:
            raise source.mistake((section, "limits"), "qps and burst must be at least 1")


def _check_stage(path: str, source: Source, keys: Keys) -> None:
    documents = _documents(path, source, keys)
    for document in documents:
        if not isinstance(document, dict) or document.get("kind") != "Stage":
            raise source.mistake(keys, f"{path} holds something else than kwok Stages")
    if not documents:
        raise source.mistake(keys, f"{path} is empty")


@functools.lru_cache(maxsize=64)
def _plays(path: str, kind: str) -> bool:
    """Return whether a file has a Stage for objects of a kind; it was checked before."""
    stages = yaml.safe_load_all(Path(path).read_text(encoding="utf-8"))
    return any(((stage.get("spec") or {}).get("resourceRef") or {}).get("kind") == kind for stage in stages)


def _check_node(path: str, source: Source, keys: Keys) -> None:
    documents = _documents(path, source, keys)
    if len(documents) != 1 or not isinstance(documents[0], dict) or documents[0].get("kind") != "Node":
        raise source.mistake(keys, f"{path} does not hold one Node")


def _documents(path: str, source: Source, keys: Keys) -> list[Any]:
    try:
        with readable(path):
            return list(yaml.safe_load_all(Path(path).read_text(encoding="utf-8")))
    except DefinitionError as error:
        raise source.mistake(keys, error.message, error.next_step) from None


def _binary(source: Source, name: str, given: str) -> str:
    known = (*versions.NEEDED, *versions.OPTIONAL)
    if name not in known:
        raise source.mistake(("binaries", name), "is no binary that is used here", f"Possible: {', '.join(known)}.")
    file = (source.folder(("binaries", name)) / given).expanduser().resolve()
    if not file.is_file():
        raise source.mistake(("binaries", name), f"no such file: {file}")
    return str(file)
