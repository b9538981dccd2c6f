"""A process that serves its metrics at another port than it did."""

from __future__ import annotations

import os
import socket
import socketserver
import threading
from contextlib import AbstractContextManager

import pytest

from pytest_grovescale.endpoints import Address
from pytest_grovescale.prometheus import server as moves
from pytest_grovescale.prometheus.server import place_now
from tests import serving as server
from tests.processes import new_descendants
from tests.serving import Reply


@pytest.fixture(autouse=True)
def _no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    new_descendants(monkeypatch, moves)


def serving(*paths: str) -> AbstractContextManager[int]:
    """Answer 200 at these paths, on a port of this very process, and 404 at all others."""
    return server.serving(lambda asked: Reply(status=200 if asked.path in paths else 404))


def at(port: int) -> Address:
    return Address(url=f"http://127.0.0.1:{port}/metrics", token_file="")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


def test_it_stays_where_its_process_listens() -> None:
    with serving("/nothing") as port:
        assert place_now(at(port), os.getpid()) == at(port)


def test_it_is_found_at_the_port_that_answers_so() -> None:
    with serving("/healthz"), serving("/metrics") as moved:
        assert place_now(at(free_port()), os.getpid()) == at(moved)


def test_it_stays_when_no_port_answers_so() -> None:
    before = at(free_port())
    with serving("/healthz"):
        assert place_now(before, os.getpid()) == before


def test_a_port_that_answers_in_no_http_is_passed_over() -> None:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(b"0\n")

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        try:
            with serving("/metrics") as moved:
                assert place_now(at(free_port()), os.getpid()) == at(moved)
            before = at(free_port())
            assert place_now(before, os.getpid()) == before
        finally:
            other.shutdown()
            thread.join()


def test_it_stays_when_its_process_listens_nowhere() -> None:
    before = at(free_port())
    # The first process of all: ours has no listener of it to see, whoever runs this.
    assert place_now(before, 2**22 + 1) == before
