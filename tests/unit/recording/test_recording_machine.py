"""The machine's facts and their fingerprint."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_grovescale.recording.machine import machine

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


def test_fingerprint_tells_machines_apart_and_bears_small_differences(tmp_path: Path) -> None:
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
