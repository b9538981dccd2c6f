"""Files, folders, kustomize folders and charts of an operator's objects: which field takes what, and every mistake."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cli import main
from pytest_grovescale.errors import DefinitionError
from pytest_grovescale.operator import identity
from pytest_grovescale.operator.definition import OperatorDefinition, load
from pytest_grovescale.operator.manifests import Manifest, title
from pytest_grovescale.workload.template import render
from tests.golden import masked

PROJECT = Path(__file__).parents[2] / "data/kubebuilder"
CONFIG = PROJECT / "config"
EXAMPLES = Path(__file__).parents[3] / "examples"
SHOP = ("shop-system", "shop-controller-manager")
DEFINITION = """\
name: shop
command: [shop]
readiness: {url: "http://127.0.0.1:{health_port}/readyz"}
files: {port: "{health_port} {webhook_port}"}
"""


def load_with(folder: Path, *lines: str) -> OperatorDefinition:
    path = folder / "shop.yaml"
    path.write_text(DEFINITION + "".join(f"{line}\n" for line in lines))
    return load(str(path))


def refused(folder: Path, *lines: str) -> str:
    with pytest.raises(DefinitionError) as raised:
        load_with(folder, *lines)
    return str(raised.value)


def titles(found: Sequence[Manifest]) -> list[str]:
    return [title(one.object) for one in found]


@pytest.mark.parametrize(
    ("example", "parameters"),
    [("jobset", {"jobs": 1, "pods": 1, "run_time": "1h"}), ("leaderworkerset", {"size": 2})],
)
def test_the_examples_of_other_operators_are_definitions(
    example: str, parameters: dict[str, str | int], tmp_path: Path
) -> None:
    """With kubebuilder's ``config/default``, as those have one: their own sources are not here."""
    shutil.copytree(CONFIG, tmp_path / "config")
    scale = shutil.copytree(EXAMPLES / example, tmp_path / "tests/scale")
    assert main(["check", str(scale / "operator.yaml")]) == 0
    definition = load(str(scale / "operator.yaml"))
    assert definition.installation.webhooks
    (workload,) = (scale / "workloads").iterdir()
    assert len(render(str(workload), {"objects": 2, **parameters}, namespace="t", run_id="r").objects) == 2


def test_kubebuilder_project_loads_unchanged(capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    file = PROJECT / "operator.yaml"
    shop = load(str(file))
    assert (shop.identity.namespace, shop.service_account) == SHOP
    assert titles(shop.installation.crds) == ["CustomResourceDefinition orders.example.com"]
    assert titles(shop.installation.webhooks) == [
        "ValidatingWebhookConfiguration shop-validating-webhook-configuration"
    ]
    assert {one.object["kind"] for one in shop.installation.manifests} == {"Namespace", "Service"}
    assert titles(identity.account(shop)) == [
        "Namespace shop-system",
        f"ServiceAccount {'/'.join(SHOP)}",
    ]
    assert main(["check", "-v", str(file)]) == 0
    assert masked(capsys.readouterr().out, {PROJECT: "project"}) == snapshot


def test_rights_are_those_of_the_bindings() -> None:
    """The leader's Role in its namespace, a role that the cluster has, and none that is there for people."""
    objects = [one.object for one in load(str(PROJECT / "operator.yaml")).installation.rbac]
    bindings = [obj for obj in objects if obj["kind"].endswith("Binding")]
    assert [(obj["kind"], obj["metadata"].get("namespace"), obj["roleRef"]["name"]) for obj in bindings] == [
        ("RoleBinding", "shop-system", "grovescale-shop"),
        ("ClusterRoleBinding", None, "grovescale-shop-1"),
        ("ClusterRoleBinding", None, "system:auth-delegator"),
    ]
    assert {resource for obj in objects for rule in obj.get("rules", ()) for resource in rule["resources"]} == {
        "configmaps",
        "leases",
        "orders",
    }


def test_all_is_used_by_an_operator_in_pods(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(f"name: shop\ncrds: {CONFIG}/default\npod: {{manifests: {CONFIG}/default}}\n")
    shop = load(str(file))
    assert (shop.identity.namespace, shop.service_account) == SHOP
    assert f"Deployment {'/'.join(SHOP)}" in titles(shop.installation.manifests)
    assert shop.installation.left_out == []


def test_one_file_with_several_kinds_does(tmp_path: Path) -> None:
    parts = [CONFIG / name for name in ("crd/bases/example.com_orders.yaml", "rbac/role.yaml", "manager/manager.yaml")]
    (tmp_path / "all.yaml").write_text("---\n".join(part.read_text() for part in parts))
    shop = load_with(tmp_path, "crds: [all.yaml]", "rbac: all.yaml", "manifests: all.yaml")
    assert shop.user == "system:serviceaccount:grovescale-operator:shop"
    assert titles(shop.installation.rbac) == ["ClusterRole grovescale-shop", "ClusterRoleBinding grovescale-shop"]
    assert titles(shop.installation.manifests) == ["Namespace system"]
    assert [one.partition(" (")[0] for one in shop.installation.left_out] == ["Deployment system/controller-manager"]


def test_rules_beside_files(tmp_path: Path) -> None:
    rule = "{apiGroups: [''], resources: [nodes], verbs: [get]}"
    shop = load_with(tmp_path, f"rbac: [{rule}, {CONFIG}/rbac/role.yaml]")
    assert titles(shop.installation.rbac)[::2] == ["ClusterRole grovescale-shop", "ClusterRole grovescale-shop-1"]
    assert shop.installation.rbac[0].object["rules"][0]["resources"] == ["nodes"]


TWO_ACCOUNTS = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: all, labels: {part: "yes"}}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: sum}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {part: "yes"}}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: first}
roleRef: {kind: ClusterRole, name: all}
subjects: [{kind: ServiceAccount, name: first, namespace: one}, {kind: Group, name: people}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: second, namespace: elsewhere}
roleRef: {kind: ClusterRole, name: sum}
subjects: [{kind: ServiceAccount, name: second, namespace: two}]
"""


def test_of_several_accounts_one_has_to_be_named(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "two.yaml").write_text(TWO_ACCOUNTS)
    said = refused(tmp_path, "rbac: two.yaml")
    assert f"{tmp_path}/shop.yaml:5: rbac: " in said
    assert "one/first, two/second" in said
    assert masked(said, {tmp_path: "folder"}) == snapshot
    second = load_with(tmp_path, "rbac: two.yaml", "identity: {service_account: second}")
    assert second.user == "system:serviceaccount:two:second"
    role, binding = (one.object for one in second.installation.rbac)
    assert (role["kind"], role["metadata"]["namespace"]) == ("Role", "elsewhere")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "second", "namespace": "two"}]
    assert [one.object["metadata"]["name"] for one in identity.account(second)] == ["two", "elsewhere", "second"]


def test_an_identity_of_its_own_gets_what_the_bindings_give(tmp_path: Path) -> None:
    shop = load_with(tmp_path, f"rbac: {CONFIG}/rbac", "identity: {namespace: mine, service_account: me}")
    assert shop.user == "system:serviceaccount:mine:me"
    assert {one.object["subjects"][0]["namespace"] for one in shop.installation.rbac[1::2]} == {"mine"}


CHART = "apiVersion: v2\nname: shop\nversion: 1.0.0\n"


@pytest.mark.parametrize(
    ("line", "place", "reason"),
    [
        pytest.param("crds: empty", "shop.yaml:5: crds: ", "empty has no *.yaml", id="empty folder"),
        pytest.param("crds: [{config}]", "shop.yaml:5: crds[0]: ", "config has no *.yaml", id="folder of folders"),
        pytest.param("crds: [nowhere]", "shop.yaml:5: crds[0]: ", "no such file or folder", id="no folder"),
        pytest.param("crds: void.yaml", "shop.yaml:5: crds: ", "void.yaml has no object", id="no object"),
        pytest.param("crds: {config}/rbac", "shop.yaml:5: crds: ", "has 2 × ClusterRole, 2 ×", id="other kinds"),
        pytest.param("webhooks: {config}/rbac", "shop.yaml:5: webhooks: ", "that webhooks takes", id="no webhook"),
        pytest.param("rbac: {config}/crd", "shop.yaml:5: rbac: ", "has CustomResourceDefinition,", id="no role"),
        pytest.param("manifests: {config}/rbac", "shop.yaml:5: manifests: ", "that manifests takes", id="no other"),
        pytest.param("manifests: broken", "broken/b.yaml:3: ", "not YAML: ", id="no YAML"),
        pytest.param("manifests: lost", "lost/kustomization.yaml:1: ", "kustomize: ", id="no kustomization"),
        pytest.param("crds: chart", "shop.yaml:5: crds: ", "and helm is not installed", id="no helm"),
        pytest.param("crds: chart/Chart.yaml", "shop.yaml:5: crds: ", "and helm is not installed", id="chart file"),
        pytest.param(
            "chart_values: {a: 1}", "shop.yaml:5: chart_values: ", "no Helm chart", id="values without a chart"
        ),
        pytest.param("chart_values: list.yaml", "list.yaml:1: ", "is no mapping", id="values that are no mapping"),
        pytest.param("crds: chart.tgz", "shop.yaml:5: crds: ", "and helm is not installed", id="chart archive"),
    ],
)
def test_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, place: str, reason: str, snapshot: SnapshotAssertion
) -> None:
    if (helm := shutil.which("helm")) is not None:
        folders = [part for part in os.environ["PATH"].split(os.pathsep) if part != str(Path(helm).parent)]
        monkeypatch.setenv("PATH", os.pathsep.join(folders))
    for folder in ("empty", "broken", "lost", "chart"):
        (tmp_path / folder).mkdir()
    (tmp_path / "void.yaml").write_text("---\n")
    (tmp_path / "broken/a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    (tmp_path / "broken/b.yaml").write_text("apiVersion: v1\nkind: [\n")
    (tmp_path / "lost/kustomization.yaml").write_text("resources: [nowhere.yaml]\n")
    (tmp_path / "chart/Chart.yaml").write_text(CHART)
    (tmp_path / "chart.tgz").write_bytes(b"")
    (tmp_path / "list.yaml").write_text("[a]\n")
    said = refused(tmp_path, line.replace("{config}", str(CONFIG)))
    assert f"{tmp_path}/{place}" in said
    assert reason in said
    # The words behind it are the YAML reader's, or kustomize's.
    ours = said if "kustomize: " not in said and "not YAML" not in said else said.partition(reason)[0] + reason
    assert masked(ours, {tmp_path: "folder", CONFIG: "config"}) == snapshot


def test_kustomization_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "lost").mkdir()
    (tmp_path / "lost/kustomization.yaml").write_text("resources: [nowhere.yaml]\n")
    said = refused(tmp_path, "manifests: lost")
    assert "nowhere.yaml" in said
    assert f"See: {Path(said.rpartition('See: ')[2].split(' ')[0])} " in said
    assert said.endswith(f" {tmp_path}/lost")


def test_one_mistake_of_a_file_that_several_fields_name_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text("kind: Secret\n")
    said = refused(tmp_path, "crds: all.yaml", "rbac: all.yaml", "manifests: [all.yaml]")
    assert said == f"{tmp_path}/all.yaml:1: apiVersion: missing"


def test_kustomization_without_a_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [nowhere.yaml]\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("GROVESCALE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    said = refused(tmp_path, "crds: [.]")
    assert f"{tmp_path}/kustomization.yaml:1: " in said
    assert masked(said.rpartition("\n")[2], {tmp_path: "folder"}) == snapshot


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")
def test_chart_is_rendered_for_its_release(tmp_path: Path) -> None:
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "crds").mkdir()
    (chart / "Chart.yaml").write_text(CHART)
    shutil.copy(CONFIG / "crd/bases/example.com_orders.yaml", chart / "crds")
    (chart / "templates/rbac.yaml").write_text(
        TWO_ACCOUNTS.partition("---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding")[0].replace(
            "namespace: one", "namespace: {{ .Release.Namespace }}"
        )
    )
    (chart / "templates/settings.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"
        "data: {a: '{{ .Values.a }}', b: '{{ .Values.b }}'}\n"
    )
    (chart / "values.yaml").write_text("a: its\nb: its\n")
    (tmp_path / "own.yaml").write_text("b: ours\n")
    for values in ("{b: ours}", "own.yaml"):
        shop = load_with(tmp_path, "crds: chart", "rbac: chart", "manifests: chart", f"chart_values: {values}")
        assert shop.installation.manifests[0].object["data"] == {"a": "its", "b": "ours"}
    assert shop.user == "system:serviceaccount:grovescale-operator:first"
    assert titles(shop.installation.crds) == ["CustomResourceDefinition orders.example.com"]
