"""What is made for a cluster that is there, as data: nodes, files of kwok, where metrics are read, what undoes it."""

from __future__ import annotations

import datetime
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_grovescale.cluster import kwok, ledger, nodes
from pytest_grovescale.cluster.definition import load_definition
from pytest_grovescale.cluster.existing import discovery, start
from pytest_grovescale.kube.access import Access
from pytest_grovescale.kube.errors import ApiError, Status


def manifest() -> dict[str, Any]:
    return next(nodes.manifests(load_definition("existing"), cluster="mine", prefixes={"node": "mine-node"}))


def test_only_a_kwok_that_is_there_shall_see_our_nodes() -> None:
    assert kwok.annotated(manifest(), "there")["metadata"]["annotations"] == {kwok.ANNOTATION: "fake"}
    assert kwok.annotated(manifest(), "host")["metadata"]["annotations"] == {}
    assert kwok.annotated(manifest(), "host")["metadata"]["labels"] == manifest()["metadata"]["labels"]


def test_our_kwok_takes_on_our_nodes_alone_and_keeps_them_alive() -> None:
    definition = load_definition("existing")
    given = kwok.arguments(definition.kwok, kubeconfig="k", port=1, nodes=kwok.nodes_labelled(nodes.selector("mine")))
    flags = dict(one.partition("=")[::2] for one in given)
    assert flags["--manage-all-nodes"] == "false"
    assert flags["--manage-nodes-with-label-selector"] == "grovescale.io/cluster=mine"
    assert flags["--node-lease-duration-seconds"] == "80"
    options = next(yaml.safe_load_all(kwok.configuration(definition)))["options"]
    assert options["nodeLeaseParallelism"] > 0, "kwok ends at once without, where there are leases"


def test_a_claim_distinguishes_two_clusters_of_one_name(tmp_path: Path) -> None:
    selectors = set()
    for machine in ("one", "two"):
        folder = tmp_path / machine / "existing"
        folder.mkdir(parents=True)
        owner = ledger.claimed(folder)
        assert ledger.of(folder) == owner
        assert owner.labels[ledger.CLUSTER_LABEL] == "existing"
        selectors.add(owner.selector)
    assert len(selectors) == 2
    assert ledger.of(tmp_path / "local").selector == "grovescale.io/cluster=local"


def test_where_metrics_are_read_no_secret_is_readable_by_others(tmp_path: Path) -> None:
    access = Access(server="https://a:1", ca_pem="CA", client_cert_pem="CERT", client_key_pem="KEY")
    found = discovery.endpoint(tmp_path, access)
    assert found.url == "https://a:1/metrics"
    assert (Path(found.cert_file).read_text(), Path(found.key_file).read_text()) == ("CERT", "KEY")
    assert found.token_file == ""
    assert stat.S_IMODE(Path(found.key_file).stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(found.key_file).parent.stat().st_mode) == 0o700


def test_a_token_that_is_renewed_in_its_file_is_read_from_there(tmp_path: Path) -> None:
    found = discovery.endpoint(tmp_path, Access(server="https://a:1", token_file="/run/token"))
    assert found.token_file == "/run/token"


def test_the_way_there_is_reported_to_readers_of_metrics(tmp_path: Path) -> None:
    access = Access(server="https://a:1", token="t", proxy="http://p:1", tls_server_name="b", insecure=True)
    found = discovery.endpoint(tmp_path, access)
    assert (found.proxy, found.server_name, found.insecure_skip_verify) == ("http://p:1", "b", True)


@pytest.mark.parametrize(("age_s", "held"), [(1, True), (3599, True), (3601, False)])
def test_the_lease_of_an_api_server_that_is_no_more_counts_no_server(age_s: float, held: bool) -> None:
    renewed = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=age_s)
    spec = {"renewTime": renewed.isoformat().replace("+00:00", "Z"), "leaseDurationSeconds": 3600}
    assert discovery.is_held(spec) is held


def test_what_undoes_it_has_a_small_environment_unless_a_plugin_wants_it_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUD_PROFILE", "team")
    assert "CLOUD_PROFILE" not in start.removal(tmp_path, whole_environment=False).env
    assert start.removal(tmp_path, whole_environment=True).env["CLOUD_PROFILE"] == "team"


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ('admission webhook "quota.example.com" denied the request: too many', "quota.example.com"),
        ('Internal error occurred: failed calling webhook "a.b": failed to call webhook: Post "https://x"', "a.b"),
        ("ValidatingAdmissionPolicy 'no-nodes' with binding 'all' denied request: none of those", "no-nodes"),
        ('nodes is forbidden: User "u" cannot create resource "nodes"', ""),
    ],
)
def test_who_did_not_let_a_request_through(message: str, name: str) -> None:
    assert ApiError(Status(message=message, code=403)).admission == name
