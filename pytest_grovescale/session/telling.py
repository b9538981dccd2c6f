"""Our own errors as pytest tells them: one clear failure of a test, or a wrong command line."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..cluster.handle import UnsupportedPlatform
from ..errors import GrovescaleError

_PACKAGE = f"{Path(__file__).resolve().parents[1]}/"


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Turn our own errors in a fixture into one clear failure, without the frames in between."""
    try:
        yield
    except GrovescaleError as error:
        told = error
    else:
        return
    if isinstance(told, UnsupportedPlatform):
        raise pytest.skip.Exception(str(told)) from None
    # Without its context, which pytest would show as a second error of the same text.
    raise pytest.fail.Exception(str(told), pytrace=False) from None


def without_internal_frames(error: GrovescaleError) -> GrovescaleError:
    """Return one of our own errors with a traceback that ends where the user's code called this package.

    Its message says all that there is to know; frames of this package behind it would hide the line that matters.
    """
    frames = list(_frames(error.__traceback__))
    while frames and _is_ours(frames[-1]):
        frames.pop()
    trace: types.TracebackType | None = None
    for frame in reversed(frames):
        trace = types.TracebackType(trace, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    error.__suppress_context__ = True
    return error.with_traceback(trace)


def show_message_first(report: pytest.TestReport, error: GrovescaleError, item: pytest.Item) -> None:
    """Let pytest's report of one of our own errors begin with its message, not with the name of its class.

    One that came from no line of the test, as a budget's, is its message alone.
    """
    path = str(item.path)
    if not any(frame.tb_frame.f_code.co_filename == path for frame in _frames(error.__traceback__)):
        report.longrepr = str(error)
    elif (crash := getattr(report.longrepr, "reprcrash", None)) is not None:
        crash.message = str(error)


def _frames(trace: types.TracebackType | None) -> Iterator[types.TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_ours(frame: types.TracebackType) -> bool:
    file = frame.tb_frame.f_code.co_filename
    # The harness' own context managers pass through the standard library's.
    return file.startswith(_PACKAGE) or file == contextlib.__file__


@contextlib.contextmanager
def usage() -> Iterator[None]:
    """Turn our own errors, while pytest starts, into its own for a wrong command line."""
    try:
        yield
    except GrovescaleError as error:
        raise pytest.UsageError(str(error)) from None
