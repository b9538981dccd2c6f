"""The profiles of a comparison: read from its folder, and told why where there is none."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_grovescale.analysis.phase_result import ProfileResult
from pytest_grovescale.analysis.profiles.comparison import NotProfiled
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.bench import profiled_runs
from pytest_grovescale.bench.driver import Bench
from pytest_grovescale.bench.measured import NothingMeasured
from pytest_grovescale.bench.profiled_runs import Profiled, of_comparison, run_profiled
from pytest_grovescale.bench.screen import Screen
from pytest_grovescale.bench.store import PROFILE, Plan, Slot, Store, interleaved
from pytest_grovescale.cluster.machine_lock import MachineLock
from pytest_grovescale.report import result_file
from tests.unit.bench.planned import plan, sample
from tests.unit.report.sample import DEPLOY, RESULT, TEST

RAW = Path(__file__).parents[2] / "data" / "profiles" / "asyncio.raw"
DENIED = "py-spy is not permitted to read the process. Run as root."


def planned() -> Plan:
    bare = plan(2, ("deploy",))
    return msgspec.structs.replace(bare, slots=(*bare.slots, *interleaved(PROFILE, 1)))


def made(store: Store, arm: str, *, missing: dict[str, str] | None = None) -> Path:
    """Leave a profiled run of an arm as pytest does; return its folder."""
    slot = Slot(part=PROFILE, round=0, arm=arm)
    folder = store.run_folder(slot.name) / "20260101-120000-0000"
    (folder / "profiles").mkdir(parents=True)
    (folder / "profiles" / "o.raw").write_bytes(RAW.read_bytes())
    profile = ProfileResult(process="operator", kind="pyspy", file="profiles/o.raw", samples=281)
    rest: dict[str, Any] = {"missing": missing} if missing else {"profiles": (profile,)}
    test: TestResult = msgspec.structs.replace(TEST, phases=(msgspec.structs.replace(DEPLOY, **rest),))
    result_file.write(msgspec.structs.replace(RESULT, tests=(test,)), folder / result_file.NAME)
    (folder.parent / "latest").symlink_to(folder.name)
    store.keep(sample(slot))
    return folder


def found(store: Store, *missing: NotProfiled) -> Profiled:
    return of_comparison(store, store.plan(), missing, page=store.folder / "comparison.html")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path, planned())


def test_profiles_of_both_variants_with_links_from_the_comparisons_page(store: Store) -> None:
    for arm in "ab":
        made(store, arm)
    profiled = found(store)
    assert profiled.compared.missing == ()
    (functions,) = profiled.compared.functions
    assert (functions.phase, functions.process) == ("deploy", "operator")
    (pair,) = profiled.pairs
    assert pair.before_folder == "runs/profile-00-a/20260101-120000-0000"
    assert pair.flame is not None


def test_none_were_asked_for(tmp_path: Path) -> None:
    assert found(Store.create(tmp_path, plan(2, ("deploy",)))) == Profiled()


def test_a_profiler_that_could_not_attach_is_reported_with_its_remedy(store: Store) -> None:
    made(store, "a")
    made(store, "b", missing={"profile:operator": DENIED})
    profiled = found(store)
    assert profiled.pairs == ()
    assert [(one.variant, one.phase, one.why) for one in profiled.compared.missing] == [("B", "deploy", DENIED)]


def test_a_result_that_cannot_be_read_is_reported_with_what_to_do(store: Store) -> None:
    made(store, "a")
    (made(store, "b") / result_file.NAME).write_text("{", encoding="utf-8")
    (missing,) = found(store).compared.missing
    assert missing.variant == "B"
    assert missing.next_step


def test_a_variant_whose_run_ended_before_it_began_costs_the_profile_only(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def __call__(self, slot: Slot) -> None:
            if slot.arm == "b":
                raise NothingMeasured("it ended:\n  its last words", next_step="Its whole output: pytest.log.")
            made(store, slot.arm)

    monkeypatch.setattr(profiled_runs, "SequentialRuns", Failing)
    said = io.StringIO()
    failures = run_profiled(Bench(store, store.plan(), MachineLock(-1, None), Screen(said)))
    assert "no profile: it ended" in said.getvalue()
    (missing,) = found(store, *failures).compared.missing
    assert missing == NotProfiled(
        variant="B", why="it ended:\n  its last words", next_step="Its whole output: pytest.log."
    )
