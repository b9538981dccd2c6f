"""What the recorder's tests share: a recorder on a plane, objects to write, and what must be true of any journal."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pytest_grovescale.kube.access import Access
from pytest_grovescale.procfs import started_ticks
from pytest_grovescale.recording import journal, records
from pytest_grovescale.recording.conditions import Count, FieldTest, Predicate, WatchSpec
from pytest_grovescale.recording.evaluation import Engine
from pytest_grovescale.recording.machine import machine
from pytest_grovescale.recording.protocol import PhaseComplete, Update
from pytest_grovescale.recording.recorder import Recorder, RecorderConfig

U = TypeVar("U")


def opened() -> records.Opened:
    return records.Opened(
        at=0, schema_version=records.SCHEMA_VERSION, run="r", test="t", version="0", machine=machine(), audited=True
    )


def config(folder: Path, access: Access, **others: Any) -> RecorderConfig:
    own = {"harness": (os.getpid(), started_ticks(os.getpid()))}
    return RecorderConfig(
        journal=str(folder / "recording.jsonl"), opened=opened(), access=access, extra_processes=own, **others
    )


@contextmanager
def recorder(folder: Path, access: Access, **others: Any) -> Iterator[Recorder]:
    """A recorder; when it was stopped its journal is checked for what must be true of every one."""
    running = Recorder.start(config(folder, access, **others), log=folder / "recorder.log")
    try:
        yield running
    finally:
        running.stop()
    check(running.journal)
    assert (folder / "recorder.log").read_text() == ""


def check(path: Path) -> list[records.AnyRecord]:
    """Whatever happened: times never go back, a replay gives the same milestones, each object's story is sound."""
    found = list(journal.read(path))
    times = [record.at for record in found]
    assert times == sorted(times)
    engine = Engine()
    replayed = [met for record in found for met in engine.feed(record)]
    assert replayed == [record for record in found if isinstance(record, records.MilestoneMet)]
    present: set[tuple[str, str, str]] = set()
    for seen in (record for record in found if isinstance(record, records.ObjectSeen)):
        key = (seen.watch, seen.namespace, seen.name)
        assert (key in present) is (seen.change != "added"), seen
        (present.discard if seen.change == "deleted" else present.add)(key)
    return found


def of(found: list[records.AnyRecord], kind: type[U]) -> list[U]:
    return [record for record in found if isinstance(record, kind)]


def until(running: Recorder, kind: type[U], *, seconds: float = 30, **having: Any) -> U:
    """Return the next update of a kind with these attributes."""
    deadline = time.monotonic() + seconds
    heard: list[Update] = []
    while time.monotonic() < deadline:
        update = running.wait(deadline - time.monotonic())
        if update is None:
            continue
        heard.append(update)
        if isinstance(update, kind) and all(getattr(update, key) == value for key, value in having.items()):
            return update
    raise AssertionError(f"no {kind.__name__} {having} within {seconds:g} s, but {heard}")


def complete(running: Recorder, phase: str) -> None:
    until(running, PhaseComplete, phase=phase)


class Maps:
    """ConfigMaps of one namespace: the plainest objects there are."""

    def __init__(self, control_plane: Any, namespace: str) -> None:
        self.control_plane = control_plane
        self.namespace = namespace
        self.path = f"/api/v1/namespaces/{namespace}/configmaps"
        self.watch = WatchSpec(resource="configmaps", path=self.path, fields=("data.a",))
        control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})

    def create(self, name: str, value: str = "x") -> None:
        self.control_plane.request("POST", self.path, {"metadata": {"name": name}, "data": {"a": value}})

    def change(self, name: str, value: str) -> None:
        body = {"data": {"a": value}}
        self.control_plane.request("PATCH", f"{self.path}/{name}", body, kind="application/merge-patch+json")

    def delete(self, name: str) -> None:
        self.control_plane.request("DELETE", f"{self.path}/{name}")

    def count(self, n: int, **others: Any) -> Count:
        return Count(watch=self.watch, n=n, **others)

    def having(self, value: str, n: int) -> Count:
        return self.count(n, where=Predicate(tests=(FieldTest(path="data.a", value=value),)))
