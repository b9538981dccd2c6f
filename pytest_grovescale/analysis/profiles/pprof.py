"""Go's profiles as stacks: CPU, heap and goroutines."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

from ...recording.records import ProfileKind
from .profile_proto import damaged, decode
from .stacks import Function, StackCounter, Unit

DEPTH = 64
"""Frames of a stack that Go's CPU profiler keeps, inlined ones included (runtime/cpuprof.go, maxCPUProfStack)."""

UNKNOWN = Function("[unknown]", "", "[unknown]")
"""Code without a symbol."""

_LOST = ("runtime._Lost", "runtime/pprof.lostProfileEvent")
"""Prefixes of the names under which Go counts samples whose stack it could not take."""


class _Wanted(NamedTuple):
    type: tuple[str, str]
    unit: Unit


_WANTED: dict[ProfileKind, _Wanted] = {
    "pprof": _Wanted(("samples", "count"), "samples"),
    "heap": _Wanted(("inuse_space", "bytes"), "bytes"),
    "goroutines": _Wanted(("goroutine", "count"), "goroutines"),
}


def feed(counter: StackCounter, data: bytes, kind: ProfileKind = "pprof") -> None:
    """Add the stacks of one profile. Raises RecordingError when it is damaged or not of that kind."""
    profile = decode(data)
    wanted = _WANTED[kind]
    column = profile.column(wanted.type)
    if column is None:
        found = ", ".join(f"{name}/{unit}" for name, unit in profile.types) or "nothing"
        raise damaged(f"it holds {found}, not {'/'.join(wanted.type)}")
    counter.unit = wanted.unit
    known = {identity: counter.function(_function(name)) for identity, name in profile.functions.items()}
    unknown = counter.function(UNKNOWN)
    frames = {
        location: tuple(known.get(function, unknown) for function in reversed(functions)) or (unknown,)
        for location, functions in profile.locations.items()
    }
    lost = {index for identity, index in known.items() if profile.functions[identity].startswith(_LOST)}
    for sample in profile.samples:
        counter.entries += 1
        stack = tuple(index for location in reversed(sample.locations) for index in frames.get(location, (unknown,)))
        _add(counter, stack, sample.values[column], lost)


def _add(counter: StackCounter, stack: tuple[int, ...], weight: int, lost: set[int]) -> None:
    if weight < 0:
        counter.damaged += 1
    elif not stack or not lost.isdisjoint(stack):
        counter.lost += weight
    elif weight:
        if counter.unit == "samples" and len(stack) >= DEPTH:
            counter.rootless += weight
        counter.add(stack, weight)


def _function(name: str) -> Function:
    """Return ``podclique.(*Reconciler).Reconcile`` of package ``github.com/…/podclique``.

    Dots in a package's last part are escaped in symbols (``gopkg.in/yaml%2ev3.Unmarshal``); the type arguments of
    a generic function may hold paths of their own.
    """
    start = name.partition("[")[0].rfind("/") + 1
    package, dot, rest = name[start:].partition(".")
    if not dot:
        return Function(name, "", name)
    package = unquote(package)
    return Function(f"{package}.{rest}", name[:start] + package, f"{name[:start]}{package}.{rest}")
