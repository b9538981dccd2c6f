"""Metrics of Kubernetes' own components: served to those who are let in, scraped by the recorder, at no one's cost."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from pytest_grovescale.analysis.api_requests import category_of
from pytest_grovescale.analysis.metrics.history import MetricsHistory, history_of
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.endpoints import Address
from pytest_grovescale.operator.readiness import fetch
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.scrape_targets import AtUrl, ScrapeTarget
from tests.cluster.recorder.harness import check, recorder
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

AUTHENTICATING = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
OPEN = ("etcd", "kwok")
ITS_OWN = {
    "etcd": "etcd_server_has_leader",
    "kube-apiserver": "apiserver_request_total",
    "kube-controller-manager": "workqueue_adds_total",
    "kube-scheduler": "scheduler_pending_pods",
    "kwok": "go_goroutines",
}
"""Component → a family that tells that it is this one's answer."""


@pytest.fixture(scope="module", autouse=True)
def warm(cluster: Cluster) -> None:
    """A component's first answer takes it longest: on a loaded machine longer than a scrape waits."""

    def answers(address: Address) -> bool:
        try:
            return bool(fetch(address))
        except OSError:
            return False

    for name, address in cluster.metrics.items():
        wait_until(partial(answers, address), f"the first answer of {name}")


def scraped(cluster: Cluster, folder: Path) -> tuple[MetricsHistory, list[rec.AnyRecord]]:
    """Record one phase, at whose edges all components are scraped."""
    audit = str(cluster.audit_log or "")
    with recorder(folder, cluster.access_as("recorder"), audit_log=audit) as running:
        for name, address in cluster.metrics.items():
            running.add_target(ScrapeTarget(name=name, place=AtUrl(address=address)))
        running.begin_phase("scrapes", [], timeout=60)
        running.end_phase("scrapes", "passed")
    found = check(folder / "recording.jsonl")
    return history_of(found), found


def anonymous(endpoint: Address) -> int:
    """Return the status that somebody without a certificate gets."""
    tls = ssl.create_default_context(cafile=endpoint.ca_file) if endpoint.ca_file else None
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
    try:
        with opener.open(endpoint.url, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code


def test_each_is_scraped(cluster: Cluster, tmp_path: Path) -> None:
    history, _ = scraped(cluster, tmp_path)
    assert set(history.targets) == set(ITS_OWN)
    for name, target in history.targets.items():
        assert target.failures == []
        assert [moment.edge for moment in target.moments if moment.edge] == ["start:scrapes", "end:scrapes"]
        surface = target.surface()
        assert ITS_OWN[name] in surface.by_family()
        assert all(family in surface.families for family in surface.by_family()), name


def test_no_review_is_asked_for(cluster: Cluster, tmp_path: Path) -> None:
    _, found = scraped(cluster, tmp_path)
    requests = [record for record in found if isinstance(record, rec.Request)]
    assert any(request.path.startswith("/metrics") for request in requests)
    assert not [request for request in requests if category_of(request) == "review"]


def test_who_shows_no_certificate_is_refused(cluster: Cluster) -> None:
    assert {name: anonymous(cluster.metrics[name]) for name in AUTHENTICATING} == dict.fromkeys(AUTHENTICATING, 403)


def test_who_asks_no_one_listens_on_loopback_alone(cluster: Cluster) -> None:
    assert {name: anonymous(cluster.metrics[name]) for name in OPEN} == dict.fromkeys(OPEN, 200)
    assert all(cluster.metrics[name].url.startswith("http://127.0.0.1:") for name in OPEN)


def test_only_names_of_files_are_reported(cluster: Cluster) -> None:
    for name in AUTHENTICATING:
        key = Path(cluster.metrics[name].key_file)
        assert key.stat().st_mode & 0o077 == 0
        assert key.read_text(encoding="utf-8") not in repr(cluster.metrics)
