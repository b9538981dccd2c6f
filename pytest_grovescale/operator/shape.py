"""What an operator definition file says.

The file is YAML, one mapping; paths in it are relative to it. See ``fixtures/operators/`` for examples. This module
holds the shape only; ``definition.py`` reads and checks a file.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

Scalar = str | int | float | bool
Setting = str | tuple[str, ...]
"""A chosen value: a text, or several where the definition's default is a list."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all parts of the file: an unknown field is an error."""


class Repeated(_Part, frozen=True, kw_only=True):
    """Arguments repeated for each item of a list value: ``{for: defect, arguments: [--defect, "{defect}"]}``."""

    for_: str = msgspec.field(name="for")
    arguments: list[str]


class Value(_Part, frozen=True, kw_only=True):
    """A value that the user may set (``--set variant=baseline``), where a bare default does not say enough."""

    default: Scalar | list[Scalar]
    choices: list[Scalar] = []
    """What it may be; empty: anything."""
    help: str = ""


class PolicyRule(_Part, frozen=True, kw_only=True, rename="camel"):
    """One rule of a ClusterRole."""

    verbs: list[str]
    api_groups: list[str] = []
    resources: list[str] = []
    resource_names: list[str] = []
    non_resource_urls: list[str] = msgspec.field(default=[], name="nonResourceURLs")


NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?")
"""What names an operator, or a further target of its own."""

NAME_RULE = "lower case letters, digits and '-', at most 52"


class Identity(_Part, frozen=True, kw_only=True):
    """The ServiceAccount that the operator acts as. Made if it is not there; that of pods is in their manifests."""

    namespace: str = "grovescale-operator"
    """Also of those objects of a pod's manifests that name none."""
    service_account: str = ""
    """Empty: the operator's name."""


class Admitted(_Part, frozen=True, kw_only=True):
    """How to be let in where something is served.

    Files are relative to the definition, and may hold placeholders (``{cert_dir}/ca.crt``).
    """

    token: bool = False
    """Send the token of the operator's own identity: for a server that asks the API server who may read it."""
    token_file: str = ""
    """Send the token in this file; read again for each request."""
    ca_file: str = ""
    """PEM file that vouches for an ``https`` server. Empty: the system's authorities."""
    cert_file: str = ""
    """Client certificate, PEM, for an ``https`` server that knows its readers by theirs."""
    key_file: str = ""
    """Its key; empty: it stands in ``cert_file``."""
    insecure_skip_verify: bool = False
    """Take any certificate: for a server that made its own when it started."""


class InCluster(_Part, frozen=True, kw_only=True):
    """Something that is found by asking the API server."""

    namespace: str = ""
    """Empty: that of the operator."""
    path: str = "/metrics"
    scheme: Literal["http", "https"] = "http"
    via: Literal["proxy", "ip"] = "proxy"
    """``proxy``: through the API server, whose identity asks; ``ip``: straight to the address that the API tells,
    where this host has a way to it."""


class Service(InCluster, frozen=True, kw_only=True):
    """A Service that leads to an endpoint; only sensible with one endpoint behind it.

    Its address, for ``via: ip``, is its cluster IP, or its ``externalName``.
    """

    name: str
    port: int | str
    """Number, or the name that the Service gives it."""


class Pods(InCluster, frozen=True, kw_only=True):
    """All running pods that a selector finds, as they come and go."""

    selector: str
    """As ``kubectl get pods -l`` takes it: ``app=agent,tier!=test``."""
    port: int


class FurtherTarget(Admitted, frozen=True, kw_only=True):
    """Another endpoint that is scraped, in one of three places."""

    name: str
    """Lower case, digits, ``-``. Checks name it so: ``series(max=50, target="gateway")``; one of several pods is
    ``agents/<pod>``."""
    url: str = ""
    service: Service | None = None
    pods: Pods | None = None
    interval: str | float | None = None
    """As `Metrics.interval`."""


class Endpoint(Admitted, frozen=True, kw_only=True):
    """Something that the operator serves on this host, and how to be let in."""

    url: str


class Readiness(Endpoint, frozen=True, kw_only=True):
    """How to tell that it works: a GET that answers 200."""

    timeout: str | float = "60s"


class Metrics(Endpoint, frozen=True, kw_only=True):
    """Where it serves metrics. When it moves to another port while it runs, it is followed there."""

    url: str = ""
    service: Service | None = None
    """In place of ``url``: read through a Service."""
    interval: str | float | None = None
    """Between two scrapes of a phase, ``5s``; 0: at its start and end only. ``--grovescale-scrape-interval`` beats
    it."""


class Served(Admitted, frozen=True, kw_only=True):
    """Something that the operator's pods serve. To be let in is not for ``proxy``, which passes nothing on."""

    port: int | str
    """Number, or the name that the container gives it."""
    path: str
    scheme: Literal["http", "https"] = "http"
    via: Literal["proxy", "forward", "ip"] = "proxy"
    """``proxy``: through the API server, whose identity asks; ``forward``: by a port of this host that leads there;
    ``ip``: straight to the pod's address, where this host has a way to it."""

    @property
    def number(self) -> int:
        """The port's number, which a checked definition has."""
        assert isinstance(self.port, int)
        return self.port


class ServedMetrics(Served, frozen=True, kw_only=True):
    """Where a pod serves metrics."""

    port: int | str = ""
    path: str = "/metrics"
    service: Service | None = None
    """In place of ``port``, ``path``, ``scheme`` and ``via``: whichever pod the Service leads to is read."""
    interval: str | float | None = None
    """As `Metrics.interval`."""


class Pod(_Part, frozen=True, kw_only=True):
    """The operator as pods of the cluster: a Deployment, and what belongs to it."""

    manifests: list[str]
    """Files, folders of files, and kustomize folders (those with a ``kustomization.yaml``)."""
    deployment: str = ""
    """``name`` or ``namespace/name``; empty: the only one in the manifests."""
    container: str = ""
    """The one that is the operator; empty: the only one of the Deployment."""
    image: str = ""
    """In place of the container's own."""
    archive: str = ""
    """An image as ``docker save`` writes it, brought into the cluster before the start; only on ``kind``. Relative to
    the file; one with a placeholder, ``"{archive}"``, to the folder that the tests were started from."""
    dockerfile: str = ""
    """Built as ``image`` before the start, and brought into the cluster; only on ``kind``."""
    context: str = ""
    """Folder that is built; empty: the Dockerfile's."""
    build_args: dict[str, str] = {}
    arguments: list[str | Repeated] = []
    """Added behind the container's own."""
    env: dict[str, str] = {}
    """Added to the container's, or in place of what has that name."""
    replicas: int | str | None = None
    """In place of the Deployment's; a number, or a text with a placeholder that is one: ``"{replicas}"``."""
    lease: str = ""
    """The Lease that says which replica works: ``name`` or ``namespace/name``. Empty: with several replicas, the one
    in their namespace that one of them holds."""
    rollout_timeout: str | float = "180s"
    metrics: ServedMetrics | None = None
    pprof: Served | None = None
    """As `OperatorFile.pprof`: ``{port: 6060, path: /debug/pprof}``."""
    stacks: Served | None = None
    """As `OperatorFile.stacks`."""


class Trigger(_Part, frozen=True, kw_only=True):
    """What makes a no-op reconcile: an annotation or a label, changed on an object of this kind, its spec untouched."""

    kind: str
    annotation: str = "grovescale.io/reconcile-trigger"
    label: str = ""
    """Changed in place of the annotation. For kinds whose annotations mean work: those of a Deployment are part of its
    generation, and are copied to its ReplicaSets."""


class Limits(_Part, frozen=True, kw_only=True):
    """What the process may use; nothing given: all there is."""

    memory: str | int = 0
    """Bytes, or ``512Mi``, ``2Gi``; above it the process is ended."""
    cores: int | list[int] | None = None
    """A number of cores, or the very ones, that it is pinned to."""
    gomaxprocs: int | None = None
    """``GOMAXPROCS`` in its environment."""


class OperatorFile(_Part, frozen=True, kw_only=True):
    """The file, as written."""

    name: str
    """Lower case, digits, ``-``. Names its ServiceAccount, ClusterRole and log."""
    description: str = ""
    command: list[str | Repeated] = []
    """Starts it as a process of this host."""
    pod: Pod | None = None
    """In place of `command`: it runs in the cluster."""
    declared: dict[str, Scalar | list[Scalar] | Value] = msgspec.field(default={}, name="values")
    """Placeholders of its own, with their defaults."""
    env: dict[str, str] = {}
    """Added to a small inherited environment (PATH, HOME, locale …); KUBECONFIG is always its own."""
    workdir: str = ""
    """Relative to the file; empty: the folder that the tests were started from."""
    files: dict[str, str] = {}
    """Name → text with placeholders, written to ``{directory}/name`` before each start: a configuration file."""
    crds: list[str] = []
    """Files or folders, applied first."""
    manifests: list[str] = []
    """Files or folders, applied after the CRDs."""
    rbac: str | list[PolicyRule] = []
    """Rules granted to its ServiceAccount, here or in a file (ClusterRoles and Roles, or just rules)."""
    identity: Identity = Identity()
    webhooks: list[str] = []
    """Files or folders with Mutating- and ValidatingWebhookConfigurations."""
    readiness: Readiness | None = None
    """Of a process; pods have their own, and count as ready when their Deployment is rolled out."""
    metrics: Metrics | None = None
    targets: list[FurtherTarget] = []
    """What else is scraped, for checks and for a Prometheus of the run."""
    pprof: Endpoint | None = None
    """Where ``net/http/pprof`` answers: ``{url: http://127.0.0.1:{pprof_port}/debug/pprof}``."""
    stacks: Endpoint | None = None
    """Where a Python operator tells the stacks of its asyncio tasks, as Python prints stacks: from outside, py-spy sees
    only the event loop. Not needed for one that works in threads, nor for Go."""
    profiler: Literal["auto", "pyspy", "pprof", "off"] = "auto"
    """``auto``: pprof where it is served, py-spy for a Python process. ``off``: nothing is ever attached to it."""
    trigger: Trigger | None = None
    limits: Limits = Limits()
    owned: list[str] = []
    """Kinds that it makes, in the order in which to show them, ``Pod``, ``podcliques.grove.io``."""
    start: Literal["test", "session"] = "test"
    """Started fresh for each test, or once."""
    stop_grace: str | float = "10s"
    """From SIGTERM to SIGKILL."""


class OperatorDefinition(OperatorFile, frozen=True, kw_only=True):
    """A checked file with the values that were chosen for this run."""

    source: str
    """The file's absolute path; paths in the definition are absolute too."""
    settings: dict[str, Setting] = {}
    """Every name under the file's ``values:`` → what it is in this run."""

    @property
    def values(self) -> dict[str, str]:
        """``settings`` as flat texts, a list's items joined by commas: what a recording notes of a run."""
        return {name: value if isinstance(value, str) else ",".join(value) for name, value in self.settings.items()}

    @property
    def as_pod(self) -> Pod:
        """``pod``, of a definition that has one."""
        assert self.pod is not None
        return self.pod

    @property
    def own_metrics(self) -> Metrics | ServedMetrics | None:
        """Where it serves metrics, as a process or as pods."""
        return self.metrics if self.pod is None else self.pod.metrics

    @property
    def service_account(self) -> str:
        return self.identity.service_account or self.name

    @property
    def user(self) -> str:
        """The identity's user name, as the audit log has it."""
        return f"system:serviceaccount:{self.identity.namespace}:{self.service_account}"


def texts(definition: OperatorFile) -> dict[tuple[str | int, ...], str]:
    """Return every text that reaches the operator (arguments, environment, files), by its path in the file."""
    found: dict[tuple[str | int, ...], str] = {}
    for path, item in arguments(definition).items():
        if isinstance(item, Repeated):
            found |= {(*path, "arguments", i): text for i, text in enumerate(item.arguments)}
        else:
            found[path] = item
    found |= {("env", name): text for name, text in definition.env.items()}
    found |= {("files", name): text for name, text in definition.files.items()}
    if definition.pod is not None:
        found |= {("pod", "env", name): text for name, text in definition.pod.env.items()}
        found |= {("pod", "build_args", name): text for name, text in definition.pod.build_args.items()}
        found["pod", "image"] = definition.pod.image
        found["pod", "archive"] = definition.pod.archive
        found["pod", "replicas"] = str(definition.pod.replicas or "")
    return found


def arguments(definition: OperatorFile) -> dict[tuple[str | int, ...], str | Repeated]:
    """Return the items of the command, or of a pod's arguments, by their path in the file."""
    found: dict[tuple[str | int, ...], str | Repeated] = {
        ("command", index): item for index, item in enumerate(definition.command)
    }
    if definition.pod is not None:
        found |= {("pod", "arguments", index): item for index, item in enumerate(definition.pod.arguments)}
    return found


def endpoints(definition: OperatorFile) -> dict[str, Endpoint]:
    """Return what the operator serves at a URL, by its name in the file."""
    parts: dict[str, Endpoint | None] = {
        "readiness": definition.readiness,
        "metrics": definition.metrics,
        "pprof": definition.pprof,
        "stacks": definition.stacks,
    }
    return {name: part for name, part in parts.items() if part is not None and part.url}


def urls(definition: OperatorFile) -> dict[tuple[str | int, ...], str]:
    """Return the definition's URLs, by their path in the file."""
    found: dict[tuple[str | int, ...], str] = {(name, "url"): part.url for name, part in endpoints(definition).items()}
    return found | {("targets", i, "url"): target.url for i, target in enumerate(definition.targets) if target.url}


def admitted(definition: OperatorFile) -> dict[tuple[str | int, ...], Admitted]:
    """Return everything that one may have to be let in to, by its path in the file."""
    pod = definition.pod
    places: dict[tuple[str | int, ...], Admitted | None] = {
        ("readiness",): definition.readiness,
        ("metrics",): definition.metrics,
        ("pprof",): definition.pprof,
        ("stacks",): definition.stacks,
        ("pod", "metrics"): pod.metrics if pod else None,
        ("pod", "pprof"): pod.pprof if pod else None,
        ("pod", "stacks"): pod.stacks if pod else None,
        **{("targets", i): target for i, target in enumerate(definition.targets)},
    }
    return {place: part for place, part in places.items() if part is not None}


CREDENTIAL_FILES = ("token_file", "ca_file", "cert_file", "key_file")


def credential_files(definition: OperatorFile) -> dict[tuple[str | int, ...], str]:
    """Return the files that one is let in with, by their path in the file."""
    return {
        (*place, field): name
        for place, part in admitted(definition).items()
        for field in CREDENTIAL_FILES
        if (name := getattr(part, field))
    }


def in_cluster(definition: OperatorFile) -> dict[tuple[str | int, ...], Service | Pods]:
    """Return the Services and pods that are scraped, by their path in the file."""
    pod_metrics = definition.pod.metrics if definition.pod else None
    places: dict[tuple[str | int, ...], Service | Pods | None] = {
        ("metrics", "service"): definition.metrics.service if definition.metrics else None,
        ("pod", "metrics", "service"): pod_metrics.service if pod_metrics else None,
    }
    for i, target in enumerate(definition.targets):
        places |= {("targets", i, "service"): target.service, ("targets", i, "pods"): target.pods}
    return {place: part for place, part in places.items() if part is not None}
