"""What rules find of work that waits for itself: by object, in an event loop; on a quiet machine and beside others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pytest_grovescale.analysis.analyse import analyse, contents_of, result_of
from pytest_grovescale.analysis.api_faults import ApiFaults
from pytest_grovescale.analysis.controller_result import WorkerRow
from pytest_grovescale.analysis.findings.evidence import Span, Window
from pytest_grovescale.analysis.findings.observed import Observed
from pytest_grovescale.analysis.findings.owner_steps import all_ask
from pytest_grovescale.analysis.phase_result import BottleneckRow
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.object_references import any_kind

from .simulated import Simulation
from .test_findings import DELETED, DEPLOYED, IDLE, found, made, opened, scrape, settled
from .test_findings_objects import CLIQUES, busy_workers, clique, gone, idle_cpu, shown

CLIQUE: dict[str, Any] = {"resource": "cliques", "group": "a.io", "namespace": "t"}
GOING = {"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"}


def beside_others(sim: Simulation, waiting: float) -> None:
    """Two other programs use all cores; ``waiting`` threads of operator and API server each wait, on average."""
    for index, (at, order, record) in enumerate(list(sim.items)):
        if isinstance(record, rec.CpuRead) and record.process in ("operator", "kube-apiserver"):
            waited = round(waiting * (record.at - sim.at(0)))
            sim.items[index] = at, order, msgspec.structs.replace(record, waiting_ns=waited)
            if record.process == "operator":
                busy = 2 * (record.at - sim.at(0)) + 10**9
                times = rec.CoreTimes(cores=2, busy_ns=busy, idle_ns=0, iowait_ns=0, steal_ns=0)
                sim.add(rec.MachineRead(at=record.at, times=times, edge=record.edge))


def sent(sim: Simulation, verb: str, name: str, ms: float, **parts: Any) -> None:
    sim.request(ms, verb=verb, name=name, **{**CLIQUE, **parts})


def deployed(sim: Simulation, owners: int, children: int) -> None:
    """Several objects with children each, which the operator made at once."""
    sim.watch(CLIQUES, 6)
    for owner in range(owners):
        shown(sim, f"owner-{owner}", 150, "added", owner="")
        for child in range(children):
            clique(sim, f"owner-{owner}-{child}", 200 + child, owner=f"uid-owner-{owner}")


@pytest.mark.parametrize(
    ("wait", "order", "waiting", "wrong"),
    [
        (400, (0, 1, 2), 0.0, True),
        # The last one first, as ordinals go.
        (400, (2, 1, 0), 0.0, False),
        # All at once.
        (0, (0, 1, 2), 0.0, False),
        # Beside others, a request waits for some of this time.
        (400, (0, 1, 2), 0.3, True),
        # What waiting for a core explains.
        (400, (0, 1, 2), 2.0, False),
        (40, (0, 1, 2), 0.3, False),
        # Of two, the first may be a trial.
        (400, (0, 1), 0.0, True),
        (150, (0, 1), 0.0, False),
    ],
)
def test_children_of_each_owner_that_are_deleted_one_after_the_other(
    wait: int, order: tuple[int, ...], waiting: float, wrong: bool
) -> None:
    """Several owners at once: no order is left in the stream of all deletions."""
    sim = settled()
    idle_cpu(sim)
    owners = 24 // len(order)
    deployed(sim, owners, len(order))
    for owner in range(owners):
        begin = IDLE + 100 + 7 * owner
        shown(sim, f"owner-{owner}", begin, fields=GOING)
        for place, child in enumerate(order):
            ms = begin + 20 + place * wait + 3 * (owner % 3)
            sent(sim, "delete", f"owner-{owner}-{child}", ms)
            shown(sim, f"owner-{owner}-{child}", ms + max(10, wait - 30), "deleted")
        shown(sim, f"owner-{owner}", begin + 3 * max(20, wait) + 50, "deleted")
    if waiting:
        beside_others(sim, waiting)
    serial = [one.text for one in found(sim) if one.id == "pacing" and "one after the other" in one.text]
    assert bool(serial) == wrong, serial
    if wrong:
        assert f"{len(order)} cliques.a.io of each of {owners}" in serial[0]


@pytest.mark.parametrize(
    ("owner", "pauses", "news", "waiting", "wrong"),
    [
        ("uid", (300, 200), "", 0.0, True),
        ("name", (300, 200), "", 0.0, True),
        ("uid", (300, 200), "", 0.3, True),
        ("uid", (300, 200), "", 2.0, False),
        # What the operator waited for: someone changed the object right before.
        ("uid", (300, 200), "itself", 0.0, False),
        ("uid", (300, 200), "named", 0.0, False),
        ("uid", (9, 9), "", 0.0, False),
    ],
)
def test_pauses_between_the_steps_for_each_object(
    owner: str, pauses: tuple[int, int], news: str, waiting: float, wrong: bool
) -> None:
    sim = settled()
    idle_cpu(sim)
    sim.watch(CLIQUES, 6)
    if news == "named":
        for number in range(10):
            shown(sim, f"base-{number}", 150, "added", owner="")
    for number in range(10):
        name = f"web-{number}"
        if owner == "name":
            sim.request(150, user="harness", verb="create", code=201, name=name, **{**CLIQUE, "resource": "sites"})
        shown(sim, name, 160, "added", owner="", needs=[any_kind(f"base-{number}")])
        ms = 200.0 + 13 * number
        for step, pause in enumerate((0, *pauses)):
            ms += pause + (number * 7 % 5)
            of = f"uid-{name}" if owner == "uid" else ""
            if news == "itself" and step:
                sent(sim, "patch", name, ms - 8, user="kwok", subresource="status")
            if news == "named" and step:
                sent(sim, "patch", f"base-{number}", ms - 8, subresource="status")
            clique(sim, f"{name}-part-{step}", ms, owner=of)
            ms += 2
    gone(sim)
    if owner == "name":
        _as_sites(sim)
    if waiting:
        beside_others(sim, waiting)
    paced = [one.text for one in found(sim) if one.id == "pacing" and "for each of 10" in one.text]
    assert bool(paced) == wrong, paced


@pytest.mark.parametrize(
    ("busy", "under_way", "asks"),
    [((3.8, 1.0), 2.5, True), ((3.8, 3.8), 2.5, False), ((2.0, 1.0), 2.5, False), ((3.8,), 0.5, False)],
)
def test_workers_that_all_wait_for_answers_leave_the_rest_in_the_queue(
    busy: tuple[float, ...], under_way: float, asks: bool
) -> None:
    """``busy``: of four workers of each controller; ``under_way``: requests."""
    records = list(settled().records())
    phase, recorded = analyse(records).phases[0], contents_of(records).phases[0]
    workers = tuple(
        WorkerRow(controller=f"c{number}", workers=4, busy_workers=at_work) for number, at_work in enumerate(busy)
    )
    span = Span(msgspec.structs.replace(phase, workers=workers), recorded, recorded.start)
    window = Window(phase.name, recorded.start, recorded.start + round(phase.seconds * 1e9))
    assert all_ask(span, window, under_way) == asks


@pytest.mark.parametrize(("waiting", "wrong"), [(0.3, True), (2.0, False)])
def test_a_run_that_accepts_any_contention_calls_no_wait_for_a_core_a_pause(waiting: float, wrong: bool) -> None:
    sim = settled()
    opened(sim, contention_limit=1.0)
    idle_cpu(sim)
    deployed(sim, 10, 0)
    for number in range(10):
        for step in range(3):
            clique(sim, f"owner-{number}-{step}", 200 + 200 * step + 13 * number, owner=f"uid-owner-{number}")
    gone(sim)
    beside_others(sim, waiting)
    assert bool([one for one in found(sim) if "for each of 10" in one.text]) == wrong


def _as_sites(sim: Simulation) -> None:
    """Show the owners as objects of a kind of their own."""
    sites = msgspec.structs.replace(CLIQUES, resource="sites.a.io", path="/apis/a.io/v1/namespaces/t/sites")
    sim.watch(sites, 6)
    watch = sim.watch_ids[sites]
    for index, (at, order, record) in enumerate(sim.items):
        if isinstance(record, rec.ObjectSeen) and record.name.count("-") == 1 and record.name.startswith("web-"):
            sim.items[index] = at, order, msgspec.structs.replace(record, watch=watch)


def ten_come() -> Simulation:
    """Ten objects of the test come at once, of which the operator makes others."""
    sim = settled()
    idle_cpu(sim)
    sim.watch(CLIQUES, 6)
    for number in range(10):
        sim.request(150 + number, user="harness", verb="create", code=201, name=f"web-{number}", **CLIQUE)
        shown(sim, f"web-{number}", 155 + number, "added", owner="")
    return sim


@pytest.mark.parametrize(
    ("pause", "spread", "working", "waiting", "wrong"),
    [
        (250, True, 0.05, 0.0, True),
        (250, True, 0.05, 0.3, True),
        # It computes.
        (250, True, 0.9, 0.0, False),
        # It waits for a core.
        (250, True, 0.05, 2.0, False),
        (60, True, 0.05, 0.3, False),
        (10, True, 0.05, 0.0, False),
        # All wait for one thing, and are served at once.
        (2500, False, 0.05, 0.0, False),
    ],
)
def test_nothing_goes_on_while_objects_wait(
    pause: int, spread: bool, working: float, waiting: float, wrong: bool
) -> None:
    """Ten objects come at once; the operator makes two children of one, and sleeps before it looks at the next."""
    sim = ten_come()
    for number in range(10):
        ms = 200 + pause * (number if spread else 1) + 6 * number
        for child in range(2):
            clique(sim, f"web-{number}-{child}", ms + 3 * child, owner=f"uid-web-{number}")
    gone(sim)
    if working > 0.05:
        for index, (at, order, record) in enumerate(sim.items):
            if isinstance(record, rec.CpuRead) and record.process == "operator":
                used = round(working * (record.at - sim.at(0)))
                sim.items[index] = at, order, msgspec.structs.replace(record, cpu_ns=used)
    if waiting:
        beside_others(sim, waiting)
    silent = [one for one in found(sim) if one.id == "workers"]
    assert bool(silent) == wrong, silent
    if wrong:
        assert "up to 10 objects waited" in silent[0].text


def test_one_long_call_in_the_event_loop_holds_up_a_scrape() -> None:
    """All objects are served at once after it, as after a timer: but a timer does not keep a scrape from its answer."""
    for took, wrong in ((0.02, False), (1.9, True)):
        sim = ten_come()
        for number in range(10):
            clique(sim, f"web-{number}-0", 2700 + 6 * number, owner=f"uid-web-{number}")
        gone(sim)
        sim.add(rec.Scraped(at=sim.at(2650), target="operator", took_ns=round(took * 1e9)))
        silent = [one for one in found(sim) if one.id == "workers"]
        assert bool(silent) == wrong, silent


def test_the_line_that_blocks_is_named_where_stacks_were_dumped() -> None:
    sim = ten_come()
    for number in range(10):
        clique(sim, f"web-{number}-0", 200 + 250 * number, owner=f"uid-web-{number}")
    gone(sim)
    dump = [
        'Thread 7 (idle): "MainThread"',
        "    lookup (/opt/shop/prices.py:12)",
        "    reconcile (/opt/shop/controller.py:40)",
    ]
    # Tasks wait for the event loop, more of them than block it.
    for number in range(3):
        task = [
            f"Task worker-{number} (most recent call last):",
            '  File "/opt/shop/controller.py", line 70, in reconcile',
        ]
        dump += ["", *task, "    await web.create()"]
    sim.add(rec.Lines(at=sim.at(DELETED), source="stacks:operator", lines=dump))
    (silent,) = [one for one in found(sim) if one.id == "workers"]
    assert any("lookup (opt/shop/prices.py:12)" in one or "prices.py:12" in one for one in silent.evidence)


def each_with_its_own(sim: Simulation, start: float, value: Callable[[int, int], float], number: int = 40) -> None:
    """Cliques come, are idle and go; a scrape has ``value`` of those that ever came, and of those that exist."""
    for index in range(number):
        clique(sim, f"c-{index}", 200 + 50 * index)
        shown(sim, f"c-{index}", IDLE + 500 + 20 * index, "deleted")
    scrape(sim, "gauge", "go_goroutines", {"start:deploy": start})
    for ms in (700, 1300, 2000, 2300, 4000, IDLE + 700, IDLE + 1000, IDLE + 2000, DELETED + 890):
        ever = sum(200 + 50 * index + 10 <= ms for index in range(number))
        gone_by = sum(IDLE + 500 + 20 * index <= ms for index in range(number))
        sim.scrape(ms, {"go_goroutines": value(ever, ever - gone_by)})
    sim.scrape(DELETED + 895, {"go_goroutines": value(number, 0)}, edge=rec.SETTLED)


@pytest.mark.parametrize(
    ("start", "value", "severity"),
    [
        (20, lambda ever, there: 20 + ever, "defect"),
        (20, lambda ever, there: 20 + 2 * ever, "defect"),
        # Informers start with the first object, and hide nothing.
        (20, lambda ever, there: 75 + ever + ever % 3, "defect"),
        # One for each as long as it exists.
        (20, lambda ever, there: 75 + there, "note"),
        # Only informers; a pool that is full at half of the objects; too many for what each may have.
        (20, lambda ever, there: 75.0, ""),
        (20, lambda ever, there: 75 + min(ever, 20), ""),
        (20, lambda ever, there: 75 + 8 * ever, ""),
        # Not in step with them.
        (20, lambda ever, there: 75 + (30 if there > 20 else 0), ""),
    ],
)
def test_goroutines_of_each_object(start: float, value: Callable[[int, int], float], severity: str) -> None:
    sim = settled()
    each_with_its_own(sim, start, value)
    own = [one for one in analyse(sim.records()).findings if one.id == "initial-state"]
    own = [one for one in own if "goroutines grew with the cliques" in one.text]
    assert [one.severity for one in own] == ([severity] if severity else [])
    if severity:
        each = " 2 for each of 40" if value(3, 3) - value(0, 0) == 6 else " 1 for each of 40"
        assert each in own[0].text


def test_the_function_of_goroutines_that_stay_is_named() -> None:
    sim = settled()
    each_with_its_own(sim, 20, lambda ever, there: 75 + ever)
    stack = [
        "goroutine {} [select]:",
        "shop/internal.(*Poller).run(0xc000)",
        "\t/opt/shop/internal/poller.go:31 +0x1c",
        "",
    ]
    dump = [line.format(number) for number in range(40) for line in stack]
    sim.add(rec.Lines(at=sim.at(DELETED + 899), source="stacks-left:operator", lines=dump))
    (own,) = [one for one in found(sim) if one.id == "initial-state"]
    assert own.text.endswith("stayed after they were gone: 40 in internal.(*Poller).run")


@pytest.mark.parametrize(
    ("before", "after", "wrong"),
    [
        (0, 40, True),
        (20, 100, True),  # two for each
        (0, 20, False),  # a pool that starts with its first key
        (40, 41, False),
        (None, 40, False),  # a program that serves no stacks, or an older recording
    ],
)
def test_tasks_that_stay_with_each_object(before: int | None, after: int, wrong: bool) -> None:
    sim = settled()
    for index in range(40):
        clique(sim, f"c-{index}", 200 + 5 * index)
        shown(sim, f"c-{index}", IDLE + 500 + 20 * index, "deleted")
    for source, number, ms in (("stacks-first", before, 20), ("stacks-left", after, DELETED + 899)):
        stack = ["Task {} (most recent call last):", '  File "/opt/shop/forwarder.py", line 31, in forward', ""]
        others = ["Task other (most recent call last):", '  File "/opt/shop/main.py", line 3, in main', ""]
        dump = [*others, *(line.format(task) for task in range(number or 0) for line in stack)]
        if number is not None:
            sim.add(rec.Lines(at=sim.at(ms), source=f"{source}:operator", lines=dump))
    texts = [one.text for one in found(sim) if one.id == "initial-state"]
    assert any("in forwarder.forward" in text for text in texts) == wrong, texts


@pytest.mark.parametrize(
    ("full", "after", "new_watch", "severity"),
    [
        (114, 113, False, "defect"),
        (114, 74, False, "note"),
        # Neither one for each, nor none; what a new watch needs may be as many.
        (90, 90, False, ""),
        (114, 113, True, ""),
    ],
)
def test_goroutines_of_a_deployment_that_is_over_before_a_second_scrape(
    full: int, after: int, new_watch: bool, severity: str
) -> None:
    sim = settled()
    for index in range(40):
        clique(sim, f"c-{index}", 200 + 5 * index)
        shown(sim, f"c-{index}", IDLE + 500 + 20 * index, "deleted")
    # That of the sound run is one more of a kind that is watched already.
    sim.request(10, 9, verb="watch", resource="podcliquesets", group="grove.io", stage="ResponseStarted")
    if new_watch:
        sim.request(300, verb="watch", resource="services", stage="ResponseStarted")
    scrape(sim, "gauge", "go_goroutines", {"start:deploy": 72.0})
    sim.scrape(300, {"go_goroutines": 110.0})
    for ms, more in ((1500, 9), (2000, 1), (4000, 0), (IDLE - 500, 0)):
        sim.scrape(ms, {"go_goroutines": float(full + more)})
    sim.scrape(DELETED + 895, {"go_goroutines": float(after)}, edge=rec.SETTLED)
    own = [one for one in analyse(sim.records()).findings if one.id == "initial-state"]
    assert [one.severity for one in own] == ([severity] if severity else [])


@pytest.mark.parametrize(("sockets", "severity"), [(9, "defect"), (20, "note"), (None, "note")])
def test_few_goroutines_that_stay_are_no_pool_of_connections(sockets: int | None, severity: str) -> None:
    sim = settled()
    for index in range(30):
        clique(sim, f"c-{index}", 200 + 5 * index)
        shown(sim, f"c-{index}", IDLE + 500 + 20 * index, "deleted")
    sim.request(10, 9, verb="watch", resource="podcliquesets", group="grove.io", stage="ResponseStarted")
    scrape(sim, "gauge", "go_goroutines", {"start:deploy": 72.0})
    for ms, count, connected in ((80, 72.0, 7), (1500, 102.0, sockets), (4000, 102.0, 7), (IDLE - 500, 102.0, 7)):
        if ms > 80:
            sim.scrape(ms, {"go_goroutines": count})
        if sockets is not None:
            read = rec.CpuRead(at=sim.at(ms), process="operator", pid=10, cpu_ns=10**9, rss_bytes=1, sockets=connected)
            sim.add(read)
    sim.scrape(DELETED + 895, {"go_goroutines": 102.0}, edge=rec.SETTLED)
    own = [one.severity for one in analyse(sim.records()).findings if one.id == "initial-state"]
    assert own == [severity]


@pytest.mark.parametrize(("number", "severity"), [(60, "defect"), (30, "note"), (12, "")])
def test_threads_of_each_object(number: int, severity: str) -> None:
    """As many as a pool may have by itself are not called one for each."""
    sim = settled()
    for index in range(number):
        clique(sim, f"c-{index}", 200 + 50 * index)
        shown(sim, f"c-{index}", IDLE + 500 + 20 * index, "deleted")
    for ms in (150, 900, 1500, 2100, 2900, 4000, IDLE, DELETED + 880):
        threads = 8 + sum(200 + 50 * index + 10 <= ms for index in range(number))
        sim.add(rec.CpuRead(at=sim.at(ms), process="operator", pid=10, cpu_ns=10**9, rss_bytes=10**8, threads=threads))
    own = [one for one in analyse(sim.records()).findings if one.id == "initial-state"]
    assert [one.severity for one in own] == ([severity] if severity else [])


def twelve_owners() -> Simulation:
    """Return a run with owners of children that are yet to come, and an operator that does not work meanwhile."""
    sim = settled()
    idle_cpu(sim)
    sim.watch(CLIQUES, 6)
    for owner in range(12):
        shown(sim, f"owner-{owner}", 150, "added", owner="")
    return sim


@pytest.mark.parametrize(
    ("order", "jitter", "busy", "named"),
    [
        ("in turn", 0, None, True),
        ("in a row", 0, None, False),
        ("in turn", 12, None, False),
        ("in turn", 0, 4.0, True),
        ("in turn", 0, 1.0, False),  # a single worker that pauses
    ],
)
def test_requests_at_one_rate_whatever_they_are_for(order: str, jitter: int, busy: float | None, named: bool) -> None:
    """Twelve owners with ten children each: several workers that share a limit, a single one, or none."""
    sim = twelve_owners()
    for number in range(120):
        child, owner = divmod(number, 12) if order == "in turn" else reversed(divmod(number, 10))
        ms = 200 + 24 * number + sim.random.randint(-jitter, jitter)
        clique(sim, f"child-{owner}-{child}", ms, owner=f"uid-owner-{owner}")
    gone(sim)
    if busy is not None:
        busy_workers(sim, busy)
    texts = [one.text for one in found(sim) if "of its client" in one.text]
    assert len(texts) == named
    assert all("at 41.7 a second" in text for text in texts)


@pytest.mark.parametrize(("busy", "waiting", "wrong"), [(4.9, 0.05, True), (4.9, 2.0, False), (3.0, 0.05, False)])
def test_workers_that_are_all_blocked_beside_other_programs(busy: float, waiting: float, wrong: bool) -> None:
    sim = settled()
    idle_cpu(sim)
    busy_workers(sim, busy)
    beside_others(sim, waiting)
    texts = [one.text for one in found(sim) if one.id == "workers"]
    assert any("busy workers" in text for text in texts) == wrong, texts


@pytest.mark.parametrize(("jitter", "named"), [(0, True), (20, False)])
def test_few_requests_at_exactly_one_rate_beside_another_client(jitter: int, named: bool) -> None:
    """What client-go's dynamic client sends has a limit of its own: custom resources come between the others."""
    sim = twelve_owners()
    for number in range(64):
        child, owner = divmod(number, 12)
        ms = 200 + 50 * number + sim.random.randint(-jitter, jitter)
        made(sim, f"child-{owner}-{child}", ms, owner=f"uid-owner-{owner}")
        if number % 3 == 0:
            sim.request(
                ms + 31, 3, verb="update", resource="cliques", group="a.io", namespace="t", name=f"owner-{owner}"
            )
    gone(sim)
    texts = [one.text for one in found(sim) if "of its client" in one.text]
    assert bool(texts) is named


@pytest.mark.parametrize(("busy", "named"), [(4.8, True), (1.0, False)])
def test_a_limit_for_each_kind(busy: float, named: bool) -> None:
    """Each kind has a client of its own; what a single worker asks for each object comes at one distance, too."""
    sim = settled()
    idle_cpu(sim)
    parts: dict[str, Any] = {"verb": "update", "namespace": "t", "code": 200}
    for number in range(20):
        for late, resource in enumerate(("secrets", "services", "configmaps")):
            sim.request(200 + 200 * number + 5 * late, 3, resource=resource, name=f"x-{number}", **parts)
    gone(sim)
    busy_workers(sim, busy)
    texts = [one.text for one in found(sim) if "of its client" in one.text]
    assert bool(texts) is named
    assert all("5 a second for each kind" in text for text in texts)


@pytest.mark.parametrize(("gap", "limited"), [(200, True), (90, False)])
def test_a_limit_that_one_phase_has_shown_holds_in_the_others(gap: int, limited: bool) -> None:
    sim = settled()
    parts: dict[str, Any] = {"verb": "update", "resource": "secrets", "namespace": "t", "code": 200}
    for number in range(25):
        sim.request(200 + 200 * number, 3, name=f"x-{number}", **parts)
        sim.request(DEPLOYED + 100 + gap * number, 3, name=f"x-{number}", **parts)
    contents = contents_of(sim.records())
    test = result_of(contents, findings=False)
    row = BottleneckRow(suspect="operator-rate-limit", seconds=5.0, share=0.9, evidence="by its metrics")
    deploy = msgspec.structs.replace(test.phases[0], bottlenecks=(row,))
    seen = Observed(contents, msgspec.structs.replace(test, phases=(deploy, *test.phases[1:])), ApiFaults(contents))
    assert [seen.rate_limited(span) for span in seen.spans[:2]] == [True, limited]
    assert not Observed(contents, test, ApiFaults(contents)).rate_limited(seen.spans[1])


@pytest.mark.parametrize(
    ("left", "wrong"),
    [
        (lambda reconciles: 60 + reconciles, True),
        (lambda reconciles: 60 + 0.3 * reconciles, True),
        # Informers that start at once, a pool that fills, what ends again, and too few.
        (lambda reconciles: 60 + 90 * (reconciles > 0), False),
        (lambda reconciles: 60 + min(reconciles, 60), False),
        (lambda reconciles: 60 + reconciles % 80, False),
        (lambda reconciles: 60 + 0.05 * reconciles, False),
    ],
)
def test_what_each_reconcile_of_one_process_leaves_behind(left: Callable[[int], float], wrong: bool) -> None:
    """The test restarts the operator before it deletes the workload, so that the last count tells of few reconciles."""
    sim = settled()
    clique(sim, "c-0", 200)
    total = 'controller_runtime_reconcile_total{controller="clique",result="success"}'
    for number in range(9):
        reconciles = 30 * number
        sim.scrape(150 + 250 * number, {total: reconciles, "go_goroutines": left(reconciles)})
    for ms, state in ((2500, "begin"), (2600, "end")):
        sim.add(rec.Mark(at=sim.at(ms), label="operator-restart", state=state))  # type: ignore[arg-type]
    sim.scrape(DELETED + 895, {total: 5, "go_goroutines": 65.0}, edge=rec.SETTLED)
    gone(sim)
    behind = [one for one in found(sim) if "leave goroutines behind" in one.text]
    assert bool(behind) is wrong, behind


@pytest.mark.parametrize(("leaving", "wrong"), [("clique", True), ("none", False)])
def test_timers_that_the_reconciles_of_one_of_two_controllers_leave_behind(leaving: str, wrong: bool) -> None:
    sim = settled()
    clique(sim, "c-0", 200)
    done = {"clique": 0, "service": 0}
    for number in range(12):
        done["clique"] += 30 * (number % 2)
        done["service"] += 25 * (number % 3)
        served = {
            f'controller_runtime_reconcile_total{{controller="{name}",result="success"}}': count
            for name, count in done.items()
        }
        timers = 'nodejs_active_resources{type="Timeout"}'
        sim.scrape(150 + 200 * number, {**served, timers: 2 + done.get(leaving, 0)})
    gone(sim)
    behind = [one for one in found(sim) if "leave timers behind" in one.text]
    assert bool(behind) is wrong, behind


@pytest.mark.parametrize(
    ("name", "most", "wrong"),
    [("clique_seen_total", 1000, True), ("clique_seen_total", 60, False), ("jvm_seen_total", 1000, False)],
)
def test_series_that_each_reconcile_brings(name: str, most: int, wrong: bool) -> None:
    """Of one object alone: a label has a new value each time, up to as many as it may have."""
    sim = settled()
    clique(sim, "c-0", 200)
    done = 0
    for number in range(12):
        done += 15 * (number % 2)
        served: dict[str, float] = {'controller_runtime_reconcile_total{controller="clique",result="success"}': done}
        of_each = {f'{name}{{generation="{one}"}}': 1.0 for one in range(min(done, most))}
        sim.scrape(150 + 200 * number, served | of_each)
    gone(sim)
    ever = [one for one in found(sim) if "ever new series by its label generation" in one.text]
    assert bool(ever) is wrong, ever


@pytest.mark.parametrize(
    ("threads", "wrong"),
    [
        ((34, 54, 54, 74), True),
        # A pool, which is as large as what is under way at once.
        ((34, 54, 54, 54), False),
        ((34, 54, 34, 54), False),
        ((34, 38, 38, 42), False),
    ],
)
def test_threads_of_each_change_of_objects_in_phase_after_phase(threads: tuple[int, ...], wrong: bool) -> None:
    sim = opened(Simulation())
    sim.watch(CLIQUES, 6)
    for number in range(20):
        clique(sim, f"c-{number}", 20 + number)
    for index, (phase, start) in enumerate((("again", 100), ("third", 3100))):
        sim.phase(phase, start, start + 2900)
        for number in range(20):
            sent(sim, "patch", f"c-{number}", start + 50 + number, user="harness")
        for edge, at, number in (("start", start, 2 * index), ("end", start + 2900, 2 * index + 1)):
            held: dict[str, Any] = {"rss_bytes": 10**8, "threads": threads[number], "files": 3, "sockets": 3}
            of = f"{edge}:{phase}"
            sim.add(rec.CpuRead(at=sim.at(at), process="operator", pid=10, cpu_ns=10**9 + at, edge=of, **held))
    grown = [one.text for one in analyse(sim.records()).findings if "made no more of them" in one.text]
    assert bool(grown) is wrong, grown


@pytest.mark.parametrize(
    ("counts", "wrong"),
    [((0, 12, 40, 40), True), ((0, 0, 9, 1), False), ((0, 2, 3, 3), False), ((None, None, None, None), False)],
)
def test_child_processes_that_are_not_waited_for(counts: tuple[int | None, ...], wrong: bool) -> None:
    sim = settled()
    clique(sim, "c-0", 200)
    gone(sim)
    for number, zombies in enumerate(counts):
        read: dict[str, Any] = {"rss_bytes": 10**8, "threads": 60, "files": 3, "sockets": 2, "zombies": zombies}
        at, edge = sim.at(150 + 500 * number), f"start:p{number}"
        sim.add(rec.CpuRead(at=at, process="operator", pid=10, cpu_ns=10**9 + number, edge=edge, **read))
    zombie = [one.text for one in found(sim) if "zombies" in one.text]
    assert bool(zombie) is wrong, zombie


@pytest.mark.parametrize(("each", "wrong"), [(1.0, True), (0.0, False)])
def test_threads_that_each_reconcile_leaves_behind_and_that_no_metric_counts(each: float, wrong: bool) -> None:
    sim = settled()
    clique(sim, "c-0", 200)
    total = 'controller_runtime_reconcile_total{controller="clique",result="success"}'
    for number in range(9):
        ms, reconciles, edge = 150 + 250 * number, 30 * number, f"start:p{number}"
        sim.scrape(ms, {total: reconciles}, edge=edge)
        held: dict[str, Any] = {"rss_bytes": 10**8, "threads": round(60 + each * reconciles), "files": 3}
        sim.add(rec.CpuRead(at=sim.at(ms), process="operator", pid=10, cpu_ns=10**6 * ms, edge=edge, **held))
    gone(sim)
    behind = [one for one in found(sim) if "leave threads behind" in one.text]
    assert bool(behind) is wrong


@pytest.mark.parametrize(
    ("each", "collected", "wrong"),
    [
        ((200, 200, 190), 9, True),
        ((200, 200, 20), 9, False),  # what a phase of many objects takes, and keeps
        ((8, 8, 8), 9, False),
        ((200, 200, 190), 0, False),  # a heap that grows to its first collection
        ((3, 200, 200, 190), 9, True),  # of another controller's phase
        ((3, 3, 200, 190), 9, False),
        ((900, 900, 990), None, True),  # no metric says the language, and it has doubled
        ((200, 200, 190), None, False),
        ((300, 290, 310, 300, 300), None, True),  # no metric says it, and it grew evenly
        ((300, 180, 180, 300, 300), None, False),
    ],
)
def test_memory_that_each_reconcile_keeps(each: tuple[int, ...], collected: int | None, wrong: bool) -> None:
    assert _is_kept(each, collected) is wrong


@pytest.mark.parametrize(("threads", "wrong"), [(9, True), (40, False)])
def test_memory_that_grows_evenly_may_be_the_heap_of_a_jvm(threads: int, wrong: bool) -> None:
    assert _is_kept((300, 290, 310, 300, 300), None, threads=threads) is wrong


@pytest.mark.parametrize(
    ("collections", "each", "wrong"),
    [
        ('nodejs_gc_duration_seconds_count{kind="major"}', 400, True),
        ('nodejs_gc_duration_seconds_count{kind="minor"}', 400, False),
        ('nodejs_gc_duration_seconds_count{kind="major"}', 200, False),  # 18 MB in all
        ('jvm_gc_pause_seconds_count{action="end of major GC",gc="Copy"}', 400, True),
        ('jvm_gc_pause_seconds_count{action="end of minor GC",gc="Copy"}', 400, False),
    ],
)
def test_memory_is_kept_where_the_whole_heap_was_collected(collections: str, each: int, wrong: bool) -> None:
    assert _is_kept((each, each, each - 10), 9, collections) is wrong


@pytest.mark.parametrize(
    ("first", "each", "wrong"),
    [
        (210, (200, 190), True),
        (290, (200, 190), False),  # caches fill
        (210, (200, 0), False),
        (0, (200, 190), False),
        (210, (200,), False),
    ],
)
def test_the_first_phase_counts_where_it_keeps_as_much_as_others(
    first: int, each: tuple[int, ...], wrong: bool
) -> None:
    assert _is_kept(each, 9, first=first) is wrong


def _is_kept(
    each: tuple[int, ...],
    collected: int | None,
    collections: str = "go_gc_duration_seconds_count",
    threads: int = 3,
    first: int = 0,
) -> bool:
    """Return whether memory is called kept that grew by so many kB with each reconcile of each phase.

    ``first``: of the first phase, with 140 reconciles in all.
    """
    sim = settled()
    clique(sim, "c-0", 200)
    total = 'controller_runtime_reconcile_total{controller="clique",result="success"}'
    rss = 50_000_000
    ends: dict[str, Any] = {"rss_bytes": rss, "threads": threads, "files": 3, "sockets": 3}
    sim.add(rec.CpuRead(at=sim.at(DEPLOYED), process="operator", pid=10, cpu_ns=10**9, edge="end:deploy", **ends))
    begins = {**ends, "rss_bytes": rss - first * 140_000}
    sim.add(rec.CpuRead(at=sim.at(99.5), process="operator", pid=10, cpu_ns=10**9, edge="start:deploy", **begins))
    edges = {"start:deploy": 0.0, "end:deploy": 100.0}
    scrape(sim, "counter", "controller_runtime_reconcile_total", edges, controller="clique", result="success")
    for number, kilobytes in enumerate(each):
        start, end, name = DELETED + 10 + 200 * number, DELETED + 200 + 200 * number, f"again-{number}"
        sim.phase(name, start, end)
        for edge, ms, done in (("start", start - 1, 30 * number), ("end", end - 1, 30 * number + 30)):
            rss += 30 * kilobytes * 1000 if edge == "end" else 0
            served: dict[str, float] = {total: 100 + done}
            if collected is not None:
                served[collections] = collected * (number + 1)
            sim.scrape(ms, served, edge=f"{edge}:{name}")
            held: dict[str, Any] = {"rss_bytes": rss, "threads": 3, "files": 3, "sockets": 3}
            sim.add(rec.CpuRead(at=sim.at(ms), process="operator", pid=10, cpu_ns=10**9, edge=f"{edge}:{name}", **held))
    gone(sim)
    return any("memory (RSS) grew by" in one.text and "with each reconcile in" in one.text for one in found(sim))


@pytest.mark.parametrize(("took", "noted"), [(400, True), (40, False)])
def test_requests_without_a_bound(took: float, noted: bool) -> None:
    sim = settled()
    parts: dict[str, Any] = {"verb": "create", "resource": "secrets", "namespace": "t", "code": 201}
    for number in range(240):
        sim.request(300 + number, took, name=f"x-{number}", **parts)
    gone(sim)
    every = [each for one in analyse(sim.records()).findings for each in one.all]
    notes = [one for one in every if "under way at once" in one.text]
    assert bool(notes) is noted
    assert all("240 of them create secrets" in one.text for one in notes)
