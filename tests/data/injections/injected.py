"""The workloads into which faults are injected. Run by name: it is no part of the test suite."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_grovescale import Scale, conditions

# Burns a core until its standard input ends, which it does with this process, however that ends.
_HOG = """
import select
while not select.select([0], [], [], 0)[0]:
    for _ in range(100_000):
        pass
"""
# Starts hogs and ends: then they are no children of the harness, and their CPU time is not counted as its own.
_LAUNCHER = f"""
import subprocess, sys
for _ in range(int(sys.argv[1])):
    subprocess.Popen([sys.executable, "-c", {_HOG!r}], start_new_session=True)
"""


def test_pods(scale: Scale) -> None:
    replicas = scale.parameter("replicas", 60)
    hogs, hogged = scale.parameter("hogs", 0), scale.parameter("hogged", "deploy")
    pcs = scale.workload("pcs.yaml.j2", replicas=replicas, pods_per_replica=2)
    with _hogs(hogs if hogged == "deploy" else 0), scale.phase("deploy", timeout="4m") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", 2 * replicas, ready=True))
        deploy.milestone("pcs-available", pcs.status(availableReplicas=replicas))
        pcs.apply()
    with _hogs(hogs if hogged == "delete" else 0), scale.phase("delete", timeout="4m") as delete:
        delete.milestone("pods-gone", conditions.count("pods", 0))
        delete.milestone("pcs-gone", conditions.gone(pcs))
        pcs.delete()


@contextmanager
def _hogs(each: int) -> Iterator[None]:
    """Let so many other programs want each core."""
    if not each:
        yield
        return
    ends, keeps = os.pipe()
    closed_when_gone, held_by_hogs = os.pipe()
    launcher = [sys.executable, "-c", _LAUNCHER, str(each * len(os.sched_getaffinity(0)))]
    try:
        try:
            subprocess.run(launcher, check=True, stdin=ends, stdout=held_by_hogs)
        finally:
            os.close(ends)
            os.close(held_by_hogs)
        yield
    finally:
        os.close(keeps)
        os.read(closed_when_gone, 1)
        os.close(closed_when_gone)


def test_collection(scale: Scale) -> None:
    """Objects whose owner is deleted: nobody but the garbage collector deletes them."""
    replicas = scale.parameter("replicas", 60)
    owner, *children = (f"owned-{number}" for number in range(2 * replicas + 1))
    with scale.phase("deploy", timeout="2m") as deploy:
        deploy.milestone("made", conditions.count("configmaps", len(children) + 1))
        scale.run(_own(scale, owner, children))
    with scale.phase("delete", timeout="2m") as delete:
        delete.milestone("gone", conditions.count("configmaps", 0))
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


def test_grandchildren(scale: Scale) -> None:
    """Pods of an object that the operator makes for a ConfigMap."""
    pods = scale.parameter("replicas", 60)
    with scale.phase("deploy", timeout="2m") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", pods, ready=True))
        scale.run(_ask(scale, pods))


async def _ask(scale: Scale, pods: int) -> None:
    metadata = {"name": "ask", "namespace": scale.namespace, "labels": {"children": "some"}}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"pods": str(pods)}}
    await scale.client.create(body)
