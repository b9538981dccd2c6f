"""A target that is several pods: each is held to a check, and the worst one is told."""

from __future__ import annotations

from pytest_grovescale.analysis.metrics.history import history_of
from pytest_grovescale.checks import PreinitializedSeries, Series
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.run import Run
from tests.unit.analysis.endpoint import Endpoint

from .metrics_run import run


def said(check: Series | PreinitializedSeries, *endpoints: Endpoint) -> str:
    records = [record for endpoint in endpoints for record in endpoint.records]
    found = judge(check, Run(run(), metrics=lambda: history_of(records)))
    return f"{found.verdict}: {found.text}"


def pod(name: str, series: int) -> Endpoint:
    made = Endpoint(target=f"agents/{name}")
    made.answers(0, {f'my_operator_errors_total{{op="{number}"}}': 1.0 for number in range(series)})
    return made


def test_the_worst_pod_is_reported() -> None:
    worst = "agents/b: series of agents/b in its own families 4"
    assert said(Series(max=4, target="agents"), pod("a", 1), pod("b", 4)) == f"pass: {worst} ≤ 4 (the worst of 2 pods)"
    assert said(Series(max=3, target="agents"), pod("b", 4), pod("a", 1)) == f"fail: {worst} > 3 (the worst of 2 pods)"
    assert said(Series(max=4, target="agents"), pod("b", 4)) == f"pass: {worst} ≤ 4"


def test_a_pod_that_did_not_tell_is_no_pass() -> None:
    silent = Endpoint(target="agents/c")
    silent.fails(0, "timed out")
    assert said(Series(max=4, target="agents"), pod("a", 1), silent).startswith("inconclusive: agents/c: agents/c was")
    assert said(Series(max=0, target="agents"), pod("a", 1), silent).startswith("fail: agents/a: ")


def test_one_pod_may_be_meant() -> None:
    assert said(Series(max=1, target="agents/a"), pod("a", 1), pod("b", 4)).startswith("pass: series of agents/a ")
    assert said(Series(max=1, target="agent"), pod("a", 1)).startswith("inconclusive: there is no metrics target")
