"""Assignment of the audit log's requests to phases.

A request belongs to the phase in which it was answered: the log is written then, so a phase's requests are complete
once the log was read up to its end, whatever is still under way.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right

from ..recording.records import ObjectRef, Request
from .api import OBJECT_WRITES, category_of, counted, roles
from .contents import Contents, PhaseSpan
from .writes import qualified

TRIGGER = "trigger"
HARNESS = "harness"
OPERATOR = "operator"

WRITTEN_SHOWN = 10


class Traffic:
    """The requests of each phase, and the identities seen by its end."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._starts = [phase.start for phase in contents.phases]
        self._requests: list[list[Request]] = [[] for _ in contents.phases]
        self._first: dict[str, int] = {}
        steady = not contents.clock.steps
        for request in contents.requests:
            if counted(request):
                offset = 0 if steady else contents.clock.offset(request.at)
                self._add(request, request.completed_wall - offset)

    def _add(self, request: Request, answered: int) -> None:
        if answered < self._first.get(request.user, answered + 1):
            self._first[request.user] = answered
        index = bisect_right(self._starts, answered) - 1
        if index >= 0 and answered <= self._contents.end_of(self._contents.phases[index]):
            self._requests[index].append(request)

    def requests(self, phase: PhaseSpan) -> list[Request]:
        """Return the requests that were answered in a phase, in the order of the log."""
        return self._requests[self._contents.phases.index(phase)]

    def identities_seen(self, phase: PhaseSpan) -> tuple[str, ...]:
        """Return the identities whose requests had been answered by the end of a phase, sorted."""
        names = roles(self._contents.opened.identities)
        end = self._contents.end_of(phase)
        return tuple(sorted({names.get(user, user) for user, at in self._first.items() if at <= end}))

    def trigger_writes(self, phase: PhaseSpan) -> int:
        """Return the harness's successful object writes since the first trigger of a phase."""
        triggers = triggers_of(self._contents, phase)
        user = self._contents.opened.identities.get(HARNESS)
        if not triggers:
            return 0
        offset = self._contents.clock.offset(triggers[0][0])
        return sum(
            request.user == user
            and request.verb in OBJECT_WRITES
            and category_of(request) == "object"
            and 200 <= request.code < 300
            and not request.dry_run
            and request.completed_wall - offset >= triggers[0][0]
            for request in self.requests(phase)
        )

    def written(self, phase: PhaseSpan) -> tuple[ObjectRef, ...]:
        """Return the first objects that the operator wrote to in a phase, of those that the log names."""
        user = self._contents.opened.identities.get(OPERATOR)
        writes = [
            request
            for request in self.requests(phase)
            if request.user == user
            and request.name
            and request.verb in OBJECT_WRITES
            and category_of(request) == "object"
            and not request.dry_run
        ]
        refs = (
            ObjectRef(resource=qualified(request), namespace=request.namespace, name=request.name)
            for request in sorted(writes, key=lambda write: write.received_wall)
        )
        return tuple(itertools.islice(dict.fromkeys(refs), WRITTEN_SHOWN))


def triggers_of(contents: Contents, phase: PhaseSpan) -> list[tuple[int, int]]:
    """Return (when, how many) for each no-op trigger that the harness marked in a phase."""
    end = contents.end_of(phase)
    return [
        (mark.at, max(1, mark.count))
        for mark in contents.marks
        if mark.label == TRIGGER and mark.state != "end" and phase.start <= mark.at <= end
    ]
