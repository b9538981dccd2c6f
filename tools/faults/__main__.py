"""``python -m tools.faults``: inject faults into runs, and answer four questions about each.

Each fault runs in its own mount and pid namespace, with its own /tmp and /dev/shm: it affects nothing else on this
machine, and leaves nothing when this program is killed. Exit status: 0 all perfect or skipped, 1 not all, 130
interrupted.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from pytest_grovescale.cluster import machine_lock

from . import catalogue, folders, judging, table
from .definitions import Fault, Observation, Row, Size
from .worker import Order

_CHECKOUT = Path(__file__).resolve().parents[2]
_SCENARIO = _CHECKOUT / "tests" / "scale" / folders.SCENARIO
_SIZE = Size(nodes=20, replicas=50, hold_s=2)
SMALL = Size(nodes=2, replicas=2, hold_s=1)
_NAMESPACES = ("setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_FIRST_PROCESS = ("sh", "-c", '"$@"; exit $?', "sh")
"""The first process of a pid namespace has to reap orphans: the shell does."""
_INTERRUPTED = 130
_HIDDEN = ("/tmp", "/dev/shm")


class Workers:
    """The worker processes of all lanes, which can be ended at once."""

    def __init__(self, namespaces: Sequence[str]) -> None:
        self._namespaces = namespaces
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def observe(self, order: Order) -> Observation:
        """Run one fault in a worker and return the observation; a failed worker counts as ``missed``."""
        # The runs have their own /tmp and lock the machine there: they must not disturb measurements outside.
        with machine_lock.shared(command=f"make faults: {order.fault.kind}"):
            return self._observe(order)

    def _observe(self, order: Order) -> Observation:
        with self._lock:
            if self._ended:
                return Observation(skipped="interrupted")
            worker = subprocess.Popen(
                [*self._namespaces, *_FIRST_PROCESS, sys.executable, "-m", "tools.faults.worker"],
                cwd=_CHECKOUT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._running.add(worker)
        output, problems = worker.communicate(msgspec.json.encode(order))
        with self._lock:
            self._running.discard(worker)
        try:
            return msgspec.json.decode(output, type=Observation)
        except msgspec.DecodeError:
            return Observation(missed=f"the worker failed: {problems.decode(errors='replace')[-1000:]}")

    def end(self) -> None:
        """Kill all workers, with their namespaces and all processes in them."""
        with self._lock:
            self._ended = True
            for worker in self._running:
                os.killpg(worker.pid, signal.SIGKILL)


def namespaces() -> tuple[tuple[str, ...], str]:
    """Return the command that gives a fault its namespaces, or the reason why that is impossible."""
    below = [path for path in (_CHECKOUT, folders.default_cache(), Path(sys.executable)) if _is_hidden(path)]
    if below:
        return (), f"{below[0]} lies below a folder that each fault replaces ({' or '.join(_HIDDEN)})"
    if not folders.has_binaries(folders.default_cache()):
        return (), f"not all binaries are in {folders.default_cache()}: grovescale setup"
    why = "setpriv and unshare are not installed"
    # Without root: root of a user namespace, where other users cannot be.
    for command in (_NAMESPACES, (*_NAMESPACES, "--map-root-user")):
        try:
            done = subprocess.run([*command, "mount", "-t", "tmpfs", "none", "/tmp"], capture_output=True, text=True)
        except FileNotFoundError:
            break
        if done.returncode == 0:
            return command, ""
        why = f"no namespaces can be made: {done.stderr.strip()}"
    return (), why


def _is_hidden(path: Path) -> bool:
    return any(path.absolute().is_relative_to(hidden) for hidden in _HIDDEN)


def run(faults: Sequence[Fault], size: Size, *, lanes: int, patience: float) -> Iterator[tuple[Row, Observation]]:
    """Yield the row of each fault, with its observation, as soon as it is judged."""
    command, why = namespaces()
    if not command:
        for fault in faults:
            seen = Observation(skipped=why)
            yield judging.judge(fault, seen), seen
        return
    workers = Workers(command)
    cache = str(folders.default_cache())
    pool = concurrent.futures.ThreadPoolExecutor(lanes)
    orders = (
        Order(fault=fault, size=size, cache=cache, scenario=str(_SCENARIO), patience=patience) for fault in faults
    )
    waiting = {pool.submit(workers.observe, order): order.fault for order in orders}
    try:
        for done in concurrent.futures.as_completed(waiting):
            yield judging.judge(waiting[done], done.result()), done.result()
    finally:
        workers.end()
        # A lane may wait for the machine lock, which nothing interrupts.
        pool.shutdown(wait=False, cancel_futures=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    given = _parser().parse_args(arguments)
    # A shell that starts this in the background, and nohup, let it ignore signals, and so the runs.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    for number in (signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    faults = catalogue.short_list() if given.short else _chosen(given)
    if given.list:
        sys.stdout.writelines(f"{fault.number:4}  {fault.kind}: {fault.text}\n" for fault in faults)
        return 0
    began = time.monotonic()
    rows: list[Row] = []
    try:
        for row, seen in run(faults, SMALL if given.short else _SIZE, lanes=given.lanes, patience=given.patience):
            rows.append(row)
            _write(given, sorted(rows, key=lambda row: row.fault.number), row, seen, time.monotonic() - began)
    except KeyboardInterrupt:
        sys.stdout.write(f"interrupted; {table.summary(rows)}\n")
        sys.stdout.flush()
        # Python would wait for the lanes.
        os._exit(_INTERRUPTED)
    sys.stdout.write(f"{table.summary(rows)}, in {(time.monotonic() - began) / 60:.1f} minutes\n")
    return 0 if all(row.perfect or row.skipped for row in rows) else 1


def _write(given: argparse.Namespace, rows: Sequence[Row], row: Row, seen: Observation, seconds: float) -> None:
    """Show a new row, and write the requested files."""
    sys.stdout.write(f"{table.line(row)}\n")
    sys.stdout.flush()
    if given.keep is not None:
        _keep(given.keep, row, seen)
    if given.markdown is not None:
        machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
        text = table.markdown(rows, seed=given.seed, seconds=seconds, machine=machine)
        given.markdown.write_text(text, encoding="utf-8")


def _chosen(given: argparse.Namespace) -> list[Fault]:
    if given.number:
        last = max(given.number)
        return [fault for fault in itertools.islice(catalogue.faults(given.seed), last) if fault.number in given.number]
    return list(itertools.islice(catalogue.faults(given.seed, only=given.only), given.count))


def _keep(folder: Path, row: Row, seen: Observation) -> None:
    """Write the observation of one fault: all of it as JSON, and the outputs as text."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{row.fault.number:03}-{row.fault.kind}"
    (folder / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(seen), indent=2))
    programs = {**{f"run {number}": run for number, run in enumerate(seen.runs, start=1)}, "next run": seen.next_run}
    if seen.shown is not None:
        programs["grovescale show"] = seen.shown
    texts = [
        f"==== {title}: exit {ended.exit} after {ended.seconds} s\n{ended.output}"
        for title, ended in programs.items()
        if ended is not None
    ]
    (folder / f"{name}.txt").write_text("\n".join([table.line(row), *texts]), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the faults are drawn from it (1)")
    parser.add_argument("--count", type=int, default=120, metavar="N", help="how many faults (120)")
    parser.add_argument("--only", action="append", choices=sorted(catalogue.KINDS), metavar="KIND", default=[])
    parser.add_argument("--number", action="append", type=int, metavar="N", help="only this fault of the seed, again")
    parser.add_argument("--short", action="store_true", help="the fixed list of four that the tests run, small runs")
    parser.add_argument("--lanes", type=int, default=2, metavar="N", help="how many faults at once (2)")
    parser.add_argument("--patience", type=float, default=1, help="factor of all time limits, for a busy machine (1)")
    parser.add_argument("--list", action="store_true", help="print the faults and do nothing")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="rewrite the table there after each fault")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep all outputs and what was seen in this folder")
    return parser


if __name__ == "__main__":
    sys.exit(main())
