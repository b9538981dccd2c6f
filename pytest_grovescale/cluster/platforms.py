"""Platforms that can run a local control plane."""

from __future__ import annotations

import platform
import sys

from ..errors import ClusterError

_GO_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class UnsupportedPlatform(ClusterError):
    """This machine cannot run the requested cluster; tests that need it are skipped."""


def require_linux() -> None:
    """Raise UnsupportedPlatform anywhere but on Linux (process ownership rests on prctl, pidfd and /proc)."""
    if sys.platform != "linux":
        raise UnsupportedPlatform(
            f"a local control plane runs on Linux only, this is {platform.system() or sys.platform}",
            next_step="Run the tests in a Linux container or virtual machine.",
        )


def architecture() -> str:
    """Return this machine's architecture as Go and the release pages name it; raises UnsupportedPlatform."""
    machine = platform.machine().lower()
    try:
        return _GO_ARCHITECTURES[machine]
    except KeyError:
        raise UnsupportedPlatform(
            f"no Kubernetes control plane is released for {machine}",
            next_step="Use an amd64 or arm64 machine.",
        ) from None
