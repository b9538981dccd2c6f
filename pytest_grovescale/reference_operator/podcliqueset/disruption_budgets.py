"""Defect missing-right: a PodDisruptionBudget for each set, which nobody remembered to allow in the ClusterRole."""

from __future__ import annotations

from .. import naming, resources
from ..caches import Cached
from ..objects import Object, PodCliqueSet
from .component import Workshop


class DisruptionBudgets:
    """One per set: asked for at every pass, since none is ever there."""

    name = "pod-disruption-budget"

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        # Not watched: what may not be made may not be listed either.
        self._budgets = Cached(resources.DISRUPTION_BUDGET, Object)

    async def sync(self, pcs: PodCliqueSet) -> float | None:
        """Raises ApiError, 403."""
        body = {
            "metadata": self._workshop.metadata(pcs, pcs.name, self.name),
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {naming.PART_OF: pcs.name}}},
        }
        await self._workshop.writer.create(self._budgets, body)
        return None

    async def delete(self, pcs: PodCliqueSet) -> None:
        """Nothing was made."""

    def left(self, pcs: PodCliqueSet) -> int:
        return 0
