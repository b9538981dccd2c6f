"""The fixtures that tests use. They open and close; what they open lives in ``runs.py``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .checks.budgets import Declared
    from .cluster.handle import Cluster
    from .operator.process import Operator
    from .runs import Run
    from .scenario.scale import Scale

RUN = pytest.StashKey["Run"]()
"""Where the plugin keeps the session's run; there is none without ``--grovescale``."""

BUDGET = pytest.StashKey[tuple["Declared", ...]]()
"""Where the plugin keeps a test's declared checks."""


def _run(request: pytest.FixtureRequest) -> Run:
    return request.config.stash[RUN]


@pytest.fixture
def grovescale_turn(request: pytest.FixtureRequest) -> Iterator[None]:
    """This test's turn on the machine: tests that measure run alone, the others together.

    Held for the whole test; the wait for it counts against no timeout.
    """
    with _run(request).turn(measured="scale" in request.fixturenames):
        yield


@pytest.fixture
def grovescale_cluster(request: pytest.FixtureRequest, grovescale_turn: None) -> Cluster:
    """A live cluster with simulated nodes, as the test's marker or the options ask for; shared by the session."""
    return _run(request).cluster(request.node)


@pytest.fixture
def grovescale_operator(request: pytest.FixtureRequest, grovescale_cluster: Cluster) -> Iterator[Operator]:
    """The operator under test, started and ready, as an identity of its own."""
    with _run(request).operator(request.node, grovescale_cluster) as operator:
        yield operator


@pytest.fixture
def grovescale_profiled(request: pytest.FixtureRequest) -> bool:
    """Whether this is a test's second pass, with profilers attached, after the one that measures."""
    return getattr(request, "param", False)


@pytest.fixture
def scale(request: pytest.FixtureRequest, grovescale_profiled: bool, grovescale_cluster: Cluster) -> Iterator[Scale]:
    """A scale test's cluster, operator, namespace and recording; see ``scenario.scale.Scale``."""
    with _run(request).scale(request, grovescale_cluster, profiled=grovescale_profiled) as opened:
        yield opened
