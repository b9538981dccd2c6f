"""The fixtures that tests use. They open and close; what they open lives in ``session/``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from .session.stash_keys import RUN, SETTINGS

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from .cluster.handle import Cluster
    from .operator.handle import Operator
    from .scenario.scale import Scale
    from .session.run import Run


def run_of(config: pytest.Config) -> Run:
    """Return the session's run, created at first use: a session without scale tests does not load what it needs."""
    if RUN not in config.stash:
        from .session.run import Run

        run_id = getattr(config, "workerinput", {}).get("grovescale_run", "")
        config.stash[RUN] = Run(config, config.stash[SETTINGS], run_id=run_id)
    return config.stash[RUN]


def _run(request: pytest.FixtureRequest) -> Run:
    return run_of(request.config)


@pytest.fixture
def grovescale_machine_lock(request: pytest.FixtureRequest) -> Iterator[None]:
    """This test's turn on the machine: tests that measure run alone, the others together.

    Held for the whole test; the wait for it counts against no timeout.
    """
    with _run(request).turn(request.node):
        yield


@pytest.fixture
def grovescale_cluster(request: pytest.FixtureRequest, grovescale_machine_lock: None) -> Iterator[Cluster]:
    """A live cluster with simulated nodes, as the test's marker or the options ask for; shared by the session.

    On one that others use, too, a turn is waited for, and held for the whole test.
    """
    with _run(request).cluster(request.node) as cluster:
        yield cluster


@pytest.fixture
def grovescale_operator(request: pytest.FixtureRequest, grovescale_cluster: Cluster) -> Iterator[Operator]:
    """The operator under test, started and ready, as an identity of its own."""
    with _run(request).operator(request.node, grovescale_cluster) as operator:
        yield operator


@pytest.fixture
def grovescale_namespace(request: pytest.FixtureRequest, grovescale_cluster: Cluster) -> Iterator[str]:
    """The name of a namespace of this test's own, where no other test is; gone afterwards, with all that is in it.

    Of a test with ``scale`` it is ``scale.namespace``.
    """
    if "scale" in request.fixturenames:
        yield request.getfixturevalue("scale").namespace
        return
    if "grovescale_operator" in request.fixturenames:
        # The operator removes the finalizers of remaining objects: so it has to end later.
        request.getfixturevalue("grovescale_operator")
    with _run(request).namespace(request.node, grovescale_cluster) as name:
        yield name


@pytest.fixture
def grovescale_api_client(grovescale_cluster: Cluster) -> Iterator[ApiClient]:
    """The official ``kubernetes`` client of the test's cluster, with the rights of the harness.

    It has no default namespace: pass ``scale.namespace``, or that of `grovescale_namespace`. Its requests are the
    harness's in every table.
    """
    from .kube.access import official_client

    with official_client(grovescale_cluster.kubeconfig) as client:
        yield client


@pytest.fixture
def grovescale_profiled(request: pytest.FixtureRequest) -> bool:
    """Whether this is a test's second pass, with profilers attached, after the one that measures."""
    return getattr(request, "param", False)


@pytest.fixture
def scale(request: pytest.FixtureRequest, grovescale_profiled: bool, grovescale_cluster: Cluster) -> Iterator[Scale]:
    """A scale test's cluster, operator, namespace and recording; see ``scenario.scale.Scale``."""
    with _run(request).scale(request, grovescale_cluster, profiled=grovescale_profiled) as opened:
        yield opened
