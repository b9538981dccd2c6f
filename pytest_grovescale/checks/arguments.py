"""Arguments of checks that cannot be, and how they are told."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .. import durations
from ..errors import UsageError
from ..sizes import memory_bytes
from ..suggestions import did_you_mean


class CheckArgumentError(UsageError, ValueError):
    """An argument of a check that cannot be. A ValueError too, so that msgspec adds the place in a document to it."""


def one_of(check: str, **bounds: object) -> None:
    """Refuse a check with no bound, or with several; None is no bound."""
    given = [name for name, value in bounds.items() if value is not None]
    if len(given) != 1:
        what = f"has both {' and '.join(given)}" if given else "has no bound"
        raise CheckArgumentError(f"{check} {what}", next_step=f"Give one of {', '.join(bounds)}.")


def not_negative(check: str, **values: float | None) -> None:
    """Refuse what is no number from 0 on; None was not given. Nothing is ever beyond infinity: it is no bound."""
    for name, value in values.items():
        # `not <=`: a NaN is no bound either.
        if value is not None and not 0 <= value < math.inf:
            raise CheckArgumentError(f"{check}({name}={value}): not a number from 0 on")


def share(check: str, **values: float) -> None:
    """Refuse what is no share: a bound above 1 could never be exceeded."""
    for name, value in values.items():
        if not 0 <= value <= 1:
            percent = 1 < value <= 100
            raise CheckArgumentError(
                f"{check}({name}={value:g}): not a share from 0 to 1",
                next_step=f"Percent are hundredths: {name}={value / 100:g}." if percent else "",
            )


def some_judged(check: str, ignore: list[str]) -> None:
    """Refuse patterns of families to let off that leave none to be judged."""
    if any(pattern and not pattern.strip("*") for pattern in ignore):
        raise CheckArgumentError(f"{check}(ignore={ignore}): lets every family off", next_step="Name what to ignore.")


def duration(check: str, **values: str | float | None) -> None:
    """Refuse what is no duration; None was not given."""
    for name, value in values.items():
        try:
            if value is not None:
                durations.seconds(value)
        except UsageError as error:
            raise CheckArgumentError(f"{check}({name}={value!r}): {error.message}", next_step=error.next_step) from None


def size(check: str, **values: str | int) -> None:
    """Refuse what is no amount of memory."""
    for name, value in values.items():
        try:
            memory_bytes(value)
        except UsageError as error:
            raise CheckArgumentError(f"{check}({name}={value!r}): {error.message}", next_step=error.next_step) from None


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return that a name is unknown, with near ones and all that there are, as one sentence."""
    names = list(known)
    near = did_you_mean(name, names)
    hint = f"{near[:1].lower()}{near[1:]} " if near else ""
    return f"no {what} {name!r}; {hint}there are: {', '.join(names) or 'none'}"
