"""Which node image is used: one built here from the recipe of today, else kind's own, else one is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_grovescale.cluster import versions
from tools.kind import node_images
from tools.kind.engine import Engine
from tools.kind.node_image import build

KUBERNETES = versions.DEFAULT_KUBERNETES
OURS = f"grovescale-node:v{KUBERNETES}"
PUBLISHED = versions.NODE_IMAGES[versions.minor(KUBERNETES)]


class Images:
    """What an engine holds and a registry offers, and what was asked of them."""

    def __init__(self) -> None:
        self.recipes: dict[str, str] = {}
        self.registry: set[str] = set()
        self.done: list[str] = []


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch) -> Images:
    found = Images()

    def pull(engine: Engine, image: str, progress: object) -> bool:
        found.done.append(f"pull {image}")
        return image in found.registry

    def docker(engine: Engine, *arguments: str, timeout_s: float = 0) -> str:
        found.done.append(" ".join(arguments))
        return ""

    def built(engine: Engine, name: str, kubernetes: str, recipe: str, cache: Path, progress: object) -> None:
        found.done.append(f"build {name}")
        found.recipes[name] = recipe

    monkeypatch.setattr(Engine, "label", lambda self, image, label: found.recipes.get(image, ""))
    monkeypatch.setattr(Engine, "has", lambda self, image: image in found.recipes)
    monkeypatch.setattr(Engine, "pull", pull)
    monkeypatch.setattr(Engine, "docker", docker)
    monkeypatch.setattr(build, "build", built)
    return found


def ensure() -> str:
    return node_images.ensure(Engine(), KUBERNETES, Path("/nowhere"), lambda text: None)


def test_one_of_todays_recipe_is_used_without_asking_anybody(images: Images) -> None:
    images.recipes[OURS] = node_images.recipe(KUBERNETES)
    assert ensure() == OURS
    assert images.done == []


def test_kinds_own_is_pulled_where_it_can_be(images: Images) -> None:
    images.registry.add(PUBLISHED)
    assert ensure() == PUBLISHED
    assert images.done == [f"pull {PUBLISHED}"]


def test_kinds_own_is_not_pulled_twice(images: Images) -> None:
    images.recipes[PUBLISHED] = ""
    assert ensure() == PUBLISHED
    assert images.done == []


def test_an_old_one_makes_room_for_kinds_own(images: Images) -> None:
    images.recipes[OURS] = "of last year"
    images.registry.add(PUBLISHED)
    assert ensure() == PUBLISHED
    assert images.done == [f"pull {PUBLISHED}", f"image rm {OURS}"]


@pytest.mark.parametrize("there", [{}, {OURS: "of last year"}])
def test_without_a_registry_one_is_built_and_then_used(images: Images, there: dict[str, str]) -> None:
    images.recipes.update(there)
    assert ensure() == OURS
    assert images.done == [f"pull {PUBLISHED}", f"build {OURS}"]
    assert ensure() == OURS
    assert images.done == [f"pull {PUBLISHED}", f"build {OURS}"]
