"""The nodes on which the run's pods were placed, on a cluster with nodes beside the simulated ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .phase_result import PodPlaces, StrayPod
from .recording_index import Contents

NODE = "spec.nodeName"
PODS = "pods"
STRAYS_SHOWN = 10


def pod_places(contents: Contents) -> PodPlaces | None:
    """Return the placement of pods by the watches; None where every node is simulated, or no watch shows it."""
    made = contents.opened.simulated_nodes
    with_nodes = [
        story
        for story in contents.watches.values()
        if _shows_nodes(story.opened.spec.resource, story.opened.spec.fields)
    ]
    if not made or not with_nodes:
        return None
    nodes = dict(_nodes(contents))
    strays = [StrayPod(pod=f"{pod[0]}/{pod[1]}", node=node) for pod, node in nodes.items() if not simulated(node, made)]
    return PodPlaces(simulated=len(nodes) - len(strays), elsewhere=len(strays), strays=tuple(strays[:STRAYS_SHOWN]))


def simulated(node: str, made: Mapping[str, int]) -> bool:
    """Return whether a node is one of the run's simulated nodes: ``<prefix>-<n>``, n below the prefix's number."""
    prefix, _, number = node.rpartition("-")
    return number.isdecimal() and str(int(number)) == number and int(number) < made.get(prefix, 0)


def _shows_nodes(resource: str, fields: tuple[str, ...]) -> bool:
    return resource == PODS and NODE in fields


def _nodes(contents: Contents) -> Iterator[tuple[tuple[str, str, str], str]]:
    """Yield ((namespace, name, uid), node) of every pod that was ever bound."""
    for story in contents.watches.values():
        if not _shows_nodes(story.opened.spec.resource, story.opened.spec.fields):
            continue
        for (namespace, name), events in story.objects.items():
            for event in events:
                if node := event.fields.get(NODE):
                    yield (namespace, name, event.uid), str(node)
