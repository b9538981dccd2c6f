"""Our own errors as pytest tells them: one clear failure of a test, or a wrong command line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from ..cluster.handle import UnsupportedPlatform
from ..errors import GrovescaleError


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


@contextlib.contextmanager
def usage() -> Iterator[None]:
    """Turn our own errors, while pytest starts, into its own for a wrong command line."""
    try:
        yield
    except GrovescaleError as error:
        raise pytest.UsageError(str(error)) from None
