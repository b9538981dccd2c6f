"""The faults that are in force, as a test asks for them, and the record of each one that happened.

Which requests and events meet one is decided by the seed and their order, for each verb and resource apart. So the
number of requests of one kind does not shift what happens to another, and a second run with as many hits the same ones.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec

from ... import durations
from ...errors import UsageError
from ...suggestions import with_all
from ..resources import UPDATES, WRITES
from .request_path import Target

FaultKind = Literal["conflict", "throttled", "error", "lost-answer", "watch-cut", "watch-expired"]
"""``conflict``: 409 to an update or patch; ``throttled``: 429 with Retry-After; ``error``: 500 or 503. None of these
reached the API server. ``lost-answer``: the API server carried out a write, and its answer was replaced by a 504 or by
the end of the connection. ``watch-cut``: a watch ended; ``watch-expired``: it ended with the event ERROR, 410."""

CONTROL_PATH = "/grovescale.io/faults"
"""Path of the proxy itself, by which faults are changed; every other one is the API server's."""


class Faults(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Faults in force: each share is that of the requests that it can meet. Without any, all passes unchanged."""

    conflict: float = 0.0
    throttled: float = 0.0
    error: float = 0.0
    lost_answer: float = 0.0
    watch_cut: float = 0.0
    """Share of the events of a watch before which it is cut."""
    watch_expired: float = 0.0
    latency_s: float = 0.0
    jitter_s: float = 0.0
    """Latency is evenly distributed over `latency_s` ± this."""
    retry_after_s: int = 1
    in_a_row: int = 1
    """How many times one request fails once it is hit: also its repetitions."""
    resources: tuple[str, ...] = ()
    """As ``pods``, ``podcliques.grove.io``; empty: all."""
    seed: int = 1

    @property
    def any(self) -> bool:
        """Whether anything is to happen."""
        return any((*self.shares.values(), self.latency_s, self.jitter_s))

    @property
    def shares(self) -> dict[FaultKind, float]:
        """Return kind → share."""
        return {
            "conflict": self.conflict,
            "throttled": self.throttled,
            "error": self.error,
            "lost-answer": self.lost_answer,
            "watch-cut": self.watch_cut,
            "watch-expired": self.watch_expired,
        }

    @property
    def text(self) -> str:
        """Return them as a call has them: ``conflict=0.02, latency=20ms±10ms, seed=1``."""
        parts = [f"{kind.replace('-', '_')}={share:g}" for kind, share in self.shares.items() if share]
        if self.latency_s or self.jitter_s:
            jitter = f"±{self.jitter_s * 1e3:g}ms" if self.jitter_s else ""
            parts.append(f"latency={self.latency_s * 1e3:g}ms{jitter}")
        if self.throttled and self.retry_after_s != 1:
            parts.append(f"retry_after={self.retry_after_s}s")
        if self.in_a_row != 1:
            parts.append(f"in_a_row={self.in_a_row}")
        if self.resources:
            parts.append(f"resources={', '.join(self.resources)}")
        return ", ".join([*parts, f"seed={self.seed}"]) if parts else "none"


class FaultArguments(TypedDict, total=False):
    """Arguments of ``scale.faults``; each share is a number from 0 to 1."""

    conflict: float
    """Of the updates and patches: answered 409."""
    throttled: float
    """Of all requests: answered 429, with Retry-After."""
    error: float
    """Of all requests: answered 500 or 503."""
    lost_answer: float
    """Of the writes: carried out, but answered 504, or with the end of the connection."""
    watch_cut: float
    """Of the events of a watch: the watch ends instead, in order or by a cut connection."""
    watch_expired: float
    """Of the events of a watch: the watch ends with ERROR, 410 Expired, so that it has to be listed again."""
    latency: str | float
    """Added to each request: ``"20ms"``, ``"20ms±10ms"``."""
    retry_after: str | float
    """What a 429 asks to wait, whole seconds; ``"1s"`` by default."""
    in_a_row: int
    """How many times a request that was hit fails, repetitions included; 1 by default."""
    resources: Sequence[str]
    """Only requests for these: ``["pods", "podcliques.grove.io"]``; all by default."""
    seed: int
    """Of the random numbers; equal seeds hit the same requests of each verb and resource."""


_SHARES = ("conflict", "throttled", "error", "lost_answer", "watch_cut", "watch_expired")
_SPREAD = re.compile(r"(.+?)\s*(?:±|\+-|\+/-)\s*(.+)")


def faults_of(arguments: Mapping[str, Any]) -> Faults:
    """Return the faults of ``scale.faults(**arguments)``. Raises UsageError for a wrong name or value."""
    known = list(FaultArguments.__annotations__)
    for name in arguments:
        if name not in known:
            raise UsageError(f"faults({name}=…): there is no such fault", next_step=with_all(name, known, what="Known"))
    shares = {name: _share(name, arguments[name]) for name in _SHARES if name in arguments}
    latency, jitter = _latency(arguments.get("latency", 0.0))
    resources = arguments.get("resources", ())
    found = Faults(
        **shares,
        latency_s=latency,
        jitter_s=jitter,
        retry_after_s=_whole_seconds(arguments.get("retry_after", 1)),
        in_a_row=_whole("in_a_row", arguments.get("in_a_row", 1), least=1),
        resources=(resources,) if isinstance(resources, str) else tuple(resources),
        seed=_whole("seed", arguments.get("seed", 1), least=0),
    )
    for total, names in (
        (found.conflict + found.throttled + found.error + found.lost_answer, "conflict, throttled, error, lost_answer"),
        (found.watch_cut + found.watch_expired, "watch_cut, watch_expired"),
    ):
        if total > 1:
            raise UsageError(
                f"faults: {names} are {total:g} together, which is more than all requests",
                next_step="A request meets one of them: their sum must be at most 1.",
            )
    return found


def _share(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UsageError(f"faults({name}={value!r}): must be from 0 to 1", next_step="0.02 hits two requests of 100.")
    return float(value)


def _whole(name: str, value: object, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"faults({name}={value!r}): must be a whole number ≥ {least}", next_step=f"As {name}=3.")
    return value


def _whole_seconds(value: str | float) -> int:
    wait = _duration("retry_after", value)
    if wait != int(wait) or wait < 1:
        raise UsageError(
            f"faults(retry_after={value!r}): must be whole seconds ≥ 1",
            next_step="The header Retry-After has whole seconds only.",
        )
    return int(wait)


def _latency(value: str | float) -> tuple[float, float]:
    spread = _SPREAD.fullmatch(value.strip()) if isinstance(value, str) else None
    if spread is None:
        return _duration("latency", value), 0.0
    middle, jitter = (_duration("latency", part) for part in spread.groups())
    if jitter > middle:
        raise UsageError(
            f"faults(latency={value!r}): must not fall below zero", next_step=f"At most ±{spread.group(1)} there."
        )
    return middle, jitter


def _duration(name: str, value: str | float) -> float:
    try:
        return durations.seconds(value)
    except UsageError as error:
        more = " A spread is 20ms±10ms." if name == "latency" else ""
        raise UsageError(f"faults({name}={value!r}): {error.message}", next_step=f"{error.next_step}{more}") from None


class Injected(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault that happened: a line of the proxy's log. Times are the wall clock's, ns."""

    kind: FaultKind
    verb: str
    group: str = ""
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    """Also of an object to be made; of one with a generated name only where the API server has made it."""
    code: int = 0
    """Answered to the program; 0: its connection was cut, or its watch ended."""
    applied: int = 0
    """What the API server itself answered; 0: the request did not reach it."""
    retry_after_s: int = 0
    received_wall: int
    answered_wall: int


_REVIEWS = ("tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews", "localsubjectaccessreviews")


class Decision(NamedTuple):
    """What happens to one request."""

    delay_s: float
    kind: FaultKind | None = None
    variant: float = 0.0
    """From 0 to 1: decides between the forms of one kind, as 500 and 503."""


PASS = Decision(0.0)


class Draws:
    """The decisions of one setting, from its beginning on."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self._random: dict[str, random.Random] = {}
        self._again: dict[tuple[str, ...], tuple[FaultKind, int]] = {}
        """Request that was hit → the kind, and how often it will be again."""
        self.injected: Counter[FaultKind] = Counter()

    def request(self, target: Target, name: str) -> Decision:
        """Return what happens to a request. ``name``: of its object, for a create that of its body."""
        faults = self.faults
        if not faults.any or not target.about(faults.resources) or target.resource in _REVIEWS:
            return PASS
        numbers = self._numbers(target.stream)
        # Always as many numbers for a request: what follows does not depend on what is asked for.
        latency, hit, variant = numbers.random(), numbers.random(), numbers.random()
        delay = faults.latency_s + (2 * latency - 1) * faults.jitter_s
        identity = (target.stream, target.namespace, name)
        if identity in self._again:
            kind, left = self._again.pop(identity)
            if left > 1:
                self._again[identity] = kind, left - 1
            return Decision(delay, kind, variant)
        for kind, share in self._applicable(target):
            if hit < share:
                if faults.in_a_row > 1 and kind != "lost-answer":
                    self._again[identity] = kind, faults.in_a_row - 1
                return Decision(delay, kind, variant)
            hit -= share
        return Decision(delay)

    def event(self, target: Target) -> tuple[FaultKind | None, float]:
        """Return what happens before an event of a watch, and the variant."""
        faults = self.faults
        if not (faults.watch_cut or faults.watch_expired) or not target.about(faults.resources):
            return None, 0.0
        numbers = self._numbers(f"event {target.qualified}")
        hit, variant = numbers.random(), numbers.random()
        if hit < faults.watch_cut:
            return "watch-cut", variant
        return ("watch-expired" if hit < faults.watch_cut + faults.watch_expired else None), variant

    def _applicable(self, target: Target) -> list[tuple[FaultKind, float]]:
        faults = self.faults
        found: list[tuple[FaultKind, float]] = [("throttled", faults.throttled), ("error", faults.error)]
        if target.verb in WRITES:
            found.append(("lost-answer", faults.lost_answer))
        if target.verb in UPDATES:
            found.append(("conflict", faults.conflict))
        return found

    def _numbers(self, stream: str) -> random.Random:
        if stream not in self._random:
            self._random[stream] = random.Random(f"{self.faults.seed} {stream}")
        return self._random[stream]
