"""What every check is: data in a test, a marker, a file or a recording, with the rule that judges it.

Durations are seconds or texts (``4s``), sizes bytes or texts (``200Mi``). A check without ``phase`` means the only
phase that it can mean; where there are several, it has to name one. What a check comes to is an `Outcome`: a figure,
its bound, and the rule by which the two become a verdict.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args, get_origin

import msgspec

from .. import durations
from ..analysis.result import CheckResult, Severity, Verdict
from ..errors import CheckFailed, CheckInconclusive, UsageError
from ..quantity import memory_bytes
from .run import Run

Unit = Literal["", "s", "B", "×", "1/s", "cores"]
"""Empty for a count; ``×`` for a ratio."""

MOST = 10
"""Lines of evidence of one kind; further ones are counted."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One check's verdict with the figure behind it."""

    phase: str = ""
    verdict: Verdict
    subject: str = ""
    """What was judged, in words; `text` begins with it."""
    figure: float | None
    bound: float
    unit: Unit = ""
    text: str
    evidence: tuple[str, ...] = ()


def at_most(
    phase: str,
    subject: str,
    figure: float,
    bound: float,
    unit: Unit = "",
    *,
    between: tuple[float, float] | None = None,
    doubts: Sequence[str] = (),
    excess: str = "",
    evidence: Sequence[str] = (),
) -> Outcome:
    """Return the outcome of a figure that should not exceed a bound.

    ``between``: the true figure lies between these, where it was not measured exactly; a bound between them decides
    nothing. ``doubts`` are reasons why the true figure may be larger: a figure above its bound fails all the same, but
    none passes in doubt. ``excess``: why it may hold more than what is judged, so that one above its bound is in doubt.
    """
    low, high = between or (figure, figure)
    if low <= bound < high:
        end = f"between {shown(low, unit)} and {shown(high, unit)}" if high < math.inf else f"above {shown(low, unit)}"
        doubts = [*doubts, f"it lies {end}"]
    if excess and low > bound:
        doubts = [*doubts, excess]
    verdict: Verdict = "fail" if low > bound and not excess else "inconclusive" if doubts else "pass"
    return Outcome(
        phase=phase,
        verdict=verdict,
        subject=subject,
        figure=figure,
        bound=bound,
        unit=unit,
        text="; ".join([f"{subject} {against(figure, bound, unit)}", *(doubts if verdict == "inconclusive" else ())]),
        evidence=tuple(evidence),
    )


def against(figure: float, bound: float, unit: Unit) -> str:
    """Return a figure and its bound, with enough digits to tell them apart: ``412 ms > 400 ms``, ``3 ≤ 3``."""
    for digits in (3, 5, 8):
        texts = shown(figure, unit, digits), shown(bound, unit, digits)
        if figure == bound or texts[0] != texts[1]:
            break
    return f"{texts[0]} {'>' if figure > bound else '≤'} {texts[1]}"


def shown(value: float, unit: Unit, digits: int = 3) -> str:
    """Return a figure with its unit: ``412 ms``, ``210 MB``, ``1.23 times``, ``12,501``."""
    match unit:
        case "s" if abs(value) < 1:
            return f"{_rounded(value * 1e3, digits)} ms"
        case "s":
            return f"{_rounded(value, digits)} s"
        case "B":
            return f"{_rounded(value / 1e6, digits)} MB"
        case "×":
            return f"{_rounded(value, digits)} times"
        case "1/s":
            return f"{_rounded(value, digits)} a second"
        case "cores":
            return f"{_rounded(value, digits)} cores"
    return _rounded(value, digits)


def first(lines: Sequence[str], most: int = MOST) -> list[str]:
    """Return the first lines of evidence, and how many more there are."""
    rest = len(lines) - most
    return [*lines[:most], f"and {rest:,} more"] if rest > 0 else list(lines)


def headline(check: CheckResult) -> str:
    """Return figure and bound in one line: ``operator CPU in deploy 6.84 s > 5 s``."""
    where = f" in {check.phase}" if check.phase else ""
    if check.subject:
        return f"{check.subject}{where}{check.text.removeprefix(check.subject)}"
    return f"{check.check}{where}: {check.text}"


def line(check: CheckResult) -> str:
    """Return a verdict in one line: ``operator CPU in deploy 6.84 s > 5 s (fail; cpu("deploy", max="5s"), marker)``."""
    return f"{headline(check)} ({'; '.join([check.verdict, ', '.join(filter(None, (check.check, check.source)))])})"


def verdict_lines(results: Sequence[CheckResult]) -> str:
    """Return all verdicts, a line for each, followed by its evidence."""
    return "\n".join(text for check in results for text in (line(check), *(f"    {part}" for part in check.evidence)))


def failure(results: Sequence[CheckResult]) -> CheckFailed:
    """Return the error for checks that fail a test; its first line has the figure and bound of the worst of them."""
    ordered = sorted(results, key=lambda check: check.verdict != "fail")
    kind = CheckInconclusive if ordered[0].verdict == "inconclusive" else CheckFailed
    return kind(verdict_lines(ordered))


def _rounded(value: float, digits: int) -> str:
    """Return a number with so many significant digits, and all digits before the decimal point."""
    if value == int(value) or abs(value) >= 10**digits:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


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
