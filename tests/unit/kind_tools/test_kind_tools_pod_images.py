"""Images of pods: what their Dockerfiles copy and install is what the program needs."""

from __future__ import annotations

import ast
import fnmatch
import sys
from pathlib import Path

import pytest

from tools.kind import pod_images
from tools.kind.pod_images import HARNESS, OPERATOR, ROOT, PodImage

DISTRIBUTIONS = {
    "aiohttp": "aiohttp",
    "yarl": "aiohttp",
    "msgspec": "msgspec",
    "prometheus_client": "prometheus-client",
    "yaml": "pyyaml",
}
"""Imported package → the requirement that brings it."""


def requirements() -> list[str]:
    lines = (ROOT / "images/reference-operator/requirements.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def imported_by(folder: Path) -> set[str]:
    """Return the packages, outside of the standard library, that the modules of a folder import."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names)


def copied(image: PodImage) -> set[str]:
    """Return what a Dockerfile copies out of the repository."""
    lines = (ROOT / image.folder / "Dockerfile").read_text(encoding="utf-8").splitlines()
    words = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    return {word.rstrip("/") for group in words for word in group}


def test_the_operator_gets_what_it_imports_and_nothing_else() -> None:
    imported = imported_by(ROOT / "pytest_grovescale/reference_operator")
    names = {requirement.partition(">")[0] for requirement in requirements()}
    assert {DISTRIBUTIONS[name] for name in imported} == names


def test_its_requirements_are_those_of_the_package() -> None:
    assert set(requirements()) <= set(pod_images.declared())


@pytest.mark.parametrize("image", [OPERATOR, HARNESS], ids=lambda image: image.name)
def test_a_build_is_given_what_its_dockerfile_copies(image: PodImage) -> None:
    assert copied(image) == {image.folder, *image.sources}


@pytest.mark.parametrize("image", [OPERATOR, HARNESS], ids=lambda image: image.name)
def test_what_is_copied_exists_and_is_not_ignored(image: PodImage) -> None:
    allowed = [
        line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")
    ]
    for source in (image.folder, *image.sources):
        assert (ROOT / source).exists()
        assert any(fnmatch.fnmatch(source, pattern) or source.startswith(f"{pattern}/") for pattern in allowed)


@pytest.mark.parametrize("image", [OPERATOR, HARNESS], ids=lambda image: image.name)
def test_no_image_runs_as_root(image: PodImage) -> None:
    lines = (ROOT / image.folder / "Dockerfile").read_text(encoding="utf-8").splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users
    assert all(int(user.partition(":")[0]) > 0 for user in users)


def test_a_lock_becomes_constraints_for_any_interpreter() -> None:
    lock = """# by uv
--only-binary :all:
aiohttp==3.14.5 \\
    --hash=sha256:1 \\
    --hash=sha256:2
numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:3
yarl==1.2.3 \\
    --hash=sha256:4
"""
    assert pod_images.constraints(lock) == "aiohttp==3.14.5\nyarl==1.2.3\n"


def test_the_projects_own_lock_pins_what_the_operator_needs() -> None:
    pinned = {line.partition("==")[0] for line in pod_images.constraints(pod_images.LOCK.read_text()).splitlines()}
    assert {requirement.partition(">")[0] for requirement in requirements()} <= pinned


def test_wheels_for_older_systems_run_too() -> None:
    tags = pod_images.wheel_platforms("amd64")
    assert tags[0] == "manylinux_2_36_x86_64"
    assert {"manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"} <= set(tags)
    assert all(tag.endswith("_aarch64") for tag in pod_images.wheel_platforms("arm64"))
