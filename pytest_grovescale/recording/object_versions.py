"""One version of an object: what identifies it, its parts as JSON, and the fields that a watch keeps of it.

Objects of 4 kB arrive by the thousand, and two fifths of one are ``managedFields``, which nothing here reads: to look
for its end again for each question costs more than the answer. So the JSON is read once, and a part only where it has
changed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from .. import redaction
from .fieldpath import Key, Projection, parse

LABELS, ANNOTATIONS = "metadata.labels", "metadata.annotations"
_BODY = ("spec", "status", "data", "rules", "subjects")
_EMPTY = 2
"""Length of ``{}``: a part without a field is as one that is not there."""

_PARTS: dict[tuple[str, ...], str] = {
    **{(part,): part for part in _BODY},
    ("metadata", "labels"): LABELS,
    ("metadata", "annotations"): ANNOTATIONS,
}
"""The keys that lead to each part."""
_DELETION = ("metadata", "deletionTimestamp")


class Owner(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """An owner reference."""

    uid: str = ""
    kind: str = ""
    api_version: str = ""
    controller: bool | None = None


class Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: Any = UNSET
    owner_references: list[Owner] | None = None
    finalizers: list[str] | None = None
    labels: msgspec.Raw = msgspec.Raw(b"")
    annotations: msgspec.Raw = msgspec.Raw(b"")


class Version(msgspec.Struct, gc=False):
    """An object as it was read; what changes with every write (``managedFields``) is left out."""

    metadata: Metadata
    spec: msgspec.Raw = msgspec.Raw(b"")
    status: msgspec.Raw = msgspec.Raw(b"")
    data: msgspec.Raw = msgspec.Raw(b"")
    rules: msgspec.Raw = msgspec.Raw(b"")
    subjects: msgspec.Raw = msgspec.Raw(b"")

    def parts(self) -> dict[str, bytes]:
        """Return the parts that are compared, as JSON, by name."""
        found = {
            LABELS: bytes(self.metadata.labels),
            ANNOTATIONS: bytes(self.metadata.annotations),
            "spec": bytes(self.spec),
            "status": bytes(self.status),
            "data": bytes(self.data),
            "rules": bytes(self.rules),
            "subjects": bytes(self.subjects),
        }
        return {name: part for name, part in found.items() if len(part) > _EMPTY}

    def owner(self) -> Owner | None:
        """Return the owner that controls it, else the first one; None without owners."""
        owners = self.metadata.owner_references or ()
        return next((owner for owner in owners if owner.controller), owners[0] if owners else None)


decode = msgspec.json.Decoder(Version).decode


@functools.lru_cache(maxsize=1024)
def kind_of(kind: str, api_version: str) -> str:
    """Return the kind of an owner with its group, ``job.batch``; of the core group without."""
    group, slash, _ = api_version.partition("/")
    return f"{kind}.{group}".lower() if slash else kind.lower()


class Fields:
    """Reads the values at a set of paths, redacted."""

    def __init__(self, paths: Iterable[str]) -> None:
        of_parts: dict[str, list[str]] = {}
        whole: list[str] = []
        self._deletion: list[str] = []
        for path in paths:
            steps = parse(path)
            keys = tuple(step.name for step in steps[:2] if isinstance(step, Key))
            part = next((_PARTS[keys[:n]] for n in (1, 2) if n < len(steps) and keys[:n] in _PARTS), "")
            if keys == _DELETION and len(steps) == len(keys):
                self._deletion.append(path)
            else:
                (of_parts.setdefault(part, []) if part else whole).append(path)
        self._whole = Projection(whole) if whole else None
        self._of_parts = [
            (part, Projection(paths, below=part.count(".") + 1), paths) for part, paths in of_parts.items()
        ]

    def read(
        self,
        version: Version,
        data: msgspec.Raw,
        parts: Mapping[str, bytes],
        before: Mapping[str, bytes],
        known: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Return path → value, without the paths that the object lacks.

        ``data``: the object's JSON; ``parts``: those of the version. ``before`` and ``known``: parts of the version
        before, and what this method returned of it.
        """
        found: dict[str, Any] = {}
        if version.metadata.deletion_timestamp is not UNSET:
            found |= {path: redaction.value(version.metadata.deletion_timestamp, path) for path in self._deletion}
        for name, project, paths in self._of_parts:
            part = parts.get(name)
            if part is None:
                continue
            if part == before.get(name):
                found |= {path: known[path] for path in paths if path in known}
            else:
                found |= {path: redaction.value(value, path) for path, value in project(part).items()}
        if self._whole is not None:
            found |= {path: redaction.value(value, path) for path, value in self._whole(data).items()}
        return found
