"""``grovescale compare | sweep``: from arguments to exit code."""

from __future__ import annotations

import contextlib
import functools
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

import msgspec

from .. import durations
from ..analysis.comparison import overall
from ..analysis.contention import limit_of
from ..analysis.result import NO_OPERATOR
from ..analysis.statistics.noisy_bisection import ERROR
from ..atomic_write import json_text
from ..checks import Scales
from ..errors import ExitCode, RecordingError, UsageError
from ..operator.definition import load
from ..report import bisect_table, comparison_table, document, pull_request, scaling_table
from ..report.html.page import Background
from . import bisect, compare, from_results, output, profiled_runs, run_context, sweep, target_test, variant
from .output import ComparisonFile, FailOn, SweepFile
from .screen import Screen
from .store import PAIRS, RUN, TYPICAL_S, BisectPlan, Plan, Store, WindowPlan, named_errors
from .sweep import SweepFailOn
from .target_test import Subject
from .variant import Pairing

Write = Callable[[str], None]
"""Receives the command's output."""

DEFAULT_OPERATOR = "reference"

# Of the bundled scenario; other tests define their own size.
_QUICK_REPLICAS = "50"

_SHORTEST_LIMIT_S = 60.0


class Environment(NamedTuple):
    """Where a command runs its test, and where it stores its output."""

    reports: Path
    cluster: str = ""
    nodes: int | None = None
    kubernetes: str = ""
    allowed_contexts: Sequence[str] = ()
    """Non-local contexts of a kubeconfig that may be used."""

    @property
    def options(self) -> list[str]:
        """The same settings as options of pytest."""
        return target_test.cluster_options(
            self.cluster, kubernetes=self.kubernetes, nodes=self.nodes, allowed_contexts=self.allowed_contexts
        )


class CompareWanted(NamedTuple):
    """The arguments of ``grovescale compare``."""

    names: Sequence[str]
    """Definition files, folders of runs, and a test (a name that contains ``.py``), in any meaningful combination."""
    values: Sequence[str] = ()
    other: Sequence[str] = ()
    parameters: Sequence[str] = ()
    git: Sequence[str] = ()
    build: str = ""
    parts: str | None = None
    """The parts, such as ``noop,deploy``; None: both."""
    pairs: int | None = None
    no_early_stop: bool = False
    """Whether all pairs are run, without early stopping."""
    sequential: bool = False
    """Whether deploy runs are sequential, not parallel."""
    same_process: bool = False
    """Whether all windows of a variant use one process."""
    quick: bool = False
    time_limit: str = ""
    """Time for the pairs, such as ``5m``; empty: that of a quick comparison, else none."""
    window: str = ""
    """Length of a no-op window, such as ``10s``; of a quick comparison the longest hold."""
    triggers: int | None = None
    profiles: bool | None = None
    """Whether profiles are taken at the end; None: unless a quick comparison is requested."""
    gated: Sequence[str] = ()
    fail_on: FailOn | None = None
    """None: inconclusive of a quick comparison, which a pull request waits for, else regression."""
    max_contention: str = ""
    """Such as ``25%``; empty: the default."""
    allow_different: bool = False
    """Whether finished runs may differ in parameters, size or machine."""
    yes: bool = False
    """Whether it runs although no argument names what is compared."""

    @property
    def is_bare(self) -> bool:
        """Whether no argument names what is compared."""
        return not (self.names or self.values or self.other or self.git)


def run_compare(
    wanted: CompareWanted, environment: Environment, *, json: bool, stream: TextIO, write: Write, color: bool
) -> int:
    """Compare two variants, or two folders of finished runs; return the exit code. ``json``: write JSON, no tables."""
    names, test = _split(wanted.names)
    if len(names) == 2 and all(from_results.is_folder_of_runs(name) for name in names):
        return _compare_recorded(
            Path(names[0]),
            Path(names[1]),
            wanted,
            environment.reports,
            json=json,
            stream=stream,
            write=write,
            color=color,
        )
    if wanted.allow_different:
        raise UsageError("--allow-different is for finished runs", next_step="Name the folders of two.")
    plan = compare.plan_of(_wanted(wanted, names, test, environment))
    if wanted.is_bare and not wanted.yes:
        return _show_plan(plan, environment.reports, write, other="grovescale compare [A] [B] [TEST]")
    store = Store.create(environment.reports, plan)
    return _compare(store, plan, fail_on=wanted.fail_on, json=json, stream=stream, write=write, color=color)


def _show_plan(plan: Plan, reports: Path, write: Write, *, other: str) -> int:
    """Show what a command without arguments would run, and its duration; return the exit code for "nothing was run".

    ``other``: how to specify what to run.
    """
    earlier = _earlier(plan, reports)
    sizes = {name: len(plan.part(name)) for name in dict.fromkeys(slot.part for slot in plan.slots)}
    seconds = {name: number * earlier.get(name, TYPICAL_S[name]) for name, number in sizes.items()}
    labels = list(dict.fromkeys(arm.label for arm in plan.arms.values()))
    subject = plan.subject
    where = f"cluster {subject.cluster}" + (f", {subject.nodes} nodes" if subject.nodes else "")
    basis = "earlier runs of this test here" if earlier else "1000 pods on two cores; other machines differ"
    write(
        "\n".join(
            [
                f"plan of grovescale {plan.command}: {', '.join(labels)}",
                f"  test: {_shown(Path(subject.path))}::{subject.name} ({where})",
                *(
                    f"  {name}: {number} runs, about {durations.text(_rounded(seconds[name]))}"
                    for name, number in sizes.items()
                ),
                f"about {durations.text(_rounded(sum(seconds.values())))} in all, by {basis}",
                f"Nothing was started. Run this plan: grovescale {plan.command} --yes; or say what to run: {other}",
            ]
        )
    )
    return 2


def _earlier(plan: Plan, reports: Path) -> dict[str, float]:
    """Return part → median seconds of earlier runs of this test here; empty for none."""
    took: dict[str, list[float]] = {}
    for folder in sorted(reports.glob(f"{plan.command}-*")):
        # Ignore runs of another version of grovescale.
        with contextlib.suppress(RecordingError):
            store = Store(folder)
            if store.plan().subject.argument == plan.subject.argument:
                for slot, sample in store.samples().items():
                    took.setdefault(slot.part, []).append(sample.seconds)
    return {part: statistics.median(seconds) for part, seconds in took.items()}


def _shown(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def _rounded(seconds: float) -> float:
    return max(60.0, round(seconds / 60) * 60.0)


def _compare_recorded(
    a: Path, b: Path, wanted: CompareWanted, reports: Path, *, json: bool, stream: TextIO, write: Write, color: bool
) -> int:
    pairs = from_results.pairs_in(a, b)
    if not wanted.allow_different:
        from_results.refuse_different(pairs)
    found = from_results.compare_recorded(
        a, b, pairs, gated=wanted.gated, max_contention=limit_of(wanted.max_contention)
    )
    folder = reports / f"compared-{a.resolve().name}-{b.resolve().name}"
    with named_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    page = output.page_of(folder)
    profiled = profiled_runs.of_recordings(pairs, (str(a), str(b)), page=page)
    behind = run_context.of_recordings(pairs, (str(a), str(b)), profiled, page=page)
    written = ComparisonFile(
        verdict=found.verdict, parts=(found,), profiles=profiled.compared, in_force=behind.in_force
    )
    screen = Screen(stream)
    fail_on = wanted.fail_on or "regression"
    return _tell(written, folder, behind, fail_on=fail_on, json=json, screen=screen, write=write, color=color)


def resume_compare(
    folder: str, reports: Path, *, fail_on: FailOn | None, json: bool, stream: TextIO, write: Write, color: bool
) -> int:
    """Continue an interrupted comparison: the one in ``folder``, or the newest."""
    store = Store(Path(folder)) if folder else Store.latest(reports, "compare")
    return _compare(store, store.plan(), fail_on=fail_on, json=json, stream=stream, write=write, color=color)


def _compare(
    store: Store, plan: Plan, *, fail_on: FailOn | None, json: bool, stream: TextIO, write: Write, color: bool
) -> int:
    if plan.command != "compare":
        raise UsageError(f"{store.folder} is a {plan.command}", next_step=f"Use: grovescale {plan.command} --resume")
    screen = Screen(stream)
    screen.say(f"comparison in {os.path.relpath(store.folder)}; after an interruption: grovescale compare --resume")
    try:
        parts, missing = compare.run(store, plan, screen)
    finally:
        screen.close()
    page = output.page_of(store.folder)
    profiled = profiled_runs.of_comparison(store, plan, missing, page=page)
    behind = run_context.of_comparison(store, plan, profiled, page=page)
    found = ComparisonFile(
        verdict=overall(parts),
        subject=plan.subject,
        arms=plan.arms,
        parts=tuple(parts),
        profiles=profiled.compared,
        in_force=behind.in_force,
    )
    return _tell(
        found,
        store.folder,
        behind,
        fail_on=fail_on or _fails_on(plan),
        json=json,
        screen=screen,
        write=write,
        color=color,
    )


def _fails_on(plan: Plan) -> FailOn:
    """Return what fails a comparison by default: of a quick one, for a pull request, also that it can't tell."""
    return "inconclusive" if RUN in plan.comparisons else "regression"


def _tell(
    found: ComparisonFile,
    folder: Path,
    behind: Background,
    *,
    fail_on: FailOn,
    json: bool,
    screen: Screen,
    write: Write,
    color: bool,
) -> int:
    """Show a comparison, write its files into a folder, and return the exit code."""
    write(
        json_text(found) if json else document.text(comparison_table.blocks(found.parts, found.profiles), color=color)
    )
    _say_files(screen, output.write_comparison(folder, found, behind))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for one in pull_request.of_comparison(found.verdict, comparison_table.answer(found.parts)):
            screen.say(one)
    code = output.exit_code(found.parts, fail_on)
    if found.verdict == "inconclusive" and code == ExitCode.PASSED:
        screen.say("exit code 0 although the comparison is inconclusive: --fail-on=inconclusive makes it 4")
    return code


def _wanted(wanted: CompareWanted, names: Sequence[str], test: str, environment: Environment) -> compare.Wanted:
    parts = _parts(wanted)
    parameters = variant.pairs_of("--param", wanted.parameters)
    if wanted.quick and not test:
        parameters = {"replicas": _QUICK_REPLICAS, **parameters}
    windows = _windows(wanted)
    # pytest is asked for the test once, and only after what can be refused without it.
    subject = functools.cache(lambda: _found(test, environment, parameters))
    names = names if wanted.git else [operator_of(names, test, subject), *names[1:]]
    pairing, repository = _pairing(wanted, names, parameters)
    return compare.Wanted(
        pairing=pairing,
        subject=subject(),
        parts=parts,
        pairs=_pairs(wanted),
        no_early_stop=wanted.no_early_stop,
        sequential=wanted.sequential,
        windows=windows,
        hold_s=windows.seconds if wanted.quick else 1.0,
        time_limit_s=_time_limit(wanted),
        gated=tuple(wanted.gated),
        max_contention=limit_of(wanted.max_contention),
        profiles=not wanted.quick if wanted.profiles is None else wanted.profiles,
        repository=repository,
    )


def _parts(wanted: CompareWanted) -> tuple[str, ...]:
    if wanted.quick:
        given = {"--parts": wanted.parts, "--triggers": wanted.triggers, "--same-process": wanted.same_process}
        if unheeded := [option for option, value in given.items() if value not in (None, False)]:
            raise UsageError(
                f"--quick makes whole runs of the test, without no-op windows: {', '.join(unheeded)} does not fit",
                next_step="Leave that out, or --quick.",
            )
        return (RUN,)
    names_of_parts = ",".join(compare.PARTS) if wanted.parts is None else wanted.parts
    parts = tuple(part.strip() for part in names_of_parts.split(",") if part.strip())
    if not parts or set(parts) - set(compare.PARTS) or len(set(parts)) != len(parts):
        raise UsageError(
            f"--parts {names_of_parts}: not noop, deploy or both", next_step="Write it as --parts noop,deploy."
        )
    return parts


def _pairs(wanted: CompareWanted) -> dict[str, int]:
    return {part: wanted.pairs or pairs for part, pairs in PAIRS.items()}


def _time_limit(wanted: CompareWanted) -> float | None:
    if not wanted.time_limit:
        return compare.QUICK_LIMIT_S if wanted.quick else None
    seconds = durations.seconds(wanted.time_limit)
    if seconds < _SHORTEST_LIMIT_S:
        raise UsageError(
            f"--time-limit {wanted.time_limit}: clusters start and end within it",
            next_step=f"Give at least {durations.text(_SHORTEST_LIMIT_S)}.",
        )
    return seconds


def _windows(wanted: CompareWanted) -> WindowPlan:
    plan = WindowPlan(seconds=compare.QUICK_HOLD_S) if wanted.quick else WindowPlan()
    seconds = durations.seconds(wanted.window) if wanted.window else plan.seconds
    triggers = plan.triggers if wanted.triggers is None else wanted.triggers
    if seconds <= 0 or triggers < 1:
        raise UsageError(f"a window of {seconds:g} s with {triggers} triggers", next_step="Give more of both.")
    return msgspec.structs.replace(plan, seconds=seconds, triggers=triggers, fresh=not wanted.same_process)


def _pairing(wanted: CompareWanted, names: Sequence[str], parameters: dict[str, str]) -> tuple[Pairing, str]:
    values = variant.pairs_of("--set", wanted.values)
    other = variant.pairs_of("--set-b", wanted.other)
    first, second = (*names, "", "")[:2]
    if not wanted.git:
        return variant.of_definitions(first, second, values=values, other=other, parameters=parameters), ""
    if second or other:
        raise UsageError("--git compares two revisions of one definition", next_step="Name one file, without --set-b.")
    if not first:
        raise UsageError(
            "--git needs the operator's definition, which both revisions have",
            next_step="Name its file: grovescale compare operators/mine.yaml --git main HEAD.",
        )
    top = variant.repository()
    commits = [variant.commit(top, revision) for revision in wanted.git]
    return variant.of_revisions(
        top,
        first,
        list(zip(wanted.git, commits, strict=True)),
        build=wanted.build,
        values=values,
        parameters=parameters,
    ), str(top)


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
    names, test = _split(wanted.names)
    if len(names) != 1:
        raise UsageError(
            "a bisection needs the operator's definition, which all commits have",
            next_step="Name its file: grovescale bisect v1.0 HEAD operators/mine.yaml --metric cpu:deploy.",
        )
    if wanted.most < 1 or wanted.pairs < 0 or wanted.pairs == 1:
        raise UsageError(
            f"--most {wanted.most}, --pairs {wanted.pairs}",
            next_step="Give at least one measurement, and at least 2 pairs (the first is the warm-up) or 0.",
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
        _found(test, environment, parameters),
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
    _say_files(screen, [file])
    if (pair := bisect.pair_plan(plan, found)) is not None:
        screen.say("the guilty commit and the one before it, compared:")
        own = Store.within(store.folder / "guilty", pair)
        _compare(
            own,
            own.plan(),
            fail_on="never",
            json=False,
            stream=stream,
            write=screen.say if json else write,
            color=color,
        )
    return ExitCode.PASSED if found.guilty else ExitCode.INCONCLUSIVE


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
    names, test = _split(wanted.names)
    if len(names) > 1:
        raise UsageError(f"a sweep is of one operator, not of {' and '.join(names)}", next_step="Name one definition.")
    values = variant.pairs_of("--set", wanted.values)
    parameters = sweep.DEFAULT_SIZES if wanted.is_bare else variant.pairs_of("--param", wanted.parameters)
    # Which of the values are parameters of the test depends on the operator.
    operator = operator_of(names, test, lambda: _found(test, environment, {}))
    declared = load(operator).declared
    read = {**parameters, **{name: value for name, value in values.items() if name not in declared}}
    plan = sweep.plan_of(
        operator,
        _found(test, environment, {name: value.partition(",")[0] for name, value in read.items()}),
        values=values,
        parameters=parameters,
        repeats=sweep.REPEATS if wanted.repeats is None else wanted.repeats,
    )
    if wanted.is_bare and not wanted.yes:
        return _show_plan(plan, environment.reports, write, other="grovescale sweep [OPERATOR] [TEST] --set NAME=1,2,3")
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
    write(json_text(content) if json else document.text(scaling_table.blocks(found, judged), color=color))
    written = output.write_sweep(store.folder, content)
    _say_files(screen, written)
    return sweep.exit_code(judged, fail_on)


def _say_files(screen: Screen, files: Sequence[Path]) -> None:
    screen.say("wrote " + ", ".join(os.path.relpath(file) for file in files))


def _split(names: Sequence[str]) -> tuple[list[str], str]:
    """Return the names of definitions or folders, and the test among them: the name that contains ``.py``."""
    tests = [name for name in names if Path(name.partition("::")[0]).suffix == ".py"]
    others = [name for name in names if name not in tests]
    if len(tests) > 1 or len(others) > 2:
        raise UsageError(
            f"what is meant by {' '.join(names)}?",
            next_step="Name at most two definitions (or folders of runs), then one test.",
        )
    return others, tests[0] if tests else ""


def operator_of(names: Sequence[str], test: str, subject: Callable[[], Subject]) -> str:
    """Return the operator definition: the named one, else that of the test, else the bundled scenario's.

    ``subject`` finds the test; called only where the answer depends on it.
    """
    if names:
        return names[0]
    operator = subject().operator if test else DEFAULT_OPERATOR
    if operator in ("", NO_OPERATOR):
        raise UsageError(
            f"no operator is named, and {test} runs {'without one' if operator else 'with any'}",
            next_step="Name its definition file before the test, or in the ini file: grovescale_operator = FILE.",
        )
    return operator


def _found(test: str, environment: Environment, parameters: Mapping[str, str]) -> Subject:
    """Return the requested test, which reads these parameters."""
    given = [f"--grovescale-param={name}={value}" for name, value in parameters.items()]
    return target_test.find(test, [*environment.options, *given])
