"""Scenarios that find what deployments alone do not, each one call: ``scenarios.operator_restart(scale, web, …)``.

All begin without the workload and end without it, in phases whose names checks and budgets can use. ``ready``: the
milestones of a deployed workload, name → condition, as ``{"ready": web.status(readyReplicas=3)}``; ``gone``: those of a
deleted one (default: its objects are gone). Findings are made of each as of any other test; what a scenario shows that
others do not is in its docstring.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from ..checks import ApiRequests
from ..errors import UsageError
from ..kube.client import Client, in_parallel
from ..kube.faults.settings import FaultArguments
from .conditions import Declared, count
from .conditions import gone as is_gone
from .phase import Phase
from .scale import Scale
from .workloads import Workload

Milestones = Mapping[str, Declared]

_WRITES = ("create", "update", "patch", "delete")


def deploy_steady_delete(
    scale: Scale,
    workload: Workload,
    *,
    ready: Milestones,
    gone: Milestones | None = None,
    hold: str | float = "30s",
    rate: float | None = None,
    timeout: str | float = "5m",
) -> None:
    """Deploy, trigger reconciles that find nothing to do, delete: phases ``deploy``, ``steady-state``, ``delete``.

    ``rate``: objects a second, None for all at once: many small resources on few workers. Shows work that grows with
    the objects, no-ops that write, and what is left behind.
    """
    deploy(scale, workload, ready=ready, rate=rate, timeout=timeout)
    with scale.phase("steady-state", timeout=timeout) as steady:
        workload.trigger_reconcile()
        steady.hold(hold)
    delete(scale, workload, gone=gone, timeout=timeout)


def operator_restart(
    scale: Scale,
    workload: Workload,
    *,
    ready: Milestones,
    gone: Milestones | None = None,
    hold: str | float = "30s",
    writes: int | None = 0,
    timeout: str | float = "5m",
) -> None:
    """Restart the operator beside a workload that needs nothing: phase ``restart``.

    Shows what each rollout and each new leader costs: lists, and a reconcile of each object. It changes nothing, so
    that more than ``writes`` of one verb (None: not checked) fail the test: a spec that is compared with defaults left
    out, a hash over a map.
    """
    deploy(scale, workload, ready=ready, timeout=timeout)
    with scale.phase("restart", timeout=timeout) as restart:
        scale.restart_operator()
        restart.hold(hold)
    if writes is not None:
        for verb in _WRITES:
            scale.check(ApiRequests("restart", verb, max=writes))
    delete(scale, workload, gone=gone, timeout=timeout)


def rolling_update(
    scale: Scale,
    workload: Workload,
    *,
    change: Mapping[str, Any],
    ready: Milestones,
    updated: Milestones,
    gone: Milestones | None = None,
    timeout: str | float = "5m",
) -> None:
    """Merge-patch every object with ``change``, and wait for ``updated``: phase ``update``.

    Shows replacements that wait for each other, and objects that are made and thrown away.
    """
    deploy(scale, workload, ready=ready, timeout=timeout)
    with scale.phase("update", timeout=timeout) as update:
        _declare(update, updated)
        workload.patch(change)
    scale.wait_idle()
    delete(scale, workload, gone=gone, timeout=timeout)


def scale_up_and_down(
    scale: Scale,
    workload: Workload,
    *,
    replicas: Sequence[int],
    ready: Callable[[int], Milestones],
    gone: Milestones | None = None,
    timeout: str | float = "5m",
) -> None:
    """Deploy at the first number of replicas, then set each further one: phases ``deploy``, ``scale to 20``, ….

    The template has the first number. ``ready``: replicas → milestones. Shows work that grows with all objects instead
    of the new ones, and pods that are replaced although only their number changed.
    """
    if len(replicas) < 2:
        raise UsageError(
            f"scale_up_and_down(replicas={list(replicas)})", next_step="Give the first number and those to scale to."
        )
    deploy(scale, workload, ready=ready(replicas[0]), timeout=timeout)
    for number in replicas[1:]:
        with scale.phase(f"scale to {number}", timeout=timeout) as change:
            _declare(change, ready(number))
            workload.scale(number)
        scale.wait_idle()
    delete(scale, workload, gone=gone, timeout=timeout)


def soak(
    scale: Scale,
    workload: Workload,
    *,
    ready: Milestones,
    gone: Milestones | None = None,
    cycles: int = 6,
    timeout: str | float = "5m",
) -> None:
    """Deploy and delete several times. Shows what grows with each cycle: memory, goroutines, files, watches, series."""
    for _ in scale.cycles(cycles):
        with scale.phase("deploy", timeout=timeout) as phase:
            _declare(phase, ready)
            workload.apply()
        delete(scale, workload, gone=gone, timeout=timeout)


def lost_pods(
    scale: Scale,
    workload: Workload,
    *,
    ready: Milestones,
    gone: Milestones | None = None,
    share: float = 0.1,
    timeout: str | float = "5m",
) -> None:
    """Delete a share of the pods at once, as a drained node does: phases ``lost-pods`` and ``replaced``.

    Shows events of pods that are missed, replacements one at a time, and a status that stays wrong.
    """
    if not 0 < share <= 1:
        raise UsageError(f"lost_pods(share={share})", next_step="Give a share of the pods, above 0 and at most 1.")
    deploy(scale, workload, ready=ready, timeout=timeout)
    pods = scale.run(_names(scale.client, "pods", scale.namespace))
    lost = pods[: math.ceil(share * len(pods))]
    if not lost:
        raise UsageError("lost_pods: the workload has no pod", next_step="Use it for a workload with pods.")
    with scale.phase("lost-pods", timeout=timeout) as phase:
        phase.milestone("lost", count("pods", len(pods) - 1, ready=True, op="<="))
        scale.run(_delete_pods(scale.client, scale.namespace, lost))
    with scale.phase("replaced", timeout=timeout) as replaced:
        _declare(replaced, ready)
    scale.wait_idle()
    delete(scale, workload, gone=gone, timeout=timeout)


def api_faults(
    scale: Scale,
    workload: Workload,
    *,
    ready: Milestones,
    gone: Milestones | None = None,
    timeout: str | float = "5m",
    **faults: Unpack[FaultArguments],
) -> None:
    """Deploy and delete with faults between operator and API server: ``api_faults(…, conflict=0.02, error=0.01)``.

    Shows work that is given up, retries without a growing delay, and objects that are made twice.
    """
    with scale.faults(**faults):
        deploy(scale, workload, ready=ready, timeout=timeout)
        delete(scale, workload, gone=gone, timeout=timeout)


def second_writer(
    scale: Scale,
    workload: Workload,
    *,
    kind: str,
    change: Mapping[str, Any],
    ready: Milestones,
    gone: Milestones | None = None,
    hold: str | float = "15s",
    timeout: str | float = "5m",
) -> None:
    """Merge-patch all objects of a kind that the operator makes, once, as a user may: phase ``overwritten``.

    Shows an operator that takes no notice, one that overwrites without end, and writes that are lost.
    """
    deploy(scale, workload, ready=ready, timeout=timeout)
    with scale.phase("overwritten", timeout=timeout) as overwritten:
        scale.run(_patch_all(scale.client, kind, scale.namespace, change))
        overwritten.hold(hold)
    delete(scale, workload, gone=gone, timeout=timeout)


def deploy(
    scale: Scale,
    workload: Workload,
    *,
    ready: Milestones,
    rate: float | None = None,
    timeout: str | float = "5m",
) -> None:
    """Apply the workload and wait for its milestones and an idle operator: phase ``deploy``."""
    with scale.phase("deploy", timeout=timeout) as phase:
        _declare(phase, ready)
        workload.apply(rate=rate)
    scale.wait_idle()


def delete(scale: Scale, workload: Workload, *, gone: Milestones | None = None, timeout: str | float = "5m") -> None:
    """Delete the workload and wait until it is gone: phase ``delete``."""
    with scale.phase("delete", timeout=timeout) as phase:
        _declare(phase, {"gone": is_gone(workload)} if gone is None else gone)
        workload.delete()


def _declare(phase: Phase, milestones: Milestones) -> None:
    for name, condition in milestones.items():
        phase.milestone(name, condition)


async def _names(client: Client, kind: str, namespace: str) -> list[str]:
    listing = await client.list(await client.resource(kind), namespace)
    return sorted(item["metadata"]["name"] for item in listing.items)


async def _delete_pods(client: Client, namespace: str, names: Sequence[str]) -> None:
    pods = await client.resource("pods")
    await in_parallel(names, lambda name: client.delete(pods, name, namespace))


async def _patch_all(client: Client, kind: str, namespace: str, body: Mapping[str, Any]) -> None:
    resource = await client.resource(kind)
    names = await _names(client, kind, namespace)

    async def overwrite(name: str) -> None:
        await client.patch(resource, name, namespace, body=body)

    await in_parallel(names, overwrite)
