"""Where a missing binary comes from: an official release, a Debian package, or a build from Go modules.

Releases are verified against their pinned or published checksum, packages by apt. ``go install`` cannot build
Kubernetes (its go.mod has replacements), so each version has a small module of its own in ``gomodules/`` that requires
it and pins every dependency by its go.sum. The build uses a copy in the cache.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from ..errors import GrovescaleError
from . import versions
from .versions import DebianPackage, Release

Progress = Callable[[str], None]

_CONNECT_S = 10.0
_CHUNK = 1 << 18
_TELL_EVERY_S = 2.0
_MAX_CHECKSUM_BYTES = 4 << 20
_HEX = re.compile(r"[0-9a-f]{64}|[0-9a-f]{128}")

_LONGEST_S = 300.0

_MODULES = Path(__file__).parent / "gomodules"
_REPORT_EVERY_S = 10.0

_PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    "prometheus": "github.com/prometheus/prometheus/cmd/prometheus",
    "kind": "sigs.k8s.io/kind",
    "kustomize": "sigs.k8s.io/kustomize/kustomize/v5",
}
# Without the service discovery of two dozen clouds: targets come from files.
_TAGS = {"prometheus": "remove_all_sd"}
# `go build -n` writes this above the commands of each package that the build cache lacks.
_TO_COMPILE = re.compile(r"^#\n# (\S+)\n#$", re.MULTILINE)
_DOWNLOADING = "go: downloading "
_STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


class DownloadFailed(GrovescaleError):
    """A release cannot be downloaded, or its checksum does not match."""


class _Asset(msgspec.Struct):
    name: str
    digest: str | None = None


class _GithubRelease(msgspec.Struct):
    assets: list[_Asset] = []


def fetch(release: Release, target: Path, *, progress: Progress) -> Path:
    """Download a release's binary to ``target`` and return it; raises DownloadFailed with the reason.

    Fetches the checksum first: a release without one is not downloaded.
    """
    expected = _checksum(release)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        actual = _download(release.url, part, len(expected), progress)
        if actual != expected:
            raise DownloadFailed(f"{release.url}: checksum is {actual[:12]}…, expected is {expected[:12]}…")
        if release.member:
            _extract(part, release.member, target)
        else:
            part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target


def _checksum(release: Release) -> str:
    if release.sha256:
        return release.sha256
    name = urlsplit(release.url).path.rpartition("/")[2]
    with _open(release.checksum_url) as answer:
        try:
            body = answer.read(_MAX_CHECKSUM_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise DownloadFailed(f"{release.checksum_url}: {error}") from error
    digest = parse_checksum(body, release.checksum, name)
    if not digest:
        raise DownloadFailed(f"{release.checksum_url}: holds no checksum for {name}")
    return digest


def unreachable(release: Release) -> str:
    """Return why a release cannot be downloaded from here; empty if its server answers."""
    try:
        _open(release.url).close()
    except DownloadFailed as error:
        return error.message
    return ""


def parse_checksum(body: bytes, form: str, name: str) -> str:
    """Return the hex digest for a file; empty if it is missing. ``form`` as in ``Release.checksum``."""
    if form == "github":
        try:
            assets = msgspec.json.decode(body, type=_GithubRelease).assets
        except msgspec.MsgspecError:
            return ""
        texts = [asset.digest or "" for asset in assets if asset.name == name]
        text = texts[0].removeprefix("sha256:") if texts else ""
    else:
        lines = [line.split() for line in body.decode(errors="replace").splitlines()]
        if form == "sums":
            lines = [parts for parts in lines if len(parts) == 2 and parts[1].lstrip("*") == name]
        text = lines[0][0] if lines and lines[0] else ""
    return text.lower() if _HEX.fullmatch(text.lower()) else ""


def _download(url: str, part: Path, digits: int, progress: Progress) -> str:
    """Write the response body to ``part`` and return its hex digest."""
    digest = hashlib.sha256() if digits == 64 else hashlib.sha512()
    name = url.rpartition("/")[2]
    began = reported_at = time.monotonic()
    done = 0
    with _open(url) as answer, part.open("wb") as file:
        size = int(answer.headers.get("Content-Length") or 0)
        try:
            while chunk := answer.read(_CHUNK):
                file.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                if time.monotonic() - reported_at > _TELL_EVERY_S:
                    reported_at = time.monotonic()
                    progress(f"downloading {name}: {_amount(done, size, reported_at - began)}")
        except (OSError, http.client.HTTPException) as error:
            raise DownloadFailed(f"{url}: broke off after {done} bytes: {error}") from error
    if size and done != size:
        raise DownloadFailed(f"{url}: broke off after {done} of {size} bytes")
    progress(f"downloaded {name}: {done / 1e6:.0f} MB in {time.monotonic() - began:.0f} s")
    return digest.hexdigest()


def _amount(done: int, size: int, elapsed_s: float) -> str:
    rate = done / elapsed_s
    text = f"{done / 1e6:.0f} MB, {rate / 1e6:.1f} MB/s"
    if not size:
        return text
    return f"{done / 1e6:.0f} of {size / 1e6:.0f} MB, {rate / 1e6:.1f} MB/s, {(size - done) / rate:.0f} s left"


def _extract(archive: Path, member: str, target: Path) -> None:
    try:
        with tarfile.open(archive) as tar:
            source = tar.extractfile(member)
            if source is None:
                raise DownloadFailed(f"{archive.name}: {member} is no file")
            with source, target.open("wb") as file:
                while chunk := source.read(_CHUNK):
                    file.write(chunk)
    except (tarfile.TarError, KeyError, EOFError) as error:
        raise DownloadFailed(f"the archive does not hold {member}: {error}") from error


def _open(url: str) -> http.client.HTTPResponse:
    # Unlike loopback traffic, this goes through the proxy of the user's environment.
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url), timeout=_CONNECT_S)
    except urllib.error.HTTPError as error:
        with error:
            raise DownloadFailed(f"{url}: HTTP {error.code} {error.reason}") from error
    except (urllib.error.URLError, OSError, http.client.HTTPException) as error:
        raise DownloadFailed(f"{url}: {getattr(error, 'reason', error)}") from error
    assert isinstance(answer, http.client.HTTPResponse)
    return answer


class PackageFailed(GrovescaleError):
    """A package cannot be downloaded, or lacks the expected program."""


def fetch_package(package: DebianPackage, work: Path, *, progress: Progress) -> Path:
    """Return the package's program, a file inside ``work``; raises PackageFailed with the reason.

    Takes the version that this machine's package sources offer. Needs no root and does not change the system.
    """
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise PackageFailed(f"no {tool} on PATH")
    with tempfile.TemporaryDirectory(prefix="debian-", dir=work) as folder:
        progress(f"downloading Debian's package {package.name}")
        _run_tool(["apt-get", "--quiet", "download", package.name], folder)
        packages = list(Path(folder).glob("*.deb"))
        if len(packages) != 1:
            raise PackageFailed(f"apt-get download {package.name} left {len(packages)} packages")
        _run_tool(["dpkg-deb", "--extract", str(packages[0]), "content"], folder)
        program = Path(folder) / "content" / package.member
        if not program.is_file():
            raise PackageFailed(f"{packages[0].name} holds no {package.member}")
        target = work / f"{program.name}.unpacked"
        program.replace(target)
    return target


def _run_tool(argv: list[str], folder: str) -> None:
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


class BuildFailed(GrovescaleError):
    """A build failed."""


def build(name: str, version: str, kubernetes: str, work: Path, *, progress: Progress) -> Path:
    """Build a binary and return its path inside ``work``; raises BuildFailed with the reason."""
    needed = versions.go_needed(name, kubernetes)
    go = toolchain(needed)
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


def toolchain(needed: tuple[int, int]) -> str:
    """Return the path of a Go that is new enough; raises BuildFailed with the reason."""
    go = shutil.which("go")
    minimum = ".".join(map(str, needed))
    if go is None:
        raise BuildFailed(f"no Go toolchain on PATH ({minimum} or newer is needed)")
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
        raise BuildFailed(f"{go} is {match[0]}, {minimum} or newer is needed")
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
