"""The operator in a pod: its ServiceAccount's credentials, and a replica that stands by."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import pki
from pytest_grovescale.reference_operator import credentials, program, settings
from pytest_grovescale.reference_operator.api_client import ApiClient
from pytest_grovescale.reference_operator.credentials import CredentialsError
from tests.golden import masked


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the kubelet puts into a pod."""
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_text(pki.create((), service_ip="10.0.0.1").ca_pem)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return tmp_path


def test_credentials_of_the_pod(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = credentials.in_cluster(account)
    assert found.server == "https://10.0.0.1:443"
    assert found.authorization() == "Bearer first"
    # The kubelet replaces it before it runs out.
    (account / "token").write_text("second, which is longer")
    assert found.authorization(now=True) == "Bearer second, which is longer"
    assert found.renewable
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    assert credentials.in_cluster(account).server == "https://[fd00::1]:443"


def test_no_pod_and_no_kubeconfig(account: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion) -> None:
    (account / "token").unlink()
    with pytest.raises(CredentialsError) as caught:
        credentials.in_cluster(account)
    assert masked(str(caught.value), {account: "folder"}) == snapshot
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    (account / "token").write_text("x")
    with pytest.raises(CredentialsError):
        credentials.in_cluster(account)


def test_kubeconfig_may_be_left_out() -> None:
    assert settings.parse([]).kubeconfig is None
    assert settings.parse(["--kubeconfig", "k"]).kubeconfig == Path("k")


def test_one_that_stands_by_is_ready(account: Path) -> None:
    """Or a Deployment of several would never be rolled out."""
    operator = program.Operator(ApiClient(credentials.in_cluster(account)), settings.parse([]))
    assert not operator.ready()
    operator.standing_by = True
    assert operator.ready()
