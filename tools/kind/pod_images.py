"""Images of pods: the reference operator, the harness itself, and kwok; with archives that kind can load.

Built by their Dockerfiles. Where no base image can be pulled, one is built from Debian's packages; Python packages come
as wheels from this machine's index, so that a build needs no network.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pytest_grovescale.cluster import binaries, versions

from . import contents, image_archive, packages
from .engine import RECIPE_LABEL, Engine
from .image_archive import ProgramImage
from .node_image import root
from .processes import Progress, run

ROOT = Path(__file__).resolve().parents[2]

_BASE = "grovescale-python:bookworm"
_BASE_PACKAGES = "python3,python3-venv,ca-certificates"
_BASE_PYTHON = "3.11"
_STAGE = "installed"
"""Name of the installing stage in the Dockerfiles."""
_PULLED_BASE = "python:3.11-slim-bookworm"
_GLIBC = 36
"""Minor version of bookworm's glibc: wheels for this or any earlier one run there."""
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class PodImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image with a Dockerfile in ``images/``."""

    name: str
    folder: str
    sources: Sequence[str]
    """What the Dockerfile copies, relative to the root of the repository."""
    requirements: Sequence[str]
    """Arguments of pip for the wheels that it installs."""


def declared() -> list[str]:
    """Return what the package needs to be built and to run, from pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [*project["build-system"]["requires"], *project["project"]["dependencies"]]


OPERATOR = PodImage(
    name="grovescale-reference-operator:local",
    folder="images/reference-operator",
    sources=("pytest_grovescale/__init__.py", "pytest_grovescale/reference_operator"),
    requirements=("--requirement", "images/reference-operator/requirements.txt"),
)
HARNESS = PodImage(
    name="grovescale-harness:local",
    folder="images/harness",
    sources=(
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "tools/pypi_readme.py",
        "pytest_grovescale",
        "fixtures",
        "workloads",
        "tests/scale",
    ),
    requirements=declared(),
)
KWOK = f"grovescale-kwok:{versions.KWOK}"
LOCK = ROOT / "requirements-dev.lock"


def ensure(engine: Engine, image: PodImage, cache: Path, progress: Progress) -> Path:
    """Return the archive of an image that is also in the engine; builds both unless they match the sources."""
    archive = cache / f"{image.folder.rpartition('/')[2]}.tar"
    sources = [ROOT / source for source in (image.folder, *image.sources)]
    recipe = contents.digest([*sources, Path(__file__), LOCK], versions.KWOK)
    stale = engine.label(image.name, RECIPE_LABEL) != recipe
    if stale:
        base = _base(engine, cache, progress)
        progress(f"building {image.name}")
        with tempfile.TemporaryDirectory(prefix="context-", dir=cache) as context:
            _fill(Path(context), image)
            _docker_build(engine, image, Path(context), base, recipe)
        engine.prune()
    if stale or not archive.exists():
        _save(engine, image.name, archive)
    return archive


def ensure_kwok(engine: Engine, kubernetes: str, cache: Path, progress: Progress) -> Path:
    """Return the archive of an image with kwok alone that is also in the engine."""
    archive = cache / "kwok.tar"
    program = Path(binaries.find(("kwok",), kubernetes, given={}, progress=progress)["kwok"].path)
    with tempfile.TemporaryDirectory(dir=cache) as work:
        written = Path(work) / archive.name
        image_archive.write(written, [ProgramImage(name=KWOK, program=program)], binaries.architecture())
        written.replace(archive)
    engine.docker("load", "--quiet", "--input", str(archive))
    return archive


def constraints(lock: str) -> str:
    """Return a lock's versions without its hashes, as pip's constraints; without those of some interpreters only.

    pip reads markers for the interpreter that runs it, which need not be the image's.
    """
    lines = (line.rstrip(" \\") for line in lock.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith((" ", "#", "-")) and ";" not in line)


def wheel_platforms(architecture: str) -> list[str]:
    """Return the platform tags of wheels that run on the base image, newest first (PEP 600, PEP 599)."""
    machine = _MACHINES[architecture]
    return [*(f"manylinux_2_{minor}_{machine}" for minor in range(_GLIBC, 16, -1)), f"manylinux2014_{machine}"]


def _save(engine: Engine, name: str, archive: Path) -> None:
    # Another process may be reading the previous one.
    part = archive.with_name(f".{archive.name}")
    engine.docker("save", "--output", str(part), name)
    part.replace(archive)


def _base(engine: Engine, cache: Path, progress: Progress) -> str:
    """Return a base image with Python: Debian's, pulled, or built here."""
    recipe = contents.digest([Path(root.__file__)], _BASE_PACKAGES)
    if engine.label(_BASE, RECIPE_LABEL) == recipe:
        return _BASE
    if engine.pull(_PULLED_BASE, progress):
        return _PULLED_BASE
    if wanted := packages.missing(("debootstrap",)):
        packages.install(wanted, progress)
    with tempfile.TemporaryDirectory(prefix="base-", dir=cache) as work:
        folder = Path(work) / "root"
        root.debian(folder, _BASE_PACKAGES, cache / "packages", progress)
        engine.import_root(folder, _BASE, [f"LABEL {RECIPE_LABEL}={recipe}"])
    return _BASE


def _fill(context: Path, image: PodImage) -> None:
    """Copy the Dockerfile's sources into a build folder, with the wheels that it installs."""
    unwanted = shutil.ignore_patterns("__pycache__")
    for source in (image.folder, *image.sources):
        target = context / source
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, target, ignore=unwanted)
        else:
            shutil.copy(ROOT / source, target)
    limits = context / "constraints.txt"
    limits.write_text(constraints(LOCK.read_text(encoding="utf-8")), encoding="utf-8")
    options: list[str | Path] = ["--only-binary=:all:", "--python-version", _BASE_PYTHON, "--constraint", limits]
    options += [word for tag in wheel_platforms(binaries.architecture()) for word in ("--platform", tag)]
    wheels = context / image.folder / "wheels"
    pip = [sys.executable, "-m", "pip", "download", "--quiet"]
    run([*pip, *options, "--dest", wheels, *image.requirements], folder=ROOT)


def _docker_build(engine: Engine, image: PodImage, context: Path, base: str, recipe: str) -> None:
    given = {"BASE": base, "KWOK": KWOK, "PIP_ARGUMENTS": "--no-index --find-links=/build/wheels"}
    arguments = [word for name, value in given.items() for word in ("--build-arg", f"{name}={value}")]
    arguments += ["--file", str(context / image.folder / "Dockerfile"), str(context)]
    # The stage gets a name, so that it stays: the next build reuses its unchanged steps.
    stage = f"{image.name.partition(':')[0]}:{_STAGE}"
    engine.docker("build", "--quiet", "--target", _STAGE, "--tag", stage, *arguments)
    engine.docker("build", "--quiet", "--label", f"{RECIPE_LABEL}={recipe}", "--tag", image.name, *arguments)
