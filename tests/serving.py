"""A small HTTP server on loopback, whose every answer is the test's."""

from __future__ import annotations

import contextlib
import http.server
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Request(NamedTuple):
    """What was asked."""

    path: str
    body: bytes
    authorization: str = ""


class Reply(NamedTuple):
    """What is answered."""

    body: bytes = b""
    status: int = 200
    content_type: str | None = "text/plain; version=0.0.4"
    encoding: str = ""
    location: str = ""
    length: int | None = None
    """Said of the body, when that is a lie."""


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128


@contextmanager
def serving(replying: Callable[[Request], Reply], *, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve GET and POST by what ``replying`` returns, each in a thread of its own; yield the port.

    One that hangs is the test's to release before the end.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            reply = replying(Request(self.path, body, self.headers.get("Authorization", "")))
            # Whoever asked may have lost patience.
            with contextlib.suppress(OSError):
                self.send_response(reply.status)
                headers = ("Content-Type", reply.content_type), ("Content-Encoding", reply.encoding or None)
                for name, value in (*headers, ("Location", reply.location or None)):
                    if value is not None:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body) if reply.length is None else reply.length))
                self.end_headers()
                self.wfile.write(reply.body)

        do_POST = do_GET  # noqa: N815 - the name that http.server looks for

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    with _Server(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
