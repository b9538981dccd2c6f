"""A real Prometheus: what it answers of targets that are known to the last sample, and what is told when it cannot."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_grovescale.cluster import locks, ports
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.endpoints import Address
from pytest_grovescale.errors import PrometheusError, PrometheusWarning
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.prometheus import opening, server
from pytest_grovescale.prometheus.answers import Answer, Matrix, QueryError, Scalar, Text, Vector
from pytest_grovescale.prometheus.opening import Occasion, Target
from pytest_grovescale.prometheus.statistics import Live, NoData, QueryFailed, Statistics, Value
from tests.serving import Reply, Request, serving
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

INTERVAL_S = 0.2


class Endpoint:
    """A metrics endpoint of this process. ``counter_total`` goes up by 3 with each scrape; every scrape is noted."""

    def __init__(self) -> None:
        self.served: list[tuple[float, int]] = []
        """When a scrape was answered (s since the epoch), and with which value."""
        self.once = True
        """Whether the next scrape finds ``once_total``, which no other does."""
        self.answers = threading.Event()
        """Cleared: scrapes get no answer."""
        self.answers.set()
        self._values = itertools.count(0, 3)
        self._open = contextlib.ExitStack()
        self.address = Address(url=f"http://127.0.0.1:{self._open.enter_context(serving(self._reply))}/metrics")

    def _reply(self, _: Request) -> Reply:
        self.answers.wait()
        return Reply(self.text().encode())

    def text(self) -> str:
        value = next(self._values)
        self.served.append((time.time(), value))
        lines = ["# TYPE level gauge", 'level{name="a"} 7', 'level{name="b"} 0', "# TYPE counter_total counter"]
        lines += [f'counter_total{{name="a"}} {value}', 'counter_total{name="b"} 0']
        if self.once:
            self.once = False
            lines += ["# TYPE once_total counter", "once_total 1"]
        return "\n".join([*lines, ""])

    def close(self) -> None:
        """Listen no longer. Idempotent."""
        self.answers.set()
        self._open.close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def turn(cluster: Cluster) -> Iterator[None]:
    """One Prometheus per cluster: workers that share one take turns."""
    with locks.held(cluster.directory / "prometheus-tests.lock"):
        yield


class Running:
    """A Prometheus under test, asked without a scale test around it."""

    def __init__(self, live: Live, portal: Portal) -> None:
        self.live = live
        self._portal = portal

    def query(self, query: str, at: float | None = None) -> Answer:
        return self._portal.run(self.live.query(query, at=at))

    def vector(self, query: str, at: float | None = None) -> Vector:
        found = self.query(query, at)
        assert isinstance(found, Vector)
        return found

    def statistics(self, **asked: Any) -> Statistics:
        return self._portal.run(self.live.statistics(**asked))

    def scraped(self, times: int) -> None:
        """Wait until it holds so many samples of the counter; there is no vector before the first one."""
        wait_until(
            lambda: self.vector(f'count_over_time(counter_total{{name="a"}}[1h]) >= {times}').samples,
            f"{times} scrapes",
        )


class Opened:
    """Opens them, and keeps what they said."""

    def __init__(self, cluster: Cluster, portal: Portal, folder: Path) -> None:
        self.folder = folder / "kept"
        self.log = folder / "prometheus.log"
        self.said: list[str] = []
        self.reported: list[str] = []
        self._cluster, self._portal = cluster, portal

    @contextlib.contextmanager
    def __call__(
        self, *, keep: bool = False, coming: Sequence[opening.Coming] = (), **targets: Endpoint | Target
    ) -> Iterator[Running]:
        occasion = Occasion(run="r", test="t", folder=self.folder, log=self.log, interval_s=INTERVAL_S)
        named = {
            name: Target(address=target.address) if isinstance(target, Endpoint) else target
            for name, target in targets.items()
        }
        with opening.own(
            self._cluster,
            self._portal,
            named,
            occasion,
            keep=keep,
            progress=self.said.append,
            report=self.reported.extend,
            coming=coming,
        ) as live:
            yield Running(live, self._portal)


@pytest.fixture
def opened(cluster: Cluster, portal: Portal, tmp_path: Path) -> Opened:
    return Opened(cluster, portal, tmp_path)


def test_every_kind_of_answer(opened: Opened, endpoint: Endpoint) -> None:
    with opened(it=endpoint) as running:
        assert running.vector("level").by("name", "job", "instance") == {("a", "it", "it"): 7.0, ("b", "it", "it"): 0.0}
        assert running.query("2 * 21", at=5.0) == Scalar(at=5.0, value=42.0)
        assert isinstance(running.query("'x'"), Text)
        assert isinstance(running.query("level[1m]"), Matrix)
        assert running.vector("nothing_of_this_name").samples == []
        with pytest.raises(QueryError, match="unclosed left parenthesis") as caught:
            running.query("sum(level")
        assert (caught.value.kind, caught.value.line, caught.value.column) == ("bad_data", 1, 10)
    assert opened.reported == []
    assert not opened.folder.exists()


def test_zero_no_data_and_failure(opened: Opened, endpoint: Endpoint) -> None:
    with opened(it=endpoint) as running:
        running.scraped(4)
        counters = ["counter_total", "once_total", "nothing_total", "rate("]
        found = running.statistics(gauge=["level"], increase=counters, rate=counters, by=["name"], window_s=3600)
    assert found.figure("gauge", "level", "a") == Value(7.0)
    assert found.figure("gauge", "level", "b") == Value(0.0)
    for kind in ("increase", "rate"):
        assert found.figure(kind, "counter_total", "b") == Value(0.0)
        assert found.value(kind, "counter_total", "a") > 0
        assert found.figure(kind, "once_total", "") == NoData("fewer than two samples in 60m00s")
        assert found.figure(kind, "nothing_total", "") == NoData("no sample in 60m00s")
        failed = found.figure(kind, "rate(", "a")
        assert isinstance(failed, QueryFailed)
        assert failed.kind == "bad_data"


def test_increase_and_rate_agree_with_what_was_served(opened: Opened, endpoint: Endpoint) -> None:
    """Each sample is one that the endpoint served then; increase() adds no more than its extrapolation to the edges.

    Times come in ms, as JSON numbers: hence the 1e-6.
    """
    window_s = 10 * INTERVAL_S
    with opened(it=endpoint) as running:
        running.scraped(25)
        found = running.statistics(increase=["counter_total"], rate=["counter_total"], by=["name"], window_s=window_s)
        raw = running.query(f'counter_total{{name="a"}}[{round(window_s * 1000)}ms]', at=found.at)
    assert isinstance(raw, Matrix)
    points = [(point.at, float(point.value)) for point in raw.series[0].points]  # type: ignore[arg-type]
    served = {value: at for at, value in endpoint.served}
    for at, value in points:
        # Scrapes follow one another: this one began after the one before was answered.
        assert served.get(int(value) - 3, 0.0) - 0.01 <= at <= served[int(value)] + 0.01
    increase = points[-1][1] - points[0][1]
    covered = points[-1][0] - points[0][0]
    answered = found.value("increase", "counter_total", "a")
    assert increase <= answered <= increase * window_s / covered * (1 + 1e-6)
    assert found.value("rate", "counter_total", "a") == pytest.approx(answered / window_s, rel=1e-9)


def test_series_go_on_when_a_target_has_moved(opened: Opened, endpoint: Endpoint) -> None:
    moved = Endpoint()
    try:
        with opened(it=Target(address=endpoint.address, pid=os.getpid)) as running:
            running.scraped(3)
            endpoint.close()
            wait_until(lambda: len(moved.served) > 2, "scrapes at the new port")
            wait_until(lambda: running.vector('resets(counter_total{name="a"}[1h])').by() == {(): 1.0}, "the reset")
            assert running.vector('count(counter_total{name="a"})').value == 1
    finally:
        moved.close()


def test_components_of_the_control_plane_let_it_in(opened: Opened, cluster: Cluster) -> None:
    """With a client certificate, and the cluster's own authority to vouch for the server."""
    address = cluster.metrics["kube-scheduler"]
    assert address.secure
    with opened(scheduler=Target(address=address)) as running:
        assert running.vector("up").by("job") == {("scheduler",): 1.0}
        assert running.vector("count(scheduler_pending_pods)").value > 0
    assert opened.reported == []


def test_a_target_that_hangs_is_reported_and_delays_no_other(opened: Opened, endpoint: Endpoint) -> None:
    hanging = Endpoint()
    hanging.answers.clear()
    try:
        with opened(it=endpoint, hanging=hanging) as running:
            running.scraped(5)
            assert running.vector("up").by("job") == {("it",): 1.0, ("hanging",): 0.0}
    finally:
        hanging.close()
    # How it ends, as the test closes it, may be a second reason.
    assert {line.partition(":")[0] for line in opened.reported} == {"target hanging is down"}
    assert f"prometheus: {opened.reported[0]}" in opened.said


def test_a_target_that_failed_for_a_while_is_reported(opened: Opened, endpoint: Endpoint) -> None:
    with opened(it=endpoint) as running:
        endpoint.answers.clear()
        wait_until(lambda: running.vector("up").value == 0, "a failed scrape")
        endpoint.answers.set()
        wait_until(lambda: running.vector("up").value == 1, "a scrape")
    (line,) = opened.reported
    assert line.endswith("scrapes of target it failed; it is up again")


def test_credentials_that_are_refused_are_fetched_again(opened: Opened, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first", encoding="utf-8")
    good = ["first"]

    def reply(asked: Request) -> Reply:
        return Reply(b"level 7\n") if asked.authorization == f"Bearer {good[-1]}" else Reply(status=401)

    def renew() -> None:
        token.write_text("second", encoding="utf-8")

    with serving(reply) as port:
        address = Address(url=f"http://127.0.0.1:{port}/metrics", token_file=str(token))
        with opened(it=Target(address=address, renew=renew)) as running:
            wait_until(lambda: running.vector("up").value == 1, "a scrape")
            good.append("second")
            wait_until(lambda: token.read_text(encoding="utf-8") == "second", "fresh credentials")
            wait_until(lambda: running.vector("up").value == 1, "a scrape with these")


def test_no_targets_is_reported(opened: Opened) -> None:
    with opened() as running:
        assert running.vector("up").samples == []
    assert opened.reported == ["it has no targets"]


def test_one_that_is_killed_is_reported_at_once_and_in_the_end(opened: Opened, endpoint: Endpoint) -> None:
    with contextlib.ExitStack() as ending:
        running = ending.enter_context(opened(it=endpoint))
        kill(running.live.server)
        with pytest.raises(PrometheusError, match="prometheus was killed by SIGKILL"):
            running.query("up")
        with pytest.raises(PrometheusError, match="last lines of its log"):
            running.statistics(gauge=["up"], window_s=1)
        with pytest.warns(PrometheusWarning, match="was killed by SIGKILL"):
            ending.close()
    assert any("killed by SIGKILL" in reported for reported in opened.reported)


def kill(running: server.Server | None) -> None:
    assert running is not None
    info = running.info()
    assert info is not None
    os.kill(info.pid, signal.SIGKILL)
    wait_until(lambda: not running.alive(), "the end of the process")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_disk_that_is_full_is_reported(opened: Opened, endpoint: Endpoint) -> None:
    """First it cannot write its samples; a moment later it ends, since a file that it has mapped cannot grow."""
    disk = opened.folder / opening.DATA
    disk.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)], check=True)
    try:
        with contextlib.ExitStack() as ending:
            running = ending.enter_context(opened(it=endpoint, keep=True))
            assert running.live.server is not None
            log = running.live.server.place.log
            with pytest.raises(OSError, match="No space left"):
                (disk / "others").write_bytes(bytes(1 << 20))
            wait_until(lambda: "no space left on device" in log.read_text(encoding="utf-8"), "a full disk")
            with pytest.warns(PrometheusWarning) as warned:
                ending.close()
            words = "\n".join(str(one.message) for one in warned)
            assert any(part in words for part in ("no space left", "the disk is full"))
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
    assert opened.reported


def test_a_port_that_is_taken_is_left(
    opened: Opened, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Between the look for a free port and its use, somebody else may come."""
    taken: list[socket.socket] = []
    lease = ports.lease

    def raced(count: int) -> list[ports.PortLease]:
        found = lease(count)
        if not taken:
            taken.append(socket.create_server(("127.0.0.1", found[0].number)))
        return found

    monkeypatch.setattr(ports, "lease", raced)
    try:
        with opened(it=endpoint) as running:
            assert running.vector("up").value == 1
    finally:
        taken[0].close()
    assert any(line.endswith("once more with another port") for line in opened.said)


def test_a_target_that_cannot_be_let_in_is_reported_and_leaves_nothing(opened: Opened, cluster: Cluster) -> None:
    nowhere = Target(address=Address(url="https://127.0.0.1:1/metrics", ca_file="/no/such/ca.crt"))
    with pytest.raises(PrometheusError, match="No such file") as caught:
        opened(it=nowhere, keep=True).__enter__()
    assert "/no/such/ca.crt" in str(caught.value)
    assert not opened.folder.exists()
    assert not (cluster.directory / server.PROCESS).exists()


def test_a_configuration_that_is_refused_is_reported_and_leaves_nothing(
    opened: Opened, cluster: Cluster, endpoint: Endpoint
) -> None:
    nameless: Any = {"": endpoint}
    with pytest.raises(PrometheusError, match=r"(?s)exited with code \d .*job_name"):
        opened(keep=True, **nameless).__enter__()
    assert not opened.folder.exists()
    assert not (cluster.directory / server.PROCESS).exists()


def test_targets_come_and_go(opened: Opened, endpoint: Endpoint) -> None:
    with opened(it=endpoint) as running:
        own = running.live.server
        assert own is not None
        with pytest.raises(PrometheusError, match=r"refuses its new targets: .*job"):
            own.follow("", endpoint.address)
        own.follow("second", endpoint.address)
        wait_until(lambda: running.vector("up").by("job") == {("it",): 1.0, ("second",): 1.0}, "the second target")
        own.forget("second")
        wait_until(lambda: running.vector("up").by("job") == {("it",): 1.0}, "the end of the second target")


def test_those_that_come_are_found_and_those_that_go_are_left(opened: Opened, endpoint: Endpoint) -> None:
    there = {"pods/a": endpoint.address}
    with opened(coming=[lambda: dict(there)]) as running:
        assert running.vector("up").by("job") == {("pods/a",): 1.0}
        there["pods/b"] = endpoint.address
        wait_until(lambda: running.vector("up").by("job") == {("pods/a",): 1.0, ("pods/b",): 1.0}, "the pod that came")
        del there["pods/a"]
        wait_until(lambda: running.vector("up").by("job") == {("pods/b",): 1.0}, "the end of the pod that went")


def test_kept_data_is_opened_by_another(
    opened: Opened, cluster: Cluster, portal: Portal, endpoint: Endpoint, tmp_path: Path
) -> None:
    with opened(it=endpoint, keep=True) as running:
        running.scraped(5)
        at = running.live.api.now()
        # A sample has the time at which its scrape began: all until then are stored once a later one is.
        wait_until(lambda: running.vector(f"timestamp(counter_total) > {at:.3f}").samples, "a later scrape")
        before = running.vector("counter_total", at).by("name")
        count = running.vector("count_over_time(level[1h])", at).by("name")
    assert {path.name for path in opened.folder.iterdir()} == {"data", "prometheus.yml", "dashboard.json"}
    with _opened_again(opened.folder, cluster, portal, tmp_path) as again:
        assert again.vector("counter_total", at).by("name") == before
        assert again.vector("count_over_time(level[1h])", at).by("name") == count


def test_every_panel_of_the_dashboard_has_data(
    opened: Opened, cluster: Cluster, portal: Portal, endpoint: Endpoint, tmp_path: Path
) -> None:
    # Of one sample there is no rate.
    endpoint.once = False
    with opened(it=endpoint, keep=True) as running:
        running.scraped(10)
        at = running.live.api.now()
    dashboard = json.loads((opened.folder / "dashboard.json").read_text(encoding="utf-8"))
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert {"counter_total", "level", "Up"} <= {panel["title"] for panel in panels}
    with _opened_again(opened.folder, cluster, portal, tmp_path) as again:
        for expression in expressions(panels):
            assert again.vector(expression.replace("$__rate_interval", "1h"), at).samples, expression


def expressions(panels: Sequence[dict[str, Any]]) -> list[str]:
    return [query["expr"] for panel in panels for query in panel["targets"]]


@contextlib.contextmanager
def _opened_again(folder: Path, cluster: Cluster, portal: Portal, scratch: Path) -> Iterator[Running]:
    """Start a Prometheus on kept data, with nothing to scrape."""
    place = server.Place(
        folder=scratch / "again", data=folder / opening.DATA, log=scratch / "again.log", interval_s=INTERVAL_S
    )
    started = server.start(cluster, {}, place, progress=_quiet)
    try:
        with opening.connected(started.address, portal) as api:
            yield Running(Live(api, started), portal)
    finally:
        started.stop()


def test_one_that_is_there_is_asked_by_its_url(
    opened: Opened, portal: Portal, endpoint: Endpoint, tmp_path: Path
) -> None:
    with opened(it=endpoint) as running:
        running.scraped(3)
        occasion = Occasion(run="r", test="t", folder=tmp_path / "there", log=tmp_path / "none")
        with opening.there(running.live.api.address, portal, occasion, progress=_quiet) as live:
            at = live.api.now()
            assert portal.run(live.query("up", at=at)) == running.query("up", at)
            found = portal.run(live.statistics(gauge=["level"], by=["name"], window_s=60))
            assert found.value("gauge", "level", "a") == 7
    written = json.loads((tmp_path / "there/dashboard.json").read_text(encoding="utf-8"))
    assert "level" not in {panel["title"] for panel in written["panels"]}


def test_one_that_is_not_there(portal: Portal, tmp_path: Path) -> None:
    occasion = Occasion(run="r", test="t", folder=tmp_path / "there", log=tmp_path / "none")
    with pytest.raises(PrometheusError, match="cannot be reached"):
        opening.there(Address(url="http://127.0.0.1:1"), portal, occasion, progress=_quiet).__enter__()
    assert not (tmp_path / "there").exists()


def _quiet(text: str) -> None:
    return None
