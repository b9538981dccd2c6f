"""The measured processes, by name: read from processes files (the supervisor's and others), watched for their exit."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from ..cluster.processes import age_s
from .ledger import Ledger
from .machine import MachineReader
from .processes import CoreWait, Identity, ProcessesFile, has_ended, open_pidfd, usage
from .protocol import ProcessExited, ProcessStarted
from .records import CpuRead, ProcessGone, ProcessSeen


class Roster:
    """Measures named processes; a name continues with the process that replaces its former one."""

    def __init__(
        self, ledger: Ledger, *, file: Path | None, wanted: Collection[str], extra: Mapping[str, Identity]
    ) -> None:
        self._ledger = ledger
        self._files: dict[ProcessesFile, dict[str, Identity]] = {}
        """File → its processes at the last read."""
        self._wanted = frozenset(wanted)
        self._running: dict[str, Identity] = {}
        self._pidfds: dict[str, int] = {}
        self._core_waits: dict[str, CoreWait] = {}
        self._machine = MachineReader()
        self._file_bad = False
        self.on_seen: Callable[[str], None] = lambda name: None
        """Called when a name gets a new process."""
        self.on_gone: Callable[[str], None] = lambda name: None
        """Called when the process of a name has ended, or is no longer measured."""
        for name, process in extra.items():
            self._see(name, process)
        if file is not None:
            self.add_file(file)

    def process(self, name: str) -> Identity | None:
        """Return the current process of this name; None when none runs."""
        return self._running.get(name)

    def others(self, name: str) -> dict[str, Identity]:
        """Return the process of every name but this one."""
        return {other: process for other, process in self._running.items() if other != name}

    def add_file(self, path: Path) -> None:
        """Read one more processes file from here on."""
        self._files[ProcessesFile(path)] = {}

    def look(self) -> None:
        """Process changes of the processes files."""
        for file, before in self._files.items():
            try:
                listed = file.changed()
            except (ValueError, OSError) as error:
                if not self._file_bad:
                    self._file_bad = True
                    self._ledger.failed("cpu", f"the list of processes cannot be read: {error}")
                continue
            if listed is not None:
                self._files[file] = listed
                self._follow(before, listed)

    def _follow(self, before: Mapping[str, Identity], listed: Mapping[str, Identity]) -> None:
        """Apply the difference between two versions of a file: removed names first, then new ones."""
        for name, process in before.items():
            if listed.get(name) != process and self._running.get(name) == process:
                self._leave(name)
        for name, process in listed.items():
            if (not self._wanted or name in self._wanted) and self._running.get(name) != process:
                self._leave(name)
                self._see(name, process)

    def read(self, edge: str = "") -> None:
        """Journal the CPU clock and memory of every process, then the use of the machine's cores."""
        self.look()
        for name in list(self._running):
            self._read(name, edge)
        self._ledger.add(self._machine.read(self._ledger.now(), edge))

    def close(self) -> None:
        """Stop watching for exits."""
        for name in list(self._running):
            self._forget(name)

    def _see(self, name: str, process: Identity) -> None:
        pidfd = open_pidfd(process)
        if pidfd is None:
            # It ended before it was ever measured: only the exit is known.
            self._ledger.tell(ProcessExited(process=name, pid=process.pid))
            return
        self._running[name] = process
        self._pidfds[name] = pidfd
        self._core_waits[name] = CoreWait()
        asyncio.get_running_loop().add_reader(pidfd, self._exited, name)
        self._ledger.add(
            ProcessSeen(
                at=self._ledger.now(),
                process=name,
                pid=process.pid,
                started_ticks=process.started_ticks,
                ran_ns=round(age_s(process.started_ticks) * 1e9),
            )
        )
        self._read(name, "")
        self._ledger.tell(ProcessStarted(process=name, pid=process.pid))
        self.on_seen(name)

    def _leave(self, name: str) -> None:
        """Stop measuring the process of a name: it has ended, or continues under another name or unmeasured."""
        if name not in self._running:
            return
        if has_ended(self._pidfds[name]):
            self._exited(name)
        else:
            self._read(name, "")
            self._forget(name)
            self.on_gone(name)

    def _exited(self, name: str) -> None:
        process = self._running[name]
        # Until its parent reaps it, its clock can still be read: the CPU time of a crashed process is not lost.
        self._read(name, "")
        self._forget(name)
        self._ledger.add(ProcessGone(at=self._ledger.now(), process=name, pid=process.pid))
        self._ledger.tell(ProcessExited(process=name, pid=process.pid))
        self.on_gone(name)

    def _read(self, name: str, edge: str) -> None:
        process = self._running[name]
        at = self._ledger.now()
        # The recorder is a child of the harness: without this its CPU time would count for both.
        apart = {other.pid for other in self._running.values()}
        used = usage(process, apart=apart, core_wait=self._core_waits[name])
        if used is None:
            # It ended between two polls; its pidfd reports that.
            return
        self._ledger.add(
            CpuRead(
                at=at,
                process=name,
                pid=process.pid,
                cpu_ns=used.cpu_ns,
                rss_bytes=used.rss_bytes,
                peak_rss_bytes=used.peak_rss_bytes,
                waiting_ns=used.waiting_ns,
                edge=edge,
            )
        )

    def _forget(self, name: str) -> None:
        pidfd = self._pidfds.pop(name, None)
        if pidfd is not None:
            asyncio.get_running_loop().remove_reader(pidfd)
            os.close(pidfd)
        self._running.pop(name, None)
        self._core_waits.pop(name, None)
