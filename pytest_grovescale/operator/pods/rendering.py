"""The manifests of an operator that runs as pods: plain files, and kustomize folders, built with the user's own tool.

Output of Helm (``helm template … > operator.yaml``) is a plain file.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from ...errors import DefinitionError
from .. import manifests
from ..manifests import Manifest

_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""File names that kustomize reads, https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/."""

_BUILDERS = (("kustomize", "build"), ("kubectl", "kustomize"))
_BUILD_S = 120.0
"""Time limit, s. A kustomization may have remote bases to download."""


def rendered(paths: Iterable[str | Path]) -> list[Manifest]:
    """Return the objects of files and folders, in order; a kustomize folder is built first.

    Raises DefinitionError with ``file:line`` for an invalid file, and with the tool's error output for a kustomization
    that cannot be built.
    """
    found: list[Manifest] = []
    for path in map(Path, paths):
        if path.is_dir() and (file := _kustomization(path)) is not None:
            found += manifests.parse(_built(path, file), f"{path} (built)")
        else:
            found += manifests.read([path])
    return found


def _kustomization(folder: Path) -> Path | None:
    return next((folder / name for name in _KUSTOMIZATIONS if (folder / name).is_file()), None)


def _built(folder: Path, file: Path) -> str:
    for name, verb in _BUILDERS:
        if (tool := shutil.which(name)) is not None:
            return _run([tool, verb, str(folder)], file)
    raise DefinitionError(
        f"{file}:1: there is neither kustomize nor kubectl to build it with",
        next_step=f"Install one of them, or name what it gives: kubectl kustomize {folder} > operator.yaml",
    )


def _run(command: list[str], file: Path) -> str:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_BUILD_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise DefinitionError(f"{file}:1: cannot be built: {error}") from error
    if done.returncode != 0:
        raise DefinitionError(
            f"{file}:1: cannot be built: {done.stderr.strip() or f'exit code {done.returncode}'}",
            next_step=f"See: {' '.join(command)}",
        )
    return done.stdout
