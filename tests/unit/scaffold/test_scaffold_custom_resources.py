"""Samples and milestones of custom resources, from their schemas and the operator's sources."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.scaffold.custom_resources import (
    CustomResource,
    Milestone,
    milestones,
    minimal_value,
    references,
)

CONDITIONS = {"type": "array", "items": {"type": "object"}}


def resource(status: dict[str, Any], **more: Any) -> CustomResource:
    schema = {"type": "object", "properties": {"status": {"type": "object", "properties": status}}}
    made = CustomResource(
        group="example.com",
        version="v1",
        kind="Gadget",
        plural="gadgets",
        namespaced=True,
        schema=schema,
        file="crd.yaml",
    )
    return msgspec.structs.replace(made, **more)


def derived(status: dict[str, Any], source: str = "", **more: Any) -> list[Milestone]:
    return milestones(resource(status, **more), {"spec": {"replicas": 3}}, source, "gadgets")


def test_a_printer_column_with_a_condition_comes_first() -> None:
    column = {"name": "Ready", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'}
    (found,) = derived({"conditions": CONDITIONS, "phase": {"type": "string", "enum": ["Running"]}}, columns=(column,))
    assert found.expression == 'gadgets.status(conditions={"Ready": "True"})'
    assert not found.is_guess


@pytest.mark.parametrize(
    "literal",
    [
        'metav1.Condition{Type: "Available"}',
        'const typeAvailableGadget = "Available"',
        'const AvailableCondition string = "Available"',
        'ConditionAvailable ConditionType = "Available"',
        '{"type": "Available"}',
    ],
)
def test_a_condition_that_the_program_sets_is_a_guess(literal: str) -> None:
    (found,) = derived({"conditions": CONDITIONS}, f"{literal}\nmeta.SetStatusCondition(&c, condition)")
    assert found.expression == 'gadgets.status(conditions={"Available": "True"})'
    assert found.is_guess


def test_a_word_is_no_condition() -> None:
    assert derived({"conditions": CONDITIONS}, 'x := "Available"\nmeta.SetStatusCondition(&c, condition)') == []
    assert derived({"conditions": CONDITIONS}, 'Type: "Available"') == []


@pytest.mark.parametrize(
    ("schema", "source", "value"),
    [
        ({"type": "string", "enum": ["Pending", "Running", "Failed"]}, "", "Running"),
        ({"type": "string"}, 'const phaseReady = "Ready"', "Ready"),
        ({"type": "string", "enum": ["Pending", "Failed"]}, "", ""),
        ({"type": "string", "enum": ["Pending", "Running", "Complete"]}, "", "Complete"),
        ({"type": "string", "enum": ["Running", "Completed"]}, 'phase = "Running"', "Running"),
        ({"type": "string"}, 'phase = "Running" if ready else "Done"', "Done"),
        ({"type": "string"}, 'if pod.phase == "Succeeded" { gadget.phase = "Ready" }', "Ready"),
        ({"type": "string", "enum": ["Pending", "Issued", "Failed"]}, '"phase": "Issued"', "Issued"),
        ({"type": "string", "enum": ["Pending", "Issued", "Failed"]}, "", "Issued"),
        ({"type": "string"}, 'phase = "Provisioned" if there else "Provisioning"', "Provisioned"),
        ({"type": "string"}, 'phase = "Provisioned" if there else "Rented"', ""),
        ({"type": "string"}, 'event("Completed")\n{"phase": "Online"}\nstatefulset("Paused")', "Online"),
        ({"type": "string"}, '{"status": {"phase": "Scheduled"}}', "Scheduled"),
        ({"type": "string"}, 'phase = "Scheduled" if there else "Failed"', ""),
        ({"type": "string"}, 'event("Completed")\nphase = "Active"', "Active"),
    ],
)
def test_a_phase_that_means_done(schema: dict[str, Any], source: str, value: str) -> None:
    expressions = [found.expression for found in derived({"phase": schema}, source)]
    assert expressions == ([f'gadgets.status(phase="{value}")'] if value else [])


@pytest.mark.parametrize(
    ("spec", "name", "found"),
    [
        ({"a": "gadget-sample"}, "gadget-sample", True),
        ({"a": "gadget"}, "gadget", None),
        ({"gadget": "one"}, "one", True),
        ({"a": {"kind": "Gadget", "name": "one"}}, "one", True),
        ({"gadgetRef": {"name": "other"}}, "one", False),
        ({"gadgetName": "other"}, "one", False),
        ({"gadgetImage": "other"}, "one", None),
        ({"a": "one"}, "one", None),
        ({"of": {"gadget": "example"}}, "", False),
        ({"of": {"gadget": "other"}}, "", None),
    ],
)
def test_a_reference_to_another_kind(spec: dict[str, Any], name: str, found: bool | None) -> None:
    made = list(references({"kind": "Backup", "metadata": {"name": name}, "spec": spec}, {"Gadget": name}))
    assert [one.is_to_sample for one in made] == ([] if found is None else [found])


@pytest.mark.parametrize(
    ("fields", "milestone"),
    [
        ('\tPhase string `json:"phase,omitempty"`\n', 'gadgets.status(phase="Ready")'),
        ('\tConditions []metav1.Condition `json:"conditions"`\n', 'gadgets.status(conditions={"Ready": "True"})'),
        ('\tReady bool `json:"ready"`\n', "gadgets.status(ready=True)"),
        ('\tObservedGeneration int64 `json:"observedGeneration"`\n', "gadgets.status(observedGeneration=1)"),
        ("", ""),
    ],
)
def test_a_status_that_the_schema_leaves_open_has_the_fields_of_the_sources(fields: str, milestone: str) -> None:
    source = (
        f"type GadgetStatus struct {{\n{fields}}}\n"
        'meta.SetStatusCondition(&all, metav1.Condition{Type: "Ready"})\n'
        'gadget.Status.Phase = "Ready"\ngadget.Status.ObservedGeneration = 1\n'
    )
    assert [found.expression for found in derived({}, source)] == ([milestone] if milestone else [])


def test_a_status_that_the_schema_leaves_open_has_the_fields_of_printer_columns() -> None:
    column = {"name": "State", "type": "string", "jsonPath": ".status.state"}
    (found,) = derived({}, 'gadget["status"]["state"] = "Online"', columns=(column,))
    assert found.expression == 'gadgets.status(state="Online")'


@pytest.mark.parametrize(("type_", "derives"), [("boolean", True), ("string", False)])
def test_a_flag_that_means_done(type_: str, derives: bool) -> None:
    expressions = [found.expression for found in derived({"ready": {"type": type_}})]
    assert expressions == (["gadgets.status(ready=True)"] if derives else [])


def test_a_phase_that_passes_is_not_waited_for_where_jobs_do_the_work() -> None:
    phases = resource({"phase": {"type": "string", "enum": ["Pending", "Running"]}})
    assert milestones(phases, {}, "", "gadgets", runs_jobs=True) == []


def test_a_scale_subresource_says_how_many() -> None:
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    (found,) = derived({"replicas": {}, "readyReplicas": {}}, scale=scale)
    assert found.expression == "gadgets.status(readyReplicas=3)"


@pytest.mark.parametrize(
    "source", ["site.Status.ObservedGeneration = site.Generation", '{"observedGeneration": c.GetGeneration()}']
)
def test_an_observed_generation_that_the_program_writes(source: str) -> None:
    (found,) = derived({"observedGeneration": {"type": "integer"}}, source)
    assert found.expression == "gadgets.status(observedGeneration=1)"
    assert derived({"observedGeneration": {"type": "integer"}}, "") == []


def test_nothing_is_derived_from_nothing() -> None:
    assert derived({}) == []


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "default": "a"}, "a"),
        ({"type": "string", "enum": ["x", "y"]}, "x"),
        ({"type": "string", "minLength": 9}, "examplexx"),
        ({"type": "string", "format": "date-time"}, "2026-01-01T00:00:00Z"),
        ({"type": "string", "pattern": r"^\d+Mi$"}, "10Mi"),
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "integer", "maximum": 0}, 0),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, 1),
        ({"type": "array", "minItems": 2, "items": {"type": "boolean"}}, [False, False]),
        ({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}, "b": {}}}, {"a": 1}),
    ],
)
def test_the_least_value_of_a_schema(schema: dict[str, Any], value: Any) -> None:
    assert minimal_value(schema) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schedule", "0 0 1 1 *"),
        ("backupSchedule", "0 0 1 1 *"),
        ("storage_size", "10Mi"),
        ("scheduler", "example"),
        ("baseImage", "registry.k8s.io/pause:3.10"),
    ],
)
def test_a_texts_name_says_which_value_programs_can_read(name: str, value: str) -> None:
    assert minimal_value({"type": "string"}, name) == value


SCHEMAS = st.recursive(
    st.one_of(
        st.builds(lambda low: {"type": "integer", "minimum": low}, st.integers(-5, 50)),
        st.builds(lambda low: {"type": "string", "minLength": low, "maxLength": low + 5}, st.integers(0, 20)),
        st.just({"type": "boolean"}),
    ),
    lambda inner: st.one_of(
        st.builds(lambda items, n: {"type": "array", "items": items, "minItems": n}, inner, st.integers(0, 3)),
        st.builds(
            lambda properties: {"type": "object", "properties": properties, "required": sorted(properties)},
            st.dictionaries(st.sampled_from(["image", "size", "name", "host"]), inner, max_size=3),
        ),
    ),
)


def allows(schema: dict[str, Any], value: Any) -> bool:
    match schema["type"]:
        case "integer":
            return isinstance(value, int) and value >= schema["minimum"]
        case "string":
            return isinstance(value, str) and schema["minLength"] <= len(value) <= schema["maxLength"]
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return len(value) >= schema["minItems"] and all(allows(schema["items"], item) for item in value)
        case _:
            return value.keys() == schema["properties"].keys() and all(
                allows(schema["properties"][name], item) for name, item in value.items()
            )


@given(SCHEMAS)
def test_a_schema_allows_its_least_value(schema: dict[str, Any]) -> None:
    assert allows(schema, minimal_value(schema))
