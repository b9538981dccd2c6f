"""Number formats of expositions."""

from __future__ import annotations

import functools
import math
from decimal import Decimal

_DIGITS = r"(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"
_INFINITY = r"[iI][nN][fF](?:[iI][nN][iI][tT][yY])?"
NUMBER = rf"(?:[+-]?(?:{_DIGITS}|{_INFINITY})|[nN][aA][nN])"
"""Pattern of a value: as Go's ``strconv.ParseFloat``, without ``_`` and hexadecimals, as in Prometheus."""


@functools.lru_cache(maxsize=10_000)
def written(value: float) -> str:
    """Return a number as Go writes it in the text format: ``0.25``, ``64``, ``1.5e+06``, ``+Inf``.

    The shortest digits that read back the same, with an exponent below 1e-4 and from 1e+06 on, as
    ``strconv.FormatFloat(value, 'g', -1, 64)``.
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e6:
        return repr(value).removesuffix(".0")
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)  # finite
    first, *others = map(str, digits)
    power = exponent + len(digits) - 1
    return f"{'-' * sign}{first}{'.' * bool(others)}{''.join(others)}e{'-' if power < 0 else '+'}{abs(power):02}"
