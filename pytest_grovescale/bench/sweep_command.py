"""``grovescale sweep``: from arguments to exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from ..atomic_write import json_text
from ..checks import Scales
from ..errors import UsageError
from ..operator.definition import load
from ..report import document, scaling_table
from . import output, sweep, variant
from .command_context import Environment, Write, found_test, operator_of, say_files, show_plan, split
from .output import SweepFile
from .screen import Screen
from .store import Plan, Store
from .sweep import SweepFailOn


class SweepWanted(NamedTuple):
    """The arguments of ``grovescale sweep``."""

    names: Sequence[str]
    """An operator definition, a test, both or none."""
    values: Sequence[str] = ()
    parameters: Sequence[str] = ()
    repeats: int | None = None
    checks: Sequence[str] = ()
    """METRIC or METRIC=EXPONENT: the metric may grow at most with this power of the size."""
    fail_on: SweepFailOn = "inconclusive"
    yes: bool = False
    """Whether it runs although no argument names what is swept."""

    @property
    def is_bare(self) -> bool:
        """Whether no argument names what is swept."""
        return not (self.names or self.values or self.parameters)


def run_sweep(
    wanted: SweepWanted, environment: Environment, *, json: bool, stream: TextIO, write: Write, color: bool
) -> int:
    """Run a test at several sizes; return the exit code. ``json``: write JSON, no tables."""
    checks = [sweep.of_option(text) for text in wanted.checks]
    names, test = split(wanted.names)
    if len(names) > 1:
        raise UsageError(f"a sweep is of one operator, not of {' and '.join(names)}", next_step="Name one definition.")
    values = variant.pairs_of("--set", wanted.values)
    parameters = sweep.DEFAULT_SIZES if wanted.is_bare else variant.pairs_of("--param", wanted.parameters)
    # Which of the values are parameters of the test depends on the operator.
    operator = operator_of(names, test, lambda: found_test(test, environment, {}))
    declared = load(operator).declared
    read = {**parameters, **{name: value for name, value in values.items() if name not in declared}}
    plan = sweep.plan_of(
        operator,
        found_test(test, environment, {name: value.partition(",")[0] for name, value in read.items()}),
        values=values,
        parameters=parameters,
        repeats=sweep.REPEATS if wanted.repeats is None else wanted.repeats,
    )
    if wanted.is_bare and not wanted.yes:
        return show_plan(plan, environment.reports, write, other="grovescale sweep [OPERATOR] [TEST] --set NAME=1,2,3")
    store = Store.create(environment.reports, plan)
    return _sweep(store, plan, checks, fail_on=wanted.fail_on, json=json, stream=stream, write=write, color=color)


def resume_sweep(
    folder: str,
    reports: Path,
    *,
    checks: Sequence[str],
    fail_on: SweepFailOn,
    json: bool,
    stream: TextIO,
    write: Write,
    color: bool,
) -> int:
    """Continue an interrupted sweep: the one in ``folder``, or the newest."""
    wanted = [sweep.of_option(text) for text in checks]
    store = Store(Path(folder)) if folder else Store.latest(reports, "sweep")
    return _sweep(store, store.plan(), wanted, fail_on=fail_on, json=json, stream=stream, write=write, color=color)


def _sweep(
    store: Store,
    plan: Plan,
    checks: Sequence[Scales],
    *,
    fail_on: SweepFailOn,
    json: bool,
    stream: TextIO,
    write: Write,
    color: bool,
) -> int:
    if plan.command != "sweep":
        raise UsageError(f"{store.folder} is a comparison", next_step="Use: grovescale compare --resume")
    screen = Screen(stream)
    screen.say(f"sweep in {os.path.relpath(store.folder)}; after an interruption: grovescale sweep --resume")
    try:
        found = sweep.run(store, plan, screen)
    finally:
        screen.close()
    judged = sweep.judged(found, store.samples().values(), checks)
    content = SweepFile(subject=plan.subject, sweep=found, checks=judged)
    written = output.write_sweep(store.folder, content)
    write(json_text(content) if json else document.text(scaling_table.blocks(found, judged), color=color))
    say_files(screen, written)
    return sweep.exit_code(judged, fail_on)
