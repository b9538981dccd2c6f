"""`scales` in the selftest: the bundled operator at several sizes, clean and where growth is the defect."""

from __future__ import annotations

from pathlib import Path

from ..analysis.result import CheckResult
from ..checks import scaling
from ..checks.check import text_of
from ..errors import UsageError
from . import matrix_checks, subject, sweep
from .matrix import CLEAN, Cell, Matrix
from .matrix_runs import OPERATOR, Runs
from .screen import Screen
from .store import Plan, Store


def cell(runs: Runs, defect: str, screen: Screen) -> Cell:
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
    return matrix_checks.cell(matrix, defect, scaling.SCALES, said)


def _store(matrix: Matrix, defect: str, reports: Path) -> Store:
    """Return the existing sweep with the same plan, or a new one."""
    growth = matrix.growth
    plan = sweep.plan_of(
        OPERATOR,
        subject.find(""),
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
