"""Debian packages on this machine that the engine and the node image need."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from .processes import Progress, run

NEEDED: Mapping[str, str] = {
    "docker": "docker.io",
    "dockerd": "docker.io",
    "iptables": "iptables",
    "debootstrap": "debootstrap",
}
"""Program → package that contains it."""

APART = ("unshare", "--mount", "--propagation=private")
"""Prefix for a command that mounts something: its mounts are private, and end with it in any case."""

_DEBIAN = "http://deb.debian.org/debian"


def missing(programs: tuple[str, ...]) -> list[str]:
    """Return the packages of those programs that are not on PATH."""
    return sorted({NEEDED[program] for program in programs if shutil.which(program) is None})


def can_install() -> bool:
    """Return whether packages can be installed here: only root may, and only where there is apt."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(packages: list[str], progress: Progress) -> None:
    """Install packages without their recommended ones. Raises CommandFailed."""
    progress(f"installing {' '.join(packages)}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-qq"], environment=quiet)
    run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], environment=quiet)


def debian_mirror() -> str:
    """Return the address of the Debian archive that this machine itself uses, else Debian's own."""
    if shutil.which("apt-get") is None:
        return _DEBIAN
    lines = run(["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages"]).splitlines()
    return archive_among(lines) or _DEBIAN


def archive_among(lines: list[str]) -> str:
    """Return the first Debian archive of lines ``origin address``; security updates have an archive apart."""
    for line in lines:
        origin, _, address = line.partition(" ")
        if origin == "Debian" and address and "security" not in address:
            return address.rstrip("/")
    return ""
