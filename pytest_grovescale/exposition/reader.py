"""Reads an endpoint's response in any supported format, and provides the Accept header."""

from __future__ import annotations

import re
from typing import Literal

from ..errors import ExpositionError, ExpositionLineError
from .body import Limits, too_large
from .families import Exposition
from .openmetrics import OpenMetricsReader
from .protobuf import ProtobufReader
from .text import TextReader

Format = Literal["protobuf", "openmetrics", "text"]

ACCEPT = ",".join(
    (
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
        ";escaping=allow-utf-8;q=0.9",
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.7",
        "application/openmetrics-text;version=1.0.0;q=0.6",
        "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5",
        "text/plain;version=0.0.4;q=0.4",
        "*/*;q=0.1",
    )
)
"""The Accept header: protobuf first, since only it has native histograms and creation times from Go."""

_MEDIA_TYPES: dict[str, Format] = {
    "application/vnd.google.protobuf": "protobuf",
    "application/openmetrics-text": "openmetrics",
}
_DELIMITED = {"encoding": "delimited", "proto": "io.prometheus.client.metricfamily"}
_GUESSED = ("", "text/plain", "application/octet-stream", "binary/octet-stream")
"""Generic media types, sent by simple programs and file servers."""
_NOT_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_GUESS_BYTES = 1024
_DESCRIBED_OR_SAMPLE = re.compile(rb"[^#]|#[ \t]+(?:HELP|TYPE|UNIT)\b")
"""The start of a line that Prometheus reads: no mere comment."""


class Reader:
    """Reads the responses of one endpoint. Keep it from scrape to scrape: its caches make repeated ones fast."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._text = TextReader(self.limits)
        self._openmetrics = OpenMetricsReader(self.limits)
        self._protobuf = ProtobufReader(self.limits)

    def read(self, body: bytes, content_type: str = "") -> Exposition:
        """Return the contents of a response, all of it or nothing.

        ``body``: decompressed, as `body.Body` collects it. ``content_type``: the response's header, empty where there
        is none, as for a file. Raises ExpositionError with the malformed line or byte offset.
        """
        if len(body) > self.limits.max_bytes:
            raise too_large(self.limits.max_bytes)
        form = format_of(body, content_type)
        if form == "protobuf":
            return self._protobuf.read(body)
        text = _decoded(body)
        return self._openmetrics.read(text) if form == "openmetrics" else self._text.read(text)


def format_of(body: bytes, content_type: str = "") -> Format:
    """Return the format of a response. Raises ExpositionError for a content type that is not an exposition."""
    media_type, parameters = _parsed(content_type)
    if media_type in _MEDIA_TYPES:
        return _checked(_MEDIA_TYPES[media_type], parameters, content_type)
    start = body[:_GUESS_BYTES].lstrip().lower()
    if media_type not in _GUESSED or start.startswith((b"<!doctype", b"<html", b"<?xml")):
        raise ExpositionError(
            f"line 1: expected metrics, found {media_type or 'HTML'}: {body[:60]!r}",
            next_step="Check the path, often /metrics; a page to log in or an error page is no metrics endpoint.",
        )
    if media_type != "text/plain" and _NOT_TEXT.search(body, 0, _GUESS_BYTES):
        return "protobuf"
    ends = (b"\n" + body[-_GUESS_BYTES:].rstrip()).endswith(b"\n# EOF")
    return "openmetrics" if media_type != "text/plain" and ends else "text"


def _checked(form: Format, parameters: dict[str, str], content_type: str) -> Format:
    if form == "protobuf":
        asked = _DELIMITED.items() <= {**_DELIMITED, **parameters}.items()
    else:
        asked = parameters.get("version", "1.0.0").partition(".")[0] in ("0", "1")
    if not asked:
        raise ExpositionError(f"line 1: expected one of the formats that were asked for, found {content_type[:120]!r}")
    return form


def _parsed(content_type: str) -> tuple[str, dict[str, str]]:
    media_type, *others = content_type.lower().split(";")
    pairs = (other.partition("=") for other in others)
    return media_type.strip(), {key.strip(): value.strip(' \t"') for key, _, value in pairs}


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        begin = body.rfind(b"\n", 0, error.start) + 1
        raise ExpositionLineError(
            line,
            f"expected UTF-8, found the byte {body[error.start]:#04x} at {error.start}",
            refused=_DESCRIBED_OR_SAMPLE.match(body, begin) is not None,
        ) from None
