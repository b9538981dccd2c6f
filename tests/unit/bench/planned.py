"""Plans and samples made up for tests."""

from __future__ import annotations

from pytest_grovescale.analysis.comparison import ComparisonPlan, VariantRun
from pytest_grovescale.bench.store import Plan, Sample, Slot, interleaved, looks
from pytest_grovescale.bench.target_test import Subject
from pytest_grovescale.bench.variant import Variant
from pytest_grovescale.recording.records import Machine

MACHINE = Machine(fingerprint="abc", cpu="some", cores=2, memory_bytes=8 << 30, kernel="6.1", python="3.11")
SUBJECT = Subject(nodeid="test_it.py::test_it", path="/somewhere/test_it.py", name="test_it", cluster="default")


def plan(pairs: int = 4, parts: tuple[str, ...] = ("noop", "deploy"), gated: tuple[str, ...] = ()) -> Plan:
    """Return a comparison's plan of so many pairs in each part."""
    return Plan(
        command="compare",
        started="2026-01-01T00:00:00+00:00",
        subject=SUBJECT,
        arms={arm: Variant(label=arm.upper(), operator=f"/somewhere/{arm}.yaml") for arm in "ab"},
        slots=tuple(slot for part in parts for slot in interleaved(part, pairs)),
        comparisons={
            part: ComparisonPlan(a="A", b="B", gated=gated, pairs=pairs, looks=looks(pairs, warmup=1)) for part in parts
        },
    )


def sample(slot: Slot, cpu: float = 1.0, *, broken: str = "") -> Sample:
    """Return what a slot gave: CPU of a trigger, or of a deployment."""
    key = "noop_cpu" if slot.part == "noop" else "cpu:deploy"
    run = VariantRun(metrics={} if broken else {key: cpu, "wall:deploy": 2 * cpu}, broken=broken)
    return Sample(slot=slot, run=run, seconds=30.0, machine=MACHINE, facts={"kubernetes": "1.36", "nodes": 100})
