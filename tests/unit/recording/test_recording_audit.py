"""The audit log: every line once, in order, over any chunking and rotation; each reduced to its request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_grovescale.recording.audit_log import Tail, parse

EVENT: dict[str, Any] = {
    "kind": "Event",
    "apiVersion": "audit.k8s.io/v1",
    "level": "Metadata",
    "auditID": "0",
    "stage": "ResponseComplete",
    "requestURI": "/api/v1/namespaces/ns/pods/p/status?fieldManager=x",
    "verb": "patch",
    "user": {"username": "system:serviceaccount:a:b", "groups": ["system:masters"]},
    "sourceIPs": ["127.0.0.1"],
    "userAgent": "x",
    "objectRef": {"resource": "pods", "namespace": "ns", "name": "p", "apiVersion": "v1", "subresource": "status"},
    "responseStatus": {"metadata": {}, "code": 200},
    "requestReceivedTimestamp": "2026-11-21T08:00:37.123456Z",
    "stageTimestamp": "2026-11-21T08:00:37.130000Z",
    "annotations": {"authorization.k8s.io/decision": "allow"},
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def line(**changes: Any) -> bytes:
    return msgspec.json.encode({**EVENT, **changes})


def test_a_request_on_an_object() -> None:
    found = parse(line(), 7)
    assert found is not None
    second = 1795248037 * 10**9
    assert msgspec.to_builtins(found) == {
        "type": "request",
        "at": 7,
        "user": "system:serviceaccount:a:b",
        "verb": "patch",
        "resource": "pods",
        "subresource": "status",
        "namespace": "ns",
        "name": "p",
        "code": 200,
        "received_wall": second + 123_456_000,
        "completed_wall": second + 130_000_000,
    }


def test_a_request_on_no_object_keeps_its_path_and_never_its_query() -> None:
    found = parse(line(objectRef=None, requestURI="/metrics?token=abc", verb="get"), 1)
    assert found is not None
    assert (found.resource, found.path) == ("", "/metrics")
    assert "abc" not in repr(parse(line(requestURI="/api/v1/pods?token=abc"), 1))


@pytest.mark.parametrize(
    ("query", "dry"),
    [("dryRun=All", True), ("a=b&dryRun=All", True), ("dryRun=", False), ("x=dryRun=", False), ("", False)],
)
def test_dry_run(query: str, dry: bool) -> None:
    found = parse(line(requestURI=f"/api/v1/pods?{query}"), 1)
    assert found is not None
    assert found.dry_run is dry


def test_who_is_impersonated_is_who_acts() -> None:
    found = parse(line(impersonatedUser={"username": "operator"}), 1)
    assert found is not None
    assert found.user == "operator"


@pytest.mark.parametrize(
    ("code", "resource", "message", "kept"),
    [
        (422, "services", "spec.ports: Required value", "spec.ports: Required value"),
        (403, "services", "token=abcdefghijklmnop1234", "token=[redacted]"),
        (422, "services", "x" * 1000, "x" * 300),
        (422, "secrets", "data: Invalid value", ""),
        (500, "shops", ".status.a: field not declared in schema", ".status.a: field not declared in schema"),
        (409, "services", "the object has been modified", ""),
    ],
)
def test_why_a_request_is_refused_that_no_retry_mends(code: int, resource: str, message: str, kept: str) -> None:
    ref = {**EVENT["objectRef"], "resource": resource}
    found = parse(line(responseStatus={"code": code, "message": message}, objectRef=ref), 1)
    assert found is not None
    assert found.message == kept


def test_stages() -> None:
    assert parse(line(stage="RequestReceived"), 1) is None
    started = parse(line(stage="ResponseStarted"), 1)
    assert started is not None
    assert started.stage == "ResponseStarted"
    panic = parse(line(stage="Panic", responseStatus=None), 1)
    assert panic is not None
    assert panic.code == 0


@pytest.mark.parametrize("bad", [b"{}", b"x", b"[]", line(stage="New"), line(stageTimestamp="yesterday"), line()[:-5]])
def test_a_line_that_is_no_event_raises(bad: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - msgspec's words or datetime's
        parse(bad, 1)


@given(st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)), st.integers(-720, 720))
def test_times_are_exact(moment: datetime, minutes: int) -> None:
    moment = moment.replace(tzinfo=UTC)
    expected = (moment - EPOCH) // timedelta(microseconds=1) * 1000
    fraction = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06d}Z"
    zone = (moment + timedelta(minutes=minutes)).replace(tzinfo=None).isoformat()
    offset = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
    for stamp in (fraction, zone + offset):
        found = parse(line(requestReceivedTimestamp=stamp), 1)
        assert found is not None
        assert found.received_wall == expected


# ---- following the file


def rotate(path: Path, number: int) -> None:
    path.rename(path.with_name(f"{path.stem}-2026-11-21T08-00-{number:02d}.000{path.suffix}"))


ACTIONS = st.lists(
    st.one_of(st.just("poll"), st.just("rotate"), st.integers(0, 12), st.integers(0, 12), st.integers(0, 12)),
    max_size=40,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ACTIONS)
def test_every_line_once_over_chunks_and_rotations(tmp_path: Path, actions: list[Any]) -> None:
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    path = folder / "audit.log"
    path.write_bytes(b"before\n")
    tail = Tail(path)
    written: list[bytes] = []
    found: list[bytes] = []
    pending, rotations = b"", 0
    for action in actions:
        match action:
            case "poll":
                found += list(tail.poll())
            case "rotate":
                # The API server rotates between lines only, and many times between two polls if it must.
                with path.open("ab") as log:
                    log.write(pending)
                pending = b""
                rotations += 1
                rotate(path, rotations)
                path.touch()
            case size:
                if not pending:
                    text = f"line {len(written)}".encode()
                    written.append(text)
                    pending = text + b"\n"
                with path.open("ab") as log:
                    log.write(pending[:size])
                pending = pending[size:]
    with path.open("ab") as log:
        log.write(pending)
    found += list(tail.poll())
    tail.close()
    assert found == written
    assert tail.lost == []


def test_it_starts_at_the_end_also_within_a_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(b"old\nhalf")
    tail = Tail(path)
    with path.open("ab") as log:
        log.write(b" of it\nnew\n")
    assert list(tail.poll()) == [b"new"]
    tail.close()


def test_a_file_that_comes_later_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    tail = Tail(path)
    assert list(tail.poll()) == []
    path.write_bytes(b"first\n")
    assert list(tail.poll()) == [b"first"]
    tail.close()


def test_between_rename_and_new_file_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(b"")
    tail = Tail(path)
    path.write_bytes(b"a\n")
    rotate(path, 1)
    assert list(tail.poll()) == [b"a"]
    assert list(tail.poll()) == []
    path.write_bytes(b"b\n")
    assert list(tail.poll()) == [b"b"]
    assert tail.lost == []
    tail.close()


def test_lines_that_cannot_be_had_any_more_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(b"a\n")
    tail = Tail(path)
    # Rotated twice; the file held open was deleted as the oldest one.
    path.unlink()
    path.write_bytes(b"lost\n")
    rotate(path, 2)
    path.write_bytes(b"c\n")
    assert list(tail.poll()) == [b"c"]
    assert len(tail.lost) == 1
    tail.lost.clear()
    path.write_bytes(b"")
    list(tail.poll())
    assert "cut off" in tail.lost[0]
    tail.close()
