"""Writes the files of a plan into a project, never over one that is there."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import msgspec

from ..errors import GrovescaleError, UsageError
from ..operator import definition
from ..workload import template
from . import facts
from .files import FOLDER, File, Plan, described, plan

Line = Callable[[str], None]


def init(root: Path, *, dry_run: bool, write: Line) -> Plan:
    """Write the files that a project lacks, and say which; return the plan, whose next command holds in this Python.

    ``dry_run``: write the files' content to ``write`` instead. Raises UsageError for a folder without an operator.
    """
    made = plan(facts.read(root))
    lacking = [file for file in made.files if file.appended or not (root / file.path).exists()]
    for file in made.files:
        if file not in lacking:
            write(f"{file.path}: is there, and left as it is")
        elif dry_run:
            write(f"{file.path}: would be {'extended by' if _extends(root, file) else 'written'}:")
            write("".join(f"    {line}\n" for line in file.text.splitlines()).rstrip("\n"))
        else:
            write(f"{file.path}: {'extended' if _extends(root, file) else 'written'}")
            _write(root, file)
    checks = described(lacking) if dry_run else [*described(lacking), *_refused(root, lacking)]
    if checks:
        write("\ncheck these:")
        for check in checks:
            write(f"  {check}")
    if any(importlib.util.find_spec(module) is None for module in made.needs):
        return msgspec.structs.replace(made, next_command=f"{made.install} && {made.next_command}")
    return made


def _extends(root: Path, file: File) -> bool:
    return file.appended and (root / file.path).exists()


def _write(root: Path, file: File) -> None:
    path = root / file.path
    if path.is_symlink() and not path.exists():
        raise UsageError(f"{path}: is a link to a file that does not exist", next_step="Remove it, or make its target.")
    path.parent.mkdir(parents=True, exist_ok=True)
    if _extends(root, file):
        before = path.read_text(encoding="utf-8")
        with path.open("a", encoding="utf-8") as opened:
            opened.write(("" if before.endswith("\n") or not before else "\n") + file.text)
        return
    # Exclusive: what another program has written in the meantime stays.
    with path.open("x", encoding="utf-8") as opened:
        opened.write(file.text)


def _refused(root: Path, written: list[File]) -> list[str]:
    """Return what the program's own checks say of the written files: nothing, unless the project is a rare one."""
    found = []
    for file in written:
        path = root / file.path
        try:
            if path.name == "operator.yaml":
                definition.load(str(path.absolute()))
            elif path.parent == root / FOLDER / "workloads":
                template.render(str(path.absolute()), {"objects": 2}, namespace="default", run_id="init")
        except GrovescaleError as error:
            found.append(str(error).replace(f"{root.resolve()}/", "").replace("\n", "\n  "))
    return found
