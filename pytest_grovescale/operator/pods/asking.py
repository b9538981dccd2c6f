"""Metrics client of the test process for the operator's pods: through the API server, with renewed credentials."""

from __future__ import annotations

from ...kube.access import Access
from ...kube.client import Client
from ...kube.portal import Portal

_ANSWER_S = 5.0
_ACCEPT = "text/plain; version=0.0.4"


class Asking:
    """A client with a persistent connection: some endpoints are read fifty times a second."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._opened: tuple[Portal, Client] | None = None

    def metrics(self, path: str) -> bytes:
        """Return the metrics at a path of the API server. Raises ApiError."""
        portal, client = self._client()
        return portal.run(client.request("GET", path, accept=_ACCEPT, timeout=_ANSWER_S))

    def close(self) -> None:
        """Close it. Idempotent."""
        if self._opened is not None:
            self._opened[0].close()
            self._opened = None

    def _client(self) -> tuple[Portal, Client]:
        if self._opened is None:
            portal = Portal()
            self._opened = portal, portal.client(self._access)
        return self._opened
