"""A response body, collected chunk by chunk: decompressed, within size limits.

Exceeding a limit rejects the whole response: in a partial one, missing series would look removed.
"""

from __future__ import annotations

import zlib

import msgspec

from ..errors import ExpositionError


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on one response. The defaults are far above what an operator serves and far below what harms the recorder.

    They are Prometheus' ``body_size_limit``, ``sample_limit``, ``label_limit`` and ``label_value_length_limit``.
    """

    max_bytes: int = 64 << 20
    """Of the body, decompressed."""
    max_series: int = 200_000
    """Limit for series, and for families; a text may have four times as many lines."""
    max_labels_per_series: int = 128
    max_value_length: int = 16_384
    """Characters of a name, a label's value, a number or a help text."""

    max_line_length: int = 1 << 20
    """Characters of a line of text."""

    @property
    def max_lines(self) -> int:
        """Return how many lines a text may have, comments and empty ones included."""
        return 4 * self.max_series


ACCEPT_ENCODING = "gzip"

_PACKED = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
"""Content-Encoding → zlib's ``wbits``; RFC 9110, 8.4.1: deflate is the zlib format."""


class Body:
    """Collects chunks. The decompressed size is bounded during decompression."""

    def __init__(self, encoding: str = "", limits: Limits | None = None) -> None:
        """``encoding``: the response's Content-Encoding. Raises ExpositionError for one that was not requested."""
        self._limit = (limits or Limits()).max_bytes
        self._found = bytearray()
        self._wbits = _wbits(encoding)
        self._unpacking = self._new()

    def add(self, chunk: bytes) -> None:
        """Add the next chunk. Raises ExpositionError as soon as the body is too large or wrongly encoded."""
        if self._wbits is None:
            self._found += chunk
        else:
            self._unpack(chunk)
        if len(self._found) > self._limit:
            raise too_large(self._limit)

    def whole(self) -> bytes:
        """Return the body. Raises ExpositionError when its end is missing."""
        if self._unpacking is not None and not self._unpacking.eof:
            raise ExpositionError(f"byte {len(self._found)}: the packed body has no end; it was cut off")
        return bytes(self._found)

    def _unpack(self, chunk: bytes) -> None:
        while chunk and len(self._found) <= self._limit:
            if self._unpacking is None or self._unpacking.eof:
                # RFC 1952, 2.2: a file is a series of members.
                self._unpacking = self._new()
            assert self._unpacking is not None  # bodies that are not packed never get here
            try:
                self._found += self._unpacking.decompress(chunk, self._limit + 1 - len(self._found))
            except zlib.error as error:
                raise ExpositionError(f"byte {len(self._found)}: the body cannot be unpacked: {error}") from None
            chunk = self._unpacking.unused_data or self._unpacking.unconsumed_tail

    def _new(self) -> zlib._Decompress | None:
        return None if self._wbits is None else zlib.decompressobj(self._wbits)


def too_large(limit: int) -> ExpositionError:
    """Return the error for a body over its limit."""
    return ExpositionError(
        f"byte {limit}: the answer goes on; at most {limit:,} bytes are read",
        next_step="Look for a label whose values grow without bound.",
    )


def _wbits(encoding: str) -> int | None:
    wanted = encoding.strip().lower()
    if wanted in ("", "identity"):
        return None
    if wanted not in _PACKED:
        raise ExpositionError(f"byte 0: the answer is packed as {encoding[:80]!r}, which was not asked for")
    return _PACKED[wanted]
