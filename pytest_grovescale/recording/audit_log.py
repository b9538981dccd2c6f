"""The API server's audit log as a source: followed over rotation, each line reduced to a ``Request``."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs

import msgspec

from .. import redaction
from ..kube.client import Client
from ..kube.errors import ApiError
from .record_writer import Ledger
from .records import UPDATES, Request
from .stalls import PROBES

_CHUNK = 1 << 20

_EXPLAINED = frozenset({400, 403, 413, 422, 500})
"""Answers whose reason is in their message alone; 500 is that of an apply whose field the CRD does not have, too."""
_LONGEST_MESSAGE = 300

Created = Callable[[Request, str], None]


class _User(msgspec.Struct, gc=False):
    username: str = ""


class _ObjectRef(msgspec.Struct, rename={"group": "apiGroup"}, gc=False):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    group: str = ""
    subresource: str = ""


class _Response(msgspec.Struct, gc=False):
    code: int = 0
    message: str = ""
    """The audit log has it at each level (`LogResponseObject`, k8s.io/apiserver/pkg/audit/request.go)."""


class _Event(msgspec.Struct, rename="camel", gc=False):
    """The fields of an ``audit.k8s.io/v1 Event`` that the recorder keeps."""

    stage: Literal["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"]
    verb: str
    request_received_timestamp: str
    stage_timestamp: str
    user: _User = msgspec.field(default_factory=_User)
    impersonated_user: _User | None = None
    object_ref: _ObjectRef | None = None
    response_status: _Response | None = None
    request_uri: str = msgspec.field(default="", name="requestURI")


_decode = msgspec.json.Decoder(_Event).decode


class _Instants:
    """Converts RFC 3339 with microseconds to ns since the epoch; caches the second, which thousands of lines share."""

    def __init__(self) -> None:
        self._seconds: dict[str, int] = {}

    def ns(self, stamp: str) -> int:
        if len(stamp) != 27 or stamp[26] != "Z":
            return _slow_ns(stamp)
        second = stamp[:19]
        epoch = self._seconds.get(second)
        if epoch is None:
            if len(self._seconds) > 1000:
                self._seconds.clear()
            epoch = self._seconds[second] = _slow_ns(second + "Z")
        return epoch + int(stamp[20:26]) * 1000


def _slow_ns(stamp: str) -> int:
    moment = datetime.fromisoformat(stamp)
    if moment.tzinfo is None:
        raise ValueError(f"{stamp!r} names no time zone")
    whole = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (whole.days * 86_400 + whole.seconds) * 10**9 + whole.microseconds * 1000


_instants = _Instants()


def parse(line: bytes, at: int) -> Request | None:
    """Return the request in an audit log line; None for the stage RequestReceived, which adds nothing.

    Raises ValueError (msgspec's errors are such) for a line that is no audit event.
    """
    return _request(_decode(line), at)


def _made_object(request: Request) -> bool:
    made = request.code == HTTPStatus.CREATED and not request.dry_run
    return made and bool(request.resource) and not request.subresource


def _renews_lease(request: Request) -> bool:
    return request.resource == "leases" and request.verb in UPDATES and request.code == HTTPStatus.OK


def _request(event: _Event, at: int) -> Request | None:
    if event.stage == "RequestReceived":
        return None
    ref = event.object_ref or _ObjectRef()
    path, _, query = event.request_uri.partition("?")
    # The impersonated user acts; the impersonator only has the right to impersonate.
    user = event.impersonated_user or event.user
    return Request(
        at=at,
        user=user.username,
        verb=event.verb,
        stage=event.stage,
        group=ref.group,
        resource=ref.resource,
        subresource=ref.subresource,
        namespace=ref.namespace,
        name=ref.name,
        # Without the query: it may hold credentials, and commands run in a container (exec).
        path="" if ref.resource else path,
        code=event.response_status.code if event.response_status else 0,
        received_wall=_instants.ns(event.request_received_timestamp),
        completed_wall=_instants.ns(event.stage_timestamp),
        dry_run="dryRun=" in query and bool(parse_qs(query).get("dryRun")),
        unlimited=event.verb == "list" and "limit=" not in query and "resourceVersion=0" not in query.split("&"),
        unselected=event.verb == "watch" and "Selector=" not in query,
        message=_message(event.response_status, ref.resource),
    )


def _message(response: _Response | None, resource: str) -> str:
    if response is None or response.code not in _EXPLAINED or resource == "secrets":
        return ""
    return redaction.text(response.message)[:_LONGEST_MESSAGE]


class Tail:
    """Reads new lines of a log file from its construction on; follows the file by inode across rotation.

    `poll` yields whole lines without their line ends. It waits for a file that does not exist yet. `lost` lists lines
    that can no longer be read (rotated away and deleted between two polls, or truncated).
    """

    def __init__(self, path: Path, *, from_start: bool = False) -> None:
        self.path = path
        self.lost: list[str] = []
        """Messages about missing lines; the caller that reports them may clear the list."""
        self._fd = -1
        self._offset = 0
        self._rest = b""
        self._skip = False
        if not from_start and path.exists():
            self._open(path)
            self._offset = os.fstat(self._fd).st_size
            # The file may end in a partial line: its remainder is skipped.
            self._skip = self._offset > 0 and os.pread(self._fd, 1, self._offset - 1) != b"\n"

    def poll(self) -> Iterator[bytes]:
        """Yield the lines completed since the last call."""
        if self._fd < 0 and not self._open(self.path):
            return
        yield from self._read()
        while self._rotated():
            # The old file is complete: log rotation renames it before it creates the new file.
            yield from self._read()
            if self._rest:
                self.lost.append(f"{self.path.name} was rotated in the middle of a line")
            following = self._following()
            if not self._open(following):
                return
            yield from self._read()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self, path: Path) -> bool:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        self.close()
        self._fd, self._offset, self._rest, self._skip = fd, 0, b"", False
        return True

    def _read(self) -> Iterator[bytes]:
        size = os.fstat(self._fd).st_size
        if size < self._offset:
            self.lost.append(f"{self.path.name} was cut off at {size} bytes; {self._offset} had been read")
            self._offset, self._rest = 0, b""
        # What is asked for is allocated: a megabyte ten times a second, if it is more than there is.
        while chunk := os.pread(self._fd, min(_CHUNK, size - self._offset), self._offset):
            self._offset += len(chunk)
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            if self._skip and lines:
                del lines[0]
                self._skip = False
            yield from lines

    def _rotated(self) -> bool:
        try:
            now = self.path.stat()
        except FileNotFoundError:
            # Renamed, and the new file does not exist yet: the next poll finds it.
            return False
        ours = os.fstat(self._fd)
        return (now.st_dev, now.st_ino) != (ours.st_dev, ours.st_ino)

    def _following(self) -> Path:
        """Return the file after the one held open, which may itself be rotated already.

        Rotated files carry their time in the name (``audit-2026-01-02T03-04-05.678.log``), so names sort by age.
        """
        ours = os.fstat(self._fd).st_ino
        names = sorted(self.path.parent.glob(f"{self.path.stem}-*{self.path.suffix}"))
        inodes = [_inode(name) for name in names]
        if ours in inodes:
            later = names[inodes.index(ours) + 1 :]
            return later[0] if later else self.path
        if names:
            self.lost.append(f"{self.path.name} was rotated away; lines of files between may be missing")
        return self.path


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return -1


DRAIN_S = 5.0
"""Time limit for a request to appear in the log, s."""

_SILENT_DRAIN_S = 0.2
_ATTEMPT_S = 2.0
_LEAST_FREE_BYTES = 64 << 10


class AuditLog:
    """Turns new lines of the log into records. ``requests`` counts them.

    ``prober``: the recorder's user name; its probes are excluded from all figures. ``created`` is called with each
    request that made an object or renewed a Lease, and the URL path of the object's collection.
    """

    def __init__(
        self,
        path: Path,
        client: Client,
        ledger: Ledger,
        *,
        prober: str = "",
        created: Created | None = None,
    ) -> None:
        self._prober = prober
        self._created = created
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
            event = _decode(line)
            request = _request(event, self._ledger.now())
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
        if self._created is not None and (_made_object(request) or _renews_lease(request)):
            path = event.request_uri.partition("?")[0]
            # Only POST names the collection; an apply (PATCH) or PUT names the object.
            self._created(request, path if request.verb == "create" else path.rpartition("/")[0])
