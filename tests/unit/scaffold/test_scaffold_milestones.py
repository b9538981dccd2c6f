"""Milestones of custom resources, from the schemas of their status and the operator's sources."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pytest_grovescale.scaffold.custom_resources import CustomResource
from pytest_grovescale.scaffold.milestones import Milestone, milestones, sources_of

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


@pytest.mark.parametrize(
    "source",
    [
        'status.setConditions(List.of(new ConditionBuilder().withType("Ready").withStatus("True").build()));',
        'conditions.push(Condition { type_: "Ready".to_string(), status: "True".to_string() });',
        'status.Conditions.Add(new V1Condition { Type = "Ready", Status = "True" });',
        "return { conditions: [condition(previous, 'Ready', phase === 'Up' ? 'True' : 'False', reason)] };",
        'conditions.push(new_condition(&old, "Ready", status));',
        '"conditions": [set_condition(previous.get("conditions", []), "Ready", complete, "AllReady")]',
    ],
)
def test_a_condition_that_a_program_in_another_language_sets(source: str) -> None:
    (found,) = derived({"conditions": CONDITIONS}, source)
    assert found.expression == 'gadgets.status(conditions={"Ready": "True"})'


def test_a_status_of_its_own_name_is_one_where_the_schema_lists_its_values() -> None:
    (found,) = derived({"status": {"type": "string", "enum": ["WAITING", "READY"]}})
    assert found.expression == 'gadgets.status(status="READY")'
    assert derived({"status": {"type": "string"}}, 'status = "Ready"') == []


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
        ({"type": "string", "enum": ["DEPLOYING", "PENDING", "RUNNING"]}, "status.setPhase(Phase.RUNNING);", "RUNNING"),
        ({"type": "string", "enum": ["CREATING", "READY", "ERROR"]}, "", "READY"),
        ({"type": "string", "enum": ["in_progress", "ready"]}, "", "ready"),
        ({"type": "string"}, 'status.setPhase("Provisioned");', "Provisioned"),
        ({"type": "string"}, 'status.setPhase(up ? "RUNNING" : "PENDING");', "RUNNING"),
        ({"type": "string"}, 'builder.statefulSet("Paused")', ""),
        ({"type": "string"}, 'done = pod.phase in ("Failed", "Succeeded")\nphase = "Running"', "Running"),
        ({"type": "string"}, 'phase = "Online"\ncondition(old, "Ready", phase == "Online")', "Online"),
    ],
)
def test_a_phase_that_means_done(schema: dict[str, Any], source: str, value: str) -> None:
    expressions = [found.expression for found in derived({"phase": schema}, source)]
    assert expressions == ([f'gadgets.status(phase="{value}")'] if value else [])


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


def test_a_status_that_the_schema_leaves_open_has_the_conditions_that_the_program_sets() -> None:
    column = {"name": "Phase", "type": "string", "jsonPath": ".status.phase"}
    source = '{"phase": "Up", "conditions": [set_condition(old, "Ready", complete)]}'
    (found,) = derived({}, source, columns=(column,))
    assert found.expression == 'gadgets.status(conditions={"Ready": "True"})'


@pytest.mark.parametrize(("type_", "derives"), [("boolean", True), ("string", False)])
def test_a_flag_that_means_done(type_: str, derives: bool) -> None:
    expressions = [found.expression for found in derived({"ready": {"type": type_}})]
    assert expressions == (["gadgets.status(ready=True)"] if derives else [])


GO = """\
func (o *Operator) gadget(gadget *Gadget) {
	gadget.Status.Phase = "Ready"
}

func (o *Operator) backup(backup *Backup) {
	backup.Status.Phase = "Completed"
}
"""
PYTHON = """\
@kopf.on.create("example.com", "v1", "gadgets")
def made(patch, **_):
    patch.status["phase"] = "Ready"

@kopf.on.create("example.com", "v1", "backups")
def saved(patch, **_):
    patch.status["phase"] = "Completed"
"""


@pytest.mark.parametrize("source", [GO, PYTHON])
def test_phases_of_a_kind_are_those_of_the_functions_that_name_it(source: str) -> None:
    gadgets = resource({"phase": {"type": "string"}})
    (of_functions, of_files) = sources_of(gadgets, [source, "func Helper() {}"])
    assert of_files == source
    (found,) = milestones(gadgets, {}, of_functions, "gadgets")
    assert found.expression == 'gadgets.status(phase="Ready")'
    (found,) = milestones(gadgets, {}, of_files, "gadgets")
    assert found.expression == 'gadgets.status(phase="Completed")'


def test_a_phase_that_passes_is_not_waited_for_where_jobs_do_the_work() -> None:
    phases = resource({"phase": {"type": "string", "enum": ["Pending", "Running"]}})
    assert milestones(phases, {}, "", "gadgets", runs_jobs=True) == []


def test_a_scale_subresource_says_how_many() -> None:
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    (found,) = derived({"replicas": {}, "readyReplicas": {}}, scale=scale)
    assert found.expression == "gadgets.status(readyReplicas=3)"


@pytest.mark.parametrize(
    "source",
    [
        "site.Status.ObservedGeneration = site.Generation",
        '{"observedGeneration": c.GetGeneration()}',
        "status.setObservedGeneration(site.getMetadata().getGeneration());",
        "SiteStatus { observed_generation: site.metadata.generation }",
    ],
)
def test_an_observed_generation_that_the_program_writes(source: str) -> None:
    (found,) = derived({"observedGeneration": {"type": "integer"}}, source)
    assert found.expression == "gadgets.status(observedGeneration=1)"
    assert derived({"observedGeneration": {"type": "integer"}}, "") == []


def test_nothing_is_derived_from_nothing() -> None:
    assert derived({}) == []
