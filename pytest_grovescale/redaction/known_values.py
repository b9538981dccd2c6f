"""Secrets that are known by their value, once they were passed to `conceal`."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from urllib.parse import quote

from .names import REDACTED, harmless

_LEAST_PLAIN, _LEAST = 12, 6
_concealed: dict[str, re.Pattern[str]] = {}
"""Form of a value → pattern that matches it as a whole word."""


def conceal(*values: str) -> None:
    """Remove these values from all later texts of this process, with their base64, URL and JSON forms.

    A process-wide list, like a CI system's masks: a secret that was given for one purpose appears in texts of any
    other. Values that are frequent in ordinary text (short ones, numbers, single words) are ignored.
    """
    for value in values:
        for form in _forms(value.strip()):
            if form not in _concealed:
                _concealed[form] = re.compile(rf"(?<![A-Za-z0-9]){re.escape(form)}={{0,2}}(?![A-Za-z0-9])")


def concealed() -> list[str]:
    """Return the concealed values, for another process of the same run: pass them through a pipe only."""
    return sorted(_concealed)


def _forms(value: str) -> Iterator[str]:
    short = len(value) < _LEAST
    plain = value.isalpha() and value.islower() and len(value) < _LEAST_PLAIN
    # A key over several lines is detected by its form.
    if short or plain or value.isdigit() or "\n" in value or harmless(value):
        return
    yield value
    yield base64.b64encode(value.encode(errors="surrogateescape")).decode().rstrip("=")
    yield quote(value, safe="", errors="replace")
    yield json.dumps(value, ensure_ascii=False)[1:-1]


def without_known(found: str) -> str:
    """Return text without the concealed values."""
    # Longest first: one may be part of another.
    for form in sorted((form for form in _concealed if form in found), key=len, reverse=True):
        found = _concealed[form].sub(REDACTED, found)
    return found
