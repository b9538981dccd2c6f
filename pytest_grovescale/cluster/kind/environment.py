"""What kind and the container engine get of this process' environment."""

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

    kind hands them to the node and to everything in it, and adds the node's name and the networks to what does not go
    through them; loopback it leaves out, where the components of a control plane talk to each other.
    """
    return to_delete(engine, environ) | _proxies(environ)


def to_delete(engine: Engine, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of ``kind delete``, which is written down: how to reach the engine, and no proxies.

    They may hold a password, and there is nothing to be fetched.
    """
    found = {name: value for name, value in environ.items() if name in _PASSED_ON or name.startswith(_ENGINES_OWN)}
    return found | {PROVIDER: engine.name}


def _proxies(environ: Mapping[str, str]) -> dict[str, str]:
    # Who asks for the lower case name must not be told otherwise than who asks for the upper case one.
    values = {name: environ.get(name) or environ.get(name.lower(), "") for name in _PROXIES}
    if not values["HTTP_PROXY"] and not values["HTTPS_PROXY"]:
        return {}
    direct = [host.strip() for host in values["NO_PROXY"].split(",") if host.strip()]
    values["NO_PROXY"] = ",".join(dict.fromkeys([*direct, *_LOOPBACK]))
    return {key: value for name, value in values.items() if value for key in (name, name.lower())}
