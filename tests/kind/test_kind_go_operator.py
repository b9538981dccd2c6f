"""An operator in Go as a pod of a real kind cluster: its CPU profile comes through the API server's proxy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.analysis.result import Result, TestResult
from pytest_grovescale.cluster import binaries
from tests import goprogram
from tools.kind import image_archive
from tools.kind.image_archive import ProgramImage

pytestmark = pytest.mark.kind

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "grovescale-go-program:1"

TEST = """\
import pytest

from pytest_grovescale import Scale, conditions


@pytest.mark.grovescale(nodes=1, profile="pprof")
def test_work(scale: Scale) -> None:
    with scale.phase("work", timeout="1m") as work:
        work.milestone("over", conditions.timer("8s"))
"""

OPERATOR = """\
name: go-program
pod:
  manifests: [manifests.yaml]
  image: grovescale-go-program:1
  archive: image.tar
  pprof: {port: pprof, path: /debug/pprof}
"""

MANIFESTS = """\
apiVersion: v1
kind: Namespace
metadata: {name: go-program}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: go-program, namespace: go-program}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: go-program, namespace: go-program}
spec:
  selector: {matchLabels: {app: go-program}}
  template:
    metadata: {labels: {app: go-program}}
    spec:
      serviceAccountName: go-program
      containers:
        - name: program
          image: grovescale-go-program:1
          args: [-host=0.0.0.0, -port=6060, -share=0.75]
          ports: [{name: pprof, containerPort: 6060}]
          # It works without end: the control plane has the rest of the machine.
          resources: {limits: {cpu: 500m}}
"""


def run(folder: Path) -> list[TestResult]:
    image_archive.write(
        folder / "image.tar",
        [ProgramImage(name=IMAGE, program=goprogram.build(folder))],
        binaries.architecture(),
    )
    for name, text in {"test_work.py": TEST, "operator.yaml": OPERATOR, "manifests.yaml": MANIFESTS}.items():
        (folder / name).write_text(text, encoding="utf-8")
    reports = folder / "reports"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--grovescale", "test_work.py"]
    command += ["--grovescale-cluster=kind", "--grovescale-operator=operator.yaml", f"--grovescale-reports={reports}"]
    environment = {**os.environ, "GROVESCALE_STATE_DIR": str(folder / "state"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return list(msgspec.json.decode((reports / "latest" / "result.json").read_bytes(), type=Result).tests)


def test_profile_of_a_phase_has_the_shares_of_its_functions(tmp_path: Path) -> None:
    measured, profiled = run(tmp_path)
    assert (measured.profiled, profiled.profiled) == (False, True)
    (phase,) = profiled.phases
    profiles = {profile.kind: profile for profile in phase.profiles}
    assert {"pprof", "heap", "goroutines"} <= profiles.keys()
    cpu = profiles["pprof"]
    assert not cpu.problem
    # Half a core for eight seconds and more, in rounds, at 100 Hz.
    assert cpu.samples is not None
    assert cpu.samples >= 300
    (heavy,) = [row for row in cpu.functions if row.function.endswith(".heavy")]
    assert heavy.share == pytest.approx(0.75, abs=0.1)
    (row,) = [row for row in measured.phases[0].cpu if row.process == "operator"]
    assert row.source == "clock"
    assert row.cores == pytest.approx(0.5, abs=0.2)
