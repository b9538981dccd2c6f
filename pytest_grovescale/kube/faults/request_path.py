"""What a request is about: its verb, resource and object, from its method and path.

As k8s.io/apiserver/pkg/endpoints/request.RequestInfo, which the audit log is written from.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qs, unquote

import msgspec

from ...protobuf_wire import BYTES, WireError, grouped, last

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


_MAGIC = b"k8s\x00"
_FIRST, _SECOND = 1 << 3 | BYTES, 2 << 3 | BYTES


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    generate_name: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_decode = msgspec.json.Decoder(_Object).decode


def name_in(body: bytes) -> str:
    """Return the name of an object; of one whose name the API server generates, its beginning with a ``*``.

    JSON or Kubernetes' protobuf; empty for anything else.
    """
    try:
        found = _of_protobuf(body[len(_MAGIC) :]) if body.startswith(_MAGIC) else _decode(body).metadata
    except (msgspec.DecodeError, WireError, UnicodeDecodeError):
        return ""
    return found.name or (f"{found.generate_name}*" if found.generate_name else "")


def _of_protobuf(message: bytes) -> _Metadata:
    # runtime.Unknown{raw=2} of an object, whose first field is its ObjectMeta{name=1, generateName=2}.
    raw = last(grouped(message), _SECOND) or b""
    metadata = grouped(last(grouped(raw), _FIRST) or b"")
    return _Metadata((last(metadata, _FIRST) or b"").decode(), (last(metadata, _SECOND) or b"").decode())
