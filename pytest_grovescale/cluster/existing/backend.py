"""The backend ``existing``: simulated nodes on a cluster that grovescale did not create."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

import msgspec

from ...definitions import Source
from ...errors import UsageError
from ...kube.access import Access
from .. import state
from ..backend import Backend, Progress
from ..definition import ClusterDefinition, Existing
from ..launch import Plan
from . import context_policy


class InContext(Backend):
    """The cluster of a kubeconfig's context; it stays, and what was created there is removed."""

    name: ClassVar[str] = "existing"
    foreign: ClassVar[bool] = True
    argument: ClassVar[str] = "CONTEXT"

    def start(self, plan: Plan, progress: Progress) -> state.Facts:
        from .start import start

        return start(plan, progress)

    def binaries(self, definition: ClusterDefinition) -> tuple[str, ...]:
        # With `auto`, the start decides whether kwok is needed.
        return ("kwok",) if (definition.existing or Existing()).kwok == "host" else ()

    def check(self, written: ClusterDefinition, source: Source) -> ClusterDefinition:
        return context_policy.check(written, source)

    def with_argument(self, definition: ClusterDefinition, argument: str) -> ClusterDefinition:
        settings = definition.existing or Existing()
        if not argument or settings.in_cluster:
            raise UsageError(
                f"existing:{argument} names no context of a kubeconfig",
                next_step="Write existing:CONTEXT, or `existing` for what the definition file says.",
            )
        return msgspec.structs.replace(definition, existing=msgspec.structs.replace(settings, context=argument))

    def version_decided_by(self, definition: ClusterDefinition) -> str:
        return "a cluster that is there"

    def permitted(self, definition: ClusterDefinition, *, allowed_contexts: Collection[str]) -> Access | None:
        return context_policy.permitted(definition.existing or Existing(), allowed=allowed_contexts)

    def settled(self, definition: ClusterDefinition) -> ClusterDefinition:
        return context_policy.settled(definition)


BACKEND = InContext()
