"""``python -m tools.kind``: an engine and images for tests on kind, around one command, or until ``down``.

``run -- COMMAND…`` creates what is missing, runs the command with the settings in its environment, and ends what it
started; ``up`` and ``down`` are its two halves. Exit status: the command's own; 69 where this machine cannot run an
engine (with ``--where-possible`` 0; the reason is printed either way); 1 after a failure.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from pytest_grovescale.cluster import binaries, locks, versions
from pytest_grovescale.errors import GrovescaleError

from . import engine, node_images, pod_images
from .engine import Engine, EngineMissing
from .processes import run

IMPOSSIBLE = os.EX_UNAVAILABLE

_USED = "engine.lock"
"""Held, shared, by every run that uses the engine."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    given = _parser().parse_args(arguments)
    say = _progress(time.monotonic())
    cache = binaries.cache_root() / "kind"
    cache.mkdir(parents=True, exist_ok=True)
    try:
        if given.do == "down":
            return _down(say)
        with _making(cache, say):
            found, started = engine.ensure(cache, say)
            environment = _make(found, started, given.kubernetes, cache, say)
            used = locks.take(cache / _USED, shared=True)
        assert used is not None
        with used:
            if given.do == "up":
                sys.stdout.writelines(f"export {name}={shlex.quote(value)}\n" for name, value in environment.items())
                return 0
            try:
                return _around(given.command, environment)
            finally:
                used.close()
                if started:
                    _end(found, cache, say)
    except EngineMissing as error:
        sys.stderr.write(f"no tests on kind here: {error}\n")
        return 0 if given.do == "run" and given.where_possible else IMPOSSIBLE
    except GrovescaleError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.kind", description=__doc__)
    subparsers = parser.add_subparsers(dest="do", required=True)
    around = subparsers.add_parser("run", help="make what is missing, run a command, end what was started")
    around.add_argument("--where-possible", action="store_true", help="succeed where no engine can be run")
    around.add_argument("command", nargs="+", metavar="COMMAND")
    up = subparsers.add_parser("up", help="make what is missing and leave it running; prints the environment")
    for each in (around, up):
        each.add_argument("--kubernetes", default=versions.DEFAULT_KUBERNETES, type=versions.kubernetes)
    subparsers.add_parser("down", help="end an engine of ours and remove its containers; its images stay")
    return parser


def _progress(began: float) -> Callable[[str], None]:
    def say(text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - began:6.1f} s  {text}\n")

    return say


def _make(found: Engine, started: bool, kubernetes: str, cache: Path, say: Callable[[str], None]) -> dict[str, str]:
    """Create the images and return the settings for the tests; on failure, end an engine started for it."""
    try:
        image = node_images.ensure(found, kubernetes, cache, say)
        engine.require_privileged(found, image)
        archives = {
            "GROVESCALE_TEST_KWOK_ARCHIVE": pod_images.ensure_kwok(found, kubernetes, cache, say),
            "GROVESCALE_TEST_OPERATOR_ARCHIVE": pod_images.ensure(found, pod_images.OPERATOR, cache, say),
            "GROVESCALE_TEST_HARNESS_ARCHIVE": pod_images.ensure(found, pod_images.HARNESS, cache, say),
        }
    except BaseException:
        if started:
            engine.stop(found, say)
        raise
    sizes = (f"{path.name} {path.stat().st_size / 1e6:.0f} MB" for path in archives.values())
    say(f"node image {image}; {', '.join(sizes)}")
    names = {name: str(path) for name, path in archives.items()}
    return {**found.environment, "GROVESCALE_TEST_KIND": image, **names}


def _around(command: list[str], environment: dict[str, str]) -> int:
    """Run a command, with clusters in a separate folder; end the clusters that it leaves."""
    with tempfile.TemporaryDirectory(prefix="grovescale-kind-") as state:
        its = {**os.environ, **environment, "GROVESCALE_STATE_DIR": state}
        try:
            return subprocess.run(command, env=its, check=False).returncode
        finally:
            run([sys.executable, "-m", "pytest_grovescale.cli", "down", "--all"], environment=its)


def _making(cache: Path, say: Callable[[str], None]) -> AbstractContextManager[None]:
    return locks.held(cache / "making.lock", waiting=lambda: say("waiting: another process is making images"))


def _end(found: Engine, cache: Path, say: Callable[[str], None]) -> None:
    """End an engine that was started here, unless another run uses it by now."""
    with _making(cache, say):
        alone = locks.take(cache / _USED, wait=False)
        if alone is None:
            say("others use the container engine, it stays; end it with: python -m tools.kind down")
            return
        with alone:
            engine.stop(found, say)


def _down(say: Callable[[str], None]) -> int:
    found = engine.running()
    if found is None or not found.is_ours:
        say("no engine of ours runs")
        return 0
    engine.stop(found, say)
    return 0


if __name__ == "__main__":
    # As for Ctrl-C: everything started here is ended.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
