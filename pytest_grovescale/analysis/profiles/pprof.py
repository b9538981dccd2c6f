"""Go's profiles as stacks: ``profile.proto``, gzipped, decoded without a protobuf library.

Format: github.com/google/pprof/blob/main/proto/profile.proto, protobuf.dev/programming-guides/encoding.
Only the fields that make stacks are read; others are skipped by their wire type.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from ...errors import RecordingError
from ...protobuf_wire import WireError, fields, signed, varints
from ...recording.records import ProfileKind
from .stacks import Function, StackCounter, Unit

MAX_BYTES = 1 << 29
"""Maximum size of a profile unpacked. A CPU profile of a minute at 1000 pods has 2 MB."""

DEPTH = 64
"""Frames of a stack that Go's CPU profiler keeps, inlined ones included (runtime/cpuprof.go, maxCPUProfStack)."""

UNKNOWN = Function("[unknown]", "", "[unknown]")
"""Code without a symbol."""

_LOST = ("runtime._Lost", "runtime/pprof.lostProfileEvent")
"""Prefixes of the names under which Go counts samples whose stack it could not take."""


class Sample(NamedTuple):
    """One stack: location ids, innermost first, and a value for each sample type."""

    locations: tuple[int, ...]
    values: tuple[int, ...]


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded profile."""

    types: tuple[tuple[str, str], ...]
    """(type, unit) of each sample's values: ``("samples", "count")``, ``("cpu", "nanoseconds")``."""
    samples: tuple[Sample, ...]
    locations: dict[int, tuple[int, ...]]
    """Location → its functions' ids, innermost first: more than one where the compiler inlined."""
    functions: dict[int, str]

    def column(self, sample_type: tuple[str, str]) -> int | None:
        """Return the index of a sample's value with a type and unit."""
        return self.types.index(sample_type) if sample_type in self.types else None


def feed(counter: StackCounter, data: bytes, kind: ProfileKind = "pprof") -> None:
    """Add the stacks of one profile. Raises RecordingError when it is damaged or not of that kind."""
    profile = decode(data)
    measured = _WANTED[kind]
    column = profile.column(measured.type)
    if column is None:
        types = ", ".join(f"{name}/{unit}" for name, unit in profile.types) or "nothing"
        raise damaged(f"it holds {types}, not {'/'.join(measured.type)}")
    counter.unit = measured.unit
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


def decode(data: bytes) -> Profile:
    """Return a profile. Raises RecordingError for anything but a whole, gzipped ``profile.proto``."""
    try:
        return _profile(_unpacked(data))
    except WireError as error:
        raise damaged(str(error)) from error


def _profile(message: bytes) -> Profile:
    types: list[tuple[int, int]] = []
    samples: list[Sample] = []
    locations: dict[int, tuple[int, ...]] = {}
    functions: dict[int, int] = {}
    strings: list[str] = []
    for key, value in fields(message):
        match key:
            case 0x0A:
                types.append(_pair(value))
            case 0x12:
                samples.append(_sample(value))
            case 0x22:
                location, lines = _location(value)
                locations[location] = lines
            case 0x2A:
                function, name = _pair(value)
                functions[function] = name
            case 0x32:
                strings.append(value.decode("utf-8", "replace"))
    if any(len(sample.values) != len(types) for sample in samples):
        raise damaged("a sample has more or fewer values than there are types")
    return Profile(
        types=tuple((_string(strings, kind), _string(strings, unit)) for kind, unit in types),
        samples=tuple(samples),
        locations=locations,
        functions={function: _string(strings, name) for function, name in functions.items()},
    )


def _unpacked(data: bytes) -> bytes:
    if data[:2] != b"\x1f\x8b":
        raise damaged("it is not gzipped" if data else "the file is empty")
    unzip = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        whole = unzip.decompress(data, MAX_BYTES)
    except zlib.error as error:
        raise damaged(f"it cannot be unpacked: {error}") from error
    if not unzip.eof:
        larger = len(whole) >= MAX_BYTES
        raise damaged(f"it is larger than {MAX_BYTES >> 20} MB unpacked" if larger else "it is cut off")
    return whole


def _sample(data: bytes) -> Sample:
    locations: list[int] = []
    values: list[int] = []
    for key, value in fields(data):
        if key in (0x08, 0x0A):
            locations += varints(value)
        elif key in (0x10, 0x12):
            values += map(signed, varints(value))
    return Sample(tuple(locations), tuple(values))


def _location(data: bytes) -> tuple[int, tuple[int, ...]]:
    identity = 0
    lines: list[int] = []
    for key, value in fields(data):
        if key == 0x08:
            identity = value
        elif key == 0x22:
            lines.append(_pair(value)[0])
    return identity, tuple(lines)


def _pair(data: bytes) -> tuple[int, int]:
    """Return the integer fields 1 and 2 of a message; a missing one is 0, as the format says."""
    values = dict(fields(data))
    return values.get(0x08, 0), values.get(0x10, 0)


def _string(strings: Sequence[str], index: int) -> str:
    if index < len(strings):
        return strings[index]
    raise damaged(f"it names string {index} of {len(strings)}")


def damaged(why: str) -> RecordingError:
    """Return the error to raise for an unreadable profile."""
    return RecordingError(
        f"no Go profile can be read: {why}", next_step="Profile the phase again; `go tool pprof FILE` may tell more."
    )


class _Wanted(NamedTuple):
    type: tuple[str, str]
    unit: Unit


_WANTED: dict[ProfileKind, _Wanted] = {
    "pprof": _Wanted(("samples", "count"), "samples"),
    "heap": _Wanted(("inuse_space", "bytes"), "bytes"),
    "goroutines": _Wanted(("goroutine", "count"), "goroutines"),
}
