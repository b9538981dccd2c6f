"""Which format an answer is in: what its header says, or what it looks like."""

from __future__ import annotations

import pytest
from prometheus_client.exposition import choose_encoder
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import ExpositionError
from pytest_grovescale.exposition.reader import ACCEPT, Format, Reader, format_of

from .samples import OPENMETRICS_TYPE, PROTOBUF, PROTOBUF_TYPE, TEXT, TEXT_TYPE

OPENMETRICS = b"# TYPE x counter\nx_total 1\n# EOF\n"


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (TEXT, TEXT_TYPE, "text"),
        (TEXT, "text/plain", "text"),
        (TEXT, "Text/Plain;version=1.0.0;escaping=allow-utf-8", "text"),
        (PROTOBUF, PROTOBUF_TYPE, "protobuf"),
        (PROTOBUF, "application/vnd.google.protobuf", "protobuf"),
        (OPENMETRICS, OPENMETRICS_TYPE, "openmetrics"),
        (OPENMETRICS, 'application/openmetrics-text;version="0.0.1"', "openmetrics"),
        # A comment in this format: the header is believed.
        (OPENMETRICS, "text/plain", "text"),
        (TEXT, "", "text"),
        (TEXT, "application/octet-stream", "text"),
        (PROTOBUF, "", "protobuf"),
        (PROTOBUF, "application/octet-stream", "protobuf"),
        (OPENMETRICS, "", "openmetrics"),
        (OPENMETRICS.rstrip(), "", "openmetrics"),
        (b"", "", "text"),
        (b"# EOF\n", "", "openmetrics"),
    ],
)
def test_the_format_of_an_answer(body: bytes, content_type: str, expected: Format) -> None:
    assert format_of(body, content_type) == expected
    Reader().read(body, content_type)


@pytest.mark.parametrize(
    ("body", "content_type", "why"),
    [
        (b"<!DOCTYPE html><html>", "text/html; charset=utf-8", "found text/html: b'<!DOCTYPE"),
        (b"  <html>Log in</html>", "", "expected metrics, found HTML"),
        (b"<HTML>", "text/plain", "found text/plain: b'<HTML>'"),
        (b'{"status":"success"}', "application/json", "expected metrics, found application/json"),
        (TEXT, "text/event-stream", "found text/event-stream"),
        (PROTOBUF, f"{PROTOBUF_TYPE.replace('delimited', 'text')}", "one of the formats"),
        (PROTOBUF, "application/vnd.google.protobuf; proto=other.Message", "one of the formats"),
        (OPENMETRICS, "application/openmetrics-text; version=2.0.0", "one of the formats"),
        (PROTOBUF, TEXT_TYPE, "expected UTF-8"),
        (TEXT, PROTOBUF_TYPE, "another format|wire type"),
        (TEXT, OPENMETRICS_TYPE, "expected '# EOF'"),
        (TEXT.decode().encode("utf-16"), "", "."),
    ],
    ids=[
        "page",
        "page without a type",
        "page called text",
        "JSON",
        "events",
        "protobuf as text",
        "another message",
        "another version",
        "protobuf called text",
        "text called protobuf",
        "text called OpenMetrics",
        "UTF-16",
    ],
)
def test_what_is_no_metrics_endpoint_is_refused_in_words(
    body: bytes, content_type: str, why: str, snapshot: SnapshotAssertion
) -> None:
    with pytest.raises(ExpositionError, match=why) as caught:
        Reader().read(body, content_type)
    assert str(caught.value) == snapshot


def test_a_page_reports_what_to_do() -> None:
    with pytest.raises(ExpositionError) as raised:
        Reader().read(b"<html>", "text/html")
    assert "/metrics" in raised.value.next_step


def test_a_target_may_change_its_format() -> None:
    reader = Reader()
    for _ in range(2):
        assert reader.read(b"# TYPE x counter\nx 1\n", TEXT_TYPE).samples == {"x": "1"}
        assert reader.read(OPENMETRICS, OPENMETRICS_TYPE).samples == {"x_total": "1"}
        assert len(reader.read(PROTOBUF, PROTOBUF_TYPE).samples) == 636


def test_the_header_asks_for_protobuf_first() -> None:
    wanted = sorted(ACCEPT.split(","), key=lambda part: -float(part.rpartition("q=")[2]))
    assert [part.partition(";")[0] for part in wanted] == [
        "application/vnd.google.protobuf",
        "application/openmetrics-text",
        "application/openmetrics-text",
        "text/plain",
        "text/plain",
        "*/*",
    ]
    assert choose_encoder(ACCEPT)[1].startswith("application/openmetrics-text")
