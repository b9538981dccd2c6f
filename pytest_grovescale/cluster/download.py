"""Official releases, downloaded and verified against their pinned or published checksum before use."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from ..errors import GrovescaleError
from .versions import Release

Progress = Callable[[str], None]

_CONNECT_S = 10.0
_CHUNK = 1 << 18
_TELL_EVERY_S = 2.0
_MAX_CHECKSUM_BYTES = 4 << 20
_HEX = re.compile(r"[0-9a-f]{64}|[0-9a-f]{128}")


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
    found = parse_checksum(body, release.checksum, name)
    if not found:
        raise DownloadFailed(f"{release.checksum_url}: holds no checksum for {name}")
    return found


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
    began = told = time.monotonic()
    done = 0
    with _open(url) as answer, part.open("wb") as file:
        size = int(answer.headers.get("Content-Length") or 0)
        try:
            while chunk := answer.read(_CHUNK):
                file.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                if time.monotonic() - told > _TELL_EVERY_S:
                    told = time.monotonic()
                    progress(f"downloading {name}: {_amount(done, size, told - began)}")
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
