"""Words that the project's code, messages and docs do not use: the field has better ones, or a sentence is clearer."""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("pytest_grovescale", "tools", "benchmarks", "docs", "examples", "fixtures", "images", "*.md", "Makefile")
BANNED = re.compile(
    r"(?<![A-Za-z])(told|tells|anew|nobody|somebody|whoever|whom|lets? \w* ?off|in vain|for want of|asked by|"
    r"as it was made)(?![A-Za-z])",
    re.IGNORECASE,
)
IN_NAMES = re.compile(
    r"(?:^|_)(told|tells|untold|anew|nobodys?|somebodys?|whoever|whom|in_vain)(?=_|$)|^_?(room|plane)s?$", re.IGNORECASE
)
"""The same in names of tests, fixtures and their modules; and two words for what has a name: harness, control plane."""

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


def test_no_test_fixture_or_module_has_a_banned_word_in_its_name() -> None:
    listed = subprocess.run(["git", "ls-files", "tests"], cwd=ROOT, check=True, capture_output=True, text=True)
    files = [Path(name) for name in listed.stdout.split() if name.endswith(".py")]
    used = [f"{file}: {part}" for file in files for part in (*file.parent.parts, file.stem) if IN_NAMES.search(part)]
    used += [f"{file}:{line}: {name}" for file in files for line, name in names(ROOT / file) if IN_NAMES.search(name)]
    assert not used, "\n".join(used)


def names(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the names in a module, with their lines."""
    tokens = tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline)
    yield from ((token.start[0], token.string) for token in tokens if token.type == tokenize.NAME)
