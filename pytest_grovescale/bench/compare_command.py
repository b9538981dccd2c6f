"""``grovescale compare``: from arguments to exit code."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

import msgspec

from .. import durations
from ..analysis.comparison import overall
from ..analysis.contention import limit_of
from ..atomic_write import json_text
from ..errors import ExitCode, UsageError
from ..report import comparison_table, document, pull_request
from ..report.html.page import Background
from . import compare, from_results, output, profiled_runs, run_context, variant
from .command_context import Environment, Write, found_test, operator_of, say_files, show_plan, split
from .output import ComparisonFile, FailOn
from .screen import Screen
from .store import PAIRS, RUN, Plan, Store, WindowPlan, named_errors
from .variant import Pairing

# Of the bundled scenario; other tests define their own size.
_QUICK_REPLICAS = "50"


_SHORTEST_LIMIT_S = 60.0


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
    names, test = split(wanted.names)
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
    if runs := [name for name in names if from_results.is_folder_of_runs(name)]:
        others = [name for name in names if name not in runs]
        missing = bool(others) and "/" in others[0] and not Path(others[0]).exists()
        other = f"{others[0]} is {'not there' if missing else 'none'}" if others else "there is no other"
        raise UsageError(
            f"{runs[0]} is a folder of runs, which is compared with another, and {other}",
            next_step=f"Name two of them, the earlier first: grovescale compare {runs[0]} RUN.",
        )
    if wanted.allow_different:
        raise UsageError("--allow-different is for finished runs", next_step="Name the folders of two.")
    plan = compare.plan_of(_wanted(wanted, names, test, environment))
    if wanted.is_bare and not wanted.yes:
        fewest = compare.fewest_to_come(plan, {})
        return show_plan(plan, environment.reports, write, other="grovescale compare [A] [B] [TEST]", fewest=fewest)
    if len(names) < 2 and not (wanted.other or wanted.git or wanted.yes):
        named = next(iter(names), next(iter(plan.arms.values())).label)
        raise UsageError(
            f"nothing says what {named} is compared with",
            next_step="Name a second definition, or other values of this one (--set-b NAME=VALUE), or two revisions"
            f" (--git main HEAD). How much two runs of the same differ: grovescale compare {named} {named}.",
        )
    store = Store.create(environment.reports, plan)
    return compare_stored(store, plan, fail_on=wanted.fail_on, json=json, stream=stream, write=write, color=color)


def resume_compare(
    folder: str, reports: Path, *, fail_on: FailOn | None, json: bool, stream: TextIO, write: Write, color: bool
) -> int:
    """Continue an interrupted comparison: the one in ``folder``, or the newest."""
    store = Store(Path(folder)) if folder else Store.latest(reports, "compare")
    return compare_stored(store, store.plan(), fail_on=fail_on, json=json, stream=stream, write=write, color=color)


def compare_stored(
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
    """Write a comparison's files into a folder, show it, and return the exit code."""
    written = output.write_comparison(folder, found, behind)
    write(
        json_text(found) if json else document.text(comparison_table.blocks(found.parts, found.profiles), color=color)
    )
    say_files(screen, written)
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
    subject = functools.cache(lambda: found_test(test, environment, parameters))
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
