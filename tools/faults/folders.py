"""The folders of the runs of one fault, and inspection of their contents.

All of this runs in the fault's own mount and pid namespace: /tmp, /dev/shm and all visible processes are its own.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from pytest_grovescale.cluster import binaries, versions
from pytest_grovescale.recording.journal import Reader, recordings_in

from .definitions import DamageCache, DamageFile, Journal, Occupied, Place

ROOT = Path("/tmp/faults")
"""A separate file system, unaffected when /tmp is filled."""
BYSTANDER = ROOT / "bystander"
"""Files of root that no run may touch."""
SCENARIO = "test_thousand_pods.py"

_BINARIES = ROOT / "binaries"
_TMP, _DATA = Path("/tmp"), Path("/dev/shm")
_LOCK = _TMP / "grovescale-machine-lock"
_STAY = frozenset(
    {
        "tmp/grovescale-machine-lock",
        "tmp/grovescale-machine-lock/gate",
        "tmp/grovescale-machine-lock/main",
        "state/clusters",
        "state/locks",
        "state/runs",
        "state/failed-starts",
        "state/machine-lock",
        "state/machine-lock/gate",
        "state/machine-lock/main",
        "cache/binaries",
        "cache/digests.json",
        "cache/probed.json",
        "cache/making",
        "cache/making.lock",
    }
)
"""Files and folders that stay on purpose: of a fixed number, or asked for."""
_PAGE = 4096
_TRIES = 50


class Folders(msgspec.Struct, frozen=True, kw_only=True):
    """The folders of one user's runs."""

    root: Path
    uid: int

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    def of(self, place: Place) -> Path:
        return {"data": _DATA, "tmp": _TMP}.get(place) or self.root / place

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """Return all environment variables of a run: without downloads and builds, restricted to its own folders.

        ``extra``: more of them; an empty value stands for none.
        """
        nowhere = "http://127.0.0.1:9"
        variables = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.root / "home"),
            "LANG": "C.UTF-8",
            "GROVESCALE_STATE_DIR": str(self.root / "state"),
            "GROVESCALE_CACHE_DIR": str(self.root / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "GOPROXY": "off",
            "GOTOOLCHAIN": "local",
            "http_proxy": nowhere,
            "https_proxy": nowhere,
            "HTTPS_PROXY": nowhere,
            **extra,
        }
        return {name: value for name, value in variables.items() if value}


# ---- creating them


def private_file_systems() -> None:
    """Mount this namespace's own file systems. Raises CalledProcessError."""
    mount("-t", "tmpfs", "-o", "size=64m,mode=1777", "none", str(_TMP))
    mount("-t", "tmpfs", "-o", "size=8g,mode=1777", "none", str(_DATA))
    ROOT.mkdir()
    mount("-t", "tmpfs", "-o", "size=4g,mode=755", "none", str(ROOT))
    BYSTANDER.mkdir()
    (BYSTANDER / "keep").write_text("keep", encoding="utf-8")


def mount(*arguments: str) -> None:
    """Call mount(8). Raises CalledProcessError."""
    subprocess.run(["mount", *arguments], check=True, capture_output=True, text=True)


def provide_binaries(cache: Path) -> None:
    """Make the machine's cached binaries visible below `ROOT`, for all users."""
    _BINARIES.mkdir()
    mount("--bind", str(cache / "binaries"), str(_BINARIES))


def open_to_all(needed: Iterable[Path]) -> None:
    """Let every user of this namespace read these paths below folders that are closed to others, such as /root.

    In place of a closed folder there is then an open one with only these paths, which keep their names.
    Raises CalledProcessError.
    """
    held = ROOT / "held"
    closed: dict[Path, dict[Path, Path]] = {}
    for number, path in enumerate(dict.fromkeys(needed)):
        outermost = next((above for above in reversed(path.parents) if not above.stat().st_mode & stat.S_IXOTH), None)
        if outermost is not None:
            aside = held / str(number)
            aside.mkdir(parents=True)
            mount("--bind", str(path), str(aside))
            closed.setdefault(outermost, {})[path] = aside
    for outermost, paths in closed.items():
        mount("-t", "tmpfs", "-o", "mode=755", "none", str(outermost))
        for path in sorted(paths):
            path.mkdir(parents=True, exist_ok=True)
            mount("--bind", str(paths[path]), str(path))


def make(root: Path, uid: int, cache: Path, scenario: Path) -> Folders:
    """Create the folders of a user: a project with the scale test, a view of the cache, and empty ones."""
    folders = Folders(root=root, uid=uid)
    for name in ("project", "state", "reports", "home", "cache"):
        (root / name).mkdir(parents=True)
    shutil.copy(scenario, folders.project / SCENARIO)
    (folders.project / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    for origin in _BINARIES.glob("*/*/*/origin.json"):
        view = root / "cache" / "binaries" / origin.parent.relative_to(_BINARIES)
        view.mkdir(parents=True)
        shutil.copy(origin, view)
        (view / view.parents[1].name).symlink_to(origin.with_name(view.parents[1].name))
    for name in ("digests.json", "probed.json"):
        # The machine's records of its binaries apply here, too: they are the same files under another path.
        known = (cache / name).read_text(encoding="utf-8") if (cache / name).exists() else "{}"
        known = known.replace(str((cache / "binaries").resolve()), str(_BINARIES))
        (root / "cache" / name).write_text(known, encoding="utf-8")
    if uid:
        for path in (root, *root.rglob("*")):
            os.chown(path, uid, uid, follow_symlinks=False)
    return folders


def provide_on_path(folder: Path) -> None:
    """Create a folder with intact binaries, for PATH."""
    folder.mkdir()
    for origin in _BINARIES.glob("*/*/*/origin.json"):
        name = origin.parents[2].name
        (folder / name).symlink_to(origin.with_name(name))


def damage(cache: Path, action: DamageCache) -> Callable[[], None]:
    """Damage a binary of the cache's view; return a function that repairs it."""
    origin = next((cache / "binaries" / action.binary).glob("*/*/origin.json"))
    path = origin.with_name(action.binary)
    target, described = path.readlink(), origin.read_bytes()
    if action.how == "origin-half":
        origin.write_bytes(described[: len(described) // 2])
    else:
        path.unlink()
        _write_damaged(path, target, action.how)

    def restore() -> None:
        path.unlink(missing_ok=True)
        path.symlink_to(target)
        origin.write_bytes(described)

    return restore


def _write_damaged(path: Path, sound: Path, how: str) -> None:
    match how:
        case "missing":
            return
        case "script":
            path.write_text(f"#!/bin/sh\necho executed >> {BYSTANDER}/executed\n", encoding="utf-8")
        case "half":
            path.write_bytes(sound.read_bytes()[: sound.stat().st_size // 2])
        case "flipped":
            content = bytearray(sound.read_bytes())
            content[len(content) // 2] ^= 0xFF
            path.write_bytes(content)
        case _:
            shutil.copyfile(sound, path)
    path.chmod(0o644 if how == "not-executable" else 0o755)


def occupy(action: Occupied, uid: int) -> None:
    """Occupy a name that a run uses, as another user could have."""
    path = {
        "lock-folder": _LOCK,
        "lock-gate": _LOCK / "gate",
        "lock-main": _LOCK / "main",
        "data-folder": _DATA / "grovescale-data-occupied",
    }[action.path]
    if path.parent == _LOCK:
        _LOCK.mkdir()
        _LOCK.chmod(0o1777)
        os.chown(_LOCK, uid, uid)
    match action.how:
        case "symlink":
            path.symlink_to(BYSTANDER / "absent" if path.parent == _LOCK else BYSTANDER)
        case "fifo":
            os.mkfifo(path, 0o666)
        case "file":
            path.write_bytes(b"\xff\xfe")
        case _:
            path.mkdir(mode=0o700)
            os.mkfifo(path / "cluster")
    os.chown(path, uid, uid, follow_symlinks=False)


# ---- full disks


def mount_disk(path: Path, uid: int) -> None:
    """Give a folder a file system of its own, which `limit_disk` can fill."""
    mount("-t", "tmpfs", "-o", f"size=2g,mode=755,uid={uid},gid={uid}", "none", str(path))


def limit_disk(path: Path, left: int | None) -> None:
    """Leave this many bytes free on a file system of ours; None: plenty. Raises CalledProcessError."""
    for attempt in range(_TRIES):
        disk = os.statvfs(path)
        used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize
        size = 4 << 30 if left is None else max(_PAGE, -(-(used + left) // _PAGE) * _PAGE)
        try:
            mount("-o", f"remount,size={size}", str(path))
        except subprocess.CalledProcessError:
            # It was written to meanwhile, and already holds more.
            if attempt == _TRIES - 1:
                raise
        else:
            return


def limit_inodes(path: Path, *, none: bool) -> None:
    """Leave no inode free on a file system of ours, or plenty. Raises CalledProcessError."""
    disk = os.statvfs(path)
    mount("-o", f"remount,nr_inodes={disk.f_files - disk.f_ffree if none else 1 << 20}", str(path))


def damage_file(folders: Folders, action: DamageFile) -> bool:
    """Damage a file of the running test; return whether there was one."""
    patterns = {
        "journal": "reports/2*/recordings/*.jsonl.zst",
        "cluster-state": "state/clusters/*/cluster.json",
        "processes": "state/clusters/*/processes.json",
        "audit-log": "state/clusters/*/**/audit*.log",
    }
    found = sorted(folders.root.glob(patterns[action.file]))
    for path in found:
        match action.how:
            case "truncated":
                os.truncate(path, path.stat().st_size // 2)
            case "removed":
                path.unlink()
            case _:
                path.write_bytes(b"\xff\xfe{not json\n" * 10)
    return bool(found)


# ---- inspecting them


def left(folders: Folders) -> frozenset[str]:
    """Return the contents of the folders that a run should leave unchanged, such as `state/clusters/NAME`."""
    root = folders.root
    entries = {
        "dev/shm": _entries(_DATA, 1),
        "tmp": (path for path in _entries(_TMP, 2) if not path.is_relative_to(ROOT)),
        "state": _entries(root / "state", 2),
        "home": _entries(root / "home", 3),
        "cache": _entries(root / "cache", 1),
        "cache/making": _entries(root / "cache" / "making", 1),
        "reports": (path for path in _entries(root / "reports", 3) if path.name.startswith(".")),
        "project": (path for path in _entries(folders.project, 1) if path.name != "__pycache__"),
    }
    tops = {"dev/shm": _DATA, "tmp": _TMP, "project": folders.project}
    names = {
        f"{label}/{path.relative_to(tops.get(label, root / label))}"
        for label, paths in entries.items()
        for path in paths
    }
    # The logs of the last five failed starts, each as one folder.
    return frozenset(name for name in names - _STAY if not name.startswith("state/failed-starts/"))


def _entries(top: Path, depth: int) -> Iterator[Path]:
    """Yield the contents of a folder, down to a depth; folders above that depth only when empty or at the top."""
    try:
        entries = sorted(top.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        yield entry
        if depth > 1 and not entry.is_symlink() and entry.is_dir():
            yield from _entries(entry, depth - 1)


def disturbed() -> tuple[str, ...]:
    """Return the changes in the bystander's folder."""
    names = sorted(path.name for path in BYSTANDER.iterdir())
    changes = [f"{BYSTANDER}/{name} was made" for name in names if name != "keep"]
    if "keep" not in names or (BYSTANDER / "keep").read_text(encoding="utf-8") != "keep":
        changes.append(f"{BYSTANDER}/keep was changed")
    if BYSTANDER.stat().st_mode & 0o777 != 0o755 or BYSTANDER.stat().st_uid != 0:
        changes.append(f"mode or owner of {BYSTANDER} was changed")
    return tuple(changes)


def run_folders(reports: Path) -> list[Path]:
    """Return the folders of all runs with a recording, oldest first."""
    return sorted(path.parent for path in reports.glob("2*/recordings") if recordings_in(path))


def journals(run: Path) -> tuple[Journal, ...]:
    """Return the state of a run's recordings, line by line."""
    return tuple(_journal(path, run.parent) for path in recordings_in(run / "recordings"))


def _journal(path: Path, top: Path) -> Journal:
    reader = Reader(path)
    lines = list(reader.lines())
    if reader.rest:
        lines.append(reader.rest)
    broken = []
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            broken.append(f"line {number} of {len(lines)} has no end")
        else:
            try:
                msgspec.json.decode(line, type=dict[str, object])
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                broken.append(f"line {number} of {len(lines)}: {error}")
    return Journal(path=str(path.relative_to(top)), lines=len(lines), broken=tuple(broken))


def unfinished(runs: list[Path], within_s: float) -> tuple[str, ...]:
    """Return the names of runs without a readable result, once there is none or the time limit has passed."""
    deadline = time.monotonic() + within_s
    while (names := tuple(run.name for run in runs if not _has_result(run))) and time.monotonic() < deadline:
        time.sleep(0.2)
    return names


def _has_result(run: Path) -> bool:
    try:
        return bool(msgspec.json.decode((run / "result.json").read_bytes(), type=dict[str, object]))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return False


def has_binaries(cache: Path) -> bool:
    """Return whether a cache holds all that a local control plane needs."""
    return all(any((cache / "binaries" / name).glob("*/*/origin.json")) for name in versions.NEEDED)


def default_cache() -> Path:
    """Return the machine's cache of binaries."""
    return binaries.cache_root()
