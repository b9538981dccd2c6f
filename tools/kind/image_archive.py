"""Container images of single programs, as archives that ``docker load``, ``ctr images import`` and kind read.

A static program needs no distribution below it: one layer with the program and the folders that it may write to.
The format is ``docker save``'s: https://github.com/moby/moby/blob/master/image/spec/v1.2.md#combined-image-json--filesystem-changeset-format
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

_PLACE = "usr/local/bin"


class ProgramImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image that holds one static program, which it runs."""

    name: str
    """With its tag."""
    program: Path


def write(path: Path, images: Sequence[ProgramImage], architecture: str) -> None:
    """Write one archive with all the images. ``architecture`` as Go names it. The same programs give the same bytes."""
    manifest = []
    with tarfile.open(path, "w") as archive:
        for image in images:
            with tempfile.TemporaryFile(dir=path.parent) as layer:
                digest = _write_layer(layer, image.program)
                configuration = msgspec.json.encode(_configuration(image, architecture, digest))
                name = f"{hashlib.sha256(configuration).hexdigest()}.json"
                manifest.append({"Config": name, "RepoTags": [image.name], "Layers": [f"{digest}/layer.tar"]})
                _add(archive, name, configuration)
                _add_file(archive, f"{digest}/layer.tar", layer)
        _add(archive, "manifest.json", msgspec.json.encode(manifest))


def _configuration(image: ProgramImage, architecture: str, digest: str) -> dict[str, object]:
    return {
        "architecture": architecture,
        "os": "linux",
        "config": {"Env": [f"PATH=/{_PLACE}"], "Entrypoint": [image.program.name]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }


def _write_layer(layer: io.BufferedRandom, program: Path) -> str:
    """Write the layer, go back to its beginning, and return its sha256 as hexadecimal digits."""
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for folder, mode in (("etc", 0o755), ("tmp", 0o1777), ("usr", 0o755), ("usr/local", 0o755), (_PLACE, 0o755)):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        entry = tarfile.TarInfo(f"{_PLACE}/{program.name}")
        entry.mode, entry.size = 0o755, program.stat().st_size
        with program.open("rb") as file:
            tar.addfile(entry, file)
    layer.seek(0)
    digest = hashlib.file_digest(layer, "sha256").hexdigest()
    layer.seek(0)
    return digest


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def _add_file(archive: tarfile.TarFile, name: str, file: io.BufferedRandom) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = file.seek(0, io.SEEK_END)
    file.seek(0)
    archive.addfile(entry, file)
