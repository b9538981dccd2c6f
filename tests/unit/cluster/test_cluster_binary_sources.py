"""Downloads: nothing is used whose published checksum was not verified; every failure says why. Against loopback."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.cluster import binary_sources
from pytest_grovescale.cluster.versions import Release
from tests.serving import Reply, Request, serving

BINARY = b"\x7fELF" + bytes(range(256)) * 4096
SHA256 = hashlib.sha256(BINARY).hexdigest()


class Site:
    """A release server: path → body; ``cut`` paths promise more than they send."""

    def __init__(self) -> None:
        self.url = ""
        self.files: dict[str, bytes] = {"/tool": BINARY, "/tool.sha256": SHA256.encode()}
        self.cut: set[str] = set()
        self.asked: list[str] = []

    def reply(self, asked: Request) -> Reply:
        self.asked.append(asked.path)
        if (body := self.files.get(asked.path)) is None:
            return Reply(status=404)
        return Reply(body[:1000] if asked.path in self.cut else body, length=len(body))

    def release(
        self, *, url: str = "/tool", checksum_url: str = "/tool.sha256", form: str = "plain", member: str = ""
    ) -> Release:
        return Release(url=self.url + url, checksum_url=self.url + checksum_url, checksum=form, member=member)


@pytest.fixture
def site() -> Iterator[Site]:
    found = Site()
    with serving(found.reply) as port:
        found.url = f"http://127.0.0.1:{port}"
        yield found


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def fetch(release: Release, folder: Path) -> bytes:
    said: list[str] = []
    return binary_sources.fetch(release, folder / "tool", progress=said.append).read_bytes()


def failure(release: Release, folder: Path) -> str:
    with pytest.raises(binary_sources.DownloadFailed) as caught:
        fetch(release, folder)
    assert list(folder.iterdir()) == []
    return caught.value.message


def test_binary_with_the_published_checksum_is_taken(site: Site, tmp_path: Path) -> None:
    assert fetch(site.release(), tmp_path) == BINARY
    assert [path.name for path in tmp_path.iterdir()] == ["tool"]


def test_progress_is_reported(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary_sources, "_TELL_EVERY_S", 0.0)
    said: list[str] = []
    binary_sources.fetch(site.release(), tmp_path / "tool", progress=said.append)
    assert "of 1 MB" in said[0]
    assert "s left" in said[0]
    assert said[-1].startswith("downloaded tool: 1 MB")


def test_a_pinned_digest_needs_none_that_is_published(site: Site, tmp_path: Path) -> None:
    release = site.release(checksum_url="/nothing-there")
    assert fetch(msgspec.structs.replace(release, sha256=SHA256), tmp_path) == BINARY


def test_a_pinned_digest_decides_whatever_is_published(site: Site, tmp_path: Path) -> None:
    pinned = msgspec.structs.replace(site.release(), sha256="0" * 64)
    assert f"checksum is {SHA256[:12]}…, expected is 000000000000…" in failure(pinned, tmp_path)


def test_sha512_is_verified_too(site: Site, tmp_path: Path) -> None:
    site.files["/tool.sha256"] = f"{hashlib.sha512(BINARY).hexdigest()}  tool\n".encode()
    assert fetch(site.release(), tmp_path) == BINARY


def test_changed_binary_is_refused(site: Site, tmp_path: Path) -> None:
    site.files["/tool"] = BINARY + b"!"
    assert f"expected is {SHA256[:12]}…" in failure(site.release(), tmp_path)


@pytest.mark.parametrize("body", [b"", b"<html>not found</html>", b"abc123"])
def test_without_a_checksum_nothing_is_downloaded(site: Site, tmp_path: Path, body: bytes) -> None:
    site.files["/tool.sha256"] = body
    assert "holds no checksum for tool" in failure(site.release(), tmp_path)
    assert site.asked == ["/tool.sha256"]


def test_missing_release_says_its_status(site: Site, tmp_path: Path) -> None:
    del site.files["/tool.sha256"]
    assert failure(site.release(), tmp_path).endswith("/tool.sha256: HTTP 404 Not Found")


def test_broken_off_download_is_no_download(site: Site, tmp_path: Path) -> None:
    site.cut.add("/tool")
    assert "broke off after 1000" in failure(site.release(), tmp_path)


def test_unreachable_server_says_why(tmp_path: Path) -> None:
    release = Release(url="http://127.0.0.1:1/tool", checksum_url="http://127.0.0.1:1/sum", checksum="plain")
    assert "Connection refused" in failure(release, tmp_path)


def archive(member: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        info = tarfile.TarInfo(member)
        info.size = len(BINARY)
        tar.addfile(info, io.BytesIO(BINARY))
    return buffer.getvalue()


def test_member_of_an_archive_is_taken_after_the_archives_checksum(site: Site, tmp_path: Path) -> None:
    site.files["/a.tar.gz"] = archive("a/tool")
    digest = hashlib.sha256(site.files["/a.tar.gz"]).hexdigest()
    site.files["/SHA256SUMS"] = f"{'0' * 64}  b.tar.gz\n{digest}  a.tar.gz\n".encode()
    release = site.release(url="/a.tar.gz", checksum_url="/SHA256SUMS", form="sums", member="a/tool")
    assert fetch(release, tmp_path) == BINARY
    other = site.release(url="/a.tar.gz", checksum_url="/SHA256SUMS", form="sums", member="a/other")
    (tmp_path / "tool").unlink()
    assert "does not hold a/other" in failure(other, tmp_path)


def test_digest_of_a_github_release_is_its_checksum(site: Site, tmp_path: Path) -> None:
    assets = [{"name": "other", "digest": f"sha256:{'0' * 64}"}, {"name": "tool", "digest": f"sha256:{SHA256}"}]
    site.files["/releases"] = json.dumps({"tag_name": "v1", "assets": assets}).encode()
    assert fetch(site.release(checksum_url="/releases", form="github"), tmp_path) == BINARY
    site.files["/releases"] = json.dumps({"assets": [{"name": "tool", "digest": None}]}).encode()
    (tmp_path / "tool").unlink()
    assert "holds no checksum" in failure(site.release(checksum_url="/releases", form="github"), tmp_path)
