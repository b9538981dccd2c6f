"""What each kind of process loads when it starts: a run starts several of them, and a suite hundreds."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = "import sys; print(*sys.modules, sep='\\n')"


def loaded(statement: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", f"{statement}\n{LOADED}"], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


@pytest.mark.parametrize(
    ("module", "without"),
    [
        ("plugin", {"aiohttp", "asyncio", "jinja2", "kubernetes", "msgspec", "numpy", "rich", "yaml"}),
        ("session.test_run", {"cryptography", "kubernetes", "numpy", "scipy"}),
        ("session.session_summary, pytest_grovescale.report.html.files", {"aiohttp", "kubernetes", "numpy", "scipy"}),
        ("recording.process", {"cryptography", "jinja2", "kubernetes", "numpy", "pytest", "rich"}),
        ("cluster.supervisor", {"aiohttp", "cryptography", "jinja2", "kubernetes", "numpy", "pytest", "rich"}),
        ("cluster.existing.cleanup", {"cryptography", "jinja2", "kubernetes", "numpy", "pytest", "rich"}),
        ("reference_operator.program", {"cryptography", "jinja2", "kubernetes", "numpy", "pytest", "rich"}),
    ],
)
def test_a_process_starts_without_what_it_may_never_need(module: str, without: set[str]) -> None:
    assert without & loaded(f"import pytest_grovescale.{module}") == set()
