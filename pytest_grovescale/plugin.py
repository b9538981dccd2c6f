"""The pytest plugin: hooks only. What they do lives in ``session/``, fixtures in ``fixtures.py``.

Imported by pytest in every project that has the package installed, so it imports nothing but pytest.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from . import interrupts, options
from .errors import ExitCode, GrovescaleError
from .fixtures import (
    grovescale_api_client,
    grovescale_cluster,
    grovescale_machine_lock,
    grovescale_namespace,
    grovescale_operator,
    grovescale_profiled,
    run_of,
    scale,
)
from .session import markers
from .session.stash_keys import INFRASTRUCTURE, MISTAKES, RUN, RUNS, SETTINGS

__all__ = [
    "grovescale_api_client",
    "grovescale_cluster",
    "grovescale_machine_lock",
    "grovescale_namespace",
    "grovescale_operator",
    "grovescale_profiled",
    "scale",
]

# Key of a worker's output: the mistakes that it found. The controller ends the session; a worker cannot.
_OF_WORKER = "grovescale_mistakes"
# Key of a worker's output: the parameters that its tests have read.
_READ = "grovescale_read"
# File for a comparison with the collected tests; see bench/target_test.py.
_DESCRIBE = "GROVESCALE_DESCRIBE"
# File descriptors whose other ends a comparison holds; see bench/child.py and scenario/driver_protocol.py.
_DRIVER = "GROVESCALE_DRIVER_FD"
_RUNS = "GROVESCALE_RUNS_FD"
_FIXTURES = {"scale", "grovescale_api_client", "grovescale_cluster", "grovescale_namespace", "grovescale_operator"}


_SKIPPED = "scale test: run it with --grovescale"


def pytest_addoption(parser: pytest.Parser) -> None:
    options.register(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> Generator[None]:
    """Raise UsageError for a misspelt option, with the one that is meant: argparse names none.

    Only then are the options of conftest.py known, which may be called ``--grove-image``.
    """
    yield
    if options.misspelt(args) and (wrong := options.misspelt(parser.parse_known_and_unknown_args(args)[1])):
        raise pytest.UsageError(wrong)


def pytest_configure(config: pytest.Config) -> None:
    markers.register(config)
    settings = options.read(config)
    config.stash[SETTINGS] = settings
    if driver := os.environ.pop(_DRIVER, ""):
        from .bench.child import end_with

        end_with(int(driver))
    config.stash[MISTAKES] = []
    if settings.enabled and (settings.save or settings.compare) and not hasattr(config, "workerinput"):
        from .session.preflight import of_settings

        if wrong := list(of_settings(settings, config.rootpath)):
            raise pytest.UsageError(*wrong)
    if _runs(config):
        config.pluginmanager.register(_Interrupted(config), "grovescale-interrupted")
        if not hasattr(config, "workerinput"):
            interrupts.sigterm_interrupts()


def _runs(config: pytest.Config) -> bool:
    """Return whether scale tests are run: not skipped, and not only collected."""
    settings = config.stash.get(SETTINGS, None)
    return settings is not None and settings.enabled and not config.option.collectonly


def pytest_sessionstart(session: pytest.Session) -> None:
    # Not when this plugin is configured: pytest's own JUnit XML is later.
    if _runs(session.config):
        from .session.error_translation import JUnitErrors

        JUnitErrors.register(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give an xdist worker the run's id, so that all write into one folder and share one cluster."""
    if _runs(node.config):
        from .session.preflight import unwritable

        if wrong := unwritable(node.config.stash[SETTINGS]):
            raise pytest.UsageError(*wrong)
        node.workerinput["grovescale_run"] = run_of(node.config).give_to_worker()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the two passes of a profiled test on one worker."""
    if RUN not in config.stash:
        return None
    from .session.xdist_scheduling import scheduler

    return scheduler(config, log, config.stash[RUN].groups)


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each scale test that is to be profiled a second item, right after the one that measures."""
    settings = metafunc.config.stash[SETTINGS]
    if "grovescale_profiled" not in metafunc.fixturenames or not settings.enabled:
        return
    marker = metafunc.definition.get_closest_marker("grovescale")
    asked = settings.profile
    if marker is not None and "profile" not in settings.given:
        asked = marker.kwargs.get("profile", asked)
    if asked != "off":
        passes = [pytest.param(False, id=pytest.HIDDEN_PARAM), pytest.param(True, id="profiled")]
        metafunc.parametrize("grovescale_profiled", passes, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    skip = pytest.mark.skip(reason=_SKIPPED)
    enabled = config.stash[SETTINGS].enabled
    for item in items:
        marker = item.get_closest_marker("grovescale")
        try:
            if marker is not None:
                markers.check(item, marker)
            markers.declare_checks(item)
        except pytest.UsageError as error:
            config.stash[MISTAKES].append(str(error))
            continue
        if not enabled and (marker is not None or _FIXTURES & set(getattr(item, "fixturenames", ()))):
            item.add_marker(skip)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    ours = [
        item
        for item in session.items
        if isinstance(item, pytest.Function) and not _FIXTURES.isdisjoint(item.fixturenames)
    ]
    _refuse_mistakes(session, ours)
    if _runs(session.config) and getattr(session.config.option, "loadgroup", False):
        # Before xdist's worker reports that it is done.
        from .session.xdist_scheduling import write_groups

        write_groups(session.items, run_of(session.config).groups)
    if file := os.environ.get(_DESCRIBE):
        from .session.test_config import describe

        describe(session.items, session.config.stash[SETTINGS], Path(file))


def _refuse_mistakes(session: pytest.Session, ours: list[pytest.Function]) -> None:
    """End the session where a test cannot run: the last moment before anything is queued or started."""
    config, settings = session.config, session.config.stash[SETTINGS]
    found: list[str] = config.stash[MISTAKES]
    mistakes = list(dict.fromkeys(found))
    # What is raised here is not said again in the summary.
    found.clear()
    worker = hasattr(config, "workerinput")
    if settings.enabled and ours and not mistakes:
        from .session.preflight import of_tests, short_of_space, unwritable

        mistakes = [] if config.option.collectonly else unwritable(settings)
        mistakes = mistakes or of_tests(ours, settings, config.rootpath, worker=worker)
        if not mistakes and not config.option.collectonly:
            mistakes = short_of_space(ours, settings, worker=worker)
    if not mistakes:
        return
    if not worker:
        raise pytest.UsageError(*mistakes)
    # A worker that ends with a usage error is an internal error to xdist.
    config.workeroutput[_OF_WORKER] = mistakes  # type: ignore[attr-defined]
    session.items.clear()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """End the session with the mistakes that an xdist worker found in its tests; note the parameters they read."""
    output = getattr(node, "workeroutput", {})
    if mistakes := output.get(_OF_WORKER):
        raise pytest.UsageError(*mistakes)
    if RUN in node.config.stash:
        node.config.stash[RUN].parameters_read |= set(output.get(_READ, ()))


def pytest_report_header(config: pytest.Config) -> str | None:
    """Report missing prerequisites that are only warned of, at the start."""
    settings = config.stash[SETTINGS]
    if not settings.enabled or not settings.compare:
        return None
    from .session.preflight import missing_baseline

    missing = missing_baseline(settings, config.rootpath)
    return f"grovescale: {missing}" if missing else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the test as often as the comparison that started this process wants.

    pytest initialises an item that is run once more, as plugins that rerun failed tests have it do.
    """
    if _RUNS not in os.environ or session.testsfailed or session.config.option.collectonly:
        return None
    from .scenario.driver_protocol import inherited_runs

    if (runs := inherited_runs()) is None:
        return None
    session.config.stash[RUNS] = runs
    for _ in runs.asked():
        for item in session.items:
            item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Judge a profiling pass by its phases only, and end our own errors' tracebacks at the test's line."""
    try:
        try:
            return (yield)
        finally:
            if (run := pyfuncitem.config.stash.get(RUN, None)) is not None:
                run.end_forked_copy()
    except (Exception, pytest.fail.Exception) as failure:
        error: BaseException = failure
        if run is not None:
            error = run.cause_of(pyfuncitem, failure)
            if run.passes_although(pyfuncitem, error):
                return True
            error = run.refused(error) or error
        if not isinstance(error, GrovescaleError):
            raise
        from .session.error_translation import is_infrastructure, shown, without_internal_frames

        if is_infrastructure(error):
            raise shown(error) from None
        raise without_internal_frames(error) from None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _explained(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _explained(item))


def _explained(item: pytest.Item) -> Generator[None, object, object]:
    """Report the end of the test's cluster instead of its consequences in a fixture."""
    try:
        return (yield)
    except (Exception, pytest.fail.Exception) as error:
        run = item.config.stash.get(RUN, None)
        cause = error if run is None else run.cause_of(item, error)
        cause = cause if run is None else run.refused(cause) or cause
        if cause is error or not isinstance(cause, GrovescaleError):
            raise
        from .session.error_translation import shown

        raise shown(cause) from None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Judge a test that has passed so far by its checks, while its recording is open."""
    yield
    if RUN in item.config.stash:
        item.config.stash[RUN].hold_to_budget(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make a report of one of our errors begin with its message, and record pytest's outcome of the test.

    Infrastructure failures, wherever they occur, are errors of the test, not failures.
    """
    report = yield
    if not _runs(item.config):
        return report
    from .session.error_translation import cause_of, is_infrastructure, show_message_first

    error = cause_of(call.excinfo.value) if call.excinfo is not None else None
    if report.failed and isinstance(error, GrovescaleError):
        show_message_first(report, error, item)
        if is_infrastructure(error):
            # An attribute, since xdist passes a report's attributes from worker to controller.
            setattr(report, INFRASTRUCTURE, True)
    if RUN in item.config.stash:
        item.config.stash[RUN].note_outcome(report, error)
    return report


def pytest_report_teststatus(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
    if report.failed and getattr(report, INFRASTRUCTURE, False):
        return "error", "E", "ERROR"
    return None


def pytest_enter_pdb(config: pytest.Config) -> None:
    if RUN in config.stash:
        config.stash[RUN].pause()


def pytest_leave_pdb(config: pytest.Config) -> None:
    if RUN in config.stash:
        config.stash[RUN].resume()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if RUN in config.stash:
        # Ctrl-C may shorten the end of tests from here on. Not in the wrapper around this, which has to yield once.
        interrupts.release()
    if not _runs(config):
        return
    read: set[str] = config.stash[RUN].parameters_read if RUN in config.stash else set()
    if hasattr(config, "workerinput"):
        config.workeroutput[_READ] = sorted(read)  # type: ignore[attr-defined]
    elif session.exitstatus == pytest.ExitCode.OK and config.stash[SETTINGS].parameters:
        # Only a run distinguishes code that computes parameter names from a misspelt parameter.
        from .session.preflight import unread

        if wrong := unread(config.stash[SETTINGS], read):
            config.stash[MISTAKES] += wrong
            session.exitstatus = pytest.ExitCode.USAGE_ERROR


@pytest.hookimpl(wrapper=True, trylast=True, specname="pytest_sessionfinish")
def pytest_sessionfinish_interrupted(session: pytest.Session) -> Generator[None, object, object]:
    """Clean up in order after a Ctrl-C at the end of tests, and show the summary all the same."""
    if RUN not in session.config.stash:
        return (yield)
    try:
        return (yield)
    except KeyboardInterrupt:
        session.exitstatus = pytest.ExitCode.INTERRUPTED
        session.config.stash[RUN].cut_short()
        return None
    finally:
        session.config.stash[RUN].ends()


class _Interrupted:
    """Holder of a hook that does not get the config."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_keyboard_interrupt(
        self, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> Generator[None, object, object]:
        """Block interrupts while pytest notes where it was interrupted; the tests' end can be interrupted again."""
        if RUN in self._config.stash:
            self._config.stash[RUN].ends()
        interrupts.number_lines(excinfo.value)
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_sessionfinish")
def pytest_sessionfinish_with_result(session: pytest.Session) -> Generator[None, object, object]:
    """Ensure that the result is written, even if the summary failed, and fail the run where it cannot be."""
    if RUN not in session.config.stash:
        return (yield)
    try:
        done = yield
        if session.exitstatus not in set(pytest.ExitCode):
            # pytest shows no summary where pytest.exit() gave a code of its own.
            reporter = session.config.pluginmanager.get_plugin("terminalreporter")
            if reporter is not None:
                session.config.stash[RUN].summarise(reporter)
        return done
    except KeyboardInterrupt:
        session.exitstatus = pytest.ExitCode.INTERRUPTED
        return None
    finally:
        if not session.config.stash[RUN].write_result() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = ExitCode.INFRASTRUCTURE


@pytest.hookimpl(trylast=True, specname="pytest_sessionfinish")
def pytest_sessionfinish_at_last(session: pytest.Session) -> None:
    if RUN in session.config.stash:
        session.config.stash[RUN].finish()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    of_scale = (
        _SKIPPED in str(report.longrepr)
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "setup"
    )
    # Nothing else was meant to run, where something was. Of other projects' tests no more than one is looked at.
    if next(of_scale, False) and all(of_scale):
        terminalreporter.write_line("grovescale: only scale tests were selected: run them with --grovescale")
    if RUN in config.stash:
        config.stash[RUN].summarise(terminalreporter)
    if _runs(config):
        for wrong in config.stash[MISTAKES]:
            terminalreporter.write_line(f"ERROR: {wrong}", red=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    if RUN in config.stash:
        config.stash[RUN].close()
    if _runs(config):
        interrupts.restore()
