"""Shared by all tests: pytester, and the binaries that this machine has, wherever a test's home is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from pytest_grovescale.cluster import binaries

pytest_plugins = ["pytester"]

# How long an example takes tells of the machine, not of the code.
settings.register_profile("grovescale", deadline=None)
settings.load_profile("grovescale")


@pytest.fixture(scope="session", autouse=True)
def cache() -> Iterator[None]:
    """Name the cache of binaries outright: pytester gives each test a home of its own, and they would be built anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GROVESCALE_CACHE_DIR", str(binaries.cache_root()))
        yield
