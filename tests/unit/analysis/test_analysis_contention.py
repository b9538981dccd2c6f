"""Who had the machine's cores: simulated phases with the truth known beforehand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.contention import contended, of_phases, sentence
from pytest_grovescale.analysis.phase_result import Contention, PhaseResult
from pytest_grovescale.recording import records as rec

from .simulated import PODS, S, Simulation, pods


def simulation(*, end: float = 10_100) -> Simulation:
    """A phase of 10 s in which the API server uses 0.5 cores and the operator 0.25."""
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.phase("deploy", 100, end, pods_created=pods(1))
    for process, cores in (("kube-apiserver", 0.5), ("operator", 0.25)):
        sim.cpu(process, 99, 1.0, edge="start:deploy")
        sim.cpu(process, 10_099, 1.0 + 10 * cores, edge="end:deploy")
    return sim


def machine_read(sim: Simulation, ms: float, edge: str = "", **parts: Any) -> None:
    times = {"busy": 100.0, "idle": 900.0, "iowait": 10.0, "steal": 5.0} | parts.pop("times", {})
    found = rec.CoreTimes(cores=2, **{f"{name}_ns": round(seconds * S) for name, seconds in times.items()})
    sim.add(rec.MachineRead(at=sim.at(ms), edge=edge, times=found, **parts))


def phase_of(sim: Simulation) -> PhaseResult:
    sim.add(rec.Closed(at=sim.at(20_000), reason="stopped"))
    return analyse(sim.records()).phases[0]


def test_the_cores_are_divided_among_the_run_others_and_the_hypervisor(snapshot: SnapshotAssertion) -> None:
    sim = simulation()
    start, end = rec.CgroupCpu(quota_cores=1.5, throttled_ns=S), rec.CgroupCpu(quota_cores=1.5, throttled_ns=4 * S)
    machine_read(sim, 99, "start:deploy", pressure_ns=7 * S, cgroup=start)
    machine_read(sim, 5000, times={"busy": 105})
    machine_read(sim, 10_099, "end:deploy", pressure_ns=11 * S, cgroup=end,
                 times={"busy": 117, "idle": 901, "iowait": 10.5, "steal": 6.5})  # fmt: skip
    found = phase_of(sim).contention
    assert found is not None
    expected = {
        "cores": 2, "run_cores": 0.75, "others_cores": 0.95, "steal_cores": 0.15, "iowait_cores": 0.05,
        "idle_cores": 0.1, "others_share": 0.55, "pressure_share": 0.4, "quota_cores": 1.5, "throttled_s": 3.0,
        "throttled_share": 0.15,
        "waited_s": None,
    }  # fmt: skip
    assert msgspec.structs.asdict(found) == pytest.approx(expected)
    assert contended(found)
    said = sentence(found, "deploy")
    assert "0.9 of 2 cores during deploy (steal 0.1)" in said
    assert " 1.5 cores " in said
    assert " 3.0 s during deploy" in said
    assert said == snapshot
    assert not contended(found, limit=0.6)
    assert sentence(found, "deploy", limit=0.6) == ""


def test_of_many_phases_the_worst_is_named() -> None:
    sim = simulation()
    machine_read(sim, 99, "start:deploy")
    machine_read(sim, 10_099, "end:deploy", times={"busy": 117, "idle": 903})
    one = phase_of(sim)
    assert one.contention is not None
    worse = msgspec.structs.replace(one.contention, others_share=0.9, others_cores=1.8)
    phases = [msgspec.structs.replace(one, name=name) for name in "abc"]
    phases.append(msgspec.structs.replace(one, name="d", contention=worse))
    assert "during a" in of_phases(phases[:3])
    said = of_phases(phases)
    assert "1.8 of 2 cores during d" in said
    assert "3 more phases" in said
    assert "during a" not in said


def test_a_run_alone_on_its_machine_is_not_contended() -> None:
    sim = simulation()
    machine_read(sim, 99, "start:deploy")
    # Ticks are coarser than the processes' clocks: less was busy than the processes used.
    machine_read(sim, 10_099, "end:deploy", times={"busy": 107.4, "idle": 912.0, "iowait": 9.9})
    found = phase_of(sim).contention
    assert found is not None
    assert (found.others_cores, found.others_share, found.iowait_cores) == (0.0, 0.0, 0.0)
    assert (found.pressure_share, found.quota_cores, found.throttled_s) == (None, None, None)
    assert sentence(found, "deploy") == ""


def test_a_wait_for_a_quiet_machine_is_said() -> None:
    sim = simulation()
    machine_read(sim, 99, "start:deploy")
    machine_read(sim, 10_099, "end:deploy", times={"busy": 117.0})
    sim.add(rec.Mark(at=sim.at(101), label="wait-quiet", detail="not quiet after 60.0 s", count=60_000))
    found = phase_of(sim).contention
    assert found is not None
    assert found.waited_s == 60.0
    assert sentence(found, "deploy").endswith("times are inflated. The run waited 60.0 s for a quiet machine before.")


def test_steal_counts_without_any_other_program() -> None:
    found = Contention(cores=2, others_cores=0.0, steal_cores=0.8, others_share=0.4)
    assert sentence(found, "deploy").startswith("The machine's host took 0.8 ")
    assert not sentence(Contention(cores=2, others_cores=0.21, steal_cores=0.04, others_share=0.125), "d").count(
        "steal"
    )


def test_a_recording_without_readings_is_not_measured() -> None:
    phase = phase_of(simulation())
    assert phase.contention is None
    assert "no two readings" in phase.missing["contention"]
    assert not contended(phase.contention)
    assert sentence(phase.contention, "deploy") == ""


def test_a_machine_without_proc_stat_is_not_measured() -> None:
    sim = simulation()
    for ms, edge in ((99, "start:deploy"), (10_099, "end:deploy")):
        sim.add(rec.MachineRead(at=sim.at(ms), edge=edge, pressure_ns=1))
    phase = phase_of(sim)
    assert phase.contention is None
    assert "/proc/stat" in phase.missing["contention"]


def elsewhere() -> Simulation:
    """The operator runs here, the cluster on machines that cannot be seen."""
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.phase("deploy", 100, 10_100, pods_created=pods(1))
    for ms, edge in ((99, "start:deploy"), (10_099, "end:deploy")):
        sim.cpu("operator", ms, ms / 1000, edge=edge)
        machine_read(sim, ms, edge, times={"busy": 100 + ms / 1000})
    return sim


def test_a_cluster_elsewhere_is_not_measured_by_this_machine() -> None:
    phase = phase_of(elsewhere())
    assert phase.contention is None
    assert "API server's CPU clock" in phase.missing["contention"]


def test_of_a_cluster_elsewhere_scraped_containers_say_how_long_they_were_throttled() -> None:
    sim = elsewhere()
    family = "container_cpu_cfs_throttled_seconds_total"
    for ms, edge, one, two in ((99, "start:deploy", 5.0, 1.0), (10_098, "end:deploy", 8.0, 1.5)):
        samples = {
            f'{family}{{container="manager",pod="operator-0"}}': one,
            f'{family}{{container="proxy",pod="operator-0"}}': two,
            f'{family}{{container="",pod="operator-0"}}': one + two,
        }
        sim.scrape(ms, samples, edge=edge, target="kubelet")
    phase = phase_of(sim)
    assert phase.contention == Contention(throttled_s=3.5)
    assert "contention" not in phase.missing
    assert not contended(phase.contention)


def test_a_process_says_how_long_it_waited_for_a_core() -> None:
    sim = simulation()
    for ms, edge, waited in ((99, "start:deploy", 2), (5000, "", 20), (10_099, "end:deploy", 31)):
        sim.add(rec.CpuRead(
            at=sim.at(ms), process="etcd", pid=3, cpu_ns=0, rss_bytes=1, waiting_ns=waited * S, edge=edge,
        ))  # fmt: skip
    found = {row.process: row.waiting_s for row in phase_of(sim).cpu}
    assert found == {"etcd": 29.0, "kube-apiserver": None, "operator": None}
