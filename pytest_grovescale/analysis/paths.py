"""Paths of the machine that a run was made on, taken out of its result, which others read, commit and paste."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

_API = (
    "apis?|readyz|livez|healthz|metrics|openapi|openid|version|debug|logs|configz|statusz|flagz|scale"
    "|spec|status|metadata|data|stringData|proc|sys|dev"
)
"""First parts of paths that name no file of anybody's: those of the API server, JSON pointers, the kernel's."""

_PATH = re.compile(rf"(?<![\w.~/:\]-])/(?!(?:{_API})(?:/|\b))(?:[\w.@+~-]+/)+(?=[\w.@+~-])")


def hide(text: str) -> str:
    """Return text in which an absolute file path keeps its last part only: ``…/operator.log``."""
    return _PATH.sub("…/", text) if "/" in text else text


def without_paths(result: T) -> T:
    """Return a result whose texts name no file by its absolute path."""
    return msgspec.convert(_hidden(msgspec.to_builtins(result)), type(result))


def _hidden(value: Any) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        return {key: _hidden(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(part) for part in value]
    return value
