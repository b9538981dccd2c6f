"""Resources of the API server, found by any name that kubectl accepts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

import msgspec

from ..errors import UsageError
from ..suggestions import did_you_mean

UPDATES = frozenset({"update", "patch"})
WRITES = UPDATES | {"create", "delete", "deletecollection"}
"""Verbs of requests that change an object, and those of all that may change some."""

# Both answer with the same schema; v2 since Kubernetes 1.30, v2beta1 since 1.27.
DISCOVERY_ACCEPT = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={v};as=APIGroupDiscoveryList" for v in ("v2", "v2beta1")
)


class UnknownResource(UsageError):
    """No API that the cluster serves has a resource of this name."""


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """One served resource, in one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    singular: str = ""
    short_names: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @property
    def qualified(self) -> str:
        """``pods`` for the core group, ``podcliquesets.grove.io`` else."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """Return the URL path of the collection, an object in it, or a subresource of that."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


class _GroupVersionKind(msgspec.Struct):
    kind: str = ""


class _Subresource(msgspec.Struct):
    subresource: str


class _DiscoveredResource(msgspec.Struct, rename="camel"):
    resource: str
    scope: str
    response_kind: _GroupVersionKind | None = None
    singular_resource: str = ""
    short_names: list[str] = []
    verbs: list[str] = []
    subresources: list[_Subresource] = []


class _DiscoveredVersion(msgspec.Struct):
    version: str
    resources: list[_DiscoveredResource] = []


class _Metadata(msgspec.Struct):
    name: str = ""


class _DiscoveredGroup(msgspec.Struct):
    metadata: _Metadata
    versions: list[_DiscoveredVersion] = []


class _Discovery(msgspec.Struct):
    kind: str
    items: list[_DiscoveredGroup] = []


def parse(body: bytes) -> list[Resource]:
    """Return the resources of an aggregated discovery document, preferred versions first within a group."""
    document = msgspec.json.decode(body, type=_Discovery)
    if document.kind != "APIGroupDiscoveryList":
        raise UsageError(
            f"the API server answered discovery with {document.kind}",
            next_step="Aggregated discovery needs Kubernetes 1.27 or newer.",
        )
    return [
        Resource(
            group=group.metadata.name,
            version=version.version,
            plural=found.resource,
            kind=found.response_kind.kind if found.response_kind else "",
            namespaced=found.scope == "Namespaced",
            singular=found.singular_resource,
            short_names=tuple(found.short_names),
            verbs=tuple(found.verbs),
            subresources=tuple(s.subresource for s in found.subresources),
        )
        for group in document.items
        for version in group.versions
        for found in version.resources
    ]


def find(resources: Sequence[Resource], name: str, api_version: str = "") -> Resource:
    """Return the resource for ``name``: plural, singular, kind, short name, each also with ``.group``.

    With ``api_version``, only that group and version. The core group takes precedence, as with kubectl. Raises
    UnknownResource, with similar names.
    """
    wanted = name.lower()
    candidates = [r for r in resources if not api_version or r.api_version == api_version]
    for resource in sorted(candidates, key=lambda r: r.group != ""):
        if wanted in _names(resource):
            return resource
    what = f"{name!r} of {api_version}" if api_version else repr(name)
    needed = "A custom resource needs its CRD: name it under `crds:` of the operator definition."
    if elsewhere := list(dict.fromkeys(r.api_version for r in resources if wanted in _names(r))):
        hint = f"It serves one of {', '.join(elsewhere)}: is that meant by apiVersion?"
    else:
        hint = did_you_mean(wanted, {n for r in resources for n in _names(r)})
    raise UnknownResource(f"the cluster serves no resource {what}", next_step=f"{hint} {needed}".lstrip())


def _names(resource: Resource) -> Iterable[str]:
    bare = {resource.plural, resource.singular, resource.kind.lower(), *resource.short_names} - {""}
    return bare | {f"{name}.{resource.group}" for name in bare} if resource.group else bare
