"""The build of an operator's program, before its start."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from .. import log_files
from ..cluster import locks, state
from ..errors import OperatorError
from .definition import load
from .schema import OperatorDefinition

LOG = "build.log"
_REPORT_EVERY_S = 15.0
_TAIL_LINES = 20
_END_S = 10.0


def run(definition: OperatorDefinition, directory: Path, *, progress: Callable[[str], None]) -> OperatorDefinition:
    """Run the definition's ``build:``, if it has one, with the environment of this process; its output is in
    ``directory``. Builds of several runs wait for each other, as they write the same file.

    Returns the definition; CRDs and other manifests that the build has written, as that of Java does, are read again.
    Raises OperatorError, with the last lines of the output, for a command that fails or does not exist.
    """
    if not definition.build:
        return definition
    command = shlex.join(definition.build)
    name = f"operator {definition.name}"
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / LOG
    began, before = time.monotonic(), _written(definition)
    with locks.held(state.root() / "building.lock", waiting=lambda: progress(f"{name}: another run is building")):
        progress(f"{name}: building: {command}")
        code = _run(definition, log, lambda: progress(f"{name}: building, {time.monotonic() - began:.0f} s"))
    if code:
        lines = "".join(f"\n  {line}" for line in log_files.last_lines(log, _TAIL_LINES))
        raise OperatorError(
            f"{name} was not built: {command} ended with code {code} in {definition.workdir}:{lines}",
            next_step=f"Correct it, or `build:` in {definition.source}. The whole output: {log}",
        )
    progress(f"{name}: built in {time.monotonic() - began:.1f} s")
    if _written(definition) == before:
        return definition
    again = load(definition.source, values=definition.values, workdir=Path(definition.workdir))
    return msgspec.structs.replace(definition, installation=again.installation)


def _written(definition: OperatorDefinition) -> dict[Path, int]:
    """Return when each file of the definition's manifests was written."""
    sources = [*definition.crds, *definition.rbac, *definition.webhooks, *definition.manifests]
    paths = [Path(source) for source in sources if isinstance(source, str)]
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*"))]
    return {file: file.stat().st_mtime_ns for file in files if file.is_file()}


def _run(definition: OperatorDefinition, log: Path, report: Callable[[], None]) -> int:
    # A file, not a pipe: a build that is not read does not stall.
    with log.open("ab") as output:
        try:
            process = subprocess.Popen(
                definition.build,
                cwd=definition.workdir,
                env=os.environ.copy(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise OperatorError(
                f"operator {definition.name} was not built: {definition.build[0]}: {error.strerror}",
                next_step="Install it, or make it found on PATH.",
            ) from None
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.wait(_REPORT_EVERY_S)
                report()
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(_END_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
