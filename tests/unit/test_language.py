"""Words that the project's code, messages and docs do not use: the field has better ones, or a sentence is clearer."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("pytest_grovescale", "tools", "benchmarks", "docs", "examples", "fixtures", "images", "*.md", "Makefile")
BANNED = re.compile(
    r"(?<![A-Za-z])(told|tells|anew|nobody|somebody|whoever|whom|lets? \w* ?off|in vain|for want of|asked by|"
    r"as it was made)(?![A-Za-z])",
    re.IGNORECASE,
)
EXCEPTIONS = {
    "CHANGELOG.md": "what was released stays as it was",
    "fixtures/crds": "of their own projects",
    "pytest_grovescale/report/html/vendor": "of their own projects",
}


def test_no_file_uses_a_banned_word() -> None:
    listed = subprocess.run(["git", "ls-files", *PLACES], cwd=ROOT, check=True, capture_output=True, text=True)
    used = [
        f"{name}:{number}: {match[0]!r}"
        for name in listed.stdout.split()
        if not name.startswith(tuple(EXCEPTIONS)) and (ROOT / name).suffix not in (".png", ".svg", ".json")
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1)
        for match in BANNED.finditer(line)
    ]
    assert not used, "\n".join(used)
