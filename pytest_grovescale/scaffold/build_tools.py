"""The programs of this machine that an operator is built and started with, by its definition or its project."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from ..errors import GrovescaleError
from . import facts, files
from .program import Program

_OF_PROJECTS = (
    *("PROJECT", "go.mod", "Cargo.toml", "pom.xml", "build.gradle", "build.gradle.kts", "package.json"),
    *("pyproject.toml", "requirements.txt", "setup.py", "Dockerfile", "Containerfile", "Chart.yaml", "*.csproj"),
)
"""Files in the folder of an operator's project: any other folder is not searched."""
_IN_SCRIPTS = re.compile(r"\b(kubectl|jq|yq|curl|openssl)\b")
"""Programs that scripts of a shell use and not all machines have."""
_SHELLS = ("sh", "bash")
_OF_A_SHELL = ("cd", "exec", "export", "set", "test", "mkdir", "ln")


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator needs of this machine; empty where no operator is in the folder."""

    tools: Mapping[str, str] = {}
    """Program → for what."""
    optional: frozenset[str] = frozenset()
    """Tools without which less is known."""
    modules: tuple[str, ...] = ()
    """Modules of Python."""
    install: str = ""
    """Command that installs the modules."""


def of_project(root: Path) -> Needs:
    """Return the needs of the operator definitions in a project's folder for scale tests, else of its sources."""
    if defined := [need for file in sorted((root / files.FOLDER).glob("*.yaml")) for need in _of_definition(file)]:
        return Needs(tools=dict(reversed(defined)), optional=frozenset())
    if not any(next(root.glob(name), None) for name in _OF_PROJECTS):
        return Needs()
    try:
        known = facts.read(root)
    except GrovescaleError:
        # Too large to be an operator's: `init` says so.
        return Needs()
    found = files.program_of(known)
    unread = ", ".join(known.unrendered)
    charts = {"helm": f"the Deployment, settings and roles in {unread}"} if unread else {}
    if found is None:
        return Needs(tools=charts, optional=frozenset(charts))
    return Needs(
        tools={**charts, **of_program(found)},
        optional=frozenset(charts),
        modules=found.modules,
        install=files.install_command(found),
    )


def of_program(found: Program) -> dict[str, str]:
    """Return the tools of a program that was found in a project."""
    tools = dict.fromkeys(commands(found.build), "its build") | dict.fromkeys(commands(found.command), "its start")
    if found.language == "shell":
        tools |= dict.fromkeys(dict.fromkeys(_IN_SCRIPTS.findall(found.text)), "its script")
    return tools


def _of_definition(file: Path) -> Iterator[tuple[str, str]]:
    try:
        content: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        # `grovescale check` says what is wrong with it.
        return
    for field in ("build", "command"):
        words = content.get(field) if isinstance(content, dict) else None
        if isinstance(words, list):
            for tool in commands([word for word in words if isinstance(word, str)]):
                yield tool, f"`{field}` of {file}"


def commands(words: Sequence[str]) -> list[str]:
    """Return the programs of a command line that are looked for on PATH, those of a line of a shell, too."""
    if len(words) > 2 and words[0] in _SHELLS and re.fullmatch(r"-\w*c", words[1]):
        try:
            parts = list(shlex.shlex(words[2], posix=True, punctuation_chars=True))
        except ValueError:
            # A quote without its end: the shell says so.
            return [words[0]]
        starts = [part for before, part in zip(["&&", *parts], parts, strict=False) if re.fullmatch(r"[&|;]+", before)]
        known = [*(start for start in starts if start not in _OF_A_SHELL), words[0]]
    else:
        known = list(words[:1])
    return [name for name in dict.fromkeys(known) if re.fullmatch(r"[\w.+-]+", name)]
