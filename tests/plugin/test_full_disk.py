"""A disk for the reports that is full, or a folder that is gone, in a run: never green, never a traceback.

On a small disk of its own where the user may mount one.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.analysis.result import Result
from pytest_grovescale.cluster.handle import Cluster
from tests import forked
from tests.processes import wait_none

pytestmark = pytest.mark.cluster

TEST = """
import asyncio
import contextlib
import os
import shutil
from pathlib import Path

import pytest

from pytest_grovescale import checks, conditions

DISK = Path(os.environ["THE_DISK"])


def fill():
    with (DISK / "others").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def free():
    (DISK / "others").unlink()


def remove():
    shutil.rmtree(DISK / "reports")


def rename():
    (DISK / "reports").rename(DISK / "elsewhere")


@pytest.mark.grovescale(nodes=2, operator="none")
def test_it(scale):
    surely = contextlib.suppress(Exception) if os.environ.get("SUPPRESSED") else contextlib.nullcontext()
    begin, end = os.environ["BEGIN"], os.environ.get("END", "")
    pcs = scale.workload("pcs.yaml.j2", replicas=1, pods_per_replica=1)
    with surely, scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("there", conditions.count("configmaps", 40))
        scale.run(asyncio.sleep(0))
        globals()[begin]()
        for number in range(40):
            metadata = {"name": f"c{number}", "namespace": scale.namespace}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "y" * 999}}
            scale.run(scale.client.create(body))
    with surely, scale.phase("delete", timeout="60s") as delete:
        if end:
            globals()[end]()
        delete.milestone("there", conditions.count("configmaps", 40))
        delete.hold("300ms")
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 96 MB: more than a run asks for at its start."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"no right to mount a small disk: {mounted.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def run(folder: Path, cluster: Cluster, disk: Path, *options: str, **environment: str) -> tuple[int, str]:
    (folder / "test_it.py").write_text(TEST, encoding="utf-8")
    (folder / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    arguments = ["--grovescale", "-p", "no:cacheprovider", f"--grovescale-cluster={cluster.name}"]
    done = forked.run_pytest(
        [*arguments, f"--grovescale-reports={disk / 'reports'}", *options],
        cwd=folder,
        env={**os.environ, "THE_DISK": str(disk), **environment},
    )
    wait_none(str(folder))
    return done.returncode, done.stdout


def assert_an_error_with(reason: str, output: str) -> None:
    assert "1 error" in output, output
    assert "passed" not in output.splitlines()[-1]
    assert reason in output, output
    assert "Traceback" not in output
    assert "INTERNALERROR" not in output
    assert "pytest_grovescale/" not in output, f"no frames of ours\n{output}"


@pytest.mark.parametrize("suppressed", ["", "yes"], ids=["raised", "suppressed"])
def test_a_disk_that_is_full_for_a_while_makes_the_test_an_error(
    tmp_path: Path, running_cluster: Cluster, disk: Path, suppressed: str
) -> None:
    """Filled in deploy, freed in delete, where a test that catches everything comes to."""
    code, output = run(
        tmp_path, running_cluster, disk, "--grovescale-budgets=off", BEGIN="fill", END="free", SUPPRESSED=suppressed
    )
    assert code != 0, output
    assert_an_error_with("No space left on device: the recording ends early", output)
    if not suppressed:
        (disk / "others").unlink()
        return
    result = msgspec.json.decode((disk / "reports/latest/result.json").read_bytes(), type=Result)
    assert (result.verdict, result.tests[0].closed) == ("error", "journal-full")
    assert result.tests[0].phases[0].missing["audit"].startswith("the recording ends early")


@pytest.mark.parametrize("begin", ["remove", "rename"])
def test_a_folder_that_is_removed_or_renamed_makes_the_test_an_error(
    tmp_path: Path, running_cluster: Cluster, begin: str
) -> None:
    (tmp_path / "disk").mkdir()
    code, output = run(tmp_path, running_cluster, tmp_path / "disk", BEGIN=begin)
    assert code != 0, output
    assert_an_error_with("the file was removed or renamed while it was written", output)
