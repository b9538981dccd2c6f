"""Validation of a definition for an existing cluster: it must not set what only the cluster's creator can set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from ...errors import DefinitionError
from ..definition import ApiServer, ClusterDefinition, ControllerManager, Scheduler

Fail = Callable[..., DefinitionError]

_ITS_MAKERS = {"api_server": ApiServer(), "controller_manager": ControllerManager(), "scheduler": Scheduler()}
_KEEPS_OFF = ("NoSchedule", "NoExecute")


def check(written: ClusterDefinition, path: Path, fail: Fail) -> ClusterDefinition:
    """Return the definition with an absolute kubeconfig path. Raises ``fail(…)`` for an invalid value."""
    if written.backend != "existing":
        if written.existing is not None:
            raise fail(
                ("existing",),
                f"is for the backend existing; this one is {written.backend}",
                "Leave it out, or write `backend: existing`.",
            )
        return written
    for section, default in _ITS_MAKERS.items():
        if getattr(written, section) != default:
            raise fail((section,), "is set by whoever made the cluster", "Leave it out, or use the backend local.")
    if written.node_count == 0:
        raise fail(
            ("nodes",),
            "has no node: the first one claims the cluster's name there",
            "Give a pool a `count` of 1 or more.",
        )
    for index, pool in enumerate(written.nodes):
        if not any(taint.effect in _KEEPS_OFF for taint in pool.taints):
            raise fail(
                ("nodes", index),
                "has no taint: other people's pods would be put on simulated nodes",
                "Give it one, as - {key: kwok.x-k8s.io/node, value: fake, effect: NoSchedule}.",
            )
    return _with_kubeconfig(written, path, fail)


def _with_kubeconfig(written: ClusterDefinition, path: Path, fail: Fail) -> ClusterDefinition:
    settings = written.existing
    if settings is None:
        return written
    if settings.in_cluster and (settings.context or settings.kubeconfig):
        raise fail(
            ("existing", "in_cluster"),
            "takes the pod's own credentials, and no context or kubeconfig",
            "Leave these out, or in_cluster.",
        )
    if not settings.kubeconfig:
        return written
    file = (path.parent / settings.kubeconfig).expanduser().resolve()
    if not file.is_file():
        raise fail(("existing", "kubeconfig"), f"no such file: {file}", "Paths are relative to the definition file.")
    return msgspec.structs.replace(written, existing=msgspec.structs.replace(settings, kubeconfig=str(file)))
