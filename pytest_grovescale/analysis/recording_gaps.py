"""Gaps of a recording: watches that disconnected, sources that failed, clocks that were set."""

from __future__ import annotations

from collections.abc import Mapping

from .. import durations
from .recording_index import Contents, PhaseSpan, WatchStory
from .result import WatchResult

_CLOSED = {
    "controller-gone": "the test process ended before it closed the recording",
    "interrupted": "the recording was interrupted",
    "journal-full": "the recording ends early: the journal could not be written any more",
    "failed": "the recorder failed",
}


_ENDS_BEFORE = "the recording ends before the phase does"


def early_end(closed: str, message: str) -> str:
    """Return a sentence that a recording ends early since it could not be written, and why; empty for any other end.

    ``closed`` and ``message`` are those of its ``Closed`` record.
    """
    if closed != "journal-full":
        return ""
    return _CLOSED[closed] + (f": {message}" if message else "")


def after_early_end(contents: Contents, phase: PhaseSpan, missing: Mapping[str, str]) -> dict[str, str]:
    """Return figure → why it was not measured; first, if so, that the recording's early end truncated the phase.

    The other reasons mostly follow from it.
    """
    closed = contents.closed
    early = early_end(closed.reason, closed.message) if closed is not None and phase.ended is None else ""
    if not early:
        return dict(missing)
    return {figure: early if why == _ENDS_BEFORE else f"{early}; {why}" for figure, why in missing.items()}


def watch_results(contents: Contents) -> tuple[WatchResult, ...]:
    """Return a row per watch, in the order of their opening."""
    return tuple(
        WatchResult(
            watch=watch,
            resource=story.opened.spec.resource,
            objects=story.live.objects if story.live is not None else 0,
            events=story.events,
            cuts=len(story.cuts),
            cut_s=sum(cut.length_ns for cut in story.cuts) / 1e9,
            gaps=len(story.gaps),
            gap_s=sum(gap.length_ns for gap in story.gaps) / 1e9,
        )
        for watch, story in contents.watches.items()
    )


def audit_hole(contents: Contents, phase: PhaseSpan) -> str:
    """Return why the audit log does not cover a phase from end to end; empty when it does.

    The recorder reads the log up to a request of its own at each phase's end, and journals a failure when that request
    never shows up. So the absence of a failure means that all of the log was read.
    """
    if not contents.opened.audited:
        return "this cluster's audit log is no source of the recording"
    if phase.ended is None:
        return _ENDS_BEFORE
    for failure in contents.failures:
        if failure.source != "audit":
            continue
        after = failure.at > phase.ended.at and _read_up_to(contents, phase.ended.at, before=failure.at)
        mended = failure.at < phase.start and _read_again(contents, failure.at, phase.start)
        if not after and not mended:
            return f"the audit log broke off: {failure.message}"
    return ""


def warnings(contents: Contents) -> tuple[str, ...]:
    """Return all warnings that a reader of the figures needs, each once, in the order of the recording."""
    texts: list[str] = []
    if contents.closed is None:
        texts.append("the recording does not say how it ended: it is still running, or its recorder was killed")
    elif contents.closed.reason in _CLOSED:
        message = f": {contents.closed.message}" if contents.closed.message else ""
        texts.append(_CLOSED[contents.closed.reason] + message)
    texts += [
        f"{failure.source} broke off{_during(contents, failure.at)}: {failure.message}" for failure in contents.failures
    ]
    texts += [text for watch in contents.watches.values() for text in _gap_texts(contents, watch)]
    texts += [
        f"{process} (pid {gone.pid}) ended in {name}"
        for process, ends in contents.gone.items()
        for gone in ends
        if (name := contents.phase_at(gone.at))
    ]
    before = 0
    for step in contents.clock.steps:
        moved = (step.offset_ns - before) / 1e9
        before = step.offset_ns
        texts.append(
            f"the wall clock was set by {moved:+.3g} s{_during(contents, step.at)};"
            " server times close to it are that uncertain"
        )
    texts += contents.doubts
    return tuple(dict.fromkeys(texts))


def _gap_texts(contents: Contents, story: WatchStory) -> list[str]:
    resource = story.opened.spec.resource
    return [
        f"the watch on {resource} has a gap of {durations.text(gap.length_ns / 1e9)}"
        f"{_during(contents, gap.at)}: {gap.reason}"
        for gap in story.gaps
    ]


def _during(contents: Contents, at: int) -> str:
    name = contents.phase_at(at)
    return f" in {name}" if name else ""


def _read_up_to(contents: Contents, moment: int, *, before: int) -> bool:
    """Return whether the log had been read past a moment before another one."""
    offset = contents.clock.offset(moment)
    return any(
        request.received_wall - offset >= moment for request in reversed(contents.requests) if request.at < before
    )


def _read_again(contents: Contents, failed_at: int, by: int) -> bool:
    """Return whether the log was read again after a failure and before a moment."""
    return any(failed_at < request.at <= by for request in reversed(contents.requests))
