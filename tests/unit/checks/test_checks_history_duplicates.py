"""Own families against built-in ones, by value: names and correlation both mislead."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.metrics.duplicates import verdicts
from pytest_grovescale.analysis.metrics.summary import summaries
from pytest_grovescale.analysis.result import FamilyVerdict
from pytest_grovescale.checks import NoBuiltinDuplicates
from pytest_grovescale.checks.metrics.builtin_duplicates import with_verdicts
from pytest_grovescale.checks.metrics.families import builtins
from pytest_grovescale.exposition.families import Exposition, Family, parse
from pytest_grovescale.exposition.reader import Reader
from tests.unit.checks.noop_run import NoopRun
from tests.unit.checks.scraped_run import (
    ACTIVE,
    DEPTH,
    DONE,
    FAILED,
    LIMIT,
    OWN_CONFLICTS,
    OWN_ERRORS,
    SENT,
    TIMES,
    TYPES,
    ScrapedRun,
    controllers,
)

NAMES = ("podclique", "podcliqueset", "podcliquescalinggroup")
WORKERS = 5


class Manager:
    """Three controllers at work: each step reconciles, some end in errors or are to be repeated."""

    def __init__(self, seed: int = 1) -> None:
        self.random = random.Random(seed)
        self.done = {name: dict.fromkeys(("success", "error", "requeue", "requeue_after"), 0) for name in NAMES}
        self.seconds = dict.fromkeys(NAMES, 0.0)
        self.active = dict.fromkeys(NAMES, 0)
        self.conflicts = dict.fromkeys(NAMES, 0)
        self.requests = 100

    def work(self) -> None:
        for name in NAMES:
            for result, most in (("success", 40), ("error", 9), ("requeue", 5), ("requeue_after", 7)):
                self.done[name][result] += self.random.randrange(most)
            self.seconds[name] += self.random.random() * 3
            self.active[name] = self.random.randrange(WORKERS + 1)
            # Nearly all errors are conflicts: both grow together, and are not the same.
            self.conflicts[name] = round(self.done[name]["error"] * 0.9)
            self.requests += self.random.randrange(100)

    def rest(self) -> None:
        self.active = dict.fromkeys(NAMES, 0)

    def total(self, name: str, *results: str) -> int:
        return sum(self.done[name][result] for result in results or self.done[name])

    def built_in(self) -> dict[str, float]:
        served: dict[str, float] = {}
        for result in self.done[NAMES[0]]:
            served |= controllers(DONE, {name: self.done[name][result] for name in NAMES}, result=result)
        served |= controllers(FAILED, {name: self.total(name, "error") for name in NAMES})
        served |= controllers(ACTIVE, self.active)
        served |= controllers(LIMIT, dict.fromkeys(NAMES, WORKERS))
        served |= controllers(f"{TIMES}_sum", self.seconds)
        served |= controllers(f"{TIMES}_count", {name: self.total(name) for name in NAMES})
        served |= {f'{DEPTH}{{controller="{name}",name="{name}",priority="0"}}': 0 for name in NAMES}
        served[f'{SENT}{{code="200",host="h",method="PATCH"}}'] = self.requests
        served[f'{SENT}{{code="409",host="h",method="PUT"}}'] = sum(self.conflicts.values()) + 3
        return served


def run_of(own: Mapping[str, str], tell, *, seed: int = 1, steps: int = 8) -> ScrapedRun:  # type: ignore[no-untyped-def]
    """Return a run with families of its own: ``own`` is name → type, ``tell(manager)`` their samples."""
    run, manager = ScrapedRun(), Manager(seed)
    types = {**TYPES, **own}
    run.scrape({**manager.built_in(), **tell(manager)}, types=types, edge="start:deploy")
    for step in range(steps):
        manager.work()
        edge = "end:deploy" if step == steps - 1 else ""
        if edge or step % 3 == 2:
            manager.rest()
        run.scrape({**manager.built_in(), **tell(manager)}, types=types, edge=edge)
    return run


def verdict(run: ScrapedRun, family: str) -> FamilyVerdict:
    return next(found for found in verdicts(run.target(), builtins()) if found.family == family)


def test_a_total_of_reconciles_is_found_with_what_to_ask_instead() -> None:
    run = run_of(
        {"my_syncs_total": "counter"},
        lambda m: controllers("my_syncs_total", {name: m.total(name) for name in NAMES}),
    )
    found = verdict(run, "my_syncs_total")
    assert (found.kind, found.other) == ("duplicate", DONE)
    assert found.query == f"sum by (controller) ({DONE})"


@pytest.mark.parametrize(
    ("runtime", "kind"),
    [("go_gc_cleanups_executed_cleanups_total", "novel"), ("go_gc_cycles_total_gc_cycles_total", "duplicate")],
)
def test_what_the_runtime_cleans_up_does_not_say_what_it_was(runtime: str, kind: str) -> None:
    """As many certificates may be issued as keys are cleaned up."""
    own = "my_certificates_issued_total"
    run = run_of(
        {own: "counter", runtime: "counter"},
        lambda m: dict.fromkeys((own, runtime), m.requests * m.requests),
    )
    assert verdict(run, own).kind == kind


def test_a_slice_of_a_built_in_family_is_named_as_one_would_ask_for_it() -> None:
    run = run_of(
        {"my_requeues_total": "counter"},
        lambda m: controllers("my_requeues_total", {n: m.total(n, "requeue", "requeue_after") for n in NAMES}),
    )
    found = verdict(run, "my_requeues_total")
    assert found.kind == "duplicate"
    assert found.query == f'sum by (controller) ({DONE}{{result=~"requeue.*"}})'


def test_reconciles_in_flight_are_the_active_workers_though_no_name_says_so() -> None:
    run = run_of({"my_in_flight": "gauge"}, lambda m: controllers("my_in_flight", m.active), steps=20)
    found = verdict(run, "my_in_flight")
    assert (found.kind, found.other, found.query) == ("duplicate", ACTIVE, ACTIVE)


def test_a_histogram_is_one_by_count_and_sum_within_what_two_clocks_differ_by() -> None:
    def tell(manager: Manager, factor: float = 0.99) -> dict[str, float]:
        return {
            **controllers("my_sync_seconds_count", {name: manager.total(name) for name in NAMES}),
            **controllers("my_sync_seconds_sum", {name: manager.seconds[name] * factor for name in NAMES}),
        }

    run = run_of({"my_sync_seconds": "histogram"}, tell)
    found = verdict(run, "my_sync_seconds")
    assert (found.kind, found.other) == ("duplicate", TIMES)
    half = run_of({"my_sync_seconds": "histogram"}, lambda m: tell(m, 0.5))
    assert verdict(half, "my_sync_seconds").kind == "novel"


def test_a_label_may_go_by_another_name() -> None:
    run = run_of(
        {"my_total": "counter"}, lambda m: {f'my_total{{loop="{name}"}}': m.total(name, "error") for name in NAMES}
    )
    found = verdict(run, "my_total")
    assert (found.kind, found.query) == ("duplicate", FAILED)


def test_one_without_labels_is_the_sum_of_all() -> None:
    run = run_of({"my_total": "counter"}, lambda m: {"my_total": sum(m.total(name) for name in NAMES)})
    found = verdict(run, "my_total")
    assert (found.kind, found.query) == ("duplicate", f"sum({DONE})")


def test_one_for_a_single_controller_names_it() -> None:
    run = run_of({"my_total": "counter"}, lambda m: controllers("my_total", {"podclique": m.total("podclique")}))
    assert verdict(run, "my_total").query == f'sum by (controller) ({DONE}{{controller="podclique"}})'


def test_errors_by_type_refine_the_count_of_errors(snapshot: SnapshotAssertion) -> None:
    def tell(manager: Manager) -> dict[str, float]:
        of_all = {name: manager.total(name, "error") for name in NAMES}
        return controllers(OWN_ERRORS, manager.conflicts, error_type="conflict") | controllers(
            OWN_ERRORS, {name: of_all[name] - manager.conflicts[name] for name in NAMES}, error_type="internal"
        )

    run = run_of({OWN_ERRORS: "counter"}, tell)
    found = verdict(run, OWN_ERRORS)
    assert (found.kind, found.other, found.query) == ("refinement", FAILED, FAILED)
    assert "error_type" in found.why
    assert found.why == snapshot
    assert run.judged(NoBuiltinDuplicates())[0] == "pass"


def test_a_slice_of_something_with_which_it_shares_no_label_is_luck_or_consequence() -> None:
    run = run_of({"my_writes_total": "counter"}, lambda m: {"my_writes_total": m.requests})
    assert verdict(run, "my_writes_total").kind == "novel"


def test_conflicts_that_grow_with_errors_are_not_errors() -> None:
    run = run_of({OWN_CONFLICTS: "counter"}, lambda m: controllers(OWN_CONFLICTS, m.conflicts, target_kind="PodClique"))
    assert verdict(run, OWN_CONFLICTS).kind == "novel"


def test_what_never_changed_proves_nothing_and_does_not_fail() -> None:
    run = run_of({"my_limit": "gauge"}, lambda m: controllers("my_limit", dict.fromkeys(NAMES, WORKERS)))
    assert verdict(run, "my_limit").kind == "unmoved"
    assert run.judged(NoBuiltinDuplicates())[0] == "pass"


def test_a_handful_of_equal_counts_may_be_luck() -> None:
    few = ScrapedRun()
    for done in (0, 1, 2):
        series = f'{DONE}{{controller="a",result="success"}}'
        few.scrape({series: done, "my_total": done}, types={**TYPES, "my_total": "counter"})
    assert verdict(few, "my_total").kind == "novel"


def test_a_small_run_is_enough_for_a_family_that_moves_when_the_built_in_one_does() -> None:
    # As the bundled operator counted them for three PodCliqueSets of two pods each.
    run = ScrapedRun()
    of_sets, of_cliques = (0, 0, 1, 2, 3, 3, 4, 4, 6), (0, 0, 6, 12, 12, 12, 15, 15, 28)
    for sets, cliques in zip(of_sets, of_cliques, strict=True):
        counts = {"podcliqueset": sets, "podclique": cliques}
        run.scrape(
            controllers(DONE, counts, result="success") | controllers("my_total", counts),
            types={**TYPES, "my_total": "counter"},
        )
    assert verdict(run, "my_total").query == f"sum by (controller) ({DONE})"


def test_while_work_is_under_way_they_may_be_apart_by_what_is_in_hand_and_at_rest_not_at_all(
    snapshot: SnapshotAssertion,
) -> None:
    def reported(late: int, at_rest: int) -> ScrapedRun:
        return run_of(
            {"my_total": "counter"},
            lambda m: controllers(
                "my_total", {n: m.total(n) - (late if any(m.active.values()) else at_rest) for n in NAMES}
            ),
            steps=12,
        )

    assert verdict(reported(2, 0), "my_total").kind == "duplicate"
    assert verdict(reported(2, 0), "my_total").why == snapshot
    assert verdict(reported(WORKERS + 1, 0), "my_total").kind == "novel"
    assert verdict(reported(0, 1), "my_total").kind == "novel"


@pytest.mark.parametrize(
    ("name", "kind", "series"),
    [
        (DONE, "gauge", DONE + '{controller="a",result="success"}'),
        (DEPTH, "gauge", DEPTH + '{name="a",namespace="n"}'),
        (f"{TIMES}_count", "counter", f"{TIMES}_count"),
        ("workqueue_depth_total", "counter", "workqueue_depth_total"),
    ],
    ids=["type", "label", "histogram", "gauge"],
)
def test_a_built_in_name_with_another_meaning_is_a_collision(
    name: str, kind: str, series: str, snapshot: SnapshotAssertion
) -> None:
    run = ScrapedRun()
    for value in (1, 2):
        run.scrape({series: value, f'{SENT}{{code="200"}}': value}, types={SENT: "counter", name: kind})
    verdict, text = run.judged(NoBuiltinDuplicates())
    assert verdict == "fail"
    assert f"{name} (collision" in text
    assert text == snapshot


def test_the_built_in_families_themselves_are_no_finding() -> None:
    run = run_of({}, lambda m: {})
    assert verdicts(run.target(), builtins()) == []
    assert run.judged(NoBuiltinDuplicates())[0] == "pass"


def test_the_check_names_them_and_lets_off_what_it_is_reported_to(snapshot: SnapshotAssertion) -> None:
    run = run_of(
        {"my_syncs_total": "counter"},
        lambda m: controllers("my_syncs_total", {name: m.total(name) for name in NAMES}),
    )
    verdict, text = run.judged(NoBuiltinDuplicates())
    assert verdict == "fail"
    assert f"my_syncs_total (duplicate of {DONE})" in text
    assert f"sum by (controller) ({DONE})" in text
    assert text == snapshot
    assert run.judged(NoBuiltinDuplicates(ignore=["my_*"]))[0] == "pass"


def test_a_single_scrape_and_an_idle_operator_are_no_answer(snapshot: SnapshotAssertion) -> None:
    idle = ScrapedRun()
    for _ in range(3):
        idle.scrape(Manager().built_in())
    verdict, text = idle.judged(NoBuiltinDuplicates())
    assert verdict == "inconclusive"
    assert text == snapshot


def test_an_endpoint_that_is_no_controller_has_nothing_of_controllers_to_repeat() -> None:
    run = ScrapedRun()
    for value in (1, 2, 3):
        run.scrape(
            {"go_goroutines": value, "my_total": value**2}, types={"go_goroutines": "gauge", "my_total": "counter"}
        )
    assert run.judged(NoBuiltinDuplicates())[0] == "pass"


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.permutations(NAMES), st.integers(1, 30))
def test_equality_is_of_values_not_of_their_order_and_a_constant_breaks_it(
    seed: int, order: list[str], constant: int
) -> None:
    own = {"my_total": "counter"}
    shuffled = run_of(own, lambda m: controllers("my_total", {name: m.total(name) for name in order}), seed=seed)
    assert verdict(shuffled, "my_total").query == f"sum by (controller) ({DONE})"
    more = run_of(own, lambda m: controllers("my_total", {n: m.total(n) + constant for n in order}), seed=seed)
    assert verdict(more, "my_total").kind == "novel"


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_random_counters_are_novel(seed: int) -> None:
    other = random.Random(seed)
    counts = dict.fromkeys(NAMES, 0)

    def tell(_: Manager) -> dict[str, float]:
        for name in NAMES:
            counts[name] += other.randrange(8)
        return controllers("my_total", counts)

    assert verdict(run_of({"my_total": "counter"}, tell, seed=seed), "my_total").kind == "novel"


# ---- a real manager's scrape, grown


HEAD = Path(__file__).parents[2] / "data" / "exposition" / "controller_runtime_head.prom"


def grown(found: Exposition, step: int, own: Mapping[str, str]) -> Exposition:
    """Return a later scrape: all counters have grown, gauges have moved, and ``own`` copies a series under its name."""
    samples = dict(found.samples)
    for number, series in enumerate(found.samples):
        if not series.startswith((LIMIT, DEPTH, ACTIVE)):
            samples[series] = repr(float(samples[series]) + step * (number % 97 + 1))
    families = dict(found.families)
    for series, source in own.items():
        samples[series] = samples[source]
        name = parse(series).name
        families[name] = Family(name=name, type=families[parse(source).name].type)
    return Exposition(families=families, samples=samples)


def test_the_families_of_a_real_manager_are_all_known_and_one_of_its_own_is_found_among_them() -> None:
    found = Reader().read(HEAD.read_bytes())
    source = f'{DONE}{{controller="podclique-controller",result="requeue_after"}}'
    own = {'my_requeues_total{controller="podclique-controller"}': source}
    plain, with_own = ScrapedRun(), ScrapedRun()
    for step in range(5):
        plain.exposed(grown(found, step, {}))
        with_own.exposed(grown(found, step, own))
    assert verdicts(plain.target(), builtins()) == []
    assert plain.judged(NoBuiltinDuplicates())[0] == "pass"
    (only,) = verdicts(with_own.target(), builtins())
    assert (only.kind, only.other) == ("duplicate", DONE)
    assert 'result="requeue_after"' in only.query


# ---- next to each other

OWN = {"my_a_total": "counter", "my_b_total": "counter"}


def counted(manager: Manager, *, ahead: int = 0) -> dict[str, float]:
    """Return two counts of conflicts, of which the first may be ahead while work is under way."""
    early = ahead if any(manager.active.values()) else 0
    return {
        **controllers("my_a_total", {name: count + early for name, count in manager.conflicts.items()}),
        **controllers("my_b_total", manager.conflicts),
    }


def test_of_two_families_that_say_the_same_the_later_is_the_duplicate(snapshot: SnapshotAssertion) -> None:
    run = run_of(OWN, counted)
    assert (verdict(run, "my_a_total").kind, verdict(run, "my_b_total").kind) == ("novel", "duplicate")
    found = verdict(run, "my_b_total")
    assert (found.other, found.query, found.of_own) == ("my_a_total", "my_a_total", True)
    assert found.why == snapshot


def test_it_is_reported_and_fails_nothing(snapshot: SnapshotAssertion) -> None:
    said, text = run_of(OWN, counted).judged(NoBuiltinDuplicates())
    assert said == "pass"
    assert "my_b_total: " in text
    assert text == snapshot


def test_what_is_apart_in_the_midst_of_work_is_no_duplicate() -> None:
    run = run_of(OWN, lambda manager: counted(manager, ahead=1))
    assert {verdict(run, name).kind for name in OWN} == {"novel"}


def test_what_only_ever_changed_at_rest_proves_nothing() -> None:
    last: dict[str, float] = {}

    def tell(manager: Manager) -> dict[str, float]:
        if not last or not any(manager.active.values()):
            last.update(counted(manager))
        return dict(last)

    assert {verdict(run_of(OWN, tell), name).kind for name in OWN} == {"novel"}


def test_the_one_that_says_less_is_the_duplicate() -> None:
    run = run_of(
        {"my_a_total": "counter", "my_detailed_total": "counter"},
        lambda m: {"my_a_total": sum(m.conflicts.values()), **controllers("my_detailed_total", m.conflicts)},
    )
    found = verdict(run, "my_a_total")
    assert (found.kind, found.other, found.query) == ("duplicate", "my_detailed_total", "sum(my_detailed_total)")
    assert verdict(run, "my_detailed_total").kind == "novel"


def test_the_same_sum_over_other_labels_is_no_duplicate() -> None:
    run = run_of(
        OWN,
        lambda m: {
            **controllers("my_a_total", m.conflicts),
            **{f'my_b_total{{kind="k{n}"}}': count for n, count in enumerate(m.conflicts.values())},
        },
    )
    assert {verdict(run, name).kind for name in OWN} == {"novel"}


def test_a_result_has_the_verdict_of_each_own_family() -> None:
    run = run_of(OWN, counted)
    history = run.history()
    test = msgspec.structs.replace(NoopRun().result(), metrics=summaries(history))
    (target,) = with_verdicts(test, lambda: history).metrics
    pod = msgspec.structs.replace(target, target="operator/a-0", verdicts=())
    history.targets["operator/a-0"] = history.target()
    of_pod = with_verdicts(msgspec.structs.replace(test, metrics=(pod,)), lambda: history).metrics[0]
    assert of_pod.verdicts == target.verdicts
    assert [(found.family, found.kind, found.other) for found in target.verdicts] == [
        ("my_a_total", "novel", ""),
        ("my_b_total", "duplicate", "my_a_total"),
    ]
