"""Wait for a quiet machine before a measured phase: contention inflates its CPU and wall times."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from .. import durations
from ..analysis.contention import OTHERS_LIMIT
from ..analysis.cpu import API_SERVER
from ..procfs import Identity, identity
from ..recording.machine import MachineReader
from ..recording.process_table import ProcessesFile, usage

_STEP_S = 1.0
_OVER = 3
"""Consecutive steps in which the machine has to be quiet."""

_SAY_EVERY_S = 10.0

HARNESS = "harness"


class QuietWait(msgspec.Struct, frozen=True, kw_only=True):
    """How a wait for a quiet machine ended."""

    seconds: float
    """Length of the wait; 0 where quietness could not be measured."""
    quiet: bool | None
    """Whether the machine was quiet at the end; None: not measured."""
    share: float | None = None
    """Share of the cores that other programs took over the last seconds, with steal."""
    why_not: str = ""

    @property
    def text(self) -> str:
        """Text of the phase's mark: ``the machine was quiet after 12 s``."""
        if self.quiet is None:
            return f"not measured: {self.why_not}"
        if self.quiet:
            return f"the machine was quiet after {durations.text(self.seconds)}"
        return f"not quiet after {durations.text(self.seconds)}: {_taken(self.share)}"


class _Reading(NamedTuple):
    """Counters of one moment, ns."""

    at: int
    cores: int
    busy: int
    steal: int
    own: dict[Identity, int]
    """CPU time of each process of the run."""


class Quietness:
    """Measures the CPU use of other programs than the run's own, and waits until it is low."""

    def __init__(
        self,
        files: Sequence[Path],
        *,
        limit: float = OTHERS_LIMIT,
        proc: Path = Path("/proc"),
        wait: Callable[[float], None] = time.sleep,
        clock: Callable[[], int] = time.monotonic_ns,
        own: Callable[[], dict[Identity, int]] | None = None,
    ) -> None:
        """``files``: the lists of processes that the run's recorder follows. ``limit``: share of the cores that other
        programs and steal may take. ``own``: CPU time of each process of the run, ns (default: by its own clock)."""
        self._files: dict[ProcessesFile, dict[str, Identity]] = {ProcessesFile(path): {} for path in files}
        self._limit = limit
        self._reader = MachineReader(proc)
        self._wait = wait
        self._clock = clock
        self._own = own or self._clocks
        self._has_api_server = own is not None

    def wait(self, limit_s: float, say: Callable[[str], None]) -> QuietWait:
        """Return when the machine has been quiet for some seconds, or after ``limit_s``; ``say`` shows progress."""
        last = self._read()
        if isinstance(last, str):
            say(f"cannot wait for a quiet machine, not measured: {last}")
            return QuietWait(seconds=0.0, quiet=None, why_not=last)
        readings = deque([last], maxlen=_OVER + 1)
        began, said = last.at, None
        while True:
            self._wait(_STEP_S)
            last = self._read()
            if isinstance(last, str):
                return QuietWait(seconds=(self._clock() - began) / 1e9, quiet=None, why_not=last)
            readings.append(last)
            share, waited = _share(readings[0], last), (last.at - began) / 1e9
            full = len(readings) > _OVER
            if full and share <= self._limit:
                return QuietWait(seconds=waited, quiet=True, share=share)
            if waited >= limit_s:
                return QuietWait(seconds=waited, quiet=share <= self._limit, share=share)
            if full and (said is None or waited - said >= _SAY_EVERY_S):
                said = waited
                left = durations.rough(max(1.0, limit_s - waited))
                say(f"waiting for a quiet machine: {_taken(share)}; at most {left} more")

    def _read(self) -> _Reading | str:
        """Return the current counters, or why they cannot be read."""
        try:
            own = self._own()
        except (ValueError, OSError) as error:
            return f"the list of the run's processes cannot be read: {error}"
        at = self._clock()
        times = self._reader.read(at).times
        if times is None:
            return "/proc/stat cannot be read here"
        if not self._has_api_server:
            return "the API server runs on another machine, or its load cannot be separated from that of other programs"
        return _Reading(at, times.cores, times.busy_ns, times.steal_ns, own)

    def _clocks(self) -> dict[Identity, int]:
        """Return the CPU time of this process and of those in the files, ns, each without the others' part."""
        listed: dict[str, Identity] = {}
        for file, before in list(self._files.items()):
            now = file.changed()
            self._files[file] = now if now is not None else before
            listed |= self._files[file]
        self._has_api_server = API_SERVER in listed
        harness = identity(os.getpid())
        if harness is not None:
            listed[HARNESS] = harness
        apart = {process.pid for process in listed.values()}
        found = ((process, usage(process, apart=apart)) for process in listed.values())
        return {process: used.cpu_ns for process, used in found if used is not None}


def _share(before: _Reading, after: _Reading) -> float:
    """Return the share of the cores that other programs and steal took between two readings."""
    # A process that appeared between the two used all of its CPU time in between, or was a child of a known process
    # before.
    own = sum(max(0, cpu - before.own.get(process, cpu)) for process, cpu in after.own.items())
    others = max(0, after.busy - before.busy - own)
    steal = max(0, after.steal - before.steal)
    return min(1.0, (others + steal) / (after.cores * max(1, after.at - before.at)))


def _taken(share: float | None) -> str:
    return f"other programs took {100 * (share or 0.0):.0f} % of the cores over the last {_OVER * _STEP_S:.0f} s"
