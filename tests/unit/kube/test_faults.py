"""Faults between an operator and the API server: their settings, which requests they hit, and what they answer."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import UsageError
from pytest_grovescale.kube.faults import proxy
from pytest_grovescale.kube.faults.proxy import Frames
from pytest_grovescale.kube.faults.request_path import Target, name_in, target_of
from pytest_grovescale.kube.faults.settings import Draws, FaultKind, Faults, faults_of
from pytest_grovescale.protobuf_wire import grouped

PODS = "/api/v1/namespaces/t/pods"
UPDATE = target_of("PUT", f"{PODS}/a/status", "")


@pytest.mark.parametrize(
    ("latency", "expected"),
    [("20ms", (0.02, 0.0)), ("20ms±10ms", (0.02, 0.01)), ("1s +- 500ms", (1.0, 0.5)), (0.1, (0.1, 0.0))],
)
def test_a_latency_is_a_duration_or_a_spread(latency: Any, expected: tuple[float, float]) -> None:
    faults = faults_of({"latency": latency})
    assert (faults.latency_s, faults.jitter_s) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        {"conflicts": 0.1},
        {"conflict": 2},
        {"error": -0.1},
        {"throttled": True},
        {"error": "0.1"},
        {"error": 0.7, "throttled": 0.7},
        {"watch_cut": 0.7, "watch_expired": 0.4},
        {"latency": "fast"},
        {"latency": "10ms±20ms"},
        {"retry_after": "500ms"},
        {"in_a_row": 0},
        {"seed": "one"},
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_with_what_is_right(arguments: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    with pytest.raises(UsageError) as refused:
        faults_of(arguments)
    assert str(refused.value) == snapshot


def test_faults_are_shown_as_the_call_has_them(snapshot: SnapshotAssertion) -> None:
    asked = {"conflict": 0.02, "lost_answer": 0.1, "latency": "20ms±10ms", "in_a_row": 3, "resources": ["pods"]}
    assert faults_of(asked).text == snapshot
    assert faults_of({"seed": 7}).text == "none"


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", f"{PODS}/a", Target("get", "", "pods", "", "t", "a")),
        ("GET", PODS, Target("list", "", "pods", "", "t", "")),
        ("GET", f"{PODS}?watch=true", Target("watch", "", "pods", "", "t", "")),
        ("GET", "/api/v1/watch/namespaces/t/pods", Target("watch", "", "pods", "", "t", "")),
        ("POST", f"{PODS}/a/eviction", Target("create", "", "pods", "eviction", "t", "a")),
        ("DELETE", PODS, Target("deletecollection", "", "pods", "", "t", "")),
        ("PUT", "/api/v1/namespaces/t/finalize", Target("update", "", "namespaces", "finalize", "t", "t")),
        ("GET", "/api/v1/namespaces/t", Target("get", "", "namespaces", "", "t", "t")),
        ("GET", "/api/v1/namespaces", Target("list", "", "namespaces", "", "", "")),
        ("PATCH", "/apis/a.io/v1/things/b/status", Target("patch", "a.io", "things", "status", "", "b")),
        ("GET", "/apis/a.io/v1", Target("get", "", "", "", "", "")),
        ("GET", "/readyz", Target("get", "", "", "", "", "")),
        ("GET", "/", Target("get", "", "", "", "", "")),
    ],
)
def test_a_request_is_read_as_the_audit_log_has_it(method: str, path: str, expected: Target) -> None:
    path, _, query = path.partition("?")
    assert target_of(method, path, query) == expected


@given(st.integers(0, 100), st.lists(st.sampled_from(["a", "b", "other"]), max_size=40))
def test_what_is_hit_depends_on_the_seed_and_the_order_of_equal_requests_alone(seed: int, names: list[str]) -> None:
    def hits(*, with_others: bool) -> list[FaultKind | None]:
        draws = Draws(Faults(conflict=0.3, throttled=0.1, error=0.2, lost_answer=0.1, seed=seed))
        kinds = []
        for name in names:
            if name == "other":
                if with_others:
                    draws.request(target_of("GET", "/api/v1/nodes", ""), "")
            else:
                kinds.append(draws.request(UPDATE, name).kind)
        return kinds

    assert hits(with_others=True) == hits(with_others=False)


def test_shares_are_met() -> None:
    draws = Draws(Faults(conflict=0.2, throttled=0.1, error=0.1, lost_answer=0.1, latency_s=0.02, jitter_s=0.01))
    decisions = [draws.request(UPDATE, str(number)) for number in range(5000)]
    found = Counter(one.kind for one in decisions)
    expected = {"conflict": 1000, "throttled": 500, "error": 500, "lost-answer": 500, None: 2500}
    assert {kind: pytest.approx(number, rel=0.2) for kind, number in expected.items()} == found
    delays = [one.delay_s for one in decisions]
    assert 0.01 <= min(delays) < 0.011
    assert 0.029 < max(delays) <= 0.03


@pytest.mark.parametrize(
    ("request_", "possible"),
    [
        (target_of("GET", PODS, ""), {None, "error"}),
        (target_of("POST", PODS, ""), {None, "error", "lost-answer"}),
        (UPDATE, {None, "error", "lost-answer", "conflict"}),
        (target_of("GET", "/readyz", ""), {None}),
        (target_of("POST", "/apis/authentication.k8s.io/v1/tokenreviews", ""), {None}),
    ],
)
def test_a_request_meets_only_what_it_could_meet(request_: Target, possible: set[FaultKind | None]) -> None:
    draws = Draws(Faults(conflict=0.3, error=0.3, lost_answer=0.3))
    assert {draws.request(request_, str(number)).kind for number in range(200)} == possible


def test_other_resources_pass() -> None:
    draws = Draws(Faults(error=1.0, resources=("pods", "things.a.io")))
    kinds = {
        path: draws.request(target_of("GET", path, ""), "x").kind
        for path in (f"{PODS}/x", "/apis/a.io/v1/things/x", "/apis/b.io/v1/things/x", "/api/v1/nodes/x")
    }
    assert list(kinds.values()) == ["error", "error", None, None]


def test_a_request_fails_as_often_in_a_row_as_asked_for() -> None:
    draws = Draws(Faults(error=0.2, in_a_row=3))
    lengths: list[int] = []
    for number in range(50):
        tries = 0
        while draws.request(UPDATE, f"pod-{number}").kind is not None:
            tries += 1
        lengths.append(tries)
    assert set(lengths) - {6} == {0, 3}  # six: hit again right after


def test_a_status_is_one_that_clients_know(snapshot: SnapshotAssertion) -> None:
    faults = Faults(retry_after_s=2)
    kinds: list[tuple[FaultKind, float]] = [
        *(("conflict", 0.0), ("throttled", 0.0), ("error", 0.1), ("error", 0.9), ("lost-answer", 0.1)),
        ("lost-answer", 0.9),
    ]
    found = [proxy.answer(kind, variant, UPDATE, "a", faults) for kind, variant in kinds]
    assert [one.code for one in found] == [409, 429, 500, 503, 504, 0]
    assert [json.loads(one.body) for one in found if one.body] == snapshot


def test_an_expired_watch_ends_with_an_event_of_its_own_format() -> None:
    event = json.loads(proxy.expired(protobuf=False))
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    frame = proxy.expired(protobuf=True)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    event = grouped(frame[4:])
    raw = grouped(event[2 << 3 | 2][0])[1 << 3 | 2][0]
    assert (event[1 << 3 | 2], raw[:4]) == ([b"ERROR"], b"k8s\x00")
    status = grouped(grouped(raw[4:])[2 << 3 | 2][0])
    assert (status[4 << 3 | 2], status[6 << 3]) == ([b"Expired"], [410])


PROTOBUF_POD = b"k8s\x00" + bytes.fromhex("0a090a02763112 03506f64".replace(" ", "")) + b"\x12\x05\x0a\x03\x0a\x01a"


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"kind":"Pod","metadata":{"name":"a","labels":{}}}', "a"),
        (b'{"metadata":{"generateName":"a-"}}', "a-*"),
        (b"[]", ""),
        (b"\xff", ""),
        (b"k8s\x00\xff", ""),
        (PROTOBUF_POD, "a"),
    ],
)
def test_names_are_read_from_bodies_of_both_formats(body: bytes, name: str) -> None:
    assert name_in(body) == name


@given(st.lists(st.binary(max_size=40).filter(lambda line: b"\n" not in line)), st.data(), st.booleans())
def test_events_are_whole_however_they_arrive(events: list[bytes], data: st.DataObject, protobuf: bool) -> None:
    framed = [len(one).to_bytes(4, "big") + one if protobuf else one + b"\n" for one in events]
    stream = b"".join(framed)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    frames = Frames(protobuf=protobuf)
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert [frame for chunk in chunks for frame in frames.of(chunk)] == framed
