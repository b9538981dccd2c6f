"""The audit log as a source: polled during the recording, drained at the end of a phase."""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path

from ..kube.client import Client
from ..kube.errors import ApiError
from .audit import Tail, parse
from .ledger import Ledger
from .stalls import PROBES

DRAIN_S = 5.0
"""Time limit for a request to appear in the log, s."""

_SILENT_DRAIN_S = 0.2
_ATTEMPT_S = 2.0
_LEAST_FREE_BYTES = 64 << 10


class AuditLog:
    """Turns new lines of the log into records. ``requests`` counts them.

    ``prober``: the recorder's user name; its probes are excluded from all figures.
    """

    def __init__(self, path: Path, client: Client, ledger: Ledger, *, prober: str = "") -> None:
        self._prober = prober
        self.requests = 0
        self._path = path
        self._tail = Tail(path)
        self._client = client
        self._ledger = ledger
        self._awaited = ""
        self._bad_lines = 0
        self._silent = False

    def poll(self) -> None:
        """Journal the requests completed since the last call."""
        try:
            for line in self._tail.poll():
                self._take(line)
        except OSError as error:
            self._tail.lost.append(str(error))
        for sentence in self._tail.lost:
            self._ledger.failed("audit", sentence)
        self._tail.lost.clear()

    async def drain(self) -> None:
        """Journal all requests completed before this call.

        Sends a marker request (for an object that does not exist) and reads the log up to it. When the API server
        answers it and the log never shows it, journals a failure of the source. When the API server does not answer,
        journals what the log holds.
        """
        name = f"grovescale-marker-{secrets.token_hex(8)}"
        self._awaited = name
        answered = await self._mark(name)
        # A log that was silent at the last drain gets a shorter time limit.
        patience = 0.0 if not answered else _SILENT_DRAIN_S if self._silent else DRAIN_S
        deadline = self._ledger.now() + round(patience * 1e9)
        self.poll()
        while self._awaited and self._ledger.now() < deadline:
            await asyncio.sleep(0.005)
            self.poll()
        if answered and self._awaited and not self._silent:
            self._ledger.failed("audit", f"a request of {DRAIN_S:g} s ago is not in the audit log{self._full_disk()}")
        self._silent = answered and bool(self._awaited)
        self._awaited = ""

    def close(self) -> None:
        """Read the remaining lines and close the file."""
        self.poll()
        self._tail.close()

    def _full_disk(self) -> str:
        """Return a message when the log's disk is full: the API server silently drops lines that it cannot write."""
        try:
            disk = os.statvfs(self._path.parent)
        except OSError:
            return ""
        free = disk.f_bavail * disk.f_frsize
        return f": no space left on its disk ({self._path.parent})" if free < _LEAST_FREE_BYTES else ""

    async def _mark(self, name: str) -> bool:
        try:
            await self._client.request("GET", f"/api/v1/namespaces/{name}", timeout=_ATTEMPT_S)
        except ApiError as error:
            # 404 and 403 also count: the request was answered and logged.
            return 400 <= error.code < 500
        return True

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            request = parse(line, self._ledger.now())
        except ValueError as error:
            self._bad_lines += 1
            if self._bad_lines == 1:
                self._ledger.failed("audit", f"a line is no audit event: {error}")
            return
        if request is None or (request.user == self._prober and request.path in PROBES):
            return
        self.requests += 1
        if self._awaited and request.name == self._awaited:
            self._awaited = ""
        self._ledger.add(request)
