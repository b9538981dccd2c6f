"""The pytest plugin: hooks only. What they do lives in ``runs.py``, fixtures in ``fixtures.py``.

Imported by pytest in every project that has the package installed, so it imports nothing but pytest.
"""

from __future__ import annotations

from typing import Any

import pytest

from . import options
from .fixtures import RUN, grovescale_cluster, grovescale_operator, grovescale_turn, scale

__all__ = ["grovescale_cluster", "grovescale_operator", "grovescale_turn", "scale"]

_SETTINGS = pytest.StashKey[options.Settings]()
_FIXTURES = {"scale", "grovescale_cluster", "grovescale_operator"}
_MARKER_ARGUMENTS = {
    "cluster": str,
    "kubernetes": str,
    "nodes": int,
    "operator": str,
    "start": str,
    "values": dict,
}


def pytest_addoption(parser: pytest.Parser) -> None:
    options.register(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "grovescale(cluster, kubernetes, nodes, operator, values, start): "
        "a scale test, and what it needs other than the run's defaults; runs with --grovescale",
    )
    settings = options.read(config)
    config.stash[_SETTINGS] = settings
    if settings.enabled and not config.option.collectonly:
        from .runs import Run

        run_id = getattr(config, "workerinput", {}).get("grovescale_run", "")
        config.stash[RUN] = Run(config, settings, run_id=run_id)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give an xdist worker the run's id, so that all write into one folder and share one cluster."""
    if RUN in node.config.stash:
        node.workerinput["grovescale_run"] = node.config.stash[RUN].id


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    skip = pytest.mark.skip(reason="scale test: run it with --grovescale")
    enabled = config.stash[_SETTINGS].enabled
    for item in items:
        marker = item.get_closest_marker("grovescale")
        if marker is not None:
            _check_marker(item, marker)
        if not enabled and (marker is not None or _FIXTURES & set(getattr(item, "fixturenames", ()))):
            item.add_marker(skip)


def _check_marker(item: pytest.Item, marker: pytest.Mark) -> None:
    where = f"{item.nodeid}: @pytest.mark.grovescale"
    if marker.args:
        raise pytest.UsageError(f"{where} takes keyword arguments only: {', '.join(_MARKER_ARGUMENTS)}")
    for name, value in marker.kwargs.items():
        wanted = _MARKER_ARGUMENTS.get(name)
        if wanted is None:
            raise pytest.UsageError(f"{where} has no argument {name!r}; it has {', '.join(_MARKER_ARGUMENTS)}")
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise pytest.UsageError(f"{where}({name}={value!r}): not of type {wanted.__name__}")
    if marker.kwargs.get("nodes", 1) < 1:
        raise pytest.UsageError(f"{where}(nodes={marker.kwargs['nodes']}): at least one node is needed")
    if marker.kwargs.get("start", "test") not in ("test", "session"):
        raise pytest.UsageError(f"{where}(start={marker.kwargs['start']!r}): use 'test' or 'session'")


def pytest_enter_pdb(config: pytest.Config) -> None:
    if RUN in config.stash:
        config.stash[RUN].pause()


def pytest_leave_pdb(config: pytest.Config) -> None:
    if RUN in config.stash:
        config.stash[RUN].resume()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if RUN in session.config.stash:
        session.config.stash[RUN].finish()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if RUN in config.stash:
        config.stash[RUN].summarise(terminalreporter)


def pytest_unconfigure(config: pytest.Config) -> None:
    if RUN in config.stash:
        config.stash[RUN].close()
