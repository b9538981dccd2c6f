"""What a cluster's users put on an API server that others use too: marked as theirs, and noted before it is made.

A label says whose an object is; one that two clusters' users need has both labels, and stays until both are done. The
ledger, a file in the cluster's folder, says where to look at the end, so that nothing is searched for: on a large
cluster a search would cost more than the tests.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

OWNER_LABELS = "owner.grovescale.io/"
"""What a label says of its owner ends in the cluster's name; its value means nothing."""

CLUSTER_LABEL = "grovescale.io/cluster"
"""Its value is the cluster's name, on everything that is the cluster's own where there are others' things beside it."""

CLAIM_LABEL = "grovescale.io/claim"
"""Tells a cluster from another of the same name, made elsewhere: on nodes and namespaces where others use it, too."""

LEDGER = "made.jsonl"
"""The ledger's name in the cluster's folder."""

_CLAIM = "claim"


class Made(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One object, by name."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""

    @property
    def title(self) -> str:
        """As messages call it."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Who makes objects, and where they are noted."""

    cluster: str
    """Its name."""
    ledger: str
    """File."""
    claim: str = ""
    """Random; empty on a cluster that is ours alone."""

    @property
    def labels(self) -> dict[str, str]:
        """What its namespaces and nodes are labelled with."""
        return {CLUSTER_LABEL: self.cluster} | ({CLAIM_LABEL: self.claim} if self.claim else {})

    @property
    def selector(self) -> str:
        """The label selector that means these."""
        return ",".join(f"{label}={value}" for label, value in self.labels.items())

    @property
    def label(self) -> str:
        """The label's name on what it owns."""
        return f"{OWNER_LABELS}{self.cluster}"

    def note(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Write down what is about to be made. Several processes may do so at once."""
        lines = [msgspec.json.encode(_made(obj)) + b"\n" for obj in objects]
        with Path(self.ledger).open("ab") as file:
            file.write(b"".join(lines))


def of(folder: Path) -> Owner:
    """Return the owner that a cluster's folder stands for."""
    claim = folder / _CLAIM
    return Owner(
        cluster=folder.name,
        ledger=str(folder / LEDGER),
        claim=claim.read_text(encoding="utf-8") if claim.is_file() else "",
    )


def claimed(folder: Path) -> Owner:
    """Return the owner for a new cluster that others use, told from any other of its name from now on."""
    (folder / _CLAIM).write_text(secrets.token_hex(8), encoding="utf-8")
    return of(folder)


def others(labels: Mapping[str, str], owner: Owner) -> list[str]:
    """Return the names of the other clusters that an object's labels call its owners."""
    return sorted(
        name.removeprefix(OWNER_LABELS) for name in labels if name.startswith(OWNER_LABELS) and name != owner.label
    )


def noted(owner: Owner) -> list[Made]:
    """Return all that was ever noted, each object once, the last one first: the order in which it is taken out."""
    try:
        lines = Path(owner.ledger).read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    # A line that was never finished: its object was not made.
    found = [msgspec.json.decode(line, type=Made) for line in lines if line.endswith(b"\n")]
    return list(dict.fromkeys(reversed(found)))


def _made(obj: Mapping[str, Any]) -> Made:
    metadata = obj["metadata"]
    return Made(
        api_version=obj["apiVersion"],
        kind=obj["kind"],
        name=metadata["name"],
        namespace=metadata.get("namespace") or "",
    )
