"""The proxy on the operator's way to the API server, for tests that ask for faults: its start, its settings, its end.

A process of the cluster's supervisor, as the operator is: it ends with the test processes that use it. The operator's
kubeconfig names it as the server, with a CA of its own; the operator's token passes through it.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from pathlib import Path

import msgspec

from .. import redaction
from ..atomic_write import write_private
from ..cluster import ports, processes
from ..cluster.handle import Cluster, ProcessSpec
from ..errors import ClusterError
from ..kube.access import Access
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.faults.proxy import Config
from ..kube.faults.settings import CONTROL_PATH, Faults
from ..kube.portal import Portal
from . import webhooks

PROCESS = "fault-proxy"
"""Name of its process in recordings."""

_READY_S = 20.0
_EVERY_S = 0.02


class FaultProxy(msgspec.Struct, frozen=True, kw_only=True):
    """A proxy that runs. Contains a secret."""

    server: str
    """Its URL."""
    ca_pem: str
    secret: str
    log: str

    def __repr__(self) -> str:
        return f"FaultProxy({self.server!r})"

    @property
    def access(self) -> Access:
        """The access of the operator, without credentials."""
        return Access(server=self.server, ca_pem=self.ca_pem)


def log_of(cluster: Cluster) -> Path:
    """Return the file with a line for each fault on a cluster; it may not exist yet."""
    return cluster.directory / "faults.jsonl"


def bring_up(cluster: Cluster, access: Access, *, folder: Path, directory: Path) -> FaultProxy:
    """Start the proxy to an API server, and return when it answers; all passes unchanged until faults are set.

    Its certificate and settings are in ``folder``, its log in ``directory``. Raises ClusterError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    certificate = webhooks.issue("127.0.0.1")
    webhooks.write(certificate, folder)
    (lease,) = ports.lease(1)
    secret = secrets.token_urlsafe(24)
    redaction.conceal(secret)
    proxy = FaultProxy(
        server=f"https://127.0.0.1:{lease.number}",
        ca_pem=certificate.ca_pem,
        secret=secret,
        log=str(directory / f"{PROCESS}.log"),
    )
    config = Config(
        # Whose requests these are, the operator says: no credentials but its own reach the API server.
        access=Access(
            server=access.server,
            ca_pem=access.ca_pem,
            tls_server_name=access.tls_server_name,
            insecure=access.insecure,
            proxy=access.proxy,
        ),
        port=lease.number,
        cert_file=str(folder / "tls.crt"),
        key_file=str(folder / "tls.key"),
        log=str(log_of(cluster)),
        secret=secret,
    )
    write_private(folder / "config.json", msgspec.json.encode(config).decode())
    module = "pytest_grovescale.kube.faults.proxy"
    spec = ProcessSpec(
        name=PROCESS,
        argv=[sys.executable, "-P", "-m", module, str(folder / "config.json")],
        cwd=str(Path(__file__).parents[2]),
        log=proxy.log,
        stop_grace_s=5,
    )
    spec = msgspec.structs.replace(spec, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": spec.cwd})
    try:
        cluster.start_process(spec)
        _wait_ready(cluster, proxy)
    finally:
        ports.release([lease])
    return proxy


def _wait_ready(cluster: Cluster, proxy: FaultProxy) -> None:
    with Portal() as portal:
        portal.run(_answers(cluster, proxy, portal.client(_control(proxy))))


async def _answers(cluster: Cluster, proxy: FaultProxy, client: Client) -> None:
    try:
        async with asyncio.timeout(_READY_S):
            while True:
                try:
                    await client.request("GET", CONTROL_PATH)
                    return
                except ApiError:
                    info = cluster.processes().get(PROCESS)
                    if info is None or not info.running:
                        raise _broken(proxy, processes.exit_text(info.exit_code if info else None)) from None
                await asyncio.sleep(_EVERY_S)
    except TimeoutError:
        raise _broken(proxy, f"does not answer {_READY_S:g} s after its start") from None


def _broken(proxy: FaultProxy, how: str) -> ClusterError:
    return ClusterError(f"the proxy for scale.faults {how}", next_step=f"See its log: {proxy.log}.")


def _control(proxy: FaultProxy) -> Access:
    return Access(server=proxy.server, ca_pem=proxy.ca_pem, token=proxy.secret)


def put_in_force(portal: Portal, proxy: FaultProxy, faults: Faults) -> None:
    """Replace the faults that are in force; they hold for each request from then on. Raises ClusterError."""
    client = portal.client(_control(proxy))
    try:
        portal.run(client.request("PUT", CONTROL_PATH, body=msgspec.json.encode(faults)))
    except ApiError as error:
        raise _broken(proxy, f"does not answer: {error.message}") from error
    finally:
        portal.run(client.close())
