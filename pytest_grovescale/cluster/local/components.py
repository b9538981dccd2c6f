"""The components of a local control plane: command lines, files, and metrics endpoints."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec
import yaml

from ...atomic_write import write_private
from ...endpoints import Address
from ...kube.access import Access, to_kubeconfig
from .. import kwok, pki, state
from ..definition import ClusterDefinition
from ..launch import AUDIT_MAX_MB, AUDIT_POLICY, RESIZE, api_server_environment, scheduler_configuration
from ..processes import ProcessSpec

IDENTITIES = ("harness", "recorder", "kube-controller-manager", "kube-scheduler", "kwok")
"""Users with client certificates; these are their user names in the audit log."""

SERVER_IDENTITY = "system:apiserver"
"""The API server's user name for requests to itself."""

PORTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "etcd")
"""Components that need a port; etcd's is for its metrics only, its clients use a Unix socket."""

_AUTHENTICATING = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
_OPEN = ("kwok", "etcd")
"""Components whose ``/metrics`` requires no client certificate."""

_SERVICE_RANGE, _SERVICE_IP = "10.0.0.0/16", "10.0.0.1"
# Data and history are deleted at the end: a graceful shutdown saves nothing. The API server's would take 1.1 s; it
# writes the audit log before it answers each request.
_GRACE_S = 3.0
_GRACES_S = {"kube-apiserver": 0.4}


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Input of a control plane's start."""

    name: str
    folder: Path
    definition: ClusterDefinition
    binaries: Mapping[str, Path]
    ports: Mapping[str, int]


def write_files(start: Start) -> None:
    """Write keys, kubeconfigs and configuration files into the cluster's folder."""
    folder, definition = start.folder, start.definition
    (folder / "logs").mkdir(exist_ok=True)
    made = pki.create(IDENTITIES, service_ip=_SERVICE_IP)
    pki.write(made, folder / "pki")
    for user in IDENTITIES:
        text = to_kubeconfig(access(folder, start.ports["kube-apiserver"], user), name=start.name)
        write_private(folder / "pki" / f"{user}.kubeconfig", text)
    for role in ("harness", "recorder"):
        state.write_access(folder, role, access(folder, start.ports["kube-apiserver"], role))
    shutil.copy(folder / "pki" / "harness.kubeconfig", folder / "kubeconfig")
    (folder / "audit-policy.yaml").write_text(yaml.safe_dump(AUDIT_POLICY), encoding="utf-8")
    scheduler = scheduler_configuration(definition, kubeconfig="pki/kube-scheduler.kubeconfig")
    (folder / "scheduler.yaml").write_text(yaml.safe_dump(scheduler), encoding="utf-8")
    (folder / kwok.CONFIGURATION).write_text(kwok.configuration(definition), encoding="utf-8")


def access(folder: Path, port: int, user: str) -> Access:
    """Return the access of one of IDENTITIES."""
    keys = folder / "pki"
    return Access(
        server=f"https://127.0.0.1:{port}",
        ca_pem=(keys / "ca.crt").read_text(),
        client_cert_pem=(keys / f"{user}.crt").read_text(),
        client_key_pem=(keys / f"{user}.key").read_text(),
    )


def metrics_endpoints(start: Start) -> dict[str, Address]:
    """Return the metrics endpoint of each component.

    A client certificate of ``system:masters`` is accepted by the component itself: a scrape costs the API server no
    TokenReview and no SubjectAccessReview. etcd and kwok require no credentials; they listen on loopback, and etcd's
    listener serves nothing else.
    """
    keys = start.folder / "pki"
    return {
        name: Address(
            url=f"https://127.0.0.1:{start.ports[name]}/metrics",
            ca_file=str(keys / "ca.crt"),
            cert_file=str(keys / "recorder.crt"),
            key_file=str(keys / "recorder.key"),
        )
        for name in _AUTHENTICATING
    } | {name: Address(url=f"http://127.0.0.1:{start.ports[name]}/metrics") for name in _OPEN}


def specs(start: Start) -> dict[str, ProcessSpec]:
    """Return the processes to run, by component. Paths are relative to the working folder, the cluster's."""
    argv = {
        "etcd": _etcd(start),
        "kube-apiserver": _api_server(start),
        "kube-controller-manager": _controller_manager(start),
        "kube-scheduler": _scheduler(start),
        "kwok": kwok.arguments(
            start.definition.kwok,
            kubeconfig="pki/kwok.kubeconfig",
            port=start.ports["kwok"],
            nodes=kwok.ALL_NODES,
        ),
    }
    return {
        name: ProcessSpec(
            name=name,
            argv=[str(start.binaries[name]), *arguments],
            env=_environment(name, start.definition),
            cwd=str(start.folder),
            log=str(start.folder / "logs" / f"{name}.log"),
            stop_grace_s=_GRACES_S.get(name, _GRACE_S),
            restart=True,
        )
        for name, arguments in argv.items()
    }


def _etcd(start: Start) -> list[str]:
    # Its clients use a Unix socket in the cluster's folder: no port, and no access for other users of the machine.
    metrics = f"http://127.0.0.1:{start.ports['etcd']}"
    return [
        "--unsafe-no-fsync",
        "--data-dir=data/etcd",
        "--listen-client-urls=unix://etcd:0",
        "--advertise-client-urls=unix://etcd:0",
        "--listen-peer-urls=unix://etcd-peer:0",
        "--initial-advertise-peer-urls=unix://etcd-peer:0",
        "--initial-cluster=default=unix://etcd-peer:0",
        f"--listen-metrics-urls={metrics}",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
    ]


def _api_server(start: Start) -> list[str]:
    api = start.definition.api_server
    resize = [RESIZE] if start.definition.simulates_claims else []
    return [
        "--etcd-servers=unix://etcd:0",
        "--bind-address=127.0.0.1",
        # Without an address it exits at once on a machine without a default route.
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--secure-port={start.ports['kube-apiserver']}",
        *_serving(),
        "--service-account-key-file=pki/sa.pub",
        "--service-account-signing-key-file=pki/sa.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--api-audiences=https://kubernetes.default.svc",
        "--authorization-mode=RBAC",
        # ServiceAccount would mount tokens into every pod; TaintNodesByCondition would taint nodes, and only the
        # node-lifecycle controller, which does not run here, removes such taints.
        f"--disable-admission-plugins={','.join(['ServiceAccount', 'TaintNodesByCondition', *resize])}",
        f"--service-cluster-ip-range={_SERVICE_RANGE}",
        "--audit-policy-file=audit-policy.yaml",
        "--audit-log-path=audit.log",
        f"--audit-log-maxsize={AUDIT_MAX_MB}",
        f"--enable-priority-and-fairness={_flag(api.priority_and_fairness)}",
        f"--max-requests-inflight={api.max_requests_inflight}",
        f"--max-mutating-requests-inflight={api.max_mutating_requests_inflight}",
        *_extra(api.extra_args),
    ]


def _controller_manager(start: Start) -> list[str]:
    manager = start.definition.controller_manager
    return [
        "--kubeconfig=pki/kube-controller-manager.kubeconfig",
        "--leader-elect=false",
        # Each controller is a user of its own in the audit log, as on a cluster that kubeadm made.
        "--use-service-account-credentials=true",
        f"--kube-api-qps={manager.limits.qps}",
        f"--kube-api-burst={manager.limits.burst}",
        f"--concurrent-gc-syncs={manager.concurrent_gc_syncs}",
        "--service-account-private-key-file=pki/sa.key",
        "--root-ca-file=pki/ca.crt",
        f"--controllers={','.join(manager.controllers)}",
        # The volume controllers create this folder, by default in /usr/libexec.
        "--flex-volume-plugin-dir=flex-volume",
        "--bind-address=127.0.0.1",
        f"--secure-port={start.ports['kube-controller-manager']}",
        *_serving(),
        *_delegated("kube-controller-manager"),
        *_extra(manager.extra_args),
    ]


def _scheduler(start: Start) -> list[str]:
    return [
        "--config=scheduler.yaml",
        "--bind-address=127.0.0.1",
        f"--secure-port={start.ports['kube-scheduler']}",
        *_serving(),
        *_delegated("kube-scheduler"),
        *_extra(start.definition.scheduler.extra_args),
    ]


def _serving() -> list[str]:
    return ["--tls-cert-file=pki/server.crt", "--tls-private-key-file=pki/server.key", "--client-ca-file=pki/ca.crt"]


def _delegated(name: str) -> list[str]:
    # Clients that the API server authorizes, and client certificates, can read /metrics.
    kubeconfig = f"pki/{name}.kubeconfig"
    return [
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-skip-lookup=true",
    ]


def _environment(name: str, definition: ClusterDefinition) -> dict[str, str]:
    """Return a minimal environment: the user's proxies, KUBECONFIG and GO… variables do not reach a component."""
    variables = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
    return variables | (api_server_environment(definition) if name == "kube-apiserver" else {})


def _extra(arguments: Mapping[str, str]) -> list[str]:
    return [f"--{flag}={value}" for flag, value in arguments.items()]


def _flag(on: bool) -> str:
    return "true" if on else "false"
