"""Kubernetes' own controllers as the operator: an identity of its own, TLS, tokens, and what a trigger sets off."""

from __future__ import annotations

import asyncio
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_grovescale import endpoints
from pytest_grovescale.analysis.result import Result
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.endpoints import Address
from pytest_grovescale.exposition.reader import Reader
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.informer import Followed, follow
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.operator import start
from pytest_grovescale.operator.definition import load
from pytest_grovescale.operator.handle import Operator
from pytest_grovescale.operator.schema import Served
from pytest_grovescale.workload import actions, namespace
from pytest_grovescale.workload.template import render

pytestmark = pytest.mark.cluster

SCALE_TESTS = Path(__file__).parents[1] / "scale/test_kube_controller_manager.py"
PODS = 10
KINDS = {"deployment": "Deployment", "statefulset": "StatefulSet", "job": "Job"}
PARAMETERS: dict[str, dict[str, Any]] = {
    "deployment": {"replicas": PODS},
    "statefulset": {"replicas": PODS},
    "job": {"completions": PODS, "run_time": "1h"},
}


@pytest.fixture(params=list(KINDS))
def controller(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def operator(cluster: Cluster, tmp_path: Path, controller: str) -> Iterator[Operator]:
    running = start.start(load(f"kcm-{controller}"), cluster, directory=tmp_path / "logs", progress=lambda text: None)
    yield running
    running.stop()
    running.uninstall()


def get(address: Address | Served | None, path: str = "", *, token: bool = True) -> bytes:
    """Return what an endpoint of the operator answers."""
    assert isinstance(address, Address)
    headers = endpoints.authorization(address) if token else {}
    request = urllib.request.Request(address.url + path, headers=headers)
    with urllib.request.urlopen(request, context=endpoints.ssl_context(address)) as answer:
        body: bytes = answer.read()
    return body


def work_items(operator: Operator, queue: str) -> float:
    series = f'workqueue_work_duration_seconds_count{{name="{queue}"}}'
    return float(Reader().read(get(operator.metrics)).samples[series])


async def settled(client: Client, kind: str, name: str, wanted: dict[str, Any]) -> None:
    """Return when the object of that kind has this status."""
    resource = await client.resource(kind)
    async with asyncio.timeout(60), aclosing(follow(client, resource, name)) as changes:
        async for change in changes:
            if change.object is not None and _has(change.object, wanted):
                return


def _has(found: Followed, wanted: dict[str, Any]) -> bool:
    status = found.status or {}
    return all(status.get(field) == value for field, value in wanted.items())


def forbidden(operator: Operator) -> list[str]:
    """Return the operator's series of requests that its rights did not allow."""
    series = Reader().read(get(operator.metrics)).samples
    return [name for name in series if name.startswith("rest_client_requests_total") and '"403"' in name]


async def pods_made_and_gone(client: Client, controller: str, operator: Operator) -> list[str]:
    """Deploy PODS pods and delete what they belong to; nothing of it is left. Returns what was forbidden."""
    name = await namespace.create(client, test="kcm", run_id="kcm-run")
    workload = render(f"{controller}.yaml.j2", PARAMETERS[controller], namespace=name, run_id="kcm-run").objects
    await actions.apply(client, workload)
    ready = {"ready": PODS} if controller == "job" else {"readyReplicas": PODS}
    await settled(client, KINDS[controller], name, ready)
    await actions.delete(client, workload)
    await actions.wait_gone(client, workload, timeout=60)
    # Now: in a namespace that is on its way out, creates are answered with 403 too.
    refused = forbidden(operator)
    assert await namespace.remove(client, name, objects=workload, at_once=True) == []
    return refused


def test_it_does_its_work_as_its_own_identity(operator: Operator, cluster: Cluster, controller: str) -> None:
    with Portal() as portal:
        refused = portal.run(pods_made_and_gone(portal.client(cluster.access_as("harness")), controller, operator))
    operator.check()
    assert work_items(operator, controller) >= 1
    assert refused == []
    assert operator.identity == f"system:serviceaccount:grovescale-operator:kcm-{controller}"


@pytest.mark.parametrize("controller", ["deployment"], indirect=True)
def test_its_metrics_and_profiles_are_for_its_own_token(operator: Operator) -> None:
    assert b"process_start_time_seconds" in get(operator.metrics)
    assert b"goroutine profile" in get(operator.pprof, "/goroutine?debug=1")
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(operator.metrics, token=False)
    assert refused.value.code == 403
    refused.value.close()


@pytest.mark.parametrize("controller", ["deployment"], indirect=True)
def test_it_is_the_clusters_own_binary(operator: Operator, cluster: Cluster) -> None:
    info = operator.info()
    assert info is not None
    assert Path(f"/proc/{info.pid}/exe").resolve() == Path(cluster.binaries["kube-controller-manager"]).resolve()


@pytest.mark.parametrize(
    ("chosen", "controllers"),
    [
        ("deployment or job_completes", {"deployment", "replicaset", "job", "job_orphan_pod"}),
        pytest.param(
            "statefulset or job_runs", {"statefulset", "job", "job_orphan_pod"}, marks=pytest.mark.long, id="others"
        ),
    ],
)
def test_the_scale_tests_pass_with_few_pods(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, chosen: str, controllers: set[str]
) -> None:
    """As ``make scale-all`` runs them: no-op writes, reconciles by work queue, and what Jobs do to their pods."""
    # Its turn on the machine is among its own runs alone.
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(pytester.path / "state"))
    (pytester.path / "tests").mkdir()
    shutil.copy(SCALE_TESTS, pytester.path / "tests")
    small = [f"--grovescale-param={name}" for name in ("pods=10", "hold=2s")]
    options = ["--grovescale-nodes=2", "--tb=short", "-k", chosen]
    outcome = pytester.runpytest_subprocess("--grovescale", *options, *small, "tests")
    outcome.assert_outcomes(passed=2, deselected=2)
    result = msgspec.json.decode((pytester.path / "reports/latest/result.json").read_bytes(), type=Result)
    rows = [row for test in result.tests for phase in test.phases for row in phase.reconciles]
    assert {row.source for row in rows} == {"work-queue"}
    assert {row.controller for row in rows} == controllers
