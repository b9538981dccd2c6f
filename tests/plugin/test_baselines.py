"""``--grovescale-save``, ``--grovescale-compare``: baselines as a user meets them."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster.handle import Cluster

TEST = """
from pytest_grovescale import conditions

def test_small(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=1, pods_per_replica=1)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", 1, ready=True))
        pcs.apply()
"""


@pytest.mark.cluster
def test_a_run_is_saved_and_the_next_one_shown_beside_it(
    pytester: pytest.Pytester, running_cluster: Cluster, snapshot: SnapshotAssertion
) -> None:
    pytester.makepyfile(TEST)
    options = ("--grovescale", f"--grovescale-cluster={running_cluster.name}")
    saved = pytester.runpytest_subprocess(*options, "--grovescale-save=main", "--grovescale-compare=main")
    saved.assert_outcomes(passed=1)
    saved.stdout.fnmatch_lines(["*no baseline 'main'*::test_small", "*saved as *0001_main.json"])
    (reported,) = (line for line in saved.outlines if "no baseline 'main'" in line)
    assert reported == snapshot
    (file,) = (pytester.path / ".grovescale" / "baselines").rglob("*.json")
    assert str(Path.home()) not in file.read_text(encoding="utf-8")
    pytester.makefile(".yaml", budgets='tests: {test_small: [regression: {metric: "api:deploy", tolerance: 1}]}')
    shown = pytester.runpytest_subprocess(
        *options,
        "--grovescale-compare=main",
        "--grovescale-missing-baseline=fail",
        "--grovescale-history=history",
        "--grovescale-inconclusive=warn",
    )
    shown.assert_outcomes(passed=1)
    (added,) = (pytester.path / "history").glob("*/*.json")
    shown.stdout.fnmatch_lines([f"*added to the history: history/{added.parent.name}/{added.name}"])
    # The first run has no earlier one; the second is held to it.
    shown.stdout.fnmatch_lines(["*history has no run of*"])
    held = pytester.runpytest_subprocess(*options, "--grovescale-history=history")
    held.assert_outcomes(passed=1)
    assert len(list((pytester.path / "history").glob("*/*.json"))) == 2
    shown.stdout.fnmatch_lines(
        ["Compared with baseline main of *", "*CPU of the operator, deploy *%*", "One run each: no interval*"]
    )


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--grovescale-save=a/b", "no name for a baseline"),
        ("--grovescale-compare=..", "no name for a baseline"),
        ("--grovescale-missing-baseline=ignore", "--grovescale-missing-baseline ignore: use `warn` or `fail`"),
        ("--grovescale-hold=long", "--grovescale-hold long: not a duration"),
    ],
)
def test_wrong_options_are_usage_errors(pytester: pytest.Pytester, argument: str, message: str) -> None:
    pytester.makepyfile(TEST)
    outcome = pytester.runpytest_subprocess("--grovescale", argument)
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    outcome.stderr.fnmatch_lines([f"ERROR: *{message}*"])
