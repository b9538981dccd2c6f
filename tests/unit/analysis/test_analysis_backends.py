"""One test on several backends: what must be equal is, or the table says where not; the rest is only reported."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.backends import BackendRow, BackendsTable, backends_table
from pytest_grovescale.analysis.comparability import differences, unlike
from pytest_grovescale.analysis.phase_result import ApiRow, ClientRow, CpuResult, MilestoneResult, PhaseResult
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.errors import UsageError
from pytest_grovescale.recording.records import Machine

MACHINE = Machine(fingerprint="f00", cpu="c", cores=2, memory_bytes=1, kernel="6.1", python="3.11.9")


def api(verb: str, resource: str, count: int, *, code: int = 200, **others: Any) -> ApiRow:
    values: dict[str, Any] = {"identity": "operator", "category": "object", **others}
    return ApiRow(
        user="u", verb=verb, resource=resource, code=code, count=count, p50_ms=1.0, p99_ms=1.0, **values
    )  # fmt: skip


ROWS = (
    api("create", "pods", 1000, code=201),
    api("patch", "pods", 1000),
    api("delete", "secrets", 1),
    api("patch", "pods/status", 7),
)


def phase(name: str = "deploy", rows: tuple[ApiRow, ...] = ROWS, **others: Any) -> PhaseResult:
    cpu = CpuResult(process="operator", seconds=2.0, window_s=10, cores=0.2, rss_bytes=1, peak_rss_bytes=70_000_000)
    ready = MilestoneResult(name="ready", condition="c", met=True, observed_s=9.0, server_s=(8.8, 8.9), clock="server")
    values: dict[str, Any] = {
        "outcome": "passed", "started": "", "seconds": 10.0, "timeout_s": 60, "api": rows, "audit_complete": True,
        "traffic_source": "audit", "cpu": (cpu,), "milestones": (ready,), **others,
    }  # fmt: skip
    return PhaseResult(name=name, **values)


def run(backend: str = "local", *phases: PhaseResult, **others: Any) -> TestResult:
    values: dict[str, Any] = {
        "test": "tests/scale/test_a.py::test_a", "run": backend, "version": "0", "scenario_outcome": "passed",
        "started": "", "seconds": 20.0, "machine": MACHINE, "cluster": {"backend": backend, "start_s": 3.0}, **others,
    }  # fmt: skip
    return TestResult(phases=phases or (phase(),), **values)


def found(table: BackendsTable, what: str) -> BackendRow:
    return next(row for row in table.rows if row.what == what)


def values(table: BackendsTable, what: str) -> list[float | None]:
    return [figure.value for figure in found(table, what).figures]


UNAUDITED: dict[str, Any] = {
    "audit_complete": False,
    "api": (),
    "traffic_source": "metrics",
    "client_requests": (ClientRow(method="POST", code="201", count=1000, total=1000),),
}


def test_equal_counts_are_equal_whatever_else_differs() -> None:
    more = (*ROWS, api("patch", "podcliques.grove.io/status", 33), api("create", "pods", 4, code=409))
    table = backends_table([run(), run("kind", phase(rows=more, seconds=30.0))])
    assert (table.verdict, table.differing, table.silent) == ("equal", (), ())
    assert [row.what for row in table.rows if row.exact] == [
        "deploy: create pods",
        "deploy: delete secrets",
        "deploy: gates taken off pods",
    ]
    assert values(table, "deploy") == [10.0, 30.0]


@pytest.mark.parametrize(
    ("rows", "what", "counts"),
    [
        ((api("create", "pods", 999, code=201), *ROWS[1:]), "deploy: create pods", [1000, 999]),
        ((ROWS[0], api("patch", "pods", 1001), *ROWS[2:]), "deploy: gates taken off pods", [1000, 1001]),
        (ROWS[:2], "deploy: delete secrets", [1, 0]),
        ((*ROWS, api("create", "services", 1, code=201)), "deploy: create services", [0, 1]),
    ],
)
def test_any_other_count_is_reported(rows: tuple[ApiRow, ...], what: str, counts: list[float]) -> None:
    table = backends_table([run(), run("kind", phase(rows=rows))])
    assert (table.verdict, [row.what for row in table.differing]) == ("unequal", [what])
    assert values(table, what) == counts


@pytest.mark.parametrize(
    "row",
    [
        api("create", "pods", 5, code=409),
        api("create", "pods", 5, code=201, dry_run=True),
        api("create", "events", 5, code=201, category="event"),
        api("create", "pods", 5, code=201, identity="harness"),
        api("patch", "pods/status", 5),
        api("patch", "services", 5),
    ],
)
def test_what_is_no_object_made_or_gate_taken_off_need_not_be_equal(row: ApiRow) -> None:
    assert backends_table([run(), run("kind", phase(rows=(*ROWS, row)))]).verdict == "equal"


def test_a_run_without_a_log_reports_nothing_and_is_not_taken_for_equal() -> None:
    table = backends_table([run(), run("existing", phase(**UNAUDITED))])
    assert (table.verdict, table.silent) == ("undetermined", ("existing",))
    assert found(table, "deploy: create pods").figures[1].note == "no audit log"
    assert values(table, "deploy: POST by its own count") == [None, 1000]
    three = backends_table([run(), run("existing", phase(**UNAUDITED)), run("kind")])
    assert (three.verdict, three.silent) == ("equal", ("existing",))


def test_a_phase_that_failed_compares_nothing(snapshot: SnapshotAssertion) -> None:
    table = backends_table([run(), run("kind", phase(outcome="timeout"))])
    assert table.verdict == "undetermined"
    assert found(table, "deploy").figures[1].note == "timeout"
    assert "\n".join(table.warnings) == snapshot


def test_figures_say_how_they_were_measured() -> None:
    cpu = CpuResult(
        process="operator", source="scrape", seconds=2.5, resolution_s=0.06, window_s=10, cores=0.2, rss_bytes=1,
        peak_rss_bytes=2,
    )  # fmt: skip
    watched = MilestoneResult(name="ready", condition="c", met=True, observed_s=9.5)
    table = backends_table([run(), run("kind", phase(cpu=(cpu,), milestones=(watched,)))])
    assert [figure.note for figure in found(table, "CPU, deploy").figures] == ["", "scraped, ± 0.06 s"]
    assert [(f.value, f.note) for f in found(table, "deploy: ready").figures] == [(8.9, ""), (9.5, "watch's clock")]
    assert values(table, "cluster") == [3.0, 3.0]


def test_columns_are_distinguished() -> None:
    pod = {"parameters": {"operator_runs_as": "pod"}}
    table = backends_table([run("kind"), run("kind", **pod), run("kind")], ["", "", ""])
    assert [one.name for one in table.runs] == ["kind", "kind (pod)", "kind #2"]
    assert [one.name for one in backends_table([run(), run()], ["a", "b"]).runs] == ["a", "b"]


def test_what_makes_runs_unlike_is_said(snapshot: SnapshotAssertion) -> None:
    other = msgspec.structs.replace(MACHINE, fingerprint="bar")
    table = backends_table(
        [
            run(parameters={"replicas": 5}),
            run("kind", machine=other, parameters={"replicas": 6, "operator_runs_as": "pod", "image": "x"}),
        ]
    )
    assert len(table.warnings) == 2
    assert "local 5, kind (pod) 6" in table.warnings[1]
    assert "\n".join(table.warnings) == snapshot


def test_it_takes_two_runs_of_one_test() -> None:
    with pytest.raises(UsageError, match="compared with nothing"):
        backends_table([run()])
    with pytest.raises(UsageError, match="different tests"):
        backends_table([run(), run(test="tests/x.py::test_b")])
    # Wherever it was run from.
    assert backends_table([run(), run(test="elsewhere/test_a.py::test_a")]).test == "test_a.py::test_a"


COUNTS = st.lists(st.integers(0, 3), min_size=2, max_size=4)


@given(pods=COUNTS, gates=COUNTS)
def test_the_verdict_is_equality_of_all_counts(pods: list[int], gates: list[int]) -> None:
    length = min(len(pods), len(gates))
    rows = [
        (api("create", "pods", made, code=201), api("patch", "pods", off))
        for made, off in zip(pods[:length], gates[:length], strict=True)
    ]
    table = backends_table([run("kind", phase(rows=of)) for of in rows])
    assert (table.verdict == "equal") is (len(set(pods[:length])) == len(set(gates[:length])) == 1)


# ---- floors


def bare(backend: str = "local", seconds: float = 4.4, **others: Any) -> TestResult:
    ready = MilestoneResult(
        name="ready", condition="c", met=True, observed_s=seconds, server_s=(seconds, seconds), clock="server"
    )
    values: dict[str, Any] = {"parameters": {"operator": "none"}, **others}
    return run(backend, phase(milestones=(ready,), cpu=(), api=()), test="t.py::test_bare", **values)


def test_a_floor_stands_beside_what_took_longer() -> None:
    table = backends_table([run(), run("kind")], floors={"local": bare()})
    assert values(table, "deploy: ready, without an operator") == [4.4, None]
    assert values(table, "deploy: ready, with it against that") == [pytest.approx(8.9 / 4.4), None]
    assert [row.group for row in table.rows].count("Floor") == 2
    assert not [row for row in backends_table([run(), run("kind")]).rows if row.group == "Floor"]


def test_what_is_no_floor_is_refused(snapshot: SnapshotAssertion) -> None:
    with pytest.raises(UsageError, match="'there'") as caught:
        backends_table([run(), run("kind")], floors={"there": bare()})
    assert str(caught.value) == snapshot(name="no column")
    with pytest.raises(UsageError, match=r"test_bare .* reference") as caught:
        backends_table([run(), run("kind")], floors={"kind": bare("kind", parameters={"operator": "reference"})})
    assert str(caught.value) == snapshot(name="operator")


def test_a_floor_of_something_else_is_reported(snapshot: SnapshotAssertion) -> None:
    failed = bare("local", parameters={"operator": "none", "replicas": 5, "seed": 1})
    failed = msgspec.structs.replace(failed, phases=(phase(outcome="timeout"),))
    table = backends_table([run(), run("kind", parameters={"operator": "x", "replicas": 6})], floors={"kind": failed})
    assert [warning.partition(": ")[0] for warning in table.warnings] == ["kind", "kind", "kind"]
    assert "\n".join(table.warnings) == snapshot


# ---- likeness


def test_runs_that_are_alike_differ_in_nothing() -> None:
    assert unlike([run(), run()], [run()]) == []


def test_differences_are_named_and_the_operators_name_is_none() -> None:
    ready = MilestoneResult(name="ready", condition="c", met=True, wanted=6)
    small = msgspec.structs.replace(ready, wanted=5)
    a = run("local", phase(milestones=(ready,)), parameters={"operator": "mine", "replicas": "3"})
    b = run(
        "local",
        phase(milestones=(small,)),
        machine=msgspec.structs.replace(MACHINE, fingerprint="bar"),
        parameters={"operator": "other"},
    )
    assert differences([a, a], [a]) == []
    assert differences([a], [b]) == [
        f"machine: f00 ({MACHINE.cores} × {MACHINE.cpu}) and bar ({MACHINE.cores} × {MACHINE.cpu})",
        "replicas: 3 and not given",
        "ready in deploy: 6 and 5",
    ]


def test_runs_of_two_backends_are_labelled(snapshot: SnapshotAssertion) -> None:
    cpu = CpuResult(process="operator", source="scrape", seconds=1, window_s=1, cores=1, rss_bytes=1, peak_rss_bytes=1)
    watched = MilestoneResult(name="ready", condition="c", met=True, observed_s=9.5)
    there = run(
        "existing",
        phase(cpu=(cpu,), milestones=(watched,), **UNAUDITED),
        machine=msgspec.structs.replace(MACHINE, fingerprint="bar"),
        parameters={"operator_runs_as": "pod"},
    )
    differing = unlike([run()], [there])
    assert differing[:2] == ["backend: local and existing", "machine: f00 and bar"]
    assert len(differing) == 6
    assert "\n".join(differing) == snapshot
