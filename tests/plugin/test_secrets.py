"""Canaries: secrets of every shape, in every place that a run reads, and not one of them in anything that it shows."""

from __future__ import annotations

import base64
import json
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.recording.journal import Reader

LEAKING = Path(__file__).parents[1] / "data/operators/leaking.yaml"

TEMPLATE = """
apiVersion: v1
kind: Secret
metadata: {name: leak, namespace: {{ namespace }}}
stringData: {anything: "{{ secret_password }}"}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: leak
  namespace: {{ namespace }}
  labels: {example.com/token: "{{ label_token }}"}
  annotations: {note: "password={{ annotation_password }}", example.com/token: "{{ annotation_token }}"}
data: {note: "api_key: {{ password }}"}
"""

REFUSED = """
apiVersion: v1
kind: ConfigMap
metadata: {name: refused, namespace: {{ namespace }}, labels: {example.com/token: "{{ refused_token }}!"}}
"""

TEST = """
import pytest
from pytest_grovescale import conditions

PLACES = ("secret_password", "label_token", "annotation_password", "annotation_token")


@pytest.mark.grovescale(nodes=3)
def test_log_tails_and_late_objects(scale):
    given = {name: scale.parameter(name, "") for name in (*PLACES, "password")}
    leak = scale.workload("leak.yaml.j2", **given)
    with scale.phase("leak", timeout="3s") as phase:
        for path in ('metadata.labels["example.com/token"]', "metadata.annotations.note", "data.note",
                     'metadata.annotations["example.com/token"]'):
            phase.milestone(path, conditions.count("configmaps", 1, where={path: "never"}))
        leak.apply()


@pytest.mark.grovescale(nodes=3)
def test_messages_of_the_api_server(scale):
    with scale.phase("refused", timeout="20s"):
        scale.workload("refused.yaml.j2", refused_token=scale.parameter("refused_token", "")).apply()
"""

IN_PROGRAM = (
    *("aws", "flag", "json", "deep", "yaml", "url", "dsn", "odbc", "bearer", "jwt", "pem", "base64", "ansi", "go"),
    *("data", "env", "query", "ci", "help", "label", "label-url"),
)
AS_VALUES = ("db_password", "api_token", "client_secret", "env_password")
AS_PARAMETERS = (
    "password",
    "secret_password",
    "label_token",
    "annotation_password",
    "annotation_token",
    "refused_token",
)


def canary() -> str:
    return f"cAn4ry{secrets.token_hex(8)}"


def forms(value: str) -> list[str]:
    """Return how a canary may look in a file: its first half is enough to be a leak."""
    return [value, value[:14], *(base64.b64encode((" " * pad + value).encode()).decode()[4:20] for pad in range(3))]


def files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


@pytest.mark.cluster
def test_no_canary_is_in_anything_that_a_run_shows(
    pytester: pytest.Pytester, running_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = {name: canary() for name in IN_PROGRAM}
    program["pem"] = base64.b64encode(b"".join(bytes(range(i, i + 60)) for i in range(100))).decode()
    values, parameters = ({name: canary() for name in names} for names in (AS_VALUES, AS_PARAMETERS))
    values["canaries"] = base64.b64encode(json.dumps(program).encode()).decode()
    (pytester.path / "leak.yaml.j2").write_text(TEMPLATE, encoding="utf-8")
    (pytester.path / "refused.yaml.j2").write_text(REFUSED, encoding="utf-8")
    pytester.makepyfile(TEST)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)

    outcome = pytester.runpytest_subprocess(
        "--grovescale",
        "-vv",
        f"--grovescale-cluster={running_cluster.name}",
        f"--grovescale-operator={LEAKING}",
        "--grovescale-save=leaking",
        "--junitxml=junit.xml",
        *(f"--grovescale-set={name}={value}" for name, value in values.items()),
        *(f"--grovescale-param={name}={value}" for name, value in parameters.items()),
    )

    outcome.assert_outcomes(failed=2)
    (pytester.path / "terminal.txt").write_text(outcome.stdout.str() + outcome.stderr.str(), encoding="utf-8")
    terminal = outcome.stdout.str()
    # What is looked for was there to be seen, and the rest is readable.
    assert "secret/default/foo not found" in terminal
    assert "reconciled 5 tokens" in terminal
    assert "AWS_SECRET_ACCESS_KEY=[redacted]" in terminal
    assert "metadata.labels" in terminal
    assert "\x1b[31mtoken" not in terminal
    assert not any(line.lstrip().startswith(("::error", "##vso")) for line in terminal.splitlines())

    raw = [path for path in files(pytester.path / "reports") if path.name.startswith("operator")]
    assert raw
    given = {pytester.path / name for name in ("leak.yaml.j2", "refused.yaml.j2")}
    canaries = {**program, **values, **parameters, "pem": program["pem"][640:700]}
    del canaries["canaries"]
    shown = [path for path in files(pytester.path) if path not in raw and path not in given]
    assert {"junit.xml", "summary.md", "result.json", "terminal.txt"} <= {path.name for path in shown}
    leaks = [
        f"{name} in {path.relative_to(pytester.path)}"
        for path in shown
        for content in [b"".join(Reader(path).lines())]
        for name, value in canaries.items()
        if any(form.encode() in content for form in forms(value))
    ]
    assert leaks == [], "\n".join(leaks)
    logs = [path for path in files(pytester.path / "reports") if path.parent.name in ("logs", "recordings")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in logs} == {0o600}


def test_a_wrong_parameter_is_not_repeated(pytester: pytest.Pytester, snapshot: SnapshotAssertion) -> None:
    pytester.makepyfile("def test_it(scale):\n    scale.parameter('api_key', 5)\n")
    value = canary()
    outcome = pytester.runpytest_subprocess("--grovescale", f"--grovescale-param=api_key={value}")
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    (reported,) = (line for line in outcome.errlines if "api_key=[redacted]" in line)
    assert reported == snapshot
    assert value not in outcome.stdout.str() + outcome.stderr.str()
