"""The figures of a test over many runs, commit by commit: levels, changes of level, and the commits between.

Runs compare where machine, backend, test and parameters are the same; each such group has trends of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import msgspec

from ..recording.records import Machine
from .baseline import BaselineTest, baseline_test, usable
from .result import Result, Scalar
from .run_metrics import Unit, units_of

SCHEMA_VERSION = 1


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """The commit that a run measured."""

    id: str
    time: str
    """Committer's date, ISO 8601."""
    dirty: bool = False
    """Whether tracked files differed from it."""


class HistoryRun(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the history: all tests of one run that passed."""

    schema_version: int = SCHEMA_VERSION
    run: str
    saved: str
    """ISO 8601, UTC."""
    version: str
    """Of pytest-grovescale; empty for a run of another program."""
    machine: Machine
    commit: Commit | None = None
    """None outside of a git repository."""
    tests: dict[str, BaselineTest]


class HistoryPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One run's figure."""

    run: str
    saved: str
    commit: str = ""
    """Id; ends in ``+`` where tracked files differed from it; empty where it is unknown."""
    value: float


class HistoryChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of level."""

    index: int
    """Of the first run at the new level."""
    before: float
    """Geometric means of the levels."""
    after: float
    commits: str = ""
    """``GOOD..BAD``: the last commit before and the first after, as git log takes it; empty where one is unknown or
    both are the same."""

    @property
    def ratio(self) -> float | None:
        """The new level as a multiple of the one before; None where that was 0."""
        return self.after / self.before if self.before else None


class HistoryFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of one group."""

    metric: str
    unit: Unit
    points: tuple[HistoryPoint, ...]
    """In the order of the commits, runs of one commit in that of their starts."""
    changes: tuple[HistoryChange, ...] = ()


class HistoryGroup(msgspec.Struct, frozen=True, kw_only=True):
    """All runs that compare: of one test on one machine and backend, with the same parameters."""

    test: str
    machine: Machine
    backend: str = ""
    parameters: dict[str, Scalar] = {}
    figures: tuple[HistoryFigure, ...]
    """Those with a change first, the newest change first."""


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What ``grovescale history --json`` prints."""

    schema_version: int = SCHEMA_VERSION
    runs: int
    groups: tuple[HistoryGroup, ...]


def history_run(result: Result, *, saved: str, commit: Commit | None) -> HistoryRun | None:
    """Return a run as the history holds it; None where no test may be compared with (`baseline.usable`)."""
    tests = usable(result)
    if not tests:
        return None
    return HistoryRun(
        run=result.run,
        saved=saved,
        version=result.version,
        machine=next(iter(tests.values())).machine,
        commit=commit,
        tests={nodeid: baseline_test(test) for nodeid, test in tests.items()},
    )


def in_order(runs: Iterable[HistoryRun]) -> list[HistoryRun]:
    """Return runs in the order of their commits, those of one commit, or without one, in that of their ends."""
    return sorted(runs, key=lambda run: (_moment(run.commit.time if run.commit else run.saved), _moment(run.saved)))


def _moment(text: str) -> float:
    import datetime

    moment = datetime.datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()


def history_of(runs: Sequence[HistoryRun], *, test: str = "", metric: str = "") -> History:
    """Return the groups of some runs. ``test``: only tests whose id contains it; ``metric``: only this one.

    Raises UsageError where the library for change points is missing.
    """
    groups: dict[bytes, list[tuple[HistoryRun, BaselineTest]]] = defaultdict(list)
    names: dict[bytes, str] = {}
    for run in in_order(runs):
        for nodeid, kept in run.tests.items():
            if test in nodeid:
                parts = (run.machine.fingerprint, nodeid, kept.backend, sorted(kept.parameters.items()))
                key = msgspec.json.encode(parts)
                groups[key].append((run, kept))
                names[key] = nodeid
    found = [_group(names[key], runs_, metric) for key, runs_ in groups.items()]
    return History(runs=len(runs), groups=tuple(group for group in found if group.figures))


def _group(test: str, group: Sequence[tuple[HistoryRun, BaselineTest]], metric: str) -> HistoryGroup:
    last, kept = group[-1]
    metrics = dict.fromkeys(key for _, one in group for key in one.metrics if metric in ("", key))
    figures = [_figure(key, [(run, one.metrics) for run, one in group if key in one.metrics]) for key in metrics]
    figures.sort(key=lambda one: (-max((change.index for change in one.changes), default=-1), one.metric))
    return HistoryGroup(
        test=test,
        machine=last.machine,
        backend=kept.backend,
        parameters=dict(kept.parameters),
        figures=tuple(figures),
    )


def _figure(metric: str, measured: Sequence[tuple[HistoryRun, Mapping[str, float]]]) -> HistoryFigure:
    # Imports numpy and scipy, which most runs do not need.
    from .statistics.change_points import change_points

    points = tuple(
        HistoryPoint(run=run.run, saved=run.saved, commit=_commit(run), value=metrics[metric])
        for run, metrics in measured
    )
    return HistoryFigure(
        metric=metric,
        unit=units_of(metric),
        points=points,
        changes=tuple(
            HistoryChange(index=one.run, before=one.before, after=one.after, commits=_range(points, one.run))
            for one in change_points([point.value for point in points])
        ),
    )


def _commit(run: HistoryRun) -> str:
    return f"{run.commit.id}{'+' * run.commit.dirty}" if run.commit is not None else ""


def _range(points: Sequence[HistoryPoint], index: int) -> str:
    """Return the commits between the last run before a change and the first after it.

    A run of a changed worktree belongs to no commit: the nearest ones with one bound the range.
    """
    clean = [point.commit if not point.commit.endswith("+") else "" for point in points]
    good = next((commit for commit in reversed(clean[:index]) if commit), "")
    bad = next((commit for commit in clean[index:] if commit), "")
    return f"{good[:12]}..{bad[:12]}" if good and bad and good != bad else ""


def level(figure: HistoryFigure) -> float:
    """Return the median of the runs since the last change."""
    return median(point.value for point in figure.points[figure.changes[-1].index if figure.changes else 0 :])
