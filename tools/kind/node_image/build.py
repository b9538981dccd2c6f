"""The steps that build a node image in the engine."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pytest_grovescale.cluster import binaries

from .. import image_archive, packages
from ..engine import RECIPE_LABEL, Engine, EngineMissing
from ..image_archive import ProgramImage
from ..processes import CommandFailed, Progress, run
from . import modules, preload, root

_COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
_PROGRAMS = ("kubeadm", "kubelet", "kubectl")
_SANDBOX = "registry.k8s.io/pause:3.10"
"""As in kind's containerd configuration."""
_CHANGES = (
    "ENV container=docker",
    'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]',
    # The backend reads it: it asks kubeadm for no add-ons then.
    "LABEL grovescale.io/addons=none",
)


def build(engine: Engine, name: str, kubernetes: str, recipe: str, cache: Path, progress: Progress) -> None:
    """Build a node image under this name, labelled with its recipe. Raises EngineMissing, CommandFailed."""
    _require()
    if wanted := packages.missing(("debootstrap",)):
        packages.install(wanted, progress)
    with tempfile.TemporaryDirectory(prefix="node-", dir=cache) as folder:
        work = Path(folder)
        programs = _programs(kubernetes, work, progress)
        archive = _control_plane(programs, kubernetes, work)
        installed = {program: programs[program] for program in (*_PROGRAMS, "crictl")}
        root.make(work / "root", modules.kind_files(), installed, kubernetes, cache / "packages", progress)
        preload.preload(work / "root", archive, progress)
        progress(f"importing {name} into the engine")
        engine.import_root(work / "root", name, [*_CHANGES, f"LABEL {RECIPE_LABEL}={recipe}"])
    engine.prune()


def component_images(names: list[str]) -> dict[str, str]:
    """Return the image of each component among those that kubeadm lists."""
    found = {}
    for image in names:
        component = image.rpartition(":")[0].rpartition("/")[2]
        if component in _COMPONENTS:
            found[component] = image
    if missing := set(_COMPONENTS) - set(found):
        raise CommandFailed(f"kubeadm lists no image of {', '.join(sorted(missing))}")
    return found


def _require() -> None:
    lacking = ["root"] if os.geteuid() != 0 else []
    lacking += [] if packages.can_install() else packages.missing(("debootstrap",))
    lacking += ["Go"] if shutil.which("go") is None else []
    if lacking:
        raise EngineMissing(
            f"no node image can be pulled, and none can be built without {', '.join(lacking)}",
            next_step="Let the engine reach docker.io, or run as root on a Debian-like machine with Go.",
        )


def _programs(kubernetes: str, work: Path, progress: Progress) -> dict[str, Path]:
    found = binaries.find((*_COMPONENTS, *_PROGRAMS), kubernetes, given={}, progress=progress)
    return {
        **{name: Path(binary.path) for name, binary in found.items()},
        "crictl": modules.build("crictl", work / "crictl", progress),
        "pause": modules.build("pause", work / "pause", progress),
    }


def _control_plane(programs: Mapping[str, Path], kubernetes: str, work: Path) -> Path:
    """Write one archive with all images that a control plane starts from."""
    listed = run([programs["kubeadm"], "config", "images", "list", "--kubernetes-version", f"v{kubernetes}"])
    # kubeadm's own tag for etcd, whichever release of it this is: the manifest that it writes asks for that.
    wanted = {**component_images(listed.splitlines()), "pause": _SANDBOX}
    images = [ProgramImage(name=image, program=programs[component]) for component, image in wanted.items()]
    archive = work / "control-plane.tar"
    image_archive.write(archive, images, binaries.architecture())
    return archive
