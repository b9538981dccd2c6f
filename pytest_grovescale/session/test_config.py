"""The configuration of one test: the command line, else its marker, else ini or the default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from .. import durations
from ..analysis.result import NO_OPERATOR
from ..bench.target_test import Subject
from ..checks.budgets import refuse_unknown_rules
from ..cluster.definition import ClusterDefinition
from ..errors import UsageError
from ..operator.definition import OperatorDefinition, load
from ..options import Settings
from ..recording.protocol import Profiler
from . import test_code
from .stash_keys import FAULTS


class ItemConfig(NamedTuple):
    """The cluster and the operator of one test."""

    cluster: str
    kubernetes: str
    nodes: int | None
    operator: str
    workdir: Path | None
    values: dict[str, str]
    start: str
    profile: Profiler
    prometheus: str
    """``off``, ``start``, ``keep`` or a URL."""
    scrape_interval_s: float | None
    """Time between two scrapes, s; 0: at phase edges only; None: as the operator's definition says, or 5 s."""
    faults: bool = False
    """Whether a proxy is on the operator's way to the API server, for ``scale.faults``."""

    @classmethod
    def of(cls, item: pytest.Item, settings: Settings) -> ItemConfig:
        marker = item.get_closest_marker("grovescale")
        asked = dict(marker.kwargs) if marker else {}

        def pick(name: str) -> Any:
            return getattr(settings, name) if name in settings.given else asked.get(name, getattr(settings, name))

        return cls(
            cluster=pick("cluster"),
            kubernetes=pick("kubernetes"),
            nodes=pick("nodes"),
            operator=pick("operator"),
            workdir=settings.workdir,
            values={**asked.get("values", {}), **settings.values},
            start=pick("start"),
            profile=pick("profile"),
            prometheus=pick("prometheus"),
            scrape_interval_s=_interval(asked, settings),
            faults=asked.get("faults", _calls_faults(item)),
        )

    @property
    def cluster_key(self) -> str:
        return f"{self.cluster}/{self.kubernetes}/{self.nodes}"

    def definition(self, item: pytest.Item) -> OperatorDefinition | None:
        """Return the operator definition, validated; None for a test without an operator.

        Raises DefinitionError for a wrong definition, UsageError where no operator is named.
        """
        if self.operator == NO_OPERATOR:
            return None
        if not self.operator:
            raise UsageError(
                "no operator is named",
                next_step="Name its definition file, with --grovescale-operator=FILE, grovescale_operator in the ini"
                ' file, or @pytest.mark.grovescale(operator="FILE"); `reference` is the bundled operator, `none` tests'
                " without one.",
            )
        # A test may have changed the working directory, to where no other test's operator is started.
        workdir = self.workdir or item.config.invocation_params.dir
        definition = load(self.operator, values=self.values, base=folders(item), workdir=workdir)
        refuse_unknown_rules(Path(definition.source), definition.findings)
        return definition

    @property
    def operator_key(self) -> str:
        return f"{self.cluster_key}/{self.operator}/{sorted(self.values.items())}/{self.faults}"

    def adapted(self, definition: ClusterDefinition) -> ClusterDefinition:
        """Return a cluster definition with the version and the number of nodes of this test."""
        if self.kubernetes:
            definition = definition.with_version(self.kubernetes)
        if self.nodes:
            definition = definition.with_nodes(self.nodes)
        return definition


def folders(item: pytest.Item) -> tuple[Path, ...]:
    """Return the search folders for files that a test, its marker or the command line names."""
    return (item.path.parent, item.config.invocation_params.dir, item.config.rootpath)


def _calls_faults(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or "scale" not in item.fixturenames:
        return False
    if FAULTS not in item.stash:
        item.stash[FAULTS] = test_code.calls(item, "faults", "api_faults")
    return item.stash[FAULTS]


def _interval(asked: Mapping[str, Any], settings: Settings) -> float | None:
    if "scrape_interval" in asked and "scrape_interval" not in settings.given:
        return durations.seconds(asked["scrape_interval"])
    return settings.scrape_interval_s


def describe(items: Sequence[pytest.Item], settings: Settings, file: Path) -> None:
    """Write the collected scale tests with their configurations: the first input of a comparison."""
    subjects = []
    for item in items:
        if isinstance(item, pytest.Function) and "scale" in item.fixturenames and not is_profiled(item):
            wanted = ItemConfig.of(item, settings)
            subjects.append(
                Subject(
                    nodeid=node_id(item),
                    path=str(item.path),
                    name=item.name,
                    cluster=wanted.cluster,
                    kubernetes=wanted.kubernetes,
                    nodes=wanted.nodes,
                    allowed_contexts=settings.allow_context,
                    operator=wanted.operator,
                )
            )
    file.write_bytes(msgspec.json.encode(subjects))


def is_profiled(item: pytest.Function) -> bool:
    """Return whether this is a test's profiling pass."""
    callspec = getattr(item, "callspec", None)
    return callspec is not None and bool(callspec.params.get("grovescale_profiled"))


def has_profiled_pass(item: pytest.Function) -> bool:
    """Return whether a test has a profiling pass."""
    callspec = getattr(item, "callspec", None)
    return callspec is not None and "grovescale_profiled" in callspec.params


def node_id(item: pytest.Item) -> str:
    """Return a test's node id, without the group that xdist appends with ``--dist loadgroup``."""
    group = group_of(item)
    return item.nodeid.removesuffix(f"@{group}") if group else item.nodeid


def group_of(item: pytest.Item) -> str:
    """Return the group from a test's ``xdist_group`` marks, several joined as one; empty for none."""
    marks = item.iter_markers("xdist_group")
    return "_".join(sorted({str(mark.args[0] if mark.args else mark.kwargs.get("name", "default")) for mark in marks}))


def measured_of_profiled(nodeid: str) -> str:
    """Return the node id of the measuring pass, from that of a profiling pass; empty for any other test."""
    found = measured(nodeid) if "profiled" in nodeid.partition("[")[2] else nodeid
    return "" if found == nodeid else found


def measured(nodeid: str) -> str:
    """Return the node id of the measuring pass, from that of the profiling pass."""
    before, _, after = nodeid.rpartition("profiled")
    if before.endswith("[") and after == "]":
        return before[:-1]
    return before[:-1] + after if before.endswith("-") else before + after.removeprefix("-")


def operator_parameters(definition: OperatorDefinition | None) -> dict[str, str | int | float | bool]:
    """Return the recorded facts of an operator: its name, how it runs, and its values."""
    if definition is None:
        return {"operator": NO_OPERATOR}
    runs_as = "process" if definition.pod is None else "pod"
    return {"operator": definition.name, "operator_runs_as": runs_as, **definition.values}
