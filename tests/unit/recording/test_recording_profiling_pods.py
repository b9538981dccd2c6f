"""Profiles and stacks of a program in pods, read at whichever leads, through the API server."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.endpoints import Credentials
from pytest_grovescale.kube.access import Access
from pytest_grovescale.kube.informer import Followed, ObjectMeta
from pytest_grovescale.operator import webhooks
from pytest_grovescale.recording import journal
from pytest_grovescale.recording.machine import machine
from pytest_grovescale.recording.profiling import pprof
from pytest_grovescale.recording.profiling.capture import ProfileFailed
from pytest_grovescale.recording.profiling.captures import Captures
from pytest_grovescale.recording.profiling.pprof import ApiUrl, Exchange, at_leader
from pytest_grovescale.recording.protocol import ProfileTarget
from pytest_grovescale.recording.record_writer import Ledger, RecorderClock
from pytest_grovescale.recording.records import SCHEMA_VERSION, AnyRecord, Lines, Opened, ProfileTaken, SourceFailed
from pytest_grovescale.recording.scrape_targets import OfFollowed
from tests.connect_proxy import connect_proxy
from tests.serving import Reply, Request, serving

PPROF = OfFollowed(pods="operator", port=6060, path="/debug/pprof")
TARGET = ProfileTarget(process="operator", profiler="pprof", pprof_at=PPROF)
ROUND_S = 0.3

Serve = Callable[[web.Request], Awaitable[web.StreamResponse]]


def pod(name: str) -> Followed:
    return Followed(ObjectMeta(name=name, namespace="robots", uid=name), {"phase": "Running", "podIP": "10.0.0.7"})


class Harness:
    """A ledger on a real journal, and a leader that changes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = folder / "recording.jsonl"
        self.ledger = Ledger(journal.Writer(self.journal), RecorderClock(), lambda update: None)
        at = self.ledger.now()
        self.ledger.add(Opened(at=at, schema_version=SCHEMA_VERSION, run="r", test="t", version="0", machine=machine()))
        self.leader: Followed | None = pod("robot-1")
        self.asked: list[str] = []

    @asynccontextmanager
    async def captures(self, target: ProfileTarget, serve: Serve) -> AsyncIterator[Captures]:
        async def noted(request: web.Request) -> web.StreamResponse:
            self.asked.append(request.path)
            return await serve(request)

        app = web.Application()
        app.router.add_get("/{path:.*}", noted)
        async with TestServer(app) as server:
            access = Access(server=str(server.make_url("")).rstrip("/"), token="secret")
            captures = Captures(
                self.ledger,
                lambda name: None,
                run_folder=self.folder,
                name="test_it",
                reach=lambda wanted: at_leader(wanted, lambda name: self.leader, access),
            )
            captures.add(target)
            yield captures
            await captures.close()

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not holds():  # noqa: ASYNC110 - nothing announces that a profiler is attached
                await asyncio.sleep(0.01)

    def records(self) -> list[AnyRecord]:
        self.ledger.flush()
        return list(journal.read(self.journal))

    def profiles(self) -> list[ProfileTaken]:
        return [record for record in self.records() if isinstance(record, ProfileTaken) and record.kind == "pprof"]

    def failed(self) -> list[SourceFailed]:
        return [record for record in self.records() if isinstance(record, SourceFailed)]


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    monkeypatch.setattr(pprof, "ROUND_S", ROUND_S)
    return Harness(tmp_path)


async def go_program(request: web.Request) -> web.StreamResponse:
    """Profile for as long as is asked, as net/http/pprof does."""
    assert request.headers["Authorization"] == "Bearer secret"
    if "seconds" in request.query:
        await asyncio.sleep(float(request.query["seconds"]))
    return web.Response(body=request.path.rpartition("/")[2].encode())


def test_rounds_follow_one_another_and_the_last_comes_to_its_own_end(
    harness: Harness, snapshot: SnapshotAssertion
) -> None:
    async def run() -> int:
        async with harness.captures(TARGET, go_program) as captures:
            await captures.begin("deploy")
            captures.report()
            await harness.until(lambda: captures.attached and sum("/profile" in path for path in harness.asked) == 3)
            captures.stop()
            stopped = harness.ledger.now()
            await captures.collect()
            return stopped

    stopped = asyncio.run(run())
    assert not harness.failed()
    taken = harness.profiles()
    assert [one.file.rpartition("/")[2] for one in taken] == [
        "deploy-operator-pprof.pb.gz",
        "deploy-operator-pprof-2.pb.gz",
        "deploy-operator-pprof-3.pb.gz",
    ]
    assert all((harness.folder / one.file).read_bytes() == b"profile" for one in taken)
    for before, after in itertools.pairwise(taken):
        assert before.started < before.ended <= after.started
    # It says so that it goes beyond the phase.
    assert taken[-1].ended > stopped
    folders = {path.partition("?")[0].rpartition("/")[0] for path in harness.asked}
    assert "\n".join(sorted(folders)) == snapshot


def test_next_round_is_at_the_next_leader(harness: Harness) -> None:
    async def run() -> None:
        async with harness.captures(TARGET, go_program) as captures:
            await captures.begin("deploy")
            harness.leader = pod("robot-2")
            await harness.until(lambda: captures.attached and any("robot-2" in path for path in harness.asked))
            captures.stop()
            await captures.collect()

    asyncio.run(run())
    assert len(harness.profiles()) == 2
    assert not harness.failed()


def test_no_one_leads(harness: Harness) -> None:
    harness.leader = None

    async def run() -> None:
        async with harness.captures(TARGET, go_program) as captures:
            await captures.begin("deploy")
            captures.report()
            captures.stop()
            await captures.collect()

    asyncio.run(run())
    assert not harness.profiles()
    assert "no pod of operator leads" in harness.failed()[0].message


def test_stacks_of_a_program_that_reports_them(harness: Harness) -> None:
    async def tasks(request: web.Request) -> web.StreamResponse:
        return web.Response(text="Task 1\n  waits")

    reported = ProfileTarget(
        process="operator", profiler="pyspy", stacks_at=OfFollowed(pods="operator", port=1, path="/t")
    )

    async def run() -> None:
        async with harness.captures(reported, tasks) as captures:
            await captures.dump("operator")

    asyncio.run(run())
    (lines,) = [record for record in harness.records() if isinstance(record, Lines)]
    assert lines.lines[:2] == ["Task 1", "  waits"]
    assert any("no process of this host" in line for line in lines.lines)


def test_where_it_is_reached() -> None:
    access = Access(server="https://api:6443/")
    found = at_leader(TARGET, lambda name: pod("robot-1"), access).pprof
    url = "https://api:6443/api/v1/namespaces/robots/pods/robot-1:6060/proxy/debug/pprof"
    assert found == ApiUrl(url, access)
    straight = OfFollowed(
        pods="operator", port=6060, path="/x", via="ip", credentials=Credentials(token_file="t"), scheme="https"
    )
    target = ProfileTarget(process="operator", profiler="pprof", pprof_at=straight)
    reported = at_leader(target, lambda name: pod("a"), access).pprof
    assert reported is not None
    assert not isinstance(reported, ApiUrl)
    assert (reported.url, reported.token_file) == ("https://10.0.0.7:6060/x", "t")
    with pytest.raises(ProfileFailed):
        at_leader(TARGET, lambda name: None, access)


# ---- behind a proxy


async def answered(address: ApiUrl, path: str) -> bytes:
    """Return what an endpoint answers."""
    async with Exchange.opened(address, path) as exchange:
        return b"".join([piece async for piece in exchange.answer()])


def test_the_api_server_is_reached_through_its_proxy(tmp_path: Path) -> None:
    body = b"x" * 300_000
    certificate = webhooks.issue("127.0.0.1")
    webhooks.write(certificate, tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")

    def reply(request: Request) -> Reply:
        return Reply(body=body if request.authorization == "Bearer secret" else b"")

    with serving(reply, tls=context) as port, connect_proxy() as (url, asked):
        server = f"https://127.0.0.1:{port}"
        access = Access(server=server, token="secret", proxy=url, ca_pem=certificate.ca_pem)
        assert asyncio.run(answered(ApiUrl(server, access), "/debug/pprof/heap")) == body
    assert asked == [f"CONNECT 127.0.0.1:{port}"]


def test_a_proxy_that_refuses_is_reported(snapshot: SnapshotAssertion) -> None:
    with serving(lambda request: Reply()) as port:
        access = Access(server="https://api.example:6443", token="secret", proxy=f"http://me:word@127.0.0.1:{port}")
        with pytest.raises(ConnectionRefusedError) as caught:
            asyncio.run(answered(ApiUrl(access.server, access), "/"))
        ours, _, theirs = str(caught.value).partition("HTTP/1")
        assert ours == snapshot
        assert "501" in theirs
