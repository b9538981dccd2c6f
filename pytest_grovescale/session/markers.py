"""The markers of scale tests: what they are, what they accept, and the checks that they declare.

Imported by pytest in every project that has the package installed, so it imports nothing but pytest.
"""

from __future__ import annotations

import pytest

from .. import options
from ..errors import DefinitionError, GrovescaleError
from ..suggestions import did_you_mean
from .stash_keys import BUDGET

_ARGUMENTS = {
    "cluster": str,
    "faults": bool,
    "kubernetes": str,
    "nodes": int,
    "operator": str,
    "profile": str,
    "prometheus": str,
    "scrape_interval": str,
    "start": str,
    "values": dict,
}


def register(config: pytest.Config) -> None:
    """Add the markers to those that pytest knows."""
    config.addinivalue_line(
        "markers",
        "grovescale(cluster, kubernetes, nodes, operator, values, start, profile, prometheus, faults): "
        "a scale test, and what it needs other than the run's defaults; runs with --grovescale",
    )
    config.addinivalue_line(
        "markers",
        "grovescale_budget(*checks): bounds that a scale test is held to when it has run, as checks.NoopWrites(max=0)",
    )


def check(item: pytest.Item, marker: pytest.Mark) -> None:
    """Raise UsageError where a test's marker has an argument that there is not, or a value that it cannot have."""
    where = f"{item.nodeid}: @pytest.mark.grovescale"
    if marker.args:
        raise pytest.UsageError(f"{where} takes keyword arguments only: {', '.join(_ARGUMENTS)}")
    for name, value in marker.kwargs.items():
        wanted = _ARGUMENTS.get(name)
        if wanted is None:
            near = did_you_mean(name, _ARGUMENTS)
            hint = f"{near[:1].lower()}{near[1:]} " if near else ""
            raise pytest.UsageError(f"{where} has no argument {name!r}; {hint}it has {', '.join(_ARGUMENTS)}")
        if not isinstance(value, wanted) or isinstance(value, bool) != (wanted is bool):
            raise pytest.UsageError(f"{where}({name}={value!r}): not of type {wanted.__name__}")
    if marker.kwargs.get("nodes", 1) < 1:
        raise pytest.UsageError(f"{where}(nodes={marker.kwargs['nodes']}): at least one node is needed")
    options.check_choice(marker.kwargs.get("start", "test"), options.STARTS, f"{where}: start")
    options.check_choice(marker.kwargs.get("profile", "off"), options.PROFILES, f"{where}: profile")
    options.check_prometheus(marker.kwargs.get("prometheus", "off"), f"{where}: prometheus")
    options.check_duration(marker.kwargs.get("scrape_interval", ""), f"{where}: scrape_interval")


def declare_checks(item: pytest.Item) -> None:
    """Store the checks of a test's marker and of the ``budgets.yaml`` beside it, after validation."""
    markers = list(item.iter_markers("grovescale_budget"))
    measured = "scale" in getattr(item, "fixturenames", ())
    if markers and not measured:
        raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.grovescale_budget: the test does not use `scale`")
    if not measured:
        return
    from ..checks.budgets import declared_for

    if any(marker.kwargs for marker in markers):
        raise pytest.UsageError(
            f"{item.nodeid}: @pytest.mark.grovescale_budget takes checks only, as checks.Cpu(…, max=…)"
        )
    names = (item.name, getattr(item, "originalname", item.name), item.nodeid.rpartition("/")[2])
    arguments = [argument for marker in markers for argument in marker.args]
    try:
        item.stash[BUDGET] = declared_for(item.path.parent, names, arguments, root=item.config.rootpath)
    except DefinitionError as error:
        # A mistake of the file is that of all tests beside it, and said once.
        raise pytest.UsageError(str(error)) from None
    except GrovescaleError as error:
        raise pytest.UsageError(f"{item.nodeid}: {error}") from None
