"""The image of a kind node: which one, whether it is there, and what it lacks."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ...errors import ClusterError
from .. import versions
from ..definition import ClusterDefinition, Kind
from . import engine as engines
from .engine import Engine

Progress = Callable[[str], None]

ADDONS_LABEL = "grovescale.io/addons"
"""Label of an image. ``none``: it holds no images of kube-proxy, CNI, DNS and storage, and brings a CNI of its own."""

_OWN = "grovescale-node"
_PULL_S = 1200.0
_WAYS_OUT = (
    "Let the engine reach a registry; or build a node image here (make test-kind does, and keeps it as {own}); or name "
    "one that you have: kind: {{image: NAME}} in the cluster definition."
)


class NodeImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image that the engine holds."""

    reference: str
    addons: bool
    """Whether kube-proxy, CNI and DNS can be started from it."""


def own(kubernetes: str) -> str:
    """Return what an image is called that was built on this machine for a full Kubernetes version."""
    return f"{_OWN}:v{kubernetes}"


def published(kubernetes: str) -> str:
    """Return what kind's authors publish for a version: pinned where the default patch is meant, else by its tag."""
    minor = versions.minor(kubernetes)
    return versions.NODE_IMAGES[minor] if kubernetes == versions.KUBERNETES[minor] else f"kindest/node:v{kubernetes}"


def ensure(definition: ClusterDefinition, engine: Engine, progress: Progress) -> NodeImage:
    """Return the image that a definition means, pulled if it is not there. Raises ClusterError where it cannot be."""
    settings = definition.kind or Kind()
    reference = settings.image or _of_version(definition.kubernetes, engine)
    if not engines.has_image(engine, reference):
        _pull(engine, reference, definition.kubernetes, progress)
    labels = engines.image_labels(engine, reference)
    return NodeImage(reference=reference, addons=labels.get(ADDONS_LABEL) != "none")


def _of_version(kubernetes: str, engine: Engine) -> str:
    # One that was built here was built because nothing else could be had: no registry is asked first.
    built = own(kubernetes)
    return built if engines.has_image(engine, built) else published(kubernetes)


def _pull(engine: Engine, reference: str, kubernetes: str, progress: Progress) -> None:
    progress(f"pulling the node image {reference.partition('@')[0]}: several hundred MB, once")
    try:
        engines.call(engine, "pull", "--quiet", reference, timeout_s=_PULL_S)
    except ClusterError as error:
        raise ClusterError(
            f"the node image {reference} is not on this machine and cannot be pulled: {error.message}",
            next_step=_WAYS_OUT.format(own=own(kubernetes)),
        ) from error
