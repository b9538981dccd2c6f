"""All pinned versions, and the ranges of accepted ones. The only place to change them.

Release addresses are the projects' own: https://kubernetes.io/releases/download/ (binaries, a .sha256 beside each),
https://github.com/etcd-io/etcd/releases (archives, with SHA256SUMS), https://github.com/kubernetes-sigs/kwok/releases
(binaries; GitHub's release API gives the sha256 of each as its digest),
https://github.com/prometheus/prometheus/releases (archives, with sha256sums.txt),
https://github.com/kubernetes-sigs/kind/releases (binaries, a .sha256sum beside each; the notes name the node images),
https://github.com/kubernetes-sigs/kustomize/releases (archives, with checksums.txt).
"""

from __future__ import annotations

import re

import msgspec

from ..errors import UsageError
from ..suggestions import with_all

KUBERNETES = {"1.36": "1.36.3", "1.35": "1.35.4", "1.34": "1.34.4"}
"""Supported minor versions, newest first, each with the patch version that is downloaded or built."""

DEFAULT_KUBERNETES = "1.36.3"
ETCD = "3.6.14"
KWOK = "0.8.0"
PROMETHEUS = "3.13.5"
KIND = "0.32.0"
KUSTOMIZE = "5.8.1"
"""For kustomize folders, where no new kubectl is on PATH. Its build from modules took 29 s on two cores (377 packages,
a binary of 16 MB); that of kubectl, which contains it, has 896 packages, and its binary 60 MB."""

NODE_IMAGES = {
    "1.36": "kindest/node:v1.36.1@sha256:3489c7674813ba5d8b1a9977baea8a6e553784dab7b84759d1014dbd78f7ebd5",
    "1.35": "kindest/node:v1.35.5@sha256:ce977ae6d65918d0b58a5f8b5e940429c2ce42fa3a5619ec2bbc60b949c0ac95",
    "1.34": "kindest/node:v1.34.8@sha256:02722c2dedddcfc00febf5d27fbeb9b7b2c14294c82109ff4a85d89ac9ba3256",
}
"""Minor version → node image published for this version of kind; some patch versions of Kubernetes have none."""

KUBERNETES_BINARIES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
NEEDED = ("etcd", *KUBERNETES_BINARIES, "kwok")
OPTIONAL = ("kind", "kubectl", "kustomize", "prometheus")

SHA256 = {
    ("etcd", "3.6.14", "amd64"): "ffe840ff9295808e88cce2794a18a5ac87f12a5203c8314d0bf6aa119b41bac5",
    ("kind", "0.32.0", "amd64"): "50030de23cf40a18505f20426f6a8506bedf13c6e509244bd1fa9463721b0f54",
    ("kind", "0.32.0", "arm64"): "b92cd615e97585de8ddade28ed5cd7feb4248d717c233eea5b03c37298900f5d",
    ("kubectl", "1.36.3", "amd64"): "ebbd080e7c2e275093b55915722043257eb24004363e20acb3c4d71919f88336",
    ("kubectl", "1.36.3", "arm64"): "3d86f24401c41ae5a46ac50eef8865fe891d3647d324a0836f6c63757a126e62",
    ("kustomize", "5.8.1", "amd64"): "029a7f0f4e1932c52a0476cf02a0fd855c0bb85694b82c338fc648dcb53a819d",
    ("kwok", "0.8.0", "amd64"): "f5a4385a2ae1b9dd7f8acae18e002a75c0ebba124ae9d7259aa8dadb50711f46",
    ("kwok", "0.8.0", "arm64"): "628f7d277860f524a2a775c217adcc58828e7b59ab0933680315784f1b8b0e37",
}
"""Name, version, architecture → digest of the downloaded file (of etcd, the archive). Each was published by the project
and is pinned alike in the public repositories of at least two unrelated projects (kwok: nixpkgs and the Arch User
Repository).

Not here, since no two such sources were found: the servers of Kubernetes, whose changelogs publish the digests of whole
archives only (https://github.com/kubernetes/kubernetes/tree/master/CHANGELOG), Prometheus, etcd and kustomize for
arm64, and kubectl of the older versions. Their digests are read from ``checksum_url`` at the first download, and what
is stored is held to its digest from then on."""

# Versions of binaries from other sources are accepted within these ranges.
_ACCEPTED = {
    "etcd": ((3, 5, 13), (3, 7)),
    "kwok": ((0, 7), (0, 9)),
    "prometheus": ((2, 40), (4,)),
    "kind": ((0, 32), (1,)),
    "kustomize": ((5,), (6,)),
}

_GO = {"1.36": (1, 26), "1.35": (1, 25), "1.34": (1, 24)}
_GO_OTHERS = {"etcd": (1, 25), "kwok": (1, 26), "prometheus": (1, 26), "kind": (1, 24), "kustomize": (1, 24)}


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """Address and checksum of an official binary."""

    url: str
    checksum_url: str
    checksum: str
    """Format of ``checksum_url``: ``plain`` (the digest alone), ``sums`` (digest, name per line), ``github``."""
    member: str = ""
    """Path inside the archive; empty for a bare binary."""
    sha256: str = ""
    """Pinned digest of the download; empty: that of ``checksum_url`` is trusted at the first download."""


class DebianPackage(msgspec.Struct, frozen=True):
    """A Debian package that contains a binary."""

    name: str
    member: str
    """Path of the binary in the package."""


DEBIAN = {"prometheus": DebianPackage("prometheus", "usr/bin/prometheus")}
"""Binaries in Debian; any version within the accepted range."""


def kubernetes(requested: str) -> str:
    """Return the full version for ``1.35``, ``1.35.2`` or ``v1.35.2``; raises UsageError for one not supported."""
    match = re.fullmatch(r"v?(\d+\.\d+)(\.\d+)?", requested.strip())
    if match is None or match[1] not in KUBERNETES:
        raise UsageError(
            f"Kubernetes {requested} is not supported",
            next_step=with_all(requested, KUBERNETES.values(), what="Supported"),
        )
    return f"{match[1]}{match[2]}" if match[2] else KUBERNETES[match[1]]


def minor(version: str) -> str:
    """Return ``1.36`` for ``1.36.3``."""
    return ".".join(version.split(".")[:2])


def pinned(name: str, kubernetes_version: str) -> str:
    """Return the version of a binary for a Kubernetes version."""
    return {"etcd": ETCD, "kwok": KWOK, "prometheus": PROMETHEUS, "kind": KIND, "kustomize": KUSTOMIZE}.get(
        name, kubernetes_version
    )


def accepted(name: str, version: str, kubernetes_version: str) -> bool:
    """Return whether a binary from another source can be used."""
    if name in _ACCEPTED:
        low, high = _ACCEPTED[name]
        return low <= _numbers(version) < high
    return minor(version) == minor(kubernetes_version)


def go_needed(name: str, kubernetes_version: str) -> tuple[int, int]:
    """Return the minimum Go version of a build."""
    return _GO_OTHERS.get(name) or _GO[minor(kubernetes_version)]


def release(name: str, version: str, architecture: str) -> Release:
    """Return the address of the official Linux binary, with its digest if that is pinned."""
    published = _published(name, version, architecture)
    return msgspec.structs.replace(published, sha256=SHA256.get((name, version, architecture), ""))


def _published(name: str, version: str, architecture: str) -> Release:
    if name == "etcd":
        base = f"https://github.com/etcd-io/etcd/releases/download/v{version}"
        archive = f"etcd-v{version}-linux-{architecture}"
        return Release(
            url=f"{base}/{archive}.tar.gz",
            checksum_url=f"{base}/SHA256SUMS",
            checksum="sums",
            member=f"{archive}/etcd",
        )
    if name == "prometheus":
        base = f"https://github.com/prometheus/prometheus/releases/download/v{version}"
        archive = f"prometheus-{version}.linux-{architecture}"
        return Release(
            url=f"{base}/{archive}.tar.gz",
            checksum_url=f"{base}/sha256sums.txt",
            checksum="sums",
            member=f"{archive}/prometheus",
        )
    if name == "kustomize":
        base = f"https://github.com/kubernetes-sigs/kustomize/releases/download/kustomize%2Fv{version}"
        return Release(
            url=f"{base}/kustomize_v{version}_linux_{architecture}.tar.gz",
            checksum_url=f"{base}/checksums.txt",
            checksum="sums",
            member="kustomize",
        )
    if name == "kwok":
        repository = "kubernetes-sigs/kwok/releases"
        return Release(
            url=f"https://github.com/{repository}/download/v{version}/kwok-linux-{architecture}",
            checksum_url=f"https://api.github.com/repos/{repository}/tags/v{version}",
            checksum="github",
        )
    if name == "kind":
        url = f"https://github.com/kubernetes-sigs/kind/releases/download/v{version}/kind-linux-{architecture}"
        return Release(url=url, checksum_url=f"{url}.sha256sum", checksum="sums")
    url = f"https://dl.k8s.io/release/v{version}/bin/linux/{architecture}/{name}"
    return Release(url=url, checksum_url=f"{url}.sha256", checksum="plain")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
