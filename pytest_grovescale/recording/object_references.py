"""What an object names or selects: ConfigMaps, Secrets and claims of pods, targets of others, the pods of a Service."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from .. import redaction
from .conditions import is_builtin

_OF_CLUSTER = ("configmaps/kube-root-ca.crt", "serviceaccounts/default")
"""What the cluster makes in each namespace; the ConfigMap is mounted in each pod with a ServiceAccount."""


class _Named(msgspec.Struct, rename="camel", gc=False):
    """Any reference to an object of a kind that its place says; each has one of the names."""

    name: str = ""
    secret_name: str = ""
    claim_name: str = ""
    optional: bool | None = None


class _Sources(msgspec.Struct, rename="camel", gc=False):
    config_map: _Named | None = None
    secret: _Named | None = None
    persistent_volume_claim: _Named | None = None
    config_map_ref: _Named | None = None
    secret_ref: _Named | None = None
    config_map_key_ref: _Named | None = None
    secret_key_ref: _Named | None = None


class _WithSpec(msgspec.Struct, gc=False):
    spec: msgspec.Raw = msgspec.Raw(b"")


class _Projected(msgspec.Struct, gc=False):
    sources: list[_Sources] | None = None


class _Volume(_Sources, gc=False):
    projected: _Projected | None = None


class _Variable(msgspec.Struct, rename="camel", gc=False):
    value_from: _Sources | None = None


class _Container(msgspec.Struct, rename="camel", gc=False):
    env: list[_Variable] | None = None
    env_from: list[_Sources] | None = None


class _PodSpec(msgspec.Struct, rename="camel", gc=False):
    volumes: list[_Volume] | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    service_account_name: str = ""


class _Pod(msgspec.Struct, gc=False):
    spec: _PodSpec


class _Template(msgspec.Struct, rename="camel", gc=False):
    template: _Pod
    service_name: str = ""
    """Of a StatefulSet."""


class _WithTemplate(msgspec.Struct, gc=False):
    spec: _Template


class _JobSpec(msgspec.Struct, gc=False):
    spec: _Template


class _CronJobSpec(msgspec.Struct, rename="camel", gc=False):
    job_template: _JobSpec


class _CronJob(msgspec.Struct, gc=False):
    spec: _CronJobSpec


class _OfKind(msgspec.Struct, rename="camel", gc=False):
    """A reference that says the kind of its object."""

    kind: str = ""
    name: str = ""
    namespace: str = ""


class _Metadata(msgspec.Struct, gc=False):
    namespace: str = ""


class _RoleBinding(msgspec.Struct, rename="camel", gc=False):
    metadata: _Metadata
    role_ref: _OfKind
    subjects: list[_OfKind] | None = None


class _Scaling(msgspec.Struct, rename="camel", gc=False):
    scale_target_ref: _OfKind


class _Autoscaler(msgspec.Struct, gc=False):
    spec: _Scaling


class _Backend(msgspec.Struct, gc=False):
    service: _Named | None = None


class _Path(msgspec.Struct, gc=False):
    backend: _Backend


class _Paths(msgspec.Struct, gc=False):
    paths: list[_Path] | None = None


class _Rule(msgspec.Struct, gc=False):
    http: _Paths | None = None


class _IngressSpec(msgspec.Struct, rename="camel", gc=False):
    rules: list[_Rule] | None = None
    default_backend: _Backend | None = None
    tls: list[_Named] | None = None


class _Ingress(msgspec.Struct, gc=False):
    spec: _IngressSpec


_KINDS = {
    "Deployment": "deployments.apps",
    "StatefulSet": "statefulsets.apps",
    "ReplicaSet": "replicasets.apps",
    "Role": "roles.rbac.authorization.k8s.io",
    "ServiceAccount": "serviceaccounts",
}


def _of_pod(spec: _PodSpec) -> Iterator[str]:
    for sources in _all_sources(spec):
        yield from _names(sources)
    if spec.service_account_name:
        yield f"serviceaccounts/{spec.service_account_name}"


def _of_template(spec: _Template) -> Iterator[str]:
    yield from _of_pod(spec.template.spec)
    if spec.service_name:
        yield f"services/{spec.service_name}"


def _of_binding(binding: _RoleBinding) -> Iterator[str]:
    for one in [binding.role_ref, *(binding.subjects or ())]:
        # Roles are of the binding's own namespace; a subject may be of another, where its name says nothing here.
        if one.kind in _KINDS and one.namespace in ("", binding.metadata.namespace):
            yield f"{_KINDS[one.kind]}/{one.name}"


def _of_autoscaler(autoscaler: _Autoscaler) -> Iterator[str]:
    target = autoscaler.spec.scale_target_ref
    if target.kind in _KINDS:
        yield f"{_KINDS[target.kind]}/{target.name}"


def _of_ingress(ingress: _Ingress) -> Iterator[str]:
    spec = ingress.spec
    paths = (path for rule in spec.rules or () if rule.http is not None for path in rule.http.paths or ())
    for backend in [spec.default_backend, *(path.backend for path in paths)]:
        if backend is not None and backend.service is not None:
            yield f"services/{backend.service.name}"
    yield from (f"secrets/{one.secret_name}" for one in spec.tls or () if one.secret_name)


Shape = TypeVar("Shape")


def _reader(shape: type[Shape], names: Callable[[Shape], Iterator[str]]) -> Callable[[msgspec.Raw | bytes], set[str]]:
    decode = msgspec.json.Decoder(shape).decode
    return lambda data: set(names(decode(data)))


_decode_spec = msgspec.json.Decoder(_WithSpec).decode
_of_workload = _reader(_WithTemplate, lambda one: _of_template(one.spec))

_READERS = {
    "pods": _reader(_Pod, lambda one: _of_pod(one.spec)),
    **dict.fromkeys(
        ("deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch"), _of_workload
    ),
    "cronjobs.batch": _reader(_CronJob, lambda one: _of_template(one.spec.job_template.spec)),
    "rolebindings.rbac.authorization.k8s.io": _reader(_RoleBinding, _of_binding),
    "horizontalpodautoscalers.autoscaling": _reader(_Autoscaler, _of_autoscaler),
    "ingresses.networking.k8s.io": _reader(_Ingress, _of_ingress),
}


SURE = frozenset(_READERS)
"""Resources of which it is known what they cannot do their work without; of others a field's name says it."""
_BY_FIELD = re.compile(
    rb'"\w*?(secret|config_?map)\w*":(?:"([a-z0-9.-]+)"|\{[^{}]*?"name":"([a-z0-9.-]+)")', re.IGNORECASE
)
"""A field such as ``secretName: a`` or ``configMapRef: {name: a}``, as the API server writes JSON."""
_ANY_NAME = re.compile(rb'"(\w+)":"([a-z][a-z0-9.-]{2,62})"')
_NAME = re.compile(r"[a-z][a-z0-9.-]{2,62}")
_LARGE = 64 << 10
"""Bytes of a spec from which on it holds texts sooner than names."""
_NAMES = 32
"""Names that are kept of one object: a spec with many is one with texts."""


def any_kind(name: str) -> str:
    """Return how a field's value is kept that may be the name of an object of any kind.

    By a checksum: it may as well be a password that its field does not call one.
    """
    return f"*/{zlib.crc32(name.encode()):x}"


def dropped(resource: str, before: bytes, after: bytes) -> list[str]:
    """Return what the spec of a custom resource may have named in one version, and not in the next, as `any_kind` does.

    Texts that may be names, in lists as elsewhere, and the keys of maps; none of fields for credentials.
    """
    if is_builtin(resource) or not before or len(before) > _LARGE or len(after) > _LARGE:
        return []
    gone = {*_texts(msgspec.json.decode(before))} - {*_texts(msgspec.json.decode(after))}
    return [any_kind(name) for name in sorted(gone)[:_NAMES]]


def _texts(content: Any, field: str = "") -> Iterator[str]:
    if isinstance(content, dict):
        for key, value in content.items():
            if _NAME.fullmatch(key):
                yield key
            yield from _texts(value, key)
    elif isinstance(content, list):
        for value in content:
            yield from _texts(value, field)
    elif isinstance(content, str) and _NAME.fullmatch(content) and not redaction.secret_name(field):
        yield content


class _Selecting(msgspec.Struct, rename="camel", gc=False):
    selector: msgspec.Raw = msgspec.Raw(b"")
    pod_selector: msgspec.Raw = msgspec.Raw(b"")


class _WithSelector(msgspec.Struct, gc=False):
    spec: _Selecting | None = None


class _Selector(msgspec.Struct, rename="camel", gc=False):
    match_labels: dict[str, str] | None = None


_SELECTING = frozenset(
    {"services", "poddisruptionbudgets.policy", "deployments.apps", "statefulsets.apps", "daemonsets.apps"}
)
_decode_selector = msgspec.json.Decoder(_WithSelector).decode


def selected(resource: str, data: msgspec.Raw | bytes) -> str:
    """Return a checksum of what an object selects its pods by, as the API server writes it; empty without a selector.

    Of Services, PodDisruptionBudgets and workloads: those with one checksum in one namespace select the same pods.
    """
    if resource not in _SELECTING:
        return ""
    spec = _decode_selector(data).spec
    selector = bytes(spec.selector) if spec is not None else b""
    return f"{zlib.crc32(selector):x}" if selector not in (b"", b"null") else ""


_of_labels = msgspec.json.Decoder(dict[str, str]).decode
_decode_selector_of_labels = msgspec.json.Decoder(_Selector).decode
_VALUES = 1024
"""Values of one label of a namespace's pods that are kept."""
MANY = "*"
"""What stands for all further ones; no label can have it."""


def selector(resource: str, data: msgspec.Raw | bytes) -> dict[str, str]:
    """Return the labels that a Service or a NetworkPolicy wants of pods: label → value; empty where it names none."""
    if resource not in ("services", "networkpolicies.networking.k8s.io"):
        return {}
    spec = _decode_selector(data).spec
    part = bytes(spec.selector if resource == "services" else spec.pod_selector) if spec is not None else b""
    if part in (b"", b"null"):
        return {}
    labels = _of_labels(part) if resource == "services" else _decode_selector_of_labels(part).match_labels
    return {name: redaction.value(value, name) for name, value in (labels or {}).items()}


class PodLabels:
    """The labels that the pods of each namespace had so far."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], set[str]] = {}

    def new(self, namespace: str, labels: bytes) -> dict[str, str]:
        """Return those of a pod that none had before, label → value. ``labels``: its own, as JSON."""
        found: dict[str, str] = {}
        for name, value in _of_labels(labels).items() if labels else ():
            values = self._values.setdefault((namespace, name), set())
            if value not in values and len(values) <= _VALUES:
                found[name] = redaction.value(value, name) if len(values) < _VALUES else MANY
                values.add(value)
        return found


def needed(resource: str, data: msgspec.Raw | bytes) -> list[str]:
    """Return what an object names and needs in its own namespace, as ``configmaps/NAME``.

    Of pods and templates: what they cannot start without, ConfigMaps, Secrets and claims that are not optional, and
    their ServiceAccount; of a StatefulSet its Service, of an Ingress its Services and certificates, of a RoleBinding
    its Role and ServiceAccounts, of a HorizontalPodAutoscaler its target. Of custom resources the
    Secrets and ConfigMaps that fields of their spec name, as it seems, and what may be any other name (`any_kind`).
    """
    if (reader := _READERS.get(resource)) is not None:
        return sorted(reader(data).difference(_OF_CLUSTER))
    if is_builtin(resource):
        return []
    spec = bytes(_decode_spec(data).spec)
    kinds = {b"secret": "secrets"}
    sure = {
        (text or name).decode(): kinds.get(kind.lower(), "configmaps") for kind, text, name in _BY_FIELD.findall(spec)
    }
    others = {name.decode() for field, name in _ANY_NAME.findall(spec) if not redaction.secret_name(field.decode())}
    return [*sorted(f"{kind}/{name}" for name, kind in sure.items()), *map(any_kind, sorted(others - {*sure})[:_NAMES])]


def _all_sources(spec: _PodSpec) -> Iterator[_Sources]:
    for volume in spec.volumes or ():
        yield volume
        if volume.projected is not None:
            yield from volume.projected.sources or ()
    for container in [*(spec.containers or ()), *(spec.init_containers or ())]:
        yield from container.env_from or ()
        yield from (one.value_from for one in container.env or () if one.value_from is not None)


def _names(sources: _Sources) -> Iterator[str]:
    found = (
        ("configmaps", sources.config_map),
        ("configmaps", sources.config_map_ref),
        ("configmaps", sources.config_map_key_ref),
        ("secrets", sources.secret),
        ("secrets", sources.secret_ref),
        ("secrets", sources.secret_key_ref),
        ("persistentvolumeclaims", sources.persistent_volume_claim),
    )
    for resource, one in found:
        if one is not None and not one.optional and (name := one.name or one.secret_name or one.claim_name):
            yield f"{resource}/{name}"
