"""Built-in families: the catalogue against a real scrape, names that promise the same, and names that are taken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.metrics.snapshot import surface_of
from pytest_grovescale.checks.metrics.families import builtin, builtins, served
from pytest_grovescale.checks.metrics.lint import LintRules, lint
from pytest_grovescale.exposition.reader import Reader

from .surfaces import HEAD, HEAD_PROTOBUF, family, problems, rules

ACTIVE = family("controller_runtime_active_workers", "gauge", '{controller="c"}')


@pytest.mark.parametrize("path", [HEAD, HEAD_PROTOBUF], ids=lambda path: path.suffix)
def test_a_real_manager_is_clean_and_the_catalogue_knows_all_of_it(path: Path) -> None:
    surface = surface_of(Reader().read(path.read_bytes()), target="manager")
    found = lint(surface, LintRules())
    assert (found.problems, found.own_families, found.series) == ((), 0, 636)
    for one in served(surface):
        assert one.builtin is not None, one.name
        assert one.family.type == one.builtin.type, one.name
        assert set(one.labels()) <= set(one.builtin.labels), one.name


def test_the_catalogue() -> None:
    assert len(builtins()) == 182
    depth = builtin("workqueue_depth")
    assert depth is not None
    assert (depth.type, depth.labels, depth.when) == ("gauge", ("name", "controller", "priority"), "lazy")
    total = builtin("controller_runtime_reconcile_total")
    assert total is not None
    assert total.values == {"result": ("error", "requeue", "requeue_after", "success")}
    assert builtin("grove_operator_reconcile_errors_total") is None


@pytest.mark.parametrize(
    ("name", "kind", "meant"),
    [
        ("grove_operator_reconcile_duration_seconds", "histogram", "controller_runtime_reconcile_time_seconds"),
        ("grove_operator_reconcile_total", "counter", "controller_runtime_reconcile_total"),
        ("grove_operator_reconcile_inflight", "gauge", "controller_runtime_active_workers"),
        ("grove_operator_reconciliations_in_flight", "gauge", "controller_runtime_active_workers"),
        (
            "grove_operator_reconcile_requeue_total",
            "counter",
            'controller_runtime_reconcile_total{result=~"requeue.*"}',
        ),
        ("grove_operator_requeues_total", "counter", 'controller_runtime_reconcile_total{result=~"requeue.*"}'),
        ("my_reconcile_errors_total", "counter", "controller_runtime_reconcile_errors_total"),
        ("my_reconciliations_total", "counter", "controller_runtime_reconcile_total"),
        ("my_active_workers", "gauge", "controller_runtime_active_workers"),
        ("my_busy_workers", "gauge", "controller_runtime_active_workers"),
        ("my_webhook_duration_seconds", "histogram", "controller_runtime_webhook_latency_seconds"),
        ("my_admission_requests_total", "counter", "controller_runtime_webhook_requests_total"),
    ],
)
def test_names_that_promise_what_a_built_in_says(name: str, kind: str, meant: str) -> None:
    label = "webhook" if "webhook" in meant else "controller"
    series = [f'{{{label}="c"}}']
    if kind == "histogram":
        parts = {"bucket": ',le="+Inf"', "sum": "", "count": ""}
        series = [f'{name}_{part}{{{label}="c"{more}}}' for part, more in parts.items()]
    found = problems(ACTIVE, family(name, kind, *series))
    assert [(problem.rule, problem.fix) for problem in found] == [
        ("builtin-duplicate", f"take it away, and read {meant}")
    ]


@pytest.mark.parametrize(
    ("name", "kind", "labels"),
    [
        ("grove_operator_reconcile_errors_total", "counter", '{controller="c",error_type="conflict"}'),
        ("grove_operator_status_update_conflict_total", "counter", '{controller="c",target_kind="PodClique"}'),
        ("grove_operator_reconcile_total", "gauge", '{controller="c"}'),
        ("my_reconcile_duration_seconds_of_pods", "gauge", '{controller="c"}'),
    ],
)
def test_names_that_promise_more_or_something_else(name: str, kind: str, labels: str) -> None:
    assert "builtin-duplicate" not in rules(ACTIVE, family(name, kind, labels))


@pytest.mark.parametrize(
    ("name", "label", "wrong"),
    [
        ("x_statefulset_spec_replicas", "statefulset", True),
        ("x_deployment_status_replicas_ready", "deployment", True),
        ("x_cluster_replicas", "cluster", False),
        ("x_statefulset_rollouts", "statefulset", False),
        ("x_deployment_replicas", "zone", False),
        ("kube_deployment_spec_replicas", "deployment", False),
        ("x_job_status_phase", "job", False),
    ],
)
def test_what_kube_state_metrics_serves(name: str, label: str, wrong: bool) -> None:
    text = family(name, "gauge", *(f'{{namespace="pay",{label}="{one}"}}' for one in ("red", "blue")))
    assert ("builtin-duplicate" in rules(text)) == wrong


@pytest.mark.parametrize(
    ("others", "wrong"), [(["x_rules", "x_zones"], True), (["kube_pod_rules", "kube_node_zones"], False)]
)
def test_names_of_kube_state_metrics_are_taken(others: Sequence[str], wrong: bool) -> None:
    text = "".join(family(name, "gauge") for name in ["kube_networkpolicy_rules", *others])
    assert ("builtin-collision" in rules(text)) == wrong


def test_an_unbounded_label_is_no_refinement() -> None:
    text = family("my_reconcile_inflight", "gauge", '{controller="c",namespace="n"}')
    assert sorted(rules(ACTIVE, text)) == ["builtin-duplicate", "unbounded-label"]


def test_a_built_in_that_is_not_there_is_not_duplicated() -> None:
    assert rules(family("my_reconcile_inflight", "gauge", '{controller="c"}')) == []
    assert rules(family("my_queue_depth", "gauge", "")) == []


def test_the_name_of_a_built_in_is_taken(snapshot: SnapshotAssertion) -> None:
    found = problems(family("workqueue_depth", "counter", '{name="q-7"}'))
    assert "builtin-collision" in [problem.rule for problem in found]
    assert "\n".join(problem.says for problem in found) == snapshot


COUNTED = family("controller_runtime_reconcile_total", "counter") + (
    'controller_runtime_reconcile_total{controller="a",result="success"} 613\n'
    'controller_runtime_reconcile_total{controller="a",result="error"} 91\n'
    'controller_runtime_reconcile_total{controller="b",result="success"} 1204\n'
)


def test_values_tell_whatever_the_name(snapshot: SnapshotAssertion) -> None:
    mine = '# HELP my_rounds_total Rounds.\n# TYPE my_rounds_total counter\nmy_rounds_total{{controller="a"}} {a}\n'
    mine += 'my_rounds_total{{controller="b"}} 1204\n'
    found = problems(COUNTED, mine.format(a=704))
    (problem,) = found
    assert problem.rule == "builtin-duplicate"
    assert problem.fix.endswith(" sum by (controller) (controller_runtime_reconcile_total)")
    assert problem.fix == snapshot
    assert rules(COUNTED, mine.format(a=705)) == []


def test_a_refinement_by_value_is_no_duplicate_by_name() -> None:
    lines = "".join(
        f'my_reconcile_errors_total{{controller="a",le_type="{kind}"}} {count}\n'
        for kind, count in (("x", 61), ("y", 30))
    )
    text = f"# HELP my_reconcile_errors_total E.\n# TYPE my_reconcile_errors_total counter\n{lines}"
    assert rules(COUNTED, text) == []


def test_a_name_promises_nothing_where_both_values_are_there_and_differ() -> None:
    theirs = family("go_goroutines", "gauge").replace("go_goroutines 1", "go_goroutines 40")
    mine = family("x_watcher_goroutines", "gauge")
    assert rules(theirs, mine) == []
    assert rules(theirs, mine.replace("x_watcher_goroutines 1", "x_watcher_goroutines 38")) == ["builtin-duplicate"]


def gauge(name: str, *samples: str) -> str:
    return "\n".join([f"# HELP {name} What it is.", f"# TYPE {name} gauge", *samples, ""])


DEPTH = gauge(
    "workqueue_depth",
    'workqueue_depth{controller="backup",name="backup",priority="0"} 3',
    'workqueue_depth{controller="restore",name="restore",priority="0"} 1',
)
HEAP = gauge(
    "jvm_memory_used_bytes",
    'jvm_memory_used_bytes{area="heap",id="G1 Eden Space"} 25165824',
    'jvm_memory_used_bytes{area="heap",id="G1 Old Gen"} 34603013',
    'jvm_memory_used_bytes{area="nonheap",id="Metaspace"} 58123456',
)
RETRIES = gauge(
    "workqueue_retries_total",
    'workqueue_retries_total{controller="backup",name="backup"} 73',
    'workqueue_retries_total{controller="restore",name="restore"} 9',
).replace("gauge", "counter")
RSS = gauge("process_resident_memory_bytes", "process_resident_memory_bytes 94810112")


@pytest.mark.parametrize(
    ("theirs", "mine", "read"),
    [
        # A label of another name, with the values of one of the built-in's.
        (DEPTH, ('op_pending_items{queue="backup"} 3', 'op_pending_items{queue="restore"} 1'), "workqueue_depth"),
        (DEPTH, ('op_queue_length{of="backup"} 3', 'op_queue_length{of="restore"} 1'), "workqueue_depth"),
        (HEAP, ("op_heap_used_bytes 59800000",), 'jvm_memory_used_bytes{area="heap"}'),
        # To the last digit, whatever the name.
        (HEAP, ("op_live_set_bytes 59768837",), 'sum(jvm_memory_used_bytes{area="heap"})'),
        (HEAP, ("op_metadata_bytes 58123456",), 'jvm_memory_used_bytes{area="nonheap"}'),
        (RSS, ("op_footprint_bytes 94810112",), "process_resident_memory_bytes"),
        (RSS, ("op_rss_bytes 94810000",), "process_resident_memory_bytes"),
    ],
)
def test_gauges_that_repeat_a_built_in_one(theirs: str, mine: tuple[str, ...], read: str) -> None:
    (problem,) = problems(theirs, gauge(mine[0].partition("{")[0].partition(" ")[0], *mine))
    assert (problem.rule, problem.fix) == ("builtin-duplicate", f"take it away, and read {read}")


@pytest.mark.parametrize(("of", "wrong"), [(("backup", "restore"), True), (("uploads", "checks"), False)])
def test_retries_of_a_queue_by_its_name(of: tuple[str, str], wrong: bool) -> None:
    name = "op_work_retries_total"
    mine = gauge(name, *(f'{name}{{queue="{one}"}} {count}' for one, count in zip(of, (73, 9), strict=True)))
    assert rules(RETRIES, mine.replace("gauge", "counter")) == ["builtin-duplicate"] * wrong


@pytest.mark.parametrize(
    ("theirs", "mine"),
    [
        # Not all of another kind of work waits in the queue of its controller.
        (DEPTH, ('op_pending_objects{queue="backup"} 3', 'op_pending_objects{queue="restore"} 2')),
        (DEPTH, ('op_pending_objects{queue="uploads"} 3', 'op_pending_objects{queue="verifies"} 1')),
        (DEPTH, ("op_pending_objects 4",)),
        (DEPTH.replace(" 3", " 0").replace(" 1", " 0"), ('op_pending_objects{queue="backup"} 0',)),
        (DEPTH, ('op_queue_length{shard="0"} 4', 'op_queue_length{shard="1"} 0')),
        (HEAP, ("op_live_set_bytes 59768838",)),
        # Round numbers and limits may be those of anything.
        (RSS.replace("94810112", "67108864"), ("op_cache_bytes 67108864",)),
        (RSS.replace("94810112", "94000000"), ("op_cache_bytes 94000000",)),
        (RSS, ("op_cache_max_bytes 94810112",)),
    ],
)
def test_gauges_that_do_not(theirs: str, mine: tuple[str, ...]) -> None:
    assert rules(theirs, gauge(mine[0].partition("{")[0].partition(" ")[0], *mine)) == []
