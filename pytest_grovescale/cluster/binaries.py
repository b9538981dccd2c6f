"""The control plane's binaries, and Prometheus: looked up where they may be, else downloaded, else built."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from ..errors import BinaryError
from ..whole_files import replacing
from . import debian, download, gobuild, locks, platforms, versions
from .definition import ClusterDefinition, Kind

Progress = Callable[[str], None]

_VERSION = re.compile(r"v?(\d+\.\d+\.\d+)(?!\.?\d)")
_PROBE_S = 20.0
_CACHE = "cache: "
_BEHIND = "waiting: another run is making the control plane's binaries"


class Binary(msgspec.Struct, frozen=True, kw_only=True):
    """One executable, found or made."""

    name: str
    version: str
    path: str
    source: str
    """Where it is from, in words."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of ``grovescale setup``'s table."""

    name: str
    version: str
    source: str
    sha256: str
    path: str


class _Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Beside each binary in the cache: where it is from."""

    source: str
    sha256: str


def cache_root() -> Path:
    """Return the cache folder: ``$GROVESCALE_CACHE_DIR``, else the user's for this program."""
    if folder := os.environ.get("GROVESCALE_CACHE_DIR"):
        return Path(folder).absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("grovescale"))


def resolve(definition: ClusterDefinition, *, progress: Progress) -> dict[str, Binary]:
    """Return everything that a cluster needs, making what is missing. Raises BinaryError."""
    return find(needed(definition), definition.kubernetes, given=definition.binaries, progress=progress)


def needed(definition: ClusterDefinition) -> tuple[str, ...]:
    """Return the names of the binaries that a cluster needs on this machine."""
    match definition.backend:
        case "local":
            return versions.NEEDED
        case "kind":
            settings = definition.kind or Kind()
            return ("kind", "kwok") if settings.kwok == "host" else ("kind",)
        case "existing":
            # With `auto` it turns out there whether one is needed.
            return ("kwok",) if definition.existing is not None and definition.existing.kwok == "host" else ()


def find(names: Sequence[str], kubernetes: str, *, given: Mapping[str, str], progress: Progress) -> dict[str, Binary]:
    """Return binaries by name for a full Kubernetes version. ``given`` are paths that are used as they are.

    Order: given paths, the environment, the cache, PATH, the official release, Debian's package where it has one, Go
    modules. Raises BinaryError.
    """
    found: dict[str, Binary] = {}
    tried: dict[str, list[str]] = {name: [] for name in names}
    for name in names:
        if binary := _present(name, kubernetes, given.get(name, ""), tried[name]):
            found[name] = binary
        for line in tried[name]:
            if line.startswith(_CACHE):
                progress(f"{name}: {line}" + ("" if binary else "; it is made again"))
    missing = [name for name in names if name not in found]
    if missing:
        # Two starters must not build the same for seven minutes each: the second finds it in the cache.
        with locks.held(cache_root() / "making.lock", waiting=lambda: progress(_BEHIND)):
            for name in missing:
                cached = _cached(name, kubernetes, [])
                found[name] = cached or _make(name, kubernetes, tried[name], progress)
    return found


def setup(kubernetes: str, *, given: Mapping[str, str], progress: Progress, optional: Sequence[str] = ()) -> list[Row]:
    """Find or make everything for a Kubernetes version ahead of time and say what is used."""
    found = find((*versions.NEEDED, *optional), kubernetes, given=given, progress=progress)
    return [
        Row(
            name=name, version=binary.version, source=binary.source, sha256=_sha256(Path(binary.path)), path=binary.path
        )
        for name, binary in found.items()
    ]


def is_present(name: str, kubernetes: str) -> bool:
    """Return whether a binary is there without anything being downloaded or built."""
    return _present(name, kubernetes, "", []) is not None


# ---- what is there


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
    """Return the places that environment variables name: envtest users have the first, kwok users the second."""
    found = []
    if folder := os.environ.get("KUBEBUILDER_ASSETS"):
        found.append(("KUBEBUILDER_ASSETS", Path(folder) / name))
    # kwok's own tool calls kwok itself the controller.
    variable = f"KWOK_{'CONTROLLER' if name == 'kwok' else name.upper().replace('-', '_')}_BINARY"
    if path := os.environ.get(variable):
        found.append((variable, Path(path)))
    return found


def probe(path: Path) -> str:
    """Return the version that a binary says it has (``1.36.3``), or an empty text.

    Remembered per file: asking five 100 MB programs costs half a second.
    """
    return _remembered(path, "probed.json", _ask_version)


def _remembered(path: Path, name: str, ask: Callable[[Path], str]) -> str:
    """Return what ``ask`` says of a file, asked again only when the file has changed; ``name``: the answers' file."""
    status = path.stat()
    # The change time as well: unlike the modification time, no program can set it.
    key = f"{path.resolve()} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
    answers = cache_root() / name
    try:
        known = msgspec.json.decode(answers.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        known = {}
    if key not in known:
        # Answers about files that have changed or are gone have no more use.
        known = {old: text for old, text in known.items() if not old.startswith(f"{path.resolve()} ")}
        known[key] = ask(path)
        # Asked again next time where this cannot be written, as in a cache that another user keeps.
        with contextlib.suppress(OSError):
            answers.parent.mkdir(parents=True, exist_ok=True)
            with replacing(answers) as file:
                file.write(msgspec.json.encode(known))
    return known[key]


def _ask_version(path: Path) -> str:
    try:
        done = subprocess.run(
            [str(path), "version", "--client"] if path.name == "kubectl" else [str(path), "--version"],
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
    """Return the folder of one binary in the cache."""
    return cache_root() / "binaries" / name / version / f"linux-{platforms.architecture()}"


def _cached(name: str, kubernetes: str, problems: list[str]) -> Binary | None:
    """Return the pinned version, else what Debian had; append to ``problems`` what is wrong with a damaged one."""
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
        # Not there, or in a folder that is none, or another user's.
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
    """Move a finished binary into the cache; there it is whole or not at all."""
    target = folder(name, version)
    target.mkdir(parents=True, exist_ok=True)
    made.chmod(0o755)
    origin = _Origin(source=source, sha256=_sha256(made))
    temporary = target / f".{name}.{os.getpid()}"
    shutil.move(made, temporary)
    with temporary.open("rb") as file:
        # On the disk before its description is: half of it would be found damaged after a power cut.
        os.fsync(file.fileno())
    temporary.replace(target / name)
    # Last: the binary counts from here on.
    with replacing(target / "origin.json", durable=True) as description:
        description.write(msgspec.json.encode(origin))
    return Binary(name=name, version=version, path=str(target / name), source=source)


# ---- what is not there


def _make(name: str, kubernetes: str, tried: list[str], progress: Progress) -> Binary:
    version = versions.pinned(name, kubernetes)
    work = cache_root() / "making"
    work.mkdir(parents=True, exist_ok=True)
    try:
        made = download.fetch(versions.release(name, version, platforms.architecture()), work / name, progress=progress)
        return store(made, name, version, "official release")
    except download.DownloadFailed as error:
        tried.append(f"download: {error.message}")
        progress(f"{name} {version}: {error.message}")
    if name in versions.DEBIAN:
        try:
            return _unpack(name, kubernetes, work, progress)
        except debian.PackageFailed as error:
            tried.append(f"Debian's package: {error.message}")
            progress(f"{name}: {error.message}")
    try:
        made = gobuild.build(name, version, kubernetes, work, progress=progress)
        return store(made, name, version, "built from Go modules")
    except gobuild.BuildFailed as error:
        tried.append(f"build: {error.message}")
    raise BinaryError(
        f"{name} {version} was found nowhere:\n" + "\n".join(f"  {line}" for line in tried),
        next_step=_ways_out(name, kubernetes),
    )


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
    made = debian.fetch(versions.DEBIAN[name], work, progress=progress)
    version = probe(made)
    if not versions.accepted(name, version, kubernetes):
        made.unlink()
        raise debian.PackageFailed(f"it holds version {version or 'unknown'}, which is not fit")
    return store(made, name, version, "Debian's package")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
