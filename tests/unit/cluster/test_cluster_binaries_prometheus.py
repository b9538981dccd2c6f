"""Prometheus is looked for as the others are, and in Debian's packages before it is built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import binaries, binary_sources, versions
from pytest_grovescale.cluster.binaries import Binary, architecture
from pytest_grovescale.cluster.versions import DebianPackage, Release
from pytest_grovescale.errors import BinaryError
from tests.golden import masked

K8S = "1.36.3"


def program(path: Path, version: str) -> Path:
    """Write an executable that says its version as Prometheus does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'prometheus, version {version} (branch: x)'\necho '  go version: go1.19.8'\n")
    path.chmod(0o755)
    return path


def script(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on it: an empty cache, an empty PATH, no network."""
    monkeypatch.setenv("GROVESCALE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "path").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    for variable in ("KUBEBUILDER_ASSETS", "KWOK_PROMETHEUS_BINARY"):
        monkeypatch.delenv(variable, raising=False)

    def unreachable(release: Release, target: Path, *, progress: Callable[[str], None]) -> Path:
        raise binary_sources.DownloadFailed(f"{release.url}: no route")

    monkeypatch.setattr(binary_sources, "fetch", unreachable)
    return tmp_path


def find(said: list[str] | None = None) -> Binary:
    reported: list[str] = [] if said is None else said
    return binaries.find(["prometheus"], K8S, given={}, progress=reported.append)["prometheus"]


def anywhere(text: str, places: Path) -> str:
    """Return a text as it is on every machine."""
    return masked(text, {places: "folder", architecture(): "architecture", versions.PROMETHEUS: "version"})


def packaged(monkeypatch: pytest.MonkeyPatch, version: str) -> list[str]:
    """Let Debian have a package of that version; return which were asked for."""
    asked: list[str] = []

    def fetch(package: DebianPackage, work: Path, *, progress: Callable[[str], None]) -> Path:
        asked.append(package.name)
        return program(work / "prometheus.unpacked", version)

    monkeypatch.setattr(binary_sources, "fetch_package", fetch)
    return asked


def test_debian_s_package_is_taken_once_whatever_its_version(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = packaged(monkeypatch, "2.42.0+ds")
    said: list[str] = []
    found = find(said)
    assert (found.version, found.source) == ("2.42.0", "Debian's package")
    assert "sha256sums.txt: no route" not in said[0]
    assert "releases/download/v" in said[0]
    assert find().source == "cache (Debian's package)"
    assert find().path == found.path
    assert asked == ["prometheus"]


def test_the_pinned_version_beats_debian_s_in_the_cache(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged(monkeypatch, "2.42.0")
    find()
    made = program(places / "made", versions.PROMETHEUS)
    binaries.store(made, "prometheus", versions.PROMETHEUS, "official release")
    assert find().version == versions.PROMETHEUS


def test_one_on_path_or_of_kwok_s_is_used(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(places / "path" / "prometheus", "3.5.0")
    assert (find().version, find().source) == ("3.5.0", "PATH")
    monkeypatch.setenv("KWOK_PROMETHEUS_BINARY", str(program(places / "kwok's", "2.53.1")))
    assert find().source == "$KWOK_PROMETHEUS_BINARY"


def test_package_that_is_too_old_is_passed_over(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged(monkeypatch, "2.24.1+ds")

    def build(name: str, version: str, kubernetes: str, work: Path, *, progress: Callable[[str], None]) -> Path:
        return program(work / "built", version)

    monkeypatch.setattr(binary_sources, "build", build)
    found = find()
    assert (found.version, found.source) == (versions.PROMETHEUS, "built from Go modules")
    assert not (places / "cache/making/prometheus.unpacked").exists()


def test_nowhere_reports_all_that_was_tried(places: Path, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(BinaryError) as caught:
        find()
    text = str(caught.value)
    assert f"prometheus {versions.PROMETHEUS}" in text
    for tried in ("PATH: none", "download: ", "Debian's package: no apt-get on PATH", "build: no Go toolchain"):
        assert tried in text
    assert anywhere(text, places) == snapshot


def test_what_apt_says_is_reported(places: Path, snapshot: SnapshotAssertion) -> None:
    script(places / "path", "apt-get", "echo 'E: Unable to locate package prometheus' >&2; exit 100")
    script(places / "path", "dpkg-deb", "exit 0")
    with pytest.raises(BinaryError) as caught:
        find()
    assert anywhere(str(caught.value), places) == snapshot
    assert "Unable to locate package prometheus" in caught.value.message
    assert list((places / "cache/making").iterdir()) == []


def test_package_is_unpacked_and_not_installed(places: Path, snapshot: SnapshotAssertion) -> None:
    shell = "PATH=/usr/bin:/bin"
    script(places / "path", "apt-get", f"{shell}; echo x > $3_1_amd64.deb")
    script(places / "path", "dpkg-deb", f"{shell}; mkdir -p $3/usr/bin; printf '#!/bin/sh\\necho 7.7.7' > $3/usr/bin/p")
    work = places / "work"
    work.mkdir()
    made = binary_sources.fetch_package(DebianPackage("p", "usr/bin/p"), work, progress=lambda text: None)
    assert made.read_text() == "#!/bin/sh\necho 7.7.7"
    assert [path.name for path in work.iterdir()] == [made.name]
    with pytest.raises(binary_sources.PackageFailed) as caught:
        binary_sources.fetch_package(DebianPackage("p", "usr/bin/q"), work, progress=lambda text: None)
    assert masked(str(caught.value), {places: "folder"}) == snapshot
    assert "p_1_amd64.deb" in str(caught.value)


def test_build_has_no_clouds_and_knows_its_version(
    places: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    """What go is called with; that it builds is seen in the cluster tests of a machine without packages."""
    monkeypatch.setattr(binary_sources, "fetch_package", _no_package)
    arguments = places / "arguments"
    go = f'[ "$1" = env ] && echo go1.26.8 && exit\nprintf "%s\\n" "$@" > "{arguments}"\necho no >&2; exit 1'
    script(places / "path", "go", go)
    with pytest.raises(BinaryError, match="go build of prometheus"):
        find()
    reported = arguments.read_text().splitlines()
    assert reported[-1] == snapshot(name="package")
    assert reported[-1].endswith("/cmd/prometheus")
    assert reported[reported.index("-tags") + 1] == "remove_all_sd"
    assert f"version.Version={versions.PROMETHEUS}" in reported[reported.index("-ldflags") + 1]


def _no_package(package: DebianPackage, work: Path, *, progress: Callable[[str], None]) -> Path:
    raise binary_sources.PackageFailed("none here")


def test_module_to_build_from_is_there() -> None:
    assert binary_sources.module("prometheus", versions.PROMETHEUS) in binary_sources.modules()
