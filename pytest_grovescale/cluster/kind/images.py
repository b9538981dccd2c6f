"""Loading of images into a kind cluster, from an archive or a build."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from ...errors import ClusterError
from .. import binaries
from ..state import Container
from . import engine, environment
from .container_processes import Node, of_node

Progress = Callable[[str], None]

_LOAD_S = 300.0
_BUILD_S = 1800.0
"""A build may have to download its base images."""
_TAIL_LINES = 20


def load(archive: Path, container: Container, *, kubernetes: str, given: Mapping[str, str], progress: Progress) -> None:
    """Load the images of an archive (``docker save``) into all nodes of the cluster that ``container`` is a node of.

    ``given``: binaries by name that override all other sources. Raises ClusterError, BinaryError.
    """
    kind = binaries.find(("kind",), kubernetes, given=given, progress=progress)["kind"].path
    node = of_node(Node(executable=container.engine, name=container.name))
    label = f'{{{{index .Config.Labels "{engine.CLUSTER_LABEL}"}}}}'
    cluster = engine.call(node, "container", "inspect", "--format", label, container.name).strip()
    command = [kind, "load", "image-archive", str(archive), "--name", cluster]
    _run(command, environment.to_delete(node, os.environ), _LOAD_S)


def build(
    image: str, dockerfile: Path, context: Path, arguments: Mapping[str, str], container: Container, archive: Path
) -> None:
    """Build an image with the engine of a container, and write it to an archive. Raises ClusterError."""
    node = of_node(Node(executable=container.engine, name=container.name))
    # With proxies: a build may have to download its base images.
    environ = environment.to_create(node, os.environ)
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
