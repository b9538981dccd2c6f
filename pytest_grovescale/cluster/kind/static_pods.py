"""Changes to the control plane that kubeadm starts: files that exist in the node before kubeadm runs.

All changes use kubeadm's patches of its static pods, not ``extraArgs``: those are a mapping in one version of its
configuration and a list in the next, and they are left to the user. Flags are appended, and the last of repeated flags
applies; volumes and variables are merged by name.

Source: https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/control-plane-flags/ (patches directory).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ..component_config import AUDIT_MAX_MB, AUDIT_POLICY
from ..definition import ClusterDefinition

IN_NODE = "/etc/grovescale"
"""Mount point of the folder of these files in the node, read-only."""

AUDIT_IN_NODE = "/var/log/grovescale"
"""Mount point of the audit log's folder in the node."""

AUDIT_LOG = "audit.log"
PATCHES = "patches"

METRICS_PORTS = {"kube-controller-manager": 10257, "kube-scheduler": 10259, "etcd": 2381}
"""Metrics ports in the node."""

_PKI = "/etc/kubernetes/pki"
_FILES_VOLUME, _AUDIT_VOLUME, _PKI_VOLUME = "grovescale", "grovescale-audit", "grovescale-pki"

# One replica each: no Lease to renew every two seconds, and none to expire after a restart of the node.
_ONE_OF_ITS_KIND = {"leader-elect": "false"}

# Makes its metrics readable from this machine with mutual TLS by the cluster's authority: by default it listens on the
# node's loopback with a self-signed certificate.
_SERVING = {
    "bind-address": "0.0.0.0",
    "tls-cert-file": f"{_PKI}/apiserver.crt",
    "tls-private-key-file": f"{_PKI}/apiserver.key",
}


def files(definition: ClusterDefinition) -> dict[str, str]:
    """Return the files in IN_NODE: path below it → content."""
    return {
        "audit-policy.yaml": yaml.safe_dump(AUDIT_POLICY),
        "scheduler.yaml": yaml.safe_dump(_scheduler_config(definition)),
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
            **api.extra_args,
        },
        "kube-controller-manager": {
            "kube-api-qps": str(manager.limits.qps),
            "kube-api-burst": str(manager.limits.burst),
            "concurrent-gc-syncs": str(manager.concurrent_gc_syncs),
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
        environment=_environment(definition),
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


def _environment(definition: ClusterDefinition) -> dict[str, str]:
    api = definition.api_server
    return {name: str(value) for name, value in (("GOMAXPROCS", api.gomaxprocs), ("GOGC", api.gogc)) if value}


def _scheduler_config(definition: ClusterDefinition) -> dict[str, Any]:
    limits = definition.scheduler.limits
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": "/etc/kubernetes/scheduler.conf",
            "qps": limits.qps,
            "burst": limits.burst,
        },
        "leaderElection": {"leaderElect": False},
    }


def _flag(on: bool) -> str:
    return "true" if on else "false"


def write(definition: ClusterDefinition, folder: Path) -> None:
    """Write the files into a folder of this machine, which is to be mounted at IN_NODE."""
    for path, content in files(definition).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content, encoding="utf-8")
