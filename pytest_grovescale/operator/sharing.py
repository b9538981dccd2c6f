"""Conflicts with existing objects: an existing object is shared if it equals the manifest, else an error.

The API server compares: a dry-run apply of the manifest shows the changes. So defaults and other spellings of a
quantity are no difference, and neither are additions by others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import OperatorError
from ..kube.client import Client
from .manifests import Manifest, Object, title

_SHOWN = 8
_LONGEST = 60
# Metadata about ownership and history, not content.
_NOT_CONTENT = ("apiVersion", "kind", "metadata", "status")


async def demand_same(client: Client, manifest: Manifest, there: Object, *, whose: str, next_step: str) -> None:
    """Raise OperatorError, with the differences, if applying a manifest would change an existing object.

    ``whose``: origin of the object for the message, as in "was there before". Raises ApiError if the API server would
    reject it.
    """
    wanted = await client.apply(manifest.object, dry_run=True)
    found = list(differences(_content(there), _content(wanted)))
    if not found:
        return
    lines = [f"  {line}" for line in found[:_SHOWN]]
    if len(found) > _SHOWN:
        lines.append(f"  … and {len(found) - _SHOWN} more")
    raise OperatorError(
        "\n".join([f"{manifest.source}: {title(manifest.object)} {whose}, and is another:", *lines]),
        next_step=next_step,
    )


def differences(there: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """Yield each difference between two JSON values: ``spec.versions[v1].served: is true, wanted false``."""
    if isinstance(there, dict) and isinstance(wanted, dict):
        for key in dict.fromkeys([*there, *wanted]):
            where = f"{path}.{key}" if path else str(key)
            if key not in wanted:
                yield f"{where}: is there, not wanted"
            elif key not in there:
                yield f"{where}: is not there, wanted {_short(wanted[key])}"
            else:
                yield from differences(there[key], wanted[key], where)
    elif _named(there) and _named(wanted):
        before, after = _by_name(there), _by_name(wanted)
        for name in dict.fromkeys([*before, *after]):
            where = f"{path}[{name}]"
            if name not in after:
                yield f"{where}: is there, not wanted"
            elif name not in before:
                yield f"{where}: is not there, wanted"
            else:
                yield from differences(before[name], after[name], where)
    elif there != wanted:
        yield f"{path}: is {_short(there)}, wanted {_short(wanted)}"


def _content(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in _NOT_CONTENT}


def _named(value: Any) -> bool:
    """Return whether a value is a list of mappings with distinct names."""
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) and "name" in item for item in value):
        return False
    return len(_by_name(value)) == len(value)


def _by_name(items: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {str(item["name"]): item for item in items}


def _short(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
