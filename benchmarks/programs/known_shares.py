"""A program whose functions use known shares of its CPU time, and which measures them itself.

Four functions take turns in slices of 0.05 to 0.45 ms, in random order, so that neighbouring samples of a profiler
say nothing about each other. On SIGUSR1 it writes a line of JSON: nanoseconds of its thread's CPU clock that each
function has used, and all of it. It ends when its standard input does.
"""

import json
import os
import random
import signal
import sys
import threading
import time

WEIGHTS = {"alpha": 60, "beta": 25, "gamma": 10, "delta": 5}


def alpha(until: int) -> None:
    while time.thread_time_ns() < until:
        pass


def beta(until: int) -> None:
    while time.thread_time_ns() < until:
        pass


def gamma(until: int) -> None:
    while time.thread_time_ns() < until:
        pass


def delta(until: int) -> None:
    while time.thread_time_ns() < until:
        pass


FUNCTIONS = {"alpha": alpha, "beta": beta, "gamma": gamma, "delta": delta}


def main() -> None:
    """Burn CPU time until standard input ends."""
    used = dict.fromkeys(WEIGHTS, 0)
    asked = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: asked.set())
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    names, weights = list(WEIGHTS), list(WEIGHTS.values())
    _say("ready")
    while True:
        for name in random.choices(names, weights, k=100):
            before = time.thread_time_ns()
            FUNCTIONS[name](before + random.randrange(50_000, 450_000))
            used[name] += time.thread_time_ns() - before
            if asked.is_set():
                asked.clear()
                _say(json.dumps({**used, "all": time.thread_time_ns()}))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


main()
