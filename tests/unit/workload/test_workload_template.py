"""Templates: strict about parameters in both directions, and JSON-safe."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_grovescale.errors import DefinitionError
from pytest_grovescale.workload.template import RUN_LABEL, Rendered, render

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


def test_missing_parameter(tmp_path: Path) -> None:
    error = refusal(tmp_path, CONFIG)
    assert error.message == f"{tmp_path / 'load.yaml.j2'}:5: 'name' is undefined"
    assert error.next_step == "Give it a value. Its parameters: name, size."


def test_unknown_parameter(tmp_path: Path) -> None:
    error = refusal(tmp_path, CONFIG, name="a", sise=4)
    assert error.message == f"{tmp_path / 'load.yaml.j2'}:1: sise: the template has no such parameter"
    assert error.next_step == "Did you mean size? Its parameters: name, size."


def test_parameters_of_included_templates_are_known(tmp_path: Path) -> None:
    (tmp_path / "data.j2").write_text("data: {x: '{{ deep }}'}\n")
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n{% include 'data.j2' %}"
    (obj,) = rendered(tmp_path, text, deep="sea").objects
    assert obj["data"] == {"x": "sea"}
    error = refusal(tmp_path, text)
    assert "'deep' is undefined" in error.message


@pytest.mark.parametrize(
    ("text", "parameters", "message"),
    [
        ("{% for x in %}", {}, ":1: not a template: "),
        ("\n{% include 'gone.j2' %}", {}, "includes gone.j2"),
        ("\n\n{{ 1 // zero }}", {"zero": 0}, ":3: ZeroDivisionError"),
        ("x: {{ namespace }}", {"namespace": "mine"}, "namespace: is given to every template"),
        ("x: {{ when }}", {"when": datetime.timezone}, "when: <class 'datetime.timezone'> cannot be written as JSON"),
        ("# nothing\n", {}, ":1: renders to no object"),
        ("a: [1\n", {}, "(rendered):2: not YAML"),
        ("\na: !secret x\n", {}, "(rendered):2: could not determine a constructor for the tag '!secret'"),
        ("a: !!int x\n", {}, "(rendered):1: holds a value that cannot be"),
        ("a: &it [*it]\n", {}, "(rendered):1: found unconstructable recursive node"),
        ("kind: Pod\n", {}, "(rendered):1: apiVersion: missing"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}\n", {}, "metadata.name: missing in this Pod"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: 7}\n", {}, "metadata.name: 7 is not a text"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {b: 7}}\n", {}, "metadata.labels.b: 7 is not a text"),
        ("apiVersion: v1\nkind: Pod\nkind: Pod\n", {}, "(rendered):3: key 'kind' is there twice"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {1: 2}\n", {}, ":4: key 1 is not a text"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n", {}, "Pod demo/a-* has a generateName"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n" * 2, {}, "two objects are Pod demo/a"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, parameters: dict[str, Any], message: str) -> None:
    error = refusal(tmp_path, text, **parameters)
    assert error.message.startswith(str(tmp_path / "load.yaml.j2"))
    assert message in error.message


def test_rendered_lines_are_shown(tmp_path: Path) -> None:
    error = refusal(tmp_path, "{% for i in range(3) %}\na{{ i }}: {{ i }}\n{% endfor %}\nb: [\n")
    assert re.search(r"> +\d+ ", error.message), error.message


def test_dates_stay_texts(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {day: 2026-01-02}\n"
    (obj,) = rendered(tmp_path, text).objects
    assert obj["data"] == {"day": "2026-01-02"}


def test_unknown_template_names_the_places(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"absent\.j2: no such file in workloads"):
        render("absent.j2", {}, namespace="demo", run_id="r", base=tmp_path)
