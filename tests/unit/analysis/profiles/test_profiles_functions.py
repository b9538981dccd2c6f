"""Function tables: shares and their intervals, modules, and when there is no table."""

from __future__ import annotations

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.profiles.functions import (
    PYSPY_HZ,
    WAIT_SAMPLES,
    function_table,
    in_module,
    independent,
    is_framework,
    is_trunk,
    problem_of,
    wilson,
)
from pytest_grovescale.analysis.profiles.stacks import Function, Stacks
from pytest_grovescale.recording.profiling import pyspy

from .protobuf import profile
from .recorded import PYSPY, read_folded, read_pprof

TEXT = """<module> (m.py:1);reconcile (podclique/reconciler.py:3);sync (podclique/pods.py:4) 60
<module> (m.py:1);reconcile (podclique/reconciler.py:9) 20
<module> (m.py:1);reconcile (podcliqueset/reconciler.py:5);reconcile (podcliqueset/reconciler.py:5) 15
<module> (m.py:1) 5
"""


def test_self_cumulative_share_and_cpu() -> None:
    rows = function_table(read_folded(TEXT), cpu_s=2.0)
    found = [(row.function, row.self_samples, row.samples, row.share, row.cpu_s) for row in rows]
    assert found == [
        ("<module> (m.py)", 5, 100, 1.0, 2.0),
        ("reconcile (podclique/reconciler.py)", 20, 80, 0.8, 1.6),
        ("sync (podclique/pods.py)", 60, 60, 0.6, 1.2),
        ("reconcile (podcliqueset/reconciler.py)", 15, 15, 0.15, 0.3),  # calls itself, counts once
    ]
    assert (rows[1].share_low, rows[1].share_high) == wilson(80, 100)


def test_without_exact_cpu_seconds_there_are_none() -> None:
    assert {row.cpu_s for row in function_table(read_folded(TEXT))} == {None}


def test_the_first_of_one_module() -> None:
    rows = function_table(read_folded(TEXT), module="podclique", top=1)
    assert [(row.function, row.share) for row in rows] == [("reconcile (podclique/reconciler.py)", 0.8)]


@pytest.mark.parametrize(
    ("wanted", "path", "found"),
    [
        ("", "anything", True),
        ("podclique", "podclique/reconciler.py", True),
        ("podclique", "a/podclique/pods.py", True),
        ("podclique", "github.com/ai-dynamo/grove/operator/internal/controller/podclique", True),
        ("podclique", "podcliqueset/reconciler.py", False),
        ("podclique", "podclique.py", True),
        ("podclique/reconciler", "x/podclique/reconciler.py", True),
        ("podclique/reconciler.py", "podclique/reconciler.py", True),
        ("reconciler/podclique", "podclique/reconciler.py", False),
        ("*/podclique*", "x/podcliqueset/reconciler.py", True),
        ("podclique*", "x/podcliqueset/reconciler.py", False),
        ("podclique", "", False),
    ],
)
def test_modules(wanted: str, path: str, found: bool) -> None:
    assert in_module(Function("f", path, "f"), wanted) is found


@pytest.mark.parametrize(
    ("name", "module", "trunk"),
    [
        ("<module> (m.py)", "m.py", True),
        ("Worker._bootstrap (threading.py)", "threading.py", True),
        ("BaseEventLoop.run_forever (asyncio/base_events.py)", "asyncio/base_events.py", True),
        ("BaseEventLoop._run_once (asyncio/base_events.py)", "asyncio/base_events.py", False),
        ("run (my/threading.py)", "my/threading.py", False),
        ("runtime.main", "runtime", True),
        ("main.main", "main", False),
    ],
)
def test_what_only_leads_to_others(name: str, module: str, trunk: bool) -> None:
    assert is_trunk(Function(name, module, name)) is trunk


def test_too_few_samples_make_no_table(snapshot: SnapshotAssertion) -> None:
    problem = problem_of(read_folded("<module> (m.py:1) 99\n"))
    assert problem.startswith("99 ")
    assert problem == snapshot(name="few")
    assert problem_of(read_folded("<module> (m.py:1) 100\n")) == ""
    waited = read_folded("<module> (m.py:1);select (selectors.py:468) 400\n")
    assert problem_of(waited).startswith("0 ")
    assert problem_of(waited) == snapshot(name="waits")


@pytest.mark.parametrize(
    "text",
    [TEXT + "tick (m.py:1) 3\n", TEXT + "nonsense\n", TEXT + "<module> (m.py:1) 1"],
    ids=["torn", "nonsense", "cut off"],
)
def test_a_capture_that_cannot_be_trusted_makes_no_table(text: str, snapshot: SnapshotAssertion) -> None:
    assert problem_of(read_folded(text)) == snapshot


def test_up_to_two_percent_may_be_torn() -> None:
    assert problem_of(read_folded(TEXT + "tick (m.py:1) 2\n")) == ""


def test_what_the_profiler_could_not_read_counts(snapshot: SnapshotAssertion) -> None:
    assert problem_of(read_folded(TEXT), errors=2) == ""
    assert "3 of 103" in problem_of(read_folded(TEXT), errors=3)
    assert problem_of(read_folded(TEXT), errors=3) == snapshot
    lost = profile([([["main.main"]], [100, 1]), ([["runtime._LostExternalCode"]], [3, 1])])
    assert "3 of 103" in problem_of(read_pprof(lost))


def test_nothing_at_all_is_too_few() -> None:
    assert problem_of(Stacks()).startswith("0 on-CPU samples,")


def test_waits_for_a_core_are_worth_nothing() -> None:
    assert independent(200, None) == independent(200, 200.0) == independent(200, 250.0) == 200
    assert independent(300, 200.0) == pytest.approx(300 * 300 / (200 + WAIT_SAMPLES * 100))
    wide, narrow = (function_table(read_folded(PYSPY.read_bytes()), worth=worth)[1] for worth in (100.0, None))
    assert wide.share == narrow.share
    assert wide.share_low < narrow.share_low < narrow.share_high < wide.share_high


@given(st.integers(1, 10_000), st.floats(0.1, 20_000))
def test_samples_are_never_worth_more_than_they_are(samples: int, on_cpu: float) -> None:
    assert 0 < independent(samples, on_cpu) <= samples


def test_the_rate_is_the_recorders() -> None:
    assert PYSPY_HZ == pyspy.RATE


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_holds_its_share(numbers: tuple[int, int]) -> None:
    hits, samples = numbers
    low, high = wilson(hits, samples)
    assert 0 <= low <= hits / samples <= high <= 1
    assert high - low < 1


def test_known_intervals() -> None:
    # L. D. Brown, T. T. Cai, A. DasGupta (2001), and by the formula: 0 of 10 reaches up to z² / (n + z²).
    assert wilson(0, 10) == pytest.approx((0, 0.277532), abs=1e-6)
    assert wilson(10, 10) == pytest.approx((0.722468, 1), abs=1e-6)
    assert wilson(50, 100) == pytest.approx((0.403832, 0.596168), abs=1e-6)


@pytest.mark.parametrize(("n", "p"), [(200, 0.6), (200, 0.25), (200, 0.1), (200, 0.05), (100, 0.5)])
def test_the_interval_covers_the_truth_in_about_95_of_100(n: int, p: float) -> None:
    covered = sum(
        comb(n, hits) * p**hits * (1 - p) ** (n - hits)
        for hits in range(n + 1)
        if wilson(hits, n)[0] <= p <= wilson(hits, n)[1]
    )
    assert 0.93 < covered < 0.98


@pytest.mark.parametrize(("hits", "samples"), [(-1, 10), (11, 10), (0, 0)])
def test_what_is_no_share_has_no_interval(hits: int, samples: int) -> None:
    with pytest.raises(ValueError, match="no share"):
        wilson(hits, samples)


@pytest.mark.parametrize(
    ("name", "module", "framework"),
    [
        ("reconcile (podclique/reconciler.py)", "podclique/reconciler.py", False),
        ("<module> (operator.py)", "main.py", False),
        ("Handle._run (asyncio/events.py)", "asyncio/events.py", True),
        ("Thread.run (threading.py)", "threading.py", True),
        ("request (aiohttp/client.py)", "aiohttp/client.py", True),
        ("_run_code (<frozen runpy>)", "<frozen runpy>", True),
        ("[unknown]", "", True),
        ("main.main", "main", False),
        (
            "podclique.(*Reconciler).Reconcile",
            "github.com/ai-dynamo/grove/operator/internal/controller/podclique",
            False,
        ),
        ("http.(*conn).serve", "net/http", True),
        ("runtime.mallocgc", "runtime", True),
        ("atomic.Load", "internal/runtime/atomic", True),
        ("controller.(*Controller).Start", "sigs.k8s.io/controller-runtime/pkg/internal/controller", True),
        ("rest.(*Request).Do", "k8s.io/client-go/rest", True),
        ("kubelet.Run", "k8s.io/kubernetes/pkg/kubelet", False),
    ],
)
def test_the_program_s_own_functions_are_distinct_from_those_of_libraries(
    name: str, module: str, framework: bool
) -> None:
    assert is_framework(Function(name=name, module=module, full=name)) is framework
