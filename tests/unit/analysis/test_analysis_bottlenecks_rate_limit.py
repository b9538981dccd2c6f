"""A client-side rate limit that no metric names: flows of requests with the truth known beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.phase_result import BottleneckRow, PhaseResult
from pytest_grovescale.recording import records as rec
from tests.golden import masked

from .simulated import PODS, Simulation, pods

LENGTH_S = 24
RATE_LIMIT = "operator-rate-limit"

Sent = list[tuple[float, float]]
"""When requests are received, s, and for how long they are under way."""
Flow = Callable[[Random], Sent]


def limited(qps: float, *, burst: float = 1, latency: float = 0.005, stalls: bool = False) -> Flow:
    """A token bucket with more to send than it lets through; ``stalls``: the sender stands still at times."""

    def flow(random: Random) -> Sent:
        tokens, now, sent = burst, 0.0, []
        while now < LENGTH_S:
            step = max(0.0, (1 - tokens) / qps)
            if stalls and random.random() < 0.4 / qps:
                step = max(step, 0.25)
            now += step
            tokens = min(burst + qps, tokens + step * qps) - 1
            sent.append((now + random.expovariate(1 / 0.003), random.expovariate(1 / latency)))
        return sent

    return flow


def paced(mean_s: float, spread: float, under_way: float) -> Flow:
    """One request after the other, each taking about as long: a CPU, or an API server that answers one worker.

    ``under_way``: the share of that time until the answer.
    """

    def flow(random: Random) -> Sent:
        now, sent = 0.0, []
        while now < LENGTH_S:
            took = max(0.0001, random.gauss(mean_s, mean_s * spread))
            sent.append((now, took * under_way))
            now += took
        return sent

    return flow


def bursty(random: Random) -> Sent:
    """100 requests at the beginning of each second: as many in each, but not one after the other."""
    return [(second + random.uniform(0, 0.2), 0.005) for second in range(LENGTH_S) for _ in range(100)]


def poisson(random: Random) -> Sent:
    now, sent = 0.0, []
    while now < LENGTH_S:
        now += random.expovariate(100)
        sent.append((now, 0.005))
    return sent


def group_of(resource: str) -> str:
    return "grove.io" if resource == "podcliques" else ""


def recorded(
    flow: Flow, *, qps: float | None = None, depth: float | None = 50, cores: float = 0.2, verb: str = "delete",
    resource: str = "podcliques", seed: int = 1, longest: float = 0.5, more: Sequence[tuple[float, str]] = (),
) -> PhaseResult:  # fmt: skip
    """A phase whose last pod is ready when the flow ends, and until then waits for the operator."""
    sim = Simulation(seed=seed, lag_ms=(0.1, 0.2))
    if qps is not None:
        opened = sim.items[0][2]
        assert isinstance(opened, rec.Opened)
        opened.parameters["qps"] = f"{qps:g}"
    sim.watch(PODS, 1)
    end = 100 + LENGTH_S * 1000
    sim.phase("deploy", 100, end + 200, pods_created=pods(1))
    sim.write(PODS, "pod-0", end - 10, verb="create", fields={}, took=2)
    for second, took in flow(Random(seed)):
        sim.request(100 + second * 1000, took * 1000, verb=verb, resource=resource, group="grove.io", namespace="t")
    for second, other in more:
        sim.request(100 + second * 1000, 4, verb="patch", resource=other, group=group_of(other), namespace="t")
    for second in range(LENGTH_S + 1):
        edge = {0: "start:deploy", LENGTH_S: "end:deploy"}.get(second, "")
        sim.cpu("operator", 99 + second * 1000, second * cores, edge=edge)
        if depth is not None:
            of = '{controller="podclique",name="podclique"}'
            sim.scrape(
                99 + second * 1000,
                {
                    f"workqueue_depth{of}": depth,
                    f"workqueue_unfinished_work_seconds{of}": 1.0,
                    f"workqueue_longest_running_processor_seconds{of}": longest,
                },
                edge=edge,
            )
    sim.add(rec.Closed(at=sim.at(end + 500), reason="stopped"))
    return analyse(sim.records()).phases[0]


def rows(phase: PhaseResult) -> dict[str, BottleneckRow]:
    return {row.suspect: row for row in phase.bottlenecks}


@pytest.mark.parametrize(
    ("qps", "stalls"), [(5, False), (20, True), (50, False), (100, False), (100, True), (250, True), (400, False)]
)
def test_a_limiter_is_named(qps: int, stalls: bool) -> None:
    phase = recorded(limited(qps, burst=qps * 1.5, stalls=stalls), qps=None if qps != 5 else 5)
    found = rows(phase)
    assert RATE_LIMIT in found
    # The burst comes first.
    assert found[RATE_LIMIT].seconds >= 0.7 * (LENGTH_S - 3)
    assert found["operator-api"].seconds < 0.1 * found[RATE_LIMIT].seconds + 2
    assert f"inferred: delete podcliques at {qps:.3g}/s for " in found[RATE_LIMIT].evidence
    assert "while keys waited" in found[RATE_LIMIT].evidence


def test_it_says_so_as_a_reader_would() -> None:
    phase = recorded(limited(100, latency=0.03))
    row = rows(phase)[RATE_LIMIT]
    assert row.evidence.startswith("inferred: delete podcliques at 100/s for ")
    assert phase.bottleneck.startswith("operator held by its client-side rate limit")
    # Three requests are under way at a time: that is not what it waited for.
    assert rows(phase)["operator-api"].seconds < 1


def test_an_odd_limit_needs_the_definition(snapshot: SnapshotAssertion) -> None:
    assert RATE_LIMIT not in rows(recorded(limited(37)))
    row = rows(recorded(limited(37), qps=37))[RATE_LIMIT]
    assert " qps is 37)" in row.evidence
    assert masked(row.evidence, numbers=True) == snapshot


def test_the_definition_stands_for_a_queue_that_was_not_measured(snapshot: SnapshotAssertion) -> None:
    assert RATE_LIMIT not in rows(recorded(limited(100), depth=None))
    row = rows(recorded(limited(100), depth=None, qps=100))[RATE_LIMIT]
    assert " qps is 100)" in row.evidence
    assert masked(row.evidence, numbers=True) == snapshot


def test_one_reconcile_may_be_all_that_waits(snapshot: SnapshotAssertion) -> None:
    assert RATE_LIMIT not in rows(recorded(limited(100), depth=0, qps=100))
    row = rows(recorded(limited(100), depth=0, qps=100, longest=5))[RATE_LIMIT]
    assert " qps is 100)" in row.evidence
    assert masked(row.evidence, numbers=True) == snapshot


def test_the_definition_speaks_against_another_rate() -> None:
    assert RATE_LIMIT not in rows(recorded(limited(100), qps=400))


def test_a_limit_of_one_kind_shows_beside_requests_for_others() -> None:
    random = Random(3)
    others = [(random.uniform(0, LENGTH_S), "services") for _ in range(1500)]
    row = rows(recorded(limited(100), more=others))[RATE_LIMIT]
    assert row.evidence.startswith("inferred: delete podcliques at 100/s")


def test_a_limit_that_all_requests_share_names_no_kind() -> None:
    sent = limited(50)(Random(1))
    kinds = Random(4).choices(["podcliques", "services"], k=len(sent))
    phase = recorded(
        lambda _: [one for one, kind in zip(sent, kinds, strict=True) if kind == "podcliques"],
        more=[(at, kind) for (at, _), kind in zip(sent, kinds, strict=True) if kind == "services"],
    )
    assert rows(phase)[RATE_LIMIT].evidence.startswith("inferred: requests at 50/s")


def test_requests_for_one_kind_share_a_limiter_whatever_their_verb() -> None:
    """Patches keep a round pace by chance, as of one worker, beside creates of the same kind that do not."""
    random = Random(3)
    others = [(random.uniform(0, LENGTH_S), "podcliques") for _ in range(1500)]
    assert RATE_LIMIT not in rows(recorded(limited(100), more=others))


def test_a_limit_is_a_whole_number() -> None:
    assert RATE_LIMIT in rows(recorded(limited(4)))
    assert RATE_LIMIT not in rows(recorded(limited(3.5)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("flow", "cores", "depth"),
    [
        (paced(0.01, 0.02, 0.2), 0.95, 50),
        (paced(0.01, 0.2, 0.2), 0.95, 50),
        (paced(0.01, 0.3, 0.95), 0.2, 50),
        (paced(0.01, 0.02, 0.95), 0.2, 50),
        (bursty, 0.3, 50),
        (poisson, 0.3, 50),
        # Another component's pace, at exactly its own limit: the operator keeps up, and its queue is empty.
        (limited(100), 0.3, 0),
    ],
    ids=["cpu-even", "cpu", "api", "api-even", "bursty", "poisson", "kwok"],
)
def test_what_something_else_paces_is_no_limit(
    flow: Flow, cores: float, depth: float, seed: int, snapshot: SnapshotAssertion
) -> None:
    phase = recorded(flow, cores=cores, depth=depth, seed=seed)
    assert RATE_LIMIT not in rows(phase)
    assert RATE_LIMIT in phase.missing["bottlenecks"]
    assert phase.missing["bottlenecks"] == snapshot
