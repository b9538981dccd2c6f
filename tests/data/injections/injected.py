"""The workloads into which faults are injected. Run by name: it is no part of the test suite."""

from __future__ import annotations

from pytest_grovescale import Scale, count, gone


def test_pods(scale: Scale) -> None:
    replicas = scale.parameter("replicas", 60)
    pcs = scale.workload("pcs.yaml.j2", replicas=replicas, pods_per_replica=2)
    with scale.phase("deploy", timeout="2m") as deploy:
        deploy.milestone("pods-ready", count("pods", 2 * replicas, ready=True))
        deploy.milestone("pcs-available", pcs.status(availableReplicas=replicas))
        pcs.apply()
    with scale.phase("delete", timeout="2m") as delete:
        delete.milestone("pods-gone", count("pods", 0))
        delete.milestone("pcs-gone", gone(pcs))
        pcs.delete()


def test_collection(scale: Scale) -> None:
    """Objects whose owner is deleted: nobody but the garbage collector deletes them."""
    replicas = scale.parameter("replicas", 60)
    owner, *children = (f"owned-{number}" for number in range(2 * replicas + 1))
    with scale.phase("deploy", timeout="2m") as deploy:
        deploy.milestone("made", count("configmaps", len(children) + 1))
        scale.run(_own(scale, owner, children))
    with scale.phase("delete", timeout="2m") as delete:
        delete.milestone("gone", count("configmaps", 0))
        scale.run(_delete(scale, owner))


async def _own(scale: Scale, owner: str, children: list[str]) -> None:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    made = await scale.client.create(kind | {"metadata": {"name": owner, "namespace": scale.namespace}})
    reference = kind | {"name": owner, "uid": made["metadata"]["uid"], "controller": True}
    for name in children:
        metadata = {"name": name, "namespace": scale.namespace, "ownerReferences": [reference]}
        await scale.client.create(kind | {"metadata": metadata})


async def _delete(scale: Scale, owner: str) -> None:
    await scale.client.delete(await scale.client.resource("configmaps"), owner, scale.namespace)
