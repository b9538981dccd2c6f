"""The analysis of a recording while it is written: what a test asks for reads only what is new."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ..errors import NotMeasuredError
from ..recording.journal import Reader
from ..recording.records import CheckDeclared
from .analyse import result_of, without_paths
from .phase_analysis import indexes_of, phase_result
from .phase_result import PhaseResult
from .recording_index import Contents
from .result import TestResult


class LiveAnalysis:
    """What a recording shows so far.

    A phase is analysed again when something new was recorded, also one that has ended: a later write to the same object
    can leave it open when an earlier one was committed.
    """

    def __init__(self, journal: Path) -> None:
        self._reader = Reader(journal)
        self._contents = Contents()
        self._phases: dict[str, PhaseResult] = {}
        self._result: TestResult | None = None
        self._has_findings = False

    def contents(self) -> Contents:
        """Return what is recorded, sorted by subject; the next call adds to it. Raises RecordingError."""
        contents = self._contents
        for record in self._reader.new():
            contents.feed(record)
            open_phase = bool(contents.phases) and contents.phases[-1].ended is None
            if not isinstance(record, CheckDeclared) or open_phase:
                self._phases.clear()
                self._result = None
            elif self._result is not None:
                # A test declares ten checks, one after another, which say nothing new of what was measured.
                seconds = (contents.last_at - contents.opened.at) / 1e9
                declared = tuple(contents.checks)
                self._result = msgspec.structs.replace(self._result, declared=declared, seconds=seconds)
        return contents

    def phase(self, name: str) -> PhaseResult:
        """Return all measurements of one phase. Raises NotMeasuredError when it never began."""
        contents = self.contents()
        if name not in self._phases:
            phase = next((phase for phase in contents.phases if phase.name == name), None)
            if phase is None:
                raise NotMeasuredError(f"the recording has no phase {name!r}", next_step="It never began.")
            self._phases[name] = without_paths(phase_result(contents, phase, indexes_of(contents)))
        return self._phases[name]

    def result(self, *, findings: bool = False) -> TestResult:
        """Return the result of all that is recorded."""
        contents = self.contents()
        # One with findings serves those who do not ask for them, too.
        if self._result is None or (findings and not self._has_findings):
            self._result = result_of(contents, findings=findings)
            self._has_findings = findings
        return self._result
