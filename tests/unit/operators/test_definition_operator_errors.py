"""Every mistake in an operator definition is told with its file, line and path, before anything starts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import DefinitionError, UsageError
from pytest_grovescale.operator.definition import load
from tests.golden import masked

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
    ("old", "new", "line", "place"),
    [
        ("name: sample", "name: Sample_1", 1, "name"),
        ("name: sample\n", "", 1, "name"),
        ("metrics:\n", "metricks:\n", 12, "metricks"),
        ("metrics:\n  url: http://127.0.0.1:{metrics_port}/metrics", "metrics: [a]", 12, "metrics"),
        ("  timeout: 5s", "  timeot: 5s", 11, "readiness.timeot"),
        ("  timeout: 5s", "  timeout: soon", 11, "readiness.timeout"),
        ("  timeout: 5s", "  log: started", 9, "readiness"),
        ("  url: http://127.0.0.1:{health_port}/readyz\n", "", 9, "readiness"),
        ("url: http://127.0.0.1:{health_port}/readyz", "log: 'started ('", 10, "readiness.log"),
        ("url: http://127.0.0.1:{health_port}/readyz", "log: a\n  token: true", 11, "readiness.token"),
        ("  LEVEL: debug", "  LEVEL: 3", 8, "env.LEVEL"),
        ("  LEVEL: debug", "  LEVEL: '{levl}'\n", 8, "env.LEVEL"),
        ("  LEVEL: debug", "  LEVEL: {metrics_port}\n", 8, "env.LEVEL"),
        ("env:\n  LEVEL: debug", "env:\n- {name: LEVEL, value: debug}", 7, "env"),
        ('"{metrics_port}"]', '"{metric_port}"]', 2, "command[6]"),
        ('--metrics, "{metrics_port}"]', "]", 13, "metrics.url"),
        ("http://127.0.0.1:{metrics_port}", "127.0.0.1:{metrics_port}", 13, "metrics.url"),
        ("http://127.0.0.1:{metrics_port}", "http://127.0.0.1:808080", 13, "metrics.url"),
        ("default: fast", "default: quick", 4, "values.variant.default"),
        ("  workers: 4", "  python: 4", 5, "values.python"),
        ("  defect: []", "  defect: []\n  defect: [a]", 7, "values.defect"),
        ("-m, sample", "-m, '{defect}'", 2, "command[2]"),
        ("-m, sample", "{for: workers, arguments: [x]}", 2, "command[1].for"),
        ("-m, sample", "{for: defekt, arguments: [x]}", 2, "command[1].for"),
        ("    verbs:", "    verb:", 17, "rbac[0].verb"),
        ("[list, watch]", "[list, wathc]", 17, "rbac[0].verbs[1]"),
        ("  timeout: 5s", "  ca_file: ca.crt", 11, "readiness.ca_file"),
        ("http://127.0.0.1:{metrics_port}/metrics", "http://192.0.2.1/metrics\n  token: true", 14, "metrics.token"),
        ("rbac:\n", "crds: [missing]\nrbac:\n", 14, "crds[0]"),
        ("rbac:\n", "limits: {memory: lots}\nrbac:\n", 14, "limits.memory"),
        ("rbac:\n", "limits: {cores: 0}\nrbac:\n", 14, "limits.cores"),
        ("rbac:\n", "files: {../x: y}\nrbac:\n", 14, "files.../x"),
        ("rbac:\n", "files: {token: y}\nrbac:\n", 14, "files.token"),
        ("rbac:\n", "webhooks: [hooks.yaml]\nrbac:\n", 14, "webhooks"),
        ("rbac:\n", "start: sometimes\nrbac:\n", 14, "start"),
        ("rbac:\n", "reconciles: {counter: 'runs total'}\nrbac:\n", 14, "reconciles.counter"),
        ("metrics:\n  url: http://127.0.0.1:{metrics_port}/metrics\n", "reconciles: {counter: a}\n", 12, "reconciles"),
        ("  LEVEL: debug", "  ? [1]\n  : debug", 8, "env"),
        ("env:", "env: &env\n  SAME: *env\nother:", 1, ""),
        ("default: fast", "default: fast, help: one, two", 4, "values.variant.two"),
        ("  LEVEL: debug", "  {A: one, two}", 8, "env.two"),
        ("rbac:\n", "webhook_port: 94430\nrbac:\n", 14, "webhook_port"),
        ("rbac:\n", "trigger: {kind: Pod, annotation: not a name}\nrbac:\n", 14, "trigger.annotation"),
        ("rbac:\n", "trigger: {kind: Pod, label: 'a/b/c'}\nrbac:\n", 14, "trigger.label"),
        ("rbac:\n", "identity: {namespace: Mine}\nrbac:\n", 14, "identity.namespace"),
        ("rbac:\n", "replaces: [job-controler]\nrbac:\n", 14, "replaces[0]"),
        ("rbac:\n", "profiler: pysp\nrbac:\n", 14, "profiler"),
        ("rbac:\n", "build: go build\nrbac:\n", 14, "build"),
        ("rbac:\n", "limits: 512Mi\nrbac:\n", 14, "limits"),
        ("rbac:\n", "webhook_port: many\nrbac:\n", 14, "webhook_port"),
    ],
)
def test_mistake(tmp_path: Path, old: str, new: str, line: int, place: str, snapshot: SnapshotAssertion) -> None:
    said = refused(tmp_path, old, new)
    assert said.startswith(f"{tmp_path}/sample.yaml:{line}: {place}")
    assert masked(said, {tmp_path: "folder"}) == snapshot


def test_what_is_nested_too_deeply_is_a_mistake_too(tmp_path: Path) -> None:
    """PyYAML from 6.0.4 on says so itself, with the line; before, Python's own limit was met."""
    said = refused(tmp_path, "  LEVEL: debug", f"  LEVEL: {'[' * 3000}{']' * 3000}")
    assert re.match(rf"{re.escape(str(tmp_path))}/sample\.yaml:[18]: .*nest", said)


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        pytest.param("readiness:\n", "readiness: [\n", 10, "not YAML: ", id="not YAML"),
        pytest.param("readiness:\n", "\treadiness:\n", 9, "not YAML: ", id="tab"),
        pytest.param("  LEVEL: debug", "  LEVEL: !env debug", 8, "could not determine", id="tag"),
        pytest.param("  LEVEL: debug", "  LEVEL: !!timestamp debug", 1, "AttributeError: ", id="no time"),
        pytest.param("  LEVEL: debug", "  LEVEL: 2026-13-01", 1, "month must be", id="no date"),
    ],
)
def test_mistake_that_the_reader_of_yaml_finds(
    tmp_path: Path, old: str, new: str, line: int, reason: str, snapshot: SnapshotAssertion
) -> None:
    """Its words are another's: the file, the line and what to do are ours."""
    said = refused(tmp_path, old, new)
    assert said.startswith(f"{tmp_path}/sample.yaml:{line}: ")
    message, _, step = said.partition("\n  → ")
    ours, found, _ = message.partition(reason)
    assert found
    assert masked(f"{ours}{found}… → {step}", {tmp_path: "folder"}) == snapshot


def refused(folder: Path, old: str, new: str) -> str:
    """Return what is said of the good definition with something else in it."""
    assert old in GOOD
    with pytest.raises(DefinitionError) as raised:
        load(str(write(folder, GOOD.replace(old, new, 1))))
    return str(raised.value)


def test_all_mistakes_are_reported_at_once(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    wrong = {"name:": "nam:", "timeout:": "timeot:", "debug": "3", "verbs:": "verb:", "[pods]": "pods"}
    text = GOOD
    for old, new in wrong.items():
        text = text.replace(old, new, 1)
    with pytest.raises(DefinitionError) as raised:
        load(str(write(tmp_path, text)))
    messages = [error.message.removeprefix(f"{tmp_path}/sample.yaml:") for error in raised.value.parts]
    assert [message.rpartition(": ")[0] for message in messages] == [
        "1: nam",
        "8: env.LEVEL",
        "11: readiness.timeot",
        "16: rbac[0].resources",
        "17: rbac[0].verb",
    ]
    assert "\n".join(messages) == snapshot


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
    ("old", "new", "line", "place"),
    [
        ("name: gateway", "name: Gateway", 19, "targets[0].name"),
        ("name: gateway", "name: operator", 19, "targets[0].name"),
        ("name: sidecar", "name: gateway", 23, "targets[1].name"),
        ("    url: https://127.0.0.1:9443/metrics\n", "", 19, "targets[0]"),
        ("    url: ", "    pods: {selector: a, port: 1}\n    url: ", 20, "targets[0].pods"),
        ("url: https:", "url: http:", 21, "targets[0].cert_file"),
        ("url: https://127.0.0.1:9443", "url: 127.0.0.1", 20, "targets[0].url"),
        ("cert_file: reader.crt", "cert_file: writer.crt", 21, "targets[0].cert_file"),
        ("    cert_file: reader.crt\n", "", 21, "targets[0].key_file"),
        ("{directory}/r", "{directoy}/r", 22, "targets[0].key_file"),
        (", via: ip", "", 25, "targets[1].token_file"),
        ("token_file: token", "ca_file: token", 25, "targets[1].ca_file"),
        ("token_file: token", "token_file: token\n    token: true", 25, "targets[1].token_file"),
        ("{variant}-m", "{varaint}-m", 24, "targets[1].service.name"),
        ("port: https,", "", 24, "targets[1].service.port"),
        ("port: 8080", "port: 0", 27, "targets[2].pods.port"),
        ("port: 8080", "port: 8080, path: metrics", 27, "targets[2].pods.path"),
        ("interval: 10s", "interval: often", 28, "targets[2].interval"),
        ("metrics:\n", "metrics:\n  service: {name: a, port: 1}\n", 13, "metrics.service"),
        ("  url: http://127.0.0.1:{metrics_port}/metrics\n", "  interval: 5s\n", 12, "metrics"),
    ],
)  # fmt: skip
def test_mistakes_of_targets(
    tmp_path: Path, old: str, new: str, line: int, place: str, snapshot: SnapshotAssertion
) -> None:
    text = GOOD + TARGETS
    if "ca_file: token" in new:
        text = text.replace("scheme: https, ", "")
    assert old in text
    path = write(with_files(tmp_path), text.replace(old, new, 1))
    with pytest.raises(DefinitionError) as raised:
        load(str(path))
    assert raised.value.message.startswith(f"{path}:{line}: {place}: "), raised.value.message
    assert masked(str(raised.value), {tmp_path: "folder"}) == snapshot


def test_empty_file_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="is empty") as raised:
        load(str(write(tmp_path, "")))
    assert "It needs name" in raised.value.next_step


def test_missing_file_names_the_bundled_ones(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="nothing-like-it") as raised:
        load("nothing-like-it", base=tmp_path)
    assert "reference," in raised.value.next_step


def test_wrong_manifest_is_found_at_loading(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "crd.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n")
    path = write(tmp_path, GOOD + "crds: [crd.yaml]\n")
    with pytest.raises(DefinitionError) as caught:
        load(str(path))
    assert masked(str(caught.value), {tmp_path: "folder"}) == snapshot
    assert "crd.yaml:1: metadata.name" in caught.value.message


@pytest.mark.parametrize(
    ("values", "name"),
    [({"varaint": "slow"}, "'varaint'"), ({"variant": "quick"}, "'quick'"), ({"LEVEL": "info"}, "'LEVEL'")],
)
def test_wrong_values(tmp_path: Path, values: dict[str, str], name: str, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(UsageError) as raised:
        load(str(write(tmp_path, GOOD)), values=values)
    assert name in raised.value.message
    assert masked(str(raised.value), {tmp_path: "folder"}) == snapshot


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
    assert load(str(write(tmp_path, NAMING))).rbac == [str(tmp_path / "role.yaml")]


@pytest.mark.parametrize(
    ("file", "old", "new", "at"),
    [
        ("crd.yaml", "kind: CustomResourceDefinition", "kind: CustomResourceDefinitions", "2: kind"),
        ("crd.yaml", "apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1", "1: apiVersion"),
        ("crd.yaml", "things.example.com", "thing.example.com", "3: metadata.name"),
        ("crd.yaml", "scope: Namespaced", "scope: Namespace", "7: spec.scope"),
        ("crd.yaml", "plural: things", "plurals: things", "6: spec.names.plural"),
        ("crd.yaml", "storage: true", "storage: false", "8: spec.versions"),
        ("crd.yaml", "versions:", "versions: []\n  further:", "8: spec.versions"),
        ("crd.yaml", "schema: {open", "schema: {Open", "12: spec.versions[0].schema.openAPIV3Schema"),
        ("hook.yaml", "Validating", "Validate", "2: kind"),
        ("hook.yaml", "sideEffects", "sideEffect", "5: webhooks[0].sideEffects"),
        ("hook.yaml", "Effects: None", "Effects: Nothing", "7: webhooks[0].sideEffects"),
        ("hook.yaml", "{webhook_port}", "{webhok_port}", "6: webhooks[0].clientConfig.url"),
        ("hook.yaml", "[CREATE]", "[CREATED]", "10: webhooks[0].rules[0].operations[0]"),
        ("hook.yaml", "name: things.example.com", "name: things", "5: webhooks[0].name"),
        ("role.yaml", "verbs: [list, watch]", "verbs: []", "7: rules[0].verbs"),
        ("role.yaml", "verbs:", "verb:", "7: rules[0].verb"),
        ("role.yaml", "apiGroups: [example.com]", "resourceNames: [a]", "5: rules[0].apiGroups"),
        ("role.yaml", "verbs: [", "nonResourceURLs: [/a]\n    verbs: [", "7: rules[0].nonResourceURLs"),
        ("role.yaml", "kind: ClusterRole", "kind: ClusterRol", "2: kind"),
    ],
)
def test_what_an_api_server_would_refuse_is_reported_with_its_line(
    tmp_path: Path, file: str, old: str, new: str, at: str, snapshot: SnapshotAssertion
) -> None:
    files = {"crd.yaml": CRD, "hook.yaml": WEBHOOK, "role.yaml": ROLE}
    assert old in files[file]
    for name, text in files.items():
        (tmp_path / name).write_text(text.replace(old, new, 1) if name == file else text)
    with pytest.raises(DefinitionError) as raised:
        load(str(write(tmp_path, NAMING)))
    text = str(raised.value)
    assert text.startswith(f"{tmp_path}/{file}:{at}: "), text
    assert masked(text, {tmp_path: "folder"}) == snapshot


def test_a_misspelt_kind_to_trigger(tmp_path: Path) -> None:
    crd = tmp_path / "crd.yaml"
    crd.write_text(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gadgets.example.com}\n"
        "spec: {group: example.com, names: {kind: Gadget, plural: gadgets}, scope: Namespaced, "
        "versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n"
    )
    definition = f"{GOOD}crds: [{crd}]\ntrigger:\n  kind: "
    with pytest.raises(DefinitionError, match=r"sample\.yaml:20: .*Gadgit.*\n.*Gadget"):
        load(str(write(tmp_path, f"{definition}Gadgit\n")))
    for kind in ("Gadget", "Deployment"):
        trigger = load(str(write(tmp_path, f"{definition}{kind}\n"))).trigger
        assert trigger is not None
        assert trigger.kind == kind
