"""A namespace for each test, so that tests of several workers are separate on the cluster that they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..cluster.handle import Cluster
from ..kube.client import Client
from ..kube.portal import Portal
from ..operator.manifests import Object
from ..workload import namespace

Say = Callable[[str], None]

_WITHOUT_OPERATOR_S = 5.0
"""Time for objects to go without an operator that removes their finalizers, s."""


def make(portal: Portal, client: Client, cluster: Cluster, *, test: str, run_id: str) -> str:
    """Create a namespace for a test and return its name. Raises WorkloadError."""
    made = namespace.create(client, test=test, run_id=run_id, lease_id=cluster.lease_id, labels=cluster.owner.labels)
    return portal.run(made)


def remove(
    portal: Portal,
    client: Client,
    cluster: Cluster,
    name: str,
    *,
    run_id: str,
    objects: Sequence[Object] = (),
    operator_lives: bool = True,
    failed: bool = False,
    say: Say,
) -> None:
    """Remove a test's namespace, its ``objects`` first, and return when it is gone. Raises WorkloadError.

    ``failed``: a phase did not pass; work that the operator did not finish in that phase is not waited for: on a
    cluster that ends with the run, finalizers are removed without it.
    """
    hurry = (
        {}
        if operator_lives and not (failed and not cluster.standing and not cluster.others_use_it)
        else {"objects_timeout": _WITHOUT_OPERATOR_S, "timeout": _WITHOUT_OPERATOR_S}
    )
    portal.run(
        namespace.remove(
            client,
            name,
            run_id=run_id,
            objects=objects,
            **hurry,
            at_once=cluster.backend != "existing",
            progress=say,
        )
    )
