"""Permissions that the harness requires on an existing cluster: the rules of ``fixtures/rbac/harness.yaml``.

An administrator applies that file, and the preflight check reads it, so that both always agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from .. import resources as bundled
from ..errors import DefinitionError

FOLDER = "fixtures/rbac"
FILE = "harness.yaml"

NEEDED = "grovescale.io/needed"
WITHOUT = "grovescale.io/without"

REVIEWS_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Right(msgspec.Struct, frozen=True, kw_only=True):
    """One verb on one resource, or on one non-resource URL (``path``)."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    path: str = ""
    role: str
    """ClusterRole of the file that grants it."""
    needed: bool
    """Whether every test requires it."""
    without: str
    """Effect of a missing permission, as text."""

    @property
    def text(self) -> str:
        """The permission as text: ``create serviceaccounts/token``, ``get /metrics``, ``patch pcs.grove.io``."""
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {self.path or name}" + (f"/{self.subresource}" if self.subresource else "")


class _Metadata(msgspec.Struct):
    name: str
    annotations: dict[str, str] = {}


class _Rule(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    verbs: list[str]
    api_groups: list[str] = []
    resources: list[str] = []
    non_resource_urls: list[str] = msgspec.field(default_factory=list, name="nonResourceURLs")


class _ClusterRole(msgspec.Struct):
    metadata: _Metadata
    rules: list[_Rule]


def rights(file: Path | None = None) -> list[Right]:
    """Return every permission that the ClusterRoles of a file grant, without duplicates, required ones first.

    ``file`` None: the bundled one. Raises DefinitionError for a file without ClusterRoles, and for a role whose
    annotations lack whether it is required or the effect of its absence.
    """
    path = file or bundled.find(FOLDER, FILE)
    documents = yaml.safe_load_all(path.read_text(encoding="utf-8"))
    roles = [document for document in documents if document and document.get("kind") == "ClusterRole"]
    if not roles:
        raise DefinitionError(f"{path}:1: has no ClusterRole", next_step=f"See the bundled {FOLDER}/{FILE}.")
    granted = [right for role in roles for right in _granted(path, role)]
    once: dict[str, Right] = {}
    for right in sorted(granted, key=lambda right: not right.needed):
        once.setdefault(right.text, right)
    return list(once.values())


def review(right: Right, namespace: str = "") -> dict[str, Any]:
    """Return the SelfSubjectAccessReview for a permission in a namespace; by default in all namespaces.

    https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access
    """
    if right.path:
        spec = {"nonResourceAttributes": {"verb": right.verb, "path": right.path}}
    else:
        asked = {
            "verb": right.verb,
            "group": right.group,
            "resource": right.resource,
            "subresource": right.subresource,
            "namespace": namespace,
        }
        spec = {"resourceAttributes": {key: value for key, value in asked.items() if value}}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}


def _granted(path: Path, document: dict[str, Any]) -> Iterator[Right]:
    try:
        role = msgspec.convert(document, _ClusterRole)
        needed = {"true": True, "false": False}[role.metadata.annotations[NEEDED]]
        without = role.metadata.annotations[WITHOUT]
    except (msgspec.ValidationError, KeyError) as error:
        name = (document.get("metadata") or {}).get("name")
        raise DefinitionError(
            f"{path}:1: ClusterRole {name}: {error}",
            next_step=f'Each has rules, and the annotations {NEEDED} ("true" or "false") and {WITHOUT}.',
        ) from error
    for rule in role.rules:
        for verb in rule.verbs:
            for url in rule.non_resource_urls:
                yield Right(verb=verb, path=url, role=role.metadata.name, needed=needed, without=without)
            for group in rule.api_groups:
                for name in rule.resources:
                    resource, _, subresource = name.partition("/")
                    yield Right(
                        verb=verb,
                        group=group,
                        resource=resource,
                        subresource=subresource,
                        role=role.metadata.name,
                        needed=needed,
                        without=without,
                    )
