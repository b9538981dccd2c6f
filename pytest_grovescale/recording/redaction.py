"""What must never reach a recording, and its removal: tokens, passwords, the content of Secrets.

Ways by which they could: label values of a scrape, log tails, URLs with a query, error messages, annotations.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ..errors import UsageError
from .conditions import WatchSpec
from .fieldpath import Key, parse

REDACTED = "[redacted]"

_SECRETS = re.compile(
    r"""
      \beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?                                   # JWT: ServiceAccount and OIDC tokens
    | (?<=[Bb]earer[ ])[\w.~+/=-]{6,}                                          # Authorization: Bearer …
    | (?<=[Bb]asic[ ])[A-Za-z0-9+/]{8,}={0,2}                                  # Authorization: Basic …
    | (?<=://)[^/\s:@"]*:[^/\s@"]+(?=@)                                        # user:password@host
    | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)
    | \b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AKIA)[\w-]{10,}           # well-known prefixes
    """,
    re.VERBOSE | re.DOTALL,
)
_NAMED = re.compile(
    r"""(?P<name>(?:pass(?:word|wd|phrase)|secret|token|api[_-]?key|private[_-]?key|credential)s?\b["']?\s*[=:]\s*)
        (?P<value>"(?:[^"\\]|\\.)+"|'[^']+'|[^\s"',;&}\]]+)""",
    re.IGNORECASE | re.VERBOSE,
)
_HINT = re.compile(r"eyJ|earer |asic |://|BEGIN |gh[pousr]_|github_pat_|glpat-|xox|AKIA")
_NAME_HINT = re.compile(r"pass(?:word|wd|phrase)|secret|token|key|credential", re.IGNORECASE)


def text(value: str) -> str:
    """Return free text (a log line, an error message) without what looks like a credential."""
    if _HINT.search(value):
        value = _SECRETS.sub(REDACTED, value)
    if _NAME_HINT.search(value):
        value = _NAMED.sub(_keep_name, value)
    return value


def _keep_name(match: re.Match[str]) -> str:
    value = match["value"]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{match['name']}{quote}{REDACTED}{quote}"


def value(found: Any) -> Any:
    """Return a projected field without credentials; only strings, and strings inside lists and objects, change."""
    if isinstance(found, str):
        return _SECRETS.sub(REDACTED, found) if len(found) > 16 and _HINT.search(found) else found
    if isinstance(found, list):
        return [value(element) for element in found]
    if isinstance(found, dict):
        return {key: value(element) for key, element in found.items()}
    return found


def url(found: str) -> str:
    """Return a URL without its query, fragment and user information."""
    parts = urlsplit(found)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def check_watch(spec: WatchSpec) -> None:
    """Raise UsageError for a watch that would bring a Secret's content into the recording."""
    if spec.resource != "secrets":
        return
    for path in spec.fields:
        steps = parse(path)
        names = [step.name for step in steps if isinstance(step, Key)]
        # One of kubectl's annotations holds the whole object, data included.
        if names[0] in ("data", "stringData") or names == ["metadata"] or names[:2] == ["metadata", "annotations"]:
            raise UsageError(
                f"a condition reads {path!r} of Secrets; their content never goes into a recording",
                next_step="Test metadata.name, metadata.labels or type instead.",
            )
