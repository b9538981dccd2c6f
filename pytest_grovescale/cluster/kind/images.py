"""The image of a kind node, and images loaded into a cluster from an archive or built for it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from ...errors import ClusterError
from .. import binaries, versions
from ..definition import ClusterDefinition, Kind
from ..state import Container
from . import container_engine
from .container_engine import Engine

Progress = Callable[[str], None]

ADDONS_LABEL = "grovescale.io/addons"
"""Label of an image. ``none``: it lacks the images of kube-proxy, CNI, DNS and storage, and has a CNI of its own."""

_OWN = "grovescale-node"
_PULL_S = 1200.0
_WAYS_OUT = (
    "Let the engine reach a registry; or build a node image here (make test-kind does, and keeps it as {own}); or name "
    "one that you have: kind: {{image: NAME}} in the cluster definition."
)

_LOAD_S = 300.0
_BUILD_S = 1800.0
"""A build may have to download its base images."""
_TAIL_LINES = 20


class NodeImage(msgspec.Struct, frozen=True, kw_only=True):
    """A node image that the engine has."""

    reference: str
    addons: bool
    """Whether it can start kube-proxy, CNI and DNS."""


def own(kubernetes: str) -> str:
    """Return the name of a node image built on this machine for a full Kubernetes version."""
    return f"{_OWN}:v{kubernetes}"


def published(kubernetes: str) -> str:
    """Return the image that kind publishes for a version: pinned for the default patch version, else by its tag."""
    minor = versions.minor(kubernetes)
    return versions.NODE_IMAGES[minor] if kubernetes == versions.KUBERNETES[minor] else f"kindest/node:v{kubernetes}"


def ensure(definition: ClusterDefinition, engine: Engine, progress: Progress) -> NodeImage:
    """Return the image of a definition, pulled if missing. Raises ClusterError if that fails."""
    settings = definition.kind or Kind()
    reference = settings.image or _of_version(definition.kubernetes, engine)
    if not container_engine.has_image(engine, reference):
        _pull(engine, reference, definition.kubernetes, progress)
    labels = container_engine.image_labels(engine, reference)
    return NodeImage(reference=reference, addons=labels.get(ADDONS_LABEL) != "none")


def _of_version(kubernetes: str, engine: Engine) -> str:
    # An image was built here because no registry was available: use it without a pull.
    built = own(kubernetes)
    return built if container_engine.has_image(engine, built) else published(kubernetes)


def _pull(engine: Engine, reference: str, kubernetes: str, progress: Progress) -> None:
    progress(f"pulling the node image {reference.partition('@')[0]}: several hundred MB, once")
    try:
        container_engine.call(engine, "pull", "--quiet", reference, timeout_s=_PULL_S)
    except ClusterError as error:
        raise ClusterError(
            f"the node image {reference} is not on this machine and cannot be pulled: {error.message}",
            next_step=_WAYS_OUT.format(own=own(kubernetes)),
        ) from error


def load(archive: Path, container: Container, *, kubernetes: str, given: Mapping[str, str], progress: Progress) -> None:
    """Load the images of an archive (``docker save``) into all nodes of the cluster that ``container`` is a node of.

    ``given``: binaries by name that override all other sources. Raises ClusterError, BinaryError.
    """
    kind = binaries.find(("kind",), kubernetes, given=given, progress=progress)["kind"].path
    node = container_engine.of_executable(container.engine)
    label = f'{{{{index .Config.Labels "{container_engine.CLUSTER_LABEL}"}}}}'
    cluster = container_engine.call(node, "container", "inspect", "--format", label, container.name).strip()
    command = [kind, "load", "image-archive", str(archive), "--name", cluster]
    _run(command, container_engine.environment(node, os.environ), _LOAD_S)


def build(
    image: str, dockerfile: Path, context: Path, arguments: Mapping[str, str], container: Container, archive: Path
) -> None:
    """Build an image with the engine of a container, and write it to an archive. Raises ClusterError."""
    node = container_engine.of_executable(container.engine)
    # With proxies: a build may have to download its base images.
    environ = container_engine.environment_with_proxies(node, os.environ)
    given = [text for name, value in arguments.items() for text in ("--build-arg", f"{name}={value}")]
    _run([node.executable, "build", "-t", image, "-f", str(dockerfile), *given, str(context)], environ, _BUILD_S)
    _run([node.executable, "save", "-o", str(archive), image], environ, _LOAD_S)


def _run(command: list[str], environ: Mapping[str, str], timeout_s: float) -> None:
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        try:
            done = subprocess.run(
                command, env=dict(environ), stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=timeout_s
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ClusterError(
                f"{' '.join(command[:3])}: {error}", next_step="See what the engine is doing."
            ) from error
        if done.returncode == 0:
            return
        output.seek(0)
        tail = output.read().splitlines()[-_TAIL_LINES:]
    raise ClusterError(
        "\n".join(
            [f"{' '.join(command[:3])} failed with exit code {done.returncode}", *(f"  {line}" for line in tail)]
        ),
        next_step=f"See why: {' '.join(command)}",
    )
