"""``grovescale selftest``: how well comparisons tell slower from equal, and checks and rules a defect from none."""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import msgspec

from .. import resources
from ..analysis.contention import limit_of
from ..analysis.run_metrics import COUNTS, units_of
from ..atomic_write import json_text
from ..bench import target_test
from ..bench.command_context import say_files
from ..bench.screen import Screen
from ..bench.store import RUN
from ..errors import ExitCode, UsageError
from ..report import document as report
from ..report.document import Block, Column, Gap, Line, Table
from ..report.format import count, percent
from . import matrix, matrix_runs
from .matrix import CLEAN, Asked, Cell
from .matrix_runs import REFERENCE, SCENARIO, TEST, Runs
from .power import (
    COMPARISONS,
    RECORDED,
    SEED,
    Drawn,
    Noise,
    NoiseBlock,
    PartPower,
    Power,
    Share,
    from_comparisons,
    power,
    read,
    spread,
)
from .power import write as write_noise

Write = Callable[[str], None]

DETECTED = 0.95
"""Minimum share of the comparisons with a known defect of 10 % that must detect it."""
FALSE_ALARMS = 0.03
"""Maximum share of the comparisons of an operator with itself that may raise an alarm on any gated metric."""


SCHEMA_VERSION = 1


class PowerFile(msgspec.Struct, frozen=True, kw_only=True):
    """Output of ``grovescale selftest power --json``."""

    schema_version: int = SCHEMA_VERSION
    holds: bool
    """Whether all shares meet their bounds."""
    detected_min: float = DETECTED
    false_alarms_max: float = FALSE_ALARMS
    power: Power


def selftest_power(
    path: Path | None,
    *,
    json: bool = False,
    write: Write,
    comparisons: int = COMPARISONS,
    seed: int = SEED,
    pairs: int | None = None,
    max_contention: str = "",
) -> int:
    """Print the shares; return PASSED when all recorded ones meet their bounds, else FAILED."""
    recorded = read(path or RECORDED)
    found = power(recorded, comparisons=comparisons, seed=seed, pairs=pairs, max_contention=limit_of(max_contention))
    document = PowerFile(holds=good_enough(found), power=found)
    write(json_text(document) if json else report.text(blocks(found, recorded)).rstrip("\n"))
    return ExitCode.PASSED if good_enough(found) else ExitCode.FAILED


def selftest_noise(folders: Sequence[Path], path: Path, *, how: str, write: Write) -> int:
    """Collect the pairs of finished comparisons into one file."""
    gathered = from_comparisons(folders, how=how)
    write_noise(gathered, path)
    write(f"wrote {path}: {len(gathered.blocks)} comparisons, {sum(len(b.pairs) for b in gathered.blocks)} pairs")
    return ExitCode.PASSED


def good_enough(found: Power) -> bool:
    """Return whether every recorded kind of comparison meets its bound; False when nothing is recorded."""
    slower = [drawn.regression.share >= DETECTED for part in found.parts for drawn in part.slower]
    quiet = found.false_alarms is not None and found.false_alarms <= FALSE_ALARMS
    return quiet and bool(slower) and all(slower)


def blocks(found: Power, recorded: Noise) -> Iterator[Block]:
    """Yield the shares as tables, and the source of the noise."""
    yield Line(f"{count(found.comparisons)} comparisons of each kind drawn from recorded noise (seed {found.seed})")
    machine = recorded.machine
    yield Line(f"{machine.cores} × {machine.cpu}, Linux {machine.kernel}: {recorded.how}")
    for part in found.parts:
        yield from _part(part)
        yield from _contended(part)
        yield from _spreads(part, [block for block in recorded.blocks if block.part == part.part])
    yield Gap()
    verdict = "as they should be" if good_enough(found) else "NOT as they should be"
    yield Line(
        f"Shares are {verdict}: a recorded defect called in at least {percent(DETECTED)},"
        f" an alarm on any gated metric between equals in at most {percent(FALSE_ALARMS)}."
    )


def _part(part: PartPower) -> Iterator[Block]:
    yield Gap()
    looks = " and ".join(str(look) for look in part.looks)
    yield Line(f"{part.part}: {part.pairs} pairs, interim analyses after {looks}; gated on {', '.join(part.gated)}")
    columns = [
        Column("what is compared", wraps=True),
        Column("comparisons", figures=True),
        Column("pairs", figures=True),
        Column("regression", figures=True),
        Column("better", figures=True),
        Column("ok", figures=True),
        Column("stopped early", figures=True),
    ]
    kinds = [part.alike, *part.slower] if part.alike is not None else list(part.slower)
    yield Table(columns, [_row(drawn) for drawn in kinds if drawn is not None])
    if part.alike is None:
        yield Line("No comparison of an operator with itself was recorded.")
    if not part.slower:
        yield Line("No comparison with a known defect was recorded.")


def _contended(part: PartPower) -> Iterator[Block]:
    """Yield how many recorded pairs are contended, and how often resampled comparisons repeat one."""
    kinds = [part.alike, *part.slower] if part.alike is not None else list(part.slower)
    for drawn in kinds:
        if drawn is not None and drawn.contended_pairs:
            then = f"a comparison discards and repeats {drawn.repeats:.1f} on average"
            yield Line(
                f"{drawn.differs or 'an operator with itself'}: {drawn.contended_pairs} of {drawn.pairs} recorded pairs"
                f" are contended; {'counts do not mind' if part.part == RUN else then}"
            )


def _spreads(part: PartPower, blocks: Sequence[NoiseBlock]) -> Iterator[Block]:
    """Yield how much the CPU times behind the shares vary."""
    timed = [key for key in part.gated if units_of(key) not in COUNTS]
    found = [one for key in timed if (one := spread(blocks, key)) is not None]
    if not found:
        return
    columns = [
        Column("noise recorded"),
        Column("runs of one variant (CV)", figures=True),
        Column("ratio of a pair (standard deviation)", figures=True),
    ]
    yield Table(columns, [[one.metric, _range(one.runs), _range(one.ratios)] for one in found])


def _range(values: Sequence[float]) -> str:
    """Return the median of sorted values, and their range."""
    if len(values) == 1:
        return percent(values[0])
    return f"{percent(statistics.median(values))} ({percent(values[0])} to {percent(values[-1])})"


def _row(drawn: Drawn) -> list[str]:
    return [
        drawn.differs or "an operator with itself",
        count(drawn.blocks),
        count(drawn.pairs),
        _interval(drawn.regression),
        percent(drawn.improvement.share),
        percent(drawn.ok.share),
        percent(drawn.stopped_early.share),
    ]


def _interval(share: Share) -> str:
    """Return a share to a hundredth of a percent (one in ten thousand), with its interval."""
    return f"{share.share:.2%} ({share.low:.2%} to {share.high:.2%})".replace("%", " %")


def selftest_defects(
    reports: Path,
    *,
    only: Sequence[str],
    resume: str | None,
    again: bool,
    json: bool = False,
    stream: TextIO,
    write: Write,
    color: bool,
) -> int:
    """Run the bundled operator clean and with each defect, and judge every run by every check.

    ``again``: a defect with an unexpected cell is measured a second time, and that result counts. Returns PASSED when
    all cells match the matrix, else FAILED. Raises UsageError for an unknown defect in ``only``.
    """
    expected = matrix.read()
    if unknown := sorted({*only} - {*expected.defects, CLEAN}):
        raise UsageError(f"no defect {', '.join(unknown)}", next_step=f"There are: {', '.join(expected.defects)}.")
    asked = matrix.asked(expected)
    folder = matrix_runs.folder_of(reports, resume)
    scenario = target_test.find(f"{resources.find(target_test.SCENARIOS, SCENARIO)}::{TEST}")
    screen = Screen(stream)
    screen.say(f"selftest in {os.path.relpath(folder)}; after an interruption: grovescale selftest defects --resume")
    runs = Runs(folder, expected, scenario)
    names = [name for name in (CLEAN, *expected.defects) if not only or name in only]
    try:
        cells = _cells(runs, asked, names, screen)
        wrong = [name for name in names if any(cell.defect == name and not cell.holds for cell in cells)]
        if again and wrong:
            screen.say(f"measured a second time, which counts: {', '.join(wrong)}")
            for name in wrong:
                runs.forget(name)
            found = [cell for cell in cells if cell.defect not in wrong] + _cells(runs, asked, wrong, screen)
            cells = sorted(found, key=lambda cell: names.index(cell.defect))
    finally:
        screen.close()
    shown = report.text(matrix.blocks(expected, cells), width=matrix.WIDTH, color=color).rstrip("\n")
    written = matrix.write_files(folder, expected, cells)
    write(json_text(matrix.document(cells)) if json else shown)
    say_files(screen, written)
    return ExitCode.PASSED if all(cell.holds for cell in cells) else ExitCode.FAILED


def _cells(runs: Runs, asked: Mapping[str, Sequence[Asked]], names: Sequence[str], screen: Screen) -> list[Cell]:
    """Return the results of all checks for these defects."""
    cells: list[Cell] = []
    with contextlib.closing(matrix_runs.make(runs, [REFERENCE, *names], screen)) as made:
        _, clean = next(made)
        checks = matrix.bounded(asked, clean)
        for name, measured in made:
            cells += matrix.cells(runs.matrix, checks, name, measured)
            screen.say(_line(name, cells, names))
    return cells + [matrix_runs.growth_cell(runs, name, screen) for name in names]


def _line(name: str, cells: Sequence[Cell], names: Sequence[str]) -> str:
    wrong = [cell.check for cell in cells if cell.defect == name and not cell.holds]
    said = f"differs in {', '.join(wrong)}" if wrong else "as expected"
    return f"{names.index(name) + 1} of {len(names)}, {name}: {said}"
