"""Objects followed for a whole recording, across refusals and failures of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import Resource
from ..operator.following import Change, follow
from .ledger import Ledger

_REFUSED_S = 5.0
"""Delay before a refused watch is retried, s."""


class Following:
    """Follows objects until cancelled; journals a refusal once, as a failure of ``source``."""

    def __init__(self, client: Client, ledger: Ledger, source: str) -> None:
        self.answered = asyncio.Event()
        """Set when all existing objects were reported, or following was refused."""
        self._client = client
        self._ledger = ledger
        self._source = source

    async def run(self, resource: Resource, namespace: str, take: Callable[[Change], None], **selection: Any) -> None:
        """Pass each change to ``take``. ``selection``: selectors and shape, as for `operator.following.follow`."""
        told = ""
        while True:
            try:
                async with aclosing(follow(self._client, resource, namespace, **selection)) as changes:
                    async for change in changes:
                        take(change)
                        if change.kind == "live":
                            self.answered.set()
            except ApiError as error:
                self.answered.set()
                if error.message != told:
                    told = error.message
                    self._ledger.failed(self._source, f"{resource.plural} cannot be followed: {told}")
            await asyncio.sleep(_REFUSED_S)
