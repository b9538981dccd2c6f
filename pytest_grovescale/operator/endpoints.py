"""Endpoints of an operator definition: checked, and the credentials that they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import msgspec

from ..endpoints import Credentials
from ..errors import DefinitionError
from . import placeholders
from .placeholders import fill
from .schema import (
    CREDENTIAL_FILES,
    NAME,
    NAME_RULE,
    Admitted,
    InCluster,
    OperatorFile,
    Served,
    ServedMetrics,
    admitted,
    in_cluster,
)


def credentials(part: Admitted, values: Mapping[str, str]) -> Credentials:
    """Return the credentials for ``part``; ``values``: placeholder → value in this start."""
    return Credentials(
        token_file=values["token_file"] if part.token else fill(part.token_file, values),
        ca_file=fill(part.ca_file, values),
        cert_file=fill(part.cert_file, values),
        key_file=fill(part.key_file, values),
        insecure_skip_verify=part.insecure_skip_verify,
    )


Keys = tuple[str | int, ...]
Fail = Callable[..., DefinitionError]

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
_TAKEN = ("operator", "replica", *_COMPONENTS)
"""Names of grovescale's own targets."""
_TLS = ("ca_file", "cert_file", "key_file", "insecure_skip_verify")


def check(written: OperatorFile, fail: Fail) -> None:
    """Raise DefinitionError for invalid endpoints, and for credentials that are unused or sent to another server."""
    _check_places(written, fail)
    _check_targets(written, fail)
    for place, part in in_cluster(written).items():
        if isinstance(part.port, int) and not 0 < part.port < 65536:
            raise fail((*place, "port"), f"{part.port} is no port")
        if not part.path.startswith("/"):
            raise fail((*place, "path"), f"{part.path!r} does not start with '/'")
    for place, part_ in admitted(written).items():
        _check_admitted(place, part_, fail)


def with_files(written: OperatorFile, absolute: Callable[[Keys, str], str]) -> OperatorFile:
    """Return the definition with absolute paths of credential files.

    ``absolute`` returns the absolute path of an existing file for a field. Paths with placeholders stay unchanged.
    """
    found = {place: _resolved(place, part, absolute) for place, part in admitted(written).items()}
    top = {str(place[0]): part for place, part in found.items() if len(place) == 1}
    of_pod = {str(place[1]): part for place, part in found.items() if place[0] == "pod"}
    targets = [found["targets", index] for index in range(len(written.targets))]
    pod = msgspec.structs.replace(written.pod, **of_pod) if written.pod is not None else None
    return msgspec.structs.replace(written, **top, pod=pod, targets=targets)


def _resolved(place: Keys, part: Admitted, absolute: Callable[[Keys, str], str]) -> Admitted:
    named = {field: getattr(part, field) for field in CREDENTIAL_FILES}
    files = {
        field: absolute((*place, field), name)
        for field, name in named.items()
        if name and not list(placeholders.names(name))
    }
    return msgspec.structs.replace(part, **files)


def _check_places(written: OperatorFile, fail: Fail) -> None:
    if written.metrics is not None:
        _one_of(("metrics",), {"url": written.metrics.url, "service": written.metrics.service}, fail)
    metrics = written.pod.metrics if written.pod is not None else None
    if metrics is not None:
        _one_of(("pod", "metrics"), {"port": metrics.port, "service": metrics.service}, fail)
        for field in ("path", "scheme", "via") if metrics.service is not None else ():
            if getattr(metrics, field) != _DEFAULTS[field]:
                raise fail(("pod", "metrics", field), "is the Service's to say", "Write it under `service:`.")


_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(ServedMetrics)}


def _check_targets(written: OperatorFile, fail: Fail) -> None:
    seen: set[str] = set()
    for index, target in enumerate(written.targets):
        place = ("targets", index)
        if not NAME.fullmatch(target.name):
            raise fail((*place, "name"), f"{target.name!r}: {NAME_RULE}")
        if target.name in _TAKEN:
            raise fail((*place, "name"), f"{target.name} is a target of the harness' own", "Choose another name.")
        if target.name in seen:
            raise fail((*place, "name"), f"there are two targets {target.name}")
        seen.add(target.name)
        _one_of(place, {"url": target.url, "service": target.service, "pods": target.pods}, fail)


def _one_of(place: Keys, given: dict[str, object], fail: Fail) -> None:
    names = [name for name, value in given.items() if value]
    if len(names) != 1:
        what = f"has both {' and '.join(names)}" if names else "does not say where it is"
        raise fail((*place, names[1]) if names else place, what, f"Give one of {', '.join(given)}.")


def _check_admitted(place: Keys, part: Admitted, fail: Fail) -> None:
    if part.token and part.token_file:
        raise fail((*place, "token_file"), "there is `token: true` too", "Either the operator's own token or that one.")
    if part.key_file and not part.cert_file:
        raise fail((*place, "key_file"), "is the key of no certificate", "Name that, too: cert_file.")
    scheme, via, host = _reached(part)
    given = [name for name in ("token", *CREDENTIAL_FILES, "insecure_skip_verify") if getattr(part, name)]
    if via == "proxy" and given:
        ways = "`via: forward`, or `via: ip`" if isinstance(part, Served) else "`via: ip`"
        raise fail((*place, given[0]), "is not for the API server's proxy", f"Set {ways}.")
    for name in _TLS if scheme == "http" else ():
        if getattr(part, name):
            raise fail((*place, name), f"is for https; this {'URL' if host else 'endpoint'} is plain http")
    if scheme == "http" and host and host not in _LOOPBACK and (part.token or part.token_file):
        which = "token" if part.token else "token_file"
        raise fail((*place, which), "would travel in the clear to another host", "Use https.")


def _reached(part: Admitted) -> tuple[str, str, str]:
    """Return the scheme, the way (``via``) and the host, if a URL names one, of an endpoint."""
    if url := getattr(part, "url", ""):
        parts = urlsplit(url)
        return parts.scheme, "", parts.hostname or ""
    place: object = getattr(part, "service", None) or getattr(part, "pods", None) or part
    assert isinstance(place, InCluster | Served)  # checked: exactly one of three kinds of endpoint
    return place.scheme, place.via, ""
