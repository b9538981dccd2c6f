"""Redaction of foreign text: removes credentials, control characters and commands to a CI system.

Foreign is all text that this package has not written itself: log lines, messages of the API server and of other
programs, labels and help texts of metrics, fields of objects, arguments, parameters. Each is redacted where it is read,
so that later code need not care. A credential is detected in two ways: by its form or the name beside it, and by its
value, once it was passed to `conceal`.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

from .forms import without_encoded, without_forms
from .named_values import REDACTED, harmless, secrecy_of, secret_name, spared, without_named

__all__ = [
    "REDACTED",
    "arguments",
    "conceal",
    "concealed",
    "has_credentials",
    "lines",
    "parameters",
    "secret_name",
    "secrets_in",
    "text",
    "url",
    "value",
]

V = TypeVar("V")

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


def _escaped(found: str) -> str:
    """Return text without cursor movements, invisible characters and CI commands; tabs and newlines stay."""
    if not found.isprintable():
        found = _CONTROL.sub(_visible, found.replace("\r\n", "\n"))
    return _CI_COMMAND.sub(_visible, found) if "::" in found or "##" in found else found


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
    _of_short.cache_clear()


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


def _without_known(found: str) -> str:
    """Return text without the concealed values."""
    # Longest first: one may be part of another.
    for form in sorted((form for form in _concealed if form in found), key=len, reverse=True):
        found = _concealed[form].sub(REDACTED, found)
    return found


_SHORT = 48

_DEPTH = 3
"""How often text is decoded that was base64 inside base64."""


def _without_secrets(found: str, depth: int = 0) -> str:
    found = _without_known(found)
    lower = found.lower()
    found = without_named(without_forms(found, lower), lower)
    return without_encoded(
        found, lower, (lambda inside: _without_secrets(inside, depth + 1)) if depth < _DEPTH else None
    )


def text(found: str) -> str:
    """Return foreign text (log lines, an error's message) without credentials, control characters and CI commands.

    Tabs and newlines stay; pass text of several lines as a whole, since keys span lines. Redacting twice changes
    nothing.
    """
    return _of_short(found) if len(found) <= _SHORT else _without_secrets(_escaped(found))


@functools.lru_cache(maxsize=4096)
def _of_short(found: str) -> str:
    """Statuses, phases and the like come thousands of times."""
    return _without_secrets(_escaped(found))


def has_credentials(line: str) -> bool:
    """Return whether `text` takes credentials out of a line."""
    return text(line).count(REDACTED) > line.count(REDACTED)


def lines(found: Iterable[str]) -> list[str]:
    """Return foreign lines, redacted as by `text`, also secrets that span several of them: there may be fewer lines."""
    together = "\n".join(found)
    return text(together).split("\n") if together else []


def value(found: Any, name: str = "") -> Any:
    """Return a field of an object, or an object, without credentials; numbers and switches stay.

    ``name``: its path or key; strings below a secret name are removed, whatever their form.
    """
    if isinstance(found, str):
        if name and (secrecy := secrecy_of(name)) and found and not spared(name, found, secrecy):
            return REDACTED
        return text(found)
    if isinstance(found, list):
        return [value(element, name) for element in found]
    if isinstance(found, dict):
        return {key: _entry(found, key, element) for key, element in found.items()}
    return found


def _entry(holder: dict[str, Any], key: str, element: Any) -> Any:
    if holder.get("kind") == "SecretList" and key == "items" and isinstance(element, list):
        return [value({**one, "kind": "Secret"} if isinstance(one, dict) else one) for one in element]
    if holder.get("kind") == "Secret" and key in ("data", "stringData") and isinstance(element, dict):
        return dict.fromkeys(element, REDACTED)
    # An environment variable of a container.
    if key == "value" and isinstance(named := holder.get("name"), str):
        return value(element, named)
    return value(element, str(key))


def parameters(given: Mapping[str, V]) -> dict[str, V]:
    """Return parameters, or values of an operator, for display: without those that are secret by name."""
    return {name: value(one, name) for name, one in given.items()}


def arguments(argv: Sequence[str]) -> list[str]:
    """Return a command line for display: ``--password X``, ``--token=X`` and ``--set=token=X`` without X."""
    shown: list[str] = []
    expected = ""
    for argument in argv:
        if expected and not argument.startswith("-"):
            shown.append(value(argument, expected))
            expected = ""
            continue
        expected = ""
        name, equals, _ = argument.partition("=")
        if not equals:
            shown.append(text(argument))
            expected = name if name.startswith("-") and secret_name(name) else ""
            continue
        shown.append(_assigned(argument))
    return shown


def _assigned(argument: str) -> str:
    """Return ``--name=value`` or ``--set=name=value``, redacted where one of its names is secret."""
    start = 0
    while (at := argument.find("=", start)) >= 0:
        name, rest = argument[start:at], argument[at + 1 :]
        if not re.fullmatch(r"[\w.\-/]+", name):
            break
        if (secrecy := secrecy_of(name)) and rest and not spared(name, rest, secrecy):
            return f"{argument[: at + 1]}{REDACTED}"
        start = at + 1
    return text(argument)


def secrets_in(found: Any, name: str = "") -> Iterator[str]:
    """Yield the strings of an object, of parameters or of a command line that are secret by the name beside them."""
    if isinstance(found, str):
        if name and (secrecy := secrecy_of(name)) and not spared(name, found, secrecy):
            yield found
    elif isinstance(found, Mapping):
        secret = found.get("kind") == "Secret"
        for key, element in found.items():
            if secret and key in ("data", "stringData") and isinstance(element, Mapping):
                yield from (_plain_data(one, encoded=key == "data") for one in element.values() if isinstance(one, str))
            elif key == "value" and isinstance(named := found.get("name"), str):
                yield from secrets_in(element, named)
            else:
                yield from secrets_in(element, str(key))
    elif isinstance(found, Sequence):
        yield from _secret_items(found, name)


def _secret_items(found: Sequence[Any], name: str) -> Iterator[str]:
    before = ""
    for element in found:
        if isinstance(element, str) and before and not element.startswith("-"):
            yield from secrets_in(element, before)
        elif isinstance(element, str) and not name:
            given, _, rest = element.partition("=")
            yield from secrets_in(rest, given)
        else:
            yield from secrets_in(element, name)
        before = element if isinstance(element, str) and element.startswith("-") and "=" not in element else ""


def _plain_data(found: str, *, encoded: bool) -> str:
    try:
        return base64.b64decode(found, validate=True).decode() if encoded else found
    except (binascii.Error, UnicodeDecodeError):
        return found


def url(found: str) -> str:
    """Return a URL without its query, fragment and user information."""
    parts = urlsplit(found)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
