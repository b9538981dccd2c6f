"""``grovescale init``: the files that fit a project, and that none of its own is changed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import cli
from pytest_grovescale.errors import DefinitionError, ExitCode
from pytest_grovescale.operator import definition
from pytest_grovescale.scaffold import facts, files
from pytest_grovescale.scaffold.files import File, Plan
from pytest_grovescale.scaffold.first_test import owned_kinds
from pytest_grovescale.scaffold.program import Program
from pytest_grovescale.workload import template
from tests.golden import masked

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ("go-operator", "kopf-operator")

CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  names: {kind: Gadget, plural: gadgets}
  scope: SCOPE
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}, status: {type: object}}}}
"""
MAIN = """\
package main

func main() {
	flag.StringVar(&metricsAddr, "metrics-addr", ":8080", "where metrics are served")
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
}
"""


def plan(more: dict[str, str], *, scope: str = "Namespaced") -> Plan:
    """Return the plan for a small project, with further files or other content of its own."""
    return files.plan(facts.of("gadgets", {"main.go": MAIN, "crd.yaml": CRD.replace("SCOPE", scope), **more}))


def text(made: Plan, name: str) -> str:
    (found,) = [file.text for file in made.files if file.path.endswith(name)]
    return found


def definition_of(made: Plan) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text(made, "operator.yaml"))
    return found


def copied(example: str, folder: Path) -> Path:
    target = folder / example
    shutil.copytree(ROOT / "examples" / example, target)
    return target


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_files_of_an_example(example: str, snapshot: SnapshotAssertion) -> None:
    made = files.plan(facts.read(ROOT / "examples" / example))
    assert {file.path: file.text for file in made.files} == snapshot
    assert files.described(made.files) == snapshot


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_tutorial_shows_what_is_written(example: str) -> None:
    tutorial = (ROOT / "docs/your-operator.md").read_text(encoding="utf-8")
    definition_text = text(files.plan(facts.read(ROOT / "examples" / example)), "operator.yaml")
    assert definition_text.partition("\n")[2] in tutorial
    test = text(files.plan(facts.read(ROOT / "examples/go-operator")), "test_websites.py")
    assert test[test.index("@pytest") :] in tutorial


@pytest.mark.parametrize("example", EXAMPLES)
def test_what_is_written_is_valid_and_stays(
    example: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    project = copied(example, tmp_path)
    assert cli.main(["init", str(project)]) == ExitCode.PASSED
    assert capsys.readouterr().out == snapshot
    written = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    operator = definition.load(str(project / files.FOLDER / "operator.yaml"))
    assert operator.trigger is not None
    (workload,) = (project / files.FOLDER / "workloads").iterdir()
    rendered = template.render(str(workload), {"objects": 3}, namespace="a", run_id="b")
    assert [obj["kind"] for obj in rendered.objects] == [operator.trigger.kind] * 3
    # A second time, nothing changes.
    assert cli.main(["init", str(project)]) == ExitCode.PASSED
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == written


def test_a_dry_run_shows_the_files_and_writes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = copied("kopf-operator", tmp_path)
    before = sorted(project.rglob("*"))
    assert cli.main(["init", "--dry-run", str(project)]) == ExitCode.PASSED
    assert sorted(project.rglob("*")) == before
    out = capsys.readouterr().out
    assert f"{files.FOLDER}/operator.yaml" in out
    assert "trigger: {kind: Team," in out


def test_files_that_are_there_are_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = copied("kopf-operator", tmp_path)
    (project / ".github/workflows").mkdir(parents=True)
    mine = {files.WORKFLOW: "name: mine\n", ".gitignore": "*.pyc"}
    for name, content in mine.items():
        (project / name).write_text(content)
    assert cli.main(["init", str(project)]) == ExitCode.PASSED
    assert (project / files.WORKFLOW).read_text() == mine[files.WORKFLOW]
    assert (project / ".gitignore").read_text().splitlines() == ["*.pyc", "/reports/"]


@pytest.mark.parametrize(
    "content",
    [
        {"main.go": MAIN},
        {"crd.yaml": CRD.replace("SCOPE", "Namespaced")},
        {"PROJECT": "resources: [{kind: Gadget, controller: true}]", "main.go": MAIN},
        {"crd.yaml": CRD.replace("storage: true", "storage: false"), "main.go": MAIN},
        {"crd.yaml": CRD.replace("SCOPE", "Namespaced"), "package.json": "{}"},
        {"Cargo.toml": '[package]\nname = "a"\n', "src/main.rs": "#[derive(CustomResource)]\n"},
        {"crd.yaml": CRD.replace("spec:\n", "spec:\n\t", 1), "main.go": MAIN},
    ],
    ids=["no-crd", "no-program", "not-generated", "none-stored", "not-started", "derived", "no-yaml"],
)
def test_a_folder_that_lacks_something_gets_the_next_step(content: dict[str, str], snapshot: SnapshotAssertion) -> None:
    with pytest.raises(DefinitionError) as refused:
        files.plan(facts.of("gadgets", content))
    assert str(refused.value) == snapshot
    assert refused.value.next_step


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["init", str(tmp_path / "nowhere")]) == ExitCode.USAGE
    assert "nowhere" in capsys.readouterr().err


def test_an_operator_without_a_role_may_do_anything_and_that_is_a_guess() -> None:
    made = plan({})
    assert "resources: ['*']" in text(made, "operator.yaml")
    assert any("rights" in line for line in files.described(made.files))


JOSDK = (
    "package a;\nimport io.javaoperatorsdk.operator.Operator;\n{}\n"
    "class Main {{ public static void main(String[] a) {{ new Operator(); }} }}\n"
)


@pytest.mark.parametrize(
    ("file", "source", "is_guess"),
    [
        ("c.go", "package main\nvar p = predicate.GenerationChangedPredicate{}\n", True),
        ("c.go", "package main\n", False),
        ("src/main/java/a/Main.java", JOSDK.format("@ControllerConfiguration"), True),
        (
            "src/main/java/a/Main.java",
            JOSDK.format("@ControllerConfiguration(generationAwareEventProcessing = false)"),
            False,
        ),
    ],
)
def test_a_trigger_that_may_not_reach_the_operator_is_a_guess(file: str, source: str, is_guess: bool) -> None:
    main = {} if file.endswith(".go") else {"main.go": "", "pom.xml": "<project/>"}
    test = text(plan({file: source, **main}), "test_gadgets.py")
    assert ("# guess: the" in test.partition('phase("steady-state"')[2].partition("trigger_reconcile")[0]) == is_guess


def test_rights_are_those_of_the_service_account_that_the_bindings_name() -> None:
    roles = "\n---\n".join(
        f"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: {name}}}\n"
        f"rules: [{{apiGroups: [{group}], resources: ['*'], verbs: ['*']}}]"
        for name, group in (("gadget-editor-role", "example.com"), ("a-manager", "example.com"))
    )
    binding = (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: manager}\n"
        "roleRef: {kind: ClusterRole, name: a-manager}\nsubjects: [{kind: ServiceAccount, name: m, namespace: s}]\n"
    )
    made = plan({"deploy/roles.yaml": roles, "deploy/binding.yaml": binding})
    assert definition_of(made)["rbac"] == ["../../deploy/roles.yaml", "../../deploy/binding.yaml"]
    assert not [line for line in files.described(made.files) if "operator.yaml" in line]


def test_a_tool_beside_the_operator_has_fewer_rights() -> None:
    def rights(name: str, rules: str) -> str:
        return (
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n"
            f"metadata: {{name: {name}}}\nrules: [{rules}]\n"
            f"---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: {name}}}\n"
            f"roleRef: {{kind: ClusterRole, name: {name}}}\n"
            f"subjects: [{{kind: ServiceAccount, name: {name}, namespace: s}}]\n"
        )

    own = "{apiGroups: [example.com], resources: ['*'], verbs: ['*']}"
    pods = "{apiGroups: [''], resources: [pods], verbs: ['*']}"
    made = plan({"cmd/importer/deps.yaml": rights("importer", own), "deploy/rbac.yaml": rights("m", f"{own}, {pods}")})
    assert definition_of(made)["rbac"] == "../../deploy/rbac.yaml"
    account = DEPLOYMENT.replace("containers:", "serviceAccountName: importer, containers:")
    assert account != DEPLOYMENT
    made = plan(
        {
            "cmd/importer/deps.yaml": rights("importer", own),
            "deploy/rbac.yaml": rights("m", f"{own}, {pods}"),
            "config/manager.yaml": account,
        }
    )
    assert definition_of(made)["rbac"] == "../../cmd/importer/deps.yaml"


def test_rights_come_from_the_markers_where_no_role_is_generated() -> None:
    marker = '// +kubebuilder:rbac:groups=core;"apps",resources=pods;deployments,verbs=get;create\n'
    (rule,) = definition_of(plan({"controller.go": f"package main\n{marker}"}))["rbac"]
    assert rule == {"apiGroups": ["", "apps"], "resources": ["pods", "deployments"], "verbs": ["get", "create"]}


def test_objects_of_a_cluster_are_counted_in_all_namespaces() -> None:
    made = plan({}, scope="Cluster")
    assert 'objects, namespace="*")' in text(made, "test_gadgets.py")
    assert "namespace: {{ namespace }}" not in text(made, "gadget.yaml.j2")


def test_what_is_made_for_objects_of_a_cluster_is_in_namespaces_of_its_own() -> None:
    test = text(plan({"c.go": "package main\nvar a = b.Owns(&batchv1.Job{})\n"}, scope="Cluster"), "test_gadgets.py")
    assert re.search(r'count\("job",.*"\*"\)', test) is not None
    assert re.search(r'count\("pods",.*"\*"\)', test) is not None


@pytest.mark.parametrize(("scope", "counted"), [("Namespaced", True), ("Cluster", False)])
def test_pods_of_a_whole_cluster_that_has_others_are_not_counted(scope: str, counted: bool) -> None:
    role = (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\n"
        "rules:\n- {apiGroups: [example.com, batch], resources: [gadgets, jobs], verbs: [create, watch]}\n"
    )
    bundle = f"{CRD.replace('SCOPE', scope)}---\n{DEPLOYMENT}---\n{role}"
    made = files.plan(facts.of("gadgets", {"install.yaml": bundle}))
    assert ("pods-gone" in text(made, "test_gadgets.py")) is counted


def test_a_sample_is_the_workload_with_what_it_comes_with(snapshot: SnapshotAssertion) -> None:
    sample = (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: key, namespace: x}\nstringData: {a: b}\n---\n"
        "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: one, namespace: x, uid: a}\n"
        "spec: {template: 'hello {{ name }}', secretName: key}\nstatus: {done: true}\n"
    )
    made = plan({"config/samples/gadget.yaml": sample})
    assert text(made, "gadget.yaml.j2") == snapshot


def test_a_workload_of_a_sample_with_braces_renders_as_it_was(tmp_path: Path) -> None:
    sample = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: one}\nspec: {greeting: 'hello {{ name }}'}\n"
    workload = tmp_path / "gadget.yaml.j2"
    workload.write_text(text(plan({"config/samples/gadget.yaml": sample}), "gadget.yaml.j2"))
    rendered = template.render(str(workload), {"objects": 2}, namespace="a", run_id="b")
    assert [obj["spec"]["greeting"] for obj in rendered.objects] == ["hello {{ name }}"] * 2
    assert [obj["metadata"]["name"] for obj in rendered.objects] == ["gadget-0", "gadget-1"]


def test_other_kinds_get_a_workload_and_children_none() -> None:
    others = {
        f"crd-{kind.lower()}.yaml": CRD.replace("gadget", kind.lower())
        .replace("Gadget", kind)
        .replace("SCOPE", "Namespaced")
        for kind in ("Child", "Other")
    }
    head = "apiVersion: example.com/v1\nmetadata: {name: a}\nspec: {}\n"
    samples = {f"config/samples/{kind}.yaml": f"{head}kind: {kind}\n" for kind in ("Child", "Gadget", "Other")}
    source = "package main\nvar _ = builder.For(&v1.Gadget{}).Owns(&v1.Child{})\nvar _ = builder.For(&v1.Other{})\n"
    made = plan({**others, **samples, "setup.go": source})
    workloads = [Path(file.path).name for file in made.files if "workloads" in file.path]
    assert workloads == ["gadget.yaml.j2", "other.yaml.j2"]
    tests = [Path(file.path).name for file in made.files if "/test_" in file.path]
    assert tests == ["test_gadgets.py", "test_others.py"]
    # What PROJECT lists is for users, whoever else makes it.
    source += "var _ = builder.For(&v1.Child{})\n"
    made = plan({**others, **samples, "setup.go": source, "PROJECT": "resources: [{kind: Child, controller: true}]\n"})
    assert made.test.endswith("test_childs.py")


INFORMED = "new InformerEventSource<>(InformerEventSourceConfiguration.from(Child.class, Gadget.class).build(), c);\n"
KUBE_RS = "use kube::Api;\nfn main() { let kids: Api<api::Child> = Api::all(client.clone());\n"


@pytest.mark.parametrize(
    ("source", "owned"),
    [
        (f"{INFORMED} Child child = new Child();", {"Child"}),
        (INFORMED, set()),
        ("class Dependent extends CRUDKubernetesDependentResource<Child, Gadget> {}", {"Child"}),
        (f"{KUBE_RS} Controller::new(gadgets, any).owns(kids.clone(), any); }}", {"Child"}),
        (f"{KUBE_RS} Controller::new(gadgets, any).watches(kids, any, map); }}", set()),
        ("Controller::new(gadgets, any).owns(Api::<v1::Child>::all(client), any);", {"Child"}),
        ("ctrl.NewControllerManagedBy(mgr).For(&v1.Gadget{}).Owns(&v1.Child{})", {"Child"}),
    ],
)
def test_what_is_made_for_others_is_known_by_each_framework(source: str, owned: set[str]) -> None:
    assert owned_kinds(Program(language="go", command=(), text=source)) == owned


def test_what_is_there_for_tests_is_not_the_operators() -> None:
    crd = CRD.replace("gadget", "other").replace("Gadget", "Other").replace("SCOPE", "Namespaced")
    assert definition_of(plan({"test/crd/others.yaml": crd}))["crds"] == ["../../crd.yaml"]


def test_the_sample_that_says_most_is_taken() -> None:
    head = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a}\n"
    empty = {"config/samples/v1_gadget.yaml": f"{head}spec: {{}}\n"}
    assert "spec is empty" in "".join(files.described(plan(empty).files))
    made = plan(
        {**empty, "docs/a.yaml": f"{head}spec: {{size: 1}}\n", "docs/v1_gadget.yaml": f"{head}spec: {{size: 2}}\n"}
    )
    assert "size: 2" in text(made, "gadget.yaml.j2")


def test_objects_of_a_sample_that_selects_its_pods_select_their_own() -> None:
    head = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a}\n"
    labels = "template: {metadata: {labels: {app: web, tier: front}}}"
    selecting = f"{head}spec: {{selector: {{matchLabels: {{app: web}}}}, {labels}}}\n"
    made = text(plan({"samples/a.yaml": selecting}), "gadget.yaml.j2")
    assert made.count('app: {{ name | default("gadget") }}-{{ number }}') == 2
    assert "tier: front" in made
    other = f"{head}spec: {{selector: {{matchLabels: {{app: db}}}}, {labels}}}\n"
    assert "app: db" in text(plan({"samples/a.yaml": other}), "gadget.yaml.j2")


def test_of_two_companions_with_one_name_the_one_beside_the_sample_is_taken() -> None:
    gadget = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a}\nspec: {code: script}\n"
    code = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: script}\ndata: {a: VALUE}\n"
    beside = {"samples/a.yaml": f"{code.replace('VALUE', 'mine')}---\n{gadget}"}
    made = text(plan({"samples/0.yaml": code.replace("VALUE", "other"), **beside}), "gadget.yaml.j2")
    assert made.count("kind: ConfigMap") == 1
    assert "a: mine" in made


def test_what_is_there_to_be_refused_is_no_sample_while_another_is() -> None:
    head = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {NAME}\n"
    refused = {"samples/malformed.yaml": head.replace("NAME", "name: a") + "spec: {size: 1}\n"}
    other = {"test/e2e/gadget.yaml": head.replace("NAME", "generateName: run-") + "spec: {size: 2}\n"}
    assert "size: 1" in text(plan(refused), "gadget.yaml.j2")
    assert "size: 2" in text(plan({**refused, **other}), "gadget.yaml.j2")


@pytest.mark.parametrize(("kind", "shown"), [("App", "an App"), ("User", "a User"), ("Upgrade", "an Upgrade")])
def test_kinds_have_their_article(kind: str, shown: str) -> None:
    crd = CRD.replace("gadget", kind.lower()).replace("Gadget", kind).replace("SCOPE", "Namespaced")
    assert shown in "".join(files.described(plan({"crd.yaml": crd}).files))


ROTATES = """\
package main

func main() {
	flag.StringVar(&configFile, "config", "", "file of the configuration")
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), options)
	if cfg.InternalCertManagement != nil { cert.ManageCerts(mgr, cfg) }
	ctrl.NewWebhookManagedBy(mgr)
}
"""


def test_a_certificate_that_the_operator_rotates_is_replaced_by_an_issued_one() -> None:
    config = (
        "apiVersion: config.example.com/v1\nkind: Configuration\ninternalCertManagement: {enable: true, secret: a}\n"
    )
    webhook = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: a}\n"
    here = {"config/webhook/manifests.yaml": webhook, "config/manager/config.yaml": f"{config}webhook: {{host: h}}\n"}
    made = definition_of(plan({"main.go": ROTATES, **here}))
    assert "--config={directory}/config.yaml" in made["command"]
    assert made["webhooks"] == ["../../config/webhook/manifests.yaml"]
    assert "webhook_port" not in made
    # Nothing else of the configuration changes but what no flag says.
    written = yaml.safe_load(made["files"]["config.yaml"].replace("{webhook_port}", "1"))
    assert written["internalCertManagement"] == {"enable": False, "secret": "a"}
    assert written["webhook"] == {"host": "h", "port": 1, "certDir": "{cert_dir}"}
    assert written["leaderElection"] == {"leaderElect": False}
    assert made["metrics"]["url"].endswith("{metrics_port}/metrics")
    assert made["readiness"]["url"]
    # Where patches complete the configurations, they are taken as kustomize renders them.
    patched = {"config/default/kustomization.yaml": "", "config/webhook/kustomization.yaml": "patches: []\n"}
    assert definition_of(plan({"main.go": ROTATES, **here, **patched}))["webhooks"] == ["../../config/default"]


def samples(spec: str, more: dict[str, str] | None = None) -> Plan:
    """Return the plan of a project whose Backups have this spec, and name Gadgets; ``more``: files of its own."""
    crd = CRD.replace("gadget", "backup").replace("Gadget", "Backup").replace("SCOPE", "Namespaced")
    head = "apiVersion: example.com/v1\nkind: KIND\nmetadata: {name: KIND-sample}\nspec: "
    backup, gadget = head.replace("KIND-", "backup-"), head.replace("KIND-", "gadget-")
    return plan(
        {
            "crd-backup.yaml": crd,
            "config/samples/b.yaml": f"{backup.replace('KIND', 'Backup')}{spec}\n",
            "config/samples/g.yaml": f"{gadget.replace('KIND', 'Gadget')}{{}}\n",
            "PROJECT": "resources: [{kind: Gadget, controller: true}, {kind: Backup, controller: true}]\n",
            **(more or {}),
        }
    )


def test_children_of_two_kinds_are_counted_together() -> None:
    source = "package main\nfunc main() {\nctrl.NewManager(a, b)\nx.For(a).Owns(&v1.Secret{})\n}\n"
    written = text(samples("{gadgetRef: {name: gadget-sample}}", {"main.go": source}), "test_backups.py")
    counted = re.findall(r'(\w+)\.milestone\(.*count\("secret", ([^,]+),', written)
    assert counted == [("prepare", "objects"), ("deploy", "2 * objects")]


@pytest.mark.parametrize(
    "spec", ["{gadgetRef: {name: gadget-sample}}", "{gadget: gadget-sample, text: '{{ x }}'}", "{of: [gadget-sample]}"]
)
def test_a_sample_that_names_another_kinds_sample_names_its_objects(spec: str, tmp_path: Path) -> None:
    made = samples(spec)
    workload = tmp_path / "backup.yaml.j2"
    workload.write_text(text(made, "backup.yaml.j2"))
    rendered = template.render(str(workload), {"objects": 2, "gadget_name": "mine"}, namespace="a", run_id="b")
    expected = yaml.safe_load(spec.replace("gadget-sample", "mine-1"))
    assert rendered.objects[1]["spec"] == expected
    assert not [line for line in files.described(made.files) if "backup.yaml.j2" in line]
    # What is named is there before, and goes after.
    test = text(made, "test_backups.py")
    prepared, deployed = (test.index(f'scale.phase("{name}"') for name in ("prepare", "deploy"))
    assert prepared < test.index("gadgets.apply()") < deployed < test.index("backups.apply()")
    assert test.index("backups.delete()") < test.index("gadgets.delete()")
    assert "prepare" not in text(made, "test_gadgets.py")
    compile(test, "test_backups.py", "exec")


def test_a_sample_that_names_another_object_of_a_kind_names_those_of_the_test(snapshot: SnapshotAssertion) -> None:
    made = samples("{target: {kind: Gadget, name: other}, gadgetName: mine, gadgetImage: a}")
    assert text(made, "backup.yaml.j2") == snapshot
    test = text(made, "test_backups.py")
    assert test.index("gadgets.apply()") < test.index("backups.apply()")


@pytest.mark.parametrize(
    ("spec", "folder", "own"),
    [
        ("{deployment: web}", "config/samples", True),
        ("{targetRef: {kind: Deployment, name: web}}", "examples", True),
        ("{deployment: db}", "config/samples", False),
        ("{tier: web}", "config/samples", False),
        ("{deployment: web}", "config/manager", False),
    ],
)
def test_a_deployment_that_a_sample_names_is_there_for_it(spec: str, folder: str, own: bool) -> None:
    labels = "{matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}"
    web = f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec: {{selector: {labels}}}}}\n"
    gadget = f"apiVersion: example.com/v1\nkind: Gadget\nmetadata: {{name: one}}\nspec: {spec}\n"
    made = plan({f"{folder}/web.yaml": web, "config/samples/gadget.yaml": gadget})
    names = {Path(one.path).name for one in made.files}
    assert ("deployment.yaml.j2" in names) is own
    assert "test_deployments.py" not in names
    test = text(made, "test_gadgets.py")
    assert test.count("deployments.apply()") == own
    if own:
        assert '{{ deployment_name | default("deployment") }}-{{ number }}' in text(made, "gadget.yaml.j2")
        assert test.index("deployments.status(") < test.index("deployments.apply()") < test.index("gadgets.apply()")
        assert max(map(len, test.splitlines())) <= 120
        assert not [file.path for file in made.files if "deployment" in file.path and list(file.guesses)]


def test_a_kind_without_a_sample_is_there_for_the_sample_that_names_it() -> None:
    made = samples("{gadgetName: small}", {"config/samples/g.yaml": ""})
    assert "gadgets.apply()" in text(made, "test_backups.py")
    assert text(made, "gadget.yaml.j2")


GO = "package main\nfunc main() {{\nctrl.NewManager(a, b)\nx.For(&v1.Backup{{}}).Owns(&batchv1.Job{{}}){}\n}}\n"


@pytest.mark.parametrize(
    ("file", "source", "tested"),
    [
        ("main.go", GO.format(".Watches(&v1.Gadget{}, handler.EnqueueRequestsFromMapFunc(f))"), False),
        ("main.go", GO.format("\nx.Watches(&v1.Gadget{}, &handler.EnqueueRequestForObject{})"), True),
        ("main.go", GO.format("\nx.For(&v1.Gadget{})"), True),
        ("main.go", GO.format("\nx.For(kind)"), True),
        ("main.go", GO.format("").replace("For(&v1.Backup{})", "For(kind)"), True),
        ("src/main.rs", f"{KUBE_RS} Controller::new(Api::<Backup>::all(c), any); let g: Api<Gadget>; }}", False),
        ("src/main.rs", f"{KUBE_RS} let b: Api<Backup> = f(); Controller::new(b.clone(), any); }}", False),
        ("src/main/java/a/Main.java", JOSDK.format("class R implements Reconciler<Backup> {} Gadget g;"), False),
        ("main.py", 'import kopf\n@kopf.on.create("example.com", "v1", "backups")\ndef made(**_): pass\n', False),
    ],
)
def test_a_kind_that_no_controller_is_for_is_there_for_those_that_name_it(file: str, source: str, tested: bool) -> None:
    project = {"src/main.rs": {"Cargo.toml": '[package]\nname = "a"\n'}, "main.go": {}}.get(
        file, {"pom.xml": "<project/>"} if file.endswith("java") else {"pyproject.toml": '[project]\nname = "a"\n'}
    )
    made = samples("{gadgetRef: {name: gadget-sample}}", {"main.go": "", **project, file: source, "PROJECT": ""})
    names = {Path(one.path).name for one in made.files}
    assert {"test_backups.py", "gadget.yaml.j2"} <= names
    assert ("test_gadgets.py" in names) is tested
    prepared = text(made, "test_backups.py").partition("wait_idle")[0]
    assert prepared.count("prepare.milestone(") == 1 + (tested and file.endswith(".go"))


def test_a_kind_that_no_controller_is_for_and_no_sample_names_is_left_out() -> None:
    made = samples("{}", {"main.go": GO.format(""), "PROJECT": ""})
    assert not [one.path for one in made.files if "gadget" in one.path]


def test_a_secret_that_a_sample_names_stands_beside_it() -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: NAME}\nstringData: {a: b}\n"
    more = {"config/samples/s.yaml": secret.replace("NAME", "key"), "config/samples/t.yaml": secret}
    made = samples("{gadgetName: gadget-sample, secretName: key}", more)
    workload = text(made, "backup.yaml.j2")
    assert (workload.count("kind: Secret"), "name: key" in workload) == (1, True)
    assert not [line for line in files.described(made.files) if "backup.yaml.j2" in line]


@pytest.mark.parametrize(
    ("spec", "object_", "keys"),
    [
        ("{credentialsSecret: mine}", ("Secret", "mine"), {"token"}),
        ("{auth: {secretKeyRef: {name: mine, key: password}}}", ("Secret", "mine"), {"password"}),
        ("{settings: {configMapRef: {name: mine, namespace: other}}}", ("ConfigMap", "mine"), {"token"}),
        ("{imagePullSecrets: [{name: mine}]}", None, set()),
    ],
)
def test_what_a_workload_names_and_nothing_makes_stands_beside_it(
    spec: str, object_: tuple[str, str] | None, keys: set[str], tmp_path: Path
) -> None:
    reads = 'package main\n\nfunc main() { ctrl.NewManager(c, o); use(secret.Data["token"]) }\n'
    made = samples(spec, {"cmd/main.go": reads})
    workload = tmp_path / "backup.yaml.j2"
    workload.write_text(text(made, "backup.yaml.j2"))
    rendered = template.render(str(workload), {"objects": 2}, namespace="a", run_id="b")
    beside = [one for one in rendered.objects if one["kind"] != "Backup"]
    assert [(one["kind"], one["metadata"]["name"]) for one in beside] == ([object_] if object_ else [])
    assert {key for one in beside for key in one.get("stringData") or one["data"]} == keys
    assert len([line for line in files.described(made.files) if "backup.yaml.j2" in line]) == len(beside)


PLAIN = {
    "crd.yaml": CRD.replace("SCOPE", "Namespaced").replace(
        "status: {type: object}",
        "status: {type: object, properties: {phase: {type: string, enum: [Pending, Running, Complete]}}}",
    ),
    "gadget_operator.py": "from kubernetes import config\nconfig.load_kube_config()\n",
    "requirements.txt": "kubernetes\n",
    "rbac.yaml": (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: gadgets}\nrules:\n"
        "- {apiGroups: [example.com], resources: [gadgets], verbs: [get, list, watch]}\n"
        "- {apiGroups: [''], resources: [pods], verbs: [get, list, watch, create]}\n"
    ),
    "Dockerfile": 'FROM python:3.12\nCOPY gadget_operator.py /app/\nCMD ["python", "/app/gadget_operator.py"]\n',
}


def test_the_files_of_a_program_in_python_without_kopf(snapshot: SnapshotAssertion) -> None:
    env = "[{name: METRICS_PORT, value: '8080'}, {name: HEALTH_PORT, value: '8081'}]"
    probe = "{httpGet: {path: /readyz, port: 8081}}"
    deployed = DEPLOYMENT.replace("image: a,", f"image: a, env: {env}, readinessProbe: {probe},")
    made = files.plan(facts.of("gadgets", {**PLAIN, "deployment.yaml": deployed}))
    assert (text(made, "operator.yaml"), text(made, "test_gadgets.py")) == snapshot
    assert files.described(made.files) == snapshot
    assert (made.needs, made.install) == (("kubernetes",), "pip install -r requirements.txt")
    assert "pytest-grovescale -r requirements.txt" in text(made, "scale.yml")


def test_a_python_operator_has_one_server_for_all_and_the_name_of_its_project() -> None:
    serves = 'PORT = os.environ.get("PORT", "8000")\nHTTPServer(("", int(PORT)), H)\nPATHS = ("/ready", "/metrics")\n'
    deployment = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: a, "
        "env: [{name: PORT, value: '8000'}], ports: [{name: http, containerPort: 8000}], "
        "readinessProbe: {httpGet: {path: /ready, port: http}}}]}}}\n"
    )
    more = {
        "gadget_operator.py": PLAIN["gadget_operator.py"] + serves,
        "deploy.yaml": deployment,
        "pyproject.toml": '[build-system]\nrequires = []\n\n[project]\nversion = "1"\nname = "shop.gadgets"\n',
    }
    made = definition_of(files.plan(facts.of("folder", {**PLAIN, **more})))
    assert made["name"] == "shop-gadgets"
    assert made["readiness"]["url"].endswith("{health_port}/ready")
    assert made["metrics"]["url"].endswith("{health_port}/metrics")


def test_a_program_that_is_not_found_is_named(snapshot: SnapshotAssertion) -> None:
    lost = {**PLAIN, "Dockerfile": PLAIN["Dockerfile"].replace('/app/gadget_operator.py"]', '/app/other.py"]')}
    with pytest.raises(DefinitionError) as refused:
        files.plan(facts.of("gadgets", lost))
    assert str(refused.value) == snapshot
    made = files.plan(facts.of("gadgets", {**lost, "deployment.yaml": DEPLOYMENT}))
    assert [line for line in files.described(made.files) if "operator.yaml" in line] == snapshot


DEPLOYMENT = (
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: gadgets}\nspec: {template: {spec: {containers: ["
    "{name: manager, image: a, ports: [{name: metrics, containerPort: 8080}]}]}}}\n"
)


def test_a_bundle_without_sources_runs_as_pods_on_kind() -> None:
    bundle = f"{CRD.replace('SCOPE', 'Namespaced')}---\n{DEPLOYMENT}"
    made = files.plan(facts.of("gadgets", {"install.yaml": bundle}))
    operator = definition_of(made)
    assert operator["pod"] == {"manifests": ["../../install.yaml"], "metrics": {"port": "metrics"}}
    assert "command" not in operator
    assert 'cluster="kind"' in text(made, "test_gadgets.py")


def test_a_kustomize_installation_without_sources_is_taken_as_a_whole() -> None:
    content = {"config/crd/crd.yaml": CRD.replace("SCOPE", "Namespaced"), "config/manager/manager.yaml": DEPLOYMENT}
    made = files.plan(
        facts.of("gadgets", {**content, "config/default/kustomization.yaml": "resources: [../manager]\n"})
    )
    assert definition_of(made)["pod"]["manifests"] == ["../../config/default"]


def test_a_chart_that_cannot_be_rendered_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chart = {"Chart.yaml": "name: gadgets\n", "crds/crd.yaml": CRD.replace("SCOPE", "Namespaced")}
    for name, content in {**chart, "templates/deployment.yaml": DEPLOYMENT}.items():
        (tmp_path / "chart" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "chart" / name).write_text(content)
    monkeypatch.setenv("PATH", "")
    found = facts.read(tmp_path)
    assert list(found.unrendered) == ["chart"]
    assert [obj.kind for obj in found.objects] == ["CustomResourceDefinition"]
    with pytest.raises(DefinitionError, match="helm"):
        files.plan(found)


def test_charts_of_examples_are_not_the_operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("examples/blue-green", "test/fixtures/chart"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "Chart.yaml").write_text("name: web\n")
    monkeypatch.setenv("PATH", "")
    assert not facts.read(tmp_path).unrendered


def test_guesses_are_listed_with_their_place() -> None:
    file = File("a.yaml", "b: 1\n# guess: this\nc: 2\n{#- guess: that -#}\n")
    assert files.described([file]) == ["a.yaml:2: this", "a.yaml:4: that"]


def test_generated_files_and_other_modules_are_not_read(tmp_path: Path) -> None:
    for name in ("vendor/x.go", "testdata/x.go", ".git/x.go", "inner/x.go", "inner/go.mod", "own.go"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("package x\n")
    found = facts.read(tmp_path)
    assert list(found.files) == ["own.go"]
    assert found.inner == ("inner",)
    with pytest.raises(DefinitionError) as refused:
        files.plan(found)
    assert "grovescale init inner" in refused.value.next_step


def test_the_sentences_of_init(tmp_path: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    assert cli.main(["init", str(tmp_path)]) == ExitCode.USAGE
    assert masked(capsys.readouterr().err, {tmp_path.name: "folder"}) == snapshot


NAMESPACES = {
    "main.go": "package main\n\nfunc main() {\n}\n",
    "pkg/a.go": 'package pkg\n\nconst teamLabel = "acme.io/team"\nvar a = f.Core().V1().Namespaces()\nConfigMaps(a)\n',
    "deploy/rbac.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\nrules:\n"
    "- {apiGroups: [''], resources: [namespaces], verbs: [list, watch]}\n"
    "- {apiGroups: [''], resources: [configmaps], verbs: [list, watch, create]}\n",
    "deploy/namespace.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: acme-system}\n",
}


def test_an_operator_without_custom_resources_is_tried_on_the_kind_that_it_watches() -> None:
    made = files.plan(facts.of("guard", NAMESPACES))
    assert definition_of(made)["trigger"]["kind"] == "Namespace"
    assert "crds" not in definition_of(made)
    assert definition_of(made)["rbac"] == "../../deploy/rbac.yaml"
    workload = text(made, "namespace.yaml.j2")
    assert "acme.io/team: example" in workload
    assert "acme-system" not in workload
    assert "selector=" in text(made, "test_namespaces.py")
    assert any("acme.io/team" in check for check in files.described(made.files))


@pytest.mark.parametrize(("kind", "condition"), [("Deployment", "Available"), ("Job", "Complete"), ("ConfigMap", None)])
def test_a_kind_of_kubernetes_own_that_does_its_work_says_so_itself(kind: str, condition: str | None) -> None:
    source = f"package main\n\nfunc main() {{\nctrl.NewManager()\nx.For(&a.{kind}{{}})\n"
    test = text(files.plan(facts.of("guard", {"main.go": source})), f"test_{kind.lower()}s.py")
    assert re.findall(r'conditions={"(\w+)"', test) == ([condition] if condition else [])
    assert (re.search(r'count\("pods", 0', test) is not None) is (condition is not None)


def test_a_sample_of_a_kind_of_kubernetes_own_is_used() -> None:
    sample = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {acme.io/team: red}}\n"
    made = files.plan(facts.of("guard", {**NAMESPACES, "examples/team.yaml": sample}))
    assert "acme.io/team: red" in text(made, "namespace.yaml.j2")


@pytest.mark.parametrize(
    "source",
    [
        'const auto = "acme.io/auto"\nx.For(&appsv1.Deployment{})\nif obj.GetAnnotations()[auto] != "true" {\n',
        "const AUTO = 'acme.io/auto';\nlist deployments\nconst on = d => d.metadata.annotations?.[AUTO] === 'true';\n",
        'AUTO: Final = "acme.io/auto"\n@kopf.on.update("deployments")\nif meta.annotations.get(AUTO) == "true":\n',
        '// of deployments\nif obj.Annotations["acme.io/auto"] == "true" {\n',
    ],
    ids=["go", "javascript", "python", "literal"],
)
def test_an_object_has_the_annotation_by_which_it_is_the_operators(source: str) -> None:
    made = files.plan(facts.of("guard", {"main.go": f"package main\n\nfunc main() {{\nctrl.NewManager()\n{source}"}))
    workload = text(made, "deployment.yaml.j2")
    assert "annotations:\n    acme.io/auto: 'true'\n" in workload
    assert workload.count('app: {{ name | default("deployment") }}-{{ number }}') == 2
    assert not any("acme.io" in check for check in files.described(made.files))


def test_an_annotation_that_a_constant_names_is_asked_about() -> None:
    source = 'const owner = "acme.io/owner"\nx.For(&appsv1.Deployment{})\nobj.Annotations[owner] = name\n'
    made = files.plan(facts.of("guard", {"main.go": f"package main\n\nfunc main() {{\nctrl.NewManager()\n{source}"}))
    assert any("acme.io/owner" in check for check in files.described(made.files))


def test_a_role_for_kinds_that_are_defined_elsewhere_is_no_operator_of_kubernetes_own_kinds() -> None:
    role = NAMESPACES["deploy/rbac.yaml"] + "- {apiGroups: [shop.example.com], resources: [shops], verbs: [watch]}\n"
    with pytest.raises(DefinitionError):
        files.plan(facts.of("guard", {**NAMESPACES, "deploy/rbac.yaml": role}))


@pytest.mark.parametrize(
    ("module", "deployed", "name"), [("a.b/operator", "reloader", "reloader"), ("a.b/guard", "reloader", "guard")]
)
def test_a_name_that_says_nothing_is_that_of_the_deployment(module: str, deployed: str, name: str) -> None:
    deployment = f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {deployed}}}\nspec: {{}}\n"
    project = {**NAMESPACES, "go.mod": f"module {module}\n", "deploy/deployment.yaml": deployment}
    assert definition_of(files.plan(facts.of("somewhere", project)))["name"] == name


def test_a_deployment_is_triggered_by_a_label() -> None:
    source = "package main\n\nfunc main() {\nctrl.NewManager(a, b)\nx.For(&appsv1.Deployment{}).Complete(r)\n}\n"
    trigger = definition_of(files.plan(facts.of("guard", {"main.go": source})))["trigger"]
    assert trigger == {"kind": "Deployment", "label": files.TRIGGER}


def test_a_chart_that_could_not_be_rendered_is_the_first_guess() -> None:
    project = facts.of("gadgets", {"main.go": MAIN, "crd.yaml": CRD.replace("SCOPE", "Cluster")})
    made = files.plan(msgspec.structs.replace(project, unrendered={"charts/a": "it is a Helm chart, and …"}))
    first, *_ = files.described(made.files)
    assert first.startswith("tests/scale/operator.yaml:2: the chart charts/a was not read")


def test_each_object_names_its_own_secret_where_the_operator_makes_it() -> None:
    sample = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a}\nspec: {secretName: out}\n"
    role = (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\nrules:\n"
        "- {apiGroups: [example.com], resources: [gadgets], verbs: [watch]}\n"
        "- {apiGroups: [''], resources: [secrets], verbs: [VERB]}\n"
    )
    for verb, name in (("create", "secretName: out-{{ number }}"), ("get", "secretName: out\n")):
        made = plan({"config/samples/a.yaml": sample, "role.yaml": role.replace("VERB", verb)})
        assert name in text(made, "gadget.yaml.j2")


def test_crds_with_a_conversion_webhook_are_taken_with_their_patches() -> None:
    crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gadgets.example.com}\n"
    webhook = "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: a}\n"
    project = {
        "main.go": MAIN.replace(
            "\tmgr", '\tflag.StringVar(&a, "webhook-cert-path", "", "")\n\tNewWebhookManagedBy(a)\n\tmgr'
        ),
        "config/crd/bases/gadgets.yaml": CRD.replace("SCOPE", "Cluster"),
        "config/crd/patches/webhook.yaml": crd + "spec: {conversion: {strategy: Webhook}}\n",
        "config/crd/kustomization.yaml": "resources: [bases/gadgets.yaml]\npatches: [{path: patches/webhook.yaml}]\n",
        "config/webhook/manifests.yaml": webhook,
    }
    assert definition_of(files.plan(facts.of("gadgets", project)))["crds"] == ["../../config/crd"]
    del project["config/crd/patches/webhook.yaml"]
    assert definition_of(files.plan(facts.of("gadgets", project)))["crds"] == ["../../config/crd/bases"]


@pytest.mark.parametrize(
    ("folder", "name"), [("my_shop", "my-shop"), ("Shop.v2", "shop-v2"), ("_", "operator"), ("a" * 60, "a" * 53)]
)
def test_a_chart_is_rendered_as_a_release_that_helm_takes(folder: str, name: str) -> None:
    assert facts.release_name(folder) == name
