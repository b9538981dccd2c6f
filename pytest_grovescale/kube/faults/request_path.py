"""What a request is about: its verb, resource and object, from its method and path.

As k8s.io/apiserver/pkg/endpoints/request.RequestInfo, which the audit log is written from.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qs, unquote

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}
_UPGRADES = frozenset({"exec", "attach", "portforward", "proxy"})
_NAMESPACE_PARTS = frozenset({"status", "finalize"})


class Target(NamedTuple):
    """What one request is about. ``resource`` is empty for a path that is no resource's, as ``/readyz``."""

    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str

    @property
    def qualified(self) -> str:
        """Return ``pods`` or ``podcliques.grove.io``."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def stream(self) -> str:
        """Return what random numbers are drawn for: ``update podcliques.grove.io/status``."""
        return f"{self.verb} {self.qualified}" + (f"/{self.subresource}" if self.subresource else "")

    @property
    def takes_over_connection(self) -> bool:
        """Whether it may leave HTTP behind: exec, attach, port-forward."""
        return self.resource in ("pods", "services", "nodes") and self.subresource in _UPGRADES

    def about(self, resources: tuple[str, ...]) -> bool:
        """Return whether it is about one of these resources; of all where there are none."""
        return bool(self.resource) and (not resources or self.resource in resources or self.qualified in resources)


def target_of(method: str, path: str, query: str) -> Target:
    """Return what a request is about. ``path`` and ``query`` as they are sent, escaped."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    verb = _VERBS.get(method, method.lower())
    if parts[0] == "api" and len(parts) > 2:
        group, parts = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, parts = parts[1], parts[3:]
    else:
        return Target(verb, "", "", "", "", "")
    watch = parts[0] == "watch"
    if watch and len(parts) > 1:
        # The old form, as /api/v1/watch/pods.
        parts = parts[1:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in _NAMESPACE_PARTS:
        namespace, parts = parts[1], parts[2:]
    elif parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
    resource, name, subresource = (*parts, "", "")[:3]
    if not name:
        if verb == "get":
            watch = watch or parse_qs(query).get("watch", ["false"])[-1] in ("true", "1")
            verb = "watch" if watch else "list"
        elif verb == "delete":
            verb = "deletecollection"
    return Target(verb, group, resource, subresource, namespace, name)
