"""Scenarios that find what deployments alone do not, each one call: ``scenarios.operator_restart(scale, web, …)``.

All begin without the workload and end without it, in phases whose names checks and budgets can use. The arguments that
all have are those of `Course`. Findings are made of each as of any other test; what a scenario shows that others do not
is in its docstring.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Required, TypedDict, Unpack

from ..checks import ApiRequests, NoBlockedWorkers
from ..errors import PhaseError, UsageError
from ..kube.faults.settings import FaultArguments
from . import disruption
from .conditions import Declared, count
from .conditions import gone as is_gone
from .disruption import Object
from .phase import Phase
from .scale import Scale
from .workloads import Workload

Milestones = Mapping[str, Declared]

_WRITES = ("create", "update", "patch", "delete")


class Ends(TypedDict, total=False):
    """How a scenario ends, and how long its phases may take."""

    gone: Milestones | None
    """The milestones of a deleted workload; None: its objects are gone."""
    timeout: str | float
    """Of each phase; 5 minutes by default."""


class Course(Ends, total=False):
    """The arguments that all scenarios have."""

    ready: Required[Milestones]
    """The milestones of a deployed workload, name → condition: ``{"ready": web.status(readyReplicas=3)}``."""


class FaultCourse(Course, FaultArguments, total=False):
    """Those, and the faults of ``scale.faults``."""


def deploy_steady_delete(
    scale: Scale,
    workload: Workload,
    *,
    hold: str | float = "30s",
    rate: float | None = None,
    **course: Unpack[Course],
) -> None:
    """Deploy, trigger reconciles that find nothing to do, touch one object of each kind, delete.

    Phases ``deploy``, ``steady-state``, ``touch``, ``delete``. ``rate``: objects a second, None for all at once. Shows
    work that grows with the objects, no-ops that write, events that wake objects which have nothing to do with them,
    and what is left behind.
    """
    with _deployed(scale, workload, rate=rate, **course) as timeout:
        with scale.phase("steady-state", timeout=timeout) as steady:
            workload.trigger_reconcile()
            steady.hold(hold)
        scale.touch_each_kind(timeout=timeout)


def many_small(
    scale: Scale,
    workload: Workload,
    *,
    longest: str | float = "2s",
    rate: float | None = None,
    **course: Unpack[Course],
) -> None:
    """Deploy many small resources at once on few workers: ``@pytest.mark.grovescale(values={"concurrency": "2"})``.

    Resources have to take their time for it, as with pods of the annotation ``grovescale.io/ready-after: 3s``. Fails
    where workers wait inside reconciles that take ``longest``, and keep others waiting (`checks.NoBlockedWorkers`):
    a status check that stays until pods are ready, a call of a slow service.
    """
    with _deployed(scale, workload, rate=rate, **course):
        scale.check(NoBlockedWorkers(phase="deploy", longest=longest))


def operator_restart(
    scale: Scale,
    workload: Workload,
    *,
    hold: str | float = "30s",
    writes: int | None = 0,
    **course: Unpack[Course],
) -> None:
    """Restart the operator beside a workload that needs nothing: phase ``restart``.

    Shows what each rollout and each new leader costs: lists, and a reconcile of each object. It changes nothing, so
    that more than ``writes`` of one verb (None: not checked) fail the test: a spec that is compared with defaults left
    out, a hash over a map.
    """
    with _deployed(scale, workload, **course) as timeout:
        with scale.phase("restart", timeout=timeout) as restart:
            scale.restart_operator()
            restart.hold(hold)
        _check_writes(scale, "restart", writes)


def operator_upgrade(
    scale: Scale,
    workload: Workload,
    *,
    to: str | Mapping[str, str],
    hold: str | float = "30s",
    writes: int | None = None,
    recreated: int | None = 0,
    **course: Unpack[Course],
) -> None:
    """Replace the operator by another version beside the objects of the first: phase ``upgrade``.

    ``to``: values of the definition that differ (``{"tag": "v2"}``), or another definition file, as of
    ``scale.restart_operator``. Shows what an update of the operator does to those who use it: more than ``recreated``
    pods that others take the place of, or more than ``writes`` of one verb, fail the test (None: not checked). A hash
    that is computed in another way, or a new default, replaces every pod in the cluster.
    """
    with _deployed(scale, workload, **course) as timeout:
        before = _pods(scale)
        with scale.phase("upgrade", timeout=timeout) as upgrade:
            scale.restart_operator(to)
            upgrade.hold(hold)
        _check_writes(scale, "upgrade", writes)
        _check_recreated(
            scale, "upgrade", before, recreated, "Compare what the two versions write into the pod template"
        )
        scale.wait_idle()


def rolling_update(
    scale: Scale,
    workload: Workload,
    *,
    change: Mapping[str, Any],
    updated: Milestones,
    **course: Unpack[Course],
) -> None:
    """Merge-patch every object with ``change``, and wait for ``updated``: phase ``update``.

    Shows replacements that wait for each other, and objects that are made and thrown away.
    """
    with _deployed(scale, workload, **course) as timeout:
        with scale.phase("update", timeout=timeout) as update:
            _declare(update, updated)
            workload.patch(change)
        scale.wait_idle()


def scale_up_and_down(
    scale: Scale,
    workload: Workload,
    *,
    replicas: Sequence[int],
    ready: Callable[[int], Milestones],
    recreated: int | None = 0,
    **ends: Unpack[Ends],
) -> None:
    """Deploy at the first number of replicas, then set each further one: phases ``deploy``, ``scale to 20``, ….

    The template has the first number. ``ready``: replicas → milestones. Shows work that grows with all objects instead
    of the new ones. Only the number changes: more than ``recreated`` pods that others take the place of fail the
    test (None: not checked): a hash over the whole spec.
    """
    if len(replicas) < 2:
        raise UsageError(
            f"scale_up_and_down(replicas={list(replicas)})", next_step="Give the first number and those to scale to."
        )
    with _deployed(scale, workload, ready=ready(replicas[0]), **ends) as timeout:
        for number in replicas[1:]:
            before = _pods(scale)
            with scale.phase(f"scale to {number}", timeout=timeout) as change:
                _declare(change, ready(number))
                workload.scale(number)
            scale.wait_idle()
            where = "Find what of the pod template changes with the number"
            _check_recreated(scale, f"scale to {number}", before, recreated, where, scaled=True)


def soak(
    scale: Scale,
    workload: Workload,
    *,
    cycles: int = 6,
    duration: str | float | None = None,
    rate: float | None = None,
    **course: Unpack[Course],
) -> None:
    """Deploy and delete again and again: so many ``cycles``, and more until ``duration`` (``"30m"``) is over.

    ``rate``: objects a second, None for all at once. Shows what grows with each cycle, by its slope with an interval:
    memory, goroutines, files, watches, series.
    """
    for _ in scale.cycles(cycles, duration=duration):
        with _deployed(scale, workload, rate=rate, idle=False, **course):
            pass


def lost_pods(scale: Scale, workload: Workload, *, share: float = 0.1, seed: int = 1, **course: Unpack[Course]) -> None:
    """Delete a share of the pods at once, as users and node pressure do: phases ``lost-pods`` and ``replaced``.

    ``seed`` decides which. Shows events of pods that are missed, replacements one at a time, and a status that stays
    wrong.
    """
    with _deployed(scale, workload, **course) as timeout:
        pods, lost = _share_of_pods(scale, "lost_pods", share, seed)
        with scale.phase("lost-pods", timeout=timeout) as phase:
            phase.milestone("lost", count("pods", len(pods) - 1, ready=True, op="<="))
            scale.run(disruption.delete_pods(scale.client, lost))
        with scale.phase("replaced", timeout=timeout) as replaced:
            _declare(replaced, course["ready"])
        scale.wait_idle()


def failing_pods(
    scale: Scale,
    workload: Workload,
    *,
    how: Literal["failed", "unready"] = "failed",
    share: float = 0.1,
    seed: int = 1,
    noticed: Milestones | None = None,
    hold: str | float = "5s",
    **course: Unpack[Course],
) -> None:
    """Let a share of the pods fail, or be no longer ready: phases ``failing`` and ``recovered``.

    ``seed`` decides which. ``failed``: their phase is Failed, for good, and the operator has to replace them.
    ``unready``: they run, and their readiness probes fail until the phase has been held. ``noticed``: milestones of
    that phase, as of a status that must say so. Shows failed pods that count as running ones, replacements without
    end, and a status that keeps what was true once. For pods that never become ready at all, the template has the
    annotation ``grovescale.io/ready-after: 1000h``, or `rolling_update` brings it.
    """
    if how not in ("failed", "unready"):
        raise UsageError(f"failing_pods(how={how!r})", next_step="Use 'failed' or 'unready'.")
    with _deployed(scale, workload, **course) as timeout:
        pods, failing = _share_of_pods(scale, "failing_pods", share, seed)
        with scale.phase("failing", timeout=timeout) as phase:
            phase.milestone("failing", count("pods", len(pods) - len(failing), ready=True, op="<="))
            _declare(phase, noticed or {})
            if how == "failed":
                scale.run(disruption.fail_pods(scale.client, failing))
            else:
                scale.run(disruption.set_ready(scale.client, failing, ready=False))
                phase.hold(hold)
        with scale.phase("recovered", timeout=timeout) as recovered:
            _declare(recovered, course["ready"])
            if how == "unready":
                there = {pod["metadata"]["uid"] for pod in _pods(scale)}
                left = [pod for pod in failing if pod["metadata"]["uid"] in there]
                scale.run(disruption.set_ready(scale.client, left, ready=True))
        scale.wait_idle()


def lost_nodes(
    scale: Scale,
    workload: Workload,
    *,
    how: Literal["drained", "lost"] = "drained",
    nodes: int = 1,
    seed: int = 1,
    **course: Unpack[Course],
) -> None:
    """Take nodes away from under the pods: phases ``drained`` or ``lost``, and ``replaced``.

    ``seed`` decides which of the simulated nodes that pods of the test run on. ``drained``: as `kubectl drain` does:
    cordoned, and pods evicted, which a PodDisruptionBudget may refuse. ``lost``: the machine is gone; its pods are not
    Ready, and stay, terminating, as no kubelet ends them. Shows budgets that no drain gets past, replacements that are
    bound to where the first pods were, and operators that wait for the end of pods that never end. The nodes are back
    at the end.
    """
    if how not in ("drained", "lost") or nodes < 1:
        raise UsageError(f"lost_nodes(how={how!r}, nodes={nodes})", next_step="Use 'drained' or 'lost', and nodes ≥ 1.")
    with _deployed(scale, workload, **course) as timeout:
        pods = _pods(scale)
        used = scale.run(disruption.nodes_of(scale.client, pods, scale.cluster.name))
        if len(used) < nodes:
            raise UsageError(
                f"lost_nodes(nodes={nodes}): the workload's pods run on {len(used)} simulated nodes",
                next_step="Take fewer nodes, or use a workload with more pods.",
            )
        away = disruption.chosen(used, nodes, seed)
        names = {disruption.name(node) for node in away}
        on_them = [pod for pod in pods if pod["spec"].get("nodeName") in names]
        try:
            if how == "drained":
                _drain(scale, away, on_them, timeout)
            else:
                with scale.phase("lost", timeout=timeout) as phase:
                    phase.milestone("lost", count("pods", len(pods) - 1, ready=True, op="<="))
                    scale.run(disruption.lose(scale.client, away, on_them))
            with scale.phase("replaced", timeout=timeout) as replaced:
                _declare(replaced, course["ready"])
        finally:
            if how == "drained":
                scale.run(disruption.cordon(scale.client, away, cordoned=False))
            else:
                scale.run(disruption.bring_back(scale.client, away, on_them))
        scale.wait_idle()


def api_faults(scale: Scale, workload: Workload, **course: Unpack[FaultCourse]) -> None:
    """Deploy and delete with faults between operator and API server: ``api_faults(…, conflict=0.02, error=0.01)``.

    Shows work that is given up, retries without a growing delay, and objects that are made twice.
    """
    faults: Any = {key: value for key, value in course.items() if key in FaultArguments.__annotations__}
    own: Any = {key: value for key, value in course.items() if key not in faults}
    with scale.faults(**faults), _deployed(scale, workload, **own):
        pass


def second_writer(
    scale: Scale,
    workload: Workload,
    *,
    kind: str,
    change: Mapping[str, Any],
    restored: Milestones | None = None,
    hold: str | float = "15s",
    **course: Unpack[Course],
) -> None:
    """Merge-patch all objects of a kind that the operator makes, once, as a user may: phase ``overwritten``.

    ``restored``: milestones of a phase of that name, for a change of what is the operator's own: that it is as before.
    Shows an operator that takes no notice, one that overwrites without end, and writes that are lost.
    """
    with _deployed(scale, workload, **course) as timeout:
        with scale.phase("overwritten", timeout=timeout) as overwritten:
            scale.run(disruption.overwrite(scale.client, kind, scale.namespace, change))
            overwritten.hold(hold)
        if restored is not None:
            with scale.phase("restored", timeout=timeout) as again:
                _declare(again, restored)


@contextlib.contextmanager
def _deployed(
    scale: Scale,
    workload: Workload,
    *,
    ready: Milestones,
    gone: Milestones | None = None,
    timeout: str | float = "5m",
    rate: float | None = None,
    idle: bool = True,
) -> Iterator[str | float]:
    """Apply the workload in phase ``deploy``, yield the timeout of further phases, delete it in phase ``delete``."""
    with scale.phase("deploy", timeout=timeout) as deploy:
        _declare(deploy, ready)
        workload.apply(rate=rate)
    if idle:
        scale.wait_idle()
    yield timeout
    with scale.phase("delete", timeout=timeout) as delete:
        _declare(delete, {"gone": is_gone(workload)} if gone is None else gone)
        workload.delete()


def _declare(phase: Phase, milestones: Milestones) -> None:
    for name, condition in milestones.items():
        phase.milestone(name, condition)


def _check_writes(scale: Scale, phase: str, most: int | None) -> None:
    if most is not None:
        for verb in _WRITES:
            scale.check(ApiRequests(phase, verb, max=most))


def _check_recreated(
    scale: Scale, phase: str, before: Sequence[Object], most: int | None, where: str, *, scaled: bool = False
) -> None:
    """Raise where more pods were replaced than allowed; ``where``: where to look for the reason.

    ``scaled``: their number has changed, and of fewer pods those that went have no others in their place.
    """
    there = {pod["metadata"]["uid"] for pod in _pods(scale)}
    known = {pod["metadata"]["uid"]: disruption.name(pod) for pod in before}
    lost = [name for uid, name in known.items() if uid not in there]
    number = min(len(lost), len(there - known.keys())) if scaled else len(lost)
    if most is not None and number > most:
        raise PhaseError(
            f"{phase}: {number:,} of {len(before):,} pods were replaced, allowed are {most:,}: "
            + ", ".join(lost[:3])
            + ", …" * (len(lost) > 3),
            next_step=f"{where}, or allow it: recreated=….",
        )


def _pods(scale: Scale) -> list[Object]:
    return scale.run(disruption.pods(scale.client, scale.namespace))


def _share_of_pods(scale: Scale, scenario: str, share: float, seed: int) -> tuple[list[Object], list[Object]]:
    """Return all pods of the test, and a share of them."""
    if not 0 < share <= 1:
        raise UsageError(f"{scenario}(share={share})", next_step="Give a share of the pods, above 0 and at most 1.")
    pods = _pods(scale)
    if not pods:
        raise UsageError(f"{scenario}: the workload has no pod", next_step="Use it for a workload with pods.")
    return pods, disruption.chosen(pods, math.ceil(share * len(pods)), seed)


def _drain(scale: Scale, away: Sequence[Object], on_them: Sequence[Object], timeout: str | float) -> None:
    """Drain nodes of the test's pods, but for those of DaemonSets, as `kubectl drain` does: phase ``drained``."""
    moving = [pod for pod in on_them if not _of_daemon_set(pod)]
    refused: dict[str, str] = {}
    with scale.phase("drained", timeout=timeout) as drained:
        for node in map(disruption.name, away):
            staying = [pod for pod in on_them if pod not in moving and pod["spec"]["nodeName"] == node]
            left = count("pods", len(staying), field_selector=f"spec.nodeName={node}")
            drained.milestone("drained" if len(away) == 1 else f"drained {node}", left)
        scale.run(disruption.cordon(scale.client, away, cordoned=True))
        try:
            scale.run(disruption.evict(scale.client, moving, refused))
        except PhaseError as error:
            for pod, why in list(refused.items())[:1]:
                error.message += f"\nevictions refused: {len(refused)}; of pod {pod}: {why}"
            raise


def _of_daemon_set(pod: Object) -> bool:
    return any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences", ()))
