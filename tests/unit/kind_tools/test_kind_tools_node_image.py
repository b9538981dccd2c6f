"""The pieces of a node image that can be told without making one."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from tools.kind import contents, node_images
from tools.kind.node_image import build, root
from tools.kind.processes import CommandFailed

LISTED = [
    "registry.k8s.io/kube-apiserver:v1.36.3",
    "registry.k8s.io/kube-controller-manager:v1.36.3",
    "registry.k8s.io/kube-scheduler:v1.36.3",
    "registry.k8s.io/kube-proxy:v1.36.3",
    "registry.k8s.io/coredns/coredns:v1.14.2",
    "registry.k8s.io/pause:3.10.1",
    "registry.k8s.io/etcd:3.6.8-0",
]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_images_are_those_that_kubeadm_asks_for() -> None:
    assert build.component_images(LISTED) == {
        "kube-apiserver": "registry.k8s.io/kube-apiserver:v1.36.3",
        "kube-controller-manager": "registry.k8s.io/kube-controller-manager:v1.36.3",
        "kube-scheduler": "registry.k8s.io/kube-scheduler:v1.36.3",
        "etcd": "registry.k8s.io/etcd:3.6.8-0",
    }


def test_a_component_that_kubeadm_does_not_list_is_an_error() -> None:
    with pytest.raises(CommandFailed, match="no image of etcd"):
        build.component_images(LISTED[:-1])


def test_read_only_files_are_laid_over_with_modes_of_their_own(tmp_path: Path) -> None:
    source = tmp_path / "module"
    for name in ("usr/local/bin/entrypoint", "kind/bin/hook.sh", "etc/containerd/config.toml"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
        (source / name).chmod(0o444)
    target = tmp_path / "root"
    (target / "etc/containerd").mkdir(parents=True)
    (target / "etc/containerd/config.toml").write_text("the package's own")
    root.overlay(source, target)
    assert mode(target / "usr/local/bin/entrypoint") == mode(target / "kind/bin/hook.sh") == 0o755
    assert mode(target / "etc/containerd/config.toml") == 0o644
    assert (target / "etc/containerd/config.toml").read_text() == "etc/containerd/config.toml"


def test_what_no_one_reads_is_removed_and_its_folders_stay(tmp_path: Path) -> None:
    (tmp_path / "usr/share/doc/bash").mkdir(parents=True)
    (tmp_path / "var/log").mkdir(parents=True)
    (tmp_path / "var/log/dpkg.log").write_text("x")
    (tmp_path / "var/log/old").symlink_to("elsewhere")
    root.strip(tmp_path)
    assert list((tmp_path / "usr/share/doc").iterdir()) == list((tmp_path / "var/log").iterdir()) == []


def test_containers_start_with_the_hook_and_without_limits(snapshot: SnapshotAssertion) -> None:
    spec: dict[str, object] = {"ociVersion": "1.0.2", "process": {"cwd": "/", "rlimits": [{"type": "RLIMIT_NOFILE"}]}}
    made = root.container_spec(spec)
    assert made == {"ociVersion": "1.0.2", "process": {"cwd": "/"}, "hooks": made["hooks"]}
    assert made["hooks"] == snapshot


def test_our_own_files_can_be_read() -> None:
    files = Path(root.__file__).parent / "files"
    for path in files.rglob("*.yaml"):
        assert yaml.safe_load(path.read_text(encoding="utf-8"))["kind"]
    assert yaml.safe_load((files / "kind/kubelet.conf.d/10-cgroups.conf").read_text())["failCgroupV1"] is False
    network = json.loads((files / "etc/cni/net.d/10-ptp.conflist").read_text())
    assert [plugin["type"] for plugin in network["plugins"]] == ["ptp", "portmap"]


def test_each_version_of_kubernetes_has_a_recipe_of_its_own() -> None:
    assert node_images.recipe("1.36.3") == node_images.recipe("1.36.3") != node_images.recipe("1.35.4")


TREES = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.binary(max_size=4), max_size=3)


@given(first=TREES, second=TREES)
def test_a_digest_distinguishes_two_folders(
    tmp_path_factory: pytest.TempPathFactory, first: dict[str, bytes], second: dict[str, bytes]
) -> None:
    digests = []
    for tree in (first, second):
        folder = tmp_path_factory.mktemp("tree")
        for name, content in tree.items():
            (folder / name).write_bytes(content)
        digests.append(contents.digest([folder], "word"))
        assert contents.digest([folder], "other") != digests[-1]
    assert (digests[0] == digests[1]) == (first == second)
