"""Bundles: several checks under one name, the same wherever it is written."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import checks
from pytest_grovescale.checks.budgets import declared_for
from pytest_grovescale.checks.check import Check, bundles, decode, encode
from pytest_grovescale.checks.grep498 import CONTROLLERS, ERROR_TYPES, TARGET_KINDS
from pytest_grovescale.errors import DefinitionError, UsageError
from pytest_grovescale.exposition.families import Family
from tests.golden import masked
from tests.unit.analysis.endpoint import Endpoint

from .metrics_run import judged

CONFLICTS, ERRORS = "grove_operator_status_update_conflict_total", "grove_operator_reconcile_errors_total"

FAMILIES = (CONFLICTS, ERRORS, "controller_runtime_reconcile_total", "controller_runtime_reconcile_errors_total")


def declared(folder: Path, entry: str) -> list[Check]:
    (folder / "budgets.yaml").write_text(f"tests:\n  test_*:\n    - {entry}\n", encoding="utf-8")
    return [check for check, _ in declared_for(folder, ["test_a"], (), root=folder)]


def test_file_marker_and_call_give_the_same_checks(tmp_path: Path) -> None:
    declared_checks = list(checks.Grep498())
    assert declared(tmp_path, "grep498") == declared_checks
    marked = declared_for(tmp_path, ["no_test"], (checks.Grep498(),), root=tmp_path)
    assert marked == tuple((check, "marker") for check in declared_checks)


def test_its_arguments_may_be_given_in_the_file(tmp_path: Path) -> None:
    found = declared(tmp_path, "grep498: {controllers: [one, two]}")
    assert found == list(checks.Grep498(controllers=["one", "two"]))
    assert isinstance(found[0], checks.Series)
    assert found[0].max == 22


def test_it_bounds_the_surface_of_the_proposal() -> None:
    series, labels, of_conflicts, of_errors, errors, conflicts = checks.Grep498(controllers=["a", "b", "c"])
    assert isinstance(series, checks.Series)
    assert (series.max, series.family) == (33, "grove_operator_*")
    assert isinstance(labels, checks.Labels)
    assert len(labels.allowed_values["error_type"]) == 8
    demanded = 0
    for initialised in (of_conflicts, of_errors):
        assert isinstance(initialised, checks.PreinitializedSeries)
        demanded += math.prod(len(values) for values in initialised.labels.values())
    assert demanded == series.max
    assert all(isinstance(invariant, checks.Invariant) for invariant in (errors, conflicts))


def verdicts_of(controllers: list[str]) -> list[tuple[str, str]]:
    """Return the verdict of each check, where controller-runtime and Grove's families count under these names."""
    served = Endpoint(families=[Family(name=name, type="counter", help="Errors.") for name in FAMILIES])
    series = {f'controller_runtime_reconcile_total{{controller="{one}",result="success"}}': 0.0 for one in controllers}
    for one in [*controllers, "cert-rotator"]:
        series[f'controller_runtime_reconcile_errors_total{{controller="{one}"}}'] = 0.0
    for one in controllers:
        series |= {f'{CONFLICTS}{{controller="{one}",target_kind="{kind}"}}': 0.0 for kind in TARGET_KINDS}
        series |= {f'{ERRORS}{{controller="{one}",error_type="{kind}"}}': 0.0 for kind in ERROR_TYPES}
    served.answers(0, series, edge="start:deploy")
    served.answers(1, series, edge="end:deploy")
    return [
        (check.check.partition("(")[0], check.verdict) for check in (judged(one, served) for one in checks.Grep498())
    ]


@pytest.mark.parametrize("suffix", ["", "-controller"])
def test_names_of_controllers_are_those_by_which_controller_runtime_counts(suffix: str) -> None:
    verdicts = dict(verdicts_of([f"{name}{suffix}" for name in CONTROLLERS]))
    assert {verdicts[name] for name in ("series", "labels", "preinitialized_series")} == {"pass"}
    assert "fail" not in verdicts.values()


def test_without_its_controllers_nothing_can_be_demanded() -> None:
    assert dict(verdicts_of(["other"]))["labels"] == "inconclusive"


def test_a_few_of_its_series_are_not_enough() -> None:
    served = Endpoint(families=[Family(name=name, type="counter", help="Errors.") for name in (CONFLICTS, ERRORS)])
    few = {
        f'{CONFLICTS}{{controller="podclique",target_kind="PodClique"}}': 0.0,
        f'{ERRORS}{{controller="podclique",error_type="internal"}}': 0.0,
    }
    served.answers(0, few, edge="start:deploy")
    served.answers(1, few, edge="end:deploy")
    found = [judged(check, served) for check in checks.Grep498(controllers=list(CONTROLLERS))]
    assert [check.figure for check in found if check.verdict == "fail"] == [8, 23]


@pytest.mark.parametrize("name", bundles())
def test_what_a_bundle_yields_can_be_recorded(name: str) -> None:
    for check in bundles()[name]():
        assert decode(encode(check)) == check


def test_a_wrong_name_and_a_wrong_argument_are_reported_with_their_place(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    with pytest.raises(DefinitionError, match=r"budgets.yaml:3:.* grep498") as caught:
        declared(tmp_path, "grep489")
    assert masked(str(caught.value), {tmp_path: "folder"}) == snapshot(name="bundle")
    with pytest.raises(DefinitionError, match=r"budgets.yaml:3:.*'controler'") as caught:
        declared(tmp_path, "grep498: {controler: []}")
    assert masked(str(caught.value), {tmp_path: "folder"}) == snapshot(name="argument")
    with pytest.raises(UsageError) as wrong:
        checks.Grep498(controllers="podclique")  # type: ignore[arg-type]
    assert str(wrong.value) == snapshot(name="type")
