"""Defect missing-right: a PodDisruptionBudget for each set, which the ClusterRole does not allow."""

from __future__ import annotations

from .. import naming, resources
from ..caches import Cached
from ..objects import Object, PodCliqueSet
from .component import Workshop


class DisruptionBudgets:
    """One per set: created at every reconcile, since none ever exists."""

    name = "pod-disruption-budget"

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        # Not watched: the missing right includes listing.
        self._budgets = Cached(resources.DISRUPTION_BUDGET, Object)

    async def sync(self, pcs: PodCliqueSet) -> float | None:
        """Create it; raises ApiError, 403."""
        body = {
            "metadata": self._workshop.metadata(pcs, pcs.name, self.name),
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {naming.PART_OF: pcs.name}}},
        }
        await self._workshop.writer.create(self._budgets, body)
        return None

    async def delete(self, pcs: PodCliqueSet) -> None:
        """Nothing to delete."""

    def left(self, pcs: PodCliqueSet) -> int:
        return 0
