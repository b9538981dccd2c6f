"""From a definition to the argument list, environment and files of one start."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_grovescale.operator import command
from pytest_grovescale.operator.definition import load
from pytest_grovescale.operator.placeholders import PROVIDED, fill, names

FILE = """\
name: sample
command: ["{python}", "--level={level}", {for: defect, arguments: [--defect, "{defect}"]}, "--file={directory}/c.yaml"]
values: {level: 3, fast: true, defect: []}
env: {FAST: "{fast}", MINE: "{kubeconfig}"}
files:
  c.yaml: |
    metrics: {bindAddress: "127.0.0.1:{metrics_port}", json: {"a": {}}, literal: "{{level}}"}
    health: {health_port}
readiness: {url: "http://127.0.0.1:{health_port}/readyz"}
limits: {gomaxprocs: 2}
"""
PROVIDED_VALUES = {name: f"<{name}>" for name in PROVIDED}


def launch(tmp_path: Path, environ: dict[str, str] | None = None, **values: str) -> command.Launch:
    path = tmp_path / "sample.yaml"
    path.write_text(FILE)
    return command.launch(load(str(path), values=values), PROVIDED_VALUES, environ=environ or {})


def test_placeholders_and_defaults(tmp_path: Path) -> None:
    assert launch(tmp_path).argv == ["<python>", "--level=3", "--file=<directory>/c.yaml"]


def test_repeated_arguments(tmp_path: Path) -> None:
    argv = launch(tmp_path, defect="leak,orphan").argv
    assert argv[2:-1] == ["--defect", "leak", "--defect", "orphan"]


def test_environment_is_small_and_never_the_admins(tmp_path: Path) -> None:
    env = launch(tmp_path, environ={"PATH": "/bin", "KUBECONFIG": "/admin", "SECRET": "s", "https_proxy": "p"}).env
    assert env["KUBECONFIG"] == env["MINE"] == "<kubeconfig>"
    assert env["FAST"] == "true"
    assert env["GOMAXPROCS"] == "2"
    assert env["PATH"] == "/bin"
    assert not {"SECRET", "https_proxy"} & env.keys()


def test_files_keep_braces_that_are_no_placeholders(tmp_path: Path) -> None:
    text = launch(tmp_path).files["c.yaml"]
    assert '{bindAddress: "127.0.0.1:<metrics_port>", json: {"a": {}}, literal: "{level}"}' in text
    assert "health: <health_port>" in text


def test_only_ports_that_are_used(tmp_path: Path) -> None:
    path = tmp_path / "sample.yaml"
    path.write_text(FILE)
    assert command.ports_used(load(str(path))) == ["metrics_port", "health_port"]


def test_unknown_placeholder_is_an_error() -> None:
    with pytest.raises(KeyError, match="nobody"):
        fill("{nobody}", {})


def test_names_pass_over_escaped_ones() -> None:
    assert list(names("{a} {{b}} {C} {} {a1_b}")) == ["a", "a1_b"]
