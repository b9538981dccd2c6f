"""Binaries built from Go modules, where official ones cannot be had.

``go install`` cannot build Kubernetes (its go.mod has replacements), so each version has a small module of its own in
``gomodules/`` that requires it and pins every dependency by its go.sum. A copy of it in the cache is built.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from ..errors import GrovescaleError
from . import versions

Progress = Callable[[str], None]

_MODULES = Path(__file__).parent / "gomodules"
_TELL_EVERY_S = 10.0

# Seconds, cold, on two cores, as measured; they halve with twice the cores.
_EXPECTED_S = {
    "kube-apiserver": 200,
    "kube-controller-manager": 51,
    "kube-scheduler": 5,
    "kubectl": 18,
    "kubeadm": 12,
    "kubelet": 18,
    "etcd": 24,
    "kwok": 93,
    "prometheus": 130,
    "kind": 12,
}
_PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    "prometheus": "github.com/prometheus/prometheus/cmd/prometheus",
    "kind": "sigs.k8s.io/kind",
}
# Without the clients of two dozen clouds: its targets are told to it in files.
_TAGS = {"prometheus": "remove_all_sd"}
_STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


class BuildFailed(GrovescaleError):
    """A binary could not be built."""


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
        argv = [go, "build", "-o", str(made), "-ldflags", _ldflags(name, version)]
        if name in _TAGS:
            argv += ["-tags", _TAGS[name]]
        argv.append(_PACKAGES.get(name, f"k8s.io/kubernetes/cmd/{name}"))
        _run(argv, copy, f"{name} {version}", _expected_s(name), progress)
        target = work / f"{name}.built"
        made.replace(target)
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    return target


def modules() -> list[str]:
    """Return the names of all modules that can be built."""
    return sorted(entry.name for entry in _MODULES.iterdir() if (entry / "go.mod").is_file())


def module(name: str, version: str) -> str:
    """Return the folder in ``gomodules/`` that builds a binary: one for all of Kubernetes, one for each other."""
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
        # Without the stamp a server says v0.0.0-master, and clients misbehave.
        major, minor, _ = version.split(".")
        values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        flags += [f"-X {package}.{name}={value}" for package in _STAMPED for name, value in values.items()]
    return " ".join(flags)


def _expected_s(name: str) -> float:
    return _EXPECTED_S[name] * 2 / max(os.cpu_count() or 2, 1)


def _run(argv: list[str], folder: Path, what: str, expected_s: float, progress: Progress) -> None:
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-mod=readonly -buildvcs=false -trimpath",
        "GOWORK": "off",
    }
    began = time.monotonic()
    progress(f"building {what} from Go modules: about {expected_s:.0f} s if nothing of it was built before")
    with tempfile.TemporaryFile("w+", dir=folder) as output:
        process = subprocess.Popen(argv, cwd=folder, env=environment, stdout=output, stderr=output)
        try:
            while True:
                try:
                    process.wait(_TELL_EVERY_S)
                    break
                except subprocess.TimeoutExpired:
                    progress(f"building {what}: {time.monotonic() - began:.0f} s of about {expected_s:.0f} s")
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        output.seek(0)
        lines = deque(output, maxlen=8)
    if process.returncode != 0:
        text = " / ".join(line.strip() for line in lines if line.strip())
        raise BuildFailed(f"go build of {what} failed ({process.returncode}): {text}")
    progress(f"built {what} in {time.monotonic() - began:.0f} s")
