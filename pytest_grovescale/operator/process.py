"""The operator under test as a process: started as its own identity, watched until ready, stopped, restarted.

The cluster's supervisor owns the process, so that it ends with the lease of whoever started it, whatever becomes of
the test process.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from .. import durations
from ..cluster import binaries, ports
from ..cluster.handle import Cluster, ProcessInfo, ProcessSpec
from ..cluster.protocol import SupervisorGone
from ..errors import OperatorError
from ..kube.client import Client
from ..kube.portal import Portal
from ..sizes import memory_bytes
from . import certificates, command, identity, installed, manifests, webhooks
from .limits import core_numbers
from .manifests import Manifest, Object
from .placeholders import BINARIES
from .readiness import NotReady, answers, exit_text, listens, stranger, wait_until
from .running import PROCESS, Hold, Running, known, state_file, transition
from .running import write as write_state
from .shape import OperatorDefinition, texts

__all__ = ["PROCESS", "Operator", "Others", "join", "start"]

_TAIL_LINES = 30
_EXIT_CODE_S = 2.0
_TAIL_BYTES = 256 * 1024

Others = Literal["refuse", "share", "replace"]
Progress = Callable[[str], None]


class Operator:
    """One operator under test, running on a cluster."""

    def __init__(self, cluster: Cluster, running: Running, hold: Hold, leases: list[ports.PortLease]) -> None:
        self.definition = running.definition
        self.name = running.definition.name
        self.identity = running.definition.user
        self.trigger = running.definition.trigger.annotation if running.definition.trigger else ""
        self.trigger_label = running.definition.trigger.label if running.definition.trigger else ""
        self.trigger_kind = running.definition.trigger.kind if running.definition.trigger else ""
        self.metrics = running.launch.metrics
        metrics = running.definition.metrics
        interval = metrics.interval if metrics is not None else None
        self.scrape_interval_s = None if interval is None else durations.seconds(interval)
        """What its definition says of the time between two scrapes, s; None: nothing."""
        self.pprof = running.launch.pprof
        self.stacks = running.launch.stacks
        self.process = running.spec.name
        self.log = Path(running.log)
        self._cluster = cluster
        self._running = running
        self._hold = hold
        self._leases = leases

    def info(self) -> ProcessInfo | None:
        """Return the process, or None when the supervisor no longer knows it."""
        return self._cluster.processes().get(self.process)

    def alive(self) -> bool:
        """Whether the process runs."""
        info = self.info()
        return info is not None and info.running

    def describe_exit(self) -> str:
        """Return how it ended: ``exited with code 3``.

        Others see a process end before its parent, the supervisor, has its exit code: that is waited for.
        """
        deadline = time.monotonic() + _EXIT_CODE_S
        while (info := self.info()) is not None and info.running and time.monotonic() < deadline:
            time.sleep(0.02)
        return exit_text(info.exit_code if info else None)

    def check(self) -> None:
        """Raise OperatorError with its last log lines when the process is no longer alive."""
        if not self.alive():
            raise _died(self._running, self.info(), "while it was needed")

    def tail(self, lines: int = _TAIL_LINES) -> list[str]:
        """Return the last lines of its output, without its token should it have printed it."""
        return identity.redacted(_tail(self.log, lines), Path(self._running.folder))

    def restart(self, progress: Progress = lambda text: None) -> None:
        """Stop it and start it again: same ports, same identity, a fresh token. Returns when it is ready."""
        self._cluster.stop_process(self.process)
        with Portal() as portal:
            client = portal.client(self._cluster.access_as("harness"))
            access = self._cluster.access_as("harness")
            folder = Path(self._running.folder)
            portal.run(identity.write_credentials(client, self.definition, access, folder))
        _start_and_wait(self._cluster, self._running, progress)

    def stop(self) -> None:
        """Stop the process and take its webhooks and credentials away, unless others share it. Idempotent.

        CRDs, RBAC and identity stay for the next start; ``uninstall`` takes them out.
        """
        if self._hold.released:
            return
        with transition(self._cluster):
            if self._hold.release():
                _stop(self._cluster, self._running)
        ports.release(self._leases)

    def uninstall(self) -> None:
        """After ``stop``: remove what starts of this operator put into the cluster, CRDs included.

        With a CRD go all its objects: remove workloads first, while the operator lives.
        """
        with Portal() as portal:
            client = portal.client(self._cluster.access_as("harness"))
            portal.run(installed.remove(client, self._running.ours))


def start(
    definition: OperatorDefinition,
    cluster: Cluster,
    *,
    directory: Path,
    progress: Progress,
    others: Others = "refuse",
) -> Operator:
    """Start an operator on a cluster and return when it is ready.

    Applies CRDs (and waits until they are served), manifests, identity and RBAC; starts the process; waits for its
    readiness URL; puts its webhooks in force. Its log lands in ``directory``; its credentials in the cluster's own
    folder, so that they never travel with reports. ``others`` says what to do with one that runs already: refuse
    with an error, share it if it is the same definition with the same values, or replace it (for callers that have
    the cluster for themselves). Raises OperatorError; what was begun is undone.
    """
    with transition(cluster):
        running = known(cluster)
        if running is not None and not _is_alive(cluster, running):
            _stop(cluster, running)
            running = None
        if running is not None:
            if others == "share" and _same(running.definition, definition):
                progress(f"operator {definition.name}: shared with pid {running.pid}")
                return Operator(cluster, running, Hold(cluster), [])
            if others != "replace":
                raise OperatorError(
                    f"cluster {cluster.name} already runs the operator {running.definition.name} (started by pid "
                    f"{running.pid}); a second one would reconcile the same objects",
                    next_step="Wait until that run is over, or use a cluster of its own.",
                )
            _stop(cluster, running)
        return _start(definition, cluster, directory, progress)


def join(cluster: Cluster) -> Operator | None:
    """Return the operator that runs on a cluster, whoever started it; None when there is none."""
    with transition(cluster):
        running = known(cluster)
        if running is None or not _is_alive(cluster, running):
            return None
        return Operator(cluster, running, Hold(cluster), [])


def _start(definition: OperatorDefinition, cluster: Cluster, directory: Path, progress: Progress) -> Operator:
    # Outermost first: whatever fails, what was begun before it is undone, last first.
    with contextlib.ExitStack() as undo, Portal() as portal:
        access = cluster.access_as("harness")
        client = portal.client(access)
        folder = cluster.directory / PROCESS
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        used = command.ports_used(definition)
        leases = ports.lease(len(used))
        undo.callback(ports.release, leases)
        crds = manifests.read(definition.crds)
        ours = portal.run(_prepare(client, definition, crds, progress))
        kubeconfig = portal.run(identity.write_credentials(client, definition, access, folder))
        numbers = {name: str(lease.number) for name, lease in zip(used, leases, strict=True)}
        provided = {
            **numbers,
            **_binaries(definition, cluster, progress),
            "kubeconfig": str(kubeconfig),
            "token_file": str(folder / "token"),
            "cert_dir": str(folder / "certs"),
            "directory": str(folder),
            "namespace": definition.identity.namespace,
            "python": sys.executable,
        }
        configurations = _webhooks(definition, provided, folder / "certs")
        running = _running(definition, provided, _new_log(directory), folder, ours, configurations)
        undo.callback(_stop, cluster, running)
        write_state(cluster, running)
        command.write_files(running.launch, folder)
        _start_and_wait(cluster, running, progress)
        # Last: most of that time has gone by while the operator started.
        portal.run(installed.wait_settled(client, [crd.object for crd in crds]))
        portal.run(webhooks.activate(client, configurations, namespace=definition.identity.namespace))
        undo.pop_all()
        return Operator(cluster, running, Hold(cluster), leases)


async def _prepare(
    client: Client, definition: OperatorDefinition, crds: list[Manifest], progress: Progress
) -> list[Object]:
    """Put CRDs, manifests and identity into the cluster; return what is ours."""
    ours = await installed.install(client, crds, operator=definition.name, progress=progress)
    await installed.wait_established(client, [crd.object for crd in crds])
    ours += await identity.establish(client, definition, progress=progress)
    others = manifests.read(definition.manifests)
    ours += await installed.install(client, others, operator=definition.name, progress=progress)
    return ours


def _binaries(definition: OperatorDefinition, cluster: Cluster, progress: Progress) -> dict[str, str]:
    """Return the placeholders of the Kubernetes binaries that a definition uses, filled."""
    used = command.binaries_used(definition)
    found = binaries.find(used, cluster.kubernetes, given=cluster.binaries, progress=progress)
    return {placeholder: found[name].path for placeholder, name in BINARIES.items() if name in found}


def _webhooks(definition: OperatorDefinition, provided: dict[str, str], folder: Path) -> list[Manifest]:
    """Write the webhook server's certificate where one is asked for, and return the configurations that trust it."""
    asked = any("{cert_dir}" in text for text in texts(definition).values())
    if not definition.webhooks and not asked:
        return []
    certificate = certificates.issue("127.0.0.1")
    certificates.write(certificate, folder)
    ca_bundle = base64.b64encode(certificate.ca_pem.encode()).decode()
    return [
        Manifest(installed.labelled(found.object, definition.name), found.source)
        for found in (
            webhooks.local(manifest, provided, ca_bundle=ca_bundle) for manifest in manifests.read(definition.webhooks)
        )
    ]


def _running(
    definition: OperatorDefinition,
    provided: dict[str, str],
    log: Path,
    folder: Path,
    ours: list[Object],
    configurations: list[Manifest],
) -> Running:
    launch = command.launch(definition, provided, environ=os.environ)
    spec = ProcessSpec(
        name=PROCESS,
        argv=launch.argv,
        env=launch.env,
        cwd=launch.workdir,
        log=str(log),
        stop_grace_s=durations.seconds(definition.stop_grace),
        cores=core_numbers(definition.limits.cores),
        memory_bytes=memory_bytes(definition.limits.memory),
    )
    return Running(
        definition=definition,
        spec=spec,
        launch=launch,
        provided=provided,
        log=str(log),
        folder=str(folder),
        ours=ours,
        configurations=[manifest.object for manifest in configurations],
        pid=os.getpid(),
    )


def _start_and_wait(cluster: Cluster, running: Running, progress: Progress) -> None:
    definition = running.definition
    started = time.monotonic()
    progress(f"operator {definition.name}: starting")
    first = cluster.start_process(running.spec)

    def info() -> ProcessInfo | None:
        return cluster.processes().get(running.spec.name)

    def alive() -> bool:
        now = info()
        return now is not None and now.running and now.pid == first.pid

    def dead() -> OperatorError:
        return _died(running, info(), f"{time.monotonic() - started:.1f} s after its start, before it was ready")

    def ready() -> str:
        address = running.launch.readiness
        return answers(address) or stranger(address.url, first.pid)

    def serves_webhooks() -> str:
        return listens(int(running.provided["webhook_port"])) if running.configurations else ""

    timeout = durations.seconds(definition.readiness.timeout)
    try:
        wait_until(ready, alive=alive, timeout=timeout, dead=dead)
        wait_until(serves_webhooks, alive=alive, timeout=timeout, dead=dead)
    except NotReady as error:
        raise OperatorError(
            f"operator {definition.name} was not ready after {durations.text(timeout)}: {error.message}"
            + _tail_text(running),
            next_step="Raise readiness.timeout in its definition, or see its log above for what it waits for.",
        ) from None
    progress(f"operator {definition.name}: ready after {time.monotonic() - started:.1f} s")


def _died(running: Running, info: ProcessInfo | None, when: str) -> OperatorError:
    return OperatorError(
        f"operator {running.definition.name} {exit_text(info.exit_code if info else None)} {when}"
        + _tail_text(running),
        next_step=f"Its whole log: {running.log}. It was started as: {running.launch.text}",
    )


def _tail_text(running: Running) -> str:
    lines = identity.redacted(_tail(Path(running.log), _TAIL_LINES), Path(running.folder))
    if not lines:
        return "\nits log is empty"
    return "\n".join(["", f"last {len(lines)} lines of its log:", *(f"  {line}" for line in lines)])


def _tail(log: Path, lines: int) -> list[str]:
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return []
    return text.splitlines()[-lines:]


def _new_log(directory: Path) -> Path:
    """Make an empty log that no other start, of this or another process, writes to."""
    directory.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        log = directory / (f"{PROCESS}.log" if number == 1 else f"{PROCESS}-{number}.log")
        try:
            log.touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return log


def _stop(cluster: Cluster, running: Running) -> None:
    """Stop the process, then take away what must not outlive it."""
    try:
        if running.spec.name in cluster.processes():
            cluster.stop_process(running.spec.name)
        if running.configurations:
            with Portal() as portal:
                client = portal.client(cluster.access_as("harness"))
                portal.run(installed.remove(client, running.configurations))
    except SupervisorGone:
        # The process died with it, and so did the API server.
        return
    finally:
        shutil.rmtree(running.folder, ignore_errors=True)
        state_file(cluster).unlink(missing_ok=True)


def _is_alive(cluster: Cluster, running: Running) -> bool:
    info = cluster.processes().get(running.spec.name)
    return info is not None and info.running


def _same(left: OperatorDefinition, right: OperatorDefinition) -> bool:
    return left == right
