"""Intermittent CPU load while a command runs, to test comparisons on a machine with neighbours.

    python -m benchmarks.hog -- grovescale compare --parts noop --no-early-stop --no-profile --max-contention 100%
    python -m benchmarks.hog -- grovescale compare --set-b defect=noop-cpu-10 --parts noop … (the same)
    grovescale selftest noise FOLDER… --output noise.json --how "…"
    grovescale selftest power --noise noise.json [--max-contention 100%]

On and off times are drawn evenly from ranges (``--on``, ``--off``, seconds) by ``--seed``, the same for all cores.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

_HOG = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(1_000_000):
        pass
"""
"""Ends with the process that started it, however that ends."""

_LOOK_S = 0.1


@contextlib.contextmanager
def hogs(cores: int) -> Iterator[None]:
    """Run this many programs that each use a core during the block, in sessions (scheduling groups) of their own."""
    with contextlib.ExitStack() as stack:
        for _ in range(cores):
            command = [sys.executable, "-c", _HOG, str(os.getpid())]
            process = stack.enter_context(subprocess.Popen(command, start_new_session=True))
            stack.callback(process.kill)
        yield


def beside(
    command: Sequence[str], *, cores: int, on: tuple[float, float], off: tuple[float, float], seed: int
) -> tuple[int, float]:
    """Run a command under intermittent load; return its exit code, and the share of the time with load."""
    chance = random.Random(seed)
    began, hogged = time.monotonic(), 0.0
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            _wait(process, chance.uniform(*off))
            if process.poll() is None:
                came = time.monotonic()
                with hogs(cores):
                    _wait(process, chance.uniform(*on))
                hogged += time.monotonic() - came
    return process.returncode, hogged / (time.monotonic() - began)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait this many seconds, or until the process has ended."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(seconds, _LOOK_S))


def _range(text: str) -> tuple[float, float]:
    low, _, high = text.partition("-")
    return float(low), float(high or low)


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hog", description=__doc__)
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="hogs at a time (one per core)")
    parser.add_argument("--on", type=_range, default=(20.0, 90.0), metavar="S-S", help="how long it stays (20-90)")
    parser.add_argument("--off", type=_range, default=(20.0, 90.0), metavar="S-S", help="how long it is away (20-90)")
    parser.add_argument("--seed", type=int, default=545)
    parser.add_argument("command", nargs="+", help="what is run beside it, after --")
    options = parser.parse_args()
    code, share = beside(options.command, cores=options.cores, on=options.on, off=options.off, seed=options.seed)
    print(f"{options.cores} hogs were there for {share:.0%} of the time (seed {options.seed})")  # noqa: T201
    return code


if __name__ == "__main__":
    sys.exit(main())
