"""The steps of action.yml as a runner starts them: each script by bash with errexit and pipefail, in the job's folder.

pip, doctor and pytest are real; `grovescale compare` is held to its own parser; `gh` keeps the comments of one issue.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from pytest_grovescale.cli import parser

ROOT = Path(__file__).parents[3]
STEPS: list[dict[str, Any]] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))["runs"]["steps"]


COMPARISON = ("OPERATOR", "TEST", "BUILD", "OPTIONS", "BASE")


def step(*variables: str) -> str:
    """Return the script of the step with these variables."""
    (found,) = [one["run"] for one in STEPS if set(one.get("env", ())) == set(variables)]
    return str(found)


def run(script: str, folder: Path, programs: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub's runner does for ``shell: bash``. ``programs``: found before all others."""
    file = folder / "step.sh"
    file.write_text(script, encoding="utf-8")
    path = [*([str(programs)] if programs else []), str(Path(sys.executable).parent), os.environ["PATH"]]
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(file)]
    env = {**os.environ, **variables, "PATH": os.pathsep.join(path)}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def program(folder: Path, name: str, source: str) -> Path:
    """Write a program in Python into a folder, and return the folder."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!{sys.executable}\n{source}", encoding="utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return folder


def test_all_scripts_are_run_here() -> None:
    scripts = [one["run"] for one in STEPS if "run" in one]
    variables = [("INSTALL",), ("TESTS",), COMPARISON, ("GH_TOKEN", "NUMBER")]
    assert scripts == [step(*names) for names in variables]
    assert all(one["shell"] == "bash" for one in STEPS if "run" in one)


def test_several_packages_are_installed(tmp_path: Path) -> None:
    # Without an index: what is there already is all that can be asked for.
    done = run(step("INSTALL"), tmp_path, INSTALL="--no-index --dry-run pytest-grovescale pytest")
    assert done.returncode == 0, done.stderr
    assert "platform" in done.stdout, "the doctor's lines"
    assert run(step("INSTALL"), tmp_path, INSTALL="--no-index --dry-run nothing-of-this-name").returncode != 0


def test_the_tests_are_run_with_their_options_and_a_junit_file(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_one(): ...\ndef test_two(): assert 0\n", encoding="utf-8")
    assert run(step("TESTS"), tmp_path, TESTS="-k one test_it.py").returncode == 0
    assert run(step("TESTS"), tmp_path, TESTS="test_it.py").returncode == 1
    (suite,) = ElementTree.parse(tmp_path / "reports/junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
    return subprocess.check_output(["git", *identity, *arguments], cwd=folder, text=True).strip()


def test_the_base_is_fetched_and_compared(tmp_path: Path) -> None:
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    origin.mkdir()
    git(origin, "init", "--quiet")
    git(origin, "commit", "--quiet", "--allow-empty", "-m", "base")
    base = git(origin, "rev-parse", "HEAD")
    git(origin, "checkout", "--quiet", "-b", "change")
    git(origin, "commit", "--quiet", "--allow-empty", "-m", "change")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{origin}", "clone")
    programs = program(tmp_path / "bin", "grovescale", "import json, sys; print(json.dumps(sys.argv[1:]))\n")
    named = {
        "OPERATOR": "tests/scale/operator.yaml",
        "TEST": "tests/scale/test_it.py::test_it",
        "BUILD": "make -j build",
        "OPTIONS": "--param objects=20 --nodes=5",
    }
    done = run(step(*COMPARISON), clone, programs, BASE=base, **named)
    assert done.returncode == 0, done.stderr
    assert git(clone, "cat-file", "-t", base) == "commit"
    options = parser().parse_args(json.loads(done.stdout))
    assert (options.git, options.build) == ([base, "HEAD"], "make -j build")
    assert options.quick
    assert (options.param, str(options.nodes)) == (["objects=20"], "5")


GH = """\
import json, pathlib, subprocess, sys

arguments = dict(zip(sys.argv[1:], sys.argv[2:]))
store = pathlib.Path("comments.json")
comments = json.loads(store.read_text()) if store.exists() else []
address = next(each for each in sys.argv[2:] if each.startswith("repos/"))
if "--jq" in arguments:
    assert address == "repos/me/mine/issues/7/comments", address
    subprocess.run(["jq", "--raw-output", arguments["--jq"]], input=json.dumps(comments), text=True, check=True)
    sys.exit()
body = pathlib.Path(arguments["-F"].removeprefix("body=@")).read_text()
if arguments.get("--method") == "PATCH":
    (one,) = [one for one in comments if address == f"repos/me/mine/issues/comments/{one['id']}"]
    one["body"] = body
else:
    assert address == "repos/me/mine/issues/7/comments", address
    comments.append({"id": 100 + len(comments), "body": body})
store.write_text(json.dumps(comments))
"""


def commented(folder: Path) -> list[dict[str, Any]]:
    programs = program(folder / "bin", "gh", GH)
    done = run(step("GH_TOKEN", "NUMBER"), folder, programs, NUMBER="7", GITHUB_REPOSITORY="me/mine", GH_TOKEN="")
    assert done.returncode == 0, done.stderr
    store = folder / "comments.json"
    found: list[dict[str, Any]] = json.loads(store.read_text()) if store.exists() else []
    return found


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq, which gh has built in")
def test_one_comment_is_written_and_then_updated(tmp_path: Path) -> None:
    of_others = {"id": 1, "body": "thanks"}
    (tmp_path / "comments.json").write_text(json.dumps([of_others]), encoding="utf-8")
    comparison = tmp_path / "reports/compare/1/comparison.md"
    comparison.parent.mkdir(parents=True)
    comparison.write_text("first", encoding="utf-8")
    _, ours = commented(tmp_path)
    assert ours["body"].splitlines()[1:] == ["first"]
    comparison.write_text("é" * 100_000, encoding="utf-8")
    others, again = commented(tmp_path)
    assert (others, again["id"]) == (of_others, ours["id"])
    assert 1000 < len(again["body"]) < 65_536


def test_without_a_comparison_there_is_no_comment_and_no_error(tmp_path: Path) -> None:
    assert commented(tmp_path) == []
