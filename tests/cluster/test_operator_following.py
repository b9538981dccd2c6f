"""A collection followed by watch: through cuts, an old resourceVersion, and servers that stream no initial events."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from pytest_grovescale.kube import informer
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.errors import Forbidden, Gone, Invalid, ServerUnavailable, Status
from pytest_grovescale.kube.informer import follow
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.kube.watch import WatchEvent, stream

pytestmark = pytest.mark.cluster

LABEL = "test.grovescale.io/followed"


class Faults:
    """Stands between ``follow`` and the real stream, and breaks that at chosen moments."""

    def __init__(self, *, cut_after: int = 0, raises: list[Exception | None] | None = None) -> None:
        self.opened: list[tuple[str, bool]] = []
        """(resourceVersion, initial events) of each watch that was asked for."""
        self._stream = stream
        self._cut_after = cut_after
        self._raises = raises or []

    async def stream(self, client: Client, path: str, **options: Any) -> AsyncGenerator[list[WatchEvent], None]:
        self.opened.append((options["resource_version"], options["initial_events"]))
        if self._raises and (error := self._raises.pop(0)):
            raise error
        passed = 0
        async with aclosing(self._stream(client, path, **options)) as batches:
            async for event in (event async for events in batches for event in events):
                yield [event]
                passed += 1
                if self._cut_after and not options["initial_events"] and passed == self._cut_after:
                    return
                if self._cut_after and event.type == "BOOKMARK":
                    return


def config_map(group: str, number: int) -> dict[str, Any]:
    metadata = {"name": f"{group}-{number}", "namespace": "default", "labels": {LABEL: group}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def history(client: Client) -> list[str]:
    """Follow three ConfigMaps, one there before, through their lives; return what was seen."""
    group = f"f-{secrets.token_hex(4)}"
    maps = await client.resource("ConfigMap")
    await client.create(config_map(group, 0))
    seen: list[str] = []
    async with (
        asyncio.timeout(60),
        aclosing(follow(client, maps, "default", label_selector=f"{LABEL}={group}")) as all_,
    ):
        async for change in all_:
            name = change.object.metadata.name.removeprefix(f"{group}-") if change.object else ""
            seen.append(f"{change.kind} {name}".strip())
            if change.kind == "live":
                for number in (1, 2):
                    await client.create(config_map(group, number))
                for number in (0, 1, 2):
                    await client.delete(maps, f"{group}-{number}", "default")
            if seen.count("live") and not change.present and change.kind == "gone" and "gone 2" in seen:
                break
    return seen


def status(code: int, reason: str) -> Status:
    return Status(code=code, reason=reason, message=reason)


WHOLE = ["present 0", "live", "present 1", "present 2", "gone 0", "gone 1", "gone 2"]


def test_whole_history(portal: Portal, client: Client) -> None:
    assert portal.run(history(client)) == WHOLE


def test_cut_after_every_event_loses_nothing(portal: Portal, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = Faults(cut_after=1)
    monkeypatch.setattr(informer, "stream", faults.stream)
    assert portal.run(history(client)) == WHOLE
    assert len(faults.opened) == 6
    assert [version != "" for version, _ in faults.opened] == [False, *[True] * 5]


def test_server_without_initial_events(portal: Portal, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = Faults(raises=[Invalid(status(422, "Invalid"))])
    monkeypatch.setattr(informer, "stream", faults.stream)
    assert portal.run(history(client)) == WHOLE
    assert [initial for _, initial in faults.opened] == [True, False]


def test_server_that_is_away_for_a_moment(portal: Portal, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = Faults(raises=[ServerUnavailable(status(0, "refused"))] * 2)
    monkeypatch.setattr(informer, "stream", faults.stream)
    assert portal.run(history(client)) == WHOLE


def test_new_list_after_an_old_resource_version(
    portal: Portal, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What went while nobody watched is told as gone, what came as present; ``live`` comes once."""
    faults = Faults(cut_after=1, raises=[None, Gone(status(410, "Expired"))])
    monkeypatch.setattr(informer, "stream", faults.stream)

    async def missed() -> list[str]:
        group = f"f-{secrets.token_hex(4)}"
        maps = await client.resource("ConfigMap")
        await client.create(config_map(group, 0))
        seen: list[str] = []
        changes = follow(client, maps, "default", label_selector=f"{LABEL}={group}")
        async with asyncio.timeout(60), aclosing(changes):
            async for change in changes:
                seen.append(change.kind)
                if change.kind == "live":
                    await client.delete(maps, f"{group}-0", "default")
                if change.kind == "gone":
                    assert change.present == {}
                    return seen
        raise AssertionError("following never ends by itself")

    assert portal.run(missed()) == ["present", "live", "gone"]
    assert [version != "" for version, _ in faults.opened] == [False, True, False]


def test_what_waiting_cannot_mend_is_raised(portal: Portal, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer, "stream", Faults(raises=[Forbidden(status(403, "Forbidden"))]).stream)
    with pytest.raises(Forbidden):
        portal.run(history(client))
