"""The package's long description, at its build: README.md without what works in a checkout only.

An index shows it without the repository beside it: a picture by a relative path is a broken one there, and a link to
``docs/`` leads nowhere.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"!\[[^\]]*\]\((?!https?:)[^)]*\)")
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")


class ReadmeHook(MetadataHookInterface):
    """Called by hatchling (`tool.hatch.metadata.hooks.custom`)."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the field ``readme``."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": description(text)}


def description(text: str) -> str:
    """Return a page without pictures and links by relative paths; what introduces such a picture goes with it."""
    kept: list[str] = []
    for block in text.split("\n\n"):
        if not _PICTURE.fullmatch(block.strip()):
            kept.append(_LINK.sub(r"\1", block))
        elif kept and kept[-1].endswith(":"):
            kept.pop()
    return "\n\n".join(kept)
