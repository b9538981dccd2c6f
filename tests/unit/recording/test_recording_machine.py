"""The machine's facts and their fingerprint."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.recording.machine import MachineReader, machine
from pytest_grovescale.recording.records import CgroupCpu, MachineRead

X86 = "processor\t: 0\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\nmodel name\t: AMD EPYC\n"
ARM = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"


def proc(folder: Path, cpu: str = X86, kib: int = 8 << 20) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "cpuinfo").write_text(cpu)
    (folder / "meminfo").write_text(f"MemTotal:       {kib} kB\nMemFree: 1 kB\n")
    return folder


def test_this_machine_is_itself() -> None:
    assert machine() == machine()
    assert machine().cores >= 1
    assert machine().memory_bytes > 1 << 20


def test_fingerprint_distinguishes_machines_and_bears_small_differences(tmp_path: Path) -> None:
    here = machine(proc(tmp_path / "a"))
    assert here.cpu == "AMD EPYC"
    assert machine(proc(tmp_path / "b", kib=(8 << 20) - 5000)).fingerprint == here.fingerprint
    assert machine(proc(tmp_path / "c", kib=16 << 20)).fingerprint != here.fingerprint
    other = machine(proc(tmp_path / "d", cpu=ARM))
    assert other.cpu == "0xd0c"
    assert other.fingerprint != here.fingerprint


def test_a_machine_that_does_not_tell_its_memory_is_an_error(tmp_path: Path) -> None:
    folder = proc(tmp_path / "a")
    (folder / "meminfo").write_text("")
    with pytest.raises(ValueError, match="MemTotal"):
        machine(folder)


STAT = """cpu  {user} 10 20 {idle} 40 5 5 30 7 0
{cores}intr 1 2 3
ctxt 99
"""


def reader(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, cores: str = "", files: dict[str, str] | None = None
) -> MachineRead:
    """What is read where /proc is this folder; cores 0 and 2 may be used."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 2})
    for name, text in {"stat": STAT.format(user=1, idle=1, cores=cores), **(files or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return MachineReader(folder).read(5, "start:deploy")


def test_the_cores_that_may_be_used_are_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cores = "cpu0 100 10 20 1000 40 5 5 30 7 0\ncpu1 9 9 9 9 9 9 9 9 9 9\ncpu2 200 0 0 500 0 0 0 0 0 0\n"
    found = reader(tmp_path, monkeypatch, cores=cores, files={
        "pressure/cpu": "some avg10=1.00 avg60=1.00 avg300=1.00 total=2500\nfull avg10=0.00 avg60=0.00 total=7\n",
    })  # fmt: skip
    assert found.times is not None
    # Guests are part of user: 100 + 10 + 20 + 5 + 5 ticks of core 0, 200 of core 2; a tick is 10 ms.
    assert msgspec.structs.asdict(found.times) == {
        "cores": 2, "busy_ns": 3400 * 10**6, "idle_ns": 15_000 * 10**6, "iowait_ns": 400 * 10**6,
        "steal_ns": 300 * 10**6,
    }  # fmt: skip
    assert found.pressure_ns == 2_500_000
    assert (found.at, found.edge) == (5, "start:deploy")


@pytest.mark.parametrize("cores", ["", "cpu0 0 0 0 0 0 0 0 0 0 0\n", "cpu0 1 2\n"], ids=["none", "zeros", "other"])
def test_what_cannot_be_read_is_absent(cores: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = reader(tmp_path, monkeypatch, cores=cores)
    assert (found.times, found.pressure_ns, found.cgroup) == (None, None, None)
    assert msgspec.json.decode(msgspec.json.encode(found)) == {"type": "machine", "at": 5, "edge": "start:deploy"}


V1_MOUNTS = """30 24 0:26 / {0} rw - tmpfs tmpfs rw,mode=755
31 30 0:27 {1} {0}/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / {0}/unified rw - cgroup2 cgroup2 rw
"""
V2_MOUNTS = "30 24 0:26 {1} {0} rw,nosuid - cgroup2 cgroup rw,nsdelegate\n"


@pytest.mark.parametrize("root", ["/", "/docker/abc"], ids=["host", "container"])
def test_cgroup_v1(root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = tmp_path / "sys with space"
    escaped = str(mount).replace(" ", "\\040")
    folder = mount / "cpu,cpuacct" / ("docker/abc" if root == "/" else "")
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text("150000\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    (folder / "cpu.stat").write_text("nr_periods 9\nnr_throttled 3\nthrottled_time 1234567\n")
    found = reader(tmp_path / "proc", monkeypatch, files={
        "self/cgroup": "9:name=systemd:/\n4:cpu,cpuacct:/docker/abc\n0::/\n",
        "self/mountinfo": V1_MOUNTS.format(escaped, root),
    })  # fmt: skip
    assert found.cgroup == CgroupCpu(quota_cores=1.5, throttled_ns=1_234_567)


def test_cgroup_v2_has_the_lowest_limit_on_the_way_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = tmp_path / "cgroup"
    limits = {"": None, "ci": ("200000 100000", 5), "ci/job": ("50000 100000", 7), "ci/job/step": ("max 100000", 0)}
    for name, limit in limits.items():
        (mount / name).mkdir()
        if limit is None:
            (mount / name / "cgroup.controllers").write_text("cpu memory\n")
            (mount / name / "cpu.stat").write_text("usage_usec 5\n")
        else:
            (mount / name / "cpu.max").write_text(limit[0] + "\n")
            (mount / name / "cpu.stat").write_text(f"usage_usec 5\nthrottled_usec {limit[1]}\n")
    found = reader(tmp_path / "proc", monkeypatch, files={
        "self/cgroup": "0::/ci/job/step\n", "self/mountinfo": V2_MOUNTS.format(mount, "/"),
    })  # fmt: skip
    assert found.cgroup == CgroupCpu(quota_cores=0.5, throttled_ns=7000)


def test_no_limit_is_known_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = tmp_path / "cgroup"
    mount.mkdir()
    (mount / "cgroup.controllers").write_text("cpu\n")
    (mount / "cpu.max").write_text("max 100000\n")
    (mount / "cpu.stat").write_text("throttled_usec 0\n")
    # The path of a container's cgroup on its host, where its mount shows no more than itself.
    found = reader(tmp_path / "proc", monkeypatch, files={
        "self/cgroup": "0::/../other\n", "self/mountinfo": V2_MOUNTS.format(mount, "/kubepods/pod1"),
    })  # fmt: skip
    assert found.cgroup == CgroupCpu(quota_cores=None, throttled_ns=0)


def test_this_machine_is_read() -> None:
    before, after = MachineReader().read(1), MachineReader().read(2)
    if before.times is None or after.times is None:
        pytest.skip("this sandbox does not show /proc/stat")
    assert after.times.cores == machine().cores
    assert after.times.busy_ns >= before.times.busy_ns > 0
