"""What pods cannot start without, by their specs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.recording.object_references import MANY, PodLabels, any_kind, dropped, needed, selected, selector
from pytest_grovescale.redaction import REDACTED

SPEC: dict[str, Any] = {
    "volumes": [
        {"name": "a", "configMap": {"name": "mounted"}},
        {"name": "b", "secret": {"secretName": "keys"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "disk"}},
        {"name": "d", "projected": {"sources": [{"configMap": {"name": "projected"}}, {"downwardAPI": {}}]}},
        {"name": "e", "configMap": {"name": "perhaps", "optional": True}},
        {"name": "f", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}},
        {"name": "g", "emptyDir": {}},
    ],
    "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "first"}}]}],
    "containers": [
        {
            "name": "c",
            "env": [
                {"name": "X", "value": "1"},
                {"name": "Y", "valueFrom": {"configMapKeyRef": {"name": "variable", "key": "y"}}},
                {"name": "Z", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
        }
    ],
}
NEEDS = [
    "configmaps/mounted",
    "configmaps/projected",
    "configmaps/variable",
    "persistentvolumeclaims/disk",
    "secrets/first",
    "secrets/keys",
]


def encoded(content: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(content))


@pytest.mark.parametrize(
    ("resource", "content"),
    [("pods", {"spec": SPEC}), ("deployments.apps", {"spec": {"replicas": 1, "template": {"spec": SPEC}}})],
)
def test_references_that_are_not_optional_are_needed(resource: str, content: dict[str, Any]) -> None:
    assert needed(resource, encoded(content)) == NEEDS


def test_those_that_select_the_same_pods_have_one_checksum() -> None:
    def of(resource: str, selector: Any) -> str:
        return selected(resource, encoded({"spec": {"selector": selector}}))

    assert of("services", {"app": "a"}) == of("services", {"app": "a"}) != of("services", {"app": "b"})
    assert of("poddisruptionbudgets.policy", {"matchLabels": {"app": "a"}})
    # One without a selector, and what selects no pods.
    no_specs: list[dict[str, Any]] = [{}, {"spec": None}, {"spec": {}}]
    without = [selected("services", encoded(content)) for content in no_specs]
    assert [*without, of("services", None), of("pods", {"app": "a"})] == [""] * 5


@pytest.mark.parametrize(
    ("resource", "spec", "wanted"),
    [
        ("services", {"selector": {"app": "a"}}, {"app": "a"}),
        ("services", {"selector": None}, {}),
        ("services", {}, {}),
        ("services", {"selector": {"access-token": "Zk3n9Qp2wLx8vT5rBy7c"}}, {"access-token": REDACTED}),
        ("networkpolicies.networking.k8s.io", {"podSelector": {"matchLabels": {"app": "a"}}}, {"app": "a"}),
        ("networkpolicies.networking.k8s.io", {"podSelector": {}}, {}),  # all pods
        ("networkpolicies.networking.k8s.io", {"podSelector": {"matchExpressions": [{"key": "app"}]}}, {}),
        ("deployments.apps", {"selector": {"matchLabels": {"app": "a"}}}, {}),  # the API server compares it itself
    ],
)
def test_labels_that_are_wanted_of_pods(resource: str, spec: dict[str, Any], wanted: dict[str, str]) -> None:
    assert selector(resource, encoded({"spec": spec})) == wanted


def test_each_label_of_pods_is_new_once_in_its_namespace() -> None:
    seen = PodLabels()

    def new(namespace: str, **labels: str) -> dict[str, str]:
        return seen.new(namespace, msgspec.json.encode(labels))

    assert [new("t", app="a", of="x"), new("t", app="a", of="y"), new("u", app="a"), seen.new("t", b"")] == [
        {"app": "a", "of": "x"},
        {"of": "y"},
        {"app": "a"},
        {},
    ]
    many = [new("v", number=str(number)) for number in range(3000)]
    assert [one for one in many if one][-2:] == [{"number": "1023"}, {"number": MANY}]


def test_fields_of_other_kinds_say_what_they_name() -> None:
    assert needed("widgets.example.com", encoded({"spec": "any"})) == []
    spec = {
        "credentialsSecretRef": {"key": "t", "name": "a"},
        "sources": [{"secretName": "b"}, {"configMap": {"items": [{"name": "no"}], "name": "late"}}],
        "configMapName": "c",
        "issuer": "internal",
        "password": "hunter2",
        "text": 'secretName: "d"',
    }
    widget = encoded({"metadata": {"name": "not-in-spec"}, "spec": spec})
    others = [any_kind("internal"), any_kind("late")]
    assert needed("widgets.example.com", widget) == ["configmaps/c", "secrets/a", "secrets/b", *others]
    assert needed("configmaps", encoded({"spec": spec, "data": {"secret": "x"}})) == []


def test_what_a_spec_names_no_more() -> None:
    before = {"owners": ["alice", "bob"], "pools": {"fast": {"size": 1}, "slow": {"size": 2}}, "tokens": ["swordfish"]}
    after = {"owners": ["alice"], "pools": {"slow": {"size": 3}}, "tokens": []}

    def lost(resource: str, old: Any, new: Any) -> list[str]:
        return dropped(resource, encoded(old), encoded(new))

    assert lost("widgets.example.com", before, after) == [any_kind("bob"), any_kind("fast")]
    assert lost("widgets.example.com", before, before) == lost("services", before, after) == []
    assert dropped("widgets.example.com", b"", encoded(after)) == []
    assert lost("widgets.example.com", {"text": "a" * 70_000, "name": "bob"}, {}) == []


@given(st.sets(st.sampled_from(["volumes", "initContainers", "containers"])), st.booleans())
def test_any_part_of_a_spec_may_be_missing(parts: set[str], null: bool) -> None:
    spec = {part: None if null and part != "containers" else SPEC[part] for part in parts}
    assert set(needed("pods", encoded({"spec": spec}))) <= set(NEEDS)


BINDING: dict[str, Any] = {
    "metadata": {"name": "b", "namespace": "t"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
    "subjects": [
        {"kind": "ServiceAccount", "name": "own"},
        {"kind": "ServiceAccount", "name": "near", "namespace": "t"},
        {"kind": "ServiceAccount", "name": "far", "namespace": "other"},
        {"kind": "User", "name": "someone"},
    ],
}
INGRESS: dict[str, Any] = {
    "spec": {
        "defaultBackend": {"service": {"name": "front", "port": {"number": 80}}},
        "tls": [{"hosts": ["a"], "secretName": "certificate"}, {"hosts": ["b"]}],
        "rules": [{"http": {"paths": [{"backend": {"service": {"name": "back"}}}, {"backend": {}}]}}, {"host": "c"}],
    }
}
TEMPLATE: dict[str, Any] = {"spec": {"serviceAccountName": "runner", "containers": []}}


@pytest.mark.parametrize(
    ("resource", "content", "wanted"),
    [
        (
            "rolebindings.rbac.authorization.k8s.io",
            BINDING,
            ["roles.rbac.authorization.k8s.io/reader", "serviceaccounts/near", "serviceaccounts/own"],
        ),
        ("ingresses.networking.k8s.io", INGRESS, ["secrets/certificate", "services/back", "services/front"]),
        (
            "horizontalpodautoscalers.autoscaling",
            {"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}}},
            ["deployments.apps/web"],
        ),
        ("horizontalpodautoscalers.autoscaling", {"spec": {"scaleTargetRef": {"kind": "Widget", "name": "w"}}}, []),
        (
            "statefulsets.apps",
            {"spec": {"serviceName": "peers", "template": TEMPLATE}},
            ["serviceaccounts/runner", "services/peers"],
        ),
        ("cronjobs.batch", {"spec": {"jobTemplate": {"spec": {"template": TEMPLATE}}}}, ["serviceaccounts/runner"]),
        ("pods", {"spec": {"serviceAccountName": "default"}}, []),
    ],
)
def test_what_other_kinds_name(resource: str, content: dict[str, Any], wanted: list[str]) -> None:
    assert needed(resource, encoded(content)) == wanted
