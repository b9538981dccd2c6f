"""What every check is: data in a test, a marker, a file or a recording, with the rule that judges it.

Durations are seconds or texts (``4s``), sizes bytes or texts (``200Mi``). A check without ``phase`` means the only
phase that it can mean; where there are several, it has to name one.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Literal, get_args, get_origin

import msgspec

from .. import durations
from ..analysis.result import Severity
from ..errors import UsageError
from ..quantity import memory_bytes
from .outcome import Outcome
from .run import Run

Duration = str | int | float
Size = str | int

_ALWAYS_WRITTEN = ("max", "exponent_max")
"""Arguments that a report shows even where they have their default."""

_NOT_IN_ID = frozenset(
    {
        *("phase", "max", "per_trigger", "per_reconcile", "times_idle", "times_floor", "floor", "vs", "tolerance"),
        *("errors", "idle_per_second", "passes", "exponent_max", "slope_max", "share_max", "longest", "running"),
        *("ignore", "source", "periodic", "window"),
    }
)
"""Arguments that say how much is allowed or how it is judged, not what is judged."""

_classes: list[type[Arguments]] = []


class CheckArgumentError(UsageError, ValueError):
    """An invalid argument of a check. Also a ValueError, so that msgspec adds its place in the document."""


class Arguments(msgspec.Struct, frozen=True, tag_field="check", omit_defaults=True, forbid_unknown_fields=True):
    """Arguments of a check or a bundle, validated when it is created."""

    positional: ClassVar[tuple[str, ...]] = ()
    """Arguments that a report writes without their name. A call may give others without their name, too."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _classes.append(cls)

    def __post_init__(self) -> None:
        for field in msgspec.structs.fields(self):
            try:
                msgspec.convert(getattr(self, field.name), field.type)
            except msgspec.ValidationError as error:
                text = str(error)[:1].lower() + str(error)[1:].replace("`", "")
                choices = get_args(field.type) if get_origin(field.type) is Literal else ()
                raise CheckArgumentError(
                    f"{tag_of(self)}({field.name}={getattr(self, field.name)!r}): {text}",
                    next_step=f"There are: {', '.join(choices)}." if choices else "",
                ) from None
        self.validate()

    def validate(self) -> None:
        """Raise CheckArgumentError for arguments that are invalid, each or together."""


class Check(Arguments, frozen=True):
    """Base of all checks. A subclass with a tag is a check, known by that name in ``budgets.yaml`` and recordings."""

    needs_idle_twin: ClassVar[bool] = False
    """Whether it can only be judged when its steady-state phase has an idle twin."""
    of_sweep: ClassVar[bool] = False
    """Whether it judges runs of several sizes. One run only records it."""
    of_profiled_pass: ClassVar[bool] = False
    """Whether the profiling pass is judged by it, too: it needs the stacks that only this pass has."""
    timed: ClassVar[bool] = False
    """Whether timing can change its figure (CPU, times, reconciles, retries), so that contention can inflate it."""
    failure_stands: ClassVar[bool] = False
    """Whether a failure is proven by what was seen, so that no disruption can undo it."""
    one_scrape: ClassVar[Literal["", "alone", "since_start"]] = ""
    """How a single scrape can judge it: by itself, or as the second scrape of a process whose counters began at 0;
    empty: it needs a run."""

    def judge(self, run: Run) -> Outcome:
        """Return the figure, its bound and the verdict. Raises NotMeasuredError where the run does not have them."""
        raise NotImplementedError

    def severity(self, run: Run) -> Severity | None:
        """Return how severe a failure is as a finding, where no test declares the check; None: as a default has it."""
        return None

    def controllers(self) -> list[str]:
        """Return the operator's controllers that it names."""
        return [name for name in (getattr(self, "controller", ""),) if name]

    def depends_on_timing(self) -> bool:
        """Return whether contention on the machine can have inflated its figure."""
        return self.timed


class Bundle(Arguments, frozen=True):
    """Several checks under one name, written wherever a check is. It iterates over them."""

    def __iter__(self) -> Iterator[Check]:
        """Yield the checks that it stands for."""
        raise NotImplementedError


def kinds() -> Mapping[str, type[Check]]:
    """Return name → class of every check."""
    return {tag: kind for tag, kind in _tagged() if issubclass(kind, Check)}


def bundles() -> Mapping[str, type[Bundle]]:
    """Return name → class of every bundle."""
    return {tag: kind for tag, kind in _tagged() if issubclass(kind, Bundle)}


def tag_of(check: Arguments | type[Arguments]) -> str:
    """Return a check's name as ``budgets.yaml`` has it."""
    return str(check.__struct_config__.tag)


def text_of(check: Arguments) -> str:
    """Return a check as reports write it: ``cpu("deploy", max="4s")``."""
    parts = []
    for field in msgspec.structs.fields(check):
        value = getattr(check, field.name)
        if field.name in check.positional and value != "":
            parts.append(_quoted(value))
        elif value is not None and (value != _default(field) or field.name in _ALWAYS_WRITTEN):
            parts.append(f"{field.name}={_quoted(value)}")
    return f"{tag_of(check)}({', '.join(parts)})"


def id_of(check: Check, phase: str) -> str:
    """Return the name that a check has in every run, whatever its bound: ``cpu.deploy``, ``cpu.deploy.kubelet``.

    It is the check's name, the phase that it was judged in, and each argument that says what is judged and is not the
    default. Two checks of one test may share it, such as a bound on a milestone's time and one on its floor.
    """
    parts = [tag_of(check), phase]
    for field in msgspec.structs.fields(check):
        value = getattr(check, field.name)
        if field.name not in _NOT_IN_ID and value not in ("", None, _default(field)):
            if isinstance(value, list | dict):
                parts.append(",".join(map(str, value)))
            else:
                parts.append(field.name if value is True else str(value))
    return ".".join(filter(None, parts))


def encode(check: Check) -> dict[str, Any]:
    """Return a check as plain data, as a recording holds it."""
    plain: dict[str, Any] = msgspec.to_builtins(check)
    return plain


def decode(plain: Mapping[str, Any]) -> Check:
    """Return the check in plain data. Raises UsageError for one that this version does not know."""
    try:
        check: Check = msgspec.convert(plain, _union(*kinds().values()))
    except msgspec.ValidationError as error:
        raise UsageError(
            f"the recording holds a check that cannot be read: {error}",
            next_step="Use the version of pytest-grovescale that wrote it, or a newer one.",
        ) from None
    return check


def one_of(check: Arguments, **bounds: object) -> None:
    """Raise CheckArgumentError unless exactly one bound is given (not None)."""
    given = [name for name, value in bounds.items() if value is not None]
    if len(given) != 1:
        what = f"has both {' and '.join(given)}" if given else "has no bound"
        raise CheckArgumentError(f"{tag_of(check)} {what}", next_step=f"Give one of {', '.join(bounds)}.")


def not_negative(check: Arguments, **values: float | None) -> None:
    """Raise CheckArgumentError for a value below 0, and for infinity, which bounds nothing; None is allowed."""
    for name, value in values.items():
        # `not <=` rejects NaN as well.
        if value is not None and not 0 <= value < math.inf:
            raise CheckArgumentError(f"{tag_of(check)}({name}={value}): not a number from 0 on")


def share(check: Arguments, **values: float) -> None:
    """Raise CheckArgumentError for a value outside 0 to 1: no share exceeds a bound above 1."""
    for name, value in values.items():
        if not 0 <= value <= 1:
            percent = 1 < value <= 100
            raise CheckArgumentError(
                f"{tag_of(check)}({name}={value:g}): not a share from 0 to 1",
                next_step=f"Percent are hundredths: {name}={value / 100:g}." if percent else "",
            )


def some_judged(check: Arguments, ignore: list[str]) -> None:
    """Raise CheckArgumentError for patterns that exclude every metric family."""
    if any(pattern and not pattern.strip("*") for pattern in ignore):
        raise CheckArgumentError(
            f"{tag_of(check)}(ignore={ignore}): excludes every metric family", next_step="Name what to ignore."
        )


def duration(check: Arguments, **values: Duration | None) -> None:
    """Raise CheckArgumentError for an invalid duration; None is allowed."""
    _parsed(check, durations.seconds, values)


def periods(check: Arguments, periodic: Mapping[str, Duration]) -> None:
    """Raise CheckArgumentError for a declared period that is no duration above 0."""
    for name, period in periodic.items():
        try:
            valid = durations.seconds(period) > 0
        except UsageError:
            valid = False
        if not valid:
            raise CheckArgumentError(
                f"{tag_of(check)}(periodic={{{name!r}: {period!r}}}): not a period", next_step='Write it as "30s".'
            )


def size(check: Arguments, **values: Size) -> None:
    """Raise CheckArgumentError for an invalid memory quantity."""
    _parsed(check, memory_bytes, values)


def _parsed(check: Arguments, parse: Callable[[Any], float], values: Mapping[str, object]) -> None:
    for name, value in values.items():
        try:
            if value is not None:
                parse(value)
        except UsageError as error:
            argument = f"{tag_of(check)}({name}={value!r})"
            raise CheckArgumentError(f"{argument}: {error.message}", next_step=error.next_step) from None


def _tagged() -> Iterator[tuple[str, type[Any]]]:
    # A base class has no tag of its own, and msgspec gives it its name.
    return ((tag_of(kind), kind) for kind in sorted(_classes, key=tag_of) if tag_of(kind) != kind.__name__)


@functools.cache
def _union(*classes: type[Check]) -> Any:
    """Return the union from which msgspec chooses by tag."""
    return functools.reduce(operator.or_, classes)


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
