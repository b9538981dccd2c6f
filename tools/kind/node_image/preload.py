"""Imports images into a node's containerd before its first start, with that containerd itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from .. import packages
from ..processes import CommandFailed, Progress, run
from .root import empty

_START_S = 30
_NAMESPACE = "k8s.io"
_DAEMON = 'mount -t proc proc "$0/proc" && exec chroot "$0" containerd --config /dev/null --log-level warn'


def preload(root: Path, archive: Path, progress: Progress) -> None:
    """Import an image archive into the containerd of a root. Raises CommandFailed."""
    progress("loading the control plane's images into the node image")
    inside = root / archive.name
    shutil.copyfile(archive, inside)
    daemon = subprocess.Popen(
        [*packages.APART, "sh", "-c", _DAEMON, str(root)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        _wait(daemon, root)
        load = ["images", "import", "--all-platforms", "--no-unpack", "--digests", f"/{archive.name}"]
        run(["chroot", root, "ctr", "--namespace", _NAMESPACE, *load])
    finally:
        daemon.terminate()
        daemon.communicate()
        inside.unlink()
        empty(root / "run")


def _wait(daemon: subprocess.Popen[bytes], root: Path) -> None:
    for _ in range(_START_S * 4):
        try:
            daemon.wait(0.25)
        except subprocess.TimeoutExpired:
            if (root / "run/containerd/containerd.sock").exists():
                return
        else:
            assert daemon.stderr is not None
            raise CommandFailed(f"the node's containerd ended: {daemon.stderr.read().decode(errors='replace')}")
    raise CommandFailed(f"the node's containerd was not ready after {_START_S} s")
