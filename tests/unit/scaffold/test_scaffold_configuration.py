"""Settings that an operator's container mounts from a ConfigMap, as files of a process."""

from __future__ import annotations

import pytest

from pytest_grovescale.scaffold import configuration, facts, interpreted, program
from pytest_grovescale.scaffold.program import Program


def deployed(container: str, *, items: str = "", key: str = "app.yaml", text: str = "metricsPort: 8000") -> str:
    """Return a Deployment whose container mounts a ConfigMap at /etc/app, and that ConfigMap."""
    return f"""\
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings}}
data: {{{key}: '{text}'}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: app}}
spec:
  template:
    spec:
      serviceAccountName: app
      containers: [{{name: operator, image: a, {container}volumeMounts: [{{name: c, mountPath: /etc/app}}]}}]
      volumes: [{{name: c, configMap: {{name: settings{items}}}}}]
"""


def python(source: str, manifests: str) -> Program:
    project = {
        "app.py": f"import os\nfrom kubernetes import config\nconfig.load_kube_config()\n{source}\n",
        "Dockerfile": 'FROM python\nWORKDIR /app\nCOPY . .\nENTRYPOINT ["python", "app.py"]\n',
        "deploy.yaml": manifests,
    }
    found = interpreted.interpreted_program(facts.of("app", project))
    assert found is not None
    return found


def go(flags: str, manifests: str) -> Program:
    main = f"package main\n\nfunc main() {{\n{flags}\nctrl.NewManager(a, b)\n}}\n"
    found = program.go_program(facts.of("app", {"main.go": main, "deploy.yaml": manifests}))
    assert found is not None
    return found


def test_a_variable_names_the_file_whose_path_is_its_default() -> None:
    found = python('os.environ.get("APP_CONFIG", "/etc/app/app.yaml")', deployed(""))
    assert found.files == {"app.yaml": "metricsPort: {metrics_port}\n"}
    assert found.env["APP_CONFIG"] == "{directory}/app.yaml"
    assert found.metrics == "http://127.0.0.1:{metrics_port}/metrics"
    assert "/etc/app/app.yaml" in found.guesses["env"][0]


@pytest.mark.parametrize(
    ("container", "command"),
    [
        ("args: [--config=/etc/app/app.yaml], ", "--config={directory}/app.yaml"),
        ("args: [--config-dir=/etc/app/], ", "--config-dir={directory}"),
        ("", "--config={directory}/app.yaml"),
    ],
)
def test_an_argument_or_a_flags_default_names_the_file(container: str, command: str) -> None:
    flags = 'flag.StringVar(&a, "config", "/etc/app/app.yaml", "…")\nflag.StringVar(&b, "config-dir", "", "…")'
    found = go(flags, deployed(container))
    assert found.command == ("bin/manager", command)
    assert found.files == {"app.yaml": "metricsPort: {metrics_port}\n"}
    assert "command" not in found.guesses


def test_an_environment_of_the_container_names_the_file() -> None:
    found = go(
        "",
        deployed("env: [{name: SETTINGS, value: /etc/app/b.ini}], ", items=", items: [{key: app.yaml, path: b.ini}]"),
    )
    assert found.env == {"SETTINGS": "{directory}/b.ini"}
    assert list(found.files) == ["b.ini"]


def test_a_path_that_nothing_can_change_is_a_guess() -> None:
    found = go('os.ReadFile("/etc/app/app.yaml")', deployed(""))
    assert "{directory}/app.yaml" in found.guesses["files"][0]


def test_a_file_that_the_program_does_not_name_is_left_out() -> None:
    assert go("", deployed("")).files == {}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('metrics:\n  bindAddress: ":8080"', 'metrics:\n  bindAddress: "127.0.0.1:{metrics_port}"'),
        ("health.port=8081", "health.port={health_port}"),
        ('{\n  "metrics-port": 9,\n  "a": "{b}"\n}', '{\n  "metrics-port": {metrics_port},\n  "a": "{{b}}"\n}'),
        ("[server]\nmetrics_addr = '0.0.0.0:80'", "[server]\nmetrics_addr = '127.0.0.1:{metrics_port}'"),
        ("leaderElection:\n  enabled: true\nother: true", "leaderElection:\n  enabled: false\nother: true"),
        ("metrics:\n  enabled: true\nport: 80", "metrics:\n  enabled: true\nport: 80"),
        ("metrics: {port: 1}", "metrics: {port: 1}"),
    ],
)
def test_ports_and_leader_election_of_settings_are_the_processs(written: str, read: str) -> None:
    assert configuration.settings(written) == f"{read}\n"
