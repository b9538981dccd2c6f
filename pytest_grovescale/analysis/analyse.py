"""From a recording to a result: all of a test, each of its phases, and all tests of a run."""

from __future__ import annotations

import contextlib
import gc
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from ..errors import RecordingError
from ..recording import journal
from ..recording.evaluation import count_leaves
from ..recording.records import STACKS, STACKS_FIRST, STACKS_LEFT, AnyRecord, Closed, CpuRead, Lines
from .blocked_workers import read_dump, stack_groups
from .cycles import cycles_of
from .disruptions import (
    warnings,
    watch_results,
)
from .findings import with_findings
from .metrics.history import MetricsHistory
from .metrics.summary import summaries
from .milestones import floors_of, watch_lag
from .phase_analysis import indexes_of, iso, phase_result
from .phase_result import Outcome, PodPlaces, StrayPod
from .profiles.phase_profiles import with_tables
from .recording_index import Contents
from .result import Evidence, RecorderCost, Result, TestResult, ended_as, last, numbered, verdict_of, worst_of
from .timeline import Timeline, timeline_of

NODE = "spec.nodeName"
PODS = "pods"
STRAYS_SHOWN = 10


def pod_places(contents: Contents) -> PodPlaces | None:
    """Return the placement of pods by the watches; None where every node is simulated, or no watch shows it."""
    made = contents.opened.simulated_nodes
    with_nodes = [
        story
        for story in contents.watches.values()
        if _shows_nodes(story.opened.spec.resource, story.opened.spec.fields)
    ]
    if not made or not with_nodes:
        return None
    nodes = dict(_nodes(contents))
    strays = [StrayPod(pod=f"{pod[0]}/{pod[1]}", node=node) for pod, node in nodes.items() if not simulated(node, made)]
    return PodPlaces(simulated=len(nodes) - len(strays), elsewhere=len(strays), strays=tuple(strays[:STRAYS_SHOWN]))


def simulated(node: str, made: Mapping[str, int]) -> bool:
    """Return whether a node is one of the run's simulated nodes: ``<prefix>-<n>``, n below the prefix's number."""
    prefix, _, number = node.rpartition("-")
    return number.isdecimal() and str(int(number)) == number and int(number) < made.get(prefix, 0)


def _shows_nodes(resource: str, fields: tuple[str, ...]) -> bool:
    return resource == PODS and NODE in fields


def _nodes(contents: Contents) -> Iterator[tuple[tuple[str, str, str], str]]:
    """Yield ((namespace, name, uid), node) of every pod that was ever bound."""
    for story in contents.watches.values():
        if not _shows_nodes(story.opened.spec.resource, story.opened.spec.fields):
            continue
        for (namespace, name), events in story.objects.items():
            for event in events:
                if node := event.fields.get(NODE):
                    yield (namespace, name, event.uid), str(node)


RECORDINGS = "recordings"
"""Folder in a run's folder that holds its recordings, one for each test."""

RECORDER = "recorder"

TURN_LOST = "turn-lost"
"""Label of the harness's mark that others may have used the cluster during the test; its detail says why."""

OPERATOR_START = "operator-start"
"""Label of the mark that the harness sets around the operator's start."""

_WORST: tuple[Outcome, ...] = ("failed", "timeout", "interrupted", "unfinished", "passed")

T = TypeVar("T", bound=msgspec.Struct)

_API = (
    "apis?|readyz|livez|healthz|metrics|openapi|openid|version|debug|logs|configz|statusz|flagz|scale"
    "|spec|status|metadata|data|stringData|proc|sys|dev"
)
"""First parts of paths that are not local files: those of the API server, JSON pointers, the kernel's."""

_PATH = re.compile(
    r'(?P<label>[{,]\w+="[^"]*")'
    rf"|(?<![\w.~/:\]-])/(?!(?:{_API})(?:/|\b))(?:[\w.@+~-]+/)+(?=[\w.@+~-])"
)
"""A local file, or a label of a series: what that says is the operator's."""


class RunOverTime(NamedTuple):
    """The result of a run, with the recording behind each test, by `TestResult.recording`."""

    result: Result
    timelines: dict[str, Timeline]
    metrics: dict[str, MetricsHistory]

    def metrics_of(self, test: TestResult) -> MetricsHistory:
        """Return a test's scrapes."""
        return self.metrics[test.recording]


def analyse(records: Iterable[AnyRecord], *, recording: str = "") -> TestResult:
    """Return the result of one recording, whole or cut after any record.

    ``recording`` is its path relative to the run's folder, taken into the result as it is. Raises RecordingError
    when there are no records at all.
    """
    return result_of(contents_of(records), recording=recording)


@contextlib.contextmanager
def _rarely_collected() -> Iterator[None]:
    """Collect garbage rarely: what an analysis makes, it keeps to its end, and looking for garbage takes a quarter."""
    usual = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


@_rarely_collected()
def contents_of(records: Iterable[AnyRecord]) -> Contents:
    """Return what a recording holds, sorted by subject: results and scrapes are read from there."""
    contents = Contents()
    for record in records:
        contents.feed(record)
    return contents


@_rarely_collected()
def result_of(contents: Contents, *, recording: str = "", findings: bool = True) -> TestResult:
    """Return the result of what a recording holds so far; may be called again when more was fed.

    ``findings``: False leaves them out, a third of the work.
    """
    opened = contents.opened
    indexes = indexes_of(contents)
    phases = tuple(phase_result(contents, phase, indexes) for phase in contents.phases)
    objects, resource = _largest_count(contents)
    ended, message = ended_as(contents.ended)
    outcome = _outcome([phase.outcome for phase in phases], contents.closed)
    result = TestResult(
        test=opened.test,
        recording=recording,
        run=opened.run,
        version=opened.version,
        scenario_outcome=outcome,
        started=iso(opened.at),
        seconds=(contents.last_at - opened.at) / 1e9,
        machine=opened.machine,
        parameters=opened.parameters,
        command=opened.command,
        cluster=opened.cluster,
        identities=opened.identities,
        audited=opened.audited,
        ended=ended,
        error=message if ended == "error" else "",
        failure=message if ended in ("failed", "inconclusive") else "",
        contention_limit=opened.contention_limit,
        disturbed=next((mark.detail for mark in contents.marks if mark.label == TURN_LOST), ""),
        closed=contents.closed.reason if contents.closed is not None else "",
        closed_message=contents.closed.message if contents.closed is not None else "",
        profiled=opened.profiled,
        declared=tuple(contents.checks),
        findings_off=opened.findings_off,
        cycles=cycles_of(contents),
        floors=floors_of(contents),
        phases=phases,
        watches=watch_results(contents),
        watch_lag=watch_lag(contents, indexes.log) if indexes.log is not None else None,
        recorder=_recorder_cost(contents),
        metrics=summaries(contents.metrics),
        operator_start_s=_operator_start(contents),
        pod_places=pod_places(contents),
        warnings=warnings(contents),
        evidence=tuple(
            _evidence(lines, contents, passed=outcome == "passed")
            for lines in contents.lines
            # They are for findings.
            if not lines.source.startswith((STACKS_FIRST, STACKS_LEFT))
        ),
        objects=objects,
        objects_resource=resource,
    )
    result = msgspec.structs.replace(result, verdict=verdict_of(result))
    return without_paths(with_findings(contents, result, indexes.faults, rules=findings))


def analyse_run(folder: Path) -> Result:
    """Return the result of a run from its folder: all its recordings, of every xdist worker and killed ones too,
    and its profiles' tables, whose folded and speedscope files are written where they are missing.

    A recording that cannot be read becomes a warning. Raises RecordingError when there is none that can.
    """
    return analyse_run_over_time(folder).result


def analyse_run_over_time(folder: Path) -> RunOverTime:
    """Return the result of a run as `analyse_run` does, with the recording behind each test."""
    tests: list[TestResult] = []
    problems: list[str] = []
    timelines: dict[str, Timeline] = {}
    metrics: dict[str, MetricsHistory] = {}
    for path in journal.recordings_in(folder / RECORDINGS):
        name = path.relative_to(folder).as_posix()
        try:
            contents = contents_of(_sound_part(path, problems))
            tests.append(result_of(contents, recording=name))
        except RecordingError as error:
            problems.append(f"{name}: {error.message}")
        else:
            timelines[name] = timeline_of(contents, tests[-1])
            metrics[name] = contents.metrics
    return RunOverTime(with_tables(merge(tests, problems), folder), timelines, metrics)


def _sound_part(path: Path, problems: list[str]) -> Iterator[AnyRecord]:
    """Yield the records up to a damaged one, which becomes a problem; the rest of such a file cannot be trusted."""
    records = journal.read(path)
    read = 0
    try:
        for record in records:
            read += 1
            yield record
    except RecordingError as error:
        if not read:
            raise
        problems.append(f"{error.message}; the {read} records before it were analysed")


def merge(tests: Sequence[TestResult], problems: Sequence[str] = ()) -> Result:
    """Return one result of all tests of a run, in the order in which they started."""
    if not tests:
        raise RecordingError(
            "the run has no recording that can be read" + "".join(f"\n  {problem}" for problem in problems),
            next_step="Give the folder of a run, which holds recordings/*.jsonl.zst.",
        )
    ordered = numbered(tests)
    machines = {test.machine.fingerprint: test.machine for test in ordered}
    return Result(
        run=ordered[0].run,
        version=ordered[0].version,
        machine=ordered[0].machine if len(machines) == 1 else None,
        verdict=worst_of(test.verdict for test in last(ordered)),
        scenario_outcome=_worst(test.scenario_outcome for test in last(ordered)),
        started=ordered[0].started,
        tests=tuple(ordered),
        warnings=tuple(problems),
    )


def _evidence(lines_read: Lines, contents: Contents, *, passed: bool) -> Evidence:
    """Return lines of the recording as evidence; a dump's stacks as groups.

    ``passed``: of a dump, keep only its own remarks (lines after a ``#``); the dump's lines help only to analyse a
    failure.
    """
    lines = tuple(lines_read.lines)
    stacks = stack_groups(read_dump(lines)) if lines_read.source.startswith(STACKS) else ()
    if passed and lines_read.source.startswith(STACKS):
        lines = tuple(line for line in lines if line.startswith("#"))
    return Evidence(source=lines_read.source, phase=contents.phase_before(lines_read.at), lines=lines, stacks=stacks)


def _outcome(outcomes: Sequence[Outcome], closed: Closed | None) -> Outcome:
    """Return the worst outcome of a recording's phases, and of how its recorder ended; no phases are no pass."""
    ends: dict[str, Outcome] = {
        "stopped": "passed",
        "interrupted": "interrupted",
        "controller-gone": "interrupted",
    }
    return _worst(
        [*(outcomes or ["unfinished"]), "unfinished" if closed is None else ends.get(closed.reason, "failed")]
    )


def _worst(outcomes: Iterable[Outcome]) -> Outcome:
    present = set(outcomes)
    return next((outcome for outcome in _WORST if outcome in present), "passed")


def _recorder_cost(contents: Contents) -> RecorderCost | None:
    """Return the recorder's own cost, from its first read to its last, next to all other processes."""
    used = {process: _cpu_seconds(reads) for process, reads in contents.reads.items()}
    reads = contents.reads.get(RECORDER)
    if not reads:
        return None
    whole = sum(used.values())
    return RecorderCost(
        cpu_s=used[RECORDER],
        share=used[RECORDER] / whole if len(used) > 1 and whole > 0 else None,
        peak_rss_bytes=max(max(read.peak_rss_bytes, read.rss_bytes) for read in reads),
    )


def _cpu_seconds(reads: Sequence[CpuRead]) -> float:
    """Sum what each pid used from its first read to its last."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for read in reads:
        first.setdefault(read.pid, read.cpu_ns)
        last[read.pid] = read.cpu_ns
    return sum(last[pid] - first[pid] for pid in last) / 1e9


def _operator_start(contents: Contents) -> float | None:
    """Return the duration of the operator's first start, s."""
    marks = [mark for mark in contents.marks if mark.label == OPERATOR_START]
    began = next((mark.at for mark in marks if mark.state == "begin"), None)
    ready = next((mark.at for mark in marks if mark.state == "end"), None)
    return (ready - began) / 1e9 if began is not None and ready is not None else None


def _largest_count(contents: Contents) -> tuple[int | None, str]:
    """Return the largest number that a milestone counts objects up to, and the resource it counts.

    Of several as large that of the deployment: what is prepared for it is not what is tested.
    """
    counts = [
        (count.n, phase.name == "deploy", count.watch.resource)
        for phase in contents.phases
        for declared in phase.declared.values()
        for count in count_leaves(declared.condition)
        if not count.name and count.n > 0
    ]
    if not counts:
        return None, ""
    largest, _, resource = max(counts)
    return largest, resource


def hide(text: str) -> str:
    """Return the text with each absolute file path reduced to its last part: ``…/operator.log``."""
    return _PATH.sub(lambda found: found["label"] or "…/", text) if "/" in text else text


def without_paths(result: T) -> T:
    """Return a result whose texts contain no absolute file paths."""
    return msgspec.convert(_hidden(msgspec.to_builtins(result)), type(result))


def _hidden(value: Any) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        return {key: _hidden(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(part) for part in value]
    return value
