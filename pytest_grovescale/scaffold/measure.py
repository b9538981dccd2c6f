"""``grovescale init --measure``: three runs of the first test, and bounds of its figures with a margin."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ..analysis.result import TestResult
from ..analysis.run_metrics import metrics_of
from ..checks.check import decode
from ..checks.judge import judge
from ..checks.run import Run
from ..errors import ExitCode, RecordingError, UsageError
from ..report import result_file
from .files import FOLDER, Plan

RUNS = 3
BUDGETS = f"{FOLDER}/budgets.yaml"
REPORTS = "reports/init"

_OF_COUNTS = 1.25
"""Margin of requests: how often an object is read and updated depends on retries."""
_OF_CPU = 4.0
"""Margin of CPU: the same work costs more on a machine that other programs use (docs/budgets.md)."""
_OF_MEMORY = 1.5
_OF_TIMES = 4.0
_LEAST_S = 5.0

Line = Callable[[str], None]


def measure(root: Path, plan: Plan, *, say: Line, write: Line) -> int:
    """Run the plan's test three times and write ``budgets.yaml``; return the exit code of the first run that fails.

    Raises UsageError where there are budgets already.
    """
    if (root / BUDGETS).exists():
        raise UsageError(f"{BUDGETS} is there already", next_step="Remove it to measure again; it is left as it is.")
    results: list[TestResult] = []
    for number in range(1, RUNS + 1):
        say(f"\nrun {number} of {RUNS}: {plan.test}")
        arguments = [f"--grovescale-reports={REPORTS}", "--grovescale-budgets=off", plan.test]
        if code := _pytest(arguments, root):
            say(f"run {number} did not pass, so that nothing can be bounded yet")
            return ExitCode.FAILED if code == 1 else ExitCode.INFRASTRUCTURE
        results.append(_result(root))
    text = budgets(results)
    with (root / BUDGETS).open("x", encoding="utf-8") as file:
        file.write(text)
    write(f"\n{BUDGETS}: written, from {RUNS} runs")
    write(f"\nnext: {plan.next_command}")
    return ExitCode.PASSED


def _pytest(arguments: Sequence[str], root: Path) -> int:
    """Run pytest in a project, with this terminal. It has ended when this returns, also after Ctrl-C, which it gets."""
    process = subprocess.Popen([sys.executable, "-m", "pytest", "--grovescale", *arguments], cwd=root)
    try:
        return process.wait()
    finally:
        while process.poll() is None:
            with contextlib.suppress(KeyboardInterrupt):
                process.wait()


def _result(root: Path) -> TestResult:
    tests = result_file.read(root / REPORTS / "latest" / result_file.NAME).tests
    if len(tests) != 1:
        raise RecordingError(f"{REPORTS}: the run has {len(tests)} tests, one was expected")
    return tests[0]


def budgets(results: Sequence[TestResult]) -> str:
    """Return ``budgets.yaml`` with bounds for the figures of some runs of one test: those that hold for all of them."""
    measured = [metrics_of(result) for result in results]
    name = results[0].test.rpartition("::")[2].partition("[")[0]
    lines = [
        f"# Bounds from {len(results)} runs of this test, with a margin. Each stands beside what was measured; a bound",
        "# on a count may be made exact, one on CPU or time has to hold on a machine that others use, too.",
        "tests:",
        f"  {name}:",
    ]
    for bound in _bounds(measured, results[0]):
        plain = {key: value for key, value in bound.check.items() if key != "check"}
        arguments = yaml.safe_dump(plain, default_flow_style=True, sort_keys=False, width=1000).strip()
        judged = [judge(decode(bound.check), Run(result)) for result in results]
        if undecided := next((one for one in judged if one.verdict != "pass"), None):
            lines.append(f"    # {bound.check['check']}: {arguments}: left out, {undecided.verdict}: {undecided.text}")
        else:
            lines.append(f"    - {bound.check['check']}: {arguments} # {_range(bound.values, bound.unit)}")
    return "\n".join(lines) + "\n"


class _Bound(NamedTuple):
    check: dict[str, Any]
    """As `checks.check.encode` returns it."""
    values: list[float]
    """What was measured, one for each run."""
    unit: str = ""


def _bounds(measured: Sequence[Mapping[str, float]], first: TestResult) -> Iterator[_Bound]:
    def of(key: str, factor: float = 1.0) -> list[float]:
        return [run[key] * factor for run in measured] if all(key in run for run in measured) else []

    each, per_object = (1 / first.objects, {"per_object": True}) if first.objects else (1.0, {})
    if writes := of("writes:steady-state"):
        yield _Bound({"check": "noop_writes", "max": math.ceil(max(writes))}, writes)
    of_deploy = {"check": "api_requests", "phase": "deploy", **per_object}
    if creates := of("verb:deploy/create", each):
        yield _Bound({**of_deploy, "verb": "create", "max": _rounded(max(creates) * _OF_COUNTS)}, creates)
    if requests := of("api:deploy", each):
        yield _Bound({**of_deploy, "max": _rounded(max(requests) * _OF_COUNTS)}, requests)
    if cpu := of("cpu:deploy", 1000 * each):
        bound = f"{_rounded(max(cpu) * _OF_CPU):g}ms"
        yield _Bound({"check": "cpu", "phase": "deploy", "max": bound, **per_object}, cpu, "ms")
    peaks = [max((value for key, value in run.items() if key.startswith("rss:")), default=0.0) for run in measured]
    if all(peaks):
        bound = f"{math.ceil(max(peaks) / 2**20 * _OF_MEMORY)}Mi"
        yield _Bound({"check": "rss", "max": bound}, [peak / 2**20 for peak in peaks], "MiB")
    # Not of the deletion: what goes with an object waits for the garbage collector, up to 30 s for a kind new to it.
    deploy = next((phase for phase in first.phases if phase.name == "deploy"), None)
    for milestone in deploy.milestones if deploy is not None else ():
        if times := of(f"milestone:deploy/{milestone.name}"):
            bound = f"{_rounded(max(max(times) * _OF_TIMES, _LEAST_S)):g}s"
            yield _Bound({"check": "milestone", "name": milestone.name, "phase": "deploy", "max": bound}, times, "s")


def _rounded(value: float) -> float:
    """Return a number with two digits, rounded up."""
    if value <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return round(math.ceil(value / step - 1e-9) * step, 6)


def _range(values: Sequence[float], unit: str) -> str:
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return f"{low if low == high else f'{low} to {high}'} {unit}".rstrip()
