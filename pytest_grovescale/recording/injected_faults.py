"""The log of the proxy on the operator's way to the API server, as a source: each fault that it made."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ..kube.faults.settings import Injected
from .audit_log import Tail
from .record_writer import Ledger
from .records import FaultInjected

_decode = msgspec.json.Decoder(Injected).decode


class InjectedFaults:
    """Turns new lines of the log into records. The proxy writes a line before the operator sees the fault."""

    def __init__(self, path: Path, ledger: Ledger) -> None:
        self._tail = Tail(path)
        self._ledger = ledger

    def poll(self) -> None:
        """Journal the faults since the last call."""
        for line in self._tail.poll():
            self._ledger.add(FaultInjected(at=self._ledger.now(), **msgspec.structs.asdict(_decode(line))))

    def close(self) -> None:
        """Read the remaining lines and close the file."""
        self.poll()
        self._tail.close()
