"""Figures in words: with their unit, three significant figures, and no control characters."""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..analysis.result import Scalar

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_MARKDOWN = re.compile(r"([\\`*_\[\]<>|#~])")

_FEW = 3
"""Numbers up to which a list is written out."""

_IN_ASCII = {
    "→": "->", "←": "<-", "↑": "^", "↓": "v", "×": "x", "·": "*", "…": "...", "–": "-", "—": "-", "−": "-", "µ": "u",
    "μ": "u", "±": "+/-", "≤": "<=", "≥": ">=", "≈": "~", "≠": "!=", "Δ": "delta ", "κ": "kappa", "✓": "ok",
    "━": "=", "─": "-", "│": "|", "┃": "|", "█": "#",
}  # fmt: skip
"""Replacements for characters of tables and messages that the terminal's encoding lacks."""

NONE = "–"
"""Placeholder for a figure that was not measured or does not apply."""


def plain(text: str) -> str:
    """Return text without control characters and escape sequences: names and messages are foreign text."""
    return _CONTROL.sub("", text.replace("\t", "    "))


def encodable(text: str, encoding: str) -> str:
    """Return text with replacements for the characters that an encoding lacks."""
    return text.encode(encoding, IN_ASCII).decode(encoding)


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    part = error.object[error.start : error.end]
    return "".join(_IN_ASCII.get(character, "?") for character in part), error.end


IN_ASCII = "grovescale"
"""Error handler of encodings that replaces what they lack: ``text.encode("ascii", IN_ASCII)``."""
codecs.register_error(IN_ASCII, _in_ascii)


def escape(text: str) -> str:
    """Return text that Markdown shows unchanged, in one line."""
    return _MARKDOWN.sub(r"\\\1", " ".join(plain(text).split()))


def three(value: float) -> str:
    """Return a number with three significant figures and no exponent: ``0.0123``, ``1.20``, ``123``, ``12,345``."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.3g}")
    if abs(rounded) >= 100:
        return f"{value:,.0f}"
    digits = 2 if abs(rounded) >= 1 else 3
    if abs(rounded) >= 10:
        digits = 1
    if abs(rounded) >= 0.1:
        return f"{value:.{digits}f}"
    # Four places are enough to read, unless they hide the figure.
    places = 4 if abs(rounded) >= 0.001 else 2 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:.{places}f}".rstrip("0")


def seconds(value: float) -> str:
    """Return a time: ``412 ms``, ``3.42 s``, ``41.3 s``, ``2m05s``."""
    if abs(value) < 0.9995:
        return f"{three(value * 1000)} ms" if abs(value) >= 1e-6 else "0 s"
    if abs(value) < 119.95:
        return f"{three(value)} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m{rest:02d}s" if hours else f"{minutes}m{rest:02d}s"


def bytes_(value: float) -> str:
    """Return a size in MB or GB (powers of ten): ``96.4 MB``."""
    if value >= 999.5e6:
        return f"{three(value / 1e9)} GB"
    return f"{three(value / 1e6)} MB"


def percent(share: float) -> str:
    """Return a share: ``97 %``, ``3.4 %``, ``0.02 %``."""
    value = share * 100
    if value >= 9.95 or value == 0:
        return f"{value:.0f} %"
    return f"{value:.1f} %" if value >= 0.095 else f"{value:.2f} %"


def count(value: int) -> str:
    """Return a count: ``12,345``."""
    return f"{value:,}"


def figure(value: float | None, unit: str | None = None) -> str:
    """Return a figure with its unit: ``4.31 s``, ``96.4 MB``, ``1.20×``; counts without one: ``1,003``, ``2.50``."""
    if value is None:
        return NONE
    match unit:
        case "s":
            return seconds(value)
        case "bytes":
            return bytes_(value)
        case "times":
            return f"{three(value)}×"
        case _:
            return count(int(value)) if float(value).is_integer() else three(value)


def milliseconds(value: float) -> str:
    """Return a latency given in ms: ``0.84 ms``, ``12.3 ms``, ``1.20 s``."""
    return seconds(value / 1000) if value >= 999.5 else f"{three(value)} ms"


def fact(value: Scalar) -> str:
    """Return a fact about the cluster or a parameter."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return three(value) if isinstance(value, float) else str(value)


def fact_values(found: Sequence[Scalar]) -> str:
    """Return the values that a fact had in several runs; of many numbers only the range."""
    numbers = [value for value in found if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) == len(found) > _FEW:
        return f"{fact(min(numbers))} to {fact(max(numbers))}"
    return " or ".join(fact(value) for value in found)
