"""The environment variables that kind and the container engine get from this process."""

from __future__ import annotations

from collections.abc import Mapping

from .engine import PROVIDER, Engine

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PASSED_ON = (
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
)
_ENGINES_OWN = ("DOCKER_", "CONTAINER_", "CONTAINERS_", "KIND_EXPERIMENTAL_")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def to_create(engine: Engine, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of ``kind create``: with proxies, which the node needs to pull images.

    kind passes them to the node and all its processes, and adds the node's name and the networks to the proxy
    exceptions; it omits loopback, which the components of a control plane use among themselves.
    """
    return to_delete(engine, environ) | _proxies(environ)


def to_delete(engine: Engine, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of ``kind delete``, which is stored on disk: engine settings, no proxies.

    Proxy settings may contain a password, and a deletion downloads nothing.
    """
    found = {name: value for name, value in environ.items() if name in _PASSED_ON or name.startswith(_ENGINES_OWN)}
    return found | {PROVIDER: engine.name}


def _proxies(environ: Mapping[str, str]) -> dict[str, str]:
    # Programs that read the lower-case name must get the same value as those that read the upper-case one.
    values = {name: environ.get(name) or environ.get(name.lower(), "") for name in _PROXIES}
    if not values["HTTP_PROXY"] and not values["HTTPS_PROXY"]:
        return {}
    direct = [host.strip() for host in values["NO_PROXY"].split(",") if host.strip()]
    values["NO_PROXY"] = ",".join(dict.fromkeys([*direct, *_LOOPBACK]))
    return {key: value for name, value in values.items() if value for key in (name, name.lower())}
