"""``grovescale doctor``: what this machine has for scale tests, what it lacks, and how to get that."""

from __future__ import annotations

import importlib.util
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from .. import procfs, storage
from ..atomic_write import json_text
from ..cluster import binaries, binary_sources, versions
from ..cluster.backend import backend, names
from ..errors import ExitCode, GrovescaleError
from ..recording import machine
from ..recording.profiling import pyspy
from ..storage import MB
from . import build_tools

SCHEMA_VERSION = 1

_CORES = 2
"""Of one core the control plane needs a part, and no measurement has the machine to itself."""
_MEMORY_BYTES = 2 * 1024**3
"""A control plane with 1000 pods has about 1 GB; with 10,000 pods, see docs/large-clusters.md."""
_FILES = 4096
"""Open files of one process: kube-apiserver and etcd have some hundred, with one for each watch and each client."""
_ASK_S = 20.0
_SLEEPER = "import sys, time; print(flush=True); time.sleep(60)"

Status = Literal["ok", "note", "missing"]
"""``note``: something optional is missing, or scarce; ``missing``: scale tests cannot run."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that scale tests need, or can use."""

    name: str
    status: Status
    found: str
    """What this machine has."""
    next_step: str = ""


class DoctorFile(msgspec.Struct, frozen=True, kw_only=True):
    """Output of ``grovescale doctor --json``."""

    schema_version: int = SCHEMA_VERSION
    can_run: bool
    """Whether scale tests can run on this machine."""
    findings: tuple[Finding, ...]


def run(*, json: bool, write: Callable[[str], None]) -> int:
    """Examine the machine and write the findings; return 0 if scale tests can run, else 3.

    With what the operator of the current folder is built and started with.
    """
    findings = examine(build_tools.of_project(Path()))
    can_run = all(finding.status != "missing" for finding in findings)
    if json:
        write(json_text(DoctorFile(can_run=can_run, findings=findings)))
    else:
        write("\n".join(lines(findings)))
    return ExitCode.PASSED if can_run else ExitCode.INFRASTRUCTURE


def lines(findings: tuple[Finding, ...]) -> Iterator[str]:
    """Yield the findings as text, and the verdict."""
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        yield f"{finding.status:<8}{finding.name.ljust(width)}  {finding.found}"
        if finding.next_step:
            yield f"{'':<8}{'':<{width}}  → {finding.next_step}"
    missing = [finding.name for finding in findings if finding.status == "missing"]
    yield ""
    yield f"scale tests cannot run here: {', '.join(missing)}" if missing else "scale tests can run here"


def examine(needs: build_tools.Needs | None = None) -> tuple[Finding, ...]:
    """Return the findings of this machine, with those of an operator's tools. Elsewhere than on Linux there is one."""
    needs = needs or build_tools.Needs()
    try:
        binaries.require_linux()
        architecture = binaries.architecture()
    except binaries.UnsupportedPlatform as error:
        return (Finding(name="platform", status="missing", found=error.message, next_step=error.next_step),)
    ready = Finding(name="platform", status="ok", found=f"Linux {platform.release()}, {architecture}")
    python = Finding(name="python", status="ok", found=f"{platform.python_version()} ({sys.executable})")
    return (
        ready,
        python,
        *_binaries(),
        _go(),
        *_tools(needs),
        _cores(),
        _memory(),
        *_folders(),
        _open_files(),
        _py_spy(),
        *_engines(),
    )


# ---- binaries


class Ways(NamedTuple):
    """How a missing binary can come here; asked once for all, as each question may take seconds."""

    download: str
    """Why the release servers cannot be used; empty if they can."""
    build: str
    """The same of a build from Go modules."""


def _binaries() -> Iterator[Finding]:
    version = versions.DEFAULT_KUBERNETES
    there = {name: binaries.present(name, version) for name in versions.NEEDED}
    for name, binary in there.items():
        if binary is not None:
            yield Finding(name=name, status="ok", found=f"{binary.version}, {binary.source}: {binary.path}")
    if missing := [name for name, binary in there.items() if binary is None]:
        yield missing_binaries(missing, _ways())


def missing_binaries(names: Sequence[str], ways: Ways) -> Finding:
    """Return the finding of binaries that have to be downloaded or built."""
    listed = ", ".join(names)
    if not ways.download or not ways.build:
        how = "downloads them" if not ways.download else "builds them from Go modules, in some minutes"
        return Finding(
            name="binaries",
            status="ok",
            found=f"not here yet, the first run {how}: {listed}",
            next_step="Ahead of time: grovescale setup",
        )
    return Finding(
        name="binaries",
        status="missing",
        found=f"{listed}; download: {ways.download}; build: {ways.build}",
        next_step="Let this machine reach dl.k8s.io and github.com; or install Go and let it reach a module proxy; or"
        " put the binaries on PATH or into $KUBEBUILDER_ASSETS.",
    )


def _ways() -> Ways:
    version = versions.DEFAULT_KUBERNETES
    releases = [
        versions.release(name, versions.pinned(name, version), binaries.architecture())
        for name in ("kube-apiserver", "etcd")
    ]
    download = next((why for release in releases if (why := binary_sources.unreachable(release))), "")
    return Ways(download, _no_build(version) if download else "")


def _no_build(version: str) -> str:
    """Return why the control plane cannot be built from Go modules; empty if it can."""
    try:
        go = binary_sources.toolchain(versions.go_needed("kube-apiserver", version))
    except binary_sources.BuildFailed as error:
        return error.message
    with tempfile.TemporaryDirectory() as folder:
        # Outside of any module, and of a user's go.work.
        asked = _output(
            [go, "list", "-m", f"k8s.io/kubernetes@v{version}"], folder=folder, GOWORK="off", GOFLAGS="-mod=mod"
        )
    return asked.error and f"the module proxy does not answer: {asked.error}"


def _go() -> Finding:
    go = shutil.which("go")
    if go is None:
        return Finding(
            name="go",
            status="note",
            found="none on PATH",
            next_step="For operators in Go, which are built before they start: https://go.dev/doc/install",
        )
    asked = _output([go, "env", "GOVERSION"], GOTOOLCHAIN="local")
    return Finding(name="go", status="ok" if not asked.error else "note", found=f"{asked.text or asked.error} ({go})")


_INSTALLED_BY = {
    "go": "https://go.dev/doc/install",
    "cargo": "https://rustup.rs",
    "mvn": "https://maven.apache.org/install.html",
    "gradle": "https://gradle.org/install, or the project's own: gradle wrapper",
    "java": "https://adoptium.net",
    "dotnet": "https://dotnet.microsoft.com/download",
    "node": "https://nodejs.org/en/download",
    "npm": "https://nodejs.org/en/download",
    "helm": "https://helm.sh/docs/intro/install",
    "kubectl": "https://kubernetes.io/docs/tasks/tools",
}


def _tools(needs: build_tools.Needs) -> Iterator[Finding]:
    """Yield the findings of what an operator's definition, or its project, is built and started with."""
    for tool, why in needs.tools.items():
        if path := shutil.which(tool):
            if tool != "go":
                yield Finding(name=tool, status="ok", found=f"{path}, for {why}")
            continue
        yield Finding(
            name="go for the operator" if tool == "go" else tool,
            status="note" if tool in needs.optional else "missing",
            found=f"none on PATH, for {why}",
            next_step=f"Install it: {_INSTALLED_BY.get(tool, 'the packages of this system may have it')}",
        )
    if lacking := [module for module in needs.modules if importlib.util.find_spec(module) is None]:
        yield Finding(
            name="python modules",
            status="missing",
            found=f"{', '.join(lacking)}: not in this Python, in which the operator runs",
            next_step=needs.install or f"pip install {' '.join(lacking)}",
        )


# ---- the machine


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0))
    limit = machine.cpu_of(machine.folders_of_self())
    quota = limit.quota_cores if limit is not None else None
    usable = float(cores) if quota is None else min(cores, quota)
    found = f"{cores} usable" + (f", limited to {quota:g} by the container's quota" if quota is not None else "")
    if usable >= _CORES:
        return Finding(name="cores", status="ok", found=found)
    return Finding(
        name="cores", status="note", found=found, next_step=f"Give it {_CORES}: with less, times are the machine's."
    )


def _memory() -> Finding:
    usable = procfs.machine_memory().available
    found = f"{usable / 1024**3:.1f} GiB available"
    if usable >= _MEMORY_BYTES:
        return Finding(name="memory", status="ok", found=found)
    return Finding(
        name="memory",
        status="note",
        found=found,
        next_step=f"Free some, or raise the container's limit: 1000 pods take about {_MEMORY_BYTES / 1024**3:g} GiB.",
    )


def _folders() -> Iterator[Finding]:
    needed = (
        storage.reports_folder(Path("reports").absolute(), storage.REPORTS_BYTES),
        storage.state_folder(storage.STATE_BYTES + storage.DATA_BYTES),
        *storage.to_make(versions.NEEDED, versions.DEFAULT_KUBERNETES),
    )
    for folder in needed:
        wrong, _, next_step = storage.wrong_with(folder).partition("\n  → ")
        name = folder.what.removeprefix("the ").removesuffix(" folder")
        if wrong:
            yield Finding(name=name, status="missing", found=wrong, next_step=next_step)
            continue
        place = next(path for path in (folder.path, *folder.path.parents) if path.exists())
        yield Finding(name=name, status="ok", found=f"{folder.path}, {shutil.disk_usage(place).free / MB:,.0f} MB free")


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = "unlimited" if hard == resource.RLIM_INFINITY else f"{hard:,}"
    if hard == resource.RLIM_INFINITY or hard >= _FILES:
        return Finding(name="open files", status="ok", found=f"at most {text} for each process")
    return Finding(
        name="open files",
        status="note",
        found=f"at most {text} for each process ({soft:,} without asking)",
        next_step=f"Raise the limit to {_FILES:,} or more: ulimit -n, or LimitNOFILE of the unit.",
    )


def _py_spy() -> Finding:
    """Return whether py-spy can read a process that is not its child: by trying."""
    with subprocess.Popen([sys.executable, "-c", _SLEEPER], stdout=subprocess.PIPE) as sleeper:
        try:
            assert sleeper.stdout is not None
            sleeper.stdout.readline()
            asked = _output([pyspy.executable(), "dump", "--pid", str(sleeper.pid)])
        except GrovescaleError as error:
            return Finding(name="py-spy", status="note", found=error.message, next_step=error.next_step)
        finally:
            sleeper.kill()
    if not asked.error:
        return Finding(name="py-spy", status="ok", found="may read other processes (profiles of Python operators)")
    return Finding(
        name="py-spy",
        status="note",
        found=f"cannot read other processes, so Python operators have no profiles: {asked.error}",
        next_step=pyspy.permission_remedy(),
    )


def _engines() -> Iterator[Finding]:
    for name in names():
        try:
            engine = backend(name).engine()
        except GrovescaleError as error:
            found = f"no container engine: {error.message}".replace("\n", " ")
            yield Finding(name=f"{name} clusters", status="note", found=found, next_step=error.next_step)
        else:
            if engine:
                yield Finding(name=f"{name} clusters", status="ok", found=f"by {engine}")


class _Answer(NamedTuple):
    text: str
    error: str


def _output(command: list[str], *, folder: str | None = None, **environment: str) -> _Answer:
    """Return a command's output, and the last line of its errors where it fails."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ASK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return _Answer("", str(error))
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return _Answer(
        done.stdout.strip(), (said[-1] if said else f"exit code {done.returncode}") if done.returncode else ""
    )
