"""From a definition to the argument list, environment and files of one start."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.endpoints import Address
from pytest_grovescale.operator import command
from pytest_grovescale.operator.definition import load
from pytest_grovescale.operator.placeholders import PROVIDED, fill, names
from pytest_grovescale.operator.process import lacking_right

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


def test_files_keep_braces_that_are_no_placeholders(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    text = launch(tmp_path).files["c.yaml"]
    assert 'json: {"a": {}}, literal: "{level}"' in text
    assert text == snapshot


def test_only_ports_that_are_used(tmp_path: Path) -> None:
    path = tmp_path / "sample.yaml"
    path.write_text(FILE)
    assert command.ports_used(load(str(path))) == ["metrics_port", "health_port"]


def test_unknown_placeholder_is_an_error() -> None:
    with pytest.raises(KeyError, match="nobody"):
        fill("{nobody}", {})


def test_names_pass_over_escaped_ones() -> None:
    assert list(names("{a} {{b}} {C} {} {a1_b}")) == ["a", "a1_b"]


SERVED = """\
name: served
command: ["{kube_controller_manager}", "--port={metrics_port}", "--tls={cert_dir}/tls.crt"]
readiness: {url: "https://127.0.0.1:{metrics_port}/healthz", insecure_skip_verify: true}
metrics: {url: "https://127.0.0.1:{metrics_port}/metrics", token: true, ca_file: "{cert_dir}/ca.crt"}
pprof: {url: "https://127.0.0.1:{metrics_port}/debug/pprof", token: true, ca_file: mine.crt}
"""


def test_endpoints_know_how_to_be_let_in(tmp_path: Path) -> None:
    (tmp_path / "mine.crt").touch()
    (tmp_path / "served.yaml").write_text(SERVED)
    made = command.launch(load(str(tmp_path / "served.yaml")), PROVIDED_VALUES, environ={})
    assert made.argv[0] == "<kube_controller_manager>"
    assert made.readiness == Address(url="https://127.0.0.1:<metrics_port>/healthz", insecure_skip_verify=True)
    assert made.metrics == Address(
        url="https://127.0.0.1:<metrics_port>/metrics", token_file="<token_file>", ca_file="<cert_dir>/ca.crt"
    )
    assert made.pprof is not None
    assert made.pprof.ca_file == str(tmp_path / "mine.crt")


def test_only_binaries_that_are_used(tmp_path: Path) -> None:
    (tmp_path / "mine.crt").touch()
    for name, text in (("served.yaml", SERVED), ("sample.yaml", FILE)):
        (tmp_path / name).write_text(text)
    assert command.binaries_used(load(str(tmp_path / "served.yaml"))) == ["kube-controller-manager"]
    assert command.binaries_used(load(str(tmp_path / "sample.yaml"))) == []


@pytest.mark.parametrize(
    ("name", "trigger"), [("kcm-deployment", "label"), ("kcm-statefulset", "annotation"), ("kcm-job", "annotation")]
)
def test_bundled_definitions_of_kubernetes_own_controllers(name: str, trigger: str) -> None:
    definition = load(name)
    made = command.launch(definition, PROVIDED_VALUES, environ={})
    assert command.binaries_used(definition) == ["kube-controller-manager"]
    assert command.ports_used(definition) == ["metrics_port"]
    assert "--kube-api-qps=1000" in made.argv
    for address in (made.metrics, made.pprof):
        assert address is not None
        assert (address.token_file, address.ca_file) == ("<token_file>", "<cert_dir>/ca.crt")
    # Readiness is open to all, and nobody else's certificate would do.
    assert made.readiness is not None
    assert (made.readiness.token_file, made.readiness.ca_file) == ("", "<cert_dir>/ca.crt")
    assert definition.trigger is not None
    assert ("label" if definition.trigger.label else "annotation") == trigger


@pytest.mark.parametrize(
    ("log", "right"),
    [
        (r"cannot list resource \"deployments\" in API group \"apps\" at the cluster scope", "list deployments.apps"),
        ('pods is forbidden: User "x" cannot watch resource "pods" in API group "" in the namespace "t"', "watch pods"),
        ("cannot reach it", ""),
    ],
)
def test_a_right_that_the_log_misses_is_named(log: str, right: str) -> None:
    said = lacking_right(log)
    assert (right in said) if right else not said
