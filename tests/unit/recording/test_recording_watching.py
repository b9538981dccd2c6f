"""A watch against a scripted server: whatever is cut, refused or gone, the records tell the server's state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_grovescale.kube.access import Access
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.errors import ApiError, Gone, Invalid, ServerUnavailable, Status
from pytest_grovescale.kube.watch import INITIAL_EVENTS_END, WatchEvent
from pytest_grovescale.recording import journal
from pytest_grovescale.recording import watch as watch_module
from pytest_grovescale.recording.conditions import WatchSpec
from pytest_grovescale.recording.record_writer import Ledger, RecorderClock
from pytest_grovescale.recording.records import AnyRecord, ObjectSeen, WatchCut, WatchGap, WatchLive, WatchOpened

SPEC = WatchSpec(resource="things", path="/api/v1/things", fields=("data.a",))
UNAVAILABLE = ServerUnavailable(Status(message="connection reset"))
TOO_OLD = Gone(Status(message="too old resource version", code=410))


class Server:
    """A resource with a history. The script: changes before a stream opens, events until it ends, and how it ends."""

    def __init__(self, ends: list[tuple[int, int, ApiError | None]], changes: list[tuple[str, int | None]]) -> None:
        self.objects: dict[str, tuple[str, int, int]] = {}
        self.history: list[tuple[int, str, str, tuple[str, int, int]]] = []
        self.ends = list(ends)
        self.changes = list(changes)
        self.version = 0
        self.quiet = asyncio.Event()

    def change(self) -> None:
        name, value = self.changes.pop(0)
        known = self.objects.get(name)
        if value is None and known is None:
            return
        self.version += 1
        if value is None:
            assert known is not None
            state, kind = (known[0], known[1], self.version), "DELETED"
            del self.objects[name]
        else:
            uid = known[0] if known else f"u{self.version}"
            state, kind = (uid, value, self.version), "MODIFIED" if known else "ADDED"
            self.objects[name] = state
        self.history.append((self.version, kind, name, state))

    async def stream(self, client: Client, path: str, **options: Any) -> AsyncGenerator[list[WatchEvent], None]:
        """Stand in for ``kube.watch.stream``: a change happens for each event that is read."""
        away, left, error = self.ends.pop(0) if self.ends else (0, 10**9, None)
        for _ in range(min(away, len(self.changes))):
            self.change()
        if left == 0 and error:
            raise error
        initial = options["initial_events"]
        seen = self.version if initial else int(options["resource_version"])
        pending = [event("ADDED", name, state) for name, state in self.objects.items()] if initial else []
        if initial:
            pending.append(end_of_initial(seen))
        while left > 0:
            if self.changes:
                self.change()
            pending += [event(kind, name, state) for version, kind, name, state in self.history if version > seen]
            seen = self.version
            if not pending:
                if not self.changes:
                    self.quiet.set()
                    await asyncio.Event().wait()
                continue
            left -= 1
            yield [pending.pop(0)]
        if error:
            raise error


def event(kind: Any, name: str, state: tuple[str, int, int]) -> WatchEvent:
    uid, value, version = state
    meta = {"name": name, "uid": uid, "resourceVersion": str(version)}
    return WatchEvent(kind, msgspec.Raw(msgspec.json.encode({"metadata": meta, "data": {"a": value, "b": 1}})))


def end_of_initial(version: int) -> WatchEvent:
    meta = {"resourceVersion": str(version), "annotations": {INITIAL_EVENTS_END: "true"}}
    return WatchEvent("BOOKMARK", msgspec.Raw(msgspec.json.encode({"metadata": meta})))


async def watch(server: Server, path: Path) -> list[AnyRecord]:
    """Run a watch until the server has nothing more to say; return what was journaled."""
    path.unlink(missing_ok=True)
    ledger = Ledger(journal.Writer(path), RecorderClock(), lambda update: None)
    client = Client(Access(server="http://127.0.0.1:1"))
    task = asyncio.create_task(watch_module.Watch("w1", SPEC, client, ledger).run())
    quiet = asyncio.create_task(server.quiet.wait())
    await asyncio.wait({task, quiet}, return_when=asyncio.FIRST_COMPLETED)
    for each in (task, quiet):
        each.cancel()
    await asyncio.gather(task, quiet, return_exceptions=True)
    ledger.flush()
    return [msgspec.json.decode(line, type=AnyRecord) for line in journal.Reader(path).lines()]


@pytest.mark.parametrize(("kept_ns", "remembered"), [(60_000_000_000, 3), (0, 1)])
def test_what_went_is_remembered_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_ns: int, remembered: int
) -> None:
    monkeypatch.setattr(watch_module, "_GONE_NS", kept_ns)
    server = Server([], [(name, value) for name in "abc" for value in (1, None)])
    monkeypatch.setattr(watch_module, "stream", server.stream)
    made: list[watch_module.Watch] = []

    class Kept(watch_module.Watch):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(watch_module, "Watch", Kept)
    found = asyncio.run(watch(server, tmp_path / "j"))
    assert sum(isinstance(one, ObjectSeen) and one.change == "deleted" for one in found) == 3
    assert len(made[0].gone) == remembered


AWAY, EVENTS = st.integers(0, 5), st.integers(0, 6)
ENDS = st.lists(st.tuples(AWAY, EVENTS, st.sampled_from([None, UNAVAILABLE, TOO_OLD])), max_size=8)
CHANGES = st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 3))), max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ENDS, CHANGES)
def test_records_tell_the_servers_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: list[Any], changes: list[Any]
) -> None:
    async def run() -> tuple[Server, list[AnyRecord]]:
        server = Server(ends, changes)
        monkeypatch.setattr(watch_module, "stream", server.stream)
        monkeypatch.setattr(watch_module, "_BACKOFF_S", (0.0,))
        return server, await watch(server, tmp_path / "j.jsonl")

    server, found = asyncio.run(run())
    reported: dict[str, tuple[str, Any, int]] = {}
    for record in found:
        if not isinstance(record, ObjectSeen):
            continue
        # An object is added before it changes, and gone before another of its name is added.
        assert (record.name in reported) is (record.change != "added")
        assert record.change == "added" or reported[record.name][0] == record.uid
        if record.change == "deleted":
            del reported[record.name]
        else:
            reported[record.name] = (record.uid, record.fields["data.a"], int(record.resource_version))
    assert reported == server.objects
    assert len([r for r in found if isinstance(r, WatchOpened)]) == 1
    lives = [r for r in found if isinstance(r, WatchLive)]
    gaps = [r for r in found if isinstance(r, WatchGap)]
    # A list is complete once at first, and once for each gap.
    assert len(lives) == 1 + len(gaps)
    assert all(r.at >= lives[0].at for r in [*gaps, *(c for c in found if isinstance(c, WatchCut))])


def test_a_server_without_initial_events_is_asked_for_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = Invalid(Status(message="sendInitialEvents is forbidden", code=422))
    pages = {
        "": {"metadata": {"resourceVersion": "7", "continue": "next"}, "items": [thing("a", 5)]},
        "next": {"metadata": {"resourceVersion": "8"}, "items": [thing("b", 6)]},
    }

    async def request(self: Client, method: str, path: str, *, params: dict[str, str], **others: Any) -> bytes:
        return msgspec.json.encode(pages[params.get("continue", "")])

    async def run() -> list[AnyRecord]:
        server = Server([(0, 0, refusal)], [("c", 1)])
        server.version = 8
        monkeypatch.setattr(watch_module, "stream", server.stream)
        monkeypatch.setattr(Client, "request", request)
        return await watch(server, tmp_path / "j.jsonl")

    found = asyncio.run(run())
    assert [r.mode for r in found if isinstance(r, WatchOpened)] == ["list"]
    assert [(r.name, r.initial) for r in found if isinstance(r, ObjectSeen)] == [("a", True), ("b", True), ("c", False)]
    assert [(r.objects, r.resource_version) for r in found if isinstance(r, WatchLive)] == [(2, "8")]


def thing(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}, "data": {"a": 0}}
