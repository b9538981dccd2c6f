"""The last group: PodCliqueScalingGroups, which own the cliques that scale together."""

from __future__ import annotations

from functools import partial

from .. import naming
from ..objects import PodCliqueSet, ScalingGroupTemplate
from ..owned import Body
from .component import Workshop, replica_of


class ScalingGroups:
    """One PodCliqueScalingGroup per template and replica of the set."""

    name = "pcs-podcliquescalinggroup"

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._groups = workshop.caches.groups

    async def sync(self, pcs: PodCliqueSet) -> float | None:
        shop = self._workshop
        templates = pcs.spec.template.pod_clique_scaling_groups
        for replica in range(pcs.spec.replicas if templates else 0):
            for template in templates:
                name = naming.scaling_group(pcs.name, replica, template.name)
                group = shop.child(self._groups, pcs, name)
                wanted = self._body(pcs, template, name, replica)
                if group is None:
                    await shop.writer.create(self._groups, wanted)
                    continue
                spec = {k: v for k, v in wanted["spec"].items() if k != "replicas"}
                have = {"cliqueNames": group.spec.clique_names, "minAvailable": group.spec.min_available}
                annotations = wanted["metadata"]["annotations"]
                body: Body = {} if have == spec else {"spec": spec}
                if not annotations.items() <= group.metadata.annotations.items():
                    # The template's replicas changed, so they override any scaling of the group since.
                    body = {"metadata": {"annotations": annotations}, "spec": {**spec, "replicas": template.replicas}}
                if body:
                    await shop.writer.patch(self._groups, group, body)
        names = {t.name for t in templates}
        surplus = [
            group
            for group in self._groups.owned_by(pcs)
            if replica_of(group) >= pcs.spec.replicas or group.metadata.labels.get(naming.TEMPLATE) not in names
        ]
        await shop.delete_surplus(self._groups, surplus)
        return None

    def _body(self, pcs: PodCliqueSet, template: ScalingGroupTemplate, name: str, replica: int) -> Body:
        metadata = self._workshop.metadata(pcs, name, self.name, replica)
        metadata["labels"][naming.TEMPLATE] = template.name
        metadata["annotations"] = {naming.TEMPLATE_REPLICAS: str(template.replicas)}
        metadata["finalizers"] = [naming.SCALING_GROUP_FINALIZER]
        return {
            "metadata": metadata,
            "spec": {
                "cliqueNames": template.clique_names,
                "replicas": template.replicas,
                "minAvailable": template.min_available,
            },
        }

    async def delete(self, pcs: PodCliqueSet) -> None:
        shop = self._workshop
        await shop.run(
            partial(shop.writer.delete, self._groups, group)
            for group in self._groups.owned_by(pcs)
            if not self._groups.store.doomed(group)
        )

    def left(self, pcs: PodCliqueSet) -> int:
        return len(self._groups.owned_by(pcs))
