"""Credentials in the operator's log.

A log goes where many can read it: `kubectl logs`, a log store, a bug report. Reports of this program redact what looks
like a credential; here it is counted, with the lines to look at.

No false alarm: what is redacted has the form of a credential, or stands beside a name such as ``password``; values that
say that there is none, references and names of objects are known (`redaction`).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..result import Finding
from .observed import Observed

ID = "credentials-logged"

MARK = "credentials-in-log"
"""Label of the harness's mark: its count is that of lines, its detail names the first of them, ``operator.log:12``."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for lines of the log with credentials."""
    for mark in seen.contents.marks:
        if mark.label == MARK:
            yield Finding(
                id=ID,
                severity="defect",
                text=f"the operator's log has {mark.count:,} line{'s' * (mark.count != 1)} with credentials",
                evidence=(mark.detail,),
            )
