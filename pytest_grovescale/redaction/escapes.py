"""Control characters, and commands to a CI system, made visible."""

from __future__ import annotations

import re

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""C0 but tab and newline, DEL, C1, characters that are invisible or change a line's direction, and lone surrogates."""
_CI_COMMAND = re.compile(
    # GitHub and similar systems at a line's beginning, wherever that will be; its older form and Azure's anywhere in
    # a line.
    r"(?:^|(?<=\s)):(?=:[A-Za-z][\w.-]*(?:::|[ \t]))|#(?=#(?:vso|teamcity)?\[)|#(?=#teamcity\[)",
    re.MULTILINE,
)


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if match[0] == "\r":
        return "\\r"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def escaped(found: str) -> str:
    """Return text without cursor movements, invisible characters and CI commands; tabs and newlines stay."""
    if not found.isprintable():
        found = _CONTROL.sub(_visible, found.replace("\r\n", "\n"))
    return _CI_COMMAND.sub(_visible, found) if "::" in found or "##" in found else found
