"""Followed kinds: what is left out since there is too much of it is in the recording."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_grovescale.kube.access import Access
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.errors import Forbidden, Status
from pytest_grovescale.kube.watch import INITIAL_EVENTS_END, WatchEvent
from pytest_grovescale.recording import journal
from pytest_grovescale.recording.conditions import WatchSpec
from pytest_grovescale.recording.followed_objects import MAX_FOLLOWED, FollowedKinds
from pytest_grovescale.recording.machine import machine
from pytest_grovescale.recording.protocol import SourceBroke, Update
from pytest_grovescale.recording.record_writer import Ledger, RecorderClock
from pytest_grovescale.recording.records import (
    OBJECTS,
    SCHEMA_VERSION,
    Closed,
    Declared,
    ObjectSeen,
    Opened,
    Request,
    WatchOpened,
)
from pytest_grovescale.recording.watch import Watch
from pytest_grovescale.recording.watches import Watches


async def definition(client: Client, resource: str, path: str) -> Declared:
    """Stand for the definition of any kind."""
    return Declared(status=["phase", "message"])


def created(number: int, resource: str = "services") -> tuple[Request, str]:
    namespace = f"n-{number}"
    request = Request(at=1, user="op", verb="create", resource=resource, namespace=namespace, name="a", code=201)
    return request, f"/api/v1/namespaces/{namespace}/{resource}"


def left_out(path: Path, collections: int, leases: int) -> list[str]:
    """Return what the recording says of an operator that makes objects in so many namespaces, each twice."""

    reported: list[Update] = []

    async def run() -> None:
        ledger = Ledger(journal.Writer(path), RecorderClock(), reported.append)
        watches = Watches(Client(Access(server="http://127.0.0.1:1")), ledger)
        kinds = FollowedKinds(watches, ledger, operator="op", harness="h", recorder="r")
        for number in [*range(collections), *range(collections)]:
            kinds.created(*created(number))
        for number in range(leases):
            kinds.created(*created(number, "leases"))
        await watches.close()

    asyncio.run(run())
    return [one.message for one in reported if isinstance(one, SourceBroke) and one.source == OBJECTS]


@pytest.mark.parametrize(
    ("collections", "leases", "said"),
    [(MAX_FOLLOWED, 4, []), (MAX_FOLLOWED + 9, 0, ["collections"]), (MAX_FOLLOWED + 1, 9, ["collections", "Leases"])],
)
def test_what_is_left_out_is_said_once(tmp_path: Path, collections: int, leases: int, said: list[str]) -> None:
    messages = left_out(tmp_path / "recording.jsonl", collections, leases)
    assert [one for message in messages for one in said if f" {one} are followed" in message] == said
    assert len(messages) == len(said)


@pytest.mark.parametrize("refused", [False, True])
def test_a_kind_in_many_namespaces_of_the_operators_is_followed_in_all_together(tmp_path: Path, refused: bool) -> None:
    """Unless that is refused; and what is in the test's own namespace stays by itself."""
    opened: list[str] = []

    class Listed(Watches):
        def follow(self, spec: WatchSpec) -> Watch:
            watch = super().follow(spec)
            opened.append(spec.path)
            if refused and spec.path == "/api/v1/services":
                watch.refused = Forbidden(Status(code=403))
            return watch

    async def run() -> None:
        ledger = Ledger(journal.Writer(tmp_path / "recording.jsonl"), RecorderClock(), lambda update: None)
        watches = Listed(Client(Access(server="http://127.0.0.1:1")), ledger)
        kinds = FollowedKinds(watches, ledger, operator="op", harness="h", recorder="r")
        kinds.created(*created(99))
        for number in range(40):
            request, path = created(number)
            own = msgspec.structs.replace(request, resource="namespaces", name=request.namespace)
            kinds.created(own, "/api/v1/namespaces")
            kinds.created(request, path)
        await watches.close()

    asyncio.run(run())
    narrow = [*range(4), *range(5, 40)] if refused else [*range(4)]
    alone = [created(number)[1] for number in [99, *narrow]]
    assert sorted(opened) == sorted([*alone, "/api/v1/services", "/api/v1/namespaces"])


def test_the_end_waits_for_what_the_garbage_collector_is_to_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected, owner_gone, child_there = asyncio.Event(), asyncio.Event(), asyncio.Event()
    owner = {"name": "p", "namespace": "n-0", "uid": "u-p", "resourceVersion": "1"}
    reference = {"uid": "u-p", "kind": "P", "apiVersion": "a.io/v1"}
    child = {"name": "a", "namespace": "n-0", "uid": "u-c", "resourceVersion": "2", "ownerReferences": [reference]}
    end = {"resourceVersion": "2", "annotations": {INITIAL_EVENTS_END: "true"}}

    def event(kind: Any, metadata: dict[str, Any]) -> WatchEvent:
        return WatchEvent(kind, msgspec.Raw(msgspec.json.encode({"metadata": metadata})))

    async def stream(client: Client, path: str, **options: Any) -> AsyncGenerator[list[WatchEvent], None]:
        one = owner if path.endswith("ps") else child
        yield [event("ADDED", one), event("BOOKMARK", end)]
        if one is child:
            child_there.set()
            await collected.wait()
        yield [event("DELETED", one)]
        if one is owner:
            owner_gone.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("pytest_grovescale.recording.watch.stream", stream)
    monkeypatch.setattr("pytest_grovescale.recording.watch.declared", definition)

    async def run() -> int:
        ledger = Ledger(journal.Writer(tmp_path / "recording.jsonl"), RecorderClock(), lambda update: None)
        watches = Watches(Client(Access(server="http://127.0.0.1:1")), ledger)
        kinds = FollowedKinds(watches, ledger, operator="op", harness="h", recorder="r")
        kinds.begin()
        request, path = created(0)
        kinds.created(
            msgspec.structs.replace(request, user="h", resource="ps", group="a.io", name="p"), "/apis/a.io/v1/ps"
        )
        kinds.created(request, path)
        looks = 0

        def quiet_ns() -> int:
            nonlocal looks
            looks += 1
            if looks == 3:
                collected.set()
            return 2_000_000_000

        monkeypatch.setattr(watches, "quiet_ns", quiet_ns)
        # Both are there, and the owner has gone, before the end is waited for.
        async with asyncio.timeout(30):
            await owner_gone.wait()
            await child_there.wait()
            await kinds.settled(60)
        await watches.close()
        return looks

    assert asyncio.run(run()) >= 3


@pytest.mark.parametrize(("resource", "kept"), [("ps.a.io", "Running"), ("services", "")])
def test_what_a_milestone_reads_of_an_operators_kind_is_kept_from_its_first_object_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resource: str, kept: str
) -> None:
    """The log would say too late that it is followed, and an object may never change again."""
    written = asyncio.Event()

    async def stream(client: Client, path: str, **options: Any) -> AsyncGenerator[list[WatchEvent], None]:
        end = {"metadata": {"resourceVersion": "1", "annotations": {INITIAL_EVENTS_END: "true"}}}
        yield [WatchEvent("BOOKMARK", msgspec.Raw(msgspec.json.encode(end)))]
        for version, status in (("2", {}), ("3", {"phase": "Running"})):
            one = {"metadata": {"name": "p", "uid": "u", "resourceVersion": version}, "status": status}
            yield [WatchEvent("ADDED" if not status else "MODIFIED", msgspec.Raw(msgspec.json.encode(one)))]
        written.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("pytest_grovescale.recording.watch.stream", stream)
    monkeypatch.setattr("pytest_grovescale.recording.watch.declared", definition)
    path = tmp_path / "recording.jsonl"

    async def run() -> None:
        ledger = Ledger(journal.Writer(path), RecorderClock(), lambda update: None)
        ledger.add(Opened(at=0, schema_version=SCHEMA_VERSION, run="r", test="t", version="0", machine=machine()))
        watches = Watches(Client(Access(server="http://127.0.0.1:1")), ledger)
        await watches.ensure([WatchSpec(resource=resource, path="/apis/a.io/v1/ps")], 10)
        await written.wait()
        await watches.close()
        ledger.close(Closed(at=ledger.now(), reason="stopped"))

    asyncio.run(run())
    records = list(journal.read(path))
    seen = [record for record in records if isinstance(record, ObjectSeen)]
    assert [record.numbers.get("status.phase", "") for record in seen] == ["", kept]
    # What its definition declares is held against it from the first object on, too.
    assert [record.written for record in seen] == [[], ["phase"] if kept else []]
    assert [one.declared is not None for one in records if isinstance(one, WatchOpened)] == [bool(kept)]
