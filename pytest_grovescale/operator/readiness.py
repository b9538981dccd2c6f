"""Waiting for a process of ours to be ready: alive, answering, and the one that listens on its port."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .. import procfs
from ..endpoints import Address, authorization, ssl_context
from ..errors import OperatorError

_EVERY_S = 0.05
_ANSWER_S = 2.0


class NotReady(OperatorError):
    """The process is alive, but was not ready in time."""


def wait_until(
    step: Callable[[], str], *, alive: Callable[[], bool], timeout: float, dead: Callable[[], OperatorError]
) -> None:
    """Call ``step`` until it returns an empty string; raise ``dead()`` at once when the process is no longer alive.

    Raises NotReady with the last result of ``step`` after ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        # In this order: a process that dies right after its last answer was not ready.
        problem = step()
        if not alive():
            raise dead()
        if not problem:
            return
        if time.monotonic() >= deadline:
            raise NotReady(problem)
        time.sleep(_EVERY_S)


def answers(address: Address) -> str:
    """Return an empty string if a GET answers 200 to 299, else the error."""
    url = address.url
    try:
        with _open(address) as response:
            return "" if 200 <= response.status < 300 else f"{url} answered {response.status}"
    except urllib.error.HTTPError as error:
        with error:
            body = error.read(200).decode(errors="replace").strip()
        return f"{url} answered {error.code}: {body}"
    except (OSError, urllib.error.URLError) as error:
        return f"{url}: {getattr(error, 'reason', error)}"
    except http.client.HTTPException as error:
        return f"{url} did not answer in HTTP: {error}"


def fetch(address: Address) -> tuple[bytes, str]:
    """Return the body and content type of a GET. Raises OSError for any status but 200 to 299."""
    with _open(address) as response:
        return response.read(), response.headers.get("Content-Type", "")


def _open(address: Address) -> Any:
    # A proxy of the environment must not handle loopback requests.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ssl_context(address))
    )
    request = urllib.request.Request(address.url)
    for name, value in authorization(address).items():
        # Sent to this server only: a redirect may lead anywhere.
        request.add_unredirected_header(name, value)
    return opener.open(request, timeout=_ANSWER_S)


def listens(port: int, host: str = "127.0.0.1") -> str:
    """Return an empty string if the port accepts a connection, else the error."""
    try:
        with socket.create_connection((host, port), timeout=_ANSWER_S):
            return ""
    except OSError as error:
        return f"port {port}: {error}"


def says(log: Path, pattern: str, begin: int) -> str:
    """Return an empty string if a line of a log matches, from this byte on; else what is missing."""
    with contextlib.suppress(FileNotFoundError), log.open("rb") as opened:
        opened.seek(begin)
        lines = opened.read().decode(errors="replace").splitlines()
        if any(re.search(pattern, line) for line in lines):
            return ""
    return f"no line of its log matches readiness.log, {pattern!r}"


def stranger(url: str, pid: int) -> str:
    """Return the process that listens at a loopback URL's port, if it is neither ``pid`` nor its child; else empty."""
    port = urlsplit(url).port
    owners = procfs.listeners(port) if port else None
    if owners is None or any(pid in procfs.lineage(owner) for owner in owners):
        return ""
    names = ", ".join(f"pid {owner}" for owner in sorted(owners)) or "a process of another user"
    return f"port {port} is answered by {names}, not by the operator (pid {pid})"
