"""Ownership of objects on a foreign cluster: owner labels, and a ledger entry before each creation.

A label names an object's owner; an object that two clusters' users need has both labels, and stays until both have
released it. The ledger, a file in the cluster's folder, lists the objects for the removal, so that no search is needed:
on a large cluster a search would cost more than the tests.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

OWNER_LABELS = "owner.grovescale.io/"
"""Prefix of owner labels; the cluster's name follows, the value has no meaning."""

CLUSTER_LABEL = "grovescale.io/cluster"
"""Label with the cluster's name, on all objects that belong to one cluster, on clusters that others use."""

CLAIM_LABEL = "grovescale.io/claim"
"""Label of nodes and namespaces on shared clusters; distinguishes clusters of the same name from different machines."""

LEDGER = "made.jsonl"
"""Name of the ledger in the cluster's folder."""

_CLAIM = "claim"


class Made(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One object, by name."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""

    @property
    def title(self) -> str:
        """Description of the object, for messages."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Owner of created objects, and the ledger that lists them."""

    cluster: str
    """Name of the cluster."""
    ledger: str
    """Ledger file."""
    claim: str = ""
    """Random; empty on a cluster that only this run uses."""

    @property
    def labels(self) -> dict[str, str]:
        """Labels of its namespaces and nodes."""
        return {CLUSTER_LABEL: self.cluster} | ({CLAIM_LABEL: self.claim} if self.claim else {})

    @property
    def selector(self) -> str:
        """Label selector for these labels."""
        return ",".join(f"{label}={value}" for label, value in self.labels.items())

    @property
    def label(self) -> str:
        """Name of the owner label on its objects."""
        return f"{OWNER_LABELS}{self.cluster}"

    def note(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Append objects to the ledger before their creation. Safe for concurrent processes."""
        lines = [msgspec.json.encode(_made(obj)) + b"\n" for obj in objects]
        with Path(self.ledger).open("ab") as file:
            file.write(b"".join(lines))


def of(folder: Path) -> Owner:
    """Return the owner for a cluster's folder."""
    claim = folder / _CLAIM
    return Owner(
        cluster=folder.name,
        ledger=str(folder / LEDGER),
        claim=claim.read_text(encoding="utf-8") if claim.is_file() else "",
    )


def claimed(folder: Path) -> Owner:
    """Return the owner for a new shared cluster, with a claim that distinguishes it from others of its name."""
    (folder / _CLAIM).write_text(secrets.token_hex(8), encoding="utf-8")
    return of(folder)


def others(labels: Mapping[str, str], owner: Owner) -> list[str]:
    """Return the names of the other clusters that own an object, by its labels."""
    return sorted(
        name.removeprefix(OWNER_LABELS) for name in labels if name.startswith(OWNER_LABELS) and name != owner.label
    )


def noted(owner: Owner) -> list[Made]:
    """Return all objects in the ledger, without duplicates, the last one first: the order of their removal."""
    try:
        lines = Path(owner.ledger).read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    # An incomplete line: its object was not created.
    recorded = [msgspec.json.decode(line, type=Made) for line in lines if line.endswith(b"\n")]
    return list(dict.fromkeys(reversed(recorded)))


def _made(obj: Mapping[str, Any]) -> Made:
    metadata = obj["metadata"]
    return Made(
        api_version=obj["apiVersion"],
        kind=obj["kind"],
        name=metadata["name"],
        namespace=metadata.get("namespace") or "",
    )
