"""The operator, or one of its containers, ended while it was under test.

Its caches, its queue and the reconciles under way are lost; what it had half done, the next process has to mend. Where
it is killed for its memory, it will be again.

No false alarm: a restart that the test asked for (`scale.restart_operator`) does not count, nor what happens before the
first phase. What the operator changes after a restart that was asked for counts where nothing had changed in the second
before it, up to the test's next action, of three objects that were there before, and only what says what is wanted of
them: other controllers write the rest.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from ..result import OPERATOR, Finding
from .observed import QUIET_NS, Observed

ID = "restarts"

_ASKED = "operator-restart"
_LEAST = 3
_WANTED = ("spec", "data", "rules", "subjects", "metadata.labels")
"""Parts of an object that say what is wanted; other controllers write its status, and annotations."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield one finding for all restarts of the operator, and one for what it changed after those that were asked."""
    yield from _caught_up(seen)
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


def _caught_up(seen: Observed) -> Iterator[Finding]:
    """Yield what the operator changed after a restart that the test asked for, before the test changed anything."""
    if not seen.operator or not seen.log_whole:
        return
    marks = [mark for mark in seen.contents.marks if mark.label == _ASKED]
    for begin, done in pairwise(marks):
        if begin.state != "begin" or done.state != "end" or not seen.still(begin.at, QUIET_NS / 1e9):
            continue
        # Other controllers go on from what the operator writes.
        asked = [one.received for one in seen.by_harness(begin.at, seen.end)]
        asked += [at for at in seen.workload_changes if at > done.at]
        end = min(asked, default=seen.end)
        changed = _changed(seen, begin.at, end)
        resource = max(changed, key=lambda of: len(changed[of]), default="")
        if len(changed.get(resource, ())) < _LEAST:
            continue
        pods = sum(begin.at < pod.begun < end for pod in seen.lives.get("pods", ()))
        paths = Counter(path for of_one in changed[resource] for path in of_one)
        path = max((count, path) for path, count in paths.items())[1]
        yield Finding(
            id=ID,
            severity="defect",
            text=f"after a restart, while the test changed nothing, the operator changed {len(changed[resource]):,}"
            f" {resource} ({path}): it had missed a change before, or makes them otherwise after each restart",
            evidence=(
                *(f"{len(objects):,} {of}" for of, objects in changed.items() if of != resource),
                *([f"{pods:,} pods were made in that time"] if pods else []),
            ),
            check="noop_writes(max=0)",
        )
        return


def _changed(seen: Observed, start: int, end: int) -> dict[str, list[list[str]]]:
    """Return resource → what is wanted of each object that the operator changed in a time and that was there before."""
    wrote = {(one.resource, one.object) for one in seen.requests_in(start, end) if one.changes}
    found: dict[str, list[list[str]]] = defaultdict(list)
    for resource, lives in seen.lives.items():
        for life in lives:
            if life.begun >= start or (resource, life.object) not in wrote:
                continue
            differences = (event.difference for event in life.between(start, end) if event.difference is not None)
            if paths := [path for one in differences for path in one.paths if path.startswith(_WANTED)]:
                found[resource].append(paths)
    return found
