"""The components of a local control plane: what each is started with, and in which order."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from ..errors import ClusterError
from ..kube.access import Access, to_kubeconfig
from ..kube.client import Client
from ..kube.errors import ApiError
from . import nodes, pki, processes, protocol, state
from .definition import ClusterDefinition
from .protocol import ProcessInfo, ProcessSpec, StartProcess

Progress = Callable[[str], None]

IDENTITIES = ("harness", "recorder", "kube-controller-manager", "kube-scheduler", "kwok")
"""Client certificates; user names in the audit log are these words."""

SERVER_IDENTITY = "system:apiserver"
"""The API server's user name for requests to itself."""

PORTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "etcd")
"""Who needs a port; etcd's is for its metrics alone, its clients use a Unix socket."""

_SERVICE_RANGE, _SERVICE_IP = "10.0.0.0/16", "10.0.0.1"
_POD_RANGE = "10.128.0.0/9"
_RANKS = {"etcd": 0, "kube-apiserver": 1}
_OTHERS_RANK = 2
# Data and history are thrown away at the end: nothing is won by a long goodbye.
_GRACE_S = 3.0
_START_S = 120.0
_EVERY_S = 0.02
_AUDIT_MAX_MB = 100_000

_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


class PortTaken(ClusterError):
    """Somebody else took a port between its choice and its use; another start, with other ports, may work."""


class Timings(msgspec.Struct, kw_only=True):
    """Seconds since the first process was started."""

    answering_s: float = 0.0
    """The API server has done its first write."""
    ready_s: float = 0.0
    """``/readyz`` says ok."""
    nodes_ready_s: float = 0.0
    all_s: float = 0.0
    """All of it, and each component listens on its own port."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What a control plane is started from."""

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
        pki.write_private(folder / "pki" / f"{user}.kubeconfig", text)
    shutil.copy(folder / "pki" / "harness.kubeconfig", folder / "kubeconfig")
    (folder / "audit-policy.yaml").write_text(yaml.safe_dump(_AUDIT_POLICY), encoding="utf-8")
    (folder / "scheduler.yaml").write_text(yaml.safe_dump(_scheduler_config(start)), encoding="utf-8")
    (folder / "kwok.yaml").write_text(_kwok_config(definition), encoding="utf-8")
    state.make_data_folder(folder)


def access(folder: Path, port: int, user: str) -> Access:
    """Return the access of one of IDENTITIES."""
    keys = folder / "pki"
    return Access(
        server=f"https://127.0.0.1:{port}",
        ca_pem=(keys / "ca.crt").read_text(),
        client_cert_pem=(keys / f"{user}.crt").read_text(),
        client_key_pem=(keys / f"{user}.key").read_text(),
    )


def specs(start: Start) -> dict[str, ProcessSpec]:
    """Return what to run, by component. Paths are relative to the cluster's folder, which is the working folder."""
    argv = {
        "etcd": _etcd(start),
        "kube-apiserver": _api_server(start),
        "kube-controller-manager": _controller_manager(start),
        "kube-scheduler": _scheduler(start),
        "kwok": _kwok(start),
    }
    return {
        name: ProcessSpec(
            name=name,
            argv=[str(start.binaries[name]), *arguments],
            env=_environment(name, start.definition),
            cwd=str(start.folder),
            log=str(start.folder / "logs" / f"{name}.log"),
            stop_grace_s=_GRACE_S,
            restart=True,
        )
        for name, arguments in argv.items()
    }


async def run(start: Start, progress: Progress) -> Timings:
    """Start all components through the supervisor and return when all nodes are Ready."""
    plan = specs(start)
    timings = Timings()
    began = time.monotonic()

    def begin(*names: str) -> None:
        for name in names:
            request = StartProcess(spec=plan[name], rank=_RANKS.get(name, _OTHERS_RANK))
            protocol.ask(start.folder, request)

    begin("etcd", "kube-apiserver")
    progress(f"cluster {start.name}: etcd and kube-apiserver started, waiting for the API")
    client_access = access(start.folder, start.ports["kube-apiserver"], "harness")
    async with Client(client_access, user_agent="grovescale-cluster") as client:
        watchdog = asyncio.create_task(_watch_processes(start, plan))
        try:
            await _first(watchdog, _bring_up(client, start, begin, timings, began, progress))
        finally:
            watchdog.cancel()
    return timings


async def _bring_up(
    client: Client,
    start: Start,
    begin: Callable[..., None],
    timings: Timings,
    began: float,
    progress: Progress,
) -> None:
    count = start.definition.node_count
    async with asyncio.timeout(_START_S):
        await _until_answering(client)
    timings.answering_s = time.monotonic() - began
    begin("kwok", "kube-scheduler", "kube-controller-manager")
    ready = asyncio.create_task(_until_ready(client, timings, began))
    try:
        await nodes.create(client, start.definition)
        progress(f"cluster {start.name}: {count} nodes created, waiting until they are Ready")
        await nodes.wait_ready(client, count, timeout_s=_START_S)
        timings.nodes_ready_s = time.monotonic() - began
        await ready
        async with asyncio.timeout(_START_S):
            await _until_listening(start)
        timings.all_s = time.monotonic() - began
    finally:
        ready.cancel()


async def _until_answering(client: Client) -> None:
    """Wait for the API server to list nodes: it does so before its own checks are all done."""
    while True:
        if await _succeeds(client, "/api/v1/nodes?limit=1"):
            return
        await asyncio.sleep(_EVERY_S)


async def _until_ready(client: Client, timings: Timings, began: float) -> None:
    async with asyncio.timeout(_START_S):
        while True:
            if await client.ready():
                break
            await asyncio.sleep(_EVERY_S)
    timings.ready_s = time.monotonic() - began


async def _until_listening(start: Start) -> None:
    """Wait until each component itself listens on its port: whoever answers there is the process just started."""
    left = set(PORTS)
    while left:
        listed = state.process_list(start.folder)
        left -= {name for name in left if name in listed and processes.listens(listed[name].pid, start.ports[name])}
        if left:
            await asyncio.sleep(_EVERY_S)


async def _succeeds(client: Client, path: str) -> bool:
    try:
        await client.request("GET", path, timeout=2.0)
    except ApiError:
        return False
    return True


async def _watch_processes(start: Start, plan: Mapping[str, ProcessSpec]) -> None:
    """Raise as soon as a component ends; during the start that is never right."""
    while True:
        for info in state.process_list(start.folder).values():
            if info.name in plan and (info.restarts or not info.running):
                raise _start_failed(info)
        await asyncio.sleep(0.1)


def _start_failed(info: ProcessInfo) -> ClusterError:
    log = Path(info.log).read_text(encoding="utf-8", errors="replace")
    if "address already in use" in log:
        return PortTaken(f"{info.name}: its port was taken by somebody else", next_step="Try again.")
    lines = "\n".join(f"  {line}" for line in log.splitlines()[-30:])
    return ClusterError(
        f"{info.name} ended while the cluster was starting; the end of its log:\n{lines}",
        next_step="If a flag is refused, see extra_args in the cluster definition and the Kubernetes version.",
    )


async def _first(watchdog: asyncio.Task[None], work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` to its end, unless the watchdog barks first."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({watchdog, task}, return_when=asyncio.FIRST_COMPLETED)
        if watchdog.done():
            watchdog.result()
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# ---- command lines


def _etcd(start: Start) -> list[str]:
    # Its clients come through a Unix socket in the cluster's folder: no port, and no other user of the machine.
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
    return [
        "--etcd-servers=unix://etcd:0",
        "--bind-address=127.0.0.1",
        # It ends at once on a machine without a default route unless it is told an address.
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--secure-port={start.ports['kube-apiserver']}",
        *_serving(),
        "--service-account-key-file=pki/sa.pub",
        "--service-account-signing-key-file=pki/sa.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--api-audiences=https://kubernetes.default.svc",
        "--authorization-mode=RBAC",
        # ServiceAccount would mount tokens into every pod; the other one would taint nodes that only the
        # node-lifecycle controller, which does not run here, ever frees again.
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        f"--service-cluster-ip-range={_SERVICE_RANGE}",
        "--audit-policy-file=audit-policy.yaml",
        "--audit-log-path=audit.log",
        f"--audit-log-maxsize={_AUDIT_MAX_MB}",
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
        f"--kube-api-qps={manager.limits.qps}",
        f"--kube-api-burst={manager.limits.burst}",
        f"--concurrent-gc-syncs={manager.concurrent_gc_syncs}",
        "--service-account-private-key-file=pki/sa.key",
        "--root-ca-file=pki/ca.crt",
        f"--controllers={','.join(manager.controllers)}",
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


def _kwok(start: Start) -> list[str]:
    kwok = start.definition.kwok
    return [
        "--kubeconfig=pki/kwok.kubeconfig",
        "--config=kwok.yaml",
        "--manage-all-nodes=true",
        "--node-ip=127.0.0.1",
        f"--cidr={_POD_RANGE}",
        f"--server-address=127.0.0.1:{start.ports['kwok']}",
        f"--node-lease-duration-seconds={kwok.lease_seconds}",
        *_extra(kwok.extra_args),
    ]


def _serving() -> list[str]:
    return ["--tls-cert-file=pki/server.crt", "--tls-private-key-file=pki/server.key", "--client-ca-file=pki/ca.crt"]


def _delegated(name: str) -> list[str]:
    # So that /metrics answers to those whom the API server lets in, and to client certificates at once.
    kubeconfig = f"pki/{name}.kubeconfig"
    return [
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-skip-lookup=true",
    ]


def _scheduler_config(start: Start) -> dict[str, Any]:
    limits = start.definition.scheduler.limits
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": "pki/kube-scheduler.kubeconfig",
            "qps": limits.qps,
            "burst": limits.burst,
        },
        "leaderElection": {"leaderElect": False},
    }


def _kwok_config(definition: ClusterDefinition) -> str:
    options = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "metadata": {"name": "kwok"},
        "options": {
            "manageAllNodes": True,
            "podPlayStageParallelism": definition.kwok.pod_parallelism,
            "nodePlayStageParallelism": definition.kwok.node_parallelism,
        },
    }
    stages = [Path(stage).read_text(encoding="utf-8") for stage in definition.stages]
    return "\n---\n".join([yaml.safe_dump(options), *stages])


def _environment(name: str, definition: ClusterDefinition) -> dict[str, str]:
    """Return a small environment: no proxy, no KUBECONFIG and no GO… of the user's reaches a component."""
    found = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
    if name == "kube-apiserver" and definition.api_server.gomaxprocs:
        found["GOMAXPROCS"] = str(definition.api_server.gomaxprocs)
    return found


def _extra(arguments: Mapping[str, str]) -> list[str]:
    return [f"--{flag}={value}" for flag, value in arguments.items()]


def _flag(on: bool) -> str:
    return "true" if on else "false"
