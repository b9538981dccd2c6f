"""Tests on real kind clusters: ``make test-kind`` gives them an engine and images, elsewhere they are skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_grovescale.cluster import binaries, machine_lock, versions

NODE_IMAGE = "GROVESCALE_TEST_KIND"
"""Environment variable with the name of a node image that the engine has."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("kind") and not os.environ.get(NODE_IMAGE):
        pytest.skip("needs a container engine and a node image: make test-kind")


@pytest.fixture(scope="session", autouse=True)
def turns_of_the_machine(turns_of_its_own: None) -> Iterator[None]:
    """Take turns with every other run on this machine: what is measured on kind are figures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(machine_lock.FOLDER, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def kind_binary(cache: None) -> None:
    """Build kind before any test: some of them cut what they start off from the network, and so its build."""
    binaries.find(("kind",), versions.DEFAULT_KUBERNETES, given={}, progress=lambda text: None)


@pytest.fixture
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of this test's own, for clusters that it starts and kills."""
    folder = tmp_path / "own state"
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(folder))
    return folder
