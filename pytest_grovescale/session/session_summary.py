"""The end of a run: its result files, its page, and its terminal summary."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ..analysis.analyse import RECORDINGS, analyse_run_over_time
from ..analysis.baseline import BaselineRow, rows, same_backend, usable
from ..analysis.comparability import backend_of
from ..analysis.profiles.phase_profiles import profiles_in
from ..analysis.result import Result
from ..analysis.timeline import Timeline
from ..bench import history
from ..bench.baselines import Baselines
from ..checks.judge import judge_run, without_findings
from ..errors import GrovescaleError, RecordingError
from ..options import Settings
from ..recording.journal import recordings_in, wait_closed
from ..report import result_file, run_report
from ..report.document import terminal_width
from ..report.format import encodable
from ..report.pull_request import annotations_of
from ..storage import explained

UNJUDGED = "grovescale.unjudged"
"""User property of a profiling pass that passed despite a failed expectation in its test: that expectation."""


UNPROFILED = "grovescale.unprofiled"
"""User property of a test whose phases request profilers but that had no profiling pass: those phases."""


def conclude(
    folder: Path, settings: Settings, baselines: Baselines, root: Path, reporter: pytest.TerminalReporter | None
) -> list[str]:
    """Print the tables of all recordings of a run, then write result.json, report.html and other requested files.

    Includes recordings of xdist's workers and of killed ones, whose recorders close them: they are waited for. Printing
    and writing are independent: a closed terminal costs no file, and a file that cannot be written costs neither a
    table nor the other files. ``root``: the project's folder; ``reporter``: None where nothing can be shown. Returns
    the files that could not be written, with the reasons, which were shown, too.
    """
    screen = _Screen(reporter)
    wait_closed(recordings_in(folder / RECORDINGS))
    try:
        run = analyse_run_over_time(folder)
        result = judge_run(
            run.result,
            lambda test: baselines_of(baselines, test.test, backend_of(test)),
            run.metrics_of,
            profiles_in(folder),
        )
        if settings.findings == "off":
            result = without_findings(result)
    except RecordingError as error:
        screen.line(f"grovescale: no result: {error}", red=True)
        return [f"no result: {error}"]
    _show(result, screen)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for one in annotations_of(result, screen.root):
            screen.line(one)
    beside: dict[str, tuple[str, list[BaselineRow]]] = {}
    try:
        beside = _compare(settings.compare, baselines, result, screen)
    except GrovescaleError as error:
        screen.line(f"grovescale: {error}", red=True)
    said: list[str] = []
    failed: list[str] = []
    for write in _files_of(folder, settings, baselines, root, result, run.timelines, beside):
        try:
            said.append(write())
        except GrovescaleError as error:
            failed.append(str(error))
        except OSError as error:
            failed.append(str(explained(error, settings.reports) or error))
    for text in filter(None, said):
        screen.line(f"grovescale: {text}")
    for text in failed:
        screen.line(f"grovescale: {text}", red=True)
    return failed


def _files_of(
    folder: Path,
    settings: Settings,
    baselines: Baselines,
    root: Path,
    result: Result,
    timelines: dict[str, Timeline],
    beside: Mapping[str, tuple[str, list[BaselineRow]]],
) -> Iterator[Callable[[], str]]:
    """Yield a writer for each file of a finished run, the most important first; it returns the message to show."""

    def write_result() -> str:
        result_file.write(result, folder / result_file.NAME)
        return f"recordings, logs and result.json are in {_shown(folder)}"

    def save() -> str:
        return f"saved as {_shown(baselines.save(settings.save, result))}"

    def add_to_history() -> str:
        assert settings.history is not None
        file = history.save(settings.history, result, project=root)
        return f"added to the history: {_shown(file)}" if file is not None else "no test of it belongs in the history"

    def write_summary() -> str:
        # The runner's file: other steps append to it, too.
        with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as file:
            file.write(run_report.render_markdown(result))
        return ""

    def write_page() -> str:
        # Not at the top: a session without scale tests need not load the template engine.
        from ..report.html import files
        from ..report.html.tiles import Against

        against = {test: Against(name, found) for test, (name, found) in beside.items()}
        page = files.write_run(folder, result, timelines, baselines=against)
        return f"all of it as a page: {_shown(page)}"

    yield write_result
    if settings.save:
        yield save
    if settings.history is not None:
        yield add_to_history
    if os.environ.get("GITHUB_STEP_SUMMARY"):
        yield write_summary
    yield write_page


class _Screen:
    """Terminal output at the end of a run; a closed stream (``| head``) is ignored."""

    def __init__(self, reporter: pytest.TerminalReporter | None) -> None:
        self._reporter = reporter
        # pytest shows a text that its terminal lacks a character of without its line ends.
        self._encoding = getattr(sys.__stdout__, "encoding", None) or "utf-8"
        self.width, self.color, self.verbosity = 80, False, 0
        self.root = ""
        """pytest's root as seen from the repository that a runner has checked out; empty without one."""
        if reporter is not None:
            root = reporter.config.rootpath
            self.root = os.path.relpath(root, os.environ.get("GITHUB_WORKSPACE") or root)
            writer = reporter.config.get_terminal_writer()
            self.width, self.color = terminal_width(writer.fullwidth), writer.hasmarkup
            self.verbosity = reporter.config.get_verbosity()

    def line(self, text: str, **markup: bool) -> None:
        """Show lines."""
        self._write(lambda reporter: reporter.write_line(encodable(text, self._encoding), **markup))

    def section(self, title: str) -> None:
        """Show a heading."""
        self._write(lambda reporter: reporter.section(encodable(title, self._encoding)))

    def _write(self, write: Callable[[pytest.TerminalReporter], None]) -> None:
        try:
            if self._reporter is not None:
                write(self._reporter)
        except OSError:
            self._reporter = None


def _show(result: Result, screen: _Screen) -> None:
    """Show each test at the requested verbosity: one line with ``-q``, all tables with ``-v``."""
    for test in result.tests:
        if screen.verbosity < 0:
            screen.line(run_report.render_line(test))
            continue
        render = run_report.render_test if screen.verbosity > 0 else run_report.render_summary
        screen.section(f"grovescale: {test.test}")
        screen.line(render(test, width=screen.width, color=screen.color))
    if warnings := run_report.render_warnings(result.warnings, width=screen.width, color=screen.color):
        screen.line(warnings)


def baselines_of(baselines: Baselines, nodeid: str, backend: str) -> Callable[[str], Sequence[Mapping[str, float]]]:
    """Return a function for checks: the figures of one test on a backend, by the baseline's name."""
    return lambda name: baselines.runs(name, nodeid, backend)


def _compare(
    name: str, baselines: Baselines, result: Result, screen: _Screen
) -> dict[str, tuple[str, list[BaselineRow]]]:
    """Print each test's figures beside the baseline's; return them: test → (baseline, rows)."""
    if not name:
        return {}
    shown: dict[str, tuple[str, list[BaselineRow]]] = {}
    # Imports numpy and scipy, which most runs do not need.
    from ..report import comparison_table, document

    baseline = baselines.find(name)
    for nodeid, test in usable(result).items():
        before = baseline.tests.get(nodeid) if baseline is not None else None
        if baseline is None or before is None:
            screen.line(f"grovescale: there is no baseline {name!r} of {nodeid}", yellow=True)
            continue
        here = baselines.is_from_here(baseline)
        backend = "" if same_backend(before, backend_of(test)) else before.backend
        found = rows(before, test, same_machine=here and not backend)
        screen.section(f"grovescale: {nodeid}")
        blocks = comparison_table.baseline_blocks(baseline, found, same_machine=here, other_backend=backend)
        screen.line(document.text(blocks))
        shown[nodeid] = (name, found)
    return shown


def show_unjudged(reporter: pytest.TerminalReporter) -> None:
    """Show the failed expectations of profiling passes, of all workers."""
    for nodeid, value in _noted(reporter, UNJUDGED):
        reporter.write_line(f"grovescale: {nodeid}: profilers were attached, so this was not judged: {value}")


def show_unprofiled(reporter: pytest.TerminalReporter) -> None:
    """Show, once, that phases request profilers without a profiling pass, of all workers."""
    noted = [f"{nodeid} ({phases})" for nodeid, phases in _noted(reporter, UNPROFILED)]
    if noted:
        reporter.write_line(
            f"grovescale: profiling pass disabled, so not profiled: {'; '.join(noted)}. Enable it:"
            ' --grovescale-profile=auto, or @pytest.mark.grovescale(profile="auto")'
        )


def _noted(reporter: pytest.TerminalReporter, wanted: str) -> Iterator[tuple[str, str]]:
    """Yield the test and the value of a user property of tests."""
    for outcome in ("passed", "failed"):
        for report in reporter.getreports(outcome):
            for name, value in report.user_properties:
                if name == wanted and report.when == "call":
                    yield report.nodeid, str(value)


def _shown(path: Path) -> str:
    return os.path.relpath(path)
