"""The operator under test as pods: started, asked and changed as a test may."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ...atomic_write import write_private
from ...cluster import state as clusters
from ...cluster.backend import backend
from ...cluster.handle import Cluster, ProcessInfo, ProcessSpec
from ...cluster.state import Container
from ...endpoints import Address, addressed
from ...errors import GrovescaleError, OperatorError, UsageError
from ...exposition.reader import Reader
from ...kube import access, subresources
from ...kube.access import Access
from ...kube.client import Client
from ...kube.errors import Forbidden, Unauthorized
from ...kube.portal import Portal
from .. import identity, install, webhooks
from ..command import single_values
from ..handle import Operator, Progress, new_log, tail_text
from ..install import DEPLOYMENTS, PODS_GONE_S
from ..operator_state import PROCESS, Hold, RunningPods, stop
from ..operator_state import write as write_state
from ..placeholders import fill
from ..readiness import fetch
from ..schema import OperatorDefinition, Pod, Served
from . import pod_supervisor, rollout, state
from .definition import Chosen, archive, changed, endpoints, tokens_are_sent
from .rollout import Parts, wait_kept, wait_rolled_out, wait_seen

_ANSWER_S = 5.0
_ACCEPT = "text/plain; version=0.0.4"


class Asking:
    """A client with a persistent connection: some endpoints are read fifty times a second."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._opened: tuple[Portal, Client] | None = None

    def metrics(self, path: str) -> bytes:
        """Return the metrics at a path of the API server. Raises ApiError."""
        portal, client = self._client()
        return portal.run(client.request("GET", path, accept=_ACCEPT, timeout=_ANSWER_S))

    def close(self) -> None:
        """Close it. Idempotent."""
        if self._opened is not None:
            self._opened[0].close()
            self._opened = None

    def _client(self) -> tuple[Portal, Client]:
        if self._opened is None:
            portal = Portal()
            self._opened = portal, portal.client(self._access)
        return self._opened


_LAST = "last_image"
"""Name of the file in the cluster's folder that identifies the archive loaded last."""


def bring(definition: OperatorDefinition, cluster: Cluster, progress: Progress) -> bool:
    """Load the image into the cluster's nodes; return False if the definition has none to load.

    Raises UsageError on clusters other than kind, ClusterError for errors of the engine or kind.
    """
    file, dockerfile = archive(definition), definition.as_pod.dockerfile
    if file is None and not dockerfile:
        return False
    if cluster.container is None:
        raise UsageError(
            f"{definition.source}: an image can be brought into a kind cluster of this machine only",
            next_step="Push it to where that cluster pulls from, and give its name: `image:` alone.",
        )
    if file is not None and _is_the_last(cluster, file):
        return True
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=cluster.directory) as folder:
        if file is None:
            file = Path(folder) / "image.tar"
            _build(definition, cluster, cluster.container, file, progress)
        backend(cluster.backend).load_image(
            file, cluster.container, kubernetes=cluster.kubernetes, given=cluster.binaries, progress=progress
        )
        write_private(cluster.directory / _LAST, _state(file))
    progress(f"operator {definition.name}: its image is on the nodes after {time.monotonic() - began:.1f} s")
    return True


def _build(
    definition: OperatorDefinition, cluster: Cluster, container: Container, archive: Path, progress: Progress
) -> None:
    pod = definition.as_pod
    values = {**single_values(definition), "namespace": definition.identity.namespace}
    image = fill(pod.image, values)
    arguments = {name: fill(text, values) for name, text in pod.build_args.items()}
    dockerfile = Path(pod.dockerfile)
    context = Path(pod.context) if pod.context else dockerfile.parent
    progress(f"operator {definition.name}: building {image}")
    backend(cluster.backend).build_image(image, dockerfile, context, arguments, container, archive)


def _is_the_last(cluster: Cluster, archive: Path) -> bool:
    """Return whether this archive was loaded last: an earlier one may have had the same image name."""
    last = cluster.directory / _LAST
    return last.is_file() and last.read_text(encoding="utf-8") == _state(archive)


def _state(archive: Path) -> str:
    """Return a fingerprint that changes when an archive changes."""
    stat = archive.stat()
    return f"{archive} {stat.st_size} {stat.st_mtime_ns}"


_STOP_GRACE_S = PODS_GONE_S + 30.0
_PYTHON_ROOT = Path(__file__).parents[3]


def hand_over(definition: OperatorDefinition, cluster: Cluster, parts: Parts, folder: Path, log: Path) -> RunningPods:
    """Write the keeper's task, and return the state of the operator."""
    chosen = parts.chosen
    configurations = [hook.object for hook in parts.webhooks]
    state.write_task(
        folder,
        state.Task(
            operator=definition.name,
            cluster=str(cluster.directory),
            namespace=chosen.namespace,
            deployment=chosen.name,
            selector=chosen.selector,
            container=chosen.container,
            log=str(log),
            lease=_lease(definition.as_pod, chosen),
            node=cluster.container,
            forwards=[one.number for one in endpoints(definition.as_pod).values() if one.via == "forward"],
            configurations=configurations,
        ),
    )
    spec = ProcessSpec(
        name=pod_supervisor.NAME,
        argv=[sys.executable, "-m", "pytest_grovescale.operator.pods.pod_supervisor", str(folder)],
        env=_environment(os.environ),
        log=str(log.with_name(f"{log.stem}-keeper.log")),
        stop_grace_s=_STOP_GRACE_S,
        restart=True,
    )
    return RunningPods(
        definition=definition,
        spec=spec,
        deployment=chosen,
        log=str(log),
        folder=str(folder),
        ours=[],
        configurations=configurations,
        pid=os.getpid(),
    )


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    passed_on = {name: environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR", "USER") if name in environ}
    return passed_on | {"PYTHONPATH": str(_PYTHON_ROOT)}


def _lease(pod: Pod, chosen: Chosen) -> str | None:
    """Return the Lease to follow, in the form of `state.Task.lease`."""
    if pod.lease:
        return pod.lease if "/" in pod.lease else f"{chosen.namespace}/{pod.lease}"
    return "" if chosen.replicas > 1 else None


def bring_up(definition: OperatorDefinition, cluster: Cluster, *, directory: Path, progress: Progress) -> OperatorPods:
    """Start an operator as pods, as `start.start` describes. No instance of it may run there."""
    with contextlib.ExitStack() as undo, Portal() as portal:
        client = portal.client(cluster.access_as("harness"))
        loaded = bring(definition, cluster, progress)
        folder = cluster.directory / PROCESS
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        parts = rollout.parts_of(definition, cluster.owner)
        running = hand_over(definition, cluster, parts, folder, new_log(directory))
        undo.callback(stop, cluster, running)
        cluster.start_process(running.spec)
        ours = portal.run(rollout.prepare(client, definition, parts, cluster.owner, progress))
        running = msgspec.structs.replace(running, ours=ours)
        write_state(cluster, running)
        access.write_files(cluster.access_as("harness"), clusters.access_files(cluster.directory))
        if tokens_are_sent(definition):
            portal.run(identity.write_credentials(client, definition, cluster.access_as("harness"), folder))
        # Before the Deployment exists: from its first moment on, a process must be there to remove it.
        wait_kept(running)
        changes = portal.run(rollout.changes_of(client, definition, cluster, loaded=loaded))
        obj = changed(parts.chosen, changes)
        generation = portal.run(rollout.apply(client, definition, parts.chosen, obj, cluster.owner, progress))
        wait_rolled_out(portal, client, running, generation, progress)
        wait_seen(running)
        portal.run(install.wait_settled(client, [crd.object for crd in parts.crds]))
        cluster.owner.note(hook.object for hook in parts.webhooks)
        portal.run(webhooks.activate(client, parts.webhooks, namespace=parts.chosen.namespace))
        undo.pop_all()
        return OperatorPods(cluster, running, Hold(cluster))


_RESTARTED = "kubectl.kubernetes.io/restartedAt"
"""Annotation that ``kubectl rollout restart`` sets."""


class OperatorPods(Operator):
    """An operator under test that runs as pods of the cluster."""

    def __init__(self, cluster: Cluster, running: RunningPods, hold: Hold) -> None:
        super().__init__(cluster, running, hold)
        self.deployment = running.deployment
        self._running = running
        self._folder = Path(running.folder)
        self._asking = Asking(cluster.access)
        pod = running.definition.as_pod
        self.metrics = self._reached(endpoints(pod).get("metrics"))
        self.pprof = self._reached(pod.pprof)
        self.stacks = self._reached(pod.stacks)

    @property
    def processes_file(self) -> Path:
        """File with its current processes on this host; it may never exist."""
        return self._folder / state.PROCESSES

    @property
    def lease(self) -> str:
        """The Lease, ``namespace/name``, that determines the leader; empty: none does."""
        return state.read(self._folder).lease

    @property
    def leader(self) -> str:
        """The leader pod, also with one replica; empty: there is none now."""
        return state.read(self._folder).leader

    def _reached(self, served: Served | None) -> Address | Served | None:
        """Return an endpoint's address at its local forward, if there is one."""
        if served is None or served.via != "forward":
            return served
        port = state.read(self._folder).forwards[served.number]
        return addressed(f"{served.scheme}://127.0.0.1:{port}{served.path}", self.credentials(served))

    @property
    def values(self) -> Mapping[str, str]:
        return {
            **single_values(self.definition),
            "namespace": self.definition.identity.namespace,
            "token_file": str(self._folder / "token"),
        }

    def address(self, served: Address | Served) -> Address | None:
        """Return the address on this host of an endpoint of the leader; None without a leader.

        For programs that read credentials from files; `served_cpu_s` and the recorder use clients of their own.
        """
        if isinstance(served, Address):
            return served
        files = clusters.access_files(self._cluster.directory)
        path = self._path(served)
        return access.address_by_files(self._cluster.access, files, path) if path else None

    def _path(self, served: Served) -> str:
        """Return the path at the API server of an endpoint of the leader; empty without a leader."""
        if not (leader := self.leader):
            return ""
        return subresources.path(
            "pods", self.deployment.namespace, leader, served.number, scheme=served.scheme, path=served.path
        )

    def served_cpu_s(self) -> float | None:
        """As `Operator.served_cpu_s`, of the leader. Each call costs the operator some milliseconds.

        Raises OperatorError if the endpoint rejects the request.
        """
        try:
            cpu_s = self.served_metrics().get("process_cpu_seconds_total")
        except (OSError, GrovescaleError) as error:
            if isinstance(error, (Unauthorized, Forbidden)) and error.by_the_server:
                raise OperatorError(
                    f"operator {self.name} cannot be asked for its CPU time: {error.message}",
                    next_step="See whether the credentials still are valid (kubectl auth whoami), and may get "
                    "pods/proxy: ClusterRole grovescale-harness-operator-pods of fixtures/rbac/harness.yaml.",
                ) from error
            # The pod is starting or ending.
            return None
        return None if cpu_s is None else float(cpu_s)

    def served_metrics(self) -> Mapping[str, str]:
        """As `Operator.served_metrics`."""
        if isinstance(self.metrics, Address):
            return Reader().read(*fetch(self.metrics)).samples
        path = self._path(self.metrics) if self.metrics is not None else ""
        return Reader().read(self._asking.metrics(path)).samples if path else {}

    def info(self) -> ProcessInfo | None:
        """Return the process of the leader; None if its pod does not run on this host."""
        return state.processes(self._folder).get(PROCESS)

    def alive(self) -> bool:
        """Whether any of its containers runs."""
        return any(replica.running for replica in state.read(self._folder).replicas.values())

    def outlives(self, pid: int) -> bool:
        """Return True, since the kubelet restarts its container, unless it never will."""
        return not state.read(self._folder).stuck

    def describe_exit(self) -> str:
        """Return how its containers ended, and why they do not restart."""
        kept = state.read(self._folder)
        ended = [f"{name}: {one.stuck or one.last_end}" for name, one in kept.replicas.items() if not one.running]
        return f"does not run: {'; '.join(ended) or 'it has no pods'}"

    def stop(self) -> None:
        """As `Operator.stop`."""
        self._asking.close()
        super().stop()

    def check(self) -> None:
        """Raise OperatorError with its last log lines if no container runs or will restart.

        Zero pods are no failure: a rollout may have a gap between the old and the new pods.
        """
        if state.read(self._folder).stuck:
            raise OperatorError(
                f"operator {self.name} {self.describe_exit()}{tail_text(self._running)}",
                next_step=f"Its whole log: {self.log}.",
            )

    def restart(self, progress: Progress = lambda text: None, version: OperatorDefinition | None = None) -> None:
        """Restart its Deployment, as ``kubectl rollout restart`` does; returns when no old pod is left."""
        if version is not None:
            raise UsageError(
                f"operator {self.name} runs as pods: another version of it is started as a process only",
                next_step="Test the upgrade with a definition that has a `command:`, on the local cluster.",
            )
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        body = {"spec": {"template": {"metadata": {"annotations": {_RESTARTED: moment}}}}}
        old = [replica.uid for replica in state.read(self._folder).replicas.values()]
        chosen = self.deployment
        with Portal() as portal:
            client = portal.client(self._cluster.access_as("harness"))
            patched = portal.run(client.patch(DEPLOYMENTS, chosen.name, chosen.namespace, body=body))
            wait_rolled_out(portal, client, self._running, int(patched["metadata"]["generation"]), progress, old=old)
        wait_seen(self._running, old=old)
