"""The first groups: ServiceAccount, then RBAC, Services and autoscalers. The other groups depend on them."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from .. import naming
from ..caches import Cached
from ..defects import ORPHAN, WRONG_OWNER
from ..objects import Autoscaler, AutoScaling, PodCliqueSet, Role, Service
from ..owned import Body
from .component import Workshop, replica_of

# Permissions of a set's pods: they watch each other, to find out when they may start.
_RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]


class _PerSet(ABC):
    """A component with one object per set."""

    name: str

    def __init__(self, workshop: Workshop, cached: Cached[Any]) -> None:
        self._workshop = workshop
        self._cached = cached

    def _name(self, pcs: PodCliqueSet) -> str:
        return pcs.name

    @abstractmethod
    def _content(self, pcs: PodCliqueSet) -> Body:
        """Return the object's content besides its metadata."""

    def _body(self, pcs: PodCliqueSet) -> Body:
        metadata = self._workshop.metadata(pcs, self._name(pcs), self.name)
        content = self._content(pcs)
        return {**content, "metadata": {**metadata, **content.get("metadata", {})}}

    async def sync(self, pcs: PodCliqueSet) -> float | None:
        await self._workshop.ensure(self._cached, pcs, {self._name(pcs): partial(self._body, pcs)})
        return None

    async def delete(self, pcs: PodCliqueSet) -> None:
        await self._workshop.delete_surplus(self._cached, self._cached.owned_by(pcs))

    def left(self, pcs: PodCliqueSet) -> int:
        return len(self._cached.owned_by(pcs))


class ServiceAccounts(_PerSet):
    name = "pod-service-account"

    def _content(self, pcs: PodCliqueSet) -> Body:
        return {}

    async def delete(self, pcs: PodCliqueSet) -> None:
        # kube-controller-manager deletes the token of a deleted account, sometimes before this does.
        if not self._workshop.caches.secrets.owned_by(pcs):
            await super().delete(pcs)


class Roles(_PerSet):
    name = "pod-role"

    def _content(self, pcs: PodCliqueSet) -> Body:
        return {"rules": _RULES}

    async def sync(self, pcs: PodCliqueSet) -> float | None:
        await super().sync(pcs)
        role: Role | None = self._workshop.child(self._cached, pcs, self._name(pcs))
        if role is not None and role.rules != _RULES:
            await self._workshop.writer.patch(self._cached, role, {"rules": _RULES})
        return None


class RoleBindings(_PerSet):
    name = "pod-role-binding"

    def _content(self, pcs: PodCliqueSet) -> Body:
        return {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": pcs.name},
            "subjects": [{"kind": "ServiceAccount", "name": pcs.name, "namespace": pcs.namespace}],
        }


class Rights:
    """The Role, then its binding: the API server checks the Role when it is bound."""

    name = "pod-rights"

    def __init__(self, workshop: Workshop) -> None:
        self._role = Roles(workshop, workshop.caches.roles)
        self._binding = RoleBindings(workshop, workshop.caches.bindings)

    async def sync(self, pcs: PodCliqueSet) -> float | None:
        await self._role.sync(pcs)
        return await self._binding.sync(pcs)

    async def delete(self, pcs: PodCliqueSet) -> None:
        await self._binding.delete(pcs)
        await self._role.delete(pcs)

    def left(self, pcs: PodCliqueSet) -> int:
        return self._binding.left(pcs) + self._role.left(pcs)


class TokenSecrets(_PerSet):
    """The Secret is never read: only its metadata is cached; kube-controller-manager writes the token."""

    name = "pod-service-account-token"

    def _name(self, pcs: PodCliqueSet) -> str:
        return naming.token_secret(pcs.name)

    def _content(self, pcs: PodCliqueSet) -> Body:
        return {
            "type": "kubernetes.io/service-account-token",
            "metadata": {"annotations": {"kubernetes.io/service-account.name": pcs.name}},
        }


class HeadlessServices:
    """One per replica of the set; gives the pods their DNS names."""

    name = "headless-service"

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._services = workshop.caches.services
        # Defect orphan: no owner reference, so it is never deleted.
        self._orphans = ORPHAN in workshop.settings.defects
        self._wrong_owner = WRONG_OWNER in workshop.settings.defects

    async def sync(self, pcs: PodCliqueSet) -> float | None:
        shop = self._workshop
        publish = pcs.spec.template.headless_service_config.publish_not_ready_addresses
        create: list[int] = []
        drifted: list[Service] = []
        for replica in range(pcs.spec.replicas):
            service = self._child(pcs, naming.set_replica(pcs.name, replica))
            if service is None:
                create.append(replica)
            elif service.spec.publish_not_ready_addresses != publish:
                drifted.append(service)
        await shop.run(partial(shop.create, self._services, partial(self._body, pcs, n)) for n in create)
        patch = {"spec": {"publishNotReadyAddresses": publish}}
        await shop.run(partial(shop.writer.patch, self._services, service, patch) for service in drifted)
        owned = self._services.owned_by(pcs)
        if len(owned) > pcs.spec.replicas:
            await shop.delete_surplus(self._services, [s for s in owned if replica_of(s) >= pcs.spec.replicas])
        return None

    def _child(self, pcs: PodCliqueSet, name: str) -> Service | None:
        if self._orphans or self._wrong_owner:
            return self._services.store.get(f"{pcs.namespace}/{name}")
        return self._workshop.child(self._services, pcs, name)

    def _body(self, pcs: PodCliqueSet, replica: int) -> Body:
        name = naming.set_replica(pcs.name, replica)
        metadata = self._workshop.metadata(pcs, name, self.name, replica)
        if self._orphans:
            del metadata["ownerReferences"]
        if self._wrong_owner:
            # Defect wrong-owner: the garbage collector removes what has an owner that does not exist.
            gone = {**metadata["ownerReferences"][0], "uid": str(uuid.uuid4()), "controller": False}
            metadata["ownerReferences"] = [gone]
        return {
            "metadata": metadata,
            "spec": {
                "clusterIP": "None",
                "selector": {naming.PART_OF: pcs.name, naming.REPLICA_INDEX: str(replica)},
                "publishNotReadyAddresses": pcs.spec.template.headless_service_config.publish_not_ready_addresses,
            },
        }

    async def delete(self, pcs: PodCliqueSet) -> None:
        await self._workshop.delete_all(self._services, pcs, owners={pcs.uid})

    def left(self, pcs: PodCliqueSet) -> int:
        return len(self._services.owned_by(pcs))


class Autoscalers:
    """One per clique or scaling group with a configuration for it, in each replica of the set."""

    name = "horizontal-pod-autoscaler"

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._autoscalers = workshop.caches.autoscalers

    async def sync(self, pcs: PodCliqueSet) -> float | None:
        shop = self._workshop
        wanted = self._wanted(pcs)
        makers: dict[str, Callable[[], Body]] = {
            name: partial(self._body, pcs, name, kind, config, replica)
            for name, (kind, config, replica) in wanted.items()
        }
        await shop.ensure(self._autoscalers, pcs, makers)
        surplus: list[Autoscaler] = []
        for scaler in self._autoscalers.owned_by(pcs):
            if scaler.name not in wanted:
                surplus.append(scaler)
                continue
            config = wanted[scaler.name][1]
            if (scaler.spec.max_replicas, scaler.spec.min_replicas or 1) != (
                config.max_replicas,
                config.min_replicas or 1,
            ):
                spec = {"maxReplicas": config.max_replicas, "minReplicas": config.min_replicas or 1}
                await shop.writer.patch(self._autoscalers, scaler, {"spec": spec})
        await shop.delete_surplus(self._autoscalers, surplus)
        return None

    def _wanted(self, pcs: PodCliqueSet) -> dict[str, tuple[str, AutoScaling, int]]:
        """Return (kind, configuration, replica) by the name of the scale target; the autoscaler has the same name."""
        wanted: dict[str, tuple[str, AutoScaling, int]] = {}
        template = pcs.spec.template
        scaled_cliques = [c for c in template.standalone if c.spec.auto_scaling_config is not None]
        scaled_groups = [g for g in template.pod_clique_scaling_groups if g.scale_config is not None]
        if not scaled_cliques and not scaled_groups:
            return wanted
        for replica in range(pcs.spec.replicas):
            for clique in scaled_cliques:
                if clique.spec.auto_scaling_config is not None:
                    name = naming.clique(pcs.name, replica, clique.name)
                    wanted[name] = ("PodClique", clique.spec.auto_scaling_config, replica)
            for group in scaled_groups:
                if group.scale_config is not None:
                    name = naming.scaling_group(pcs.name, replica, group.name)
                    wanted[name] = ("PodCliqueScalingGroup", group.scale_config, replica)
        return wanted

    def _body(self, pcs: PodCliqueSet, name: str, kind: str, config: AutoScaling, replica: int) -> Body:
        return {
            "metadata": self._workshop.metadata(pcs, name, self.name, replica),
            "spec": {
                "scaleTargetRef": {"apiVersion": "grove.io/v1alpha1", "kind": kind, "name": name},
                "minReplicas": config.min_replicas or 1,
                "maxReplicas": config.max_replicas,
                "metrics": config.metrics or None,
            },
        }

    async def delete(self, pcs: PodCliqueSet) -> None:
        await self._workshop.delete_all(self._autoscalers, pcs, owners={pcs.uid})

    def left(self, pcs: PodCliqueSet) -> int:
        return len(self._autoscalers.owned_by(pcs))
