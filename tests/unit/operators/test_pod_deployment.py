"""What a start changes in the operator's Deployment, and what it leaves as it is."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.errors import DefinitionError
from pytest_grovescale.operator.manifests import Manifest
from pytest_grovescale.operator.pods.definition import Changes, Chosen, changed, choose
from pytest_grovescale.operator.schema import Pod

Object = dict[str, Any]

ENV = [{"name": "KEPT", "value": "1"}, {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]


def deployment(**template: Any) -> Object:
    containers = [
        {"name": "main", "image": "robot:1", "args": ["--a"], "env": copy.deepcopy(ENV), "imagePullPolicy": "Always"},
        {"name": "side", "image": "side:1"},
    ]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "robot"},
        "spec": {
            "selector": {"matchLabels": {"tier": "back", "app": "robot"}},
            "template": {"spec": {"containers": containers, **template}},
        },
    }


def fail(name: str, message: str) -> DefinitionError:
    return DefinitionError(f"pod.{name}: {message}")


def chosen(obj: Object) -> Chosen:
    return choose([Manifest(obj, "robot.yaml:1")], Pod(manifests=["m"], container="main"), "robots", fail)


def main_container(obj: Object) -> Object:
    found: Object = obj["spec"]["template"]["spec"]["containers"][0]
    return found


def test_what_is_chosen() -> None:
    found = chosen(deployment())
    assert (found.namespace, found.name, found.container) == ("robots", "robot", "main")
    assert found.selector == "app=robot,tier=back"
    assert (found.service_account, found.replicas) == ("default", 1)


def test_arguments_environment_and_image() -> None:
    changes = Changes(image="robot:2", loaded=True, arguments=["--b"], env={"SECRET": "x", "NEW": "y"}, replicas=3)
    obj = changed(chosen(deployment()), changes)
    main = main_container(obj)
    assert (main["image"], main["imagePullPolicy"], main["args"]) == ("robot:2", "IfNotPresent", ["--a", "--b"])
    assert main["env"] == [ENV[0], {"name": "SECRET", "value": "x"}, {"name": "NEW", "value": "y"}]
    assert obj["spec"]["replicas"] == 3
    assert obj["metadata"]["namespace"] == "robots"
    assert obj["spec"]["template"]["spec"]["containers"][1] == {"name": "side", "image": "side:1"}


def test_it_is_kept_off_simulated_nodes_under_every_alternative() -> None:
    terms = [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"matchFields": [{"key": "b"}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    for template, count in (({"affinity": affinity}, 2), ({}, 1)):
        obj = changed(chosen(deployment(**copy.deepcopy(template))), Changes())
        node = obj["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        found = node["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert len(found) == count
        assert all(term["matchExpressions"][-1]["operator"] == "DoesNotExist" for term in found)
    assert found == [{"matchExpressions": [{"key": "grovescale.io/pool", "operator": "DoesNotExist"}]}]


def test_tolerations_are_added() -> None:
    obj = changed(chosen(deployment(tolerations=[{"key": "mine"}])), Changes(tolerations=[{"key": "more"}]))
    assert obj["spec"]["template"]["spec"]["tolerations"] == [{"key": "mine"}, {"key": "more"}]


texts = st.text("abc-", min_size=1, max_size=4)


@given(st.lists(texts), st.dictionaries(texts, texts), st.none() | st.integers(1, 5))
def test_nothing_else_changes(arguments: list[str], env: dict[str, str], replicas: int | None) -> None:
    before = deployment()
    untouched = copy.deepcopy(before)
    obj = changed(chosen(before), Changes(arguments=arguments, env=env, replicas=replicas))
    assert before == untouched
    main = main_container(obj)
    assert main["args"] == ["--a", *arguments]
    named = {entry["name"]: entry for entry in main["env"]}
    assert len(named) == len(main["env"])
    assert {name: entry["value"] for name, entry in named.items() if name in env} == env
    assert named["KEPT"] == ENV[0]
    # Take out again what a start puts in: the rest is as it was.
    main["args"], main["env"] = ["--a"], ENV
    del obj["spec"]["template"]["spec"]["affinity"]
    obj["spec"].pop("replicas", None)
    del obj["metadata"]["namespace"]
    assert obj == untouched
