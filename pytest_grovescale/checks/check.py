"""What every check is: data that can be written down in a test, a marker, a file or a recording."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args, get_origin

import msgspec

from .arguments import CheckArgumentError

_BOUNDS = ("max", "exponent_max")
"""Arguments that are told even where they are the default."""


_NOT_IN_ID = frozenset(
    {
        *("phase", "max", "per_trigger", "per_reconcile", "times_idle", "times_floor", "floor", "vs", "tolerance"),
        *("errors", "idle_per_second", "passes", "exponent_max", "slope_max", "share_max", "longest", "running"),
        *("ignore", "source"),
    }
)
"""Arguments that say how much is allowed, or how it is judged: not what is."""


class Check(msgspec.Struct, frozen=True, tag_field="check", omit_defaults=True, forbid_unknown_fields=True):
    """Base of all checks."""

    needs_idle_twin: ClassVar[bool] = False
    """Whether it can only be judged when its steady-state phase has an idle twin."""
    of_sweep: ClassVar[bool] = False
    """Whether it judges runs of several sizes: one run is recorded to be held to it, and not judged by it."""
    of_profiled_pass: ClassVar[bool] = False
    """Whether the pass with profilers is held to it, too: its stacks tell what the measured one cannot know."""
    timed: ClassVar[bool] = False
    """Whether timing can change its figure: CPU, times, reconciles, retries. Contention may then have inflated it."""
    failure_stands: ClassVar[bool] = False
    """Whether a failure is proven by what was seen, so that nothing which happened beside it can undo it."""
    positional: ClassVar[tuple[str, ...]] = ()
    """Arguments that a report writes without their name. Others may be given so, too, where a call reads well."""

    def __post_init__(self) -> None:
        for field in msgspec.structs.fields(self):
            try:
                msgspec.convert(getattr(self, field.name), field.type)
            except msgspec.ValidationError as error:
                text = str(error)[:1].lower() + str(error)[1:].replace("`", "")
                raise CheckArgumentError(
                    f"{tag_of(self)}({field.name}={getattr(self, field.name)!r}): {text}", next_step=_choices(field)
                ) from None
        self.refuse()

    def depends_on_timing(self) -> bool:
        """Return whether contention on the machine can have inflated its figure."""
        return self.timed

    def refuse(self) -> None:
        """Raise CheckArgumentError for arguments that cannot be, each or together."""


def tag_of(check: Check) -> str:
    """Return a check's name as it is written in ``budgets.yaml``."""
    return str(type(check).__struct_config__.tag)


def text_of(check: Check) -> str:
    """Return a check as a reader would write it in a test: ``cpu("deploy", max="4s")``."""
    parts = []
    for field in msgspec.structs.fields(check):
        value = getattr(check, field.name)
        if field.name in check.positional and value != "":
            parts.append(_quoted(value))
        elif value is not None and (value != _default(field) or field.name in _BOUNDS):
            parts.append(f"{field.name}={_quoted(value)}")
    return f"{tag_of(check)}({', '.join(parts)})"


def id_of(check: Check, phase: str) -> str:
    """Return the name that a check has in every run, whatever its bound: ``cpu.deploy``, ``cpu.deploy.kubelet``.

    It is the check's name, the phase that it was judged in, and each argument that says what is judged and is not the
    default. Two checks of one test may share it, as one with a bound on a milestone's time and one on its floor.
    """
    parts = [tag_of(check), phase]
    for field in msgspec.structs.fields(check):
        value = getattr(check, field.name)
        if field.name not in _NOT_IN_ID and value not in ("", None, _default(field)):
            parts.append(",".join(map(str, value)) if isinstance(value, list | dict) else _plain(field.name, value))
    return ".".join(filter(None, parts))


def encode(check: Check) -> dict[str, Any]:
    """Return a check as plain data, as it stands in a recording."""
    plain: dict[str, Any] = msgspec.to_builtins(check)
    return plain


def _choices(field: msgspec.structs.FieldInfo) -> str:
    """Return what an argument may be, where that is a list."""
    return f"There are: {', '.join(get_args(field.type))}." if get_origin(field.type) is Literal else ""


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _plain(name: str, value: object) -> str:
    return name if value is True else str(value)


def _quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
