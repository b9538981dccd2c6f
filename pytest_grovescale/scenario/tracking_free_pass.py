"""A second pass without the harness' labels and watches on the workload.

The metrics of an operator may depend on being tested: on the run's id in a label, on a namespace named after a test. So
the workload is deleted and applied again, in a namespace with a plain name, its objects without the run's label and its
trigger without the run's id; with a restarted operator, whose counters are all new; outside of all phases and
milestones. It is applied, triggered and deleted, each until the operator is idle, and the endpoint is scraped after
each. Two traces stay: the namespace has the run's label, by which it is found if the run is killed, and the recorder's
watches of the first namespace are still open.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING

from ..analysis.metrics.test_leakage import UNTRACKED, untracked
from ..analysis.result import OPERATOR
from ..cluster.backend import backend
from ..errors import UsageError
from ..kube.client import Client
from ..operator.manifests import Object
from ..recording.scrape_targets import ScrapeTarget
from ..recording.scraping.locators import place_of
from ..workload import actions, namespace
from ..workload.actions import wait_gone
from ..workload.template import render
from .quiescence import idle_cores, until_rest

if TYPE_CHECKING:
    from ..operator.handle import Operator
    from .running_test import RunningTest
    from .workloads import Workload

_GONE_S = 300.0
_STUCK_S = 5.0
_REST_S = 60.0
"""Maximum wait for an idle operator: one in a loop is never idle; it is scraped all the same."""
_REST_OVER_S = 2.0


def measure(test: RunningTest) -> None:
    """Run the pass and journal its scrapes; afterwards the test's workload is gone, and the operator is a new process.

    Raises UsageError for a test without an operator that serves metrics, WorkloadError, and OperatorError when the
    operator does not start or dies.
    """
    operator = test.operator
    metrics = place_of(operator) if operator is not None else None
    if operator is None or metrics is None:
        raise UsageError(
            "there is no endpoint to look at without tracking", next_step="Give the operator definition `metrics:`."
        )
    test.progress.say("once more without tracking, for no_test_leakage()")
    test.recorder.mark(UNTRACKED, state="begin")
    test.recorder.remove_target(OPERATOR)
    applied = [workload for workload in test.workloads if workload.applied]
    test.watched(_remove(test.client, [obj for workload in applied for obj in workload.objects]))
    labels = test.cluster.owner.labels
    place = test.watched(namespace.create(test.client, test=UNTRACKED, run_id=test.run_id, labels=labels))
    objects: list[Object] = []
    try:
        objects += _plain(applied, place)
        operator.restart(test.progress.say)
        test.recorder.add_target(ScrapeTarget(name=untracked(OPERATOR), place=metrics, interval_s=0))
        idle = idle_cores(operator)
        for step in _steps(test.client, objects, operator):
            test.watched(step)
            until_rest(operator, idle, limit_s=_REST_S, over_s=_REST_OVER_S)
            test.recorder.scrape(untracked(OPERATOR))
    finally:
        test.watched(
            namespace.remove(
                test.client,
                place,
                run_id=test.run_id,
                objects=objects,
                # A dead operator removes no finalizers.
                objects_timeout=_GONE_S if operator.alive() else _STUCK_S,
                at_once=not backend(test.cluster.backend).foreign,
                progress=test.progress.say,
            )
        )
        test.recorder.remove_target(untracked(OPERATOR))
        test.recorder.mark(UNTRACKED, state="end")


def _plain(applied: Sequence[Workload], place: str) -> Iterator[Object]:
    """Yield the objects of workloads as a user would write them, in another namespace."""
    for workload in applied:
        source, parameters = workload.rendered.source, workload.rendered.parameters
        rendered = render(
            source,
            parameters,
            namespace=place,
            run_id=UNTRACKED,
            node_labels=workload.rendered.node_labels,
            labelled=False,
        )
        yield from rendered.objects


def _steps(client: Client, objects: list[Object], operator: Operator) -> Iterator[Coroutine[None, None, None]]:
    yield actions.apply(client, objects)
    if operator.trigger_label:
        yield actions.trigger(client, objects, operator.trigger_label, UNTRACKED, part="labels")
    elif operator.trigger:
        yield actions.trigger(client, objects, operator.trigger, UNTRACKED)
    yield _remove(client, objects)


async def _remove(client: Client, objects: list[Object]) -> None:
    await actions.delete(client, objects)
    await wait_gone(client, objects, timeout=_GONE_S)
