"""Embedding of data and scripts in an HTML page, so that nothing in them can end their element."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec

_ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}
"""Characters that occur only inside strings in JSON, where their escapes mean the same."""


def json_block(data: Any) -> str:
    """Return data as JSON for a ``<script type="application/json">`` element.

    A string that holds ``</script>`` or ``<!--`` ends or opens nothing: neither sign is left (HTML standard, 4.12.1.3).
    """
    text = msgspec.json.encode(data).decode()
    for sign, escape in _ESCAPES.items():
        text = text.replace(sign, escape)
    return text


def csp_hash(script: str) -> str:
    """Return the source expression by which a Content-Security-Policy allows this one inline script."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
