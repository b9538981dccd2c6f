"""Programs from Debian packages, unpacked without installing them; apt verifies each download."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from ..errors import GrovescaleError
from .versions import DebianPackage

Progress = Callable[[str], None]

_LONGEST_S = 300.0


class PackageFailed(GrovescaleError):
    """A package cannot be downloaded, or lacks the expected program."""


def fetch(package: DebianPackage, work: Path, *, progress: Progress) -> Path:
    """Return the package's program, a file inside ``work``; raises PackageFailed with the reason.

    Takes the version that this machine's package sources offer. Needs no root and does not change the system.
    """
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise PackageFailed(f"no {tool} on PATH")
    with tempfile.TemporaryDirectory(prefix="debian-", dir=work) as folder:
        progress(f"downloading Debian's package {package.name}")
        _run(["apt-get", "--quiet", "download", package.name], folder)
        found = list(Path(folder).glob("*.deb"))
        if len(found) != 1:
            raise PackageFailed(f"apt-get download {package.name} left {len(found)} packages")
        _run(["dpkg-deb", "--extract", str(found[0]), "content"], folder)
        program = Path(folder) / "content" / package.member
        if not program.is_file():
            raise PackageFailed(f"{found[0].name} holds no {package.member}")
        target = work / f"{program.name}.unpacked"
        program.replace(target)
    return target


def _run(argv: list[str], folder: str) -> None:
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PackageFailed(f"{' '.join(argv[:2])}: not done after {_LONGEST_S:g} s") from None
    if done.returncode != 0:
        text = " / ".join(line.strip() for line in done.stderr.splitlines() if line.startswith(("E:", "dpkg")))
        raise PackageFailed(f"{' '.join(argv[:3])}: {text or done.stderr.strip()[-300:]}")
