"""The structs of an operator definition file.

The file is YAML, one mapping; paths in it are relative to it. See ``fixtures/operators/`` for examples. This module
holds the schema only; ``definition.py`` reads and checks a file.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from .manifests import Manifest, PolicyRule

Scalar = str | int | float | bool
Setting = str | tuple[str, ...]
"""A chosen value: a string, or several where the definition's default is a list."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all parts of the file: an unknown field is an error."""


class Repeated(_Part, frozen=True, kw_only=True):
    """Arguments repeated for each item of a list value: ``{for: defect, arguments: [--defect, "{defect}"]}``."""

    for_: str = msgspec.field(name="for")
    arguments: list[str]


class Value(_Part, frozen=True, kw_only=True):
    """A value that the user may set (``--set variant=baseline``), with more properties than a plain default."""

    default: Scalar | list[Scalar]
    choices: list[Scalar] = []
    """Allowed values; empty: any."""
    help: str = ""


NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?")
"""Valid names of an operator, and of its further targets."""

NAME_RULE = "lower case letters, digits and '-', at most 52"


class Identity(_Part, frozen=True, kw_only=True):
    """The ServiceAccount of the operator. Created if missing; that of pods is in their manifests."""

    namespace: str = ""
    """Also the namespace of objects without one. Empty: that of `service_account`; without bindings,
    ``grovescale-operator``."""
    service_account: str = ""
    """Empty: the one that the bindings under ``rbac`` name; without bindings, the operator's name."""


class Admitted(_Part, frozen=True, kw_only=True):
    """Credentials for an endpoint.

    Files are relative to the definition, and may contain placeholders (``{cert_dir}/ca.crt``).
    """

    token: bool = False
    """Send the token of the operator's own identity: for a server that authorizes readers at the API server."""
    token_file: str = ""
    """Bearer token file; read again for each request."""
    ca_file: str = ""
    """PEM file with the certificate authority of an ``https`` server. Empty: the system's authorities."""
    cert_file: str = ""
    """Client certificate, PEM, for an ``https`` server with client authentication."""
    key_file: str = ""
    """Its key; empty: contained in ``cert_file``."""
    insecure_skip_verify: bool = False
    """Skip TLS verification: for a server with a self-signed certificate created at its start."""


class InCluster(_Part, frozen=True, kw_only=True):
    """An endpoint that is discovered at the API server."""

    namespace: str = ""
    """Empty: that of the operator."""
    path: str = "/metrics"
    scheme: Literal["http", "https"] = "http"
    via: Literal["proxy", "ip"] = "proxy"
    """``proxy``: through the API server, with the server's identity; ``ip``: directly to the address in the API, if
    this host can reach it."""


class Service(InCluster, frozen=True, kw_only=True):
    """A Service with an endpoint; only useful with a single pod behind it.

    Its address, for ``via: ip``, is its cluster IP, or its ``externalName``.
    """

    name: str
    port: int | str
    """Number, or the Service's port name."""


class Pods(InCluster, frozen=True, kw_only=True):
    """All running pods of a selector, as they come and go."""

    selector: str
    """Syntax of ``kubectl get pods -l``: ``app=agent,tier!=test``."""
    port: int


class FurtherTarget(Admitted, frozen=True, kw_only=True):
    """A further endpoint to scrape, in one of three places."""

    name: str
    """Lower case, digits, ``-``. Name in checks: ``series(max=50, target="gateway")``; one of several pods is
    ``agents/<pod>``."""
    url: str = ""
    service: Service | None = None
    pods: Pods | None = None
    interval: str | float | None = None
    """As `Metrics.interval`."""


class Endpoint(Admitted, frozen=True, kw_only=True):
    """An endpoint of the operator on this host, and its credentials."""

    url: str


class Readiness(Endpoint, frozen=True, kw_only=True):
    """When a process counts as ready: a GET of ``url`` answers 200, or a line of its output matches ``log``."""

    url: str = ""
    log: str = ""
    """Regular expression (``re.search``), for an operator that serves nothing: ``log: Starting workers``; ``log: .`` is
    its first line."""
    timeout: str | float = "60s"


class Metrics(Endpoint, frozen=True, kw_only=True):
    """Metrics endpoint. If it moves to another port while the operator runs, the recorder follows."""

    url: str = ""
    service: Service | None = None
    """In place of ``url``: read through a Service."""
    interval: str | float | None = None
    """Scrape interval within a phase, ``5s``; 0: at its start and end only. ``--grovescale-scrape-interval`` takes
    precedence."""


class Served(Admitted, frozen=True, kw_only=True):
    """An endpoint of the operator's pods. Credentials are not for ``proxy``, which does not pass them on."""

    port: int | str
    """Number, or the container's port name."""
    path: str
    scheme: Literal["http", "https"] = "http"
    via: Literal["proxy", "forward", "ip"] = "proxy"
    """``proxy``: through the API server, with the server's identity; ``forward``: by a local port forward; ``ip``:
    directly to the pod's address, if this host can reach it."""

    @property
    def number(self) -> int:
        """The port's number, which a checked definition has."""
        assert isinstance(self.port, int)
        return self.port


class ServedMetrics(Served, frozen=True, kw_only=True):
    """Metrics endpoint of a pod."""

    port: int | str = ""
    path: str = "/metrics"
    service: Service | None = None
    """In place of ``port``, ``path``, ``scheme`` and ``via``: reads the pod that the Service selects."""
    interval: str | float | None = None
    """As `Metrics.interval`."""


class Pod(_Part, frozen=True, kw_only=True):
    """The operator as pods of the cluster: a Deployment, and what belongs to it."""

    manifests: Paths
    """All its objects, among them the Deployment."""
    deployment: str = ""
    """``name`` or ``namespace/name``; empty: the only one in the manifests."""
    container: str = ""
    """The operator's container; empty: the only one of the Deployment."""
    image: str = ""
    """Replaces the container's image."""
    archive: str = ""
    """Image archive in the format of ``docker save``, loaded into the cluster before the start; only on ``kind``.
    Relative to the file; one with a placeholder, ``"{archive}"``, to the working folder of the tests."""
    dockerfile: str = ""
    """Built as ``image`` before the start, and loaded into the cluster; only on ``kind``."""
    context: str = ""
    """Build context; empty: the Dockerfile's folder."""
    build_args: dict[str, str] = {}
    arguments: list[str | Repeated] = []
    """Appended to the container's own."""
    env: dict[str, str] = {}
    """Added to the container's; replaces variables of the same name."""
    replicas: int | str | None = None
    """Replaces the Deployment's number; a number, or a string with a placeholder for one: ``"{replicas}"``."""
    lease: str = ""
    """The Lease that determines the leader: ``name`` or ``namespace/name``. Empty: with several replicas, the one in
    their namespace that one of them holds."""
    rollout_timeout: str | float = "180s"
    metrics: ServedMetrics | None = None
    pprof: Served | None = None
    """As `OperatorFile.pprof`: ``{port: 6060, path: /debug/pprof}``."""
    stacks: Served | None = None
    """As `OperatorFile.stacks`."""


Paths = str | list[str]
"""One or several of: a file of objects, a folder of such files, a kustomize folder (``kustomization.yaml``), a Helm
chart (``Chart.yaml``, or an archive). From each, a field takes the objects of its kinds."""


class Trigger(_Part, frozen=True, kw_only=True):
    """Trigger of a no-op reconcile: a change of an annotation or label of an object of this kind, not of its spec."""

    kind: str
    annotation: str = "grovescale.io/reconcile-trigger"
    label: str = ""
    """Changed in place of the annotation. For kinds whose annotations cause work: those of a Deployment are part of its
    generation, and are copied to its ReplicaSets."""


class Reconciles(_Part, frozen=True, kw_only=True):
    """The counter of reconciles of an operator whose library serves none that is known: those are controller-runtime's,
    the Java Operator SDK's, kube-rs' and client-go's."""

    counter: str
    """Name in its metrics: ``shop_reconciles_total``."""
    controller_label: str = ""
    """Label with the controller's name; empty: all are of one controller, named as the operator."""
    result_label: str = ""
    """Label with the result, ``error`` for one that failed; empty: it has none."""


class Limits(_Part, frozen=True, kw_only=True):
    """Resource limits of the process; default: none."""

    memory: str | int = 0
    """Bytes, or ``512Mi``, ``2Gi``; the process is killed above it."""
    cores: int | list[int] | None = None
    """Number of cores, or a list of cores, that it is pinned to."""
    gomaxprocs: int | None = None
    """``GOMAXPROCS`` in its environment."""


class OperatorFile(_Part, frozen=True, kw_only=True):
    """The file, as written."""

    name: str
    """Lower case, digits, ``-``. Names its ServiceAccount, ClusterRole and log."""
    description: str = ""
    build: list[str] = []
    """Command that makes the program, run in `workdir` before each start: ``[go, build, -o, bin/manager, ./cmd]``. Not
    measured; without placeholders."""
    command: list[str | Repeated] = []
    """Command line of the operator as a process of this host."""
    pod: Pod | None = None
    """In place of `command`: it runs in the cluster."""
    declared: dict[str, Scalar | list[Scalar] | Value] = msgspec.field(default={}, name="values")
    """Its own placeholders, with their defaults."""
    env: dict[str, str] = {}
    """Added to a small inherited environment (PATH, HOME, locale …); KUBECONFIG is always its own."""
    workdir: str = ""
    """Relative to the file; empty: the working folder of the tests."""
    files: dict[str, str] = {}
    """Name → text with placeholders, written to ``{directory}/name`` before each start: a configuration file."""
    crds: Paths = []
    """CustomResourceDefinitions, applied first. One or several of: a file, a folder of files, a kustomize folder, a
    Helm chart; from each, a field takes the objects of its kinds."""
    chart_values: str | dict[str, Any] = {}
    """Values of the Helm charts among these: a file of values, or the values themselves, over the charts' own."""
    manifests: Paths = []
    """Everything else that a process needs: Namespaces, ConfigMaps, Secrets, PriorityClasses, custom resources. What is
    left out, its own Deployment for one, ``grovescale check -v`` names."""
    rbac: str | list[str | PolicyRule] = []
    """Rules granted to its ServiceAccount: here, or as ClusterRoles and Roles, or as rules alone. With bindings of a
    ServiceAccount, it is granted what they grant; without, all roles."""
    identity: Identity = Identity()
    replaces: list[str] = []
    """Controllers of kube-controller-manager that it takes the place of, as ``job-controller``: a cluster that runs one
    of them is refused, as both would act on the same objects."""
    webhooks: Paths = []
    """Mutating- and ValidatingWebhookConfigurations, called at ``{webhook_port}``."""
    webhook_port: int = 0
    """The port of a webhook server that cannot be set, 9443 in a kubebuilder project; 0: a free one is passed to it."""
    readiness: Readiness | None = None
    """Readiness of a process; pods have their own, and count as ready when their Deployment is rolled out."""
    metrics: Metrics | None = None
    reconciles: Reconciles | None = None
    targets: list[FurtherTarget] = []
    """Further targets to scrape, for checks and for a Prometheus of the run."""
    pprof: Endpoint | None = None
    """Endpoint of ``net/http/pprof``: ``{url: http://127.0.0.1:{pprof_port}/debug/pprof}``."""
    stacks: Endpoint | None = None
    """Endpoint of a Python operator with the stacks of its asyncio tasks, in Python's format: py-spy sees only the
    event loop. Asked while workers are blocked, before the first phase, and at the end, for tasks that stayed. Not
    needed for an operator that uses threads, nor for Go."""
    profiler: Literal["auto", "pyspy", "pprof", "off"] = "auto"
    """``auto``: pprof if there is an endpoint, py-spy for a Python process. ``off``: no profiler is ever attached."""
    trigger: Trigger | None = None
    limits: Limits = Limits()
    findings: dict[str, str] = {}
    """Rule of findings that does not apply to this operator, ``left-behind`` → the reason, which reports show."""
    start: Literal["test", "session"] = "test"
    """Whether it is started for each test, or once per session."""
    stop_grace: str | float = "10s"
    """Time between SIGTERM and SIGKILL."""


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of a definition's sources, read once, as they are checked and as they are created."""

    crds: list[Manifest] = []
    rbac: list[Manifest] = []
    """Roles and bindings of the operator's own ServiceAccount; of pods, empty: theirs are among `manifests`."""
    webhooks: list[Manifest] = []
    manifests: list[Manifest] = []
    left_out: list[str] = []
    """Each object that no field takes, and why: ``Deployment shop/manager (lws.yaml:7): …``."""


class OperatorDefinition(OperatorFile, frozen=True, kw_only=True):
    """A checked file with the chosen values of this run."""

    source: str
    """The file's absolute path; paths in the definition are absolute too."""
    installation: Installation = Installation()
    settings: dict[str, Setting] = {}
    """Every name under the file's ``values:`` → its value in this run."""

    @property
    def values(self) -> dict[str, str]:
        """``settings`` as flat strings, a list's items joined by commas: as stored in a recording."""
        return {name: value if isinstance(value, str) else ",".join(value) for name, value in self.settings.items()}

    @property
    def as_pod(self) -> Pod:
        """``pod``, of a definition that has one."""
        assert self.pod is not None
        return self.pod

    @property
    def own_metrics(self) -> Metrics | ServedMetrics | None:
        """Its metrics endpoint, as a process or as pods."""
        return self.metrics if self.pod is None else self.pod.metrics

    @property
    def service_account(self) -> str:
        """The ServiceAccount's name, which a checked definition has."""
        return self.identity.service_account

    @property
    def user(self) -> str:
        """The identity's user name in the audit log."""
        return f"system:serviceaccount:{self.identity.namespace}:{self.service_account}"


def texts(definition: OperatorFile) -> dict[tuple[str | int, ...], str]:
    """Return every string that reaches the operator (arguments, environment, files), by its path in the file."""
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
    """Return the operator's endpoints with a URL, by their name in the file."""
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
    """Return every endpoint that may have credentials, by its path in the file."""
    pod = definition.pod
    places: dict[tuple[str | int, ...], Admitted | None] = {
        ("readiness",): definition.readiness if definition.readiness and definition.readiness.url else None,
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
    """Return the credential files, by their path in the file."""
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
