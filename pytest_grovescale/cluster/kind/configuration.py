"""The kind configuration of a cluster: checked, and merged with the user's own; and what it lets kubeadm change.

All changes to the control plane use kubeadm's patches of its static pods, files that exist in the node before kubeadm
runs, not ``extraArgs``: those are a mapping in one version of its configuration and a list in the next, and they are
left to the user. Flags are appended, and the last of repeated flags applies; volumes and variables are merged by name.

Source: https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/control-plane-flags/ (patches directory).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from ... import resources
from ...definitions import Source, read
from ...errors import DefinitionError
from ...yaml_errors import readable
from ..definition import ApiServer, ClusterDefinition, ControllerManager, Kind, Scheduler
from ..launch import AUDIT_MAX_MB, AUDIT_POLICY, RESIZE, api_server_environment, scheduler_configuration

BINARIES = ("kind", "kwok")
FOLDER = "fixtures/kind"

_DEFAULTS = {"api_server": ApiServer(), "controller_manager": ControllerManager(), "scheduler": Scheduler()}
_SECTIONS = {
    "apiServer": "kube-apiserver",
    "controllerManager": "kube-controller-manager",
    "scheduler": "kube-scheduler",
}
_IN_DEFINITION = "Leave it out; limits are set in the cluster definition: api_server, controller_manager, scheduler."

_BARE = ClusterDefinition(name="bare", nodes=[], stages=[])
"""A minimal definition: the flags set for it are set for every definition."""

API_VERSION = "kind.x-k8s.io/v1alpha4"

_NODES_OF_DEFAULT_SUBNET = 250
"""kind's default pod network is a /16, and each node gets a /24 of it."""

_WIDE_SUBNET = "10.192.0.0/10"
_SKIPPED = ["preflight", "addon/kube-proxy", "addon/coredns"]
_LOOPBACK = "127.0.0.1"

IN_NODE = "/etc/grovescale"
"""Mount point of kubeadm's patches, and of the files that they name, in the node; read-only."""

AUDIT_IN_NODE = "/var/log/grovescale"
"""Mount point of the audit log's folder in the node."""

AUDIT_LOG = "audit.log"
PATCHES = "patches"

METRICS_PORTS = {"kube-controller-manager": 10257, "kube-scheduler": 10259, "etcd": 2381}
"""Metrics ports in the node."""

_PKI = "/etc/kubernetes/pki"
_FILES_VOLUME, _AUDIT_VOLUME, _PKI_VOLUME = "grovescale", "grovescale-audit", "grovescale-pki"

# As kubeadm has them, but for the one that would take back what the Stage of claims says.
_CONTROLLERS = "*,bootstrapsigner,tokencleaner,-persistentvolume-binder-controller"

# One replica each: no Lease to renew every two seconds, and none to expire after a restart of the node.
_ONE_OF_ITS_KIND = {"leader-elect": "false"}

# Makes its metrics readable from this machine with mutual TLS by the cluster's authority: by default it listens on the
# node's loopback with a self-signed certificate.
_SERVING = {
    "bind-address": "0.0.0.0",
    "tls-cert-file": f"{_PKI}/apiserver.crt",
    "tls-private-key-file": f"{_PKI}/apiserver.key",
}


def check(written: ClusterDefinition, source: Source) -> ClusterDefinition:
    """Return the definition with an absolute path of its kind configuration. Raises a mistake of its source."""
    return msgspec.structs.replace(written, kind=_settings(written, source))


def _settings(written: ClusterDefinition, source: Source) -> Kind:
    settings = written.kind or Kind()
    for name in written.binaries:
        if name not in BINARIES:
            raise source.mistake(
                ("binaries", name),
                "is in the node image of a kind cluster, not on this machine",
                f"Name another image: kind: {{image: NAME}}; possible here: {', '.join(BINARIES)}.",
            )
    if written.controller_manager.controllers != ControllerManager().controllers:
        raise source.mistake(
            ("controller_manager", "controllers"),
            "a kind cluster runs all controllers",
            "To leave some out: controller_manager: {extra_args: {controllers: '*,-NAME'}}.",
        )
    if settings.cluster:
        _check_joined(written, settings, source)
    if settings.kwok_image and settings.kwok != "cluster":
        raise source.mistake(
            ("kind", "kwok_image"), "kwok runs on this machine", "Write kwok: cluster beside it, or leave it out."
        )
    if not settings.config:
        return settings
    try:
        file = resources.find(FOLDER, settings.config, base=source.folder(("kind", "config")))
    except DefinitionError as error:
        raise source.mistake(("kind", "config"), error.message, error.next_step) from None
    own(file)
    return msgspec.structs.replace(settings, config=str(file))


def _check_joined(written: ClusterDefinition, settings: Kind, source: Source) -> None:
    for name in ("image", "config"):
        if getattr(settings, name):
            raise source.mistake(
                ("kind", name), f"cluster {settings.cluster} is there already", f"Leave {name} or cluster out."
            )
    for section, default in _DEFAULTS.items():
        if getattr(written, section) != default:
            raise source.mistake(
                (section,),
                f"cluster {settings.cluster} is there already, and its control plane stays as it is",
                f"Leave {section} out (inherited: `{section}: null`), or `cluster`: then one is made with them.",
            )


def own(path: Path) -> dict[str, Any]:
    """Return a user's kind configuration. Raises DefinitionError if it contradicts the harness's own.

    kind itself validates the rest when it creates the cluster.
    """
    with readable(path):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    source = read(path)
    if not isinstance(content, dict) or content.get("kind") != "Cluster" or content.get("apiVersion") != API_VERSION:
        raise DefinitionError(
            f"{path}:1: is no kind configuration",
            next_step=f"It begins with kind: Cluster and apiVersion: {API_VERSION}.",
        )
    if "name" in content:
        raise source.mistake(
            ("name",), "the cluster is named as it is started", "Leave it out; see grovescale up --name."
        )
    for key in ("apiServerAddress", "apiServerPort"):
        if key in (content.get("networking") or {}):
            raise source.mistake(
                ("networking", key), "is chosen by the harness: a free port on loopback", "Leave it out."
            )
    _check_nodes(content.get("nodes"), source)
    _check_patches(content.get("kubeadmConfigPatches") or [], ("kubeadmConfigPatches",), source)
    for index, node in enumerate(content.get("nodes") or []):
        keys = ("nodes", index, "kubeadmConfigPatches")
        _check_patches(node.get("kubeadmConfigPatches") or [], keys, source)
    return content


def _check_nodes(nodes: Any, source: Source) -> None:
    if nodes is None:
        return
    if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
        raise source.mistake(("nodes",), "is no list of nodes")
    for index, node in enumerate(nodes):
        if "image" in node:
            keys = ("nodes", index, "image")
            raise source.mistake(keys, "belongs into the cluster definition", "Write there: kind: {image: NAME}.")
    planes = [index for index, node in enumerate(nodes) if node.get("role", "control-plane") == "control-plane"]
    if len(planes) != 1:
        raise source.mistake(
            ("nodes", planes[1]) if planes else ("nodes",),
            f"{len(planes)} control planes: there is to be one, whose audit log is read",
            "Leave the others out.",
        )
    for index, mount in enumerate(nodes[planes[0]].get("extraMounts") or []):
        inside = Path(str(mount.get("containerPath", "")))
        for taken in (IN_NODE, AUDIT_IN_NODE):
            if inside == Path(taken) or Path(taken) in inside.parents or inside in Path(taken).parents:
                place = ("nodes", planes[0], "extraMounts", index, "containerPath")
                raise source.mistake(place, f"lies over {taken}, which the harness mounts", "Mount it elsewhere.")


def _check_patches(patches: Any, keys: tuple[str | int, ...], source: Source) -> None:
    if not isinstance(patches, list) or not all(isinstance(patch, str) for patch in patches):
        raise source.mistake(keys, "is no list of texts")
    for index, text in enumerate(patches):
        try:
            with readable("the patch"):
                documents = [document for document in yaml.safe_load_all(text) if isinstance(document, dict)]
        except DefinitionError as error:
            raise source.mistake((*keys, index), f"is no YAML: {error.message}") from None
        for document in documents:
            if document.get("kind") == "InitConfiguration" and "patches" in document:
                raise source.mistake(
                    (*keys, index), "patches.directory is the harness's own", "Patch what it holds in another way."
                )
            for section, flag in _flags(document):
                if flag in _reserved(_SECTIONS[section]):
                    raise source.mistake(
                        (*keys, index), f"{section}.extraArgs: {flag} is set by the harness", _IN_DEFINITION
                    )


def _flags(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (section, flag) of a patch: kubeadm's older configuration versions use a mapping, the newer a list."""
    if document.get("kind") != "ClusterConfiguration":
        return
    for section in _SECTIONS:
        given = (document.get(section) or {}).get("extraArgs") or {}
        if isinstance(given, Mapping):
            yield from ((section, str(flag)) for flag in given)
        elif isinstance(given, Sequence):
            yield from ((section, str(argument.get("name"))) for argument in given if isinstance(argument, Mapping))


def _reserved(component: str) -> set[str]:
    return set(flags(_BARE)[component])


class KindCluster(msgspec.Struct, frozen=True, kw_only=True):
    """Input of a configuration."""

    name: str
    image: str
    addons: bool
    """Whether the image can start kube-proxy, CNI and DNS."""
    node_count: int
    """Number of simulated nodes; each needs a pod network as long as a controller assigns them."""
    files: Path
    """Folder of ``write_files``."""
    audit: Path
    """Folder of the audit log."""
    api_port: int
    """Port of the API on loopback."""
    metrics_ports: Mapping[str, int]
    """Component → port on loopback, for those of ``METRICS_PORTS``."""
    own: Mapping[str, Any]
    """The user's configuration, checked; empty where there is none."""


def configuration(given: KindCluster) -> str:
    """Return the configuration file (YAML). The user's network settings, nodes and patches stay unchanged."""
    nodes = [dict(node) for node in given.own.get("nodes") or [{"role": "control-plane"}]]
    merged = {
        **given.own,
        "kind": "Cluster",
        "apiVersion": API_VERSION,
        "name": given.name,
        "networking": _networking(given),
        "nodes": [_node(node, given) for node in nodes],
        # grovescale's patches first: where two patches set the same field, the later one applies.
        "kubeadmConfigPatches": [yaml.safe_dump(_init(given)), *(given.own.get("kubeadmConfigPatches") or [])],
    }
    return yaml.safe_dump(merged, sort_keys=False)


def _networking(given: KindCluster) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if given.node_count > _NODES_OF_DEFAULT_SUBNET:
        settings["podSubnet"] = _WIDE_SUBNET
    if not given.addons:
        settings |= {"disableDefaultCNI": True, "kubeProxyMode": "none"}
    return (
        settings
        | (given.own.get("networking") or {})
        | {"apiServerAddress": _LOOPBACK, "apiServerPort": given.api_port}
    )


def _node(node: dict[str, Any], given: KindCluster) -> dict[str, Any]:
    node = node | {"image": given.image}
    if node.get("role", "control-plane") != "control-plane":
        return node
    mounts = [
        {"hostPath": str(given.files), "containerPath": IN_NODE, "readOnly": True},
        {"hostPath": str(given.audit), "containerPath": AUDIT_IN_NODE},
    ]
    mappings = [
        {"containerPort": METRICS_PORTS[name], "hostPort": port, "listenAddress": _LOOPBACK}
        for name, port in given.metrics_ports.items()
    ]
    return node | {
        "extraMounts": [*(node.get("extraMounts") or []), *mounts],
        "extraPortMappings": [*(node.get("extraPortMappings") or []), *mappings],
    }


def _init(given: KindCluster) -> dict[str, Any]:
    patch: dict[str, Any] = {
        "kind": "InitConfiguration",
        "patches": {"directory": f"{IN_NODE}/{PATCHES}"},
    }
    if not given.addons:
        # This list replaces kind's own, which contains preflight only.
        patch["skipPhases"] = _SKIPPED
    return patch


def files_in_node(definition: ClusterDefinition) -> dict[str, str]:
    """Return the files in IN_NODE: path below it → content."""
    return {
        "audit-policy.yaml": yaml.safe_dump(AUDIT_POLICY),
        "scheduler.yaml": yaml.safe_dump(
            scheduler_configuration(definition, kubeconfig="/etc/kubernetes/scheduler.conf")
        ),
    } | {f"{PATCHES}/{name}": yaml.safe_dump(patch) for name, patch in _patches(definition).items()}


def flags(definition: ClusterDefinition) -> dict[str, dict[str, str]]:
    """Return the flags by component: grovescale's, then the definition's."""
    api, manager = definition.api_server, definition.controller_manager
    return {
        "kube-apiserver": {
            "audit-policy-file": f"{IN_NODE}/audit-policy.yaml",
            "audit-log-path": f"{AUDIT_IN_NODE}/{AUDIT_LOG}",
            "audit-log-maxsize": str(AUDIT_MAX_MB),
            "enable-priority-and-fairness": _flag(api.priority_and_fairness),
            "max-requests-inflight": str(api.max_requests_inflight),
            "max-mutating-requests-inflight": str(api.max_mutating_requests_inflight),
            **({"disable-admission-plugins": RESIZE} if definition.simulates_claims else {}),
            **api.extra_args,
        },
        "kube-controller-manager": {
            "kube-api-qps": str(manager.limits.qps),
            "kube-api-burst": str(manager.limits.burst),
            "concurrent-gc-syncs": str(manager.concurrent_gc_syncs),
            **({"controllers": _CONTROLLERS} if definition.simulates_claims else {}),
            **_ONE_OF_ITS_KIND,
            **_SERVING,
            **manager.extra_args,
        },
        "kube-scheduler": {
            "config": f"{IN_NODE}/scheduler.yaml",
            **_ONE_OF_ITS_KIND,
            **_SERVING,
            **definition.scheduler.extra_args,
        },
        "etcd": {
            # As on the local backend: its data is deleted at the end.
            "unsafe-no-fsync": "true",
            "quota-backend-bytes": "8589934592",
            # Serves metrics and health only; mapped to a port on this machine's loopback.
            "listen-metrics-urls": f"http://0.0.0.0:{METRICS_PORTS['etcd']}",
        },
    }


def _patches(definition: ClusterDefinition) -> dict[str, Any]:
    """Return the patches by file name; kubeadm reads target, type and order from the name."""
    patches: dict[str, Any] = {
        f"{component}0+json.yaml": [
            {"op": "add", "path": "/spec/containers/0/command/-", "value": f"--{flag}={value}"}
            for flag, value in given.items()
        ]
        for component, given in flags(definition).items()
    }
    patches["kube-apiserver1+strategic.yaml"] = _pod(
        "kube-apiserver",
        mounts=[(_FILES_VOLUME, IN_NODE, True), (_AUDIT_VOLUME, AUDIT_IN_NODE, False)],
        environment=api_server_environment(definition),
    )
    patches["kube-scheduler1+strategic.yaml"] = _pod(
        "kube-scheduler", mounts=[(_FILES_VOLUME, IN_NODE, True), (_PKI_VOLUME, _PKI, True)]
    )
    return patches


def _pod(component: str, *, mounts: list[tuple[str, str, bool]], environment: Mapping[str, str] = {}) -> dict[str, Any]:
    """Return a patch: hostPath folders (volume, path, read-only?), mounted at the same path, and variables."""
    container: dict[str, Any] = {
        "name": component,
        "volumeMounts": [{"name": name, "mountPath": path, "readOnly": only} for name, path, only in mounts],
    }
    if environment:
        container["env"] = [{"name": name, "value": value} for name, value in environment.items()]
    volumes = [{"name": name, "hostPath": {"path": path, "type": "Directory"}} for name, path, _ in mounts]
    return {"spec": {"containers": [container], "volumes": volumes}}


def _flag(on: bool) -> str:
    return "true" if on else "false"


def write_files(definition: ClusterDefinition, folder: Path) -> None:
    """Write the files into a folder of this machine, which is to be mounted at IN_NODE."""
    for path, content in files_in_node(definition).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content, encoding="utf-8")
