"""``grovescale bisect``: from arguments to exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from ..analysis.contention import limit_of
from ..analysis.statistics.noisy_bisection import ERROR
from ..atomic_write import json_text
from ..errors import ExitCode, UsageError
from ..report import bisect_table, document
from . import bisect, output, variant
from .command_context import Environment, Write, found_test, say_files, split
from .compare_command import compare_stored
from .screen import Screen
from .store import BisectPlan, Plan, Store


class BisectWanted(NamedTuple):
    """The arguments of ``grovescale bisect``."""

    good: str
    bad: str
    names: Sequence[str]
    """The operator's definition, and a test."""
    metric: str
    build: str = ""
    values: Sequence[str] = ()
    parameters: Sequence[str] = ()
    most: int = bisect.MOST
    """Measurements after which it gives up."""
    pairs: int = bisect.PAIRS
    """Of the comparison at the end; 0: none."""
    profiles: bool = True
    max_contention: str = ""


def run_bisect(
    wanted: BisectWanted, environment: Environment, *, json: bool, stream: TextIO, write: Write, color: bool
) -> int:
    """Find the commit that changed a figure; return the exit code. ``json``: write JSON, no tables."""
    names, test = split(wanted.names)
    if len(names) != 1:
        raise UsageError(
            "a bisection needs the operator's definition, which all commits have",
            next_step="Name its file: grovescale bisect v1.0 HEAD operators/mine.yaml --metric cpu:deploy.",
        )
    if wanted.most < 1 or wanted.pairs < 0 or wanted.pairs == 1:
        raise UsageError(
            f"--most {wanted.most}, --pairs {wanted.pairs}",
            next_step="Give at least one measurement, and at least 2 pairs (a single one shows no spread) or 0.",
        )
    parameters = variant.pairs_of("--param", wanted.parameters)
    top = variant.repository()
    good, bad = (variant.commit(top, revision) for revision in (wanted.good, wanted.bad))
    if good == bad:
        raise UsageError(f"{wanted.good} and {wanted.bad} are the same commit", next_step="Name two.")
    revisions = variant.between(top, good, bad)
    first = variant.of_revisions(
        top,
        names[0],
        [(wanted.good, good), (wanted.bad, bad)],
        build=wanted.build,
        values=variant.pairs_of("--set", wanted.values),
        parameters=parameters,
    ).a
    plan = bisect.plan_of(
        found_test(test, environment, parameters),
        bisect.variants(first, good, revisions),
        BisectPlan(
            metric=wanted.metric,
            most=wanted.most,
            error=ERROR,
            max_contention=limit_of(wanted.max_contention),
            pairs=wanted.pairs,
            profiles=wanted.profiles,
        ),
        str(top),
    )
    store = Store.create(environment.reports, plan)
    return _bisect(store, plan, json=json, stream=stream, write=write, color=color)


def resume_bisect(
    folder: str, reports: Path, *, skipped: Sequence[str], json: bool, stream: TextIO, write: Write, color: bool
) -> int:
    """Continue an interrupted bisection: the one in ``folder``, or the newest. ``skipped``: commits to leave out."""
    store = Store(Path(folder)) if folder else Store.latest(reports, "bisect")
    plan = store.plan()
    bisect.wanted_of(plan)
    for revision in skipped:
        bisect.skip(store, plan, variant.commit(Path(plan.repository), revision))
    return _bisect(store, plan, json=json, stream=stream, write=write, color=color)


def _bisect(store: Store, plan: Plan, *, json: bool, stream: TextIO, write: Write, color: bool) -> int:
    bisect.wanted_of(plan)
    screen = Screen(stream)
    screen.say(f"bisection in {os.path.relpath(store.folder)}; after an interruption: grovescale bisect --resume")
    if variant.is_dirty(Path(plan.repository)):
        screen.say("the working tree has changes: commits are measured without them, the test is taken with them")
    try:
        found = bisect.run(store, plan, screen)
    finally:
        screen.close()
    file = output.write_bisection(store.folder, found)
    write(json_text(found) if json else document.text(bisect_table.blocks(found), color=color))
    say_files(screen, [file])
    if (pair := bisect.pair_plan(plan, found)) is not None:
        screen.say("the guilty commit and the one before it, compared:")
        own = Store.within(store.folder / "guilty", pair)
        compare_stored(
            own,
            own.plan(),
            fail_on="never",
            json=False,
            stream=stream,
            write=screen.say if json else write,
            color=color,
        )
    return ExitCode.PASSED if found.guilty else ExitCode.INCONCLUSIVE
