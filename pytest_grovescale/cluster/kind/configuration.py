"""The kind configuration of a cluster: checked, and merged with the user's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from ... import resources
from ...definitions import Source, read, readable
from ...errors import DefinitionError
from ..definition import ApiServer, ClusterDefinition, ControllerManager, Kind, Scheduler
from . import static_pods

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
                f"Leave {section} out, or `cluster`: then one is made with these limits.",
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
        for taken in (static_pods.IN_NODE, static_pods.AUDIT_IN_NODE):
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
    return set(static_pods.flags(_BARE)[component])


class KindCluster(msgspec.Struct, frozen=True, kw_only=True):
    """Input of a configuration."""

    name: str
    image: str
    addons: bool
    """Whether the image can start kube-proxy, CNI and DNS."""
    node_count: int
    """Number of simulated nodes; each needs a pod network as long as a controller assigns them."""
    files: Path
    """Folder of ``static_pods.write``."""
    audit: Path
    """Folder of the audit log."""
    api_port: int
    """Port of the API on loopback."""
    metrics_ports: Mapping[str, int]
    """Component → port on loopback, for those of ``static_pods.METRICS_PORTS``."""
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
        {"hostPath": str(given.files), "containerPath": static_pods.IN_NODE, "readOnly": True},
        {"hostPath": str(given.audit), "containerPath": static_pods.AUDIT_IN_NODE},
    ]
    mappings = [
        {"containerPort": static_pods.METRICS_PORTS[name], "hostPort": port, "listenAddress": _LOOPBACK}
        for name, port in given.metrics_ports.items()
    ]
    return node | {
        "extraMounts": [*(node.get("extraMounts") or []), *mounts],
        "extraPortMappings": [*(node.get("extraPortMappings") or []), *mappings],
    }


def _init(given: KindCluster) -> dict[str, Any]:
    patch: dict[str, Any] = {
        "kind": "InitConfiguration",
        "patches": {"directory": f"{static_pods.IN_NODE}/{static_pods.PATCHES}"},
    }
    if not given.addons:
        # This list replaces kind's own, which contains preflight only.
        patch["skipPhases"] = _SKIPPED
    return patch
