"""The operator, or one of its containers, ended while it was under test.

Its caches, its queue and the reconciles under way are lost; what it had half done, the next process has to mend. Where
it is killed for its memory, it will be again.

No false alarm: a restart that the test asked for (`scale.restart_operator`) does not count, nor what happens before the
first phase.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..result import OPERATOR, Finding
from .observed import Observed

ID = "restarts"

_ASKED = "operator-restart"


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield one finding for all restarts of the operator."""
    marks = [mark for mark in seen.contents.marks if mark.label == _ASKED]
    asked = [
        (begin.at, next((mark.at for mark in marks if mark.state == "end" and mark.at > begin.at), seen.end))
        for begin in marks
        if begin.state == "begin"
    ]
    found = [
        one
        for one in seen.contents.incidents
        if one.kind in ("container-restart", "process-restart")
        and one.subject.partition("/")[0] == OPERATOR
        and seen.begin <= one.at < seen.end
        and not any(begin <= one.at <= end for begin, end in asked)
    ]
    if found:
        yield Finding(
            id=ID,
            severity="defect",
            text=f"the operator was restarted {len(found):,} time{'s' * (len(found) != 1)} while it was under test",
            evidence=tuple(f"{one.subject}: {one.detail}".rstrip(": ") for one in found[:3]),
        )
