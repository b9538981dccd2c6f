"""The objects that the operator watches, each decoded only as far as the reconcilers need.

The decoder skips fields that are not declared here at almost no cost. A pod's spec in particular is only decoded for
its node and its scheduling gates. All fields have defaults, so that a BOOKMARK decodes too.
"""

from __future__ import annotations

from typing import Any

import msgspec

PodSpec = dict[str, Any]
"""A pod spec as written by the user: passed on, hashed and compared, never interpreted."""


class OwnerReference(msgspec.Struct, rename="camel", gc=False):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(msgspec.Struct, rename="camel", kw_only=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []
    deletion_timestamp: str | None = None


class Object(msgspec.Struct):
    """Fields common to all objects; also used for objects whose content does not matter."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def key(self) -> str:
        """``namespace/name``: the request of a reconcile, and the key in a store."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls this object."""
        for owner in self.metadata.owner_references:
            if owner.controller:
                return owner
        return None

    def controlled_by(self, uid: str) -> bool:
        owner = self.controller
        return owner is not None and owner.uid == uid


class Condition(msgspec.Struct, rename="camel", omit_defaults=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class LastError(msgspec.Struct, rename="camel"):
    code: str = ""
    description: str = ""
    observed_at: str = ""


# ---- pods


class SchedulingGate(msgspec.Struct, gc=False):
    name: str = ""


class NarrowPodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    scheduling_gates: list[SchedulingGate] = []


class PodCondition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""


class PodStatus(msgspec.Struct):
    phase: str = ""
    conditions: list[PodCondition] = []


class Pod(Object):
    spec: NarrowPodSpec = msgspec.field(default_factory=NarrowPodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def ready(self) -> bool:
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)

    @property
    def scheduled(self) -> bool:
        return bool(self.spec.node_name)

    @property
    def finished(self) -> bool:
        """Whether it failed (such as by eviction) or succeeded: it will never be ready again."""
        return self.status.phase in ("Failed", "Succeeded")


# ---- cliques


class AutoScaling(msgspec.Struct, rename="camel", omit_defaults=True):
    """``autoScalingConfig`` of a clique, ``scaleConfig`` of a scaling group."""

    max_replicas: int
    min_replicas: int | None = None
    metrics: list[dict[str, Any]] = []


class CliqueSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    role_name: str = ""
    replicas: int = 1
    min_available: int | None = None
    pod_spec: PodSpec = {}
    starts_after: list[str] = []
    """In a template: names of its cliques. In a PodClique: names of PodCliques."""
    auto_scaling_config: AutoScaling | None = None

    @property
    def needed(self) -> int:
        """Pods that must be ready for the clique to count as available."""
        return self.replicas if self.min_available is None else self.min_available


class CliqueStatus(msgspec.Struct, rename="camel", kw_only=True):
    replicas: int = 0
    ready_replicas: int = 0
    scheduled_replicas: int = 0
    schedule_gated_replicas: int = 0
    updated_replicas: int = 0
    observed_generation: int = 0
    selector: str = ""
    current_pod_template_hash: str = ""
    current_pod_clique_set_generation_hash: str = ""
    conditions: list[Condition] = []
    last_errors: list[LastError] = []


class PodClique(Object):
    spec: CliqueSpec = msgspec.field(default_factory=CliqueSpec)
    status: CliqueStatus = msgspec.field(default_factory=CliqueStatus)

    @property
    def available(self) -> bool:
        return self.status.ready_replicas >= self.spec.needed and not self.terminating


# ---- scaling groups


class ScalingGroupSpec(msgspec.Struct, rename="camel", kw_only=True):
    clique_names: list[str] = []
    replicas: int = 1
    min_available: int = 1


class ScalingGroupStatus(msgspec.Struct, rename="camel", kw_only=True):
    replicas: int = 0
    available_replicas: int = 0
    scheduled_replicas: int = 0
    updated_replicas: int = 0
    selector: str = ""
    observed_generation: int = 0
    conditions: list[Condition] = []


class ScalingGroup(Object):
    spec: ScalingGroupSpec = msgspec.field(default_factory=ScalingGroupSpec)
    status: ScalingGroupStatus = msgspec.field(default_factory=ScalingGroupStatus)

    @property
    def available(self) -> bool:
        return self.status.available_replicas >= self.spec.min_available and not self.terminating


# ---- sets


class CliqueTemplate(msgspec.Struct, kw_only=True):
    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    spec: CliqueSpec = msgspec.field(default_factory=CliqueSpec)


class ScalingGroupTemplate(msgspec.Struct, rename="camel", kw_only=True):
    name: str = ""
    clique_names: list[str] = []
    replicas: int = 1
    min_available: int = 1
    scale_config: AutoScaling | None = None


class HeadlessServiceConfig(msgspec.Struct, rename="camel"):
    publish_not_ready_addresses: bool = True


class SetTemplate(msgspec.Struct, rename="camel", kw_only=True):
    cliques: list[CliqueTemplate] = []
    clique_startup_type: str = "CliqueStartupTypeAnyOrder"
    headless_service_config: HeadlessServiceConfig = msgspec.field(default_factory=HeadlessServiceConfig)
    pod_clique_scaling_groups: list[ScalingGroupTemplate] = []
    priority_class_name: str = ""
    termination_delay: str = "4h"

    def clique(self, name: str) -> CliqueTemplate | None:
        return next((c for c in self.cliques if c.name == name), None)

    @property
    def standalone(self) -> list[CliqueTemplate]:
        """Cliques that belong to no scaling group."""
        grouped = {name for group in self.pod_clique_scaling_groups for name in group.clique_names}
        return [c for c in self.cliques if c.name not in grouped]


class SetSpec(msgspec.Struct):
    replicas: int = 1
    template: SetTemplate = msgspec.field(default_factory=SetTemplate)


class SetStatus(msgspec.Struct, rename="camel", kw_only=True):
    replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0
    observed_generation: int = 0
    current_generation_hash: str = ""
    selector: str = ""
    conditions: list[Condition] = []
    last_errors: list[LastError] = []


class PodCliqueSet(Object):
    spec: SetSpec = msgspec.field(default_factory=SetSpec)
    status: SetStatus = msgspec.field(default_factory=SetStatus)


# ---- gangs


class PodReference(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""


class PodGroup(msgspec.Struct, rename="camel"):
    name: str = ""
    min_replicas: int = 0
    pod_references: list[PodReference] = []


class PodGangSpec(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    podgroups: list[PodGroup] = []
    priority_class_name: str = ""


class PodGangStatus(msgspec.Struct):
    phase: str = ""
    conditions: list[Condition] = []


class PodGang(Object):
    spec: PodGangSpec = msgspec.field(default_factory=PodGangSpec)
    status: PodGangStatus = msgspec.field(default_factory=PodGangStatus)

    @property
    def initialized(self) -> bool:
        return any(c.type == "Initialized" and c.status == "True" for c in self.status.conditions)


# ---- infrastructure: only what can drift


class ServiceSpec(msgspec.Struct, rename="camel"):
    publish_not_ready_addresses: bool = False


class Service(Object):
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


class Role(Object):
    # A BOOKMARK of this kind holds null.
    rules: list[dict[str, Any]] | None = None


class AutoscalerSpec(msgspec.Struct, rename="camel"):
    max_replicas: int = 0
    min_replicas: int | None = None


class Autoscaler(Object):
    spec: AutoscalerSpec = msgspec.field(default_factory=AutoscalerSpec)
