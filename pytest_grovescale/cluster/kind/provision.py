"""A kind cluster created, or attached to: its files, ports and credentials, and what undoes all that."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import yaml

from ...atomic_write import write_private
from ...errors import ClusterError, UsageError
from ...kube.access import Access, to_kubeconfig
from .. import pki, state, teardown_plan
from ..definition import Kind
from ..existing import cleanup
from ..launch import Plan
from . import configuration, container_engine, images, kind_command
from .container_engine import CLUSTER_LABEL, Engine, Mount

Progress = Callable[[str], None]

_NAME = re.compile(r"[a-z0-9.-]{1,49}")
"""kind's own rule, and short enough for a host name with the suffix ``-control-plane``."""

_ROLE_LABEL = "io.x-k8s.kind.role"
_MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"
_ASK_S = 30.0

ROLES = ("harness", "recorder", "kwok")
"""Roles with client certificates; these are their user names in the audit log."""

COMPONENTS = {
    "kube-apiserver": "system:apiserver",
    "kube-controller-manager": "system:kube-controller-manager",
    "kube-scheduler": "system:kube-scheduler",
}
"""Component → user name that kubeadm assigns. The controllers themselves are ServiceAccounts of kube-system."""

_PKI = "/etc/kubernetes/pki"


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """A kind cluster without nodes and objects of grovescale."""

    cluster: str
    """Name of the kind cluster."""
    container: str
    """Container of its control plane."""
    server: str
    """Address of the API on this machine's loopback."""
    audit_log: str
    """Audit log file on this machine; empty: none is readable."""
    image: str
    addons: bool
    """Whether it has kube-proxy and a DNS."""
    made: bool
    """Whether grovescale created it and deletes it at the end."""


def make(plan: Plan, engine: Engine, kind: str, ports: Mapping[str, int], progress: Progress) -> Ground:
    """Create the kind cluster of a plan and return it; the supervisor must run.

    ``kind``: its executable; ``ports``: of kube-apiserver and the metrics endpoints, on loopback.
    """
    definition = plan.definition
    settings = definition.kind or Kind()
    _demand_free(plan, engine)
    image = images.ensure(definition, engine, progress)
    files, audit = plan.folder / "node", plan.folder / "audit"
    configuration.write_files(definition, files)
    log = _open_log(audit)
    kind_cluster = configuration.KindCluster(
        name=plan.name,
        image=image.reference,
        addons=image.addons,
        node_count=definition.node_count,
        files=files,
        audit=audit,
        api_port=ports["kube-apiserver"],
        metrics_ports={name: port for name, port in ports.items() if name in configuration.METRICS_PORTS},
        own=configuration.own(Path(settings.config)) if settings.config else {},
    )
    if engine.cgroup_version == "1" and image.addons:
        progress(f"cluster {plan.name}: {engine.name} uses cgroup v1, which a kubelet of 1.35 or newer refuses")
    kind_command.plan_deletion(plan.folder, kind=kind, engine=engine, name=plan.name)
    progress(f"cluster {plan.name}: kind makes a node of {image.reference.partition('@')[0]} with {engine.name}")
    text = configuration.configuration(kind_cluster)
    kind_command.create(plan.folder, kind=kind, engine=engine, name=plan.name, configuration=text, progress=progress)
    return Ground(
        cluster=plan.name,
        container=f"{plan.name}-control-plane",
        server=f"https://127.0.0.1:{ports['kube-apiserver']}",
        audit_log=str(log),
        image=image.reference,
        addons=image.addons,
        made=True,
    )


def _demand_free(plan: Plan, engine: Engine) -> None:
    """Raise if a kind cluster of that name exists: the teardown would delete another user's cluster."""
    if not _NAME.fullmatch(plan.name):
        raise UsageError(
            f"{plan.name!r} cannot name a kind cluster",
            next_step="Use up to 49 lower case letters, digits, '-' and '.': grovescale up --name NAME.",
        )
    if ":" in str(plan.folder):
        raise UsageError(
            f"{plan.folder} cannot be mounted into a container: it has a colon in it",
            next_step="Choose another state folder: GROVESCALE_STATE_DIR.",
        )
    if container_engine.containers(engine, plan.name):
        raise ClusterError(
            f"there is a kind cluster {plan.name} already, which grovescale did not make",
            next_step=f"Choose another name; or use it: kind: {{cluster: {plan.name}}} in a cluster definition; "
            f"or delete it: kind delete cluster --name {plan.name}",
        )


def _open_log(folder: Path) -> Path:
    """Create the audit log before the API server, which opens an existing file: so it belongs to this user."""
    folder.mkdir(mode=0o700)
    log = folder / configuration.AUDIT_LOG
    log.touch(mode=0o600)
    return log


def join(cluster: str, engine: Engine, kind: str) -> Ground:
    """Return a kind cluster by its name. Raises ClusterError if there is none, or its node does not run."""
    container = _control_plane(cluster, engine)
    inspected = container_engine.inspect(engine, container)
    if not inspected.state.running:
        raise ClusterError(
            f"kind cluster {cluster}: container {container} does not run ({inspected.state.status})",
            next_step=f"Start it: {engine.name} start {container}",
        )
    manifest = yaml.safe_load(container_engine.read(engine, container, _MANIFEST))
    log = audit_log(manifest, inspected.mounts)
    return Ground(
        cluster=cluster,
        container=container,
        server=_server(cluster, engine, kind),
        audit_log=log if log and os.access(log, os.R_OK) else "",
        image=inspected.config.image,
        addons=_has_addons(engine, container),
        made=False,
    )


def removal(folder: Path) -> teardown_plan.Command:
    """Return the teardown command for a joined cluster: removes nodes, namespaces and noted objects."""
    return teardown_plan.Command(
        argv=[sys.executable, "-m", cleanup.__name__, str(folder)],
        env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(Path(__file__).parents[3])},
        log=str(folder / "logs" / "removal.log"),
        timeout_s=cleanup.TIMEOUT_S,
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
    listed = container_engine.call(
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
    kubeconfig = kind_command.call(kind, engine, "get", "kubeconfig", "--name", cluster, timeout_s=_ASK_S)
    return str(yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]["server"])


def _has_addons(engine: Engine, container: str) -> bool:
    listed = container_engine.call(
        engine, "exec", container, "crictl", "images", "--quiet", "registry.k8s.io/kube-proxy"
    )
    return bool(listed.strip())


class Authority(msgspec.Struct, frozen=True):
    """A cluster's certificate authority. ``key_pem`` is a secret: never stored."""

    cert_pem: str
    key_pem: str

    def __repr__(self) -> str:
        return "Authority(…)"


def authority(engine: Engine, container: str) -> Authority:
    """Return the certificate authority from the control plane's container, where kubeadm keeps it."""
    return Authority(
        container_engine.read(engine, container, f"{_PKI}/ca.crt"),
        container_engine.read(engine, container, f"{_PKI}/ca.key"),
    )


def write(folder: Path, *, name: str, server: str, by: Authority) -> dict[str, Access]:
    """Write certificates, kubeconfigs and credentials into the cluster's folder; return the access of each role."""
    try:
        pairs = {user: pki.client(user, ca_pem=by.cert_pem, ca_key_pem=by.key_pem) for user in ROLES}
    except (ValueError, TypeError) as error:
        raise ClusterError(
            f"cluster {name}: its certificate authority cannot be used: {error}",
            next_step="Use the backend existing with a kubeconfig of that cluster.",
        ) from error
    keys = folder / "pki"
    keys.mkdir(mode=0o700, exist_ok=True)
    write_private(keys / "ca.crt", by.cert_pem)
    accesses = {}
    for user, pair in pairs.items():
        write_private(keys / f"{user}.crt", pair.cert_pem)
        write_private(keys / f"{user}.key", pair.key_pem)
        accesses[user] = access(server, by, pair)
    for role in ("harness", "recorder"):
        state.write_access(folder, role, accesses[role])
    write_private(folder / "kubeconfig", to_kubeconfig(accesses["harness"], name=name))
    write_private(folder / "kwok.kubeconfig", to_kubeconfig(accesses["kwok"], name=name))
    return accesses


def access(server: str, by: Authority, pair: pki.Pair) -> Access:
    """Return the access with a client certificate."""
    return Access(server=server, ca_pem=by.cert_pem, client_cert_pem=pair.cert_pem, client_key_pem=pair.key_pem)
