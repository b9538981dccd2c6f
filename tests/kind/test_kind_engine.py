"""An engine of our own, in namespaces where there is no other: it starts, runs what kind needs, and ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_grovescale.cluster import binaries, versions
from tools.kind import packages

pytestmark = [
    pytest.mark.kind,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start an engine"),
    pytest.mark.skipif(bool(packages.missing(("docker", "dockerd"))), reason="no dockerd is installed"),
]

ROOT = Path(__file__).resolve().parents[2]
ALONE = ["unshare", "--net", "--mount", "--propagation=private", "sh", "-c"]
IN_IT = 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"'


def test_it_starts_once_runs_a_privileged_container_and_leaves_nothing(tmp_path: Path) -> None:
    kwok = binaries.find(("kwok",), versions.DEFAULT_KUBERNETES, given={}, progress=lambda text: None)["kwok"]
    environment = {name: value for name, value in os.environ.items() if name != "DOCKER_HOST"}
    done = subprocess.run(
        [*ALONE, IN_IT, "sh", sys.executable, "-m", "tests.kind.own_engine", str(tmp_path), kwok.path],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + (tmp_path / "dockerd.log").read_text(encoding="utf-8")
    seen = json.loads(done.stdout)
    assert seen.pop("said").startswith("kwok version")
    assert seen == {
        "started": [True, False],
        "same": True,
        "containers_before_stop": 1,
        "alive": False,
        "running_after": False,
    }
