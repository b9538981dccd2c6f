"""The plane that the recorder's tests share within one worker: each leaves it running."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .control_plane import ControlPlane
from .harness import Maps


@pytest.fixture(scope="package")
def control_plane(tmp_path_factory: pytest.TempPathFactory, binaries: Callable[[str], Path]) -> Iterator[ControlPlane]:
    control_plane = ControlPlane(tmp_path_factory.mktemp("control_plane"), binaries)
    try:
        control_plane.start()
        yield control_plane
    finally:
        control_plane.stop()


@pytest.fixture
def maps(control_plane: ControlPlane) -> Maps:
    return Maps(control_plane, f"n-{uuid.uuid4().hex[:8]}")
