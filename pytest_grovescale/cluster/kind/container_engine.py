"""The container engine that kind works with, Docker or Podman: containers, images, environment, state of a node."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NoReturn, TypeVar

import msgspec

from ...errors import ClusterError, UsageError
from ..definition import EngineName
from ..state import Container

T = TypeVar("T")

PROVIDER = "KIND_EXPERIMENTAL_PROVIDER"
"""Environment variable that sets kind's engine."""

CLUSTER_LABEL = "io.x-k8s.kind.cluster"
"""Label that kind puts on its containers; its value is the cluster's name."""

_ASK_S = 30.0
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
_INSTALL = (
    "Install Docker or Podman (Debian, Ubuntu: apt-get install docker.io), or use the local backend, which needs none."
)
_START = {
    "docker": "Start it: systemctl start docker; or say where it is: DOCKER_HOST.",
    "podman": "See why: podman info.",
}
_NO_RIGHT = "Let this user use it: add it to the group docker and log in again, or run as root, or use rootless Docker."


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """A container engine that answers."""

    name: Literal["docker", "podman"]
    executable: str
    version: str
    cgroup_version: str
    """``1`` or ``2``; empty: not reported."""
    rootless: bool


class _DockerInfo(msgspec.Struct, frozen=True, rename="pascal"):
    server_version: str = ""
    cgroup_version: str = ""
    security_options: list[str] | None = None
    server_errors: list[str] | None = None


class _Security(msgspec.Struct, frozen=True):
    rootless: bool = False


class _PodmanHost(msgspec.Struct, frozen=True, rename="camel"):
    cgroup_version: str = ""
    security: _Security = _Security()
    service_is_remote: bool = False


class _PodmanVersion(msgspec.Struct, frozen=True, rename="pascal"):
    version: str = ""


class _PodmanInfo(msgspec.Struct, frozen=True):
    host: _PodmanHost
    version: _PodmanVersion


class _Network(msgspec.Struct, frozen=True, rename={"address": "IPAddress"}):
    address: str = ""


class _Networks(msgspec.Struct, frozen=True, rename="pascal"):
    networks: dict[str, _Network] = {}


class _ContainerState(msgspec.Struct, frozen=True, rename="pascal"):
    running: bool
    status: str = ""


class Mount(msgspec.Struct, frozen=True, rename="pascal"):
    """A folder of this machine that is mounted in a container."""

    source: str
    destination: str
    type: str = ""


class _ContainerConfig(msgspec.Struct, frozen=True, rename="pascal"):
    image: str = ""


class Inspected(msgspec.Struct, frozen=True, rename="pascal"):
    """The fields of ``inspect`` that grovescale uses."""

    state: _ContainerState
    config: _ContainerConfig = _ContainerConfig()
    mounts: list[Mount] = []
    network_settings: _Networks = _Networks()

    @property
    def address(self) -> str:
        """Address in the engine's own network; empty if it has none, or does not run."""
        return next((network.address for network in self.network_settings.networks.values() if network.address), "")


def find(requested: EngineName = "auto") -> Engine:
    """Return the engine to use: the requested one, else the environment's, else Docker, else Podman.

    Raises ClusterError, with a next step, if there is none, it does not run, this user may not use it, or it runs its
    containers on another machine; UsageError if the environment names an unsupported engine.
    """
    name, executable = _chosen(requested)
    return _docker(executable) if name == "docker" else _podman(executable)


def of_executable(executable: str) -> Engine:
    """Return the engine of an executable, without its version and properties."""
    name: Literal["docker", "podman"] = "podman" if Path(executable).name.startswith("podman") else "docker"
    return Engine(name=name, executable=executable, version="", cgroup_version="", rootless=False)


def call(engine: Engine, *arguments: str, timeout_s: float = _ASK_S) -> str:
    """Run one command of the engine and return its output. Raises ClusterError with the engine's error output."""
    done = _run([engine.executable, *arguments], timeout_s)
    if done.returncode != 0:
        _refused(engine.name, done.stderr or done.stdout, f"{engine.name} {' '.join(arguments[:2])}")
    return done.stdout


def containers(engine: Engine, kind_cluster: str) -> list[str]:
    """Return the names of a kind cluster's containers, stopped ones included; empty: no such cluster."""
    listed = call(engine, "ps", "-a", "--filter", f"label={CLUSTER_LABEL}={kind_cluster}", "--format", "{{.Names}}")
    return sorted(listed.split())


def inspect(engine: Engine, container: str) -> Inspected:
    """Return a container's properties. Raises ClusterError if it does not exist."""
    return msgspec.json.decode(call(engine, "container", "inspect", container), type=list[Inspected])[0]


def read(engine: Engine, container: str, path: str) -> str:
    """Return the content of a text file in a running container."""
    return call(engine, "exec", container, "cat", path)


def has_image(engine: Engine, reference: str) -> bool:
    """Return whether the engine has an image."""
    return _run([engine.executable, "image", "inspect", reference], _ASK_S).returncode == 0


def image_labels(engine: Engine, reference: str) -> dict[str, str]:
    """Return the labels of an image of the engine."""
    labels = call(engine, "image", "inspect", "--format", "{{json .Config.Labels}}", reference)
    return msgspec.json.decode(labels, type=dict[str, str] | None) or {}


# ---- environment of programs that call an engine


def environment_with_proxies(engine: Engine, environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` with proxies, for ``kind create`` and for builds: a node needs them to pull images.

    kind passes them to the node and all its processes, and adds the node's name and the networks to the proxy
    exceptions; it omits loopback, which the components of a control plane use among themselves.
    """
    return environment(engine, environ) | _proxies(environ)


def environment(engine: Engine, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of programs that call an engine, such as kind: its settings, no proxies.

    It may be stored on disk, and proxy settings may contain a password.
    """
    passed_on = {name: value for name, value in environ.items() if name in _PASSED_ON or name.startswith(_ENGINES_OWN)}
    return passed_on | {PROVIDER: engine.name}


def _proxies(environ: Mapping[str, str]) -> dict[str, str]:
    # Programs that read the lower-case name must get the same value as those that read the upper-case one.
    values = {name: environ.get(name) or environ.get(name.lower(), "") for name in _PROXIES}
    if not values["HTTP_PROXY"] and not values["HTTPS_PROXY"]:
        return {}
    direct = [host.strip() for host in values["NO_PROXY"].split(",") if host.strip()]
    values["NO_PROXY"] = ",".join(dict.fromkeys([*direct, *_LOOPBACK]))
    return {key: value for name, value in values.items() if value for key in (name, name.lower())}


# ---- selection


def _chosen(requested: EngineName) -> tuple[Literal["docker", "podman"], str]:
    chosen = os.environ.get(PROVIDER, "") if requested == "auto" else requested
    if chosen not in ("", "docker", "podman"):
        raise UsageError(
            f"${PROVIDER} is {chosen!r}: only docker and podman are supported here", next_step="Unset it, or change it."
        )
    names: tuple[Literal["docker", "podman"], ...] = ("docker", "podman")
    for name in names:
        if (
            chosen in ("", name)
            and (executable := shutil.which(name))
            and not (name == "docker" and _is_podman(executable))
        ):
            return name, executable
    raise ClusterError(
        f"there is no {chosen or 'docker or podman'} on PATH: kind needs a container engine", next_step=_INSTALL
    )


def _is_podman(executable: str) -> bool:
    """Return whether ``docker`` is Podman under that name: kind must know which of the two it calls."""
    return "podman" in _run([executable, "--version"], _ASK_S).stdout.lower()


def _docker(executable: str) -> Engine:
    host = _run([executable, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"], _ASK_S).stdout.strip()
    if host and not host.startswith("unix://"):
        raise _elsewhere("docker", host)
    done = _run([executable, "info", "--format", "{{json .}}"], _ASK_S)
    info = _decoded(done.stdout, _DockerInfo) or _DockerInfo()
    if done.returncode != 0 or info.server_errors or not info.server_version:
        _refused("docker", "\n".join(info.server_errors or []) or done.stderr or done.stdout, "docker info")
    return Engine(
        name="docker",
        executable=executable,
        version=info.server_version,
        cgroup_version=info.cgroup_version,
        rootless=any("rootless" in option for option in info.security_options or []),
    )


def _podman(executable: str) -> Engine:
    done = _run([executable, "info", "--format", "json"], _ASK_S)
    info = _decoded(done.stdout, _PodmanInfo)
    if done.returncode != 0 or info is None:
        _refused("podman", done.stderr or done.stdout, "podman info")
    if info.host.service_is_remote:
        raise _elsewhere("podman", os.environ.get("CONTAINER_HOST", "its remote connection"))
    return Engine(
        name="podman",
        executable=executable,
        version=info.version.version,
        cgroup_version=info.host.cgroup_version.lstrip("v"),
        rootless=info.host.security.rootless,
    )


def _decoded(text: str, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError:
        return None


def _run(argv: list[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"{' '.join(argv[:2])} has not answered within {timeout_s:g} s", next_step="See what the engine is doing."
        ) from None
    except OSError as error:
        raise ClusterError(f"{argv[0]} cannot be run: {error.strerror}", next_step=_INSTALL) from error


def _refused(name: Literal["docker", "podman"], output: str, what: str) -> NoReturn:
    text = output.strip()
    lowered = text.lower()
    if "permission denied" in lowered:
        raise ClusterError(f"this user may not use {name}: {text}", next_step=_NO_RIGHT)
    if "cannot connect" in lowered or "is the docker daemon running" in lowered or "connection refused" in lowered:
        raise ClusterError(f"{name} does not run: {text}", next_step=_START[name])
    raise ClusterError(f"{what} failed: {text or 'it says nothing'}", next_step=_START[name])


def _elsewhere(name: str, host: str) -> ClusterError:
    return ClusterError(
        f"{name} runs its containers on another machine ({host}): their log and ports are out of reach",
        next_step="Unset DOCKER_HOST or CONTAINER_HOST, choose a context of this machine, or use the backend existing.",
    )


def trouble(container: Container) -> str:
    """Return the fault of a node's container, or of its engine; empty: it runs."""
    engine = of_executable(container.engine)
    try:
        state = inspect(engine, container.name).state
    except ClusterError as error:
        return f"container {container.name}: {error.message}"
    if state.running:
        return ""
    return f"container {container.name} does not run ({state.status}); start it: {engine.name} start {container.name}"
