"""Comparability of two sets of runs: differences between them beside the compared one."""

from __future__ import annotations

from collections.abc import Sequence

from .in_force import in_force
from .result import Scalar, TestResult
from .run_metrics import OPERATOR

NO_OPERATOR = "none"
"""Name used instead of an operator's where a test runs on the bare cluster."""

_OPERATOR = "operator"
"""Parameter of a test: the name of its operator's definition."""

RUNS_AS = "operator_runs_as"
"""Parameter of a test: ``process`` or ``pod``."""


def backend_of(test: TestResult) -> str:
    """Return the backend of a run's cluster; empty if unknown."""
    return str(test.cluster.get("backend", ""))


def unlike(a: Sequence[TestResult], b: Sequence[TestResult]) -> list[str]:
    """Return the differences between the runs of A and of B that prevent a comparison: ``backend: local and kind``."""
    sides = [[_facts(test) for test in side] for side in (a, b)]
    found = []
    for what in _facts(a[0]) if a else ():
        told = [", ".join(sorted({facts[what] for facts in side})) for side in sides]
        if told[0] != told[1]:
            found.append(f"{what}: {told[0]} and {told[1]}")
    return found


def differences(a: Sequence[TestResult], b: Sequence[TestResult]) -> list[str]:
    """Return the parameters, sizes and machines that differ between the runs of A and of B: ``replicas: 100 and 1000``.

    The operator is left out: it is what is compared. A parameter that was not set has no value there.
    """
    found = in_force(*([_conditions(test) for test in side] for side in (a, b))).differing
    return [
        f"{name}: {' and '.join(', '.join(map(str, values)) or 'not given' for values in sides)}"
        for name, sides in found.items()
    ]


def _conditions(test: TestResult) -> dict[str, Scalar]:
    machine = test.machine
    sizes = {
        f"{milestone.name} in {phase.name}": milestone.wanted
        for phase in test.phases
        for milestone in phase.milestones
        if milestone.wanted is not None
    }
    parameters = {name: value for name, value in test.parameters.items() if name != _OPERATOR}
    label = f"{machine.fingerprint} ({machine.cores} × {machine.cpu})"
    return {"machine": label, **parameters, **sizes, **test.cluster}


def _facts(test: TestResult) -> dict[str, str]:
    """Return facts that should be equal in compared runs, and those of the machine they ran on."""
    sources = {row.source for phase in test.phases for row in phase.cpu if row.process == OPERATOR}
    clocks = {one.clock for phase in test.phases for one in phase.milestones if one.met and one.clock != "recorder"}
    logged = all(phase.audit_complete for phase in test.phases)
    return {
        "backend": backend_of(test) or "unknown",
        "machine": test.machine.fingerprint,
        "Kubernetes": str(test.cluster.get("kubernetes", "unknown")),
        "nodes": str(test.cluster.get("nodes", "unknown")),
        "the operator as": str(test.parameters.get(RUNS_AS, "process")),
        "its CPU by": "scrapes" if "scrape" in sources else "its clock",
        "API traffic by": "the audit log" if logged else "the operator's own count",
        "milestones by": "the API server's clock" if "server" in clocks else "the watch's clock",
    }
