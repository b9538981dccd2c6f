"""``grovescale check`` finds out what a file is, and reports all that is wrong with it, without a cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import resources
from pytest_grovescale.cli import main
from tests.golden import masked

OPERATOR = """\
name: mine
command: [mine, --port, "{health_prt}"]
env: {LEVEL: 3}
readiness: {url: "http://127.0.0.1:{health_port}/readyz", timeot: 5s}
rbac: [{apiGroups: [""], resources: [pods], verb: [get]}]
"""
GOOD_SHAPE = OPERATOR.replace("{LEVEL: 3}", "{}").replace("timeot", "timeout").replace("verb:", "verbs:")
CLUSTER = """\
name: small
kubernetes: "1.33"
nodes:
  - {prefix: A_, count: 1}
  - {prefix: b, count: -1}
stages: [nope]
"""
BUDGETS = """\
tests:
  test_it:
    - noop_writs
    - cpu: {phase: deploy, maxx: 4s}
  test_other:
    - hot_loop
"""
WORKLOAD = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "{{ name | default('a') }}"}
rules: [{apiGroups: [""], resources: [pods]{% if verbs %}, verbs: [get]{% endif %}}]
"""


def test_bundled_files_are_right(capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    folders = ("fixtures/clusters", "fixtures/operators", "workloads")
    files = [str(file) for folder in folders for file in sorted((resources.root() / folder).glob("*.*"))]
    assert main(["check", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(files)
    assert files[0].endswith("/fixtures/clusters/default.yaml")
    assert masked(lines[0], {resources.root(): "bundled"}) == snapshot
    assert [line.endswith(": ok") for line in lines] == [True] * len(files)
    assert {line.removeprefix(f"{file}: ").split(" ")[0] for file, line in zip(files, lines, strict=True)} == {
        "cluster",
        "operator",
        "workload",
    }


@pytest.mark.parametrize(
    ("name", "text", "messages"),
    [
        (
            "operator.yaml",
            OPERATOR,
            ["3: env.LEVEL: expected a text", "4: readiness.timeot: unknown field", "5: rbac[0].verb: unknown field"],
        ),
        (
            "operator.yaml",
            GOOD_SHAPE.replace("{health_prt}", "{health_port}") + "findings: {left-behnd: ours}\n",
            ["6: findings.left-behnd: no rule"],
        ),
        (
            "operator.yaml",
            GOOD_SHAPE,
            ["2: command[2]: unknown placeholder"],
        ),
        (
            "cluster.yaml",
            CLUSTER,
            [
                "2: kubernetes: Kubernetes 1.33 is not supported",
                "4: nodes[0].prefix: 'A_'",
                "5: nodes[1].count: a pool cannot",
                "6: stages[0]: nope: no such file",
            ],
        ),
        (
            "budgets.yaml",
            BUDGETS,
            [
                "3: tests.test_it[0].noop_writs: no check 'noop_writs'; did you mean noop_writes",
                "4: tests.test_it[1].cpu.maxx: no argument 'maxx'; did you mean max?",
                "5: tests.test_other: no test 'test_other'; did you mean test_it?",
            ],
        ),
        ("role.yaml.j2", WORKLOAD.replace("{% endif %}", ""), ["4: not a template: "]),
        ("notes.yaml", "colour: blue\n", ["1: is none of: cluster definition, operator definition, budgets, workload"]),
    ],
)
def test_all_mistakes_of_a_file_are_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    text: str,
    messages: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_it.py").write_text("def test_it(): pass", encoding="utf-8")
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert main(["check", name, "--param", "verbs="]) == 2
    *errors, count = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("  ")]
    assert [error[: len(name) + 1 + len(message)] for error, message in zip(errors, messages, strict=True)] == [
        f"{name}:{message}" for message in messages
    ]
    assert count == f"{len(messages)} mistake{'s' if len(messages) > 1 else ''}"


def test_what_a_template_renders_is_held_to_the_rules_of_its_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "role.yaml.j2"
    file.write_text(WORKLOAD, encoding="utf-8")
    assert main(["check", str(file), "--param", "verbs="]) == 2
    assert capsys.readouterr().err.startswith(f"{file} (rendered):1: rules[0]: object missing required field verbs")


def test_values_make_a_workload_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    file = tmp_path / "role.yaml.j2"
    file.write_text(WORKLOAD, encoding="utf-8")
    assert main(["check", str(file)]) == 0
    out = capsys.readouterr().out
    assert out.endswith(": ok\n")
    assert masked(out, {tmp_path: "folder"}) == snapshot
    assert main(["check", str(file), "--param", "verbs=true"]) == 0
    assert capsys.readouterr().out == f"{file}: workload (1 object): ok\n"
    assert main(["check", str(file), "--param", "verb=true"]) == 2
    assert "verbs" in capsys.readouterr().err


def test_no_client_library_is_imported(tmp_path: Path) -> None:
    script = (
        "import sys; from pytest_grovescale.cli import main\n"
        f"assert main(['check', {str(resources.root() / 'fixtures/operators/reference.yaml')!r}]) == 0\n"
        "print(sorted({'aiohttp', 'kubernetes', 'numpy', 'pytest'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_file_that_extends_another_is_judged_as_a_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    (tmp_path / "base.yaml").write_text("name: base\nextends: default\napi_server: {gogc: -1}\n")
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nextends: base\n")
    assert main(["check", str(file)]) == 2
    file.write_text("name: mine\nextends: base\napi_server: {gogc: 1}\n")
    assert main(["check", str(file)]) == 0
    output = capsys.readouterr()
    assert f"{tmp_path}/base.yaml:3: api_server.gogc" in output.err
    assert masked(output.err + output.out, {tmp_path: "folder"}) == snapshot


def test_a_folder_is_answered_with_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path)]) == 2
    assert f"grovescale check {tmp_path}/*.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "meant"), [("operator.yaml", "tests/scale/operator.yaml"), ("mien.yaml", "mine.yaml")]
)
def test_a_file_that_is_not_there_is_answered_with_the_one_that_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, meant: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests/scale").mkdir(parents=True)
    for path in ("tests/scale/operator.yaml", "mine.yaml"):
        (tmp_path / path).write_text(OPERATOR)
    assert main(["check", name]) == 2
    assert meant in "".join(capsys.readouterr())
