"""The root file system of a node: Debian, overlaid by kind's own files, ours, and Kubernetes' programs.

Follows the steps of kind's images/base/Dockerfile, in the same order.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from .. import packages
from ..processes import CommandFailed, Progress, run

SUITE = "bookworm"
"""Debian 12: a newer systemd no longer starts on a machine with cgroup v1."""

_PACKAGES = (
    "systemd,systemd-sysv,containerd,runc,containernetworking-plugins,conntrack,iptables,iproute2,ethtool,util-linux,"
    "mount,kmod,ca-certificates,jq,procps"
)
_OURS = Path(__file__).with_name("files")
_WANTS = (
    "lib/systemd/system/multi-user.target.wants/*",
    "etc/systemd/system/*.wants/*",
    "lib/systemd/system/local-fs.target.wants/*",
    "lib/systemd/system/sockets.target.wants/*udev*",
    "lib/systemd/system/sockets.target.wants/*initctl*",
    "lib/systemd/system/basic.target.wants/*",
    "lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
    # It starts /usr/bin/containerd; kind's own unit starts the one in /usr/local/bin.
    "lib/systemd/system/containerd.service",
)
_UNNEEDED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache/apt", "var/lib/apt/lists", "var/log")
_PROGRAM_FOLDERS = {"crictl": "usr/local/bin"}


def debian(root: Path, packages_wanted: str, cache: Path, progress: Progress) -> None:
    """Create a minimal Debian in a new folder; keeps its packages in ``cache``. Needs root."""
    progress(f"making a Debian {SUITE} with {packages_wanted.replace(',', ' ')}: about a minute")
    cache.mkdir(parents=True, exist_ok=True)
    options = ["--variant=minbase", f"--include={packages_wanted}", f"--cache-dir={cache}"]
    run([*packages.APART, "debootstrap", *options, SUITE, root, packages.debian_mirror()], timeout_s=900.0)
    strip(root)


def strip(root: Path) -> None:
    """Remove files that a container does not need: manuals, translations, package lists. The folders stay."""
    for name in _UNNEEDED:
        if (root / name).is_dir():
            empty(root / name)


def empty(folder: Path) -> None:
    """Remove all contents of a folder."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def make(root: Path, kind_files: Path, programs: Mapping[str, Path], version: str, cache: Path, say: Progress) -> None:
    """Create a node's root. ``programs`` are kubeadm, kubelet, kubectl and crictl by name."""
    debian(root, _PACKAGES, cache, say)
    say("laying kind's files over it")
    overlay(kind_files, root)
    overlay(_OURS, root)
    _settle_services(root)
    _link_programs(root)
    for name, path in programs.items():
        shutil.copy(path, root / _PROGRAM_FOLDERS.get(name, "usr/bin") / name)
    _configure_containerd(root)
    (root / "etc/kubernetes/manifests").mkdir(parents=True)
    (root / "kind/version").write_text(f"v{version}", encoding="utf-8")


def overlay(source: Path, root: Path) -> None:
    """Copy a tree over the root, with modes of its own: a module cache is read-only. Programs can be run."""
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        place = file.relative_to(source)
        target = root / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
        target.chmod(0o755 if place.parent.name == "bin" else 0o644)


def _settle_services(root: Path) -> None:
    for pattern in _WANTS:
        for entry in root.glob(pattern):
            entry.unlink()
    with (root / "etc/systemd/journald.conf").open("a", encoding="utf-8") as file:
        file.write("ReadKMsg=no\n")
    units = ["kubelet.service", "containerd.service", "undo-mount-hacks.service"]
    run(["chroot", root, "systemctl", "enable", *units])
    # It would set the kernel's binfmt_misc, which all containers share.
    run(["chroot", root, "systemctl", "mask", "systemd-binfmt.service"])


def _link_programs(root: Path) -> None:
    for name in ("containerd", "ctr", "containerd-shim-runc-v2"):
        (root / "usr/local/bin" / name).symlink_to(f"/usr/bin/{name}")
    plugins = root / "opt/cni/bin"
    plugins.mkdir(parents=True)
    for name in ("host-local", "loopback", "ptp", "portmap"):
        (plugins / name).symlink_to(f"/usr/lib/cni/{name}")


def _configure_containerd(root: Path) -> None:
    configuration = root / "etc/containerd/config.toml"
    text = configuration.read_text(encoding="utf-8")
    setting = "restrict_oom_score_adj = "
    if f"{setting}false" not in text:
        raise CommandFailed(f"kind's {configuration.name} does not say {setting}false any more")
    # Without CAP_SYS_RESOURCE no score can be lowered: a container that asks for it would not start.
    configuration.write_text(text.replace(f"{setting}false", f"{setting}true"), encoding="utf-8")
    spec = json.loads(run(["chroot", root, "ctr", "oci", "spec"]))
    (root / "etc/containerd/cri-base.json").write_text(json.dumps(container_spec(spec)), encoding="utf-8")


def container_spec(spec: dict[str, object]) -> dict[str, object]:
    """Return the base specification of a node's containers: with kind's hook, without resource limits."""
    process = spec["process"]
    assert isinstance(process, dict)
    return {
        **spec,
        "process": {key: value for key, value in process.items() if key != "rlimits"},
        "hooks": {"createContainer": [{"path": "/kind/bin/mount-product-files.sh"}]},
    }
