"""The profile captures of the open phase: one for each process, from the phase's start to its end.

Its profiler is chosen by the user's option, the process' definition, or the kind of process.

A profiler that fails is journaled with the remedy, and the phase has no such profile; it never raises into the phase.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ... import redaction
from ...endpoints import Address
from ...procfs import Identity
from ..protocol import Profiler, ProfileTarget
from ..record_writer import Ledger
from ..records import STACKS, Lines, ProfileKind, ProfileTaken
from ..scrape_targets import OfFollowed
from . import pprof, pyspy, stacks
from .capture import Capture, ProfileFailed
from .pprof import ApiUrl, Reach, on_this_host

_INTERPRETER = re.compile(r"(^|/)(python\d?(\.\d+)?|libpython\d+\.\d+\.so[.\d]*)$")


def plan(
    wanted: Profiler,
    *,
    process: str,
    pid: int | None,
    pprof: Address | OfFollowed | None,
    stacks: Address | OfFollowed | None = None,
) -> ProfileTarget | str:
    """Return how to profile a process, or why it cannot be. ``stacks``: its own stacks endpoint.

    ``auto`` selects pprof where the definition names its endpoint, py-spy where the process runs a Python interpreter.
    """
    if wanted == "off":
        return f"profiling {process} is off in its definition"
    if wanted in ("auto", "pprof") and pprof is not None:
        return _target(process, "pprof", pprof, stacks)
    if wanted == "pprof":
        return f"{process} has no pprof endpoint: name it in its definition (pprof: {{url: …}})"
    if wanted == "pyspy" or (pid is not None and is_python(pid)):
        return _target(process, "pyspy", None, stacks)
    return f"{process} is no Python process, and its definition names no pprof endpoint: there is no profiler for it"


def _target(
    process: str,
    profiler: Literal["pyspy", "pprof"],
    pprof: Address | OfFollowed | None,
    stacks: Address | OfFollowed | None,
) -> ProfileTarget:
    return ProfileTarget(
        process=process,
        profiler=profiler,
        address=pprof if isinstance(pprof, Address) else None,
        stacks=stacks if isinstance(stacks, Address) else None,
        pprof_at=pprof if isinstance(pprof, OfFollowed) else None,
        stacks_at=stacks if isinstance(stacks, OfFollowed) else None,
    )


def is_python(pid: int, proc: Path = Path("/proc")) -> bool:
    """Return whether a process runs a Python interpreter, as its program or as a loaded library."""
    try:
        if _INTERPRETER.search(str((proc / str(pid) / "exe").readlink())):
            return True
        mapped = (proc / str(pid) / "maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(_INTERPRETER.search(line.rpartition(" ")[2]) for line in mapped.splitlines() if "python" in line)


_AGAIN_S = 10.0
"""Time limit for attaching a profiler to a process that restarted in a phase, s."""

_AGAIN_EVERY_S = 0.2
_LONGEST_STEM = 60


@dataclass(eq=False)
class _Ongoing:
    """A capture that runs, or whose file is pending."""

    target: ProfileTarget
    rounds: bool
    kind: ProfileKind
    capture: Capture
    file: Path
    started: int
    ended: int | None = None


class Captures:
    """Attaches profilers, collects their profiles, and dumps stacks.

    ``process_of`` returns the current process of a name; ``reach`` returns the current endpoints of a target.
    ``run_folder`` None: profiling is disabled.
    """

    def __init__(
        self,
        ledger: Ledger,
        process_of: Callable[[str], Identity | None],
        *,
        run_folder: Path | None,
        name: str,
        reach: Reach = on_this_host,
    ) -> None:
        self._ledger = ledger
        self._process_of = process_of
        self._reach = reach
        self._run_folder = run_folder
        self._folder = run_folder / "profiles" / name if run_folder is not None else None
        self._targets: dict[str, ProfileTarget] = {}
        self._phase = ""
        self._stems: dict[str, str] = {}
        self._lives: dict[str, int] = {}
        self._open: dict[str, _Ongoing] = {}
        self._ending: list[_Ongoing] = []
        self._again: set[asyncio.Task[None]] = set()
        self._failures: list[tuple[str, ProfileFailed]] = []
        self._one_dump = asyncio.Lock()
        """Held while stacks are dumped: only one tool may stop a process at a time, profilers included."""

    def add(self, target: ProfileTarget) -> None:
        """Profile a process from the next phase on; replaces the target of the same name."""
        self._targets[target.process] = target

    @property
    def attached(self) -> frozenset[str]:
        """Processes with an attached profiler."""
        return frozenset(self._open)

    # ---- a phase

    async def begin(self, phase: str) -> None:
        """Attach to every target; `report` journals the failures once the phase has begun."""
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        self._phase = phase
        self._stems[phase] = _distinct(_plain(phase), self._stems.values())
        async with self._one_dump:
            await asyncio.gather(*(self._begin(target) for target in self._targets.values()))

    def report(self) -> None:
        """Journal the failures to attach."""
        failures, self._failures = self._failures, []
        for process, error in failures:
            self._ledger.failed(f"profile:{process}", error.line)

    def stop(self) -> None:
        """Stop all captures at this moment; their files follow later."""
        # Do not wait for restarted processes any more.
        self._lives.clear()
        for again in self._again:
            again.cancel()
        for name in list(self._open):
            self._stop(name)

    async def collect(self) -> None:
        """Journal the profiles of the phase that `stop` has ended, with heap and goroutine snapshots."""
        phase, self._phase = self._phase, ""
        if not phase:
            return
        if self._again:
            await asyncio.wait(self._again)
        ending, self._ending = self._ending, []
        await asyncio.gather(
            *(self._finish(ongoing, phase) for ongoing in ending),
            *(
                self._snapshot(target, phase, kind)
                for target in self._targets.values()
                for kind in (pprof.SNAPSHOTS if target.serves_pprof else ())
            ),
        )

    async def close(self) -> None:
        """Keep the profiles of the open phase; leaves no profiler running."""
        self.stop()
        self._targets.clear()
        await self.collect()

    # ---- processes that start and end

    def gone(self, process: str) -> None:
        """End the capture of a process that has ended."""
        if process in self._open:
            self._stop(process)

    def seen(self, process: str) -> None:
        """Attach again to a process that was restarted in the phase."""
        target = self._targets.get(process)
        if target is None or process not in self._lives or not self._phase:
            return
        if process in self._open:
            self._stop(process)
        again = asyncio.create_task(self._attach_again(target))
        self._again.add(again)
        again.add_done_callback(self._again.discard)

    # ---- stacks

    async def dump(self, process: str, kind: str = STACKS, *, served_only: bool = False) -> None:
        """Journal the stacks of a process, or, of blocked workers, why they are not available.

        ``kind``: beginning of the source; with that of the first stacks and of those left (`records.STACKS_LEFT`) they
        say in which functions the goroutines, threads and tasks are that a run left behind. Most runs leave none, and
        none is missed where they are not available. ``served_only``: as of `stacks.stacks`.
        """
        target, running = self._targets.get(process), self._process_of(process)
        if target is None:
            return
        source = f"{kind}{process}"
        try:
            if running is None and not _in_pods(target):
                raise ProfileFailed(f"{process} has ended", next_step="See its log.")
            async with self._one_dump:
                captured = process in self._open or bool(self._ending)
                lines = await stacks.stacks(
                    target, running, captured=captured, reach=self._reach, served_only=served_only
                )
        except ProfileFailed as error:
            if kind == STACKS:
                self._ledger.failed(source, error.line)
        else:
            self._ledger.add(Lines(at=self._ledger.now(), source=source, lines=redaction.lines(lines)))

    async def dump_all(self) -> None:
        """Journal the stacks of every target."""
        await asyncio.gather(*(self.dump(process) for process in list(self._targets)))

    # ---- one capture

    async def _begin(self, target: ProfileTarget) -> None:
        self._lives[target.process] = 1
        try:
            await self._attach(target)
        except ProfileFailed as error:
            self._failures.append((target.process, error))

    async def _attach_again(self, target: ProfileTarget) -> None:
        self._lives[target.process] += 1
        deadline = self._ledger.now() + _AGAIN_S * 1e9
        while True:
            try:
                await self._attach(target)
            except ProfileFailed as error:
                if self._ledger.now() >= deadline:
                    self._ledger.failed(f"profile:{target.process}", error.line)
                    return
                await asyncio.sleep(_AGAIN_EVERY_S)
            else:
                return

    async def _attach(self, target: ProfileTarget) -> None:
        process = self._process_of(target.process)
        address = self._reach(target).pprof
        kind: ProfileKind = target.profiler
        file = self._file(self._phase, target.process, kind)
        rounds = isinstance(address, ApiUrl)
        capture: Capture
        if address is not None and (process is not None or target.pprof_at is not None):
            over = functools.partial(self._round_over, target.process) if rounds else None
            capture = await pprof.Pprof.attached(address, file, over)
        elif process is not None:
            await pyspy.exec_done(process)
            capture = await pyspy.PySpy.attached(process, file)
        else:
            raise ProfileFailed(f"{target.process} does not run", next_step="See its log.")
        self._open[target.process] = _Ongoing(target, rounds, kind, capture, file, started=self._ledger.now())

    def _round_over(self, process: str) -> None:
        """Begin the next round of a profile, also after a failed one (as when its pod has ended)."""
        if (ongoing := self._open.get(process)) is not None:
            over = self._ledger.now()
            self.seen(process)
            ongoing.ended = over

    def _stop(self, process: str) -> None:
        ongoing = self._open.pop(process)
        # A round runs to its own end.
        ongoing.ended = None if ongoing.rounds else self._ledger.now()
        ongoing.capture.stop()
        self._ending.append(ongoing)

    async def _finish(self, ongoing: _Ongoing, phase: str) -> None:
        process = ongoing.target.process
        try:
            taken = await ongoing.capture.finish()
        except ProfileFailed as error:
            ongoing.file.unlink(missing_ok=True)
            self._ledger.failed(f"profile:{process}", error.line)
            return
        now = self._ledger.now()
        ended = ongoing.ended or now
        self._ledger.add(
            ProfileTaken(
                at=now,
                phase=phase,
                process=process,
                kind=ongoing.kind,
                file=self._relative(ongoing.file),
                started=ongoing.started,
                ended=ended,
                samples=taken.samples,
                errors=taken.errors,
            )
        )

    async def _snapshot(self, target: ProfileTarget, phase: str, kind: ProfileKind) -> None:
        if self._process_of(target.process) is None and not _in_pods(target):
            # The capture itself reports a process that has ended.
            return
        file, moment = self._file(phase, target.process, kind), self._ledger.now()
        try:
            address = self._reach(target).pprof
            assert address is not None  # callers look
            await pprof.snapshot(address, pprof.SNAPSHOTS[kind], file)
        except ProfileFailed as error:
            file.unlink(missing_ok=True)
            self._ledger.failed(f"profile:{target.process}", error.line)
            return
        self._ledger.add(
            ProfileTaken(
                at=self._ledger.now(),
                phase=phase,
                process=target.process,
                kind=kind,
                file=self._relative(file),
                started=moment,
                ended=moment,
            )
        )

    # ---- files

    def _file(self, phase: str, process: str, kind: ProfileKind) -> Path:
        assert self._folder is not None  # or no phase is profiled
        life = self._lives.get(process, 1)
        again = f"-{life}" if life > 1 and kind in ("pyspy", "pprof") else ""
        extension = "txt" if kind == "pyspy" else "pb.gz"
        return self._folder / f"{self._stems[phase]}-{_plain(process)}-{kind}{again}.{extension}"

    def _relative(self, file: Path) -> str:
        assert self._run_folder is not None  # or there is no file
        return file.relative_to(self._run_folder).as_posix()


def _in_pods(target: ProfileTarget) -> bool:
    """Return whether the target is reached in pods, without a process of this host."""
    return target.pprof_at is not None or target.stacks_at is not None


def _plain(name: str) -> str:
    """Return a name for use in a file name; characters other than letters and digits of any script become ``-``."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-.")[:_LONGEST_STEM] or "phase"


def _distinct(stem: str, others: Collection[str]) -> str:
    """Return a file stem that no other phase uses: ``a/b`` and ``a b`` are both ``a-b``."""
    number, found = 1, stem
    while found in others:
        number += 1
        found = f"{stem}.{number}"
    return found
