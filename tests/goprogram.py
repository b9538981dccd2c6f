"""Small Go programs, each built once for all workers: one with net/http/pprof, to be started; Prometheus' linter."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from pytest_grovescale.endpoints import Address

SOURCES = Path(__file__).parent / "data"
# As Go finds them, but before a test has a home of its own: all modules would be fetched and compiled again there.
BUILD_CACHE = os.environ.get("GOCACHE") or str(
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "go-build"
)
MODULE_CACHE = os.environ.get("GOMODCACHE") or str(
    Path(os.environ.get("GOPATH") or Path.home() / "go").absolute() / "pkg" / "mod"
)


def build(shared: Path, name: str = "goprogram") -> Path:
    """Return a program of ``tests/data``, built into a folder that all workers share; skips the test without Go."""
    go = shutil.which("go")
    if go is None:
        pytest.skip(f"needs a Go toolchain on PATH, to build tests/data/{name}")
    program = shared / name
    with FileLock(f"{program}.lock"):
        if not program.exists():
            environment = {
                **os.environ,
                "CGO_ENABLED": "0",
                "GOCACHE": BUILD_CACHE,
                "GOTOOLCHAIN": "local",
                "GOWORK": "off",
            }
            command = [go, "build", "-buildvcs=false", "-o", str(program), "."]
            subprocess.run(command, cwd=SOURCES / name, env=environment, check=True)
    return program


@contextmanager
def running(program: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], Address]]:
    """The program at work, and where its pprof answers; its certificate vouches for it where it serves TLS."""
    with tempfile.NamedTemporaryFile("w+") as errors:
        process = subprocess.Popen([str(program), *arguments], stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url, Path(errors.name).read_text()
            ca_file = errors.name if url.startswith("https") else ""
            yield process, Address(url=f"{url}/debug/pprof", ca_file=ca_file)
        finally:
            process.kill()
            process.communicate()
