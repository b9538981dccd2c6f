"""Binaries built from Go modules, where official ones are not available.

``go install`` cannot build Kubernetes (its go.mod has replacements), so each version has a small module of its own in
``gomodules/`` that requires it and pins every dependency by its go.sum. The build uses a copy in the cache.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import GrovescaleError
from . import versions

Progress = Callable[[str], None]

_MODULES = Path(__file__).parent / "gomodules"
_REPORT_EVERY_S = 10.0

_PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    "prometheus": "github.com/prometheus/prometheus/cmd/prometheus",
    "kind": "sigs.k8s.io/kind",
}
# Without the service discovery of two dozen clouds: targets come from files.
_TAGS = {"prometheus": "remove_all_sd"}
# `go build -n` writes this above the commands of each package that the build cache lacks.
_TO_COMPILE = re.compile(r"^#\n# (\S+)\n#$", re.MULTILINE)
_DOWNLOADING = "go: downloading "
_STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


class BuildFailed(GrovescaleError):
    """A build failed."""


def build(name: str, version: str, kubernetes: str, work: Path, *, progress: Progress) -> Path:
    """Build a binary and return its path inside ``work``; raises BuildFailed with the reason."""
    needed = versions.go_needed(name, kubernetes)
    go = _toolchain(needed)
    source = _MODULES / module(name, version)
    if not source.is_dir():
        raise BuildFailed(f"no module to build {name} {version} from; there are: {', '.join(modules())}")
    copy = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=work))
    try:
        for part in ("go.mod", "go.sum"):
            shutil.copy(source / part, copy / part)
        made = copy / name
        arguments = ["-o", str(made), "-ldflags", _ldflags(name, version)]
        if name in _TAGS:
            arguments += ["-tags", _TAGS[name]]
        arguments.append(_PACKAGES.get(name, f"k8s.io/kubernetes/cmd/{name}"))
        go_build(go, arguments, copy, f"{name} {version}", progress=progress)
        target = work / f"{name}.built"
        made.replace(target)
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    return target


def modules() -> list[str]:
    """Return the names of all modules in ``gomodules/``."""
    return sorted(entry.name for entry in _MODULES.iterdir() if (entry / "go.mod").is_file())


def module(name: str, version: str) -> str:
    """Return the folder in ``gomodules/`` that builds a binary; all Kubernetes binaries share one."""
    return f"{name if name in _PACKAGES else 'kubernetes'}-{version}"


def _toolchain(needed: tuple[int, int]) -> str:
    go = shutil.which("go")
    wanted = ".".join(map(str, needed))
    if go is None:
        raise BuildFailed(f"no Go toolchain on PATH ({wanted} or newer is needed)")
    done = subprocess.run(
        [go, "env", "GOVERSION"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GOTOOLCHAIN": "local"},
    )
    match = re.search(r"go(\d+)\.(\d+)", done.stdout)
    if match is None:
        raise BuildFailed(f"{go} does not say its version: {(done.stdout + done.stderr).strip()}")
    if (int(match[1]), int(match[2])) < needed:
        raise BuildFailed(f"{go} is {match[0]}, {wanted} or newer is needed")
    return go


def _ldflags(name: str, version: str) -> str:
    flags = ["-s", "-w"]
    if name == "prometheus":
        flags.append(f"-X github.com/prometheus/common/version.Version={version}")
    if name not in _PACKAGES:
        # Without the version stamp a server reports v0.0.0-master, and clients misbehave.
        major, minor, _ = version.split(".")
        values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        flags += [f"-X {package}.{name}={value}" for package in _STAMPED for name, value in values.items()]
    return " ".join(flags)


def go_build(
    go: str,
    arguments: Sequence[str],
    folder: Path,
    what: str,
    *,
    progress: Progress,
    report_every_s: float = _REPORT_EVERY_S,
) -> None:
    """Run ``go build`` with the arguments in ``folder`` and report its progress in packages.

    A dry run, ``go build -n``, gives the number of packages that the build cache lacks; the build's ``-v`` then names
    each one as its compilation begins (both: ``go help build``). Raises BuildFailed with the last lines of Go's output.
    """
    began = time.monotonic()
    progress(f"building {what} from Go modules: reading its packages")

    def downloading(output: str) -> str:
        modules = output.count(_DOWNLOADING)
        return f"downloading modules, {modules:,} so far" if modules else "reading its packages"

    planned = _run([go, "build", "-n", *arguments], folder, what, downloading, progress, report_every_s)
    packages = frozenset(_TO_COMPILE.findall(planned))
    progress(f"building {what}: {len(packages):,} packages to compile")

    def compiling(output: str) -> str:
        started = len(packages.intersection(output.splitlines()))
        if not packages:
            return "linking"
        then = ", then linking" if started == len(packages) else ""
        return f"package {started:,} of {len(packages):,}{then}"

    _run([go, "build", "-v", *arguments], folder, what, compiling, progress, report_every_s)
    progress(f"built {what} in {time.monotonic() - began:.0f} s")


def _run(
    argv: Sequence[str],
    folder: Path,
    what: str,
    state: Callable[[str], str],
    progress: Progress,
    report_every_s: float,
) -> str:
    """Return a command's output; every ``report_every_s`` report ``state(output so far)`` as progress."""
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-mod=readonly -buildvcs=false -trimpath",
        "GOWORK": "off",
    }
    began = time.monotonic()
    # A file, not a pipe: a build that is not read does not stall. Opened by name to read, since the command owns the
    # position of its descriptor.
    with tempfile.NamedTemporaryFile("w", dir=folder) as file:
        output = Path(file.name)
        process = subprocess.Popen(argv, cwd=folder, env=environment, stdout=file, stderr=file)
        try:
            while True:
                try:
                    process.wait(report_every_s)
                    break
                except subprocess.TimeoutExpired:
                    so_far = output.read_text(errors="replace")
                    progress(f"building {what}: {state(so_far)}, {time.monotonic() - began:.0f} s")
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        text = output.read_text(errors="replace")
    if process.returncode != 0:
        lines = [line.strip() for line in text.splitlines() if line.strip()][-8:]
        raise BuildFailed(f"go build of {what} failed ({process.returncode}): {' / '.join(lines)}")
    return text
