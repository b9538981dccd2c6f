"""What rules find in recordings with one thing wrong each, and that they find nothing where nothing is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import errors
from pytest_grovescale.analysis import findings
from pytest_grovescale.analysis.analyse import analyse, contents_of, result_of
from pytest_grovescale.analysis.api_faults import ApiFaults
from pytest_grovescale.analysis.findings import RULES
from pytest_grovescale.analysis.findings.observed import Observed
from pytest_grovescale.analysis.findings.operator_log import message
from pytest_grovescale.analysis.result import Finding
from pytest_grovescale.exposition.families import Family
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import Count, WatchSpec
from pytest_grovescale.report import document, findings_table

from .simulated import IDENTITIES, PODS, Simulation, full_run, pods

SERVICES = WatchSpec(resource="services", path="/api/v1/namespaces/t/services", fields=("metadata.deletionTimestamp",))
NAMESPACES = WatchSpec(resource="namespaces", path="/api/v1/namespaces", fields=("metadata.deletionTimestamp",))
N = 10
DEPLOYED, IDLE, DELETED = 6040, 16050, 22_090
"""End of each phase of `full_run`, ms."""


def settled(n: int = N, **options: Any) -> Simulation:
    """Return a sound run, with its scrape after the workload was gone, and the clean-up after that."""
    sim = full_run(n, **options)
    sim.items = [item for item in sim.items if not isinstance(item[2], rec.Closed)]
    for label, at in (("apply", 112), ("delete", IDLE + 60)):
        for state in ("begin", "end"):
            sim.add(rec.Mark(at=sim.at(at), label=label, state=state, count=1))
    sim.add(rec.Mark(at=sim.at(DELETED + 890), label=rec.SETTLED))
    sim.scrape(DELETED + 900, {}, edge=rec.SETTLED)
    sim.add(rec.Mark(at=sim.at(DELETED + 1000), label="clean-up", state="begin"))
    sim.request(DELETED + 1010, user="harness", verb="delete", resource="namespaces", name="t")
    sim.add(rec.Closed(at=sim.at(DELETED + 2000), reason="stopped"))
    return sim


def found(sim: Simulation) -> list[Finding]:
    """Return what rules found, each finding by itself, without notes."""
    return [each for one in analyse(sim.records()).findings for each in one.all if each.severity != "note"]


def ids(sim: Simulation) -> set[str]:
    return {one.id for one in found(sim)}


def made(sim: Simulation, name: str, ms: float, *, owner: str = "", finalizers: tuple[str, ...] = ()) -> None:
    """The operator makes a Service, and the watch shows it."""
    if SERVICES not in sim.watch_ids:
        sim.watch(SERVICES, 5)
    sim.request(ms, verb="create", resource="services", namespace="t", name=name, code=201)
    seen(sim, name, ms + 10, "added", owner=owner, finalizers=list(finalizers))


def seen(sim: Simulation, name: str, ms: float, change: Any, **parts: Any) -> None:
    watch = sim.watch_ids[SERVICES]
    sim.add(
        rec.ObjectSeen(at=sim.at(ms), watch=watch, change=change, name=name, namespace="t", uid=f"uid-{name}", **parts)
    )


def scrape(sim: Simulation, type_: Any, name: str, values: dict[str, float], /, **labels: str) -> None:
    """Serve a family at edges: its value, or that of a series with these labels."""
    text = ",".join(f'{key}="{value}"' for key, value in labels.items())
    series = f"{name}{{{text}}}" if text else name
    for index, (at, order, record) in enumerate(sim.items):
        if isinstance(record, rec.Scraped) and record.edge in values:
            families = {**record.families, name: Family(name=name, type=type_, help="h")}
            samples = {**record.samples, series: values[record.edge]}
            sim.items[index] = at, order, msgspec.structs.replace(record, samples=samples, families=families)


@given(st.integers(min_value=1, max_value=30), st.integers(min_value=0, max_value=1000))
def test_a_sound_run_has_no_finding(n: int, seed: int) -> None:
    assert found(full_run(n, seed=seed)) == []


def test_nor_has_it_after_its_workload_is_gone() -> None:
    assert found(settled()) == []


def test_a_rule_that_fails_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Observed) -> Iterator[Finding]:
        raise ZeroDivisionError("division by zero")

    sim = settled()
    made(sim, "s", 500)
    monkeypatch.setattr(findings, "RULES", {"broken": broken, **findings.RULES})
    with pytest.raises(ZeroDivisionError):
        found(sim)
    monkeypatch.setattr(errors, "ISOLATED", (Exception,))
    test = analyse(sim.records())
    assert [one.id for one in test.findings] == ["left-behind"]
    assert test.findings_failed["broken"].startswith("ZeroDivisionError: division by zero (test_findings.py:")
    text = document.text(findings_table.lines(test), width=1000)
    assert "ZeroDivisionError" in text
    assert "ZeroDivisionError" in document.text(findings_table.of_tests([test]), width=1000)


def test_a_moment_says_nothing_of_the_cores_used() -> None:
    sim = settled()
    sim.cpu("operator", 700, 0.5)
    contents = contents_of(sim.records())
    seen = Observed(contents, result_of(contents, findings=False), ApiFaults(contents))
    assert seen.working(sim.at(700), sim.at(700)) == 1.0
    assert 0 < seen.working(sim.at(0), sim.at(6000)) < 1


def test_each_rule_has_its_reason_and_says_why_it_raises_no_false_alarm() -> None:
    for rule in RULES.values():
        reason = sys.modules[rule.__module__].__doc__ or ""
        assert "\nNo false alarm: " in reason, rule.__module__


def test_objects_without_an_owner_are_left_behind() -> None:
    sim = settled()
    for number in range(4):
        made(sim, f"svc-{number}", 200 + number)
    (left,) = found(sim)
    assert (left.id, left.severity) == ("left-behind", "defect")
    assert left.text.startswith("4 services")
    assert left.evidence == ("t/svc-0, t/svc-1, t/svc-2 and 1 more",)


def test_claims_that_their_finalizer_keeps_in_the_clean_up_are_left_behind() -> None:
    """It is the clean-up that marks them, after the end."""
    sim = settled()
    for number in range(4):
        made(sim, f"svc-{number}", 200 + number, finalizers=("kubernetes.io/pvc-protection",))
        marked = {"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"}
        seen(sim, f"svc-{number}", DELETED + 1100, "modified", fields=marked)
    (left,) = found(sim)
    assert (left.id, left.text.partition(" ")[0]) == ("left-behind", "4")


def test_what_two_watches_show_counts_once() -> None:
    """One of a namespace, and a later one of all."""
    sim = settled()
    for number in range(4):
        made(sim, f"svc-{number}", 200 + number)
    wide = WatchSpec(resource="services", path="/api/v1/services")
    sim.watch(wide, 300)
    for name, namespace, initial in [*((f"svc-{number}", "t", True) for number in range(4)), ("svc-0", "other", False)]:
        sim.request(299, verb="create", resource="services", namespace=namespace, name=name, code=201)
        sim.add(
            rec.ObjectSeen(
                at=sim.at(310), watch=sim.watch_ids[wide], change="added", name=name, namespace=namespace, owner="",
                uid=f"uid-{name}" if initial else "uid-other", initial=initial,
            )
        )  # fmt: skip
    (left,) = found(sim)
    assert left.text.startswith("5 services that the operator made")


@pytest.mark.parametrize(("deleted", "severity"), [(0, "note"), (2, "defect"), (4, None)])
def test_claims_of_stateful_sets_stay_behind_with_their_data(deleted: int, severity: str | None) -> None:
    sim = settled()
    sets = WatchSpec(resource="statefulsets.apps", path="/apis/apps/v1/namespaces/t/statefulsets")
    sim.watch(sets, 5)
    sim.request(150, verb="create", resource="statefulsets", group="apps", namespace="t", name="db", code=201)
    one: dict[str, Any] = {"watch": sim.watch_ids[sets], "name": "db", "namespace": "t", "uid": "uid-db"}
    sim.add(rec.ObjectSeen(at=sim.at(151), change="added", owner="uid-pcs", **one))
    sim.add(rec.ObjectSeen(at=sim.at(DELETED - 500), change="deleted", **one))
    claim: dict[str, Any] = {"resource": "persistentvolumeclaims", "namespace": "t"}
    for number in range(4):
        sim.request(160, user="controller", verb="create", name=f"data-db-{number}", code=201, **claim)
    for number in range(deleted):
        sim.request(DELETED - 400, verb="delete", name=f"data-db-{number}", **claim)
    left = [one.severity for one in analyse(sim.records()).findings if one.id == "left-behind"]
    assert left == ([severity] if severity else [])


@pytest.mark.parametrize("how", ["owner", "deleted", "before"])
def test_what_goes_by_itself_or_is_part_of_the_operator_is_not_left_behind(how: str) -> None:
    sim = settled()
    for number in range(4):
        made(sim, f"svc-{number}", 50 if how == "before" else 200, owner="uid-pcs" if how == "owner" else "")
        if how == "deleted":
            seen(sim, f"svc-{number}", DELETED - 500, "deleted")
    assert "left-behind" not in ids(sim)


@pytest.mark.parametrize("owner", ["uid-pcs", ""])
def test_what_is_in_a_namespace_of_the_operators_making_goes_with_that(owner: str) -> None:
    sim = settled()
    for number in range(4):
        made(sim, f"svc-{number}", 200 + number)
    # The namespace is the objects' own.
    sim.watch(NAMESPACES, 5)
    sim.request(150, verb="create", resource="namespaces", namespace="", name="t", code=201)
    namespace: dict[str, Any] = {"name": "t", "namespace": "", "uid": "uid-t", "owner": owner, "finalizers": []}
    sim.add(rec.ObjectSeen(at=sim.at(151), watch=sim.watch_ids[NAMESPACES], change="added", **namespace))
    assert "left-behind" not in ids(sim)


@pytest.mark.parametrize("maker", ["operator", "harness"])
def test_what_an_owner_keeps_that_was_there_before_is_left_behind(maker: str) -> None:
    sim = settled()
    made(sim, "shared", 50)
    if maker == "harness":
        sim.request(105, user="harness", verb="create", resource="services", namespace="t", name="shared", code=201)
    for number in range(4):
        made(sim, f"svc-{number}", 200 + number, owner="uid-shared")
    kept = [one for one in found(sim) if one.id == "left-behind"]
    if maker == "harness":
        assert not kept
    else:
        assert "4 services" in kept[0].text
        assert "their owner is services t/shared" in kept[0].text


def test_a_finalizer_that_stays_is_named() -> None:
    sim = settled()
    made(sim, "svc-0", 200, owner="uid-pcs", finalizers=("a.io/keep",))
    made(sim, "svc-1", 201, owner="uid-pcs", finalizers=("a.io/keep",))
    for name in ("svc-0", "svc-1"):
        seen(sim, name, DELETED - 900, "modified", fields={"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"})
    (left,) = found(sim)
    assert left.id == "left-behind"
    assert "a.io/keep" in left.text


def test_while_the_workload_goes_nothing_is_left_behind() -> None:
    sim = settled()
    made(sim, "svc-0", 200)
    sim.request(150, user="harness", verb="patch", resource="services", namespace="t", name="asked", code=201)
    seen(sim, "asked", 160, "added", owner="", finalizers=["a.io/slow"])
    assert ids(sim) == set()


def without(sim: Simulation, *kinds: type[rec.Record]) -> Simulation:
    """Leave out the records of these kinds that say that the operator had time to react."""
    sim.items = [
        item
        for item in sim.items
        if not (
            isinstance(item[2], kinds) and rec.SETTLED in (getattr(item[2], "label", ""), getattr(item[2], "edge", ""))
        )
    ]
    return sim


def test_without_time_to_react_nothing_is_left_behind() -> None:
    sim = without(settled(), rec.Mark, rec.Scraped)
    made(sim, "svc-0", 200)
    assert ids(sim) == set()


def test_an_operator_without_metrics_leaves_objects_behind_too() -> None:
    sim = settled()
    made(sim, "svc-0", 200)
    made(sim, "svc-1", 200)
    sim.items = [item for item in sim.items if not isinstance(item[2], rec.Scraped)]
    assert ids(sim) == {"left-behind"}


def test_series_that_name_objects_that_are_gone() -> None:
    sim = settled()
    for number in range(3):
        scrape(sim, "counter", "op_restarts_total", {"settled": 1.0}, pod=f"pod-{number}")
    (left,) = found(sim)
    assert (left.id, left.severity) == ("initial-state", "defect")
    assert left.text.startswith("3 series of op_restarts")
    for family in ("op_retries_total", "op_times_total"):
        scrape(sim, "counter", family, {"settled": 1.0}, pod="pod-0")
    (left,) = found(sim)
    assert left.text.startswith("5 series of op_restarts_total and of 2 more")
    assert left.text.endswith("(label pod)")
    assert [series.partition("{")[0] for series in left.evidence] == [
        "op_restarts_total",
        "op_retries_total",
        "op_times_total",
    ]


def test_open_files_that_stay_in_proportion_to_the_objects() -> None:
    sim = settled()
    scrape(sim, "gauge", "process_open_fds", {"start:deploy": 20.0, "settled": 60.0})
    assert ids(sim) == set()
    sim = settled()
    scrape(sim, "gauge", "process_open_fds", {"start:deploy": 20.0, "settled": 420.0})
    assert ids(sim) == {"initial-state"}


@pytest.mark.parametrize(("at_end", "wrong"), [(50.0, True), (20.0, False)])
def test_goroutines_that_each_reconcile_leaves_behind(at_end: float, wrong: bool) -> None:
    sim = settled()
    edges = {"start:deploy": 5.0, "start:steady-state": 30.0, "end:steady-state": 50.0, "settled": at_end}
    scrape(sim, "gauge", "go_goroutines", edges)
    assert ids(sim) == ({"initial-state"} if wrong else set())


EDGES = ("start:deploy", "end:deploy", "end:steady-state", "end:delete", "settled")


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ((0, N, N, 0, 0), False),
        ((0, N, N, N, N), True),
        ((0, N, N + 2, 0, 0), True),
        # A limit that happens to be the number of pods does not begin at 0.
        ((N, N, N, N, N), False),
        # Something else.
        ((0, 3, 4, 2, 2), False),
    ],
)
def test_a_gauge_that_loses_track_of_the_pods(values: tuple[float, ...], wrong: bool) -> None:
    sim = settled()
    scrape(sim, "gauge", "op_pods", dict(zip(EDGES, map(float, values), strict=True)))
    assert ids(sim) == ({"gauge"} if wrong else set())


@pytest.mark.parametrize(
    ("name", "wrong"), [("op_pending", True), ("op_clock_skew_seconds", False), ("jvm_memory_max_bytes", False)]
)
def test_a_count_below_zero(name: str, wrong: bool) -> None:
    sim = settled()
    scrape(sim, "gauge", name, {"start:deploy": 0.0, "settled": -3.0})
    assert ids(sim) == ({"gauge"} if wrong else set())


def poll(sim: Simulation, start: int, end: int, every: int, **parts: Any) -> None:
    for ms in range(start, end, every):
        sim.request(ms, **{"verb": "list", "resource": "nodes", **parts})


def test_a_poll_while_nothing_changes_and_its_period() -> None:
    sim = settled()
    poll(sim, DEPLOYED + 2000, IDLE, 1000)
    (idle,) = [one for one in found(sim) if one.id == "idle-work"]
    assert idle.severity == "waste"
    assert idle.evidence[0] == "list nodes: every 1 s"


def test_a_status_that_is_written_while_nothing_changes() -> None:
    sim = settled()
    poll(sim, DEPLOYED + 2000, IDLE, 700, verb="patch", resource="pods", subresource="status", namespace="t", name="p")
    assert ("idle-work", "defect") in {(one.id, one.severity) for one in found(sim)}


def test_work_that_ends_soon_after_a_change_is_not_idle_work() -> None:
    sim = settled()
    poll(sim, DEPLOYED + 100, DEPLOYED + 3000, 100)
    assert "idle-work" not in ids(sim)


def test_work_towards_a_milestone_is_not_idle_work() -> None:
    sim = settled()
    # No one else writes for three seconds, until the last milestone.
    poll(sim, 700, 3000, 100, verb="patch", resource="jobs", group="batch", namespace="t", name="j")
    assert "idle-work" not in ids(sim)


def test_writes_for_a_trigger_that_changes_nothing() -> None:
    sim = settled()
    poll(sim, DEPLOYED + 50, DEPLOYED + 70, 2, verb="patch", resource="pods", namespace="t", name="p")
    (noop,) = [one for one in found(sim) if one.id == "noop-work"]
    assert noop.severity == "waste"
    assert noop.text.endswith("10 times: 10 patch pods")


@pytest.mark.parametrize(
    ("resource", "subresource", "group", "severity"),
    [("podcliquesets", "status", "grove.io", "waste"), ("replicasets", "", "apps", "note")],
)
def test_one_write_may_pass_the_trigger_on_but_not_to_its_own_status(
    resource: str, subresource: str, group: str, severity: str
) -> None:
    sim = settled()
    sim.request(
        DEPLOYED + 50, verb="patch", resource=resource, subresource=subresource, group=group, namespace="t", name="pcs"
    )
    (noop,) = analyse(sim.records()).findings
    assert (noop.id, noop.severity) == ("noop-work", severity)


def test_writes_without_effect() -> None:
    sim = settled()
    for number in range(8):
        made(sim, f"svc-{number}", 200 + number, owner="u")
        for ms in (400, 600):
            sim.request(ms, verb="patch", resource="services", namespace="t", name=f"svc-{number}")
        seen(sim, f"svc-{number}", 450, "modified")
    (wasted,) = found(sim)
    assert wasted.id == "wasted-writes"
    assert wasted.text.startswith("8 of 16 writes")


def test_writes_whose_events_had_not_come_when_the_test_ended() -> None:
    sim = settled()  # the clean-up begins a second after DELETED
    for number in range(8):
        made(sim, f"svc-{number}", 200 + number, owner="u")
        for ms in (400, 600):
            sim.request(DELETED + ms, verb="patch", resource="services", namespace="t", name=f"svc-{number}")
        seen(sim, f"svc-{number}", DELETED + 450, "modified")
    assert "wasted-writes" not in ids(sim)


def test_an_apply_that_makes_an_object_is_no_write_without_effect() -> None:
    sim = settled()
    sim.watch(SERVICES, 5)
    for number in range(8):
        sim.request(200, verb="patch", resource="services", namespace="t", name=f"svc-{number}", code=201)
        seen(sim, f"svc-{number}", 210, "added", owner="u")
    assert ids(sim) == set()


def test_writes_of_others_may_be_those_without_effect() -> None:
    sim = settled()
    for number in range(8):
        made(sim, f"svc-{number}", 200 + number, owner="u")
        for user in ("operator", "kwok"):
            sim.request(400, user=user, verb="patch", resource="services", namespace="t", name=f"svc-{number}")
        seen(sim, f"svc-{number}", 450, "modified")
    assert ids(sim) == set()


def test_objects_that_are_deleted_again_and_again() -> None:
    sim = settled()
    for number in range(6):
        for ms in (0, 100):
            sim.request(IDLE + 200 + ms, verb="delete", resource="configmaps", namespace="t", name=f"c-{number}")
    assert ids(sim) == {"wasted-writes"}


@pytest.mark.parametrize("subresource", ["", "status"])
def test_reads_of_what_it_watches(subresource: str) -> None:
    sim = settled()
    sim.request(50, 9, verb="watch", resource="pods", stage="ResponseStarted")
    for number in range(30):
        name = f"pod-{number}"
        sim.request(300 + number, verb="get", resource="pods", subresource=subresource, namespace="t", name=name)
    (reads,) = found(sim)
    assert (reads.id, reads.evidence) == ("needless-reads", ("30 in deploy",))


@pytest.mark.parametrize(("before", "wrong"), [(50, True), (-20, True), (900, False)])
def test_lists_that_come_with_the_scrapes(before: int, wrong: bool) -> None:
    sim = settled()
    for number in range(10):
        at = DEPLOYED + 1000 + 1000 * number
        sim.scrape(at, {})
        sim.request(at - before, verb="list", resource="services", namespace="t", unlimited=True)
    for record in [record for _, _, record in sim.items if isinstance(record, rec.Scraped) and record.edge]:
        ms = (record.at - sim.at(0)) / 1e6
        sim.request(ms - before, verb="list", resource="services", namespace="t", unlimited=True)
    (lists,) = [one for one in found(sim) if one.id == "needless-reads"]
    assert ("at each scrape" in lists.text) is wrong


@pytest.mark.parametrize(("lasts", "noted"), [(40, True), (60, False), (10, False)])
def test_requests_that_are_never_two_at_once(lasts: int, noted: bool) -> None:
    sim = settled()
    for number in range(180):
        at = DEPLOYED + 100 + 50 * number
        sim.request(at, verb="get", resource="services", namespace="t", name=f"svc-{number}", took=lasts)
    notes = [one for one in analyse(sim.records()).findings if one.id == "workers"]
    assert bool(notes) is noted


@pytest.mark.parametrize(
    ("resource", "namespace", "unselected", "noted"),
    [
        ("secrets", "", True, True),
        ("secrets", "t", True, False),
        ("secrets", "", False, False),
        ("pods", "", True, False),
    ],
)
def test_a_cache_of_everyones_objects_is_a_note(resource: str, namespace: str, unselected: bool, noted: bool) -> None:
    sim = settled()
    sim.request(50, verb="watch", resource=resource, namespace=namespace, unselected=unselected)
    notes = [one for one in analyse(sim.records()).findings if one.id == "needless-reads"]
    assert bool(notes) is noted


@pytest.mark.parametrize(
    ("others", "own", "selected", "severity"),
    [
        (300, 10, False, "waste"),
        (40, 10, False, "note"),
        # Mostly its own; with a selector; none of them its own, so that it may be there for all.
        (40, 50, False, ""),
        (300, 10, True, ""),
        (300, 0, False, ""),
    ],
)
def test_a_watch_that_mostly_brings_objects_of_others(others: int, own: int, selected: bool, severity: str) -> None:
    sim = settled()
    sim.watch(SERVICES, 5)
    sim.request(50, verb="watch", resource="services", unselected=not selected)
    for number in range(own):
        made(sim, f"own-{number}", 200 + number, owner="uid-pcs")
        seen(sim, f"own-{number}", DELETED - 500, "deleted")
    for number in range(others):
        sim.request(
            300, user="harness", verb="create", resource="services", namespace="t", name=f"o-{number}", code=201
        )
        seen(sim, f"o-{number}", 310, "added", owner="")
    noted = [one for one in analyse(sim.records()).findings if one.id == "needless-reads"]
    assert [one.severity for one in noted] == ([severity] if severity else [])
    if severity:
        assert f"{others:,} of the {others + own:,}" in noted[0].text


def test_few_reads_are_left_alone() -> None:
    sim = settled()
    sim.request(50, 9, verb="watch", resource="pods", stage="ResponseStarted")
    for number in range(5):
        sim.request(300 + number, verb="get", resource="pods", namespace="t", name=f"pod-{number}")
    assert ids(sim) == set()


@pytest.mark.parametrize(
    ("code", "severity"), [(403, "defect"), (422, "defect"), (500, "waste"), (503, None), (404, None)]
)
def test_refused_requests(code: int, severity: str | None) -> None:
    sim = settled()
    for number in range(6):
        # With a growing delay, as client-go's queues have.
        sim.request(300 + 2**number, verb="patch", resource="jobs", group="batch", namespace="t", name="j", code=code)
    assert [one.severity for one in found(sim)] == ([severity] if severity else [])


def test_what_was_under_way_when_the_operator_ended_was_not_refused() -> None:
    def noted(ended: int) -> list[str]:
        sim = settled()
        for number in range(12):
            sim.request(300 + number, verb="create", resource="pods", namespace="t", name=f"p-{number}", code=504)
        sim.add(rec.ProcessGone(at=sim.at(ended), process="operator", pid=10))
        return [one.id for one in analyse(sim.records()).findings]

    assert "refused-requests" in noted(3000)
    assert "refused-requests" not in noted(320)


def test_retries_without_a_growing_delay() -> None:
    sim = settled()
    poll(sim, 300, 3300, 300, verb="patch", resource="jobs", group="batch", namespace="t", name="j", code=500)
    assert any("without a growing delay" in one.text and one.severity == "defect" for one in found(sim))


@pytest.mark.parametrize(("after", "severity"), [(50, "note"), (3000, "waste")])
def test_what_the_operator_made_just_before_was_asked_for_by_a_cache_that_lags(after: int, severity: str) -> None:
    sim = settled()
    for number in range(12):
        made(sim, f"svc-{number}", 200 + number, owner="uid-pcs")
        if number < 5:
            at = 200 + number + after
            sim.request(at, verb="create", resource="services", namespace="t", name=f"svc-{number}", code=409)
        seen(sim, f"svc-{number}", DELETED - 500, "deleted")
    (refused,) = [one for one in analyse(sim.records()).findings if one.id == "refused-requests"]
    assert (refused.severity, "made just before" in refused.text) == (severity, severity == "note")


@pytest.mark.parametrize("own", [True, False])
def test_an_operator_that_makes_before_it_looks_repeats_no_failed_request(own: bool) -> None:
    sim = settled()
    if own:
        made(sim, "s", 200, owner="uid-pcs")
        seen(sim, "s", DELETED - 500, "deleted")
    poll(sim, 3000, 6000, 300, verb="create", resource="services", namespace="t", name="s", code=409)
    texts = [one.text for one in found(sim) if one.id == "refused-requests"]
    assert any("before it looks" in text for text in texts) == own
    assert any("without a growing delay" in text for text in texts) != own


def test_conflicts() -> None:
    sim = settled()
    poll(sim, 300, 320, 1, verb="patch", resource="jobs", group="batch", namespace="t", name="j", code=409)
    assert ids(sim) == {"refused-requests"}


@pytest.mark.parametrize(("every", "wrong"), [(300, True), (2000, False)])
def test_renewals_of_a_lease(every: int, wrong: bool) -> None:
    sim = settled()
    poll(
        sim, 200, DELETED, every,
        verb="update", resource="leases", group="coordination.k8s.io", namespace="op", name="leader",
    )  # fmt: skip
    assert ids(sim) == ({"housekeeping"} if wrong else set())


def test_watches_that_are_opened_again() -> None:
    sim = settled()
    poll(sim, DEPLOYED + 2000, IDLE, 2000, verb="watch", stage="ResponseStarted")
    poll(sim, DEPLOYED + 3000, IDLE, 2000, verb="watch", stage="ResponseComplete")
    assert ids(sim) == {"housekeeping"}


@pytest.mark.parametrize(
    ("kinds", "every", "wrong"), [(4, 5000, True), (2, 5000, False), (4, 12000, False), (4, 60000, False)]
)
def test_watches_on_several_kinds_that_end_within_seconds(kinds: int, every: int, wrong: bool) -> None:
    sim = settled()
    for number in range(kinds):
        poll(sim, 100, DELETED, every, verb="watch", resource=f"kind-{number}", stage="ResponseStarted")
    assert ("housekeeping" in ids(sim)) == wrong


def test_of_several_kinds_whose_watches_end_all_are_named_also_where_one_shows_more_often() -> None:
    sim = settled()
    for number in range(4):
        every = 2000 if number else 1500
        for ms in range(100, DELETED, every):
            for stage in ("ResponseStarted", "ResponseComplete"):
                sim.request(ms, every - 10, verb="watch", resource=f"kind-{number}", stage=stage)
    (watches,) = [one.text for one in found(sim) if one.id == "housekeeping"]
    assert "4 kinds" in watches


def test_an_endpoint_that_never_answers() -> None:
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.phase("deploy", 100, 900, made=pods(0))
    for ms in (90, 950):
        sim.add(rec.SourceFailed(at=sim.at(ms), source="scrape:operator", message="no answer"))
    assert ids(sim) == {"metrics-endpoint"}


@pytest.mark.parametrize(
    "record",
    [
        # It was killed, or stopped: that is the cause, of which the phase's error speaks.
        lambda sim: rec.ProcessGone(at=sim.at(80), process="operator", pid=10),
        lambda sim: rec.Stalled(
            at=sim.at(960), process="operator", kind="stopped", began=sim.at(80), length_ns=880_000_000
        ),
    ],
)
def test_an_endpoint_of_a_process_that_does_not_run_is_no_finding(record: Callable[[Simulation], Any]) -> None:
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.phase("deploy", 100, 900, made=pods(0))
    for ms in (90, 950):
        sim.add(rec.SourceFailed(at=sim.at(ms), source="scrape:operator", message="no answer"))
    sim.add(record(sim))
    assert ids(sim) == set()


@pytest.mark.parametrize(
    ("fastest", "scrapes", "series", "wrong"),
    [(0.8, 8, 1, True), (0.1, 8, 1, False), (0.8, 1, 1, False), (0.8, 8, 9000, False)],
)
def test_an_endpoint_of_which_the_fastest_scrape_is_slow(
    fastest: float, scrapes: int, series: int, wrong: bool
) -> None:
    sim = settled()
    for number in range(scrapes):
        sim.scrape(DEPLOYED + 100 * number, {})
    sim.scrape(IDLE - 2000, {f'op_x{{n="{number}"}}': 1.0 for number in range(series)})
    sim.items = [
        (at, order, msgspec.structs.replace(one, took_ns=round(fastest * 1e9)) if isinstance(one, rec.Scraped) else one)
        for at, order, one in sim.items
    ]
    assert ("metrics-endpoint" in ids(sim)) == wrong


@pytest.mark.parametrize("refused", [["it has no Content-Type"], []])
def test_an_endpoint_that_prometheus_refuses(refused: list[str]) -> None:
    sim = settled()
    sim.items = [
        (at, order, msgspec.structs.replace(one, refused=refused) if isinstance(one, rec.Scraped) else one)
        for at, order, one in sim.items
    ]
    assert ids(sim) == ({"metrics-endpoint"} if refused else set())


def left(sim: Simulation) -> None:
    made(sim, "svc-0", 200)
    made(sim, "svc-1", 201)


def opened(sim: Simulation, **parts: Any) -> Simulation:
    at, order, first = sim.items[0]
    assert isinstance(first, rec.Opened)
    sim.items[0] = at, order, msgspec.structs.replace(first, **parts)
    return sim


DEPLOYMENTS = WatchSpec(resource="deployments.apps", path="/apis/apps/v1/namespaces/t/deployments")


@pytest.mark.parametrize(
    ("controllers", "outcome", "wrong"),
    [
        ("garbage-collector-controller", "timeout", True),
        ("garbage-collector-controller", "passed", False),
        ("garbage-collector-controller,deployment-controller", "timeout", False),
        ("garbage-collector-controller,deployment", "timeout", False),
        ("*", "timeout", False),
        ("all", "timeout", False),
        ("*,-deployment-controller", "timeout", True),
        (None, "timeout", False),
    ],
)
def test_a_deployment_without_its_controller(controllers: str | None, outcome: Any, wrong: bool) -> None:
    facts = {"backend": "local"} | ({"controller_manager_controllers": controllers} if controllers else {})
    sim = opened(Simulation(), cluster=facts)
    sim.watch(DEPLOYMENTS, 1)
    sim.watch(PODS, 1)
    sim.phase("deploy", 100, 900, outcome, made=pods(1))
    sim.add(
        rec.ObjectSeen(
            at=sim.at(200), watch="w0", change="added", name="web", namespace="t", uid="u", owner="", fields={}
        )
    )
    found = analyse(sim.records()).findings
    assert [one.id for one in found] == (["missing-controller"] if wrong else [])


def stalled(outcome: Any = "timeout", *, sent: Callable[[Simulation, int], None] | None = None) -> list[Finding]:
    """What is found in a deployment of which one pod of two comes, and 8 s later still nothing else."""
    sim = opened(Simulation())
    sim.watch(PODS, 1)
    sim.phase("deploy", 100, 9000, outcome, made=pods(1 if outcome == "passed" else 2))
    sim.request(200, verb="create", resource="pods", namespace="t", name="p0", code=201)
    sim.request(900, user="kwok", verb="patch", resource="pods", namespace="t", name="p0", subresource="status")
    for number in range(60):
        if sent is not None:
            sent(sim, 2000 + 100 * number)
    return [each for one in analyse(sim.records()).findings for each in one.all]


def test_a_phase_that_stalls_while_the_operator_writes_in_a_circle() -> None:
    def write(sim: Simulation, ms: int) -> None:
        sim.request(ms, verb="update", resource="configmaps", namespace="t", name=f"c{ms // 100 % 2}")

    (finding,) = stalled(sent=write)
    assert (finding.id, finding.severity) == ("stalled", "defect")
    assert "same 2 objects" in finding.text
    assert "60 update configmaps" in finding.text
    assert finding.evidence[0] == "configmaps t/c0: 30 times"
    assert finding.text.endswith("writes wake it")


def test_a_phase_that_stalls_while_a_timer_writes() -> None:
    def write(sim: Simulation, ms: int) -> None:
        if ms % 1000 == 0:
            sim.request(ms, verb="update", resource="configmaps", namespace="t", name="c")

    (finding,) = [one for one in stalled(sent=write) if one.id == "stalled"]
    assert "each every 1 s" in finding.text


def test_a_phase_that_stalls_while_the_operator_only_asks() -> None:
    def look(sim: Simulation, ms: int) -> None:
        sim.request(ms, verb="get", resource="pods", namespace="t", name="p0")

    assert ("stalled", "waste") in {(one.id, one.severity) for one in stalled(sent=look)}


def test_a_phase_that_stalls_while_the_operator_does_nothing() -> None:
    (finding,) = stalled()
    assert (finding.id, finding.severity) == ("stalled", "note")


def test_no_stall_where_the_phase_passed_or_others_went_on() -> None:
    def others(sim: Simulation, ms: int) -> None:
        sim.request(ms, user="kwok", verb="patch", resource="pods", namespace="t", name="p0", subresource="status")

    assert "stalled" not in {one.id for one in stalled("passed")}
    assert "stalled" not in {one.id for one in stalled(sent=others)}


@pytest.mark.parametrize(
    ("resource", "group", "counted", "wrong"),
    [
        ("deployments", "apps", "pods", True),
        ("daemonsets", "apps", "pods", True),
        ("cronjobs", "batch", "jobs.batch", True),
        ("services", "", "endpointslices.discovery.k8s.io", True),
        ("services", "", "pods", False),
        ("poddisruptionbudgets", "policy", "poddisruptionbudgets.policy", True),
        ("poddisruptionbudgets", "policy", "pods", False),
    ],
)
def test_children_that_no_controller_makes(
    resource: str, group: str, counted: str, wrong: bool, snapshot: SnapshotAssertion
) -> None:
    """Of kinds that no milestone counts the audit log says how many there are."""
    sim = opened(Simulation(), cluster={"controller_manager_controllers": "garbage-collector-controller"})
    spec = WatchSpec(resource=counted, path="/of/what/is/counted")
    sim.watch(spec, 1)
    sim.phase("deploy", 100, 900, "timeout", made=Count(watch=spec, op=">=", n=1))
    for number in range(4):
        parts: dict[str, Any] = {"resource": resource, "group": group, "namespace": "t", "name": f"one-{number}"}
        sim.request(200, user="harness", verb="create", code=201, **parts)
        if not number:
            sim.request(300, user="harness", verb="delete", **parts)
    found = analyse(sim.records()).findings
    assert [one.id for one in found] == (["missing-controller"] if wrong else [])
    assert [one.text for one in found] == snapshot


@pytest.mark.parametrize(
    "change",
    [
        lambda sim: opened(sim, profiled=True),
        lambda sim: opened(sim, findings_off={"left-behind": "they are shared"}),
        lambda sim: opened(sim, identities={**IDENTITIES, "operator": IDENTITIES["harness"]}),
        lambda sim: opened(sim, audited=False),
    ],
    ids=["profiled", "switched-off", "one-user", "no-log"],
)
def test_without_ground_there_is_no_finding(change: Callable[[Simulation], Simulation]) -> None:
    sim = settled()
    left(sim)
    assert ids(sim) == {"left-behind"}
    assert ids(change(sim)) == set()


def test_older_recordings_know_no_owners() -> None:
    sim = settled()
    left(sim)
    sim.items = [
        (at, order, msgspec.structs.replace(record, owner=None) if isinstance(record, rec.ObjectSeen) else record)
        for at, order, record in sim.items
    ]
    assert ids(sim) == set()


def test_the_most_severe_come_first() -> None:
    sim = settled()
    left(sim)
    poll(sim, DEPLOYED + 2000, IDLE, 1000)
    severities = [one.severity for one in analyse(sim.records()).findings]
    assert severities == sorted(severities)
    assert severities[0] == "defect"


def test_rules_are_pure() -> None:
    sim = settled()
    left(sim)
    contents = contents_of(sim.records())
    assert result_of(contents).findings == result_of(contents).findings


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('E1124 14:36:10.57   10645 controller.go:497] "Reconciler error" err="not ready" controller="b"', "not ready"),
        ('{"level":"error","msg":"Reconciler error","error":"no route"}', "no route"),
        ("2026-11-24 14:51:01,447 [ERROR] sync failed", "sync failed"),
        ("('n', 'a'): TypeError('x')", "('n', 'a'): TypeError('x')"),
    ],
)
def test_what_a_line_of_a_log_says(line: str, said: str) -> None:
    assert message(line) == said
