"""Derives the four answers from an observation; pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .definitions import Answer, Ended, Expectation, Fault, Observation, Outcome, Row

_INTERNAL = (
    (r"INTERNALERROR", "pytest's INTERNALERROR"),
    (r"Traceback \(most recent call last\)", "a traceback"),
    # One line that pytest prints after Ctrl-C names a code location: no traceback.
    (r"pytest_grovescale/\S*\.py(:\d+(?!: KeyboardInterrupt$)\b|\", line)", "a frame of this package"),
    (r"was never awaited", "a warning about this package's coroutines"),
    (r"Exception ignored in", "an ignored exception"),
    (r"[Pp]lease report this", "a request to report a defect"),
)
_WRONG_CAUSES = (r"flag is refused", r"Correct the template")
"""Advice that is wrong for all faults: the user has changed neither flags nor templates."""
_NEXT_STEP = re.compile(r"^(E\s)?\W*→ ", re.MULTILINE)
_MOST = 3
"""Maximum number of examples in a reason."""


def judge(fault: Fault, seen: Observation) -> Row:
    """Return the row of one fault."""
    if seen.skipped or seen.missed:
        return Row(fault=fault, skipped=seen.skipped, missed=seen.missed, seconds=seen.seconds)
    return Row(
        fault=fault,
        left_over=left_over(fault.expect, seen),
        lost=lost(fault.expect, seen),
        message=message(fault.expect, seen),
        next_run=next_run(seen),
        seconds=seen.seconds,
    )


def left_over(expect: Expectation, seen: Observation) -> Answer:
    """Return what remains of the run: processes, clusters, data, lock files, temporary files."""
    reasons = []
    if seen.processes_left:
        reasons.append(f"{len(seen.processes_left)} processes: {_some(seen.processes_left)}")
    if early := not_excused(seen.left_after_run, expect.until_next_run):
        reasons.append(f"files after the run: {_some(early)}")
    if late := [name for name in seen.left_after_next if name not in early]:
        reasons.append(f"files after the next run: {_some(late)}")
    reasons += [f"touched: {what}" for what in seen.disturbed]
    return Answer(reasons=tuple(reasons))


def lost(expect: Expectation, seen: Observation) -> Answer:
    """Return what is missing from the recording: lines, the result, the outcome of the run."""
    reasons = [f"{journal.path}: {what}" for journal in seen.journals for what in journal.broken[:_MOST]]
    if expect.result:
        reasons += [f"{folder} has no result.json" for folder in seen.unfinished]
    recorded = any(journal.lines for journal in seen.journals)
    if not recorded and all(outcome.shown for outcome in _candidates(expect, seen)):
        reasons.append("there is no recording")
    if recorded and seen.shown is not None:
        if seen.shown.exit != 0:
            reasons.append(f"grovescale show exited with {seen.shown.exit}: {_last_line(seen.shown.output)}")
        elif not _verdict(seen.shown):
            reasons.append("grovescale show does not say how the run ended")
        reasons += [f"grovescale show printed {what}" for what in internals(seen.shown.output)]
    return Answer(reasons=tuple(reasons))


def message(expect: Expectation, seen: Observation) -> Answer:
    """Check whether each run ended in time, with the right code and verdict, a reason and a next step."""
    reasons: list[str] = []
    for run in seen.runs:
        reasons += [what for what in _of_run(expect, run, seen.shown) if what not in reasons]
    return Answer(reasons=tuple(reasons))


def next_run(seen: Observation) -> Answer:
    """Check whether a small run in the same folders passes."""
    run = seen.next_run
    if run is None:
        return Answer(reasons=("it was not tried",))
    if run.exit is None:
        return Answer(reasons=(f"not ended after {run.seconds:.0f} s: {_last_line(run.output)}",))
    if run.exit != 0:
        return Answer(reasons=(f"exit code {run.exit}: {error_line(run.output)}",))
    return Answer(reasons=tuple(f"it printed {what}" for what in internals(run.output)))


def not_excused(names: Iterable[str], excused: Sequence[str]) -> list[str]:
    """Return the files that match none of the regular expressions, sorted."""
    return sorted(name for name in names if not any(re.match(text, name) for text in excused))


def internals(output: str) -> list[str]:
    """Return descriptions of internals in an output that users should never see."""
    return [what for pattern, what in _INTERNAL if re.search(pattern, output, re.MULTILINE)]


def error_line(output: str) -> str:
    """Return the most informative error line of pytest's output."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for start in ("E  ", "Failed: ", "ERROR ", "FAILED "):
        if (line := next((line for line in lines if line.startswith(start)), "")) != "":
            return line[:200]
    return _last_line(output)


def _of_run(expect: Expectation, run: Ended, shown: Ended | None) -> list[str]:
    if run.exit is None:
        return [f"not ended after {run.seconds:.0f} s; its last line: {_last_line(run.output)}"]
    reasons = internals(run.output)
    reasons += [f"a wrong cause: {text!r}" for text in _WRONG_CAUSES if re.search(text, run.output)]
    fitting = [outcome for outcome in expect.outcomes if run.exit in outcome.exits]
    if not fitting:
        codes = sorted({code for outcome in expect.outcomes for code in outcome.exits})
        return [*reasons, f"exit code {run.exit}, expected {codes}: {error_line(run.output)}"]
    # The violations of the best-matching outcome.
    return reasons + min((_against(outcome, run, shown) for outcome in fitting), key=len)


def _against(outcome: Outcome, run: Ended, shown: Ended | None) -> list[str]:
    against = [f"does not say {text!r}" for text in outcome.says if not re.search(text, run.output, re.IGNORECASE)]
    if outcome.next_step and not _NEXT_STEP.search(run.output):
        against.append("no next step")
    verdict = _verdict(shown) if shown is not None else ""
    if outcome.shown and verdict and verdict not in outcome.shown:
        against.append(f"verdict {verdict}, expected {' or '.join(outcome.shown)}")
    return against


def _candidates(expect: Expectation, seen: Observation) -> list[Outcome]:
    """Return the outcomes that the runs' exit codes allow; all when none does."""
    codes = {run.exit for run in seen.runs}
    return [outcome for outcome in expect.outcomes if codes & set(outcome.exits)] or list(expect.outcomes)


def _verdict(shown: Ended) -> str:
    match = re.search(r"^(PASSED|FAILED|INCONCLUSIVE|INTERRUPTED|ERROR)\b", shown.output, re.MULTILINE)
    return match[1] if match else ""


def _last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1].strip()[:200] if lines else "(no output)"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return "; ".join(names[:_MOST]) + more
