"""What pods cannot start without: the ConfigMaps, Secrets and claims that their volumes and variables name."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

_WITH_TEMPLATE = frozenset(
    {"deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch"}
)
_OF_CLUSTER = "kube-root-ca.crt"
"""The ConfigMap that the cluster puts in each namespace, and mounts in each pod with a ServiceAccount."""


class _Reference(msgspec.Struct, rename="camel", gc=False):
    """Any of the kinds of references; each has one of the names."""

    name: str = ""
    secret_name: str = ""
    claim_name: str = ""
    optional: bool | None = None


class _Sources(msgspec.Struct, rename="camel", gc=False):
    config_map: _Reference | None = None
    secret: _Reference | None = None
    persistent_volume_claim: _Reference | None = None
    config_map_ref: _Reference | None = None
    secret_ref: _Reference | None = None
    config_map_key_ref: _Reference | None = None
    secret_key_ref: _Reference | None = None


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


class _Pod(msgspec.Struct, gc=False):
    spec: _PodSpec


class _Template(msgspec.Struct, gc=False):
    template: _Pod


class _WithTemplate(msgspec.Struct, gc=False):
    spec: _Template


_decode_pod = msgspec.json.Decoder(_Pod).decode
_decode_with_template = msgspec.json.Decoder(_WithTemplate).decode


def needed(resource: str, data: msgspec.Raw | bytes) -> list[str]:
    """Return what pods of an object need to start, as ``configmaps/NAME``; empty for kinds without pods."""
    if resource == "pods":
        spec = _decode_pod(data).spec
    elif resource in _WITH_TEMPLATE:
        spec = _decode_with_template(data).spec.template.spec
    else:
        return []
    return sorted({one for sources in _all_sources(spec) for one in _names(sources)} - {f"configmaps/{_OF_CLUSTER}"})


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
