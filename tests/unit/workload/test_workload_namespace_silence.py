"""A namespace whose API server no longer answers: what becomes of it is said."""

from __future__ import annotations

import asyncio
import re

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import WorkloadError
from pytest_grovescale.kube.access import Access
from pytest_grovescale.kube.client import Client
from pytest_grovescale.workload import namespace


def test_what_becomes_of_it_is_reported(snapshot: SnapshotAssertion) -> None:
    async def run() -> None:
        # Port 1: nobody listens there.
        async with Client(Access(server="http://127.0.0.1:1")) as client:
            await namespace.remove(client, "left-1")

    with pytest.raises(WorkloadError, match="left-1") as caught:
        asyncio.run(run())
    assert "grovescale down --all" in caught.value.next_step
    assert re.sub(r"Cannot connect .*", "<reason>", str(caught.value)) == snapshot
