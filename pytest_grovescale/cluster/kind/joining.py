"""Joins an existing kind cluster, and removes only grovescale's objects from it at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from ...errors import ClusterError
from .. import at_end
from ..existing import remove
from . import command
from . import engine as engines
from .engine import CLUSTER_LABEL, Engine, Mount
from .ground import Ground

_ROLE_LABEL = "io.x-k8s.kind.role"
_MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"
_ASK_S = 30.0


def join(cluster: str, engine: Engine, kind: str) -> Ground:
    """Return a kind cluster by its name. Raises ClusterError if there is none, or its node does not run."""
    container = _control_plane(cluster, engine)
    found = engines.inspect(engine, container)
    if not found.state.running:
        raise ClusterError(
            f"kind cluster {cluster}: container {container} does not run ({found.state.status})",
            next_step=f"Start it: {engine.name} start {container}",
        )
    manifest = yaml.safe_load(engines.read(engine, container, _MANIFEST))
    log = audit_log(manifest, found.mounts)
    return Ground(
        cluster=cluster,
        container=container,
        server=_server(cluster, engine, kind),
        audit_log=log if log and os.access(log, os.R_OK) else "",
        image=found.config.image,
        addons=_has_addons(engine, container),
        made=False,
    )


def removal(folder: Path) -> at_end.Command:
    """Return the teardown command for a joined cluster: removes nodes, namespaces and noted objects."""
    return at_end.Command(
        argv=[sys.executable, "-m", remove.__name__, str(folder)],
        env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(Path(__file__).parents[3])},
        log=str(folder / "logs" / "removal.log"),
        timeout_s=remove.TIMEOUT_S,
    )


def audit_log(manifest: Mapping[str, Any], mounts: Iterable[Mount]) -> str:
    """Return the path of the API server's audit log on this machine; empty: none, or one inside the node only.

    Follows the API server's pod (its flag, its volumes) to the node, and the node's mounts to this machine.
    """
    container = manifest["spec"]["containers"][0]
    given = [flag.partition("=") for flag in container["command"]]
    paths = [value for flag, _, value in given if flag == "--audit-log-path" and value not in ("", "-")]
    if not paths:
        return ""
    volumes = {v["name"]: v["hostPath"]["path"] for v in manifest["spec"].get("volumes") or [] if "hostPath" in v}
    in_pod = {m["mountPath"]: volumes[m["name"]] for m in container.get("volumeMounts") or [] if m["name"] in volumes}
    in_node = _behind(paths[-1], in_pod)
    return _behind(in_node, {m.destination: m.source for m in mounts if m.type == "bind"}) if in_node else ""


def _behind(path: str, mounted: Mapping[str, str]) -> str:
    """Return the path on the other side of the innermost mount that contains a path; empty: in no mount."""
    for inside in sorted(mounted, key=len, reverse=True):
        if PurePosixPath(path).is_relative_to(inside):
            return str(Path(mounted[inside]) / PurePosixPath(path).relative_to(inside))
    return ""


def _control_plane(cluster: str, engine: Engine) -> str:
    listed = engines.call(
        engine,
        *("ps", "-a", "--filter", f"label={CLUSTER_LABEL}={cluster}", "--filter", f"label={_ROLE_LABEL}=control-plane"),
        *("--format", "{{.Names}}"),
    )
    names = sorted(listed.split())
    if not names:
        raise ClusterError(
            f"there is no kind cluster {cluster} in {engine.name}",
            next_step="See: kind get clusters; or leave `cluster` out of the definition, and one is made.",
        )
    if len(names) > 1:
        raise ClusterError(
            f"kind cluster {cluster} has {len(names)} control planes, whose audit logs cannot be read as one",
            next_step="Use the backend existing with its kubeconfig: it does without an audit log.",
        )
    return names[0]


def _server(cluster: str, engine: Engine, kind: str) -> str:
    told = command.call(kind, engine, "get", "kubeconfig", "--name", cluster, timeout_s=_ASK_S)
    return str(yaml.safe_load(told)["clusters"][0]["cluster"]["server"])


def _has_addons(engine: Engine, container: str) -> bool:
    listed = engines.call(engine, "exec", container, "crictl", "images", "--quiet", "registry.k8s.io/kube-proxy")
    return bool(listed.strip())
