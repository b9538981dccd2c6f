"""What a definition for a cluster that is there may say, and how one is meant on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from pytest_grovescale.cluster.definition import Existing, load_definition
from pytest_grovescale.errors import DefinitionError, UsageError

TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
WHOLE: dict[str, Any] = {
    "name": "shared",
    "backend": "existing",
    "nodes": [{"prefix": "node", "count": 2, "taints": [TAINT]}],
    "stages": ["node-initialize.yaml"],
}


def written(folder: Path, **fields: Any) -> str:
    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump({**WHOLE, **fields}), encoding="utf-8")
    return str(file)


def test_the_bundled_one_takes_a_context_from_the_command_line() -> None:
    found = load_definition("existing:team-a:blue")
    assert found.backend == "existing"
    assert found.existing == Existing(context="team-a:blue")
    assert load_definition("existing").existing == Existing()


def test_nodes_leases_are_renewed_in_time_for_a_node_lifecycle_controller() -> None:
    # A quarter of it, and two tries, within node-monitor-grace-period before Kubernetes 1.32: 40 s.
    assert 0 < load_definition("existing").kwok.lease_seconds / 4 <= 20


def test_no_context_after_the_colon_is_refused() -> None:
    with pytest.raises(UsageError, match="names no context"):
        load_definition("existing:")


def test_a_file_of_that_name_that_uses_the_pods_credentials_takes_no_context(tmp_path: Path) -> None:
    folder = tmp_path / "fixtures/clusters"
    folder.mkdir(parents=True)
    (folder / "existing.yaml").write_text(yaml.safe_dump({**WHOLE, "existing": {"in_cluster": True}}))
    assert load_definition("existing", base=tmp_path).existing == Existing(in_cluster=True)
    with pytest.raises(UsageError, match="names no context"):
        load_definition("existing:mine", base=tmp_path)


def test_the_kubeconfig_is_beside_the_definition(tmp_path: Path) -> None:
    (tmp_path / "team.kubeconfig").touch()
    found = load_definition(written(tmp_path, existing={"kubeconfig": "team.kubeconfig", "context": "a"}))
    assert found.existing is not None
    assert found.existing.kubeconfig == str(tmp_path / "team.kubeconfig")


@pytest.mark.parametrize(
    ("fields", "reported"),
    [
        ({"existing": {"kubeconfig": "absent"}}, "existing.kubeconfig: no such file"),
        ({"existing": {"in_cluster": True, "context": "a"}}, "existing.in_cluster: takes the pod's own credentials"),
        ({"api_server": {"max_requests_inflight": 10}}, "api_server: is set by the creator of the cluster"),
        ({"scheduler": {"limits": {"qps": 1, "burst": 1}}}, "scheduler: is set by the creator of the cluster"),
        ({"nodes": [{"prefix": "node", "count": 2}]}, "nodes.0: has no taint"),
        ({"nodes": [{"prefix": "node", "count": 0, "taints": [TAINT]}]}, "nodes: has no node"),
        ({"backend": "local", "existing": {}}, "existing: is for the backend existing; this one is local"),
    ],
)
def test_what_cannot_be_is_reported_with_its_line(tmp_path: Path, fields: dict[str, Any], reported: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        load_definition(written(tmp_path, **fields))
    assert reported.replace("nodes.0", "nodes[0]") in caught.value.message
    assert f"{tmp_path / 'cluster.yaml'}:" in caught.value.message
    assert caught.value.next_step


def test_its_kubernetes_version_cannot_be_chosen() -> None:
    with pytest.raises(UsageError, match="a cluster that is there decides"):
        load_definition("existing").with_version("1.35")


def test_a_taint_that_keeps_pods_off_is_wanted_not_a_preference(tmp_path: Path) -> None:
    soft = [{"prefix": "node", "count": 2, "taints": [{**TAINT, "effect": "PreferNoSchedule"}]}]
    with pytest.raises(DefinitionError, match="other people's pods"):
        load_definition(written(tmp_path, nodes=soft))


def test_two_runs_that_mean_other_contexts_are_not_alike() -> None:
    encoded = {msgspec.json.encode(load_definition(f"existing:{name}")) for name in ("one", "two")}
    assert len(encoded) == 2
