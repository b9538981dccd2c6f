"""Images of single programs, read back as an engine reads them."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tools.kind import image_archive
from tools.kind.image_archive import ProgramImage


@pytest.fixture
def images(tmp_path: Path) -> list[ProgramImage]:
    found = []
    for name, content in (("etcd", b"e" * 1500), ("pause", b"p" * 20)):
        program = tmp_path / name
        program.write_bytes(content)
        found.append(ProgramImage(name=f"registry.example/{name}:1", program=program))
    return found


def read(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as tar:
        file = tar.extractfile(name)
        assert file is not None
        return file.read()


def manifest(archive: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(read(archive, "manifest.json"))
    return entries


def test_each_image_is_named_and_runs_its_program(tmp_path: Path, images: list[ProgramImage]) -> None:
    image_archive.write(tmp_path / "a.tar", images, "arm64")
    entries = manifest(tmp_path / "a.tar")
    assert [entry["RepoTags"] for entry in entries] == [["registry.example/etcd:1"], ["registry.example/pause:1"]]
    configuration = json.loads(read(tmp_path / "a.tar", entries[0]["Config"]))
    assert configuration["architecture"] == "arm64"
    assert configuration["config"] == {"Env": ["PATH=/usr/local/bin"], "Entrypoint": ["etcd"]}


def test_digests_are_those_of_the_bytes(tmp_path: Path, images: list[ProgramImage]) -> None:
    archive = tmp_path / "a.tar"
    image_archive.write(archive, images, "amd64")
    for entry in manifest(archive):
        configuration = read(archive, entry["Config"])
        assert entry["Config"] == f"{hashlib.sha256(configuration).hexdigest()}.json"
        (layer,) = entry["Layers"]
        assert json.loads(configuration)["rootfs"]["diff_ids"] == [
            f"sha256:{hashlib.sha256(read(archive, layer)).hexdigest()}"
        ]


def test_a_layer_holds_the_program_and_a_place_for_temporary_files(tmp_path: Path, images: list[ProgramImage]) -> None:
    image_archive.write(tmp_path / "a.tar", images, "amd64")
    (tmp_path / "layer.tar").write_bytes(read(tmp_path / "a.tar", manifest(tmp_path / "a.tar")[0]["Layers"][0]))
    with tarfile.open(tmp_path / "layer.tar") as layer:
        program = layer.getmember("usr/local/bin/etcd")
        assert (program.mode, program.uid, program.size) == (0o755, 0, 1500)
        assert layer.getmember("tmp").mode == 0o1777
        assert layer.getmember("etc").isdir()
    assert read(tmp_path / "layer.tar", "usr/local/bin/etcd") == b"e" * 1500


def test_the_same_programs_give_the_same_bytes(tmp_path: Path, images: list[ProgramImage]) -> None:
    image_archive.write(tmp_path / "a.tar", images, "amd64")
    image_archive.write(tmp_path / "b.tar", images, "amd64")
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
