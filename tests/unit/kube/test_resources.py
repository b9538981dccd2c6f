"""Discovery: any name that kubectl takes finds the resource; a wrong one finds help."""

from __future__ import annotations

import json

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import UsageError
from pytest_grovescale.kube.resources import Resource, UnknownResource, find, parse

PODS = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True, singular="pod", short_names=("po",))
METRICS_PODS = Resource(group="metrics.k8s.io", version="v1beta1", plural="pods", kind="PodMetrics", namespaced=True)
PCS = Resource(
    group="grove.io",
    version="v1alpha1",
    plural="podcliquesets",
    kind="PodCliqueSet",
    namespaced=True,
    singular="podcliqueset",
    short_names=("pcs",),
)
NODES = Resource(group="", version="v1", plural="nodes", kind="Node", namespaced=False, singular="node")
ALL = [METRICS_PODS, PODS, PCS, NODES]


@pytest.mark.parametrize("name", ["pods", "pod", "Pod", "po", "PODS"])
def test_core_group_wins(name: str) -> None:
    assert find(ALL, name) is PODS


@pytest.mark.parametrize("name", ["pcs", "PodCliqueSet", "podcliquesets", "podcliquesets.grove.io", "pcs.grove.io"])
def test_custom_resource(name: str) -> None:
    assert find(ALL, name) is PCS


def test_api_version_narrows() -> None:
    assert find(ALL, "pods", "metrics.k8s.io/v1beta1") is METRICS_PODS


def test_unknown_name_suggests_near_ones() -> None:
    with pytest.raises(UnknownResource, match="'podcliqueset5'") as caught:
        find(ALL, "podcliqueset5")
    assert "podcliqueset" in caught.value.next_step
    assert "CRD" in caught.value.next_step


def test_a_version_that_is_served_is_named() -> None:
    with pytest.raises(UnknownResource) as caught:
        find(ALL, "PodCliqueSet", "grove.io/v1beta7")
    assert f"It serves one of {PCS.api_version}:" in caught.value.next_step


def test_paths(snapshot: SnapshotAssertion) -> None:
    assert PODS.path("ns") == "/api/v1/namespaces/ns/pods"
    assert PODS.path() == "/api/v1/pods"
    assert NODES.path("ignored", "n1", "status") == "/api/v1/nodes/n1/status"
    assert PCS.path("ns", "a b").endswith("/podcliquesets/a%20b")
    assert PCS.path("ns", "a b") == snapshot


def test_parse_aggregated_discovery() -> None:
    document = {
        "kind": "APIGroupDiscoveryList",
        "items": [
            {
                "metadata": {"name": "grove.io"},
                "versions": [
                    {
                        "version": "v1alpha1",
                        "resources": [
                            {
                                "resource": "podcliquesets",
                                "responseKind": {"kind": "PodCliqueSet"},
                                "scope": "Namespaced",
                                "singularResource": "podcliqueset",
                                "shortNames": ["pcs"],
                                "verbs": ["get", "list"],
                                "subresources": [{"subresource": "status"}, {"subresource": "scale"}],
                            }
                        ],
                    }
                ],
            }
        ],
    }
    (found,) = parse(json.dumps(document).encode())
    assert find([found], "pcs").subresources == ("status", "scale")
    assert found.qualified == "podcliquesets.grove.io"


def test_old_discovery_is_refused_with_the_version_needed() -> None:
    with pytest.raises(UsageError, match="APIGroupList") as caught:
        parse(b'{"kind": "APIGroupList"}')
    assert "1.27" in caught.value.next_step
