"""The node image of the tests: kind's own where it can be pulled, else one that is built here."""

from __future__ import annotations

from pathlib import Path

from pytest_grovescale.cluster import versions
from pytest_grovescale.cluster.kind import images

from . import contents
from .engine import RECIPE_LABEL, Engine
from .node_image import build
from .processes import Progress


def ensure(engine: Engine, kubernetes: str, cache: Path, progress: Progress) -> str:
    """Return the name of a node image that the engine has. Raises EngineMissing where none is possible.

    The backend ``kind`` selects the same one by default: it looks for an image built here first.
    """
    ours = images.own(kubernetes)
    there = engine.label(ours, RECIPE_LABEL)
    if there == recipe(kubernetes):
        return ours
    published = images.published(kubernetes)
    if engine.has(published) or engine.pull(published, progress):
        if there:
            engine.docker("image", "rm", ours)
        return published
    build.build(engine, ours, kubernetes, recipe(kubernetes), cache, progress)
    return ours


def recipe(kubernetes: str) -> str:
    """Return a digest of a build's inputs: versions, and the files that define it."""
    return contents.digest([Path(build.__file__).parent], versions.KIND, versions.ETCD, kubernetes)
