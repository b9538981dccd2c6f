"""The rights that a run asks for beforehand are those of the file that an administrator applies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_grovescale import resources
from pytest_grovescale.cluster import rbac
from pytest_grovescale.cluster.rbac import Right
from pytest_grovescale.errors import DefinitionError

ROLE = """
kind: ClusterRole
metadata:
  name: one
  annotations: {grovescale.io/needed: "%s", grovescale.io/without: nothing works}
rules:
  - {apiGroups: [apps, ""], resources: [deployments/scale, pods], verbs: [get, list]}
  - {nonResourceURLs: [/metrics], verbs: [get]}
"""


def shipped() -> list[dict[str, Any]]:
    text = resources.find(rbac.FOLDER, rbac.FILE).read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def test_every_rule_of_the_shipped_file_is_asked_for_once() -> None:
    rules = [rule for document in shipped() for rule in document.get("rules", ())]
    granted = {
        (verb, group, what)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule.get("apiGroups", [""])
        for what in rule.get("resources", rule.get("nonResourceURLs"))
    }
    asked = [
        (right.verb, right.group, right.path or "/".join(filter(None, (right.resource, right.subresource))))
        for right in rbac.rights()
    ]
    assert sorted(asked) == sorted(granted)


def test_what_is_needed_comes_first() -> None:
    needed = [right.needed for right in rbac.rights()]
    assert needed == sorted(needed, reverse=True)
    assert any(needed)
    assert not all(needed)


def test_nothing_is_granted_wholesale() -> None:
    for right in rbac.rights():
        assert "*" not in (right.verb, right.group, right.resource, right.path), right.text


def test_only_one_role_may_do_more_than_it_grants_and_it_is_not_bound() -> None:
    roles = {right.role for right in rbac.rights() if right.verb in ("escalate", "bind", "impersonate")}
    assert roles == {"grovescale-harness-grant"}
    bound = {document["roleRef"]["name"] for document in shipped() if document["kind"] == "ClusterRoleBinding"}
    assert bound == {right.role for right in rbac.rights()} - roles


def test_a_rule_becomes_a_right_for_each_verb_and_resource(tmp_path: Path) -> None:
    file = tmp_path / "roles.yaml"
    file.write_text(ROLE % "true", encoding="utf-8")
    assert [right.text for right in rbac.rights(file)] == [
        "get deployments.apps/scale",
        "get pods.apps",
        "get deployments/scale",
        "get pods",
        "list deployments.apps/scale",
        "list pods.apps",
        "list deployments/scale",
        "list pods",
        "get /metrics",
    ]


def test_a_right_of_two_roles_counts_as_needed(tmp_path: Path) -> None:
    file = tmp_path / "roles.yaml"
    file.write_text((ROLE % "false").replace("one", "two") + "---" + ROLE % "true", encoding="utf-8")
    assert {(right.role, right.needed) for right in rbac.rights(file)} == {("one", True)}


@pytest.mark.parametrize(
    "text", [ROLE % "perhaps", ROLE.replace("grovescale.io/without", "why") % "true", "kind: Role"]
)
def test_a_role_that_does_not_say_what_it_is_for_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "roles.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DefinitionError, match=r"roles\.yaml:1: "):
        rbac.rights(file)


def test_the_review_of_a_resource_and_of_a_path() -> None:
    scale = Right(
        verb="get", group="apps", resource="deployments", subresource="scale", role="r", needed=True, without=""
    )
    assert rbac.review(scale, "mine")["spec"] == {
        "resourceAttributes": {
            "verb": "get",
            "group": "apps",
            "resource": "deployments",
            "subresource": "scale",
            "namespace": "mine",
        }
    }
    metrics = Right(verb="get", path="/metrics", role="r", needed=False, without="")
    assert rbac.review(metrics)["spec"] == {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}
