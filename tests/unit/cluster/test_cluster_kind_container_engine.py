"""The container engine: which one is used, what it tells, and what is said when it cannot be used."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import versions
from pytest_grovescale.cluster.definition import load_definition
from pytest_grovescale.cluster.kind import container_engine, images
from pytest_grovescale.cluster.kind.container_engine import Engine
from pytest_grovescale.errors import ClusterError, UsageError

DOCKER_INFO = {"ServerVersion": "20.10.24", "CgroupVersion": "1", "SecurityOptions": ["name=seccomp,profile=default"]}
PODMAN_INFO = {
    "host": {"cgroupVersion": "v2", "security": {"rootless": True}, "serviceIsRemote": False},
    "version": {"Version": "4.9.3"},
}

Program = Callable[..., Path]
"""Writes an executable: name, and per first words of its arguments what it prints, or (what it says, exit code)."""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", lambda name: str(folder / name) if (folder / name).exists() else None)
    monkeypatch.delenv(container_engine.PROVIDER, raising=False)

    def write(name: str, answers: dict[str, Any]) -> Path:
        cases = []
        for words, answer in answers.items():
            text, code = answer if isinstance(answer, tuple) else (answer, 0)
            stream = ">&2" if code else ""
            written = text if isinstance(text, str) else json.dumps(text)
            cases.append(f"  \"{words}\"*) cat <<'END' {stream}\n{written}\nEND\n  exit {code};;")
        path = folder / name
        path.write_text('#!/bin/sh\ncase "$*" in\n' + "\n".join(cases) + "\nesac\necho unexpected: $* >&2\nexit 99\n")
        path.chmod(0o755)
        return path

    return write


def docker(program: Program, **more: Any) -> Path:
    answers = {
        "--version": "Docker version 20.10.24, build 297e128",
        "info": DOCKER_INFO,
        "context inspect": "unix:///var/run/docker.sock",
        **more,
    }
    return program("docker", answers)


def test_docker_reports_what_it_is(program: Program) -> None:
    path = docker(program)
    assert container_engine.find() == Engine(
        name="docker", executable=str(path), version="20.10.24", cgroup_version="1", rootless=False
    )
    docker(program, info=DOCKER_INFO | {"SecurityOptions": ["name=rootless"]})
    assert container_engine.find().rootless


def test_podman_is_used_where_there_is_no_docker(program: Program) -> None:
    path = program("podman", {"info": PODMAN_INFO})
    expected = Engine(name="podman", executable=str(path), version="4.9.3", cgroup_version="2", rootless=True)
    assert container_engine.find() == expected
    program("docker", {"--version": "podman version 4.9.3"})
    assert container_engine.find() == expected, "a docker that is podman under that name"


def test_environment_chooses_unless_the_definition_does(
    program: Program, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    docker(program)
    program("podman", {"info": PODMAN_INFO})
    assert container_engine.find().name == "docker"
    monkeypatch.setenv(container_engine.PROVIDER, "podman")
    assert container_engine.find().name == "podman"
    assert container_engine.find("docker").name == "docker"
    monkeypatch.setenv(container_engine.PROVIDER, "nerdctl")
    with pytest.raises(UsageError) as caught:
        container_engine.find()
    assert str(caught.value) == snapshot


def test_missing_engine_is_reported_how_to_get_one(program: Program, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(ClusterError) as caught:
        container_engine.find()
    assert str(caught.value) == snapshot(name="none")
    docker(program)
    with pytest.raises(ClusterError) as caught:
        container_engine.find("podman")
    assert str(caught.value) == snapshot(name="no podman")


@pytest.mark.parametrize(
    "reported",
    [
        pytest.param(
            "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?", id="not running"
        ),
        pytest.param("permission denied while trying to connect to the Docker daemon socket", id="not allowed"),
        pytest.param("something else", id="something else"),
    ],
)
def test_engine_that_cannot_be_used_says_why(program: Program, reported: str, snapshot: SnapshotAssertion) -> None:
    docker(program, info=(reported, 1))
    with pytest.raises(ClusterError) as caught:
        container_engine.find()
    assert str(caught.value) == snapshot(name="exit code")
    assert caught.value.next_step
    # Docker 20.10 answers all the same, and with success.
    docker(program, info={"ServerErrors": [reported]})
    with pytest.raises(ClusterError) as caught:
        container_engine.find()
    assert str(caught.value) == snapshot(name="in its answer")


@pytest.mark.parametrize("host", ["tcp://10.0.0.1:2376", "ssh://me@there"])
def test_engine_on_another_machine_is_refused(program: Program, host: str) -> None:
    docker(program, **{"context inspect": host})
    with pytest.raises(ClusterError, match="on another machine"):
        container_engine.find()
    remote = PODMAN_INFO | {"host": {"serviceIsRemote": True}}
    program("podman", {"info": remote})
    with pytest.raises(ClusterError, match="on another machine"):
        container_engine.find("podman")


def test_containers_and_their_state_are_read(program: Program) -> None:
    inspected = {
        "State": {"Running": True, "Status": "running"},
        "Config": {"Image": "node:v1"},
        "Mounts": [{"Type": "bind", "Source": "/a", "Destination": "/b", "RW": True}],
        "NetworkSettings": {"Networks": {"kind": {"IPAddress": "172.18.0.2"}}},
    }
    docker(program, **{"ps -a": "two-control-plane\nother", "container inspect": [inspected]})
    found = container_engine.find()
    assert container_engine.containers(found, "two") == ["other", "two-control-plane"]
    node = container_engine.inspect(found, "two-control-plane")
    assert (node.state.running, node.address, node.config.image) == (True, "172.18.0.2", "node:v1")
    assert [(mount.type, mount.source, mount.destination) for mount in node.mounts] == [("bind", "/a", "/b")]


# ---- the node image


def test_image_that_was_built_here_comes_before_the_published_one(program: Program) -> None:
    reported: list[str] = []
    labels = {images.ADDONS_LABEL: "none"}
    docker(
        program,
        **{
            "image inspect --format {{json .Config.Labels}} grovescale-node:v1.36.3": labels,
            "image inspect grovescale-node:v1.36.3": [{}],
        },
    )
    image = images.ensure(load_definition("kind"), container_engine.find(), reported.append)
    assert (image.reference, image.addons, reported) == ("grovescale-node:v1.36.3", False, [])


def test_published_image_is_pulled_and_its_addons_count(program: Program, snapshot: SnapshotAssertion) -> None:
    reported: list[str] = []
    docker(
        program,
        **{"image inspect --format": "null", "image inspect": ("no such image", 1), "pull --quiet kindest/node": "ok"},
    )
    image = images.ensure(load_definition("kind"), container_engine.find(), reported.append)
    assert image.reference.startswith("kindest/node:v1.36.1@sha256:")
    assert image.addons
    assert len(reported) == 1
    assert "kindest/node:v1.36.1" in reported[0]
    assert reported[0] == snapshot


def test_image_that_cannot_be_pulled_is_reported_the_ways_out(program: Program, snapshot: SnapshotAssertion) -> None:
    docker(program, **{"image inspect": ("no such image", 1), "pull": ("dial tcp: no route to host", 1)})
    definition = load_definition("kind").with_version("1.35.9")
    with pytest.raises(ClusterError) as caught:
        images.ensure(definition, container_engine.find(), lambda text: None)
    assert str(caught.value) == snapshot
    assert "kindest/node:v1.35.9" in caught.value.message
    assert "no route to host" in caught.value.message
    assert "make test-kind" in caught.value.next_step
    assert "grovescale-node:v1.35.9" in caught.value.next_step


def test_every_supported_version_has_a_published_image_of_its_minor() -> None:
    for minor, full in versions.KUBERNETES.items():
        assert images.published(full).startswith(f"kindest/node:v{minor}.")
        assert "@sha256:" in images.published(full)


def test_kind_itself_is_its_projects_release() -> None:
    release = versions.release("kind", versions.KIND, "arm64")
    assert release.url.endswith(f"/kubernetes-sigs/kind/releases/download/v{versions.KIND}/kind-linux-arm64")
    assert release.checksum_url == f"{release.url}.sha256sum"
    assert versions.accepted("kind", "0.33.0", "1.36.3")
    assert not versions.accepted("kind", "0.31.0", "1.36.3")
