"""Pinned versions and what else is accepted."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import binary_sources, versions
from pytest_grovescale.errors import UsageError


@pytest.mark.parametrize(
    ("wanted", "full"), [("1.36", "1.36.3"), ("v1.35", "1.35.4"), ("1.34.1", "1.34.1"), (" 1.36.3 ", "1.36.3")]
)
def test_version_is_completed(wanted: str, full: str) -> None:
    assert versions.kubernetes(wanted) == full


@pytest.mark.parametrize("wanted", ["", "1", "1.33", "2.36", "1.36.3.1", "latest"])
def test_other_versions_are_refused_with_the_choice(wanted: str) -> None:
    with pytest.raises(UsageError, match=r"Supported: 1\.36\.3, 1\.35\.4, 1\.34\.4"):
        versions.kubernetes(wanted)


@pytest.mark.parametrize(
    ("name", "version", "fit"),
    [
        ("kube-apiserver", "1.36.0", True),
        ("kube-apiserver", "1.35.4", False),
        ("kubectl", "", False),
        ("etcd", "3.5.13", True),
        ("etcd", "3.5.9", False),
        ("etcd", "3.7.0", False),
        ("kwok", "0.7.0", True),
        ("kwok", "0.6.1", False),
        ("kwok", "", False),
    ],
)
def test_versions_of_binaries_that_the_user_has(name: str, version: str, fit: bool) -> None:
    assert versions.accepted(name, version, "1.36.3") is fit


def test_every_pinned_version_has_a_module_to_build_it_from() -> None:
    for kubernetes in versions.KUBERNETES.values():
        for name in (*versions.NEEDED, *versions.OPTIONAL):
            module = binary_sources.module(name, versions.pinned(name, kubernetes))
            assert module in binary_sources.modules()
            text = (binary_sources._MODULES / module / "go.mod").read_text()
            go = tuple(map(int, text.partition("\ngo ")[2].split("\n")[0].split(".")[:2]))
            assert go == versions.go_needed(name, kubernetes)


def test_releases_are_the_projects_own(snapshot: SnapshotAssertion) -> None:
    api = versions.release("kube-apiserver", "1.36.3", "arm64")
    assert api.url.startswith("https://dl.k8s.io/release/v1.36.3/")
    assert api.url == snapshot
    assert api.checksum_url == api.url + ".sha256"
    etcd = versions.release("etcd", "3.6.14", "amd64")
    assert etcd.url.endswith("/v3.6.14/etcd-v3.6.14-linux-amd64.tar.gz")
    assert etcd.member == "etcd-v3.6.14-linux-amd64/etcd"
    assert versions.release("kwok", "0.8.0", "amd64").url.endswith("/v0.8.0/kwok-linux-amd64")
