"""Hashes of a set's template, computed once per generation."""

from __future__ import annotations

import msgspec

from . import naming
from .objects import PodCliqueSet


class SetHashes(msgspec.Struct, frozen=True):
    """Hashes that distinguish the versions of a set's pods."""

    generation: str
    """Over all cliques."""
    cliques: dict[str, str]
    """Pod template hash by the name of the clique's template."""


class TemplateHashes:
    """Hashes by uid and generation of the set."""

    def __init__(self, salt: str = "") -> None:
        self._salt = salt
        self._known: dict[str, tuple[int, SetHashes]] = {}

    def of(self, pcs: PodCliqueSet) -> SetHashes:
        known = self._known.get(pcs.uid)
        if known is None or known[0] != pcs.metadata.generation:
            known = pcs.metadata.generation, compute(pcs, self._salt)
            self._known[pcs.uid] = known
        return known[1]

    def forget(self, uid: str) -> None:
        """Drop a deleted set."""
        self._known.pop(uid, None)


def compute(pcs: PodCliqueSet, salt: str = "") -> SetHashes:
    """Return the hashes of a set's template. They exclude replica counts: scaling is no update.

    ``salt``: text that makes them others.
    """
    template = pcs.spec.template
    cliques = {c.name: naming.pod_template_hash(c, template.priority_class_name) + salt for c in template.cliques}
    return SetHashes(generation=naming.digest(cliques), cliques=cliques)
