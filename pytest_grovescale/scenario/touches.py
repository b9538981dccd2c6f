"""A touch of one object of each kind: what else a change wakes that concerns this object alone.

A trigger of all objects at once hides which of them wakes which: a queue holds each key once, however many events asked
for it. So one object of each kind, of the workload and of what was made for it, gets an annotation, one after another,
each once the operator is done with the one before. The findings' rules relate what it does then to that one object.

Where the operator watches nodes, so does a simulated one: a kubelet writes the status of each node every few minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..analysis.recording_index import Contents
from ..analysis.result import OPERATOR
from ..cluster import nodes
from ..errors import UsageError
from ..kube.errors import ApiError, NotFound
from ..kube.resources import Resource
from ..recording.records import TOUCH
from .quiescence import cpu_ns, until_done, until_rest
from .running_phase import RunningPhase

if TYPE_CHECKING:
    from .running_test import RunningTest

ANNOTATION = "grovescale.io/touched"

_TOUCH_S = 2.0
"""Maximum wait for the operator to be done with one touch, and then to be at rest; one in a loop never is."""

_CALM_S = 0.3
"""Time without work after which nothing more is expected of a touch: what a short delay puts off is part of it."""


class _Chosen(NamedTuple):
    resource: str
    namespace: str
    name: str


def touch_each_kind(test: RunningTest, name: str, *, timeout: str | float) -> None:
    """See ``Scale.touch_each_kind``."""
    operator = test.operator
    if operator is None:
        raise UsageError(
            "scale.touch_each_kind() waits for an operator, and there is none",
            next_step="Name one: --grovescale-operator=FILE.",
        )
    if test.profiled or (test.runs is not None and not test.runs.touches):
        return
    contents = test.analysis().contents()
    chosen = [*_one_of_each(contents, test), *test.portal.run(_node(contents, test))]
    if not chosen:
        raise UsageError(
            "scale.touch_each_kind() finds no object of the workload", next_step="Call it while a workload is deployed."
        )
    with RunningPhase(test, name, timeout=timeout, profile=False) as phase:
        phase.edges_only()
        phase.begin()
        for number, one in enumerate(chosen, start=1):
            resource = test.portal.run(test.client.resource(one.resource))
            where = f"{one.resource} {one.namespace}/{one.name}"
            asked_ns = cpu_ns(operator)
            test.recorder.mark(TOUCH, state="begin", detail=where)
            if test.watched(_touch(test, resource, one, f"{test.run_id}-{number}")):
                until_done(operator, test.idle_cores, asked_ns, limit_s=_TOUCH_S, wait=phase.pass_time)
                until_rest(operator, test.idle_cores, limit_s=_TOUCH_S, over_s=_CALM_S, wait=phase.pass_time)
            test.recorder.scrape(OPERATOR)
            test.recorder.mark(TOUCH, state="end", detail=where)


async def _node(contents: Contents, test: RunningTest) -> list[_Chosen]:
    """Return a simulated node, where the operator watches nodes."""
    user = contents.opened.identities.get(OPERATOR, "")
    if not any(one.verb == "watch" and one.resource == "nodes" and one.user == user for one in contents.requests):
        return []
    try:
        listing = await test.client.list(nodes.NODES, label_selector=nodes.selector(test.cluster.name))
    except ApiError as error:
        test.progress.say(f"no node was touched: {error.message}")
        return []
    return [_Chosen("nodes", "", node["metadata"]["name"]) for node in listing.items[:1]]


async def _touch(test: RunningTest, resource: Resource, one: _Chosen, value: str) -> bool:
    """Annotate one object; return False where it is gone, or the cluster does not let it be changed, and say so."""
    body = {"metadata": {"annotations": {ANNOTATION: value}}}
    try:
        await test.client.patch(resource, one.name, one.namespace or None, body=body)
    except NotFound:
        return False
    except ApiError as error:
        test.progress.say(f"{one.resource} {one.name} was not touched: {error.message}")
        return False
    return True


def _one_of_each(contents: Contents, test: RunningTest) -> Iterator[_Chosen]:
    """Yield one object of each kind: of the workload's, and of those that were made for it, owners first."""
    names = {(one.namespace or "", one.name) for workload in test.workloads for one in workload.names()}
    there = {uid: one for uid, one in contents.owned.items() if not one.gone and not one.marked}
    # Which namespace a workload's objects are in is known, not which of them have one.
    names |= {("", name) for _, name in names}
    own = {uid for uid, one in there.items() if not one.owner and (one.namespace, one.name) in names}
    chosen: dict[str, _Chosen] = {}
    generation = own
    while generation:
        for uid in sorted(generation, key=lambda uid: there[uid].name):
            one = there[uid]
            chosen.setdefault(one.resource, _Chosen(one.resource, one.namespace, one.name))
        generation = {uid for uid, one in there.items() if one.owner in generation}
    yield from chosen.values()
