"""Scale tests that ask a Prometheus while they run: agreement with the recording, what is kept, how they end."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_grovescale.cluster import locks
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.prometheus import opening, server
from pytest_grovescale.prometheus.answers import Vector
from pytest_grovescale.prometheus.statistics import Live
from tests import forked
from tests.processes import wait_none, written

# Counters of the operator, as Prometheus and as the recorder scraped them. A sample of the one lies between the last
# that the other had before it and the first that it began after it: exactly, since counters only go up.
EQUIVALENCE = """
import time

import pytest
from pytest_grovescale import conditions
from pytest_grovescale.exposition.families import text
from pytest_grovescale.prometheus.answers import Matrix
from pytest_grovescale.recording.records import Scraped

WINDOW_S = 20
COUNTERS = ("controller_runtime_reconcile_total", "workqueue_adds_total")
# Prometheus gives scrapes that are up to 2 ms late the time that they were due at.
ALIGNED_S = 0.002


def recorded(scale):
    "Series -> (s when the scrape began, s when it ended, value) of all scrapes of the operator."
    found, now = {}, {}
    for record in scale.recording():
        if isinstance(record, Scraped) and record.target == "operator":
            for series in record.gone:
                now.pop(series, None)
            now |= record.samples
            for series, value in now.items():
                began = (record.at - record.took_ns) / 1e9
                found.setdefault(series, []).append((began, record.at / 1e9, value))
    return found


def bounds(scrapes, at, longest_s):
    before = [value for _, ended, value in scrapes if ended <= at - ALIGNED_S]
    after = [value for began, _, value in scrapes if began >= at + longest_s + ALIGNED_S]
    return max(before, default=0.0), min(after)


def test_live(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=10, pods_per_replica=2)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", 20, ready=True))
        pcs.apply()
    with scale.phase("steady-state", timeout="60s", idle_twin=True) as steady:
        pcs.trigger_reconcile()
        steady.hold("8s")
    with scale.phase("again", timeout="60s") as again:
        pcs.trigger_reconcile()
        found = scale.statistics(
            gauge=["workqueue_depth"],
            increase=COUNTERS,
            rate=COUNTERS,
            by=["name", "controller", "result"],
            window=WINDOW_S,
        )
        raw = scale.promql('{__name__=~"%s",job="operator"}[%ds]' % ("|".join(COUNTERS), WINDOW_S), at=found.at)
        longest_s = scale.promql(f"max_over_time(scrape_duration_seconds[{WINDOW_S}s])", at=found.at).value
        assert scale.promql("up").by("job") == {("operator",): 1.0}
        again.hold("1s")  # the recorder scrapes once more after the last scrape of Prometheus
    assert not found.failed
    assert isinstance(raw, Matrix)
    scrapes, compared, moved = recorded(scale), 0, 0.0
    for series in raw.series:
        if len(series.points) < 2:
            continue
        name, labels = series.labels["__name__"], dict(series.labels)
        for added in ("__name__", "job", "instance"):
            labels.pop(added)
        mine = scrapes[text(name, labels)]
        (first_at, first), (last_at, last) = series.points[0], series.points[-1]
        low_first, high_first = bounds(mine, first_at, longest_s)
        low_last, high_last = bounds(mine, last_at, longest_s)
        assert low_first <= first <= high_first
        assert low_last <= last <= high_last
        increase = last - first
        assert low_last - high_first <= increase <= high_last - low_first
        group = [labels.get(label, "") for label in found.by]
        answered, rate = found.value("increase", name, *group), found.value("rate", name, *group)
        # No more than extrapolated from the samples to the edges of the window.
        assert increase <= answered * (1 + 1e-6)
        assert answered <= increase * WINDOW_S / (last_at - first_at) * (1 + 1e-6)
        assert rate * WINDOW_S == pytest.approx(answered, rel=1e-9)
        compared, moved = compared + 1, moved + increase
    assert compared >= 10
    assert moved > 0
"""

ENDS = """
import os
import signal
from pathlib import Path

import pytest


@pytest.mark.grovescale(nodes=2, prometheus="start")
def test_it(scale):
    with scale.phase("hold", timeout="5m") as hold:
        hold.hold("4m" if scale.parameter("stop", "") else "0s")
        if scale.parameter("stop", ""):
            Path("here").write_text(scale.prometheus.api.address.url)
        if scale.parameter("kill", ""):
            os.kill(scale.prometheus.server.info().pid, signal.SIGKILL)
    if scale.parameter("ask", ""):
        scale.promql("up")
"""


def run(pytester: pytest.Pytester, cluster: Cluster, test: str, *arguments: str) -> pytest.RunResult:
    """Run one test file against the running cluster, in a process of its own."""
    pytester.makepyfile(test)
    return pytester.runpytest_subprocess("--grovescale", f"--grovescale-cluster={cluster.name}", *arguments)


@pytest.fixture
def turn(running_cluster: Cluster) -> Iterator[None]:
    """One Prometheus per cluster."""
    with locks.held(running_cluster.directory / "prometheus-tests.lock"):
        yield


@pytest.mark.cluster
def test_prometheus_and_the_recorder_agree_and_the_data_is_kept(
    pytester: pytest.Pytester, running_cluster: Cluster, turn: None
) -> None:
    outcome = run(
        pytester,
        running_cluster,
        EQUIVALENCE,
        "--grovescale-prometheus=keep",
        "--grovescale-prometheus-interval=700ms",
    )
    outcome.assert_outcomes(passed=1)
    (kept,) = (pytester.path / "reports/latest/prometheus").iterdir()
    assert {path.name for path in kept.iterdir()} == {"data", "prometheus.yml", "dashboard.json"}
    dashboard = json.loads((kept / "dashboard.json").read_text(encoding="utf-8"))
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert {"Reconciles", "Time of a reconcile", "Depth", "Requests", "CPU", "Up"} <= {p["title"] for p in panels}
    assert _without_data(kept, panels, running_cluster, pytester.path) == []
    assert str(pytester.path) not in (kept / "dashboard.json").read_text(encoding="utf-8")


def _without_data(kept: Path, panels: list[dict[str, Any]], cluster: Cluster, scratch: Path) -> list[str]:
    """Return the queries of the dashboard that a Prometheus on the kept data has no answer to.

    At any time of the run: a scrape that comes after the operator's end marks its series as stale.
    """
    place = server.Place(folder=scratch / "again", data=kept / opening.DATA, log=scratch / "again.log", interval_s=1.0)
    started = server.start(cluster, {}, place, progress=_quiet)
    try:
        with Portal() as portal, opening.connected(started.address, portal) as api:
            live = Live(api, started)
            found = {
                query["expr"]: portal.run(
                    live.query(f"last_over_time(({query['expr'].replace('$__rate_interval', '10m')})[10m:1s])")
                )
                for panel in panels
                for query in panel["targets"]
            }
    finally:
        started.stop()
    return [text for text, answer in found.items() if not (isinstance(answer, Vector) and answer.samples)]


@pytest.mark.cluster
def test_without_one_the_test_is_reported_how_to_have_one(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    outcome = run(pytester, running_cluster, "def test_it(scale):\n    scale.promql('up')\n")
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(["*this run has no Prometheus*", "*--grovescale-prometheus=start*"])


@pytest.mark.cluster
def test_one_that_dies_is_reported(pytester: pytest.Pytester, running_cluster: Cluster, turn: None) -> None:
    pytester.makeini("[pytest]\n")
    outcome = run(pytester, running_cluster, ENDS, "--grovescale-param=kill=1")
    outcome.assert_outcomes(passed=1, warnings=1)
    outcome.stdout.fnmatch_lines(["*PrometheusWarning: *killed by SIGKILL*"])
    outcome = run(pytester, running_cluster, ENDS, "--grovescale-param=kill=1", "--grovescale-param=ask=1")
    outcome.assert_outcomes(errors=1, warnings=1)
    outcome.stdout.fnmatch_lines(["prometheus was killed by SIGKILL*"])


@pytest.mark.cluster
def test_one_that_is_there_is_used_and_left_alone(
    pytester: pytest.Pytester, running_cluster: Cluster, turn: None, tmp_path: Path
) -> None:
    place = server.Place(folder=tmp_path / "own", data=tmp_path / "data", log=tmp_path / "log", interval_s=1.0)
    started = server.start(running_cluster, {}, place, progress=_quiet)
    try:
        outcome = run(
            pytester,
            running_cluster,
            "def test_it(scale):\n    assert scale.promql('1 + 1').value == 2\n",
            f"--grovescale-prometheus={started.address.url}",
        )
        outcome.assert_outcomes(passed=1)
        assert started.alive()
    finally:
        started.stop()


@pytest.mark.cluster
@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGKILL])
def test_nothing_is_left_when_a_run_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "test_it.py").write_text(ENDS, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    os.mkfifo(tmp_path / "here")
    options = ["--grovescale", "-p", "no:cacheprovider", "--grovescale-param=stop=1"]
    process = forked.Process("pytest", options, cwd=tmp_path)
    assert written(tmp_path / "here", process).startswith("http://127.0.0.1:")
    process.send_signal(number)
    output, _ = process.communicate(timeout=180)
    wait_none(str(tmp_path))
    assert "Traceback" not in output
    assert not list((tmp_path / "state/clusters").iterdir())
    assert not (tmp_path / "reports/latest/prometheus").exists()


def test_wrong_words_are_reported_before_anything_starts(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(scale): pass")
    for argument, message in (
        ("--grovescale-prometheus=yes", "*--grovescale-prometheus yes: use `start`, `keep`, `off` or the URL*"),
        ("--grovescale-prometheus-interval=0s", "*--grovescale-prometheus-interval 0s: use 100ms or more*"),
    ):
        outcome = pytester.runpytest_subprocess("--grovescale", argument)
        assert outcome.ret == pytest.ExitCode.USAGE_ERROR
        outcome.stderr.fnmatch_lines([message])
    pytester.makepyfile("import pytest\n@pytest.mark.grovescale(prometheus='maybe')\ndef test_it(scale): pass\n")
    outcome = pytester.runpytest_subprocess("--grovescale")
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    outcome.stderr.fnmatch_lines(["*prometheus maybe: use `start`*"])


def _quiet(text: str) -> None:
    return None
