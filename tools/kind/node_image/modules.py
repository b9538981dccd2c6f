"""The parts of the node image from Go modules outside the package: programs, and kind's own files."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec

from pytest_grovescale.cluster import binary_sources, versions

from ..processes import CommandFailed, Progress, run

_HERE = Path(__file__).parent
_FLAGS = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false -trimpath"}
_PACKAGES = {"crictl": "sigs.k8s.io/cri-tools/cmd/crictl", "pause": "."}
_VERSION_OF = re.compile(r"sigs\.k8s\.io/cri-tools (v\S+)")


class _Download(msgspec.Struct):
    """The output of ``go mod download -json`` for a module."""

    dir: str = msgspec.field(name="Dir", default="")


def build(name: str, target: Path, progress: Progress) -> Path:
    """Build ``crictl`` or ``pause`` from its module beside this file. Raises CommandFailed."""
    progress(f"building {name} from Go modules")
    folder = _HERE / name
    flags = "-s -w"
    if name == "crictl":
        (version,) = _VERSION_OF.findall((folder / "go.mod").read_text(encoding="utf-8"))
        flags += f" -X sigs.k8s.io/cri-tools/pkg/version.Version={version}"
    # A copy: a build leaves the checkout unchanged, and need not be able to write there.
    copy = shutil.copytree(folder, target.with_name(f"{target.name}.module"))
    run(["go", "build", "-o", target, "-ldflags", flags, _PACKAGES[name]], folder=copy, environment=_FLAGS)
    return target


def kind_files() -> Path:
    """Return the folder with the files that kind lays over a node's root. Raises CommandFailed.

    From the module that kind itself is built from, with its checksum verified.
    """
    module = f"sigs.k8s.io/kind@v{versions.KIND}"
    source = Path(binary_sources.__file__).parent / "gomodules" / binary_sources.module("kind", versions.KIND)
    answer = run(["go", "mod", "download", "-json", module], folder=source, environment=_FLAGS)
    files = Path(msgspec.json.decode(answer, type=_Download).dir) / "images" / "base" / "files"
    if not files.is_dir():
        raise CommandFailed(f"{module} holds no images/base/files")
    return files
