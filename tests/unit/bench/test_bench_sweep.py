"""What a sweep varies, and what it makes of its runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_grovescale.analysis.comparison import VariantRun
from pytest_grovescale.analysis.scaling import Sweep
from pytest_grovescale.bench import sweep
from pytest_grovescale.bench.store import Plan, Sample, Store, left
from pytest_grovescale.errors import UsageError
from tests.unit.bench.planned import MACHINE, SUBJECT


def planned(values: dict[str, str], parameters: dict[str, str] | None = None) -> Plan:
    return sweep.plan_of("reference", SUBJECT, values=values, parameters=parameters or {})


def test_a_value_that_the_operator_does_not_have_is_a_parameter_of_the_test() -> None:
    plan = planned({"replicas": "125,250,500", "variant": "baseline"})
    assert plan.parameter == "replicas"
    assert plan.arms["250"].parameters == {"replicas": "250"}
    assert plan.arms["250"].values == {"variant": "baseline"}
    assert len(plan.slots) == 9


def test_a_value_of_the_operator_may_be_swept_too() -> None:
    plan = planned({"concurrency": "1,5,20"}, {"replicas": "50"})
    assert plan.arms["5"].values == {"concurrency": "5"}
    assert plan.arms["5"].parameters == {"replicas": "50"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "none is a list"),
        ({"replicas": "5"}, "none is a list"),
        ({"replicas": "1,2,3", "concurrency": "1,2,3"}, "replicas, concurrency are lists"),
        ({"replicas": "1,2"}, "not 3 different sizes"),
        ({"replicas": "1,2,2"}, "not 3 different sizes"),
        ({"replicas": "1,2,many"}, "not a size: many"),
        ({"replicas": "0,1,2"}, "not a size: 0"),
        ({"replicas": "1,2,3", "variant": "none"}, "value variant cannot be 'none'"),
        ({"replicas": "1,2,3", "varian": "baseline"}, "has no value 'varian'"),
    ],
)
def test_what_cannot_be_swept_is_reported(values: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        planned(values)


def test_the_exponent_is_that_of_the_runs(tmp_path: Path) -> None:
    plan = planned({"replicas": "100,200,400"})
    store = Store.create(tmp_path, plan)
    for slot in plan.slots:
        size = float(slot.arm)
        noise = 1 + 0.01 * slot.round
        run = VariantRun(metrics={"cpu:deploy": 0.01 * size * noise, "api:deploy": 2e-4 * size**2 * noise})
        store.keep(Sample(slot=slot, run=run, seconds=1.0, machine=MACHINE, facts={"kubernetes": "1.36"}))
    assert not left(plan.slots, store.samples())
    found = sweep.result(store, plan)
    exponents = {fit.key: fit.exponent for fit in found.fits}
    assert exponents == {"cpu:deploy": pytest.approx(1.0), "api:deploy": pytest.approx(2.0)}
    assert found.facts == {"test": SUBJECT.nodeid, "kubernetes": "1.36"}


@pytest.mark.parametrize(("made", "asked"), [(3, [3]), (4, []), (6, [6]), (9, [9])])
def test_it_may_end_after_any_whole_round(made: int, asked: list[int], tmp_path: Path) -> None:
    plan = planned({"replicas": "100,200,400"})
    store = Store.create(tmp_path, plan)
    for slot in plan.slots[:made]:
        run = VariantRun(metrics={"cpu:deploy": float(slot.arm)})
        store.keep(Sample(slot=slot, run=run, seconds=1.0, machine=MACHINE))
    seen: list[int] = []

    def enough(found: Sweep) -> bool:
        seen.append(len(found.runs))
        return made > 3

    following = plan.slots[made] if made < len(plan.slots) and not (asked and made > 3) else None
    assert sweep.next_run(plan, store.samples(), enough) == following
    assert seen == asked
    assert sweep.next_run(plan, store.samples(), None) == next(iter(plan.slots[made:]), None)
