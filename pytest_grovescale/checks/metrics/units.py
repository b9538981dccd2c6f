"""Units in the names of metric families: base units, others of the same quantity, prefixes, abbreviations.

As in client_golang, prometheus/testutil/promlint/validations; base units:
https://prometheus.io/docs/practices/naming/#base-units.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

BASE = ("amperes", "bytes", "celsius", "grams", "joules", "kelvin", "meters", "metres", "ratio", "seconds", "volts")

OTHER = {
    "minutes": "seconds",
    "hours": "seconds",
    "days": "seconds",
    "weeks": "seconds",
    "kelvins": "kelvin",
    "fahrenheit": "celsius",
    "rankine": "celsius",
    "inches": "meters",
    "yards": "meters",
    "miles": "meters",
    "bits": "bytes",
    "calories": "joules",
    "pounds": "grams",
    "ounces": "grams",
    "percent": "ratio",
    "percentage": "ratio",
}
"""Unit → the base unit of the same quantity."""

SCALED = {
    **dict.fromkeys(("core", "cores", "cpu", "cpus"), "cores"),
    **dict.fromkeys(("hertz", "hz"), "hertz"),
    **dict.fromkeys(("watt", "watts"), "watts"),
}
"""What is a unit beyond doubt with a prefix only (``millicores``) → the unit without it."""

PREFIXES = (
    *("pico", "nano", "micro", "milli", "centi", "deci", "deca", "hecto", "kilo", "mega", "giga", "tera", "peta"),
    *("kibi", "mebi", "mibi", "gibi", "tebi", "pebi"),
)

ABBREVIATIONS = {
    **dict.fromkeys(("s", "ms", "us", "ns", "sec", "m", "h", "d"), "seconds"),
    **dict.fromkeys(("secs", "msec", "msecs", "millis", "usec", "usecs", "micros", "nanos", "mins", "hrs"), "seconds"),
    **dict.fromkeys(("kbyte", "kbytes", "mbyte", "mbytes", "gbyte", "gbytes"), "bytes"),
    **dict.fromkeys(("b", "kb", "mb", "gb", "tb", "pb", "kib", "mib", "gib", "tib"), "bytes"),
    **dict.fromkeys(("pct", "perc"), "ratio"),
    **dict.fromkeys(("mcores", "mcpu", "mcpus"), "cores"),
    **dict.fromkeys(("khz", "mhz", "ghz"), "hertz"),
    **dict.fromkeys(("bps", "kbps", "mbps", "gbps"), "bytes_per_second"),
}
"""Abbreviated unit → the base unit that it most likely stands for."""


OF_TEMPERATURES = {f"{word}_{unit}": f"{word}_celsius" for word in ("temp", "temperature") for unit in ("c", "f")}
"""Words with a unit that is one beside them only → what to write."""


MULTIPLES = re.compile(r"_(?:hundreds|thousands|millions|billions)(?=_|$)")
"""Words of a number that is not counted in ones."""


class Unit(NamedTuple):
    """A word of a name that is a unit."""

    word: str
    base: str
    """The base unit of its quantity; may be the word itself."""


@functools.lru_cache(maxsize=4096)
def unit_in(name: str) -> Unit | None:
    """Return the first unit among the words of a name."""
    for word in name.split("_"):
        for prefix in ("", *PREFIXES):
            rest = word.removeprefix(prefix)
            base = rest if rest in BASE else OTHER.get(rest) or (SCALED.get(rest) if prefix else None)
            if word.startswith(prefix) and base is not None:
                return Unit(word, base)
    return None
