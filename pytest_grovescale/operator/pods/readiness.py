"""Readiness of an operator's pods: rolled out, and known to their supervisor process."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

from ... import durations
from ...errors import OperatorError
from ...kube.client import Client
from ...kube.errors import ApiError
from ...kube.portal import Portal
from ..handle import Progress, tail_text
from ..running import PROCESS, RunningPods
from . import rollout, state

SEEN_S = 20.0
"""Time limit for the keeper to see the API server's state, and the processes of running containers, s."""
_PROCESS_SEEN_S = 5.0
_LOOK_S = 0.05


def wait_kept(running: RunningPods) -> None:
    """Return when the keeper follows the pods. Raises OperatorError if it does not start."""
    deadline = time.monotonic() + SEEN_S
    while not (kept := state.read(Path(running.folder))).live:
        if time.monotonic() > deadline:
            why = kept.problem or "the process that keeps its pods does not start"
            raise OperatorError(
                f"operator {running.definition.name}: {why}",
                next_step=f"See {running.spec.log}.",
            )
        time.sleep(_LOOK_S)


def wait_rolled_out(
    portal: Portal,
    client: Client,
    running: RunningPods,
    generation: int,
    progress: Progress,
    *,
    old: Collection[str] = (),
) -> None:
    """Return when the Deployment is rolled out in this generation; ``old``: uids of pods that are to be replaced.

    Raises OperatorError as soon as the rollout cannot succeed, with the reason, events and the last lines of its log.
    """
    definition = running.definition
    began = time.monotonic()
    progress(f"operator {definition.name}: rolling out")
    timeout = durations.seconds(definition.as_pod.rollout_timeout)
    try:
        portal.run(rollout.wait(client, running.deployment, generation, timeout=timeout, old=old))
    except (rollout.RolloutFailed, ApiError) as error:
        raise OperatorError(
            f"operator {definition.name}: {running.deployment.title} is not rolled out: {error}{tail_text(running)}",
            next_step="Correct its manifests or image, or raise pod.rollout_timeout; its log is above.",
        ) from None
    progress(f"operator {definition.name}: rolled out after {time.monotonic() - began:.1f} s")


def wait_seen(running: RunningPods, *, old: Collection[str] = ()) -> None:
    """Return when the keeper knows the leader: from here on readers of its files find it.

    ``old``: uids of pods that were to be replaced. Raises OperatorError without a leader, for example if no pod holds
    the Lease.
    """
    folder = Path(running.folder)
    deadline = time.monotonic() + SEEN_S
    while True:
        kept = state.read(folder)
        if kept.leader and not any(one.going or one.uid in old for one in kept.replicas.values()):
            break
        if time.monotonic() > deadline:
            raise _not_seen(running, kept)
        time.sleep(_LOOK_S)
    deadline = time.monotonic() + _PROCESS_SEEN_S
    # Only if the engine runs on this host, which the presence of processes shows.
    while state.task(folder).node and PROCESS not in state.processes(folder) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)


def _not_seen(running: RunningPods, kept: state.Kept) -> OperatorError:
    name, log = running.definition.name, running.spec.log
    if kept.problem or not kept.replicas:
        return OperatorError(
            f"operator {name}: {kept.problem or 'its pods are not seen by who keeps them'}", next_step=f"See {log}."
        )
    return OperatorError(
        f"operator {name} is rolled out, but none of its pods holds its Lease {kept.lease or '(none was found)'}",
        next_step="Name it in the definition, `pod: {lease: NAMESPACE/NAME}`; see also what the operator's log says.",
    )
