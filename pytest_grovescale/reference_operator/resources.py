"""The resources that this operator reads and writes, and their URL paths."""

from __future__ import annotations

import msgspec


class Resource(msgspec.Struct, frozen=True):
    """One namespaced resource in one version."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def collection(self, namespace: str = "") -> str:
        """Return the URL path of the collection; without a namespace, of all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if namespace else f"{root}/{self.plural}"

    def path(self, namespace: str, name: str, subresource: str = "") -> str:
        """Return the URL path of one object or of a subresource of it."""
        tail = f"/{subresource}" if subresource else ""
        return f"{self.collection(namespace)}/{name}{tail}"


PODCLIQUESET = Resource("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet")
PODCLIQUE = Resource("grove.io", "v1alpha1", "podcliques", "PodClique")
SCALING_GROUP = Resource("grove.io", "v1alpha1", "podcliquescalinggroups", "PodCliqueScalingGroup")
PODGANG = Resource("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang")
POD = Resource("", "v1", "pods", "Pod")
SERVICE = Resource("", "v1", "services", "Service")
SERVICE_ACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount")
SECRET = Resource("", "v1", "secrets", "Secret")
ROLE = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDING = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
AUTOSCALER = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
DISRUPTION_BUDGET = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
EVENT = Resource("", "v1", "events", "Event")
LEASE = Resource("coordination.k8s.io", "v1", "leases", "Lease")
