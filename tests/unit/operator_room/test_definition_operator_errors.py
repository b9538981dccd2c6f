"""Every mistake in an operator definition is told with its file, line and path, before anything starts."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest

from pytest_grovescale.errors import DefinitionError, UsageError
from pytest_grovescale.operator.definition import load

GOOD = """\
name: sample
command: ["{python}", -m, sample, --port, "{health_port}", --metrics, "{metrics_port}"]
values:
  variant: {default: fast, choices: [fast, slow]}
  workers: 4
  defect: []
env:
  LEVEL: debug
readiness:
  url: http://127.0.0.1:{health_port}/readyz
  timeout: 5s
metrics:
  url: http://127.0.0.1:{metrics_port}/metrics
rbac:
  - apiGroups: [""]
    resources: [pods]
    verbs: [list, watch]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "sample.yaml"
    path.write_text(text)
    return path


def test_good_one_is_good(tmp_path: Path) -> None:
    definition = load(str(write(tmp_path, GOOD)))
    assert definition.values == {"variant": "fast", "workers": "4", "defect": ""}
    assert definition.user == "system:serviceaccount:grovescale-operator:sample"


@pytest.mark.parametrize(
    ("old", "new", "line", "place", "hint"),
    [
        ("name: sample", "name: Sample_1", 1, "name", ""),
        ("name: sample\n", "", 1, "name: missing", "Needed here: name"),
        ("metrics:\n", "metricks:\n", 12, "metricks: unknown field", "Did you mean metrics"),
        ("  timeout: 5s", "  timeot: 5s", 11, "readiness.timeot: unknown field", "Did you mean timeout"),
        ("  timeout: 5s", "  timeout: soon", 11, "readiness.timeout: 'soon'", "30s"),
        ("  LEVEL: debug", "  LEVEL: 3", 8, "env.LEVEL: expected str, got int", ""),
        ("  LEVEL: debug", "  LEVEL: '{levl}'\n", 8, "env.LEVEL: unknown placeholder {levl}", "Known:"),
        ('"{metrics_port}"]', '"{metric_port}"]', 2, "command[6]: unknown placeholder", "metrics_port"),
        ('--metrics, "{metrics_port}"]', "]", 13, "metrics.url: {metrics_port}", "Pass {metrics_port}"),
        ("http://127.0.0.1:{metrics_port}", "127.0.0.1:{metrics_port}", 13, "metrics.url", ""),
        ("default: fast", "default: quick", 4, "values.variant.default: 'quick'", ""),
        ("  workers: 4", "  python: 4", 5, "values.python: {python} is filled", ""),
        ("  defect: []", "  defect: []\n  defect: [a]", 7, "values.defect: is there twice", ""),
        ("-m, sample", "-m, '{defect}'", 2, "command[2]: {defect} has a list", "for: defect"),
        ("-m, sample", "{for: workers, arguments: [x]}", 2, "command[1].for: the default of workers", ""),
        ("-m, sample", "{for: defekt, arguments: [x]}", 2, "command[1].for: no such value", "Did you mean defect"),
        ("    verbs:", "    verb:", 17, "rbac[0].verb: unknown field", "Did you mean verbs"),
        ("  timeout: 5s", "  ca_file: ca.crt", 11, "readiness.ca_file: is for https", ""),
        (
            "http://127.0.0.1:{metrics_port}/metrics",
            "http://192.0.2.1/metrics\n  token: true",
            14,
            "metrics.token: would travel in the clear",
            "https",
        ),
        ("rbac:\n", "crds: [missing]\nrbac:\n", 14, "crds[0]: no such file", "relative to the definition"),
        ("rbac:\n", "limits: {memory: lots}\nrbac:\n", 14, "limits.memory: 'lots'", "512Mi"),
        ("rbac:\n", "limits: {cores: 0}\nrbac:\n", 14, "limits.cores", ""),
        ("rbac:\n", "files: {../x: y}\nrbac:\n", 14, "files.../x: must be a plain file name", ""),
        ("rbac:\n", "files: {token: y}\nrbac:\n", 14, "files.token", ""),
        ("rbac:\n", "webhooks: [hooks.yaml]\nrbac:\n", 14, "webhooks: the operator is never told", "{cert_dir}"),
        ("rbac:\n", "start: sometimes\nrbac:\n", 14, "start: invalid enum value 'sometimes'", ""),
        ("readiness:\n", "readiness: [\n", 10, "not YAML", ""),
        ("  LEVEL: debug", "  LEVEL: !env debug", 8, "could not determine a constructor for the tag '!env'", "tag out"),
        ("  LEVEL: debug", "  LEVEL: !!timestamp debug", 1, "holds a value that cannot be", "Quote it"),
        ("  LEVEL: debug", "  LEVEL: 2026-13-01", 1, "month must be in 1..12", "Quote it"),
        ("  LEVEL: debug", "  ? [1]\n  : debug", 8, "env: has a key that is no text", ""),
        ("env:", "env: &env\n  SAME: *env\nother:", 1, "an alias (`*name`) stands within what it names", "without"),
        ("  LEVEL: debug", f"  LEVEL: {'[' * 3000}{']' * 3000}", 1, "is nested too deeply", ""),
        ("default: fast", "default: fast, help: one, two", 4, "values.variant.two: unknown", 'help: "one, two"'),
        ("  LEVEL: debug", "  {A: one, two}", 8, "env.two: expected str, got null", 'A: "one, two"'),
    ],
)
def test_mistake(tmp_path: Path, old: str, new: str, line: int, place: str, hint: str) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(DefinitionError) as raised:
        load(str(path))
    assert re.match(rf"{re.escape(str(path))}:{line}: ", raised.value.message), raised.value.message
    assert place in raised.value.message
    assert hint in raised.value.parts[0].next_step


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    wrong = {"name:": "nam:", "timeout:": "timeot:", "debug": "3", "verbs:": "verb:", "[pods]": "pods"}
    text = GOOD
    for old, new in wrong.items():
        text = text.replace(old, new, 1)
    with pytest.raises(DefinitionError) as raised:
        load(str(write(tmp_path, text)))
    messages = [error.message.removeprefix(f"{tmp_path}/sample.yaml:") for error in raised.value.parts]
    assert messages == [
        "1: nam: unknown field",
        "8: env.LEVEL: expected str, got int",
        "11: readiness.timeot: unknown field",
        "16: rbac[0].resources: expected array, got str",
        "17: rbac[0].verb: unknown field",
    ]


TARGETS = """\
targets:
  - name: gateway
    url: https://127.0.0.1:9443/metrics
    cert_file: reader.crt
    key_file: "{directory}/reader.key"
  - name: sidecar
    service: {name: "{variant}-metrics", port: https, scheme: https, via: ip}
    token_file: token
  - name: agents
    pods: {selector: app=agent, namespace: agents, port: 8080}
    interval: 10s
"""


def with_files(folder: Path) -> Path:
    for name in ("reader.crt", "token"):
        (folder / name).write_text("x")
    return folder


def test_further_targets_are_good(tmp_path: Path) -> None:
    gateway, sidecar, agents = load(str(write(with_files(tmp_path), GOOD + TARGETS))).targets
    assert (gateway.cert_file, gateway.key_file) == (str(tmp_path / "reader.crt"), "{directory}/reader.key")
    assert sidecar.service is not None
    assert (sidecar.service.path, sidecar.token_file) == ("/metrics", str(tmp_path / "token"))
    assert agents.pods is not None
    assert (agents.pods.via, agents.interval) == ("proxy", "10s")


@pytest.mark.parametrize(
    ("old", "new", "line", "place", "hint"),
    [
        ("name: gateway", "name: Gateway", 19, "targets[0].name: 'Gateway'", ""),
        ("name: gateway", "name: operator", 19, "targets[0].name: operator is a target of the harness' own", ""),
        ("name: sidecar", "name: gateway", 23, "targets[1].name: there are two targets gateway", ""),
        ("    url: https://127.0.0.1:9443/metrics\n", "", 19, "targets[0]: does not say where it is", "url, service"),
        ("    url: ", "    pods: {selector: a, port: 1}\n    url: ", 20, "targets[0].pods: has both url and pods", ""),
        ("url: https:", "url: http:", 21, "targets[0].cert_file: is for https; this URL", ""),
        ("url: https://127.0.0.1:9443", "url: 127.0.0.1", 20, "targets[0].url: '127.0.0.1/metrics' is no http", ""),
        ("cert_file: reader.crt", "cert_file: writer.crt", 21, "targets[0].cert_file: no such file", "relative"),
        ("    cert_file: reader.crt\n", "", 21, "targets[0].key_file: is the key of no certificate", "cert_file"),
        ("{directory}/r", "{directoy}/r", 22, "targets[0].key_file: unknown placeholder {directoy}", "directory"),
        (", via: ip", "", 25, "targets[1].token_file: is not for the API server's proxy", "via: ip"),
        ("token_file: token", "ca_file: token", 25, "targets[1].ca_file: is for https; this endpoint", ""),
        ("token_file: token", "token_file: token\n    token: true", 25, "targets[1].token_file: there is `token", ""),
        ("{variant}-m", "{varaint}-m", 24, "targets[1].service.name: unknown placeholder {varaint}", "variant"),
        ("port: https,", "", 24, "targets[1].service.port: missing", "Needed here: name, port"),
        ("port: 8080", "port: 0", 27, "targets[2].pods.port: 0 is no port", ""),
        ("port: 8080", "port: 8080, path: metrics", 27, "targets[2].pods.path: 'metrics' does not start", ""),
        ("interval: 10s", "interval: often", 28, "targets[2].interval: 'often'", ""),
        (
            "metrics:\n",
            "metrics:\n  service: {name: a, port: 1}\n",
            13,
            "metrics.service: has both url and service",
            "one of url, service",
        ),
        ("  url: http://127.0.0.1:{metrics_port}/metrics\n", "  interval: 5s\n", 12, "metrics: does not say where", ""),
    ],
)  # fmt: skip
def test_mistakes_of_targets(tmp_path: Path, old: str, new: str, line: int, place: str, hint: str) -> None:
    text = GOOD + TARGETS
    if "ca_file: token" in new:
        text = text.replace("scheme: https, ", "")
    assert old in text
    path = write(with_files(tmp_path), text.replace(old, new, 1))
    with pytest.raises(DefinitionError) as raised:
        load(str(path))
    assert raised.value.message.startswith(f"{path}:{line}: {place}"), raised.value.message
    assert hint in raised.value.next_step


def test_empty_file_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="is empty") as raised:
        load(str(write(tmp_path, "")))
    assert "It needs name" in raised.value.next_step


def test_missing_file_names_the_bundled_ones(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="nothing-like-it") as raised:
        load("nothing-like-it", base=tmp_path)
    assert "reference," in raised.value.next_step


def test_wrong_manifest_is_found_at_loading(tmp_path: Path) -> None:
    (tmp_path / "crd.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n")
    path = write(tmp_path, GOOD + "crds: [crd.yaml]\n")
    with pytest.raises(DefinitionError, match=r"crd\.yaml:1: metadata\.name: missing in this ConfigMap"):
        load(str(path))


@pytest.mark.parametrize(
    ("values", "message", "hint"),
    [
        ({"varaint": "slow"}, "has no value 'varaint'", "Did you mean variant"),
        ({"variant": "quick"}, "value variant cannot be 'quick'", "fast, slow"),
    ],
)
def test_wrong_values(tmp_path: Path, values: dict[str, str], message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        load(str(write(tmp_path, GOOD)), values=values)
    assert hint in raised.value.next_step


def test_values_are_chosen(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    definition = load(str(path), values={"variant": "slow", "defect": "leak, orphan"})
    assert definition.settings == {"variant": "slow", "workers": "4", "defect": ("leak", "orphan")}
    assert load(str(path), values={"defect": ""}).settings["defect"] == ()


CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object}}
"""
WEBHOOK = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: things}
webhooks:
  - name: things.example.com
    clientConfig: {url: "https://127.0.0.1:{webhook_port}/things"}
    sideEffects: None
    admissionReviewVersions: [v1]
    rules:
      - operations: [CREATE]
        apiGroups: [example.com]
        apiVersions: ["*"]
        resources: [things]
"""
ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: things}
rules:
  - apiGroups: [example.com]
    resources: [things]
    verbs: [list, watch]
"""
FILES = "files: {a: '{webhook_port}'}\ncrds: [crd.yaml]\nwebhooks: [hook.yaml]\nrbac: role.yaml\n"
NAMING = GOOD.partition("rbac:")[0] + FILES


def test_files_that_an_api_server_takes_are_good(tmp_path: Path) -> None:
    files = {"crd.yaml": CRD, "hook.yaml": WEBHOOK, "role.yaml": ROLE}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert load(str(write(tmp_path, NAMING))).rbac == str(tmp_path / "role.yaml")


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            "crd.yaml",
            "kind: CustomResourceDefinition",
            "kind: CustomResourceDefinitions",
            "2: kind: *Did you mean Custom*",
        ),
        (
            "crd.yaml",
            "kind: CustomResourceDefinition",
            "kind: ConfigMap",
            "2: kind: ConfigMap is no Custom*`manifests:`*",
        ),
        ("crd.yaml", "apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1", "1: apiVersion: *is not served*"),
        ("crd.yaml", "things.example.com", "thing.example.com", "3: metadata.name: *Write things.example.com*"),
        ("crd.yaml", "scope: Namespaced", "scope: Namespace", "7: spec.scope: *Did you mean Namespaced*"),
        ("crd.yaml", "plural: things", "plurals: things", "6: spec.names.plural: missing*Did you mean plurals*"),
        ("crd.yaml", "storage: true", "storage: false", "8: spec.versions: none is stored*"),
        ("crd.yaml", "schema: {open", "schema: {Open", "12: spec.versions[[]0].schema.openAPIV3Schema: missing*"),
        ("hook.yaml", "Validating", "Validate", "2: kind: *Did you mean ValidatingWebhookConfiguration*"),
        ("hook.yaml", "sideEffects", "sideEffect", "5: webhooks[[]0].sideEffects: missing*Did you mean sideEffect*"),
        ("hook.yaml", "Effects: None", "Effects: Nothing", "7: webhooks[[]0].sideEffects: 'Nothing'*Use: None, None*"),
        (
            "hook.yaml",
            "{webhook_port}",
            "{webhok_port}",
            "6: webhooks[[]0].clientConfig.url: *mean webhook_port*",
        ),
        ("hook.yaml", "[CREATE]", "[CREATED]", "10: webhooks[[]0].rules[[]0].operations[[]0]: *Did you mean CREATE*"),
        ("hook.yaml", "name: things.example.com", "name: things", "5: webhooks[[]0].name: *three parts*"),
        ("role.yaml", "verbs: [list, watch]", "verbs: []", "7: rules[[]0].verbs: a rule needs one verb or more*"),
        ("role.yaml", "verbs:", "verb:", "7: rules[[]0].verb: unknown field*Did you mean verbs*"),
        ("role.yaml", "apiGroups: [example.com]", "resourceNames: [a]", "5: rules[[]0].apiGroups: missing*"),
        ("role.yaml", "verbs: [", "nonResourceURLs: [/a]\n    verbs: [", "7: rules[[]0].nonResourceURLs: cannot be*"),
        ("role.yaml", "kind: ClusterRole", "kind: ClusterRol", "1: kind: ClusterRol grants nothing*"),
    ],
)
def test_what_an_api_server_would_refuse_is_reported_with_its_line(
    tmp_path: Path, file: str, old: str, new: str, message: str
) -> None:
    files = {"crd.yaml": CRD, "hook.yaml": WEBHOOK, "role.yaml": ROLE}
    assert old in files[file]
    for name, text in files.items():
        (tmp_path / name).write_text(text.replace(old, new, 1) if name == file else text)
    with pytest.raises(DefinitionError) as raised:
        load(str(write(tmp_path, NAMING)))
    text = str(raised.value)
    assert fnmatch.fnmatchcase(text, f"{tmp_path}/{file}:{message}"), text
