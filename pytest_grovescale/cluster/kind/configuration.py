"""kind configuration of a new cluster: grovescale's own, merged with the user's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from . import static_pods

API_VERSION = "kind.x-k8s.io/v1alpha4"

_NODES_OF_DEFAULT_SUBNET = 250
"""kind's default pod network is a /16, and each node gets a /24 of it."""

_WIDE_SUBNET = "10.192.0.0/10"
_SKIPPED = ["preflight", "addon/kube-proxy", "addon/coredns"]
_LOOPBACK = "127.0.0.1"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
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


def configuration(wanted: Wanted) -> str:
    """Return the configuration file (YAML). The user's network settings, nodes and patches stay unchanged."""
    nodes = [dict(node) for node in wanted.own.get("nodes") or [{"role": "control-plane"}]]
    merged = {
        **wanted.own,
        "kind": "Cluster",
        "apiVersion": API_VERSION,
        "name": wanted.name,
        "networking": _networking(wanted),
        "nodes": [_node(node, wanted) for node in nodes],
        # grovescale's patches first: where two patches set the same field, the later one applies.
        "kubeadmConfigPatches": [yaml.safe_dump(_init(wanted)), *(wanted.own.get("kubeadmConfigPatches") or [])],
    }
    return yaml.safe_dump(merged, sort_keys=False)


def _networking(wanted: Wanted) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if wanted.node_count > _NODES_OF_DEFAULT_SUBNET:
        found["podSubnet"] = _WIDE_SUBNET
    if not wanted.addons:
        found |= {"disableDefaultCNI": True, "kubeProxyMode": "none"}
    return (
        found | (wanted.own.get("networking") or {}) | {"apiServerAddress": _LOOPBACK, "apiServerPort": wanted.api_port}
    )


def _node(node: dict[str, Any], wanted: Wanted) -> dict[str, Any]:
    node = node | {"image": wanted.image}
    if node.get("role", "control-plane") != "control-plane":
        return node
    mounts = [
        {"hostPath": str(wanted.files), "containerPath": static_pods.IN_NODE, "readOnly": True},
        {"hostPath": str(wanted.audit), "containerPath": static_pods.AUDIT_IN_NODE},
    ]
    mappings = [
        {"containerPort": static_pods.METRICS_PORTS[name], "hostPort": port, "listenAddress": _LOOPBACK}
        for name, port in wanted.metrics_ports.items()
    ]
    return node | {
        "extraMounts": [*(node.get("extraMounts") or []), *mounts],
        "extraPortMappings": [*(node.get("extraPortMappings") or []), *mappings],
    }


def _init(wanted: Wanted) -> dict[str, Any]:
    patch: dict[str, Any] = {
        "kind": "InitConfiguration",
        "patches": {"directory": f"{static_pods.IN_NODE}/{static_pods.PATCHES}"},
    }
    if not wanted.addons:
        # This list replaces kind's own, which contains preflight only.
        patch["skipPhases"] = _SKIPPED
    return patch
