"""What a check comes to: a figure, its bound, the rule by which the two become a verdict, and how reports write it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from ..analysis.result import CheckResult, Verdict
from ..errors import CheckFailed, CheckInconclusive

Unit = Literal["", "s", "B", "×", "1/s", "cores"]
"""Empty for a count; ``×`` for a ratio."""

MOST = 10
"""Lines of evidence of one kind; further ones are counted."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One check's verdict with the figure behind it."""

    phase: str = ""
    verdict: Verdict
    subject: str = ""
    """What was judged, in words; `text` begins with it."""
    figure: float | None
    bound: float
    unit: Unit = ""
    text: str
    evidence: tuple[str, ...] = ()


def at_most(
    phase: str,
    subject: str,
    figure: float,
    bound: float,
    unit: Unit = "",
    *,
    between: tuple[float, float] | None = None,
    doubts: Sequence[str] = (),
    evidence: Sequence[str] = (),
) -> Outcome:
    """Return the outcome of a figure that should not exceed a bound.

    ``between``: the true figure lies between these, where it was not measured exactly; a bound between them decides
    nothing. ``doubts`` are reasons why the true figure may be larger: a figure above its bound fails all the same, but
    none passes in doubt.
    """
    low, high = between or (figure, figure)
    if low <= bound < high:
        end = f"between {shown(low, unit)} and {shown(high, unit)}" if high < math.inf else f"above {shown(low, unit)}"
        doubts = [*doubts, f"it lies {end}"]
    verdict: Verdict = "fail" if low > bound else "inconclusive" if doubts else "pass"
    return Outcome(
        phase=phase,
        verdict=verdict,
        subject=subject,
        figure=figure,
        bound=bound,
        unit=unit,
        text="; ".join([f"{subject} {against(figure, bound, unit)}", *(doubts if verdict == "inconclusive" else ())]),
        evidence=tuple(evidence),
    )


def against(figure: float, bound: float, unit: Unit) -> str:
    """Return a figure and its bound, with enough digits to tell them apart: ``412 ms > 400 ms``, ``3 ≤ 3``."""
    for digits in (3, 5, 8):
        texts = shown(figure, unit, digits), shown(bound, unit, digits)
        if figure == bound or texts[0] != texts[1]:
            break
    return f"{texts[0]} {'>' if figure > bound else '≤'} {texts[1]}"


def shown(value: float, unit: Unit, digits: int = 3) -> str:
    """Return a figure with its unit: ``412 ms``, ``210 MB``, ``1.23 times``, ``12,501``."""
    match unit:
        case "s" if abs(value) < 1:
            return f"{_rounded(value * 1e3, digits)} ms"
        case "s":
            return f"{_rounded(value, digits)} s"
        case "B":
            return f"{_rounded(value / 1e6, digits)} MB"
        case "×":
            return f"{_rounded(value, digits)} times"
        case "1/s":
            return f"{_rounded(value, digits)} a second"
        case "cores":
            return f"{_rounded(value, digits)} cores"
    return _rounded(value, digits)


def first(lines: Sequence[str], most: int = MOST) -> list[str]:
    """Return the first lines of evidence, and how many more there are."""
    rest = len(lines) - most
    return [*lines[:most], f"and {rest:,} more"] if rest > 0 else list(lines)


def headline(check: CheckResult) -> str:
    """Return figure and bound in one line: ``operator CPU in deploy 6.84 s > 5 s``."""
    where = f" in {check.phase}" if check.phase else ""
    if check.subject:
        return f"{check.subject}{where}{check.text.removeprefix(check.subject)}"
    return f"{check.check}{where}: {check.text}"


def line(check: CheckResult) -> str:
    """Return a verdict in one line: ``operator CPU in deploy 6.84 s > 5 s (fail; cpu("deploy", max="5s"), marker)``."""
    return f"{headline(check)} ({'; '.join([check.verdict, ', '.join(filter(None, (check.check, check.source)))])})"


def verdict_lines(results: Sequence[CheckResult]) -> str:
    """Return all verdicts, a line for each, followed by its evidence."""
    return "\n".join(text for check in results for text in (line(check), *(f"    {part}" for part in check.evidence)))


def failure(results: Sequence[CheckResult]) -> CheckFailed:
    """Return the error for checks that fail a test; its first line has the figure and bound of the worst of them."""
    ordered = sorted(results, key=lambda check: check.verdict != "fail")
    kind = CheckInconclusive if ordered[0].verdict == "inconclusive" else CheckFailed
    return kind(verdict_lines(ordered))


def _rounded(value: float, digits: int) -> str:
    """Return a number with so many significant digits, and all digits before the decimal point."""
    if value == int(value) or abs(value) >= 10**digits:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"
