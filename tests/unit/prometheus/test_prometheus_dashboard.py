"""The dashboard: its panels are those of what is served, and its JSON is what Grafana takes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.prometheus.api import Metadata
from pytest_grovescale.prometheus.dashboard import Row, dashboard, rows

FAMILIES = {
    "controller_runtime_reconcile_total": Metadata("counter"),
    "controller_runtime_reconcile_time_seconds": Metadata("histogram"),
    "workqueue_depth": Metadata("gauge"),
    "go_goroutines": Metadata("gauge"),
    "grove_conflicts_total": Metadata("counter", "Conflicts."),
    "grove_queue_age_seconds": Metadata("gauge"),
    "grove_sync_seconds": Metadata("histogram"),
    "grove_build_info": Metadata("info"),
}
NAMES = {"up", "scrape_samples_scraped", "scrape_duration_seconds", *FAMILIES} | {
    f"{name}_bucket" for name, metadata in FAMILIES.items() if metadata.type == "histogram"
}


def made(families: dict[str, Metadata] = FAMILIES) -> dict[str, Any]:
    found = dashboard(
        rows(families, NAMES | set(families)), title="t.py::test", run="r", began=0.0, ended=60.0, interval_s=5.0
    )
    decoded: dict[str, Any] = json.loads(json.dumps(found))
    return decoded


def titles(found: list[Row]) -> dict[str, list[str]]:
    return {row.title: [panel.title for panel in row.panels] for row in found}


def test_panels_are_of_what_is_served() -> None:
    assert titles(rows(FAMILIES, NAMES)) == {
        "The operator's own metrics": ["grove_conflicts_total", "grove_queue_age_seconds", "grove_sync_seconds"],
        "Scrapes": ["Up", "Series", "Time of a scrape"],
        "Reconciles": ["Reconciles", "Time of a reconcile"],
        "Work queues": ["Depth"],
        "Processes": ["Goroutines"],
    }
    assert titles(rows({}, NAMES)) == {
        title: panels
        for title, panels in titles(rows(FAMILIES, NAMES)).items()
        if title != "The operator's own metrics"
    }


def test_what_has_no_samples_has_no_panel() -> None:
    assert rows(FAMILIES, set()) == []
    assert titles(rows(FAMILIES, {"up", "grove_sync_seconds_bucket"})) == {
        "The operator's own metrics": ["grove_sync_seconds"],
        "Scrapes": ["Up"],
    }


def test_counters_of_openmetrics_are_known_by_their_samples() -> None:
    assert titles(rows({"grove_x": Metadata("counter")}, {"grove_x_total"})) == {
        "The operator's own metrics": ["grove_x_total"]
    }


def test_families_of_others_get_no_panel_where_anybody_may_be_a_target() -> None:
    assert "The operator's own metrics" not in titles(rows(FAMILIES, NAMES, own=False))


def test_counters_are_rates_and_histograms_quantiles(snapshot: SnapshotAssertion) -> None:
    own = {panel.title: panel for panel in rows(FAMILIES, NAMES)[0].panels}
    (counter,) = own["grove_conflicts_total"].queries
    assert counter.expr == snapshot
    assert "rate(grove_conflicts_total[" in counter.expr
    assert own["grove_conflicts_total"].description == "Conflicts."
    assert own["grove_queue_age_seconds"].unit == "s"
    assert [query.expr for query in own["grove_sync_seconds"].queries] == [
        f"histogram_quantile({q}, sum by (le) (rate(grove_sync_seconds_bucket[$__rate_interval])))" for q in (0.5, 0.99)
    ]


def test_time_is_the_run_s() -> None:
    assert made()["time"] == {"from": "1969-12-31T23:59:55.000Z", "to": "1970-01-01T00:01:05.000Z"}


def test_uid_is_short_and_the_same_for_the_same_test_of_a_run() -> None:
    assert made()["uid"] == made({})["uid"]
    assert len(made()["uid"]) <= 40


def test_every_query_asks_the_source_that_is_chosen() -> None:
    found = made()
    (variable,) = found["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", "prometheus")
    for panel in found["panels"]:
        if panel["type"] == "row":
            continue
        for query in panel["targets"]:
            assert query["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert query["interval"] == "5000ms"
        assert len({query["refId"] for query in panel["targets"]}) == len(panel["targets"])


names = st.from_regex(r"[a-z]{1,8}_(total|seconds|bytes)", fullmatch=True)
kinds = st.sampled_from(["counter", "gauge", "histogram", "summary", "unknown"])


@given(st.dictionaries(names, kinds.map(Metadata), max_size=20))
def test_no_two_panels_share_a_place_or_an_id(families: dict[str, Metadata]) -> None:
    panels = made(families)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells
        taken |= cells
