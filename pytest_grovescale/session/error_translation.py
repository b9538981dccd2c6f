"""Translation of our own errors for pytest: one clear failure or error of a test."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from _pytest.junitxml import LogXML, xml_key

from ..cluster.handle import UnsupportedPlatform
from ..errors import ExitCode, GrovescaleError
from ..kube.errors import ApiError, ServerUnavailable
from .stash_keys import INFRASTRUCTURE

_ERROR = "grovescale_error"
"""Attribute of a failure: the original error."""


def shown(error: GrovescaleError) -> BaseException:
    """Return an exception that shows one of our errors without the frames between the test and where it was raised.

    Raise it ``from None``: pytest would show its context as a second error of the same text.
    """
    failure = pytest.fail.Exception(str(error), pytrace=False)
    setattr(failure, _ERROR, error)
    return failure


def cause_of(error: BaseException) -> BaseException:
    """Return the original error behind a failure; any other error unchanged."""
    cause = getattr(error, _ERROR, error)
    return cause if isinstance(cause, BaseException) else error


def is_infrastructure(error: BaseException) -> bool:
    """Return whether the infrastructure caused an error: the cluster, a build or the disk, not the tested code.

    A 4xx/5xx answer of the API server is the test's or its operator's fault; a missing answer is not.
    """
    error = cause_of(error)
    if isinstance(error, ApiError):
        return isinstance(error, ServerUnavailable)
    return isinstance(error, GrovescaleError) and error.exit_code is ExitCode.INFRASTRUCTURE


_STANDARD_LIBRARY = f"{Path(contextlib.__file__).resolve().parent}/"
_PACKAGE = f"{Path(__file__).resolve().parents[1]}/"


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """Turn our own errors in a fixture into one clear failure, without the frames in between."""
    try:
        yield
    except UnsupportedPlatform as error:
        raise pytest.skip.Exception(str(error)) from None
    except GrovescaleError as error:
        raise shown(error) from None


def without_internal_frames(error: GrovescaleError) -> GrovescaleError:
    """Return one of our own errors with a traceback that ends where the user's code called this package.

    Its message is complete; frames of this package behind it would hide the line that matters. Raise it ``from None``:
    its cause has frames of this package, too.
    """
    frames = list(_frames(error.__traceback__))
    while frames and _is_ours(frames[-1]):
        frames.pop()
    trace: types.TracebackType | None = None
    for frame in reversed(frames):
        trace = types.TracebackType(trace, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return error.with_traceback(trace)


def show_message_first(report: pytest.TestReport, error: GrovescaleError, item: pytest.Item) -> None:
    """Make pytest's report of one of our own errors begin with its message, not with the name of its class.

    An error without a line of the test, as a budget's, is its message alone.
    """
    path = str(item.path)
    if not any(frame.tb_frame.f_code.co_filename == path for frame in _frames(error.__traceback__)):
        report.longrepr = _Message(str(error))  # type: ignore[assignment]
    elif (crash := getattr(report.longrepr, "reprcrash", None)) is not None:
        # The short summary shows it whole in CI and with ``-vv``; the lines of a log are above, with the failure.
        crash.message = _first_line(error)


class _Message:
    """Report text of a failure without a line of the test; the summary shows one line of it."""

    class _Crash(NamedTuple):
        message: str

    def __init__(self, text: str) -> None:
        self._text = text
        self.reprcrash = self._Crash(text.partition("\n")[0])

    def toterminal(self, writer: Any) -> None:
        """Write it; pytest calls this."""
        writer.line(self._text)

    def __str__(self) -> str:
        return self._text


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _frames(trace: types.TracebackType | None) -> Iterator[types.TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_ours(frame: types.TracebackType) -> bool:
    file = frame.tb_frame.f_code.co_filename
    # The harness' own context managers and threads pass through the standard library's.
    return file.startswith(_PACKAGE) or (file.startswith(_STANDARD_LIBRARY) and "-packages/" not in file)


class JUnitErrors:
    """Turns pytest's JUnit XML ``<failure>`` into ``<error>`` for infrastructure errors in a test's call.

    pytest has no hook for that, only for the terminal.
    """

    def __init__(self, xml: LogXML) -> None:
        self._xml = xml

    @classmethod
    def register(cls, config: pytest.Config) -> None:
        """Register it where a JUnit XML file is asked for."""
        if (xml := config.stash.get(xml_key, None)) is not None:
            config.pluginmanager.register(cls(xml), "grovescale-junit-errors")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Change the element of the latest report."""
        if report.when != "call" or not getattr(report, INFRASTRUCTURE, False):
            return
        for element in self._xml.node_reporter(report).nodes:
            if element.tag == "failure":
                element.tag = "error"
                self._xml.stats["failure"] -= 1
                self._xml.stats["error"] += 1
