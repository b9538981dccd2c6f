"""The faults' answers as a table: for the terminal, and as Markdown for reports/sample/faults.md."""

from __future__ import annotations

from collections.abc import Sequence

from .definitions import Answer, Row

_QUESTIONS = ("left over?", "lost?", "message?", "next run?")
_ANSWERS = (("nothing", "LEFT"), ("nothing", "LOST"), ("right", "WRONG"), ("passes", "FAILS"))


def line(row: Row) -> str:
    """Return one fault's line, followed by its failed answers."""
    head = f"{row.fault.number:4}  {row.fault.kind}: {row.fault.text} ({row.seconds:.0f} s): "
    head += "perfect" if row.perfect else ("skipped" if row.skipped else "not perfect")
    return "\n".join([head, *(f"        {why}" for why in row.reasons)])


def summary(rows: Sequence[Row]) -> str:
    """Return in one sentence how many faults were perfect."""
    skipped = sum(bool(row.skipped) for row in rows)
    missed = sum(bool(row.missed) for row in rows)
    rest = [f"{skipped} skipped"] * bool(skipped) + [f"{missed} did not strike"] * bool(missed)
    perfect = sum(row.perfect for row in rows)
    return f"{perfect} of {len(rows)} faults perfect" + (f"; {', '.join(rest)}" if rest else "")


def markdown(rows: Sequence[Row], *, seed: int, seconds: float, machine: str) -> str:
    """Return the whole table; ``seconds``: total duration, ``machine``: as text."""
    lines = [
        "# Faults",
        "",
        "Runs that were broken on purpose, and four questions to each: is anything left over, is anything of the",
        "recording lost, does the message name cause and next step with the right verdict, does the next run pass?",
        "",
        f'`make faults ARGS="--seed={seed} --count={len(rows)}"`, {machine}, {seconds / 60:.0f} minutes.',
        "",
        f"**{summary(rows)}.**",
        "",
    ]
    if imperfect := [row for row in rows if not row.perfect]:
        lines += ["## Not perfect", ""]
        lines += [f"- {row.fault.number} {_cell(row.fault.kind)}: {_cell('; '.join(row.reasons))}" for row in imperfect]
        lines.append("")
    lines += ["## All", "", f"| | kind | fault | {' | '.join(_QUESTIONS)} | s |", "|---:|---|---|---|---|---|---|---:|"]
    return "\n".join([*lines, *map(_row, rows)]) + "\n"


def _row(row: Row) -> str:
    if row.skipped or row.missed:
        cells = ["skipped" if row.skipped else "did not strike", "", "", ""]
    else:
        cells = [_word(answer, words) for answer, words in zip(row.answers, _ANSWERS, strict=True)]
    texts = [str(row.fault.number), row.fault.kind, _cell(row.fault.text), *cells, f"{row.seconds:.0f}"]
    return f"| {' | '.join(texts)} |"


def _word(answer: Answer, words: tuple[str, str]) -> str:
    good, bad = words
    return good if answer.good else f"**{bad}**"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
