"""How a container's program is started: the command lines of the project's Deployments and Dockerfiles."""

from __future__ import annotations

import fnmatch
import json
import posixpath
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

import msgspec

from .deployment import Container, any_containers, container
from .facts import Facts


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """What a Dockerfile says of the start of its image."""

    file: str
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    workdir: str = "/"
    files: Mapping[str, str] = {}
    """Absolute path in the image → file of the project that is copied there."""


class Start(NamedTuple):
    """A command line by which a container is started."""

    words: tuple[str, ...]
    given: Container
    workdir: str
    file: str
    """That says so."""


def starts(facts: Facts) -> list[Start]:
    """Return the command lines of the project's containers, the likeliest first: Deployments', then Dockerfiles'."""
    built = images(facts)
    found: list[Start] = []
    for given in any_containers(facts):
        workdir = built[0].workdir if built else "/"
        if given.command:
            found.append(Start((*given.command, *given.args), given, workdir, given.file))
            continue
        for image in built:
            words = (*image.entrypoint, *(given.args or image.cmd))
            found.append(Start(words, given, image.workdir, image.file))
    given = container(facts)
    found += [Start((*image.entrypoint, *image.cmd), given, image.workdir, image.file) for image in built]
    return [start for start in found if start.words]


def images(facts: Facts) -> list[Image]:
    """Return what the project's Dockerfiles say, those nearest to its root first."""
    named = [path for path in facts.files if PurePosixPath(path).name in ("Dockerfile", "Containerfile")]
    return [_image(path, facts.files) for path in sorted(named, key=lambda path: (path.count("/"), path))]


def _image(file: str, files: Mapping[str, str]) -> Image:
    """Return the last stage of a Dockerfile, with what any stage copies from the project."""
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    workdir = "/"
    copied: dict[str, str] = {}
    contexts = list(dict.fromkeys([str(PurePosixPath(file).parent), "."]))
    for instruction, rest in _instructions(files[file]):
        if instruction == "FROM":
            entrypoint, cmd, workdir = (), (), "/"
        elif instruction == "WORKDIR":
            workdir = posixpath.normpath(posixpath.join(workdir, rest.strip()))
        elif instruction == "ENTRYPOINT":
            entrypoint = _command_line(rest)
        elif instruction == "CMD":
            cmd = _command_line(rest)
        elif instruction in ("COPY", "ADD") and "--from" not in rest:
            words = [word for word in _command_line(rest) if not word.startswith("--")]
            for context in contexts:
                if len(words) > 1 and (found := _copied(context, words[:-1], words[-1], workdir, files)):
                    copied |= found
                    break
    return Image(file=file, entrypoint=entrypoint, cmd=cmd, workdir=workdir, files=copied)


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        yield word.upper(), rest.strip()


def _command_line(text: str) -> tuple[str, ...]:
    """Return the words of an instruction, in either of its forms: a JSON array, or a line of a shell."""
    try:
        words = json.loads(text)
    except ValueError:
        words = None
    if isinstance(words, list):
        return tuple(map(str, words))
    try:
        return tuple(shlex.split(text))
    except ValueError:
        # A quote without its end: no command line that could be read.
        return ()


def _copied(
    context: str, sources: Sequence[str], target: str, workdir: str, files: Mapping[str, str]
) -> dict[str, str]:
    """Return path in the image → the project's file, as COPY has it: a folder's content goes into the target."""
    found: dict[str, str] = {}
    into = posixpath.normpath(posixpath.join(workdir, target))
    many = len(sources) > 1 or target.endswith(("/", ".")) or any("*" in source for source in sources)
    for source in sources:
        path = posixpath.normpath(posixpath.join(context, source.lstrip("/")))
        for file in files:
            if file == path or ("*" in path and fnmatch.fnmatch(file, path)):
                found[posixpath.join(into, PurePosixPath(file).name) if many else into] = file
            elif path == "." or file.startswith(f"{path}/"):
                found[posixpath.join(into, file if path == "." else file.removeprefix(f"{path}/"))] = file
    return found
