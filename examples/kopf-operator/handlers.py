"""The operator of Teams: for each Team a ConfigMap with its members, and how many they are in its status."""

from __future__ import annotations

import os
from typing import Any

import kopf
import kubernetes
import prometheus_client

SYNCED = prometheus_client.Counter("teams_synced_total", "Teams whose ConfigMap was written.")


@kopf.on.startup()
def serve_metrics(**_: Any) -> None:
    """Serve /metrics where METRICS_PORT says so; log in to the API server as kopf does."""
    if port := os.environ.get("METRICS_PORT"):
        prometheus_client.start_http_server(int(port), addr="127.0.0.1")
    try:
        kubernetes.config.load_incluster_config()
    except kubernetes.config.ConfigException:
        kubernetes.config.load_kube_config()


@kopf.on.create("org.example.com", "v1", "teams")
@kopf.on.resume("org.example.com", "v1", "teams")
@kopf.on.update("org.example.com", "v1", "teams", field="spec")
def sync(spec: kopf.Spec, name: str, namespace: str, patch: kopf.Patch, **_: Any) -> None:
    """Write the ConfigMap of a Team, which owns it, and its status."""
    members = list(spec.get("members", []))
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"members": "\n".join(members)},
    }
    kopf.adopt(body)
    api = kubernetes.client.CoreV1Api()
    try:
        api.create_namespaced_config_map(namespace, body)
    except kubernetes.client.ApiException as error:
        if error.status != 409:  # it is there
            raise
        api.patch_namespaced_config_map(name, namespace, {"data": body["data"]})
    SYNCED.inc()
    patch.status["members"] = len(members)
