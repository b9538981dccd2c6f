"""What rules find of work that waits for itself: by object, in an event loop; on a quiet machine and beside others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pytest_grovescale.recording import records as rec

from .simulated import Simulation
from .test_findings import DELETED, IDLE, found, settled
from .test_findings_objects import CLIQUES, clique, gone, idle_cpu, shown

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
        (60, (0, 1, 2), 0.3, False),
    ],
)
def test_children_of_each_owner_that_are_deleted_one_after_the_other(
    wait: int, order: tuple[int, ...], waiting: float, wrong: bool
) -> None:
    """Several owners at once: no order is left in the stream of all deletions."""
    sim = settled()
    idle_cpu(sim)
    deployed(sim, 8, 3)
    for owner in range(8):
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
        assert "3 cliques.a.io of each of 8" in serial[0]


@pytest.mark.parametrize(
    ("owner", "pauses", "news", "waiting", "wrong"),
    [
        ("uid", (300, 200), False, 0.0, True),
        ("name", (300, 200), False, 0.0, True),
        ("uid", (300, 200), False, 0.3, True),
        ("uid", (300, 200), False, 2.0, False),
        # What the operator waited for: someone changed the object right before.
        ("uid", (300, 200), True, 0.0, False),
        ("uid", (9, 9), False, 0.0, False),
    ],
)
def test_pauses_between_the_steps_for_each_object(
    owner: str, pauses: tuple[int, int], news: bool, waiting: float, wrong: bool
) -> None:
    sim = settled()
    idle_cpu(sim)
    sim.watch(CLIQUES, 6)
    for number in range(10):
        name = f"web-{number}"
        if owner == "name":
            sim.request(150, user="harness", verb="create", code=201, name=name, **{**CLIQUE, "resource": "sites"})
        shown(sim, name, 160, "added", owner="")
        ms = 200.0 + 13 * number
        for step, pause in enumerate((0, *pauses)):
            ms += pause + (number * 7 % 5)
            of = f"uid-{name}" if owner == "uid" else ""
            if news and step:
                sent(sim, "patch", name, ms - 8, user="kwok", subresource="status")
            clique(sim, f"{name}-part-{step}", ms, owner=of)
            ms += 2
    gone(sim)
    if owner == "name":
        _as_sites(sim)
    if waiting:
        beside_others(sim, waiting)
    paced = [one.text for one in found(sim) if one.id == "pacing" and "for each of 10" in one.text]
    assert bool(paced) == wrong, paced


def _as_sites(sim: Simulation) -> None:
    """Show the owners as objects of a kind of their own."""
    sites = msgspec.structs.replace(CLIQUES, resource="sites.a.io", path="/apis/a.io/v1/namespaces/t/sites")
    sim.watch(sites, 6)
    watch = sim.watch_ids[sites]
    for index, (at, order, record) in enumerate(sim.items):
        if isinstance(record, rec.ObjectSeen) and record.name.count("-") == 1 and record.name.startswith("web-"):
            sim.items[index] = at, order, msgspec.structs.replace(record, watch=watch)


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
    sim = settled()
    idle_cpu(sim)
    sim.watch(CLIQUES, 6)
    for number in range(10):
        sim.request(150 + number, user="harness", verb="create", code=201, name=f"web-{number}", **CLIQUE)
        shown(sim, f"web-{number}", 155 + number, "added", owner="")
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
        sim = settled()
        idle_cpu(sim)
        sim.watch(CLIQUES, 6)
        for number in range(10):
            sim.request(150 + number, user="harness", verb="create", code=201, name=f"web-{number}", **CLIQUE)
            shown(sim, f"web-{number}", 155 + number, "added", owner="")
            clique(sim, f"web-{number}-0", 2700 + 6 * number, owner=f"uid-web-{number}")
        gone(sim)
        sim.add(rec.Scraped(at=sim.at(2650), target="operator", took_ns=round(took * 1e9)))
        silent = [one for one in found(sim) if one.id == "workers"]
        assert bool(silent) == wrong, silent


def test_the_line_that_blocks_is_named_where_stacks_were_dumped() -> None:
    sim = settled()
    idle_cpu(sim)
    sim.watch(CLIQUES, 6)
    for number in range(10):
        sim.request(150 + number, user="harness", verb="create", code=201, name=f"web-{number}", **CLIQUE)
        shown(sim, f"web-{number}", 155 + number, "added", owner="")
        clique(sim, f"web-{number}-0", 200 + 250 * number, owner=f"uid-web-{number}")
    gone(sim)
    dump = [
        'Thread 7 (idle): "MainThread"',
        "    lookup (/opt/shop/prices.py:12)",
        "    reconcile (/opt/shop/controller.py:40)",
    ]
    sim.add(rec.Lines(at=sim.at(DELETED), source="stacks:operator", lines=dump))
    (silent,) = [one for one in found(sim) if one.id == "workers"]
    assert any("lookup (opt/shop/prices.py:12)" in one or "prices.py:12" in one for one in silent.evidence)
