"""Size limits for one response of an endpoint.

Exceeding a limit rejects the whole response: in a partial one, missing series would look removed.
"""

from __future__ import annotations

import msgspec


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
