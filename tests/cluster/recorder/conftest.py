"""The plane that the recorder's tests share within one worker: each leaves it running."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .plane import Plane
from .room import Maps


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory, binaries: Callable[[str], Path]) -> Iterator[Plane]:
    plane = Plane(tmp_path_factory.mktemp("plane"), binaries)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture
def maps(plane: Plane) -> Maps:
    return Maps(plane, f"n-{uuid.uuid4().hex[:8]}")
