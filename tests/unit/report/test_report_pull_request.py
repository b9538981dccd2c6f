"""What a run tells a pull request: annotations, the recipe of a workflow, and figures for a tracker."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.analysis.analyse import analyse, merge
from pytest_grovescale.analysis.result import CheckResult, Finding, Result, TestResult
from pytest_grovescale.report.pull_request import annotations_of, of_comparison
from pytest_grovescale.report.result_file import benchmark
from tests.unit.analysis.simulated import MACHINE, full_run

ROOT = Path(__file__).parents[3]


def run(**facts: Any) -> Result:
    test = TestResult(
        test="tests/scale/test_mine.py::test_mine", run="r", version="0", scenario_outcome="passed", started="",
        seconds=1, machine=MACHINE, phases=(), **facts,
    )  # fmt: skip
    return merge([test])


def check(verdict: Any, source: str, text: str = "operator CPU 6 s > 5 s") -> CheckResult:
    return CheckResult(
        check='cpu("deploy", max="5s")', subject="operator CPU", verdict=verdict, text=text, source=source
    )


def test_a_failed_check_stands_at_its_line_of_the_budgets() -> None:
    result = run(checks=(check("fail", "tests/scale/budgets.yaml:9"), check("pass", "tests/scale/budgets.yaml:10")))
    (line,) = annotations_of(result)
    assert line.startswith("::error file=tests/scale/budgets.yaml,line=9,title=test_mine%3A cpu(")
    assert line.endswith("::operator CPU 6 s > 5 s")


def test_what_no_file_declares_stands_at_the_test_from_the_repositorys_root() -> None:
    findings = (
        Finding(id="churn", severity="waste", text="10 of 20 pods were deleted again"),
        Finding(id="gauge", severity="note", text="a note is none"),
    )
    result = run(checks=(check("inconclusive", "marker"),), findings=findings)
    inconclusive, churn = annotations_of(result, "operators/mine")
    assert inconclusive.startswith("::warning file=operators/mine/tests/scale/test_mine.py,title=")
    assert churn.startswith("::warning file=operators/mine/tests/scale/test_mine.py,")
    assert churn.endswith("::waste: 10 of 20 pods were deleted again")


def test_a_test_that_failed_for_another_reason_is_an_error_of_one_line() -> None:
    (line,) = annotations_of(run(error="PhaseError: timed out\nsecond line"))
    place, said = line.rsplit("::", 1)
    assert said == "PhaseError: timed out"
    assert place.endswith(",title=tests/scale/test_mine.py%3A%3Atest_mine")


@given(st.text(), st.text())
def test_no_text_ends_a_command_or_begins_another(said: str, name: str) -> None:
    finding = Finding(id=name, severity="defect", text=said)
    (line,) = annotations_of(run(findings=(finding,)))
    assert len(re.split(r"[\r\n]", line)) == 1
    assert line.count("::") >= 2
    properties = line.removeprefix("::warning ").partition("::")[0]
    assert len(properties.split(",")) == 2


@pytest.mark.parametrize(("verdict", "level"), [("regression", "error"), ("inconclusive", "warning"), ("ok", None)])
def test_a_comparison(verdict: Any, level: str | None) -> None:
    found = list(of_comparison(verdict, "slower: CPU +12 %"))
    assert found == ([f"::{level} title=grovescale compare::slower: CPU +12 %25"] if level else [])


def test_figures_for_a_tracker_are_those_of_tests_that_passed() -> None:
    test = msgspec.structs.replace(analyse(full_run().records()), verdict="passed")
    figures = benchmark(merge([test]))
    assert {"CPU of the operator, deploy"} <= {one.name.partition(": ")[2] for one in figures}
    assert not any("wall" in one.name for one in figures)
    assert all(one.unit for one in figures)
    failed = msgspec.structs.replace(test, verdict="failed")
    assert benchmark(merge([failed])) == []


def recipe() -> str:
    found = re.search(r"```yaml\n(# \.github.*?)```", (ROOT / "docs/ci.md").read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1].replace("OWNER/pytest-grovescale@v0", "./")


def test_the_recipe_gives_the_action_inputs_that_it_has() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    (ours,) = [step for step in yaml.safe_load(recipe())["jobs"]["scale"]["steps"] if step["uses"] == "./"]
    assert set(ours["with"]) <= set(action["inputs"])
    text = (ROOT / "action.yml").read_text("utf-8")
    assert {name for name in action["inputs"] if f"inputs.{name}" not in text} == set()


@pytest.mark.skipif(shutil.which("go") is None, reason="actionlint is built from a Go module, and there is no go")
def test_the_recipe_and_the_action_pass_actionlint(tmp_path: Path) -> None:
    workflows = tmp_path / ".github/workflows"
    workflows.mkdir(parents=True)
    (workflows / "scale.yml").write_text(recipe(), "utf-8")
    text = (ROOT / "action.yml").read_text("utf-8")
    (tmp_path / "action.yml").write_text(text, "utf-8")
    # The linter reads an action's inputs only: as a job, its steps are checked, too.
    action = yaml.safe_load(text)
    inputs = {name: {**one, "type": "string"} for name, one in action["inputs"].items()}
    job = {"runs-on": "ubuntu-latest", "steps": action["runs"]["steps"]}
    workflow = {"on": {"workflow_call": {"inputs": inputs}}, "jobs": {"action": job}}
    (workflows / "action.yml").write_text(yaml.safe_dump(workflow, sort_keys=False), "utf-8")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    lint = ["go", "run", "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"]
    said = subprocess.run(lint, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (said.stdout, said.returncode) == ("", 0), said.stderr
