"""What a check found: a figure, its bound, and the rule by which the two become a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from ..analysis.result import Verdict

Unit = Literal["", "s", "B", "×", "1/s"]
"""Empty for what is counted; ``×`` for a ratio."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One check's answer, before it is known who asked."""

    phase: str
    verdict: Verdict
    subject: str = ""
    """What was judged, in words; `text` begins with it."""
    figure: float | None
    bound: float
    unit: Unit
    text: str
    evidence: tuple[str, ...] = ()


def at_most(
    phase: str,
    what: str,
    figure: float,
    bound: float,
    unit: Unit = "",
    *,
    between: tuple[float, float] | None = None,
    doubts: Sequence[str] = (),
    evidence: Sequence[str] = (),
) -> Finding:
    """Return what a figure that should be no larger than a bound comes to.

    ``between``: the true figure lies between these, where it was not measured exactly; a bound between them decides
    nothing. ``doubts`` are reasons why the true figure may be larger than this one: what exceeds its bound does so
    whatever else is unknown, but nothing passes in doubt.
    """
    low, high = between or (figure, figure)
    if low <= bound < high:
        end = f"between {shown(low, unit)} and {shown(high, unit)}" if high < math.inf else f"above {shown(low, unit)}"
        doubts = [*doubts, f"it lies {end}"]
    verdict: Verdict = "fail" if low > bound else "inconclusive" if doubts else "pass"
    text = f"{what} {against(figure, bound, unit)}"
    if verdict == "inconclusive":
        text += f"; {'; '.join(doubts)}"
    return Finding(
        phase=phase,
        verdict=verdict,
        subject=what,
        figure=figure,
        bound=bound,
        unit=unit,
        text=text,
        evidence=tuple(evidence),
    )


def against(figure: float, bound: float, unit: Unit) -> str:
    """Return a figure and its bound, with as many digits as tell them apart: ``412 ms > 400 ms``, ``3 ≤ 3``."""
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
    return _rounded(value, digits)


def _rounded(value: float, digits: int) -> str:
    """Return a number with so many significant digits, and all that stand before the point."""
    if value == int(value) or abs(value) >= 10**digits:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"
