"""Texts for golden files: what the program says, without the parts that differ from run to run.

Whole sentences are kept in the golden files beside the tests (``__snapshots__``), which ``make golden`` rewrites. A
test itself asserts what is behaviour: verdicts, figures, names, their order, what is absent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:m\d+s)?")


def masked(text: str, parts: Mapping[object, str] | None = None, *, numbers: bool = False) -> str:
    """Return a text with each part, as it would be printed, replaced by its name in angle brackets.

    ``numbers``: replace each number too, for figures that were measured on this machine.
    """
    for part, name in sorted((parts or {}).items(), key=lambda item: -len(str(item[0]))):
        text = text.replace(str(part), f"<{name}>")
    return _NUMBER.sub("<number>", text) if numbers else text
