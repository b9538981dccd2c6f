"""``grovescale sweep``: one test at several sizes, how its figures grow, and the checks on that."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from ..analysis.result import CheckResult
from ..analysis.scaling import LEAST_SIZES, SizedRun, Sweep
from ..analysis.scaling import sweep as fitted
from ..checks import Scales
from ..checks.check import decode
from ..cluster import machine_lock
from ..errors import ExitCode, UsageError
from ..operator.definition import load
from .compare import checkouts
from .deploy_runs import SequentialRuns
from .driver import Bench, refuse_unfit
from .screen import Screen, time_left
from .store import Plan, Sample, Slot, Store, complete_rounds, left, shuffled
from .target_test import Subject
from .variant import Variant

SweepFailOn = Literal["fail", "inconclusive", "never"]
"""``inconclusive``: also for a check that fails. An undetermined result is no pass."""

OPTION = "--check"


def of_option(text: str) -> Scales:
    """Return the check in ``METRIC`` or ``METRIC=EXPONENT``. Raises UsageError for any other text."""
    metric, given, bound = text.partition("=")
    try:
        return Scales(metric, exponent_max=float(bound)) if given else Scales(metric)
    except UsageError as error:
        raise UsageError(f"{OPTION} {text}: {error.message}", next_step=error.next_step) from None
    except ValueError:
        raise UsageError(
            f"{OPTION} {text}: not METRIC or METRIC=EXPONENT", next_step=f"Write it as {OPTION} cpu:deploy=1.15."
        ) from None


def judged(sweep: Sweep, samples: Iterable[Sample], options: Sequence[Scales]) -> tuple[CheckResult, ...]:
    """Return the results of the checks that the test declared in any run, and of those of the command line."""
    declared = dict.fromkeys(_declared(samples))
    return tuple(
        check.judge_sweep(sweep, source=source)
        for check, source in [*declared, *((check, OPTION) for check in options)]
    )


def _declared(samples: Iterable[Sample]) -> Iterator[tuple[Scales, str]]:
    for sample in samples:
        for one in sample.held_to:
            check = decode(one.check)
            if isinstance(check, Scales):
                yield check, one.source


def exit_code(checks: Sequence[CheckResult], fail_on: SweepFailOn) -> ExitCode:
    """Return the exit code for CI: a failed check counts before an inconclusive one."""
    verdicts = {check.verdict for check in checks}
    if "fail" in verdicts and fail_on != "never":
        return ExitCode.FAILED
    if "inconclusive" in verdicts and fail_on == "inconclusive":
        return ExitCode.INCONCLUSIVE
    return ExitCode.PASSED


PART = "sweep"
REPEATS = 3
DEFAULT_SIZES = {"replicas": "125,250,500,1000"}
"""Of the bundled scenario, by default."""
HOLD_S = 5.0


class Swept(NamedTuple):
    """The varied parameter."""

    name: str
    values: tuple[str, ...]
    """Numbers, as given."""


def swept_of(given: Mapping[str, str]) -> Swept:
    """Return the one of NAME=VALUE arguments whose value is a list of numbers. Raises UsageError in any other case."""
    lists = {name: tuple(item.strip() for item in value.split(",")) for name, value in given.items() if "," in value}
    if len(lists) != 1:
        raise UsageError(
            "a sweep varies one value, and " + (f"{', '.join(lists)} are lists" if lists else "none is a list"),
            next_step="Write it as --param objects=50,100,200 where the test has that parameter, or as"
            " --set replicas=125,250,500 where it is a value of the operator.",
        )
    ((name, values),) = lists.items()
    wrong = [value for value in values if not _is_size(value)]
    if wrong or len(set(values)) != len(values) or len(values) < LEAST_SIZES:
        raise UsageError(
            f"{name}={given[name]}: {'not a size: ' + wrong[0] if wrong else f'not {LEAST_SIZES} different sizes'}",
            next_step="Give at least three different numbers above zero.",
        )
    return Swept(name, values)


def _is_size(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False


def plan_of(
    operator: str,
    subject: Subject,
    *,
    values: Mapping[str, str],
    parameters: Mapping[str, str],
    repeats: int = REPEATS,
    hold_s: float = HOLD_S,
    seed: int = 0,
) -> Plan:
    """Return the whole plan. One of ``values`` or ``parameters`` is a list; a value that the operator's definition
    lacks is a parameter of the test.

    Raises UsageError and DefinitionError for invalid requests, before anything starts.
    """
    if repeats < 1:
        raise UsageError(f"{repeats} repeats", next_step="Ask for 1 or more.")
    swept = swept_of({**values, **parameters})
    declared = load(operator).declared
    settings = {name: value for name, value in values.items() if name in declared or name != swept.name}
    others = {**parameters, **{name: value for name, value in values.items() if name not in settings}}
    arms = {}
    for value in swept.values:
        chosen = {name: value if name == swept.name else text for name, text in settings.items()}
        definition = load(operator, values=chosen)
        arms[value] = Variant(
            label=f"{swept.name}={value}",
            operator=definition.source,
            values=chosen,
            parameters={name: value if name == swept.name else text for name, text in others.items()},
        )
    refuse_unfit(subject, arms.values())
    return Plan(
        command="sweep",
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        subject=subject,
        arms=arms,
        slots=shuffled(PART, swept.values, repeats, seed=seed),
        hold_s=hold_s,
        parameter=swept.name,
    )


def run(store: Store, plan: Plan, screen: Screen, *, enough: Callable[[Sweep], bool] | None = None) -> Sweep:
    """Make all remaining runs, and return the fits; ``enough`` decides after each round of sizes whether to stop."""
    locked = machine_lock.exclusive(screen.say, command=f"grovescale sweep, {store.folder.name}")
    with store.alone(), locked as lock, checkouts(store, plan, screen) as folders:
        bench = Bench(store, plan, lock, screen, folders)
        with contextlib.ExitStack() as stack:
            measure = SequentialRuns(bench, stack, noop=True)
            samples = store.samples()
            while (slot := next_run(plan, samples, enough)) is not None:
                measure(slot)
                samples = store.samples()
                screen.say(_line(plan, slot, samples))
                lock.yield_to_waiting()
    return _fitted(plan, samples)


def next_run(plan: Plan, samples: Mapping[Slot, Sample], enough: Callable[[Sweep], bool] | None) -> Slot | None:
    """Return the next run; None when all are made, or after a whole round that is ``enough``."""
    whole = samples and complete_rounds(samples, PART, tuple(plan.arms)) * len(plan.arms) == len(samples)
    if enough is not None and whole and enough(_fitted(plan, samples)):
        return None
    return next(iter(left(plan.slots, samples)), None)


def result(store: Store, plan: Plan) -> Sweep:
    """Return the result of the finished runs."""
    return _fitted(plan, store.samples())


def _fitted(plan: Plan, samples: Mapping[Slot, Sample]) -> Sweep:
    runs = [_sized(sample) for sample in samples.values()]
    cluster = next((sample.facts for sample in samples.values()), {})
    facts = {"test": plan.subject.nodeid, **_constant(list(plan.arms.values()))}
    for name in ("kubernetes", "nodes"):
        if name in cluster:
            facts[name] = str(cluster[name])
    return fitted(plan.parameter, runs, facts=facts)


def _sized(sample: Sample) -> SizedRun:
    run = sample.run
    return SizedRun(size=float(sample.slot.arm), metrics=run.metrics, broken=run.broken, recording=run.recording)


def _constant(arms: Sequence[Variant]) -> dict[str, str]:
    """Return the values and parameters that all arms share."""
    first = {**arms[0].values, **arms[0].parameters}
    return {
        name: text
        for name, text in first.items()
        if all({**arm.values, **arm.parameters}.get(name) == text for arm in arms)
    }


def _line(plan: Plan, slot: Slot, samples: Mapping[Slot, Sample]) -> str:
    sample = samples[slot]
    took = sum(value for key, value in sample.run.metrics.items() if key.startswith("wall:"))
    figure = f"broken: {sample.run.broken}" if sample.run.broken else f"{took:.1f} s"
    coming = left(plan.slots, samples)
    done = f"{len(samples)} of {len(plan.slots)}"
    # A run's length grows with its size: the median of the finished ones stands for the remaining ones.
    waiting = time_left(coming, {one: each.seconds for one, each in samples.items()})
    return f"{done}, {plan.arms[slot.arm].label}: {figure}; {waiting}"
