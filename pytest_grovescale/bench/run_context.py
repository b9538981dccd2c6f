"""The context of a comparison's figures, for its page: each run's report and configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from ..analysis.analyse import analyse_run_over_time
from ..analysis.comparability import InForce, in_force
from ..analysis.comparison import VariantRun
from ..errors import RecordingError
from ..report.html import files as pages
from ..report.html.page import Background, RunLink, RunRow, ShownRun
from ..report.html.profiles import link
from .from_results import RecordedPair
from .profiled_runs import Profiled
from .store import DEPLOY, NOOP, PROFILE, RUN, Plan, Sample, Slot, Store

_PARTS = {NOOP: "no-op windows", DEPLOY: "deploy and delete", RUN: "whole runs", PROFILE: "with a profiler"}


class _Look(NamedTuple):
    """A run to be shown over time."""

    variant: str
    what: str
    recording: Path


def of_comparison(store: Store, plan: Plan, profiled: Profiled, *, page: Path) -> Background:
    """Return the context of a comparison, with links relative to its ``page``."""
    samples = store.samples()
    measured = {slot: sample for slot, sample in samples.items() if slot.part in plan.comparisons}
    shown = [
        _Look(plan.arms[arm].label, _what(plan, slot), store.folder / sample.run.recording)
        for arm in plan.arms
        for slot, sample in _telling(arm, samples)
    ]
    return _background(
        profiled,
        in_force(*([sample.in_force for slot, sample in measured.items() if slot.arm == arm] for arm in plan.arms)),
        [row for part in _PARTS for row in _rows(_PARTS[part], _links(part, samples, store.folder, page))],
        shown,
        page=page,
    )


def of_recordings(
    pairs: Sequence[RecordedPair], names: tuple[str, str], profiled: Profiled, *, page: Path
) -> Background:
    """Return the context of runs that were recorded before."""
    links = [
        (number, _link(pair.a.run, Path(), page), _link(pair.b.run, Path(), page)) for number, pair in enumerate(pairs)
    ]
    sides = [pair.a.test for pair in pairs], [pair.b.test for pair in pairs]
    last = pairs[-1]
    return _background(
        profiled,
        in_force(*([test.parameters | test.cluster for test in side] for side in sides)),
        list(_rows("recorded", links)),
        [
            _Look(name, f"recorded, pair {len(pairs)}", Path(one.run.recording))
            for name, one in zip(names, last, strict=True)
            if one.run.recording
        ],
        page=page,
    )


def _background(
    profiled: Profiled,
    found: InForce,
    rows: Sequence[RunRow],
    looks: Iterable[_Look],
    *,
    page: Path,
) -> Background:
    shown: list[ShownRun] = []
    not_shown: list[str] = []
    for look in looks:
        try:
            shown.append(_shown(look, page))
        except RecordingError as error:
            not_shown.append(f"No run of {look.variant} is shown: {error.message} → {error.next_step}")
    return Background(
        profiles=profiled.pairs,
        not_profiled=profiled.compared.missing,
        in_force=found,
        runs=tuple(rows),
        shown=tuple(shown),
        not_shown=tuple(not_shown),
    )


def _telling(arm: str, samples: Mapping[Slot, Sample]) -> list[tuple[Slot, Sample]]:
    """Return the most informative run of a variant, if any: the last one that deploys and works.

    Prefers the profiled run, in its measuring pass: it had the machine to itself. The recording of a parallel run does
    not show the effect of the other variant.
    """
    own = [(slot, sample) for slot, sample in samples.items() if slot.arm == arm and sample.run.recording]
    return sorted(own, key=_worth)[-1:]


def _worth(one: tuple[Slot, Sample]) -> tuple[bool, bool, bool, int]:
    slot, sample = one
    return slot.part != NOOP, not sample.run.broken, slot.part == PROFILE, slot.round


def _what(plan: Plan, slot: Slot) -> str:
    """Return a description of the run that is shown."""
    if slot.part == PROFILE:
        return "the run that was profiled, in its pass without a profiler"
    beside = ", beside the other variant's" if plan.comparisons[slot.part].parallel else ""
    return f"{_PARTS[slot.part]}, pair {slot.round + 1}{beside}"


def _shown(look: _Look, page: Path) -> ShownRun:
    """Return a run over time. Raises RecordingError when it cannot be read."""
    folder = look.recording.parents[1]
    run = analyse_run_over_time(folder)
    name = look.recording.relative_to(folder).as_posix()
    test = next((test for test in run.result.tests if test.recording == name), None)
    if test is None:
        raise RecordingError(
            f"{name} cannot be read: {'; '.join(run.result.warnings)}", next_step="See the other runs' reports."
        )
    return ShownRun(
        variant=look.variant,
        what=look.what,
        test=test,
        timeline=run.timelines[name],
        page=_page_of(look.recording, page),
    )


def _links(
    part: str, samples: Mapping[Slot, Sample], folder: Path, page: Path
) -> list[tuple[int, RunLink | None, RunLink | None]]:
    """Return the links to the runs of each round of a part."""
    runs = {(slot.round, slot.arm): _link(one.run, folder, page) for slot, one in samples.items() if slot.part == part}
    return [(number, runs.get((number, "a")), runs.get((number, "b"))) for number in sorted({of for of, _ in runs})]


def _link(run: VariantRun, folder: Path, page: Path) -> RunLink:
    return RunLink(page=_page_of(folder / run.recording, page) if run.recording else "", broken=run.broken)


def _page_of(recording: Path, page: Path) -> str:
    """Return the link to a run's page from another page; empty where it has none."""
    folder = recording.parents[1]
    return link(pages.NAME, pages.seen_from(page, folder)) if (folder / pages.NAME).is_file() else ""


def _rows(part: str, links: Iterable[tuple[int, RunLink | None, RunLink | None]]) -> Iterator[RunRow]:
    """Yield a row for each pair of runs; the windows of one process are one run."""
    for (a, b), group in groupby(links, key=lambda one: one[1:]):
        numbers = [number + 1 for number, *_ in group]
        pairs = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
        yield RunRow(part=part, pairs=pairs, a=a, b=b)
