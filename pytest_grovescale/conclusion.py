"""The end of a run: its result, its page, and what the terminal says of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from .analysis.analyse import RECORDINGS, analyse_run_over_time
from .analysis.baseline import BaselineRow, rows, same_backend, usable
from .analysis.likeness import backend_of
from .analysis.profiles.attach import profiles_in
from .analysis.result import Result
from .analysis.timeline import Timeline
from .bench.baselines import Baselines
from .checks.judge import judge_run
from .errors import GrovescaleError, RecordingError
from .options import Settings
from .recording.journal import wait_closed
from .report import jsonfile, markdown, terminal
from .report.tables import terminal_width

UNJUDGED = "grovescale.unjudged"
"""User property of a profiled pass that passed although something in its test did not hold: what it was."""


UNPROFILED = "grovescale.unprofiled"
"""User property of a test whose phases ask for profilers, and that had no pass for them: which phases."""


def conclude(folder: Path, settings: Settings, baselines: Baselines, reporter: pytest.TerminalReporter) -> None:
    """Write result.json and report.html for all recordings of a run and print their tables.

    Those of xdist's workers, too, and of killed ones: their recorders are waited for, which close them by themselves.
    """
    wait_closed((folder / RECORDINGS).glob("*.jsonl"))
    try:
        run = analyse_run_over_time(folder)
        result = judge_run(
            run.result,
            lambda test: baselines_of(baselines, test.test, backend_of(test)),
            run.metrics_of,
            profiles_in(folder),
        )
    except RecordingError as error:
        reporter.write_line(f"grovescale: no result: {error}", red=True)
        return
    jsonfile.write(result, folder / "result.json")
    _show(result, reporter)
    beside: dict[str, tuple[str, list[BaselineRow]]] = {}
    with _shown_on(reporter):
        beside = _compare(settings.compare, baselines, result, reporter)
        if settings.save:
            reporter.write_line(f"grovescale: saved as {_shown(baselines.save(settings.save, result))}")
    reporter.write_line(f"grovescale: recordings, logs and result.json are in {_shown(folder)}")
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(markdown.summary(result))
    _write_page(folder, result, run.timelines, beside, reporter)


def _show(result: Result, reporter: pytest.TerminalReporter) -> None:
    """Show each test as the verbosity asks: one line with ``-q``, all tables with ``-v``."""
    writer = reporter.config.get_terminal_writer()
    width, color = terminal_width(writer.fullwidth), writer.hasmarkup
    verbosity = reporter.config.get_verbosity()
    for test in result.tests:
        if verbosity < 0:
            reporter.write_line(terminal.render_line(test))
            continue
        render = terminal.render_test if verbosity > 0 else terminal.render_summary
        reporter.section(f"grovescale: {test.test}")
        reporter.write_line(render(test, width=width, color=color))


def _write_page(
    folder: Path,
    result: Result,
    timelines: dict[str, Timeline],
    beside: Mapping[str, tuple[str, list[BaselineRow]]],
    reporter: pytest.TerminalReporter,
) -> None:
    # Not at the top: a session without scale tests need not load the template engine.
    from .report.html import files
    from .report.html.tiles import Against

    with _shown_on(reporter):
        against = {test: Against(name, found) for test, (name, found) in beside.items()}
        page = files.write_run(folder, result, timelines, baselines=against)
        reporter.write_line(f"grovescale: all of it as a page: {_shown(page)}")


def baselines_of(baselines: Baselines, nodeid: str, backend: str) -> Callable[[str], Sequence[Mapping[str, float]]]:
    """Return what checks ask for a baseline's figures: of one test on a backend, by the baseline's name."""
    return lambda name: baselines.runs(name, nodeid, backend)


def _compare(
    name: str, baselines: Baselines, result: Result, reporter: pytest.TerminalReporter
) -> dict[str, tuple[str, list[BaselineRow]]]:
    """Print each test's figures beside the baseline's; return them: test → (baseline, rows)."""
    if not name:
        return {}
    shown: dict[str, tuple[str, list[BaselineRow]]] = {}
    # Brings in numpy and scipy, which most runs have no use for.
    from .report import baseline_table

    baseline = baselines.find(name)
    for nodeid, test in usable(result).items():
        before = baseline.tests.get(nodeid) if baseline is not None else None
        if baseline is None or before is None:
            reporter.write_line(f"grovescale: there is no baseline {name!r} of {nodeid}", yellow=True)
            continue
        here = baselines.is_from_here(baseline)
        backend = "" if same_backend(before, backend_of(test)) else before.backend
        found = rows(before, test, same_machine=here and not backend)
        reporter.section(f"grovescale: {nodeid}")
        reporter.write_line(baseline_table.render(baseline, found, same_machine=here, other_backend=backend))
        shown[nodeid] = (name, found)
    return shown


def tell_unjudged(reporter: pytest.TerminalReporter) -> None:
    """Say what did not hold in passes with profilers, of all workers."""
    for nodeid, value in _noted(reporter, UNJUDGED):
        reporter.write_line(f"grovescale: {nodeid}: profilers were attached, so this was not judged: {value}")


def tell_unprofiled(reporter: pytest.TerminalReporter) -> None:
    """Say, once, that phases ask for profilers and there was no pass for them, of all workers."""
    noted = [f"{nodeid} ({phases})" for nodeid, phases in _noted(reporter, UNPROFILED)]
    if noted:
        reporter.write_line(
            f"grovescale: not profiled, for want of a pass with profilers: {'; '.join(noted)}. Ask for one:"
            ' --grovescale-profile=auto, or @pytest.mark.grovescale(profile="auto")'
        )


def _noted(reporter: pytest.TerminalReporter, wanted: str) -> Iterator[tuple[str, str]]:
    """Yield the test and the value of a property that tests were given while they ran."""
    for outcome in ("passed", "failed"):
        for report in reporter.getreports(outcome):
            for name, value in report.user_properties:
                if name == wanted and report.when == "call":
                    yield report.nodeid, str(value)


@contextlib.contextmanager
def _shown_on(reporter: pytest.TerminalReporter) -> Iterator[None]:
    """Show our own errors at the end of a run, when there is no test left to fail."""
    try:
        yield
    except GrovescaleError as error:
        reporter.write_line(f"grovescale: {error}", red=True)


def _shown(path: Path) -> str:
    return os.path.relpath(path)
