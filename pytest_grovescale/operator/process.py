"""The operator under test as a process: its start with its own identity, readiness, stop, restart.

The cluster's supervisor owns the process, so that it ends with the leases of the test processes that started or share
it, however these end.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import os
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from .. import definitions, durations, procfs
from ..cluster import binaries, ports, processes
from ..cluster.handle import Cluster, ProcessInfo, ProcessSpec
from ..cluster.ledger import Owner
from ..endpoints import Address
from ..errors import OperatorError, UsageError
from ..exposition.reader import Reader
from ..kube.access import Access
from ..kube.client import Client
from ..kube.portal import Portal
from ..quantity import memory_bytes
from . import build, command, fault_proxy, identity, install, webhooks
from .command import core_numbers
from .fault_proxy import FaultProxy
from .handle import Operator, Progress, last_lines, new_log, tail_text
from .manifests import CRD, Manifest, Object
from .operator_state import PROCESS, Hold, RunningProcess, stop
from .operator_state import write as write_state
from .placeholders import BINARIES
from .readiness import NotReady, answers, fetch, listens, says, stranger, wait_until
from .schema import OperatorDefinition, texts

__all__ = ["OperatorProcess", "bring_up", "refuse_unlike"]

_EXIT_CODE_S = 2.0
_TAIL_LINES = 5
_CONTROLLER_MANAGER = "kube-controller-manager"


class OperatorProcess(Operator):
    """An operator under test that runs as a process of this host."""

    metrics: Address | None
    pprof: Address | None
    stacks: Address | None

    def __init__(self, cluster: Cluster, running: RunningProcess, hold: Hold, leases: list[ports.PortLease]) -> None:
        super().__init__(cluster, running, hold)
        self.metrics = running.launch.metrics
        self.pprof = running.launch.pprof
        self.stacks = running.launch.stacks
        self._running = running
        self._leases = leases

    @property
    def values(self) -> Mapping[str, str]:
        return {**command.single_values(self.definition), **self._running.provided}

    def info(self) -> ProcessInfo | None:
        """Return the process, or None if the supervisor no longer knows it."""
        return self._cluster.processes().get(self.process)

    def served_metrics(self) -> Mapping[str, str]:
        """As `Operator.served_metrics`."""
        return Reader().read(*fetch(self.metrics)).samples if self.metrics is not None else {}

    def alive(self) -> bool:
        """Whether the process runs."""
        info = self.info()
        return info is not None and info.running

    def outlives(self, pid: int) -> bool:
        """Return whether another process has replaced this one after a restart."""
        info = self.info()
        return info is not None and info.running and info.pid != pid

    def describe_exit(self) -> str:
        """Return how it ended: ``exited with code 3``.

        The end of a process is visible before its parent, the supervisor, has its exit code: waits for that. Raises
        ClusterError if the supervisor has ended, which ended the operator.
        """
        deadline = time.monotonic() + _EXIT_CODE_S
        while (info := self.info()) is not None and info.running and time.monotonic() < deadline:
            self._cluster.check_running(within_s=0.02)
        return processes.exit_text(info.exit_code if info else None, "\n".join(self.tail(_TAIL_LINES)))

    def after_exit(self) -> str:
        """As `Operator.after_exit`; one that wrote nothing has no log to look at."""
        info = self.info()
        there = super().after_exit() if self.tail(1) else f"It was started as: {self._running.launch.text}"
        return processes.exit_advice(info.exit_code if info else None, "\n".join(self.tail(_TAIL_LINES))) + there

    def check(self) -> None:
        """Raise OperatorError with its last log lines when the process is no longer alive."""
        if not self.alive():
            raise _died(self._running, self.info(), "while it was needed")

    def restart(self, progress: Progress = lambda text: None, version: OperatorDefinition | None = None) -> None:
        """Stop and start it: same ports, same identity, a new token. Returns when it is ready."""
        if version is not None:
            self._replace(version, progress)
            return
        self._cluster.stop_process(self.process)
        with Portal() as portal:
            client = portal.client(self._cluster.access_as("harness"))
            access = _way(self._cluster, self._running.proxy)
            folder = Path(self._running.folder)
            portal.run(identity.write_credentials(client, self.definition, access, folder))
        _start_and_wait(self._cluster, self._running, progress)

    def _replace(self, version: OperatorDefinition, progress: Progress) -> None:
        """Stop it, install what the other version brings (CRDs, rights, webhooks), and start that."""
        old, cluster = self._running, self._cluster
        refuse_unlike(old.definition, version)
        cluster.stop_process(self.process)
        with Portal() as portal:
            client = portal.client(cluster.access_as("harness"))
            folder = Path(old.folder)
            ours, crds, ca_bundle = _install(
                portal, client, version, cluster, old.provided, folder, progress, known=old.ours
            )
            access = _way(cluster, old.proxy)
            portal.run(identity.write_credentials(client, version, access, folder))
            provided = {**old.provided, **_binaries(version, cluster, progress)}
            configurations = _webhooks(version, cluster, provided, ca_bundle)
            log = new_log(self.log.parent)
            running = _running(version, provided, log, folder, [*old.ours, *ours], configurations, old.proxy)
            self._running = running
            self.replaced_by(running)
            _begin(portal, client, cluster, running, crds, configurations, progress)

    def stop(self) -> None:
        """As `Operator.stop`; its ports are free afterwards."""
        if not self._hold.released:
            super().stop()
            ports.release(self._leases)


def bring_up(
    definition: OperatorDefinition, cluster: Cluster, *, directory: Path, progress: Progress, faults: bool = False
) -> Operator:
    """Start an operator as a process of this host, as `start.start` describes. No instance of it may run there."""
    definition = build.run(definition, directory, progress=progress)
    # Outermost first: after an error, all previous steps are undone in reverse order.
    with contextlib.ExitStack() as undo, Portal() as portal:
        client = portal.client(cluster.access_as("harness"))
        folder = cluster.directory / PROCESS
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        used = command.ports_used(definition)
        leases = ports.lease(len(used))
        undo.callback(ports.release, leases)
        numbers = {name: str(lease.number) for name, lease in zip(used, leases, strict=True)}
        if definition.webhook_port:
            numbers["webhook_port"] = str(definition.webhook_port)
        ours, crds, ca_bundle = _install(portal, client, definition, cluster, numbers, folder, progress)
        proxy = _proxy(cluster, folder, directory, undo) if faults else None
        kubeconfig = portal.run(identity.write_credentials(client, definition, _way(cluster, proxy), folder))
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
        configurations = _webhooks(definition, cluster, provided, ca_bundle)
        running = _running(definition, provided, new_log(directory), folder, ours, configurations, proxy)
        undo.callback(stop, cluster, running)
        _begin(portal, client, cluster, running, crds, configurations, progress)
        undo.pop_all()
        return OperatorProcess(cluster, running, Hold(cluster), leases)


def _install(
    portal: Portal,
    client: Client,
    definition: OperatorDefinition,
    cluster: Cluster,
    numbers: Mapping[str, str],
    folder: Path,
    progress: Progress,
    known: Sequence[Object] = (),
) -> tuple[list[Object], list[Manifest], str]:
    """Put an operator's objects into the cluster; return those that are ours, its CRDs, and its CA bundle.

    ``known``: ours that were there before.
    """
    ca_bundle = _certified(definition, cluster, folder / "certs")
    crds = _crds(definition, cluster, numbers, ca_bundle)
    ours = portal.run(_prepare(client, definition, crds, cluster.owner, progress))
    before = {obj["metadata"]["name"] for obj in known if obj["kind"] == CRD}
    if any(obj["kind"] == CRD and obj["metadata"]["name"] not in before for obj in ours):
        _tell_the_garbage_collector(cluster)
    return ours, crds, ca_bundle


def _webhooks(
    definition: OperatorDefinition, cluster: Cluster, provided: Mapping[str, str], ca_bundle: str
) -> list[Manifest]:
    """Return its webhook configurations, which call the process."""
    return [
        Manifest(install.labelled(found.object, definition.name, cluster.owner), found.source)
        for found in (
            webhooks.local(manifest, provided, ca_bundle=ca_bundle) for manifest in definition.installation.webhooks
        )
    ]


def _begin(
    portal: Portal,
    client: Client,
    cluster: Cluster,
    running: RunningProcess,
    crds: list[Manifest],
    configurations: list[Manifest],
    progress: Progress,
) -> None:
    """Start the process of an operator whose objects are there; return when it is ready and its webhooks are called."""
    write_state(cluster, running)
    command.write_files(running.launch, Path(running.folder))
    _start_and_wait(cluster, running, progress)
    # Last: most of that time has passed while the operator started.
    portal.run(install.wait_settled(client, [crd.object for crd in crds]))
    cluster.owner.note(found.object for found in configurations)
    portal.run(webhooks.activate(client, configurations, namespace=running.definition.identity.namespace))


def refuse_unlike(before: OperatorDefinition, version: OperatorDefinition) -> None:
    """Raise UsageError for a version that the recording of the one before could not follow."""
    unlike = [
        what
        for what, differs in {
            "`name:`": version.name != before.name,
            "`pod:`, which runs it as pods": version.pod is not None,
            f"its identity, {version.user}": version.user != before.user,
            "`metrics:`, `pprof:` or `stacks:`": _endpoints(version) != _endpoints(before),
            "further ports": not set(command.ports_used(version)) <= set(command.ports_used(before)),
        }.items()
        if differs
    ]
    if unlike:
        raise UsageError(
            f"{version.source} cannot take the place of {before.source}: it has other {', '.join(unlike)}",
            next_step="Both versions run as processes, as one identity, on the same ports: change the version's "
            "definition, or use one definition and other values.",
        )


def _endpoints(definition: OperatorDefinition) -> list[str]:
    found = (definition.metrics, definition.pprof, definition.stacks)
    return [one.url if one is not None else "" for one in found]


def _tell_the_garbage_collector(cluster: Cluster) -> None:
    """Restart the controller manager, so that its garbage collector knows kinds that are new.

    It looks for new kinds every 30 s (k8s.io/kubernetes/cmd/kube-controller-manager/app/core.go): until then what an
    object of a new kind owns stays when that is deleted, which would be measured as the operator's time.
    """
    if _CONTROLLER_MANAGER in cluster.processes():
        cluster.restart_process(_CONTROLLER_MANAGER)


def _proxy(cluster: Cluster, folder: Path, directory: Path, undo: contextlib.ExitStack) -> FaultProxy:
    """Start the proxy of an operator whose test asks for faults."""
    undo.callback(_stop_proxy, cluster)
    access = cluster.access_as("harness")
    return fault_proxy.bring_up(cluster, access, folder=folder / fault_proxy.PROCESS, directory=directory)


def _stop_proxy(cluster: Cluster) -> None:
    if fault_proxy.PROCESS in cluster.processes():
        cluster.stop_process(fault_proxy.PROCESS)


def _way(cluster: Cluster, proxy: FaultProxy | None) -> Access:
    """Return the server that an operator's kubeconfig names, and its CA."""
    return cluster.access_as("harness") if proxy is None else proxy.access


async def _prepare(
    client: Client, definition: OperatorDefinition, crds: list[Manifest], owner: Owner, progress: Progress
) -> list[Object]:
    """Create CRDs, manifests and identity in the cluster; return the objects to remove later."""
    put = functools.partial(install.install, client, operator=definition.name, owner=owner, progress=progress)
    ours = await put(crds)
    await install.wait_established(client, [crd.object for crd in crds])
    ours += await identity.establish(client, definition, owner=owner, progress=progress)
    others = [one for one in definition.installation.manifests if not identity.is_namespace(one)]
    return ours + await put([await install.placed(client, one, definition.identity.namespace) for one in others])


def _binaries(definition: OperatorDefinition, cluster: Cluster, progress: Progress) -> dict[str, str]:
    """Return placeholder → path for the Kubernetes binaries that a definition uses."""
    used = command.binaries_used(definition)
    found = binaries.find(used, cluster.kubernetes, given=cluster.binaries, progress=progress)
    return {placeholder: found[name].path for placeholder, name in BINARIES.items() if name in found}


def _certified(definition: OperatorDefinition, cluster: Cluster, folder: Path) -> str:
    """Write the webhook server's certificate if there may be one, and return its CA as base64; empty without."""
    asked = any("{cert_dir}" in text for text in texts(definition).values())
    if not definition.webhooks and not asked:
        return ""
    if definition.webhooks and not cluster.on_loopback:
        raise UsageError(
            f"{definition.source}: webhooks: the API server of {cluster.name} is in a container or on another machine: "
            "it cannot call a process here",
            next_step="Run the operator as pods there (`pod:`), or test its webhooks on a local cluster.",
        )
    certificate = webhooks.issue("127.0.0.1")
    webhooks.write(certificate, folder)
    return base64.b64encode(certificate.ca_pem.encode()).decode()


def _crds(
    definition: OperatorDefinition, cluster: Cluster, numbers: Mapping[str, str], ca_bundle: str
) -> list[Manifest]:
    """Return the CRDs, whose conversion webhooks call the operator where it serves webhooks to this cluster."""
    crds = definition.installation.crds
    if not ca_bundle or "webhook_port" not in numbers or not cluster.on_loopback:
        return crds
    return [webhooks.converted_locally(crd, numbers, ca_bundle=ca_bundle) for crd in crds]


def _running(
    definition: OperatorDefinition,
    provided: dict[str, str],
    log: Path,
    folder: Path,
    ours: list[Object],
    configurations: list[Manifest],
    proxy: FaultProxy | None,
) -> RunningProcess:
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
    return RunningProcess(
        definition=definition,
        spec=spec,
        launch=launch,
        provided=provided,
        log=str(log),
        folder=str(folder),
        ours=ours,
        configurations=[manifest.object for manifest in configurations],
        pid=os.getpid(),
        proxy=proxy,
    )


def _start_and_wait(cluster: Cluster, running: RunningProcess, progress: Progress) -> None:
    definition = running.definition
    started = time.monotonic()
    progress(f"operator {definition.name}: starting")
    readiness = definition.readiness
    assert readiness is not None  # else it is no process
    log = Path(running.log)
    # After a restart, the log has lines of the process before.
    begin = log.stat().st_size if log.exists() else 0
    first = cluster.start_process(running.spec)

    def info() -> ProcessInfo | None:
        return cluster.processes().get(running.spec.name)

    def alive() -> bool:
        cluster.check_running()
        now = info()
        return now is not None and now.running and now.pid == first.pid

    def dead() -> OperatorError:
        return _died(running, info(), f"{time.monotonic() - started:.1f} s after its start, before it was ready")

    def ready() -> str:
        address = running.launch.readiness
        if address is None:
            return says(log, readiness.log, begin)
        return answers(address) or stranger(address.url, first.pid)

    def serves_webhooks() -> str:
        return listens(int(running.provided["webhook_port"])) if running.configurations else ""

    timeout = durations.seconds(readiness.timeout)
    try:
        wait_until(ready, alive=alive, timeout=timeout, dead=dead)
        wait_until(serves_webhooks, alive=alive, timeout=timeout, dead=dead)
    except NotReady as error:
        tail = tail_text(running)
        raise OperatorError(
            f"operator {definition.name} was not ready after {durations.text(timeout)}: {error.message.rstrip(': ')}"
            + tail,
            next_step=lacking_right(tail)
            or _no_such_path(definition, error.message)
            or (serves_webhooks() and _webhooks_elsewhere(first.pid, running.provided["webhook_port"]))
            or (running.launch.readiness and _listening_elsewhere(first.pid, running.launch.readiness.url))
            or "Raise readiness.timeout in its definition, or see its log above for what it waits for.",
        ) from None
    progress(f"operator {definition.name}: ready after {time.monotonic() - started:.1f} s")


_FORBIDDEN = re.compile(
    r"cannot (?P<verb>\w+) resource [\\\"']*(?P<kind>[\w./]+)[\\\"']* in API group [\\\"']*(?P<group>[\w.-]*)"
)
"""How the API server says that a right is missing: ``cannot list resource "pods" in API group ""``."""


def lacking_right(log: str) -> str:
    """Return the next step where the end of an operator's log says that it lacks a right, else nothing."""
    if (match := _FORBIDDEN.search(log)) is None:
        return ""
    kind = f"{match['kind']}.{match['group']}" if match["group"] else match["kind"]
    return f"It may not {match['verb']} {kind}: give its role that right, in the manifests that `rbac:` names."


def _no_such_path(definition: OperatorDefinition, answer: str) -> str:
    """Return the next step where the readiness URL was answered that it is not there, else nothing."""
    if " answered 404" not in answer:
        return ""
    place = definitions.where(Path(definition.source), ("readiness", "url"))
    return f"Nothing is served at that path: correct it, in {place}."


def _webhooks_elsewhere(pid: int, port: str) -> str:
    """Return the next step where an operator's webhook server does not listen on the port that is called."""
    named = ", ".join(map(str, sorted(procfs.ports_of([pid, *procfs.descendants(pid)])))) or "none"
    return (
        f"Its webhooks are called on port {port}, and the ports that it listens on are: {named}. Pass it"
        " {webhook_port}, or name the port that it always has: `webhook_port: 9443`."
    )


def _listening_elsewhere(pid: int, url: str) -> str:
    """Return the next step where an operator does not listen on the port of its readiness URL, else nothing."""
    port = urlsplit(url).port
    ports = procfs.ports_of([pid, *procfs.descendants(pid)])
    if port is None or port in ports:
        return ""
    named = f"on {', '.join(map(str, sorted(ports)))}, not on {port}" if ports else "on no port"
    return (
        f"It listens {named}: give it the port by a flag or a variable, {{health_port}}, or name its own in"
        " readiness.url; or it waits for something before that: see its log."
    )


def _died(running: RunningProcess, info: ProcessInfo | None, when: str) -> OperatorError:
    program = Path(running.spec.cwd, running.spec.argv[0])
    if "/" in running.spec.argv[0] and not program.exists():
        return OperatorError(
            f"operator {running.definition.name}: {definitions.where(Path(running.definition.source), ('command', 0))}:"
            f" there is no {program}",
            next_step="Make it before the start, by `build:` in the definition; or name another program.",
        )
    tail = tail_text(running)
    in_use = "Another program has that port: stop it, or give the operator a free one ({metrics_port}, …). "
    code = info.exit_code if info else None
    next_step = in_use if "address already in use" in tail.lower() else processes.exit_advice(code, tail)
    next_step += f"Its whole log: {running.log}. " if last_lines(running, 1) else ""
    return OperatorError(
        f"operator {running.definition.name} {processes.exit_text(code, tail)} {when}" + tail,
        next_step=f"{next_step}It was started as: {running.launch.text}",
    )
