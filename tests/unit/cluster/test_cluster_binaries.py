"""Where binaries are looked for, in which order, and what is said when they are nowhere."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import binaries, binary_sources, versions
from pytest_grovescale.cluster.binaries import Binary, architecture
from pytest_grovescale.cluster.versions import Release
from pytest_grovescale.errors import BinaryError
from tests.golden import masked

K8S = "1.36.3"
Maker = Callable[[Path, str, str], Path]


def program(folder: Path, name: str, version: str) -> Path:
    """Write an executable that says its version as the real one does."""
    says = {"etcd": f"etcd Version: {version}\nGit SHA: 1", "kwok": f"kwok version v{version} go1.26 (linux/amd64)"}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says.get(name, f'Kubernetes v{version}')}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on it: an empty cache, PATH with a shell only, no network, no Go."""
    bin_folder = tmp_path / "path"
    bin_folder.mkdir()
    monkeypatch.setenv("GROVESCALE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(bin_folder))
    for variable in ("KUBEBUILDER_ASSETS", "KWOK_ETCD_BINARY", "KWOK_KUBE_APISERVER_BINARY", "KWOK_CONTROLLER_BINARY"):
        monkeypatch.delenv(variable, raising=False)

    def unreachable(release: Release, target: Path, *, progress: Callable[[str], None]) -> Path:
        raise binary_sources.DownloadFailed(f"{release.url}: no route")

    monkeypatch.setattr(binary_sources, "fetch", unreachable)
    return tmp_path


def find(name: str = "kube-apiserver", given: str = "", said: list[str] | None = None) -> Binary:
    reason: list[str] = [] if said is None else said
    return binaries.find([name], K8S, given={name: given} if given else {}, progress=reason.append)[name]


def store(places: Path, name: str = "kube-apiserver", version: str = K8S, source: str = "official release") -> Binary:
    return binaries.store(program(places / "made", name, version), name, version, source)


def anywhere(text: str, places: Path) -> str:
    """Return a text as it is on every machine."""
    return masked(text, {places: "folder", architecture(): "architecture"})


def downloaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []

    def fetch(release: Release, target: Path, *, progress: Callable[[str], None]) -> Path:
        asked.append(release.url)
        return program(target.parent, target.name, K8S)

    monkeypatch.setattr(binary_sources, "fetch", fetch)
    return asked


def test_every_place_beats_the_ones_after_it(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = program(places / "given", "kube-apiserver", "1.36.1")
    assets = program(places / "assets", "kube-apiserver", "1.36.2")
    cached = store(places)
    on_path = program(places / "path", "kube-apiserver", "1.36.0")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets.parent))
    asked = downloaded(monkeypatch)

    found = find(given=str(given))
    assert (found.path, found.version, found.source) == (str(given), "1.36.1", "given path")
    found = find()
    assert (found.path, found.version, found.source) == (str(assets), "1.36.2", "$KUBEBUILDER_ASSETS")
    assets.unlink()
    assert find().source.startswith("cache (official release")
    Path(cached.path).parent.joinpath("origin.json").unlink()
    found = find()
    assert (found.path, found.version, found.source) == (str(on_path), "1.36.0", "PATH")
    assert asked == []
    on_path.unlink()
    made = find().source
    assert made.startswith("official release")
    assert len(asked) == 1
    assert find().source == f"cache ({made})"
    assert len(asked) == 1


@pytest.mark.parametrize(("name", "pinned"), [("kwok", True), ("kube-apiserver", False)])
def test_a_digest_that_is_read_with_the_download_is_reported(
    places: Path, monkeypatch: pytest.MonkeyPatch, name: str, pinned: bool
) -> None:
    downloaded(monkeypatch)
    said: list[str] = []
    found = find(name, said=said)
    assert ("pinned" in found.source, "dl.k8s.io" in found.source) == (pinned, not pinned)
    assert any("not pinned" in text and "dl.k8s.io" in text for text in said) is not pinned
    assert found.source in find(name).source, "stored with the digest that it is held to"


def test_variables_of_kwok_users_are_known(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    etcd, kwok = program(places / "a", "etcd", "3.6.1"), program(places / "b", "kwok", "0.7.1")
    monkeypatch.setenv("KWOK_ETCD_BINARY", str(etcd))
    monkeypatch.setenv("KWOK_CONTROLLER_BINARY", str(kwok))
    assert (find("etcd").path, find("kwok").path) == (str(etcd), str(kwok))


def test_unfit_versions_are_passed_over(
    places: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(program(places / "assets", "kube-apiserver", "1.20.0").parent))
    program(places / "path", "kube-apiserver", "1.35.9")
    with pytest.raises(BinaryError) as caught:
        find()
    assert "$KUBEBUILDER_ASSETS: version 1.20.0" in caught.value.message
    assert "1.35.9" in caught.value.message
    assert anywhere(str(caught.value), places) == snapshot


def test_given_path_is_used_or_refused_but_never_passed_over(places: Path, snapshot: SnapshotAssertion) -> None:
    store(places)
    with pytest.raises(BinaryError) as caught:
        find(given=str(places / "nonesuch"))
    assert masked(str(caught.value), {places: "folder"}) == snapshot(name="none")
    with pytest.raises(BinaryError) as caught:
        find(given=str(program(places / "given", "kube-apiserver", "1.20.0")))
    assert masked(str(caught.value), {places: "folder"}) == snapshot(name="unfit")
    assert "1.20.0" in caught.value.message


def test_failed_download_says_why_and_goes_on_to_the_build(
    places: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    def build(name: str, version: str, kubernetes: str, work: Path, *, progress: Callable[[str], None]) -> Path:
        return program(work, f"{name}.built", version)

    monkeypatch.setattr(binary_sources, "build", build)
    said: list[str] = []
    found = find("etcd", said=said)
    assert found.source == "built from Go modules"
    assert "no route" in said[0]
    assert anywhere("\n".join(said), places) == snapshot
    assert find("etcd").source == "cache (built from Go modules)"


def test_nowhere_names_the_three_ways_out(places: Path, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(BinaryError) as caught:
        find()
    text = str(caught.value)
    assert "PATH: none" in text
    assert "no route" in text
    for way in ("release servers", "Go 1.26", "$KUBEBUILDER_ASSETS"):
        assert way in text
    assert anywhere(text, places) == snapshot


def test_old_go_is_refused_with_its_version(places: Path, snapshot: SnapshotAssertion) -> None:
    go = places / "path" / "go"
    go.write_text("#!/bin/sh\necho go1.19.8\n")
    go.chmod(0o755)
    with pytest.raises(BinaryError) as caught:
        find()
    assert anywhere(str(caught.value), places) == snapshot
    assert "go1.19" in caught.value.message


def test_failing_build_shows_what_go_said(places: Path, snapshot: SnapshotAssertion) -> None:
    go = places / "path" / "go"
    go.write_text("#!/bin/sh\n[ $1 = env ] && echo go1.26.8 && exit\necho 'module lookup disabled' >&2\nexit 1\n")
    go.chmod(0o755)
    with pytest.raises(BinaryError) as caught:
        find()
    assert anywhere(str(caught.value), places) == snapshot
    assert "module lookup disabled" in caught.value.message
    assert list((places / "cache" / "making").iterdir()) == []


def _script(path: Path) -> None:
    path.write_text("#!/bin/sh\ntouch executed\n")


def _flipped(path: Path) -> None:
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    # As a disk would do it: size and times as they were.
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _not_executable(path: Path) -> None:
    path.chmod(0o644)


def _half_a_description(path: Path) -> None:
    os.truncate(path.with_name("origin.json"), 10)


@pytest.mark.parametrize("damage", [_script, _flipped, _half, Path.unlink, _not_executable, _half_a_description])
def test_a_damaged_binary_is_reported_made_again_and_never_run(
    places: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    cached = store(places)
    assert find().path == cached.path
    damage(Path(cached.path))
    asked = downloaded(monkeypatch)
    monkeypatch.chdir(places)
    said: list[str] = []
    assert find(said=said).source.startswith("official release")
    assert len(asked) == 1
    assert said[0].startswith(f"kube-apiserver: cache: {Path(cached.path).parent}")
    assert said[0].endswith("; it is made again")
    assert not (places / "executed").exists()
    assert find().source.startswith("cache (official release")
    assert len(asked) == 1


def test_two_at_once_make_it_once(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = downloaded(monkeypatch)
    found: list[Binary] = []
    threads = [threading.Thread(target=lambda: found.append(find())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({binary.path for binary in found}) == 1
    assert len(found) == 4
    assert len(asked) == 1


def test_setup_lists_everything_with_its_checksum(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in versions.NEEDED:
        program(places / "path", name, versions.pinned(name, K8S))
    rows = binaries.setup(K8S, given={}, progress=lambda text: None)
    assert [row.name for row in rows] == list(versions.NEEDED)
    for row in rows:
        assert row.sha256 == hashlib.sha256(Path(row.path).read_bytes()).hexdigest()
        assert row.source == "PATH"


@pytest.mark.parametrize(
    ("output", "code", "version"),
    [("Kubernetes v1.36.3", 0, "1.36.3"), ("etcd Version: 3.6.14", 0, "3.6.14"), ("1.2.3", 1, ""), ("none", 0, "")],
)
def test_version_is_what_the_program_says(places: Path, output: str, code: int, version: str) -> None:
    path = places / "tool"
    path.write_text(f"#!/bin/sh\necho '{output}'\nexit {code}\n")
    path.chmod(0o755)
    assert binaries.probe(path) == version


def test_program_is_asked_again_once_it_was_replaced(places: Path) -> None:
    path = program(places / "a", "etcd", "3.6.1")
    assert (binaries.probe(path), binaries.probe(path)) == ("3.6.1", "3.6.1")
    program(places / "a", "etcd", "3.6.11")
    assert binaries.probe(path) == "3.6.11"


@pytest.fixture
def go_module(tmp_path: Path) -> Path:
    """A module of a program and two packages that no build cache has."""
    unique = tmp_path.name + str(time.time_ns())
    (tmp_path / "go.mod").write_text("module example.com/built\n\ngo 1.22\n")
    (tmp_path / "main.go").write_text(
        'package main\n\nimport ("example.com/built/one"; "example.com/built/two")\n\n'
        f'func main() {{ println(one.Text, two.Text, "{unique}") }}\n'
    )
    for package in ("one", "two"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "text.go").write_text(f'package {package}\n\nconst Text = "{unique}"\n')
    return tmp_path


def go_build(folder: Path, package: str = ".") -> list[str]:
    go = shutil.which("go") or pytest.skip("needs a Go toolchain on PATH")
    said: list[str] = []
    arguments = ["-o", str(folder / "program"), package]
    binary_sources.go_build(go, arguments, folder, "program 1.2", progress=said.append, report_every_s=0.02)
    return said


def test_progress_of_a_build_is_in_packages(go_module: Path) -> None:
    said = go_build(go_module)
    assert "building program 1.2: 3 packages to compile" in said
    reported = [int(match[1]) for line in said if (match := re.search(r"package (\d) of 3", line))]
    assert reported == sorted(reported)
    assert reported[-1] == 3
    assert any("package 3 of 3, then linking" in line for line in said)
    assert said[-1].startswith("built program 1.2 in ")
    again = go_build(go_module)
    assert "building program 1.2: 0 packages to compile" in again
    assert not any("package 0" in line for line in again)


def test_a_build_that_fails_says_why(go_module: Path, snapshot: SnapshotAssertion) -> None:
    (go_module / "two" / "text.go").write_text("package two\n\nconst Text = missing\n")
    with pytest.raises(binary_sources.BuildFailed) as caught:
        go_build(go_module)
    said, _, go_said = str(caught.value).partition(": ")
    assert said == snapshot(name="our part")
    assert "undefined: missing" in go_said
    with pytest.raises(binary_sources.BuildFailed) as caught:
        go_build(go_module, "example.com/elsewhere")
    said, _, go_said = str(caught.value).partition(": ")
    assert said == snapshot(name="our part, of a package that is not there")
    assert any(part in go_said for part in ("no required module", "cannot find", "not in std"))
