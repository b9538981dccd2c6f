"""Followed kinds: what is left out since there is too much of it is in the recording."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pytest_grovescale.kube.access import Access
from pytest_grovescale.kube.client import Client
from pytest_grovescale.recording import journal
from pytest_grovescale.recording.followed_objects import MAX_FOLLOWED, FollowedKinds
from pytest_grovescale.recording.protocol import SourceBroke, Update
from pytest_grovescale.recording.record_writer import Ledger, RecorderClock
from pytest_grovescale.recording.records import OBJECTS, Request
from pytest_grovescale.recording.watches import Watches


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
