"""The top of a page: how it ended, and the main figures of a test as tiles and on a strip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from ...analysis import figures
from ...analysis.baseline import BaselineRow
from ...analysis.phase_result import MilestoneResult, PhaseResult
from ...analysis.result import OPERATOR, TestResult
from ...analysis.run_metrics import metrics_of
from ...analysis.timeline import Timeline
from ...checks.check import headline
from ...errors import NotMeasuredError
from .. import comparison_table, format
from ..checks_table import by_verdict, left_to_sweep, sums
from ..findings_table import in_words, main_findings
from ..format import seconds
from ..run_report import how_far
from ..summary import disruptions, incident, inflation, reservation, standing, uncertain, unwaited

Tone = Literal["good", "bad", "warn", "plain"]

TONES: dict[str, Tone] = {
    "passed": "good",
    "pass": "good",
    "ok": "good",
    "improvement": "good",
    "failed": "bad",
    "timeout": "bad",
    "fail": "bad",
    "regression": "bad",
    "broken": "bad",
    "error": "bad",
    "not enforced": "plain",
    "defect": "bad",
    "waste": "warn",
    "note": "plain",
    "interrupted": "warn",
    "unfinished": "warn",
    "inconclusive": "warn",
    "not-measured": "warn",
}
"""Outcome or verdict → its style, beside its word."""


class Line(NamedTuple):
    tone: Tone
    text: str
    source: str = ""
    """Source of the check's declaration."""


def answer(test: TestResult) -> tuple[Line, ...]:
    """Return the summary of a test, the first lines of its page."""
    broke = (Line("warn", text) for text in disruptions(test))
    found = (Line(TONES[one.severity], in_words(one)) for one in main_findings(test))
    measured = (*broke, *_outcome(test), *_not_passed(test), *found, *_doubts(test))
    inflated = (Line("warn", text) for text in [*unwaited(test), *inflation(test)])
    return (*measured, *inflated, *_bottlenecks(test), *_passed(test), *_reservations(test))


def _doubts(test: TestResult) -> Iterator[Line]:
    """Yield reasons why the figures may not count. A failure that only repeats a check's line is left to that check."""
    repeated = test.failure and any(headline(check) in test.failure for check in test.checks)
    for text in standing(msgspec.structs.replace(test, failure="") if repeated else test):
        yield Line("bad" if test.error and test.error in text else "warn", text)


def _outcome(test: TestResult) -> Iterator[Line]:
    if test.scenario_outcome == "passed" and test.verdict == "passed":
        number = len(test.phases)
        phases = "1 phase" if number == 1 else f"{number} phases"
        yield Line("good", f"{phases} passed in {seconds(test.seconds)}{_sums(test)}.")
    elif test.scenario_outcome == "unfinished":
        yield Line(
            "warn", f"The recording ends after {seconds(test.seconds)}, before the run did: all up to there is here."
        )
    elif test.scenario_outcome == "passed" and test.verdict == "interrupted":
        yield Line("warn", f"The test did not end: its recording breaks off after {seconds(test.seconds)}.")
    for phase in test.phases:
        if phase.outcome not in ("passed", "unfinished"):
            yield Line(TONES[phase.outcome], _failure(phase))
    if test.scenario_outcome == "interrupted" and all(phase.outcome == "passed" for phase in test.phases):
        yield Line("warn", f"Interrupted after {seconds(test.seconds)}.")
    if test.scenario_outcome == "failed" and all(phase.outcome == "passed" for phase in test.phases):
        yield Line("bad", f"The recording failed after {seconds(test.seconds)}: {test.closed_message or test.closed}")


def _failure(phase: PhaseResult) -> str:
    missed = [f"{milestone.name}: {how_far(milestone)}" for milestone in phase.milestones if not milestone.met]
    message = (
        phase.message.strip().partition("\n")[0] or f"{phase.name}: {phase.outcome} after {seconds(phase.seconds)}"
    )
    return message + (f" ({'; '.join(missed)})" if missed else "")


def _bottlenecks(test: TestResult) -> Iterator[Line]:
    for phase in test.phases:
        if phase.bottleneck:
            yield Line("plain", f"Where the time of {phase.name} went: {phase.bottleneck}")


def _not_passed(test: TestResult) -> Iterator[Line]:
    """Yield the checks that did not pass, failed ones first: figure, bound, and where the bound is declared."""
    for check in by_verdict(test.checks):
        if check.verdict != "pass":
            word = "" if check.verdict == "fail" else f"{check.verdict}: "
            yield Line(TONES[check.verdict], f"{word}{headline(check)}", check.source)


def _sums(test: TestResult) -> str:
    return f", with {sums(test.checks).replace(' passed', ' checks passed')}" if test.checks else ""


def _passed(test: TestResult) -> Iterator[Line]:
    if test.checks and test.verdict != "passed":
        yield Line("plain", f"Checks: {sums(test.checks)}.")
    for text in left_to_sweep(test):
        yield Line("plain", text)


def _reservations(test: TestResult) -> Iterator[Line]:
    if text := reservation(test):
        yield Line("warn", text)
    for phase in test.phases:
        for found in phase.incidents:
            yield Line("warn", f"{phase.name}, {incident(found)}.")
        for text in uncertain(phase):
            yield Line("warn", f"{text}.")
    if test.profiled:
        yield Line(
            "plain", "Profilers were attached: CPU times hold what they cost, and no CPU budget is judged by them."
        )


NOT_MEASURED = "not measured"

_MERGED = 4.0
"""Milestones that are closer than this, in percent of the strip, share a marker: on a small screen they would cover
each other."""


class Against(NamedTuple):
    """A test's figures beside those of a baseline."""

    baseline: str
    """Its name."""
    rows: Sequence[BaselineRow]


class Tile(NamedTuple):
    """One figure: its label and value, and its change against the baseline, if there is one."""

    name: str
    value: str
    detail: str
    change: str = ""
    tone: Tone = "plain"


def tiles(test: TestResult, against: Against | None = None) -> tuple[Tile, ...]:
    """Return the tiles of a test; empty for one without a phase."""
    if not test.phases:
        return ()
    before = {row.key: row for row in against.rows} if against is not None else {}
    name = against.baseline if against is not None else ""

    def change(key: str) -> str:
        return _change(before[key], name) if key in before else ""

    found = [
        _ready(test, change),
        _cpu(test, change),
        _requests(test, change),
        _noop(test, change),
        _peak(test, change),
    ]
    return tuple(tile for tile in found if tile is not None)


Change = Callable[[str], str]


def _change(row: BaselineRow, name: str) -> str:
    """Return a figure's change against a baseline: ``+12.0 % against main``."""
    if row.before:
        return f"{comparison_table.ratio(row.now / row.before)} against {name}"
    return f"{'0 %' if row.now == 0 else f'{format.three(row.now)} more than 0'} against {name}"


_DEPLOY = "deploy"


def main_phase(test: TestResult) -> PhaseResult:
    """Return the phase of the tiles: deploy, which one that prepares may precede; else the first with a milestone."""
    awaited = [phase for phase in test.phases if phase.milestones]
    return next((phase for phase in awaited if phase.name == _DEPLOY), [*awaited, test.phases[0]][0])


def _ready(test: TestResult, change: Change) -> Tile | None:
    phase = main_phase(test)
    if not phase.milestones:
        return None
    milestone = _readiness(phase.milestones)
    title = "Time to Ready" if "ready" in milestone.name.lower() else f"Time to {milestone.name}"
    where = f"{milestone.name} in {phase.name}"
    if milestone.seconds is None:
        still = "not met yet" if phase.outcome == "unfinished" else "not met"
        return Tile(title, still, f"{where}: {how_far(milestone)}", tone="warn" if still == "not met yet" else "bad")
    return Tile(title, format.seconds(milestone.seconds), where, change(f"milestone:{phase.name}/{milestone.name}"))


def _readiness(milestones: Sequence[MilestoneResult]) -> MilestoneResult:
    """Return the milestone of the workload's readiness: by its name, else the last one."""
    return next((one for one in reversed(milestones) if "ready" in one.name.lower()), milestones[-1])


def _cpu(test: TestResult, change: Change) -> Tile:
    phase = main_phase(test)
    title = "Operator CPU"
    try:
        used = figures.cpu(phase, OPERATOR)
    except NotMeasuredError as error:
        return Tile(title, NOT_MEASURED, error.message)
    least = "≥ " if used.result.lower_bound else ""
    with_profiler = ", with a profiler attached" if test.profiled else ""
    detail = f"in {phase.name}, {format.three(used.result.cores)} cores on average{with_profiler}"
    return Tile(title, least + format.seconds(used.at_least), detail, change(f"cpu:{phase.name}"))


def _requests(test: TestResult, change: Change) -> Tile:
    phase = main_phase(test)
    one = "pod" if test.objects_resource == "pods" else "object"
    title = f"Requests per {one}" if test.objects else "Requests"
    metrics = metrics_of(test)
    key = next((key for kind in ("api", "client_requests") if (key := f"{kind}:{phase.name}") in metrics), "")
    if not key:
        why = "" if phase.outcome == "passed" else f": {phase.name} did not pass"
        return Tile(title, NOT_MEASURED, phase.missing.get("audit", f"by the operator in {phase.name}{why}"))
    number = metrics[key]
    value = format.three(number / test.objects) if test.objects else format.count(int(number))
    of = f" for {format.count(test.objects)} {test.objects_resource}" if test.objects else ""
    return Tile(title, value, f"{format.count(int(number))} by the operator in {phase.name}{of}", change(key))


def _noop(test: TestResult, change: Change) -> Tile | None:
    phases = [phase for phase in test.phases if phase.triggers]
    if not phases:
        return None
    title = "No-op writes"
    found = [figures.noop(phase) for phase in phases]
    triggers = sum(phase.triggers for phase in phases)
    where = f"{format.count(triggers)} trigger{'s' if triggers != 1 else ''} in {', '.join(p.name for p in phases)}"
    writes = [one.object_writes for one in found if one.object_writes is not None]
    if doubts := [why for one in found for why in one.why]:
        return Tile(title, "inconclusive" if writes else NOT_MEASURED, f"{where}: {doubts[0]}", tone="warn")
    return Tile(title, format.count(sum(writes)), where, change("noop_writes"), "warn" if sum(writes) else "good")


def _peak(test: TestResult, change: Change) -> Tile:
    title = "Peak memory"
    rows = [(row.peak_rss_bytes, phase.name) for phase in test.phases for row in phase.cpu if row.process == OPERATOR]
    if not rows:
        why = next(
            (phase.missing[key] for phase in test.phases for key in ("cpu:operator", "cpu") if key in phase.missing), ""
        )
        return Tile(title, NOT_MEASURED, why or "of the operator")
    peak = max(size for size, _ in rows)
    phase = next(name for size, name in rows if size == peak)
    return Tile(title, format.bytes_(peak), f"of the operator, reached in {phase}", change(f"rss:{phase}"))


class Marker(NamedTuple):
    """Position of one or more milestones on the strip."""

    at: float
    """Percent of its width."""
    label: str
    """``3``, ``1–2``."""
    title: str


class PhaseOnStrip(NamedTuple):
    """A phase on the strip, and the text below it."""

    name: str
    outcome: str
    seconds: float
    left: float
    width: float
    milestones: tuple[tuple[int, str, str], ...]
    """(number, name, when) of each; the number is 0 of one that was not met."""


class Strip(NamedTuple):
    phases: tuple[PhaseOnStrip, ...]
    markers: tuple[Marker, ...]


def strip(test: TestResult, timeline: Timeline | None) -> Strip:
    """Return the phases of a test on one strip; without a timeline they are placed one after the other."""
    starts, whole = _starts(test, timeline)
    phases: list[PhaseOnStrip] = []
    met: list[tuple[float, int, str]] = []
    for phase, start in zip(test.phases, starts, strict=True):
        milestones = []
        for one in phase.milestones:
            if not one.met or one.seconds is None:
                still = "not met yet" if phase.outcome == "unfinished" else "not met"
                milestones.append((0, one.name, f"{still}: {how_far(one)}"))
                continue
            number = len(met) + 1
            met.append((_percent(start + one.seconds, whole), number, f"{phase.name}: {one.name}"))
            milestones.append((number, one.name, format.seconds(one.seconds)))
        left = _percent(start, whole)
        width = max(0.0, round(_percent(start + phase.seconds, whole) - left, 3))
        phases.append(PhaseOnStrip(phase.name, phase.outcome, phase.seconds, left, width, tuple(milestones)))
    return Strip(tuple(phases), tuple(_markers(met)))


def _starts(test: TestResult, timeline: Timeline | None) -> tuple[list[float], float]:
    """Return the start of each phase and the total length, seconds, from the first phase on.

    What comes before it, the build of the operator for example, may take longer than all phases.
    """
    if timeline is not None and timeline.phases and len(timeline.phases) == len(test.phases):
        first = timeline.phases[0].start_s
        return [phase.start_s - first for phase in timeline.phases], timeline.seconds - first
    starts, at = [], 0.0
    for phase in test.phases:
        starts.append(at)
        at += phase.seconds
    return starts, at


def _percent(at: float, whole: float) -> float:
    return round(min(100.0, 100 * at / whole), 3) if whole else 0.0


def _markers(met: Sequence[tuple[float, int, str]]) -> list[Marker]:
    """Return markers from left to right; those that would overlap are merged."""
    groups: list[list[tuple[float, int, str]]] = []
    for one in sorted(met):
        if groups and one[0] - groups[-1][0][0] < _MERGED:
            groups[-1].append(one)
        else:
            groups.append([one])
    return [_marker(group) for group in groups]


def _marker(group: Sequence[tuple[float, int, str]]) -> Marker:
    numbers = sorted(number for _, number, _ in group)
    run = numbers == list(range(numbers[0], numbers[-1] + 1))
    ends = f"{numbers[0]}–{numbers[-1]}" if len(numbers) > 1 and run else ", ".join(map(str, numbers))
    return Marker(round(sum(at for at, _, _ in group) / len(group), 3), ends, ", ".join(name for *_, name in group))


def against_of(baselines: Mapping[str, Against], test: TestResult) -> Against | None:
    """Return the baseline of a test; None for a profiling pass, which is no measurement."""
    return None if test.profiled else baselines.get(test.test)
