"""The image of a kind node: selection, presence, and missing addons."""

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
"""Label of an image. ``none``: it lacks the images of kube-proxy, CNI, DNS and storage, and has a CNI of its own."""

_OWN = "grovescale-node"
_PULL_S = 1200.0
_WAYS_OUT = (
    "Let the engine reach a registry; or build a node image here (make test-kind does, and keeps it as {own}); or name "
    "one that you have: kind: {{image: NAME}} in the cluster definition."
)


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
    if not engines.has_image(engine, reference):
        _pull(engine, reference, definition.kubernetes, progress)
    labels = engines.image_labels(engine, reference)
    return NodeImage(reference=reference, addons=labels.get(ADDONS_LABEL) != "none")


def _of_version(kubernetes: str, engine: Engine) -> str:
    # An image was built here because no registry was available: use it without a pull.
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
