"""The binaries of a control plane: resolved, cached, or made; the platforms that can run them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from ..atomic_write import replacing
from ..errors import BinaryError, ClusterError
from . import binary_sources, locks, versions
from .backend import backend
from .definition import ClusterDefinition

Progress = Callable[[str], None]

_VERSION = re.compile(r"v?(\d+\.\d+\.\d+)(?!\.?\d)")
_PROBE_S = 20.0
_CACHE = "cache: "
_BEHIND = "waiting: another run is making the control plane's binaries"

_GO_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class Binary(msgspec.Struct, frozen=True, kw_only=True):
    """One executable."""

    name: str
    version: str
    path: str
    source: str
    """Where it comes from, as text."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table that ``grovescale setup`` prints."""

    name: str
    version: str
    source: str
    sha256: str
    path: str


class _Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Source of a cached binary, stored beside it."""

    source: str
    sha256: str


def cache_root() -> Path:
    """Return the cache folder: ``$GROVESCALE_CACHE_DIR``, else the user's cache folder of grovescale."""
    if folder := os.environ.get("GROVESCALE_CACHE_DIR"):
        return Path(folder).absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("grovescale"))


def resolve(definition: ClusterDefinition, *, progress: Progress) -> dict[str, Binary]:
    """Return all binaries that a cluster needs; download or build missing ones. Raises BinaryError."""
    return find(
        backend(definition.backend).binaries(definition),
        definition.kubernetes,
        given=definition.binaries,
        progress=progress,
    )


def find(names: Sequence[str], kubernetes: str, *, given: Mapping[str, str], progress: Progress) -> dict[str, Binary]:
    """Return binaries by name for a full Kubernetes version. ``given``: paths that override all other sources.

    Order: given paths, the environment, the cache, PATH, the official release, Debian's package where there is one, Go
    modules. Raises BinaryError.
    """
    resolved: dict[str, Binary] = {}
    tried: dict[str, list[str]] = {name: [] for name in names}
    for name in names:
        if binary := _present(name, kubernetes, given.get(name, ""), tried[name]):
            resolved[name] = binary
        for line in tried[name]:
            if line.startswith(_CACHE):
                progress(f"{name}: {line}" + ("" if binary else "; it is made again"))
    missing = [name for name in names if name not in resolved]
    if missing:
        # Two starts at once must not both build for seven minutes: the second finds the binary in the cache.
        with locks.held(cache_root() / "making.lock", waiting=lambda: progress(_BEHIND)):
            for name in missing:
                cached = _cached(name, kubernetes, [])
                resolved[name] = cached or _make(name, kubernetes, tried[name], progress)
    return resolved


def setup(kubernetes: str, *, given: Mapping[str, str], progress: Progress, optional: Sequence[str] = ()) -> list[Row]:
    """Find, download or build all binaries for a Kubernetes version and return one table row for each."""
    resolved = find((*versions.NEEDED, *optional), kubernetes, given=given, progress=progress)
    return [
        Row(
            name=name, version=binary.version, source=binary.source, sha256=_sha256(Path(binary.path)), path=binary.path
        )
        for name, binary in resolved.items()
    ]


def present(name: str, kubernetes: str) -> Binary | None:
    """Return a binary that is available without a download or build."""
    return _present(name, kubernetes, "", [])


def is_present(name: str, kubernetes: str) -> bool:
    """Return whether a binary is available without a download or build."""
    return present(name, kubernetes) is not None


# ---- binaries on this machine


def _present(name: str, kubernetes: str, given: str, tried: list[str]) -> Binary | None:
    if given:
        return _given(name, kubernetes, given)
    for variable, path in _environment(name):
        if not path.is_file():
            tried.append(f"${variable}: no {path}")
            continue
        version = probe(path)
        if versions.accepted(name, version, kubernetes):
            return Binary(name=name, version=version, path=str(path), source=f"${variable}")
        tried.append(f"${variable}: version {version or 'unknown'} is not fit for Kubernetes {kubernetes}")
    if cached := _cached(name, kubernetes, tried):
        return cached
    if on_path := shutil.which(name):
        version = probe(Path(on_path))
        if versions.accepted(name, version, kubernetes):
            return Binary(name=name, version=version, path=on_path, source="PATH")
        tried.append(f"PATH: {on_path} is version {version or 'unknown'}")
    else:
        tried.append("PATH: none")
    return None


def _given(name: str, kubernetes: str, given: str) -> Binary:
    path = Path(given).expanduser().absolute()
    if not path.is_file() or not os.access(path, os.X_OK):
        raise BinaryError(f"{name}: {path} is not an executable file", next_step="Correct the path that was given.")
    version = probe(path)
    if not versions.accepted(name, version, kubernetes):
        raise BinaryError(
            f"{name}: {path} is version {version or 'unknown'}, which is not fit for Kubernetes {kubernetes}",
            next_step="Give another path, or the Kubernetes version that goes with it.",
        )
    return Binary(name=name, version=version, path=str(path), source="given path")


def _environment(name: str) -> list[tuple[str, Path]]:
    """Return the paths from environment variables: first those of envtest, then those of kwok."""
    locations = []
    if folder := os.environ.get("KUBEBUILDER_ASSETS"):
        locations.append(("KUBEBUILDER_ASSETS", Path(folder) / name))
    # kwok's own command-line tool calls the kwok binary "controller".
    variable = f"KWOK_{'CONTROLLER' if name == 'kwok' else name.upper().replace('-', '_')}_BINARY"
    if path := os.environ.get(variable):
        locations.append((variable, Path(path)))
    return locations


def probe(path: Path) -> str:
    """Return the version that a binary reports (``1.36.3``), or an empty string.

    Cached per file: running five 100 MB programs costs half a second.
    """
    return _remembered(path, "probed.json", _ask_version)


def _remembered(path: Path, name: str, ask: Callable[[Path], str]) -> str:
    """Return ``ask(path)``, cached in the file ``name`` until the binary changes."""
    status = path.stat()
    # ctime as well: unlike the modification time, no program can set it.
    key = f"{path.resolve()} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
    answers = cache_root() / name
    try:
        known = msgspec.json.decode(answers.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        known = {}
    if key not in known:
        # Drops entries of files that have changed or are gone.
        known = {old: text for old, text in known.items() if not old.startswith(f"{path.resolve()} ")}
        known[key] = ask(path)
        # If the cache is not writable (another user's, for example), the next call asks again.
        with contextlib.suppress(OSError):
            answers.parent.mkdir(parents=True, exist_ok=True)
            with replacing(answers) as file:
                file.write(msgspec.json.encode(known))
    return known[key]


def _ask_version(path: Path) -> str:
    arguments = {"kubectl": ["version", "--client"], "kustomize": ["version"]}.get(path.name, ["--version"])
    try:
        done = subprocess.run(
            [str(path), *arguments],
            capture_output=True,
            text=True,
            timeout=_PROBE_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = _VERSION.search(done.stdout + done.stderr)
    return match[1] if match and done.returncode == 0 else ""


# ---- the cache


def folder(name: str, version: str) -> Path:
    """Return the cache folder of one binary."""
    return cache_root() / "binaries" / name / version / f"linux-{architecture()}"


def _cached(name: str, kubernetes: str, problems: list[str]) -> Binary | None:
    """Return the cached binary: the pinned version, else Debian's; append defects of a damaged one to ``problems``."""
    if pinned := _cached_version(name, versions.pinned(name, kubernetes), problems):
        return pinned
    others = (cache_root() / "binaries" / name).glob("*") if name in versions.DEBIAN else ()
    accepted = (other.name for other in others if versions.accepted(name, other.name, kubernetes))
    fit = (_cached_version(name, version, problems) for version in accepted)
    return next((binary for binary in fit if binary is not None), None)


def _cached_version(name: str, version: str, problems: list[str]) -> Binary | None:
    path = folder(name, version) / name
    description = path.with_name("origin.json")
    try:
        origin = msgspec.json.decode(description.read_bytes(), type=_Origin)
    except OSError:
        # Missing, not a folder, or another user's.
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        problems.append(f"{_CACHE}{description} is damaged: {error}")
        return None
    if not path.is_file():
        problems.append(f"{_CACHE}{path} is missing")
        return None
    digest = _remembered(path, "digests.json", _sha256)
    if digest != origin.sha256:
        problems.append(f"{_CACHE}{path} is damaged: its sha256 is {digest[:12]}…, {origin.sha256[:12]}… was stored")
        return None
    if not os.access(path, os.X_OK):
        problems.append(f"{_CACHE}{path} is not executable")
        return None
    return Binary(name=name, version=version, path=str(path), source=f"cache ({origin.source})")


def store(made: Path, name: str, version: str, source: str) -> Binary:
    """Move a finished binary into the cache atomically."""
    target = folder(name, version)
    target.mkdir(parents=True, exist_ok=True)
    made.chmod(0o755)
    origin = _Origin(source=source, sha256=_sha256(made))
    temporary = target / f".{name}.{os.getpid()}"
    shutil.move(made, temporary)
    with temporary.open("rb") as file:
        # Synced before its description is written: after a power cut, a truncated file would be reported as damaged.
        os.fsync(file.fileno())
    temporary.replace(target / name)
    # Last: the description makes the binary valid.
    with replacing(target / "origin.json", durable=True) as description:
        description.write(msgspec.json.encode(origin))
    return Binary(name=name, version=version, path=str(target / name), source=source)


# ---- missing binaries


def _make(name: str, kubernetes: str, tried: list[str], progress: Progress) -> Binary:
    version = versions.pinned(name, kubernetes)
    work = cache_root() / "making"
    work.mkdir(parents=True, exist_ok=True)
    try:
        release = versions.release(name, version, architecture())
        made = binary_sources.fetch(release, work / name, progress=progress)
        return store(made, name, version, _release_source(release, f"{name} {version}", progress))
    except binary_sources.DownloadFailed as error:
        tried.append(f"download: {error.message}")
        progress(f"{name} {version}: {error.message}")
    if name in versions.DEBIAN:
        try:
            return _unpack(name, kubernetes, work, progress)
        except binary_sources.PackageFailed as error:
            tried.append(f"Debian's package: {error.message}")
            progress(f"{name}: {error.message}")
    try:
        made = binary_sources.build(name, version, kubernetes, work, progress=progress)
        return store(made, name, version, "built from Go modules")
    except binary_sources.BuildFailed as error:
        tried.append(f"build: {error.message}")
    raise BinaryError(
        f"{name} {version} is not available:\n" + "\n".join(f"  {line}" for line in tried),
        next_step=_ways_out(name, kubernetes),
    )


def _release_source(release: versions.Release, what: str, progress: Progress) -> str:
    """Return the source of a downloaded release; report a digest that is not pinned but was read with the download."""
    if release.sha256:
        return "official release, pinned digest"
    published = urlsplit(release.checksum_url).netloc
    progress(
        f"{what}: its digest is not pinned in this version of grovescale: it was read from {published} during this"
        " download, and is stored; the file is held to it from now on"
    )
    return f"official release, digest read from {published}"


def _ways_out(name: str, kubernetes: str) -> str:
    go = ".".join(map(str, versions.go_needed(name, kubernetes)))
    ways = [
        "let this machine reach the release servers",
        f"install Go {go} or newer and let it reach a module proxy",
        "put the binary on PATH or into $KUBEBUILDER_ASSETS",
    ]
    if package := versions.DEBIAN.get(name):
        ways.insert(1, f"let apt find its package {package.name} (apt-get update)")
    return f"One of {len(ways)}: {'; or '.join(ways)}."


def _unpack(name: str, kubernetes: str, work: Path, progress: Progress) -> Binary:
    made = binary_sources.fetch_package(versions.DEBIAN[name], work, progress=progress)
    version = probe(made)
    if not versions.accepted(name, version, kubernetes):
        made.unlink()
        raise binary_sources.PackageFailed(f"it holds version {version or 'unknown'}, which is not fit")
    return store(made, name, version, "Debian's package")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
