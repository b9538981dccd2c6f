"""The operator's image, loaded into the nodes of a kind cluster from an archive or a build."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from ...atomic_write import write_private
from ...cluster.handle import Cluster
from ...cluster.kind import images
from ...cluster.state import Container
from ...errors import UsageError
from ..command import single_values
from ..handle import Progress
from ..placeholders import fill
from ..shape import OperatorDefinition
from . import checking

_LAST = "last_image"
"""Name of the file in the cluster's folder that identifies the archive loaded last."""


def bring(definition: OperatorDefinition, cluster: Cluster, progress: Progress) -> bool:
    """Load the image into the cluster's nodes; return False if the definition has none to load.

    Raises UsageError on clusters other than kind, ClusterError for errors of the engine or kind.
    """
    archive, dockerfile = checking.archive(definition), definition.as_pod.dockerfile
    if archive is None and not dockerfile:
        return False
    if cluster.container is None:
        raise UsageError(
            f"{definition.source}: an image can be brought into a kind cluster of this machine only",
            next_step="Push it to where that cluster pulls from, and give its name: `image:` alone.",
        )
    if archive is not None and _is_the_last(cluster, archive):
        return True
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=cluster.directory) as folder:
        if archive is None:
            archive = Path(folder) / "image.tar"
            _build(definition, cluster.container, archive, progress)
        images.load(
            archive, cluster.container, kubernetes=cluster.kubernetes, given=cluster.binaries, progress=progress
        )
        write_private(cluster.directory / _LAST, _state(archive))
    progress(f"operator {definition.name}: its image is on the nodes after {time.monotonic() - began:.1f} s")
    return True


def _build(definition: OperatorDefinition, container: Container, archive: Path, progress: Progress) -> None:
    pod = definition.as_pod
    values = {**single_values(definition), "namespace": definition.identity.namespace}
    image = fill(pod.image, values)
    arguments = {name: fill(text, values) for name, text in pod.build_args.items()}
    dockerfile = Path(pod.dockerfile)
    context = Path(pod.context) if pod.context else dockerfile.parent
    progress(f"operator {definition.name}: building {image}")
    images.build(image, dockerfile, context, arguments, container, archive)


def _is_the_last(cluster: Cluster, archive: Path) -> bool:
    """Return whether this archive was loaded last: an earlier one may have had the same image name."""
    last = cluster.directory / _LAST
    return last.is_file() and last.read_text(encoding="utf-8") == _state(archive)


def _state(archive: Path) -> str:
    """Return a fingerprint that changes when an archive changes."""
    stat = archive.stat()
    return f"{archive} {stat.st_size} {stat.st_mtime_ns}"
