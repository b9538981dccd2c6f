"""Templates: strict about parameters in both directions, and JSON-safe."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import DefinitionError
from pytest_grovescale.workload import template
from pytest_grovescale.workload.template import RUN_LABEL, Rendered, render
from tests.golden import masked

CONFIG = """\
{% set size = size | default(3) %}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
data:
  size: "{{ size }}"
"""


def rendered(folder: Path, text: str, **parameters: Any) -> Rendered:
    path = folder / "load.yaml.j2"
    path.write_text(text)
    return render(str(path), parameters, namespace="demo", run_id="run-1")


def refusal(folder: Path, text: str, **parameters: Any) -> DefinitionError:
    with pytest.raises(DefinitionError) as raised:
        rendered(folder, text, **parameters)
    return raised.value


def test_objects_get_namespace_and_run(tmp_path: Path) -> None:
    (obj,) = rendered(tmp_path, CONFIG, name="a").objects
    assert obj == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "demo", "labels": {RUN_LABEL: "run-1"}},
        "data": {"size": "3"},
    }


def test_own_namespace_and_labels_stay(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b, labels: {run: '{{ run_id }}', x: y}}\n"
    (obj,) = rendered(tmp_path, text).objects
    assert obj["metadata"]["namespace"] == "b"
    assert obj["metadata"]["labels"] == {"run": "run-1", "x": "y", RUN_LABEL: "run-1"}


def test_without_the_label_nothing_is_added_but_the_namespace(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml.j2"
    path.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: 'a-{{ run_id }}'}\n", encoding="utf-8")
    (obj,) = render(str(path), {}, namespace="demo", run_id="plain", labelled=False).objects
    assert obj["metadata"] == {"name": "a-plain", "namespace": "demo"}


def test_many_objects_of_several_kinds(tmp_path: Path) -> None:
    text = (
        "{% for i in range(n) %}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p-{{ i }}}\n{% endfor %}\n"
        "---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: s}}\n---\n"
    )
    objects = rendered(tmp_path, text, n=1000).objects
    assert [obj["metadata"]["name"] for obj in objects] == [*(f"p-{i}" for i in range(1000)), "s"]


def test_missing_parameter(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    error = refusal(tmp_path, CONFIG)
    assert error.message.startswith(f"{tmp_path / 'load.yaml.j2'}:5: 'name' ")
    assert error.next_step.endswith(": name, size.")
    assert masked(str(error), {tmp_path: "folder"}) == snapshot


def test_unknown_parameter(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    error = refusal(tmp_path, CONFIG, name="a", sise=4)
    assert error.message.startswith(f"{tmp_path / 'load.yaml.j2'}:1: sise: ")
    assert error.next_step.endswith(": name, size.")
    assert masked(str(error), {tmp_path: "folder"}) == snapshot


def test_a_misspelt_variable_of_a_loop_has_the_one_that_may_be_meant(tmp_path: Path) -> None:
    text = "{% for number in [1] %}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a-{{ numbr }}}\n{% endfor %}"
    error = refusal(tmp_path, text)
    assert error.message.startswith(f"{tmp_path / 'load.yaml.j2'}:4: ")
    assert error.next_step == "Did you mean number?"


def test_parameters_of_included_templates_are_known(tmp_path: Path) -> None:
    (tmp_path / "data.j2").write_text("data: {x: '{{ deep }}'}\n")
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n{% include 'data.j2' %}"
    (obj,) = rendered(tmp_path, text, deep="sea").objects
    assert obj["data"] == {"x": "sea"}
    error = refusal(tmp_path, text)
    assert "'deep' is undefined" in error.message


def test_parameters_with_a_default_are_not_needed(tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml.j2"
    file.write_text(
        "{% set pods = pods | default(3) %}"
        "{% for i in range(pods) %}{{ name | default(i) | upper }}{{ kind }}{% endfor %}"
    )
    assert template.parameters(str(file)) == {"pods", "name", "kind"}
    assert template.without_default(str(file)) == {"kind"}


@pytest.mark.parametrize(
    ("text", "parameters", "message"),
    [
        ("{% for x in %}", {}, ":1: "),
        ("\n{{ 1 | tojsn }}", {}, ":2: "),
        ("\n{% include 'gone.j2' %}", {}, "gone.j2"),
        ("\n\n{{ 1 // zero }}", {"zero": 0}, ":3: ZeroDivisionError"),
        ("x: {{ namespace }}", {"namespace": "mine"}, "namespace: "),
        ("x: {{ when }}", {"when": datetime.timezone}, "when: <class 'datetime.timezone'> "),
        ("# nothing\n", {}, ":1: "),
        ("a: [1\n", {}, "(rendered):2: "),
        ("\na: !secret x\n", {}, "'!secret'"),
        ("a: !!int x\n", {}, "(rendered):1: "),
        ("a: &it [*it]\n", {}, "(rendered):1: "),
        ("kind: Pod\n", {}, "(rendered):1: apiVersion: "),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}\n", {}, "metadata.name: "),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: 7}\n", {}, "metadata.name: 7 "),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {b: 7}}\n", {}, "metadata.labels.b: 7 "),
        ("apiVersion: v1\nkind: Pod\nkind: Pod\n", {}, "(rendered):3: key 'kind' "),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {1: 2}\n", {}, ":4: key 1 "),
        ("apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n", {}, "Pod demo/a-* "),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n" * 2, {}, "Pod demo/a"),
    ],
    ids=[
        "syntax",
        "filter",
        "include",
        "division",
        "namespace",
        "no JSON",
        "nothing",
        "no YAML",
        "tag",
        "value",
        "recursive",
        "version",
        "name",
        "number",
        "label",
        "twice",
        "key",
        "generated",
        "two",
    ],
)
def test_mistakes(
    tmp_path: Path, text: str, parameters: dict[str, Any], message: str, snapshot: SnapshotAssertion
) -> None:
    error = refusal(tmp_path, text, **parameters)
    assert error.message.startswith(str(tmp_path / "load.yaml.j2"))
    assert message in error.message
    # What Python itself says differs from version to version.
    text = re.sub(r"(ZeroDivisionError: ).*", r"\1<reason>", str(error))
    assert masked(text, {tmp_path: "folder"}) == snapshot


def test_rendered_lines_are_shown(tmp_path: Path) -> None:
    error = refusal(tmp_path, "{% for i in range(3) %}\na{{ i }}: {{ i }}\n{% endfor %}\nb: [\n")
    assert re.search(r"> +\d+ ", error.message), error.message


def test_dates_stay_texts(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {day: 2026-01-02}\n"
    (obj,) = rendered(tmp_path, text).objects
    assert obj["data"] == {"day": "2026-01-02"}


def test_unknown_template_names_the_places(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(DefinitionError, match=r"absent\.j2: .* workloads") as caught:
        render("absent.j2", {}, namespace="demo", run_id="r", base=tmp_path)
    assert masked(str(caught.value), {tmp_path: "folder", Path(__file__).parents[3]: "repository"}) == snapshot


LOOP = """\
{% for number in range(count) %}
---
apiVersion: v1
KIND
metadata: {name: "a-{{ number }}"}
{% endfor %}
"""


@pytest.mark.parametrize("count", [2, 5000])
def test_before_a_run_a_template_is_rendered_where_all_its_parameters_are_known(tmp_path: Path, count: int) -> None:
    path = tmp_path / "load.yaml.j2"
    path.write_text(LOOP.replace("KIND", "kind: Pod"))
    template.check(str(path), {"count": count})
    path.write_text(LOOP.replace("KIND", "knd: Pod"))
    with pytest.raises(DefinitionError, match="kind: missing"):
        template.check(str(path), {"count": count})
    template.check(str(path), {"count": None})
    template.check(str(path), {})


@pytest.mark.parametrize(
    ("api_version", "kind", "said"),
    [
        ("shop.example.com/v1", "Cart", ""),
        ("shop.example.com/v1", "Carts", "Carts"),
        ("shop.example.com/v2", "Cart", "v2"),
        ("shop.example.com/v0", "Cart", "v0"),
        # Of another operator that is there, or another group.
        ("shop.example.com/v1", "Invoice", ""),
        ("shops.example.com/v1", "Carts", ""),
        ("v1", "Cart", ""),
    ],
)
def test_a_kind_that_the_operators_crds_do_not_serve(api_version: str, kind: str, said: str, tmp_path: Path) -> None:
    versions = [{"name": "v1", "served": True}, {"name": "v0", "served": False}]
    crd = {"spec": {"group": "shop.example.com", "names": {"kind": "Cart"}, "versions": versions}}
    path = tmp_path / "a.yaml.j2"
    path.write_text(f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}\n", encoding="utf-8")
    if not said:
        template.check(str(path), {}, crds=[crd])
        return
    with pytest.raises(DefinitionError, match=said) as refused:
        template.check(str(path), {}, crds=[crd])
    assert refused.value.next_step
