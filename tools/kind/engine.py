"""The container engine: a running one, else our own Docker, with its own socket and files.

The user's Docker is used as it is, and never started, stopped or configured. Ours is separate from it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pytest_grovescale import procfs
from pytest_grovescale.cluster import processes as identity
from pytest_grovescale.errors import GrovescaleError

from . import capabilities, packages
from .processes import CommandFailed, Progress, run

RECIPE_LABEL = "grovescale.io/recipe"
"""Label of each image built here: a digest of its inputs; when that changes, the image is rebuilt."""

STAGE_LABEL = "grovescale.io/stage"
"""Label of the intermediate stages of the Dockerfiles in ``images/``."""

_RUN = Path("/run/grovescale-kind")
_PROGRAMS = ("docker", "dockerd", "iptables")
_START_S = 60.0
_STOP_S = 60.0
_TAIL_LINES = 8
_ANSWER_S = 20.0


class EngineMissing(GrovescaleError):
    """This machine cannot run a container engine, or cannot give it what kind needs."""


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """A running Docker engine."""

    host: str = ""
    """Its address as ``DOCKER_HOST``; empty for the one that the ``docker`` command finds by itself."""
    pid: int = 0
    """Of our own dockerd; 0 for another engine."""
    started_ticks: int = 0

    @property
    def is_ours(self) -> bool:
        return self.pid != 0

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables that direct ``docker`` and ``kind`` to it."""
        return {"DOCKER_HOST": self.host} if self.host else {}

    def docker(self, *arguments: str, timeout_s: float = 600.0) -> str:
        """Run the ``docker`` command and return its output. Raises CommandFailed."""
        return run(["docker", *arguments], environment=self.environment, timeout_s=timeout_s)

    def label(self, image: str, label: str) -> str:
        """Return the value of an image's label; empty when the image or the label does not exist."""
        try:
            return self.docker("image", "inspect", "--format", f'{{{{index .Config.Labels "{label}"}}}}', image)
        except CommandFailed:
            return ""

    def has(self, image: str) -> bool:
        """Return whether the engine has an image."""
        try:
            return bool(self.docker("image", "inspect", "--format", "{{.Id}}", image))
        except CommandFailed:
            return False

    def pull(self, image: str, progress: Progress) -> bool:
        """Pull an image; return False, and print the reason, when that fails."""
        progress(f"pulling {image}")
        try:
            self.docker("pull", "--quiet", image)
        except CommandFailed as error:
            progress(f"{image} cannot be pulled: {error.message.splitlines()[-1].strip()}")
            return False
        return True

    def prune(self) -> None:
        """Remove images that newer ones replaced, and build leftovers; ours only."""
        for label in (RECIPE_LABEL, STAGE_LABEL):
            self.docker("image", "prune", "--force", "--filter", f"label={label}")

    def import_root(self, root: Path, name: str, changes: Sequence[str]) -> None:
        """Create an image of one layer from a folder. ``changes`` are instructions as in a Dockerfile."""
        options = [word for change in changes for word in ("--change", change)]
        with subprocess.Popen(["tar", "-C", root, "--numeric-owner", "-c", "."], stdout=subprocess.PIPE) as tar:
            assert tar.stdout is not None
            run(["docker", "import", *options, "-", name], environment=self.environment, source=tar.stdout)
        if tar.returncode != 0:
            raise CommandFailed(f"tar of {root} failed ({tar.returncode})")


def running() -> Engine | None:
    """Return our own engine if it runs, else the user's, else None."""
    if (ours := _ours()) is not None:
        return ours
    theirs = Engine()
    return theirs if _answers(theirs) else None


def ensure(cache: Path, progress: Progress) -> tuple[Engine, bool]:
    """Return an engine, and whether it was started by this call. ``cache`` stores our own engine's images and log.

    Raises EngineMissing with the reason.
    """
    if (engine := running()) is not None:
        return engine, False
    require()
    try:
        if wanted := packages.missing(_PROGRAMS):
            packages.install(wanted, progress)
    except CommandFailed as error:
        raise EngineMissing(f"Docker cannot be installed: {error.message}", next_step=_WAYS_OUT) from error
    # Where there is an init system, a package starts what it brings.
    theirs = Engine()
    if _answers(theirs):
        return theirs, False
    return _start(cache, progress), True


def require() -> None:
    """Raise EngineMissing where none can be started: not Linux, not root, no package manager."""
    if not sys.platform.startswith("linux"):
        raise EngineMissing(f"no container engine answers, and none can be started on {sys.platform}", next_step=_START)
    if os.geteuid() != 0:
        raise EngineMissing("no container engine answers, and only root can start one", next_step=_START)
    if (wanted := packages.missing(_PROGRAMS)) and not packages.can_install():
        raise EngineMissing(f"no container engine answers, and there is no {wanted[0]}", next_step=_START)


def require_privileged(engine: Engine, image: str) -> None:
    """Raise EngineMissing where the engine cannot start a privileged container, which a kind node is."""
    try:
        engine.docker("run", "--rm", "--privileged", "--entrypoint", "/bin/true", image)
    except CommandFailed as error:
        raise EngineMissing(f"the engine starts no privileged container here: {error.message}") from error


def stop(engine: Engine, progress: Progress) -> None:
    """Remove all containers of our own engine and end it; its images stay for the next start."""
    assert engine.is_ours
    if containers := engine.docker("ps", "--all", "--quiet").split():
        progress(f"removing {len(containers)} containers that were left")
        engine.docker("rm", "--force", "--volumes", *containers)
    engine.docker("network", "prune", "--force")
    identity.kill(engine.pid, engine.started_ticks, signal.SIGTERM)
    ended = identity.wait_gone(engine.pid, engine.started_ticks, _STOP_S)
    if not ended:
        identity.kill(engine.pid, engine.started_ticks)
    (_RUN / "engine.json").unlink()
    if not ended:
        raise CommandFailed(f"dockerd {engine.pid} did not end in {_STOP_S:g} s and was killed")
    progress("stopped the container engine")


_START = "Start Docker, and let this user reach it, or run as root on a Debian-like machine."
_WAYS_OUT = "Install and start Docker by the means of this machine."


def _ours() -> Engine | None:
    try:
        engine = msgspec.json.decode((_RUN / "engine.json").read_bytes(), type=Engine)
    except FileNotFoundError:
        return None
    return engine if identity.alive(engine.pid, engine.started_ticks) and _answers(engine) else None


def _answers(engine: Engine) -> bool:
    try:
        return bool(engine.docker("version", "--format", "{{.Server.Version}}", timeout_s=_ANSWER_S))
    except CommandFailed:
        return False


def _start(cache: Path, progress: Progress) -> Engine:
    """Start dockerd, in a session of its own, and return once it answers."""
    _RUN.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = cache / "dockerd.log"
    progress(f"starting a container engine; its log: {log}")
    with log.open("wb") as output:
        daemon = subprocess.Popen(
            _command(cache), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    engine = Engine(host=f"unix://{_RUN}/docker.sock", pid=daemon.pid, started_ticks=procfs.started_ticks(daemon.pid))
    try:
        _wait(daemon, engine, log)
    except BaseException:
        # Its child processes end with it only when it is stopped in order.
        daemon.terminate()
        daemon.wait()
        raise
    (_RUN / "engine.json").write_bytes(msgspec.json.encode(engine))
    return engine


def _wait(daemon: subprocess.Popen[bytes], engine: Engine, log: Path) -> None:
    """Return when the engine answers. Raises EngineMissing with its last output when it ends, or takes too long."""
    for _ in range(int(_START_S)):
        try:
            daemon.wait(1.0)
            break
        except subprocess.TimeoutExpired:
            if _answers(engine):
                return
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
    raise EngineMissing("\n".join(["dockerd does not start here:", *(f"  {line}" for line in lines)]))


def _command(cache: Path) -> list[str]:
    command = ["dockerd", f"--host=unix://{_RUN}/docker.sock", f"--pidfile={_RUN}/docker.pid"]
    command += [f"--exec-root={_RUN}/exec", f"--data-root={cache}/docker"]
    if capabilities.withheld():
        command += [f"--add-runtime=withheld={capabilities.write_runtime(_RUN)}", "--default-runtime=withheld"]
    return command
