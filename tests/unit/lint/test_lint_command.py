"""``grovescale lint-metrics``: what it prints, its exit codes, and endpoints that mean it ill."""

from __future__ import annotations

import gzip
import json
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cli import main
from pytest_grovescale.operator import webhooks
from tests.golden import masked

from .surfaces import BAD, HEAD, HEAD_PROTOBUF, family

TEXT = b"# HELP my_things Things.\n# TYPE my_things gauge\nmy_things 1\n"
PLAIN = b"Content-Type: text/plain; version=0.0.4\r\n"

Answer = Callable[[socket.socket, bytes], None]
"""Answers a request, of which it gets the head."""


@contextmanager
def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve one connection after another on loopback, each with ``answer``; yield the URL."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        stop = threading.Event()

        def accept() -> None:
            while not stop.is_set():
                connection, _ = server.accept()
                with connection:
                    if not stop.is_set():
                        connection.settimeout(10)
                        _swallow(connection, answer, tls)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"{'https' if tls else 'http'}://127.0.0.1:{server.getsockname()[1]}/metrics"
        finally:
            stop.set()
            socket.create_connection(server.getsockname()).close()
            thread.join()


def _swallow(connection: socket.socket, answer: Answer, tls: ssl.SSLContext | None) -> None:
    try:
        if tls is not None:
            connection = tls.wrap_socket(connection, server_side=True)
        asked = b""
        while b"\r\n\r\n" not in asked:
            asked += connection.recv(65_536)
        answer(connection, asked)
        connection.close()
    except OSError:
        # The client has seen enough: that is what is tested.
        return


def reply(body: bytes, headers: bytes = PLAIN, status: bytes = b"200 OK") -> Answer:
    head = b"HTTP/1.1 %b\r\nContent-Length: %d\r\nConnection: close\r\n%b\r\n" % (status, len(body), headers)
    return lambda connection, _: connection.sendall(head + body)


def endless(piece: bytes) -> Answer:
    def answer(connection: socket.socket, _: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + PLAIN + b"\r\n")
        while True:
            connection.sendall(piece)

    return answer


def hanging(connection: socket.socket, _: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + PLAIN + b"\r\n# HELP")
    # Until the client goes away.
    connection.recv(1)


def bomb(connection: socket.socket, asked: bytes) -> None:
    # Packed when it is sent: every worker imports this file.
    packed = gzip.compress(b"# " + b"x" * (80 << 20), compresslevel=1)
    reply(packed, PLAIN + b"Content-Encoding: gzip\r\n")(connection, asked)


@pytest.mark.parametrize(
    ("answer", "options", "says"),
    [
        (endless(b"my_things{x=\"" + b"y" * 8000 + b"\"} 1\n"), (), "at most 67,108,864 bytes are read"),
        (hanging, ("--timeout", "0.3"), " 0.3 s"),
        (bomb, (), "at most 67,108,864 bytes are read"),
        (reply(gzip.compress(TEXT)[:-5], PLAIN + b"Content-Encoding: gzip\r\n"), (), "cut off"),
        (reply(b"<html>Log in</html>", b"Content-Type: text/html\r\n"), (), "expected metrics, found text/html"),
        (reply(b"\x89PNG\r\n\x1a\n\x00", b"Content-Type: image/png\r\n"), (), "expected metrics, found image/png"),
        (reply(b""), (), "no metrics at all"),
        (reply(b"", status=b"401 Unauthorized"), (), "--bearer-token-file"),
        (reply(b"", status=b"403 Forbidden"), (), "nonResourceURLs"),
        (reply(b"", status=b"404 Not Found"), (), "often /metrics"),
        (reply(b"", b"Location: /other\r\n", status=b"302 Found"), (), "It leads to /other"),
        (lambda connection, _: None, (), "disconnected"),
    ],
    ids=["endless", "hanging", "bomb", "cut-gzip", "html", "png", "empty", "401", "403", "404", "302", "gone"],
)  # fmt: skip
def test_endpoints_that_are_none_are_reported(
    answer: Answer, options: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    with serving(answer) as url:
        assert main(["lint-metrics", url, *options]) == 3
    out, err = capsys.readouterr()
    assert (out, says in err, err.count("\n") <= 2) == ("", True, True), err
    assert masked(err, {url: "url"}) == snapshot


def test_noise_is_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(reply(os.urandom(4096), b"Content-Type: application/octet-stream\r\n")) as url:
        assert main(["lint-metrics", url]) == 3
    out, err = capsys.readouterr()
    assert (out, err.startswith(f"grovescale: {url}"), err.count("\n") <= 2) == ("", True, True), err


@pytest.mark.parametrize(
    ("location", "code"),
    [(b"/metrics/", 0), (b"metrics/", 0), (b"http://127.0.0.2:1/metrics/", 3), (b"mailto:someone", 3)],
)
def test_a_redirect_is_followed_on_its_server_alone(
    location: bytes, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(connection: socket.socket, asked: bytes) -> None:
        there = asked.startswith(b"GET /metrics/ ")
        moved = reply(b"", b"Location: %b\r\n" % location, status=b"301 Moved Permanently")
        (reply(TEXT) if there else moved)(connection, asked)

    with serving(answer) as url:
        assert main(["lint-metrics", url]) == code
    assert (location.decode() in capsys.readouterr().err) == (code == 3)


@pytest.mark.parametrize("packed", [False, True])
def test_an_endpoint_is_read(packed: bool, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    headers = PLAIN + b"Content-Encoding: gzip\r\n" if packed else PLAIN
    with serving(reply(gzip.compress(TEXT) if packed else TEXT, headers)) as url:
        assert main(["lint-metrics", url]) == 0
    assert masked(capsys.readouterr().out, {url: "url"}) == snapshot


def test_the_token_is_sent(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n", "utf-8")

    def answer(connection: socket.socket, asked: bytes) -> None:
        let_in = b"Authorization: Bearer s3cret\r\n" in asked
        reply(TEXT, status=b"200 OK" if let_in else b"401 Unauthorized")(connection, asked)

    with serving(answer) as url:
        assert main(["lint-metrics", url]) == 3
        assert main(["lint-metrics", url, "--bearer-token-file", str(tmp_path / "token")]) == 0


def test_a_certificate_is_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    webhooks.write(webhooks.issue("127.0.0.1"), tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    with serving(reply(TEXT), tls) as url:
        assert main(["lint-metrics", url]) == 3
        err = capsys.readouterr().err
        assert "--ca FILE" in err
        assert "--insecure" in err
        assert err.splitlines()[-1] == snapshot
        assert main(["lint-metrics", url, "--ca", str(tmp_path / "ca.crt")]) == 0
        assert main(["lint-metrics", url, "--insecure"]) == 0
        assert main(["lint-metrics", url, "--ca", str(tmp_path / "none.crt")]) == 2


@pytest.mark.parametrize("path", [HEAD, HEAD_PROTOBUF], ids=lambda path: path.suffix)
def test_a_real_manager_is_clean(path: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    assert main(["lint-metrics", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{path}: ")
    assert " 171 families (636 series)" in out
    assert masked(out, {path: "file"}) == snapshot


def test_openmetrics_and_gzip_files_and_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "om.txt").write_bytes(b"# HELP my_things Things.\n# TYPE my_things counter\nmy_things_total 1\n# EOF\n")
    assert main(["lint-metrics", str(tmp_path / "om.txt")]) == 0
    (tmp_path / "packed.gz").write_bytes(gzip.compress(TEXT))
    assert main(["lint-metrics", str(tmp_path / "packed.gz")]) == 0
    read, write = os.pipe()
    os.write(write, TEXT)
    os.close(write)
    with os.fdopen(read) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert main(["lint-metrics", "-"]) == 0
    assert capsys.readouterr().out.endswith("standard input: no faults; judged 1 family (1 series)\n")


def test_files_and_pipes_that_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    assert main(["lint-metrics", str(tmp_path / "none.prom")]) == 2
    assert main(["lint-metrics", str(tmp_path)]) == 2
    assert main(["lint-metrics", "127.0.0.1:8080/metrics"]) == 2
    err = capsys.readouterr().err
    assert "http://127.0.0.1:8080/metrics" in err
    assert masked(err, {tmp_path: "folder"}) == snapshot(name="files")
    os.mkfifo(tmp_path / "pipe")
    # Somebody has it open to write, and writes nothing.
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    assert main(["lint-metrics", str(tmp_path / "pipe"), "--timeout", "0.2"]) == 3
    os.close(writer)
    err = capsys.readouterr().err
    assert " 0.2 s" in err
    assert masked(err, {tmp_path: "folder"}) == snapshot(name="pipe")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--ignore", "nosuchrule"), "'nosuchrule'"),
        (("--ignore", "camelcase"), " camel-case?"),
        (("--family", "my_*"), "--max-series N"),
        (("--budgets", "none.yaml"), "none.yaml"),
    ],
    ids=["rule", "typo", "family", "budgets"],
)
def test_what_cannot_be_wanted_is_refused(
    options: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    assert main(["lint-metrics", str(BAD), *options]) == 2
    out, err = capsys.readouterr()
    assert (out, says in err) == ("", True), err
    assert masked(err, {BAD: "bad.prom"}) == snapshot


@pytest.mark.parametrize("most", ["-1", "many", "1.5"])
def test_a_number_of_series_is_one(most: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["lint-metrics", str(BAD), "--max-series", most])
    assert left.value.code == 2
    assert f"{most} is no number of series" in capsys.readouterr().err


def test_a_file_at_fault_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing, junk = tmp_path / "none", tmp_path / "junk"
    junk.write_bytes(b"\xff\xfe")
    for option, file, why in (
        ("--bearer-token-file", missing, "No such file or directory"),
        ("--bearer-token-file", junk, "not what is needed"),
        ("--ca", missing, "No such file or directory"),
        ("--ca", junk, "not what is needed"),
        ("--cert", missing, "No such file or directory"),
        ("--cert", junk, "not what is needed"),
    ):
        assert main(["lint-metrics", "https://127.0.0.1:9/metrics", option, str(file)]) == 2
        assert f"grovescale: {option} {file}: {why}" in capsys.readouterr().err


def test_a_wrong_line_is_reported_where_there_is_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.prom").write_text("my_things{ 1\n", "utf-8")
    assert main(["lint-metrics", str(tmp_path / "m.prom")]) == 3
    assert "no metrics at all; line 1: " in capsys.readouterr().err


@pytest.mark.parametrize("timeout", ["0", "-1", "nan", "inf", "soon"])
def test_a_time_limit_is_one(timeout: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["lint-metrics", str(BAD), "--timeout", timeout])
    assert left.value.code == 2
    assert "--timeout" in capsys.readouterr().err


def test_the_bad_sample_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint-metrics", str(BAD)]) == 1
    expected = BAD.with_name("bad.txt").read_text("utf-8")
    assert capsys.readouterr().out.replace(str(BAD), "tests/data/lint/bad.prom") == expected


def test_the_bad_sample_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint-metrics", str(BAD), "--json", "--against", str(HEAD)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["schema_version"] == 1
    assert found["lint"]["series"] == 31
    assert {"family", "rule", "says", "fix", "series"} >= {key for one in found["lint"]["problems"] for key in one}
    changes = {one["family"]: one["change"] for one in found["against"]["families"]}
    assert changes["grove_operator_last_error"] == "added"
    assert changes["workqueue_depth"] == "changed"
    assert changes["go_goroutines"] == "removed"


def test_what_a_change_adds(tmp_path: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    old, new = tmp_path / "old.prom", tmp_path / "new.prom"
    old.write_text(family("my_things", "gauge", '{op="a"}') + family("my_gone", "gauge"), "utf-8")
    new.write_text(
        family("my_things", "gauge", '{op="a",part="x"}', '{op="a",part="y"}') + family("my_new", "gauge"), "utf-8"
    )
    assert main(["lint-metrics", str(new), "--against", str(old)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"against {old}: +3 -2 series")
    assert [line.partition(":")[0] for line in out.splitlines() if line[0:1] in ("-", "+", "~")] == [
        "- my_gone",
        "+ my_new",
        "~ my_things",
    ]
    assert masked(out, {tmp_path: "folder"}) == snapshot


def test_rules_and_families_are_let_off_and_bounds_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    path = tmp_path / "m.prom"
    path.write_text(family("my_badName", "gauge", '{tenant="a"}', '{tenant="b"}'), "utf-8")
    assert main(["lint-metrics", str(path), "--ignore", "camel-case"]) == 0
    out = capsys.readouterr().out
    assert "1 ignored" in out
    assert masked(out, {path: "file"}) == snapshot(name="ignored")
    assert main(["lint-metrics", str(path), "--ignore", "my_*"]) == 0
    capsys.readouterr()
    assert main(["lint-metrics", str(path), "--ignore", "my_*", "--max-series", "1"]) == 1
    out = capsys.readouterr().out
    assert "[series] 2 series " in out
    assert "my_badName: 2 series" in out
    assert masked(out, {path: "file"}) == snapshot(name="bound")
    assert main(["lint-metrics", str(path), "--ignore", "camel-case", "--forbid", "tenant"]) == 1


def test_series_of_libraries_are_not_bounded_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint-metrics", str(HEAD), "--max-series", "33"]) == 0
    assert main(["lint-metrics", str(HEAD), "--max-series", "33", "--family", "*"]) == 1
    assert "[series] 636 series in *, at most 33" in capsys.readouterr().out
    assert main(["lint-metrics", str(HEAD), "--max-series", "5", "--family", "workqueue_depth"]) == 0


def test_what_a_terminal_would_obey_is_not_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = b'# HELP my_things Things.\n# TYPE my_things gauge\nmy_things{message="\x1b[31mred\x07"} 1\n'
    with serving(reply(text)) as url:
        assert main(["lint-metrics", url]) == 1
    assert "\x1b" not in capsys.readouterr().out
