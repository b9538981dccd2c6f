"""Handover of an operator's pods to their supervisor process (``keeper``)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from ...cluster.handle import Cluster, ProcessSpec
from ..running import RunningPods
from ..shape import OperatorDefinition, Pod
from . import checking, keeper, state
from .deployment import Chosen
from .objects import Parts
from .removal import GONE_S

_STOP_GRACE_S = GONE_S + 30.0
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
            forwards=[one.number for one in checking.endpoints(definition.as_pod).values() if one.via == "forward"],
            configurations=configurations,
        ),
    )
    spec = ProcessSpec(
        name=keeper.NAME,
        argv=[sys.executable, "-m", "pytest_grovescale.operator.pods.keeper", str(folder)],
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
