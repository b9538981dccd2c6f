"""The runs of the defect matrix: the operator clean and with each defect, and sweeps for checks that judge growth."""

from __future__ import annotations

import contextlib
import datetime
import secrets
import shutil
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..analysis.metrics.history import histories_in
from ..analysis.result import CheckResult
from ..bench import child, measured, sweep, target_test
from ..bench.driver import RUN_OPTIONS, cluster_definition
from ..bench.screen import Screen
from ..bench.store import Plan, Store, named_errors, write_json
from ..bench.target_test import Subject
from ..checks import scaling
from ..checks.check import text_of
from ..cluster import handle, locks, machine_lock
from ..cluster.handle import Cluster
from ..cluster.machine_lock import MachineLock
from ..errors import UsageError
from .matrix import CLEAN, Cell, Matrix, Measured, cell

OPERATOR = "reference"
SCENARIO = "test_defects.py"
TEST, TEST_UNDER_FAULTS = "test_defects", "test_defects_under_faults"
SCRAPE_INTERVAL = "400ms"
"""A small deployment lasts only seconds, and growth checks need several object counts."""
SCHEMA_VERSION = 1

REFERENCE = "clean-first"
"""The run whose figures bounds are multiples of; the run judged as clean is another one."""

_RUNS, _SWEEPS, _DONE = "runs", "sweeps", "done.json"


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run, as stored in its folder."""

    schema_version: int = SCHEMA_VERSION
    arguments: tuple[str, ...]
    """The arguments that distinguish it from the other runs."""
    seconds: float


class Runs(NamedTuple):
    """The folder of one selftest, and the test that it runs."""

    folder: Path
    matrix: Matrix
    subject: Subject

    def reports(self, name: str) -> Path:
        """Return the folder of one run."""
        return self.folder / _RUNS / name

    def measured(self, name: str) -> Measured | None:
        """Return a finished run; None where there is none, or one of another defect."""
        reports = self.reports(name)
        with contextlib.suppress(OSError, msgspec.DecodeError):
            done = msgspec.json.decode((reports / _DONE).read_bytes(), type=Done)
            if done.arguments == self._given(name):
                return self._read(name, reports)
        return None

    def sweeps(self, name: str) -> Path:
        """Return the folder of a defect's runs at several sizes."""
        return self.folder / _SWEEPS / name

    def forget(self, name: str) -> None:
        """Discard a defect's run, so that it is measured again."""
        with named_errors(self.folder):
            (self.reports(name) / _DONE).unlink(missing_ok=True)
            shutil.rmtree(self.sweeps(name), ignore_errors=True)

    def run(self, name: str, cluster: Cluster, lock: MachineLock, screen: Screen) -> Measured:
        """Make one run. Raises NothingMeasured for a run that ended before its first phase, or was cut short."""
        began = time.monotonic()
        reports = self.reports(name)
        with named_errors(reports):
            reports.mkdir(parents=True, exist_ok=True)
            for old in (measured.LATEST, _DONE):
                (reports / old).unlink(missing_ok=True)
        arguments = [*self._arguments(name, reports), f"--grovescale-cluster={cluster.name}"]
        with child.running(arguments, log=reports / "pytest.log", lock=lock.descriptor) as process:
            process.wait(lambda line: screen.now(f"{name}: {line}"))
            found = self._read(name, reports)
            if found is None:
                raise measured.nothing_measured(process)
        measured.broken(found.test)
        done = Done(arguments=self._given(name), seconds=time.monotonic() - began)
        write_json(reports / _DONE, done)
        return found

    def _given(self, name: str) -> tuple[str, ...]:
        """Return the arguments that distinguish this run from the others."""
        defect, parameters = self.matrix.arguments(name)
        return (
            *([f"--grovescale-set=defect={defect}"] if defect else []),
            *(f"--grovescale-param={key}={value}" for key, value in parameters.items()),
        )

    def _arguments(self, name: str, reports: Path) -> list[str]:
        return [
            *RUN_OPTIONS,
            "--grovescale-profile=off",
            # The selftest judges the check, not the machine.
            "--grovescale-contention-limit=100%",
            f"--grovescale-scrape-interval={SCRAPE_INTERVAL}",
            f"--grovescale-operator={OPERATOR}",
            f"--grovescale-reports={reports}",
            *self._given(name),
            self._subject(name).argument,
        ]

    def _subject(self, name: str) -> Subject:
        """Return the scenario of a run: for a defect that shows under faults, that with a proxy on its way."""
        of = self.matrix.defects.get(name)
        if of is None or not of.faults:
            return self.subject
        nodeid = self.subject.nodeid.replace(f"::{TEST}", f"::{TEST_UNDER_FAULTS}")
        return msgspec.structs.replace(self.subject, nodeid=nodeid, name=TEST_UNDER_FAULTS)

    def _read(self, name: str, reports: Path) -> Measured | None:
        test = measured.result_in(reports, self._subject(name))
        if test is None or not test.phases:
            return None
        history = histories_in((reports / measured.LATEST).resolve())
        return Measured(test, lambda: history(test))


def folder_of(reports: Path, resume: str | None) -> Path:
    """Return a new folder, or one to resume: that of this name, or, for an empty name, the newest.

    Raises UsageError when it does not exist.
    """
    if resume is None:
        now = datetime.datetime.now(datetime.UTC)
        return reports / f"defects-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    found = Path(resume) if resume else max(reports.glob(f"defects-*/{_RUNS}"), default=reports / _RUNS).parent
    if not (found / _RUNS).is_dir():
        raise UsageError(f"{found} holds no runs to go on with", next_step="Start again without --resume.")
    return found


def make(runs: Runs, names: Sequence[str], screen: Screen) -> Generator[tuple[str, Measured]]:
    """Yield each run, in order; existing ones are reused. The cluster ends with the iterator."""
    with named_errors(runs.folder):
        runs.folder.mkdir(parents=True, exist_ok=True)
    own = locks.take(runs.folder / ".lock", wait=False)
    if own is None:
        raise UsageError(f"{runs.folder} is being worked on", next_step="Wait for that one, or start another.")
    with own, contextlib.ExitStack() as stack:
        place: tuple[Cluster, MachineLock] | None = None
        for name in names:
            found = runs.measured(name)
            if found is None:
                if place is None:
                    command = f"grovescale selftest defects, {runs.folder.name}"
                    lock = stack.enter_context(machine_lock.exclusive(screen.say, command=command))
                    definition = cluster_definition(runs.subject)
                    cluster = handle.acquire(definition, name=runs.folder.name, progress=screen.say)
                    stack.callback(cluster.release)
                    place = (cluster, lock)
                else:
                    place[1].yield_to_waiting()
                found = runs.run(name, *place, screen)
            yield name, found


def growth_cell(runs: Runs, defect: str, screen: Screen) -> Cell:
    """Return the result of `scales` for a defect; undecided where the matrix requests no runs of several sizes.

    Reuses existing runs.
    """
    matrix = runs.matrix
    if defect in matrix.growth.of:
        store = _store(matrix, defect, runs.sweeps(defect))
        said = matrix.growth.check.judge_sweep(sweep.run(store, store.plan(), screen, enough=matrix.growth.decided))
        screen.say(f"{defect}: {said.text}")
    else:
        text = text_of(matrix.growth.check)
        said = CheckResult(check=text, verdict="inconclusive", text=matrix.growth.why)
    return cell(matrix, defect, scaling.SCALES, said)


def _store(matrix: Matrix, defect: str, reports: Path) -> Store:
    """Return the existing sweep with the same plan, or a new one."""
    growth = matrix.growth
    plan = sweep.plan_of(
        OPERATOR,
        target_test.find(""),
        values={} if defect == CLEAN else {"defect": matrix.arguments(defect)[0]},
        parameters={
            **{name: str(value) for name, value in growth.parameters.items()},
            "replicas": ",".join(str(size) for size in growth.replicas),
        },
        repeats=growth.most_repeats,
        hold_s=growth.hold_s,
    )
    try:
        begun = Store.latest(reports, plan.command)
    except UsageError:
        return Store.create(reports, plan)
    return begun if _alike(begun.plan(), plan) else Store.create(reports, plan)


def _alike(one: Plan, other: Plan) -> bool:
    return (one.subject, one.arms, one.slots) == (other.subject, other.arms, other.slots)
