"""What the defects of /metrics serve: true values in a shape that a review would refuse, and nothing without them."""

from __future__ import annotations

import asyncio
import ssl

import pytest
from prometheus_client.parser import text_string_to_metric_families
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.reference_operator import defects, flawed_metrics, metrics
from pytest_grovescale.reference_operator.api_client import ApiClient
from pytest_grovescale.reference_operator.caches import Caches
from pytest_grovescale.reference_operator.controller import DONE, Controller, Result
from pytest_grovescale.reference_operator.counts import Counts
from pytest_grovescale.reference_operator.credentials import Credentials
from pytest_grovescale.reference_operator.flawed_metrics import Sources
from pytest_grovescale.reference_operator.leaked import Leaked
from pytest_grovescale.reference_operator.objects import CliqueSpec, CliqueStatus, Metadata, PodClique, PodCliqueSet
from pytest_grovescale.reference_operator.step_times import StepTimes, timed

Series = dict[tuple[str, tuple[str, ...]], float]
"""(Name of the sample, values of its labels) → value."""


async def _nothing(_: str) -> Result:
    return DONE


class Endpoint:
    """An operator's metrics with some defects, without the operator."""

    def __init__(self, *names: str) -> None:
        active = defects.parse(names)
        self.controller = Controller("podclique", _nothing, concurrency=1, defects=active)
        self.caches = Caches()
        self.counts = Counts()
        self.steps: StepTimes = {}
        self.leaked = Leaked(self.counts)
        context: ssl.SSLContext | None = None
        api = ApiClient(Credentials(server="http://h:1", ssl_context=context, token="", token_file=None))
        self.registry = metrics.registry([self.controller], api, active)
        sources = Sources([self.controller], self.caches, self.counts, self.steps, self.leaked)
        flawed_metrics.register(self.registry, sources, active)

    def clique(self, name: str, version: int, *, ready: int = 0, gone: bool = False) -> None:
        """Let the cache hear of a clique of one pod."""
        clique = PodClique(
            metadata=Metadata(name=name, namespace="n", uid=name, resource_version=str(version)),
            spec=CliqueSpec(replicas=1),
            status=CliqueStatus(ready_replicas=ready),
        )
        store = self.caches.cliques.store
        store.remove(clique) if gone else store.upsert(clique)

    def scrape(self) -> Series:
        text = metrics.render(self.registry).decode()
        return {
            (sample.name, tuple(sample.labels.values())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if not sample.name.startswith("process_")
        }

    def own(self) -> Series:
        """Return what the endpoint serves beyond what it serves without defects."""
        usual = Endpoint().scrape()
        return {series: value for series, value in self.scrape().items() if series not in usual}


def test_without_defects_there_is_nothing_more() -> None:
    assert Endpoint().own() == {}


def test_namespace_label() -> None:
    endpoint = Endpoint(defects.NAMESPACE_LABEL)
    for number, namespace in enumerate(("a", "a", "b")):
        metadata = Metadata(name=f"s{number}", namespace=namespace, resource_version="1")
        endpoint.caches.sets.store.upsert(PodCliqueSet(metadata=metadata))
    assert endpoint.own() == {
        ("grove_operator_podcliquesets", ("a",)): 2,
        ("grove_operator_podcliquesets", ("b",)): 1,
    }


def test_name_label_is_one_series_for_each_clique_while_it_lives() -> None:
    endpoint = Endpoint(defects.NAME_LABEL)
    for number in range(3):
        endpoint.clique(f"c{number}", 1, ready=number)
    endpoint.clique("c1", 2, gone=True)
    assert endpoint.own() == {
        ("grove_operator_podclique_ready_replicas", ("c0",)): 0,
        ("grove_operator_podclique_ready_replicas", ("c2",)): 2,
    }


def test_function_name_label() -> None:
    endpoint = Endpoint(defects.FUNCTION_NAME_LABEL)
    for _ in range(2):
        with timed(endpoint.steps, Endpoint.scrape):
            pass
    assert endpoint.own()["grove_operator_step_duration_seconds_count", ("Endpoint.scrape",)] == 2


def test_run_id_metric_copies_whatever_labels_there_are(snapshot: SnapshotAssertion) -> None:
    endpoint = Endpoint(defects.RUN_ID_METRIC)
    metadata = Metadata(name="s", namespace="n", resource_version="1", labels={"grovescale.io/run": "20260101-x"})
    endpoint.caches.sets.store.upsert(PodCliqueSet(metadata=metadata))
    text = metrics.render(endpoint.registry).decode()
    (line,) = (line for line in text.splitlines() if line.startswith("grove_operator_podcliqueset_labels{"))
    assert 'run="20260101-x"' in line
    assert line == snapshot


def test_builtin_duplicate_says_what_controller_runtime_says() -> None:
    endpoint = Endpoint(defects.BUILTIN_DUPLICATE)
    endpoint.controller.results.update(success=5, requeue_after=2, error=1)
    endpoint.controller.active = 3
    name = ("podclique",)
    assert endpoint.own() == {
        ("grove_operator_reconciliations_total", name): 8,
        ("grove_operator_requeues_total", name): 2,
        ("grove_operator_reconciliations_in_flight", name): 3,
    }


def test_bad_names() -> None:
    own = Endpoint(defects.BAD_NAMES).own()
    assert {name for name, _ in own} == {"grove_operator_reconcileTime_ms", "grove_operator_pods_gauge"}


def test_coarse_buckets_hold_all_in_one() -> None:
    endpoint = Endpoint(defects.COARSE_BUCKETS)
    for name in ("a", "b"):
        endpoint.clique(name, 1)
        endpoint.clique(name, 2, ready=1)
        # Counted once, however often it becomes available again.
        endpoint.clique(name, 3)
        endpoint.clique(name, 4, ready=1)
    endpoint.clique("c", 1)
    endpoint.clique("c", 2, gone=True)
    own = endpoint.own()
    buckets = [value for (name, _), value in own.items() if name.endswith("_bucket")]
    assert buckets == [2] * 6
    assert 0 < own["grove_operator_podclique_startup_time_seconds_sum", ()] < 5


def test_reset_on_scrape_falls() -> None:
    endpoint = Endpoint(defects.RESET_ON_SCRAPE)
    series = ("grove_operator_pods_created_total", ())
    endpoint.counts.pods_created = 7
    assert endpoint.scrape()[series] == 7
    assert endpoint.scrape()[series] == 0
    endpoint.counts.pods_created = 9
    assert endpoint.scrape()[series] == 2


def test_leak_keeps_every_version_and_its_series() -> None:
    endpoint = Endpoint(defects.LEAK)
    for line in (b'{"object": 1}', b'{"object": 2}'):
        endpoint.leaked.keep("Pod", "a", line)
    endpoint.leaked.keep("PodClique", "a", b"{}")
    assert endpoint.counts.versions_kept == 3
    assert endpoint.own() == {
        ("grove_operator_object_versions", ("Pod", "a")): 2,
        ("grove_operator_object_versions", ("PodClique", "a")): 1,
    }


def test_lazy_series_come_with_the_first_error() -> None:
    endpoint = Endpoint(defects.LAZY_SERIES)
    lazy = ("grove_operator_reconcile_errors_total", "grove_operator_status_update_conflict_total")
    assert not {name for name, _ in endpoint.scrape()} & {*lazy}
    endpoint.controller.error_types["timeout"] += 1
    assert endpoint.scrape()[lazy[0], ("podclique", "timeout")] == 1
    assert not any(name == lazy[1] for name, _ in endpoint.scrape())


@pytest.mark.parametrize(("names", "by_type"), [((), 0), ((defects.ERROR_MISCOUNT,), 1)])
def test_error_miscount_counts_what_is_no_error(names: tuple[str, ...], by_type: int) -> None:
    done = asyncio.Event()

    async def reconcile(_: str) -> Result:
        if done.is_set():
            return DONE
        done.set()
        return Result(requeue_after=60)

    async def run() -> Controller:
        controller = Controller("podclique", reconcile, concurrency=1, defects=defects.parse(names))
        controller.start()
        controller.queue.add("n/a")
        await done.wait()
        await controller.stop(1.0)
        return controller

    controller = asyncio.run(run())
    assert controller.results["requeue_after"] == 1
    assert controller.errors == controller.results["error"] == 0
    assert sum(controller.error_types.values()) == by_type
