"""The main job on kind, as a run of its own in a process of its own, and what there must be afterwards: nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from pytest_grovescale import procfs
from pytest_grovescale.analysis.phase_result import PhaseResult
from pytest_grovescale.analysis.result import Result, TestResult
from pytest_grovescale.cluster import processes
from pytest_grovescale.cluster.kind import container_engine as engines

ROOT = Path(__file__).resolve().parents[2]
MAIN_JOB = ROOT / "tests/scale/test_thousand_pods.py"


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the main job."""

    output: str
    test: TestResult
    state: Path
    """The state folder that its cluster lived in."""

    def phase(self, name: str) -> PhaseResult:
        return next(phase for phase in self.test.phases if phase.name == name)

    def created(self, phase: str, resource: str) -> int:
        """Return how many objects of a resource the operator created in a phase."""
        rows = [row for row in self.phase(phase).api if (row.verb, row.resource) == ("create", resource)]
        return sum(row.count for row in rows if row.identity == "operator" and row.code < 300)


def run(operator: str, folder: Path, *arguments: str) -> Ran:
    """Run the main job on a kind cluster that it makes and deletes; fail with all its output if it does not pass.

    ``arguments`` are more of pytest's.
    """
    state, reports = folder / "state", folder / "reports"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--grovescale", str(MAIN_JOB)]
    command += ["--grovescale-cluster=kind", f"--grovescale-operator={operator}", f"--grovescale-reports={reports}"]
    # Its budgets are those of the local backend.
    command += ["--grovescale-budgets=off", *arguments]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "GROVESCALE_STATE_DIR": str(state)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    result = msgspec.json.decode((reports / "latest" / "result.json").read_bytes(), type=Result)
    (test,) = result.tests
    return Ran(output=done.stdout, test=test, state=state)


def processes_of(state: Path) -> list[int]:
    """Return the pids of what supervisors of a state folder's clusters started, and that still runs."""
    wanted = f"\0{processes.MARK}={state}/".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        # Ended meanwhile, or another user's.
        with contextlib.suppress(OSError):
            if wanted in b"\0" + (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return [pid for pid in found if procfs.started_ticks(pid)]


def containers_of(state: Path) -> list[str]:
    """Return the containers, stopped ones too, of the kind clusters of a state folder: they mount a part of it."""
    engine = engines.find()
    listed = engines.call(
        engine, "ps", "--all", "--filter", f"label={engines.CLUSTER_LABEL}", "--format", "{{.Names}}"
    ).split()
    inside = f"{state}/"
    return [name for name in listed if any(m.source.startswith(inside) for m in engines.inspect(engine, name).mounts)]
