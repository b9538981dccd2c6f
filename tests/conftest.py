"""Shared by all tests: pytester, and the binaries that this machine has, wherever a test's home is."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from pytest_grovescale import errors
from pytest_grovescale.cluster import binaries, machine_lock
from tests import forked

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

    from pytest_grovescale.kube.portal import Portal

pytest_plugins = ["pytester"]

# How long an example takes tells of the machine, not of the code. `make nightly` looks at many more of them.
settings.register_profile("grovescale", deadline=None, max_examples=30)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile("grovescale")


# A shell that starts something in the background lets it ignore Ctrl-C, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def rules_and_checks_may_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule or a check that raises fails the test; for users it is left out, and the report says so."""
    monkeypatch.setattr(errors, "ISOLATED", ())


@pytest.fixture
def writes_golden_files(pytestconfig: pytest.Config) -> bool:
    """Whether a file with an expected text is to be written, as snapshots are: ``make golden``."""
    return bool(pytestconfig.option.update_snapshots)


def pytest_collection_finish() -> None:
    """Leave what collection made out of every later garbage collection: each pytester session asks for several."""
    gc.collect()
    gc.freeze()


class _ByControlPlane(LoadFileScheduling):
    """``loadfile``, but files that share control planes of their own stay on one worker: others start none.

    A third of the workers takes files from the end, where the unit tests are: these need a core, while tests with a
    control plane mostly wait. Files of minutes that both would come to last are begun first.
    """

    _TOGETHER = ("tests/cluster/existing/", "tests/cluster/recorder/", "tests/operator/on_control_plane/")
    _LONG = tuple(f"tests/plugin/test_{name}.py" for name in ("scenarios", "scale_run", "profiles"))

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in self._TOGETHER if nodeid.startswith(folder)), super()._split_scope(nodeid))

    def _assign_work_unit(self, node: WorkerController) -> None:
        from_the_end = self.nodes.index(node) % 3 == 2
        first = (next(reversed(self.workqueue)),) if from_the_end else self._LONG
        for scope in first:
            if scope in self.workqueue:
                self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _ByControlPlane | None:
    return _ByControlPlane(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session", autouse=True)
def turns_of_its_own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let what tests measure wait for no other worker's, unless figures are what this run is for."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.config.getoption("--grovescale"):
            patch.setenv(machine_lock.FOLDER, str(tmp_path_factory.mktemp("machine-lock")))
        yield


@pytest.fixture(scope="session", autouse=True)
def cache() -> Iterator[None]:
    """Name the cache of binaries outright: pytester gives each test a home of its own, and they would be built anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GROVESCALE_CACHE_DIR", str(binaries.cache_root()))
        yield


_OF_CHILDREN = "-p no:hypothesispytest -p no:syrupy -p no:timeout -o grovescale_operator=reference"
"""The tests' own pytests run without what only ours need (hypothesis loads all of itself at the end of each), with the
bundled operator, as this repository's ini says."""


@pytest.fixture(scope="session", autouse=True)
def children_without_our_plugins() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_ADDOPTS", _OF_CHILDREN)
        yield


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Return pytest's own, which clears the variable, and whose subprocesses are forked: `forked`."""
    monkeypatch.setenv("PYTEST_ADDOPTS", _OF_CHILDREN)
    popen = pytester.popen

    def start(command: Sequence[str], *, stdout: TextIO, stderr: TextIO, **others: Any) -> Any:
        if command[:2] != (sys.executable, "-mpytest"):
            return popen(command, stdout=stdout, stderr=stderr, **others)
        return forked.Process("pytest", command[2:], streams=(stdout, stderr))

    monkeypatch.setattr(pytester, "popen", start)
    return pytester


@pytest.fixture
def portal() -> Iterator[Portal]:
    """A loop of its own for a test that is not asynchronous and asks an API server."""
    # Imported where it is needed: most tests ask none, and aiohttp takes a while.
    from pytest_grovescale.kube.portal import Portal

    with Portal() as opened:
        yield opened
