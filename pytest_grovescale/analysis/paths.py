"""Removal of absolute paths from a result, which users share, commit and paste."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

_API = (
    "apis?|readyz|livez|healthz|metrics|openapi|openid|version|debug|logs|configz|statusz|flagz|scale"
    "|spec|status|metadata|data|stringData|proc|sys|dev"
)
"""First parts of paths that are not local files: those of the API server, JSON pointers, the kernel's."""

_PATH = re.compile(rf"(?<![\w.~/:\]-])/(?!(?:{_API})(?:/|\b))(?:[\w.@+~-]+/)+(?=[\w.@+~-])")


def hide(text: str) -> str:
    """Return the text with each absolute file path reduced to its last part: ``…/operator.log``."""
    return _PATH.sub("…/", text) if "/" in text else text


def without_paths(result: T) -> T:
    """Return a result whose texts contain no absolute file paths."""
    return msgspec.convert(_hidden(msgspec.to_builtins(result)), type(result))


def _hidden(value: Any) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        return {key: _hidden(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(part) for part in value]
    return value
