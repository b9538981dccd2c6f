"""pprof against a real Go program: profiles that end when they are told to, and endpoints that misbehave."""

from __future__ import annotations

import asyncio
import gzip
import os
import subprocess
from pathlib import Path

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.endpoints import Address
from pytest_grovescale.recording.profiling import pprof
from pytest_grovescale.recording.profiling.capture import ProfileFailed
from pytest_grovescale.recording.profiling.pprof import Exchange, Pprof, Refused
from tests import goprogram
from tests.golden import masked
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    base = tmp_path_factory.getbasetemp()
    return goprogram.build(base if worker_id == "master" else base.parent)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def taken(address: Address, file: Path, busy: subprocess.Popen[str] | None = None) -> bytes:
    """A profile, decompressed; of so much of the program's work, if asked for, that both of its functions are in it."""

    async def take() -> None:
        capture = await Pprof.attached(address, file)
        if busy is not None:
            enough = cpu_s(busy.pid) + 0.3
            await asyncio.to_thread(wait_until, lambda: cpu_s(busy.pid) >= enough, "work of the program")
        capture.stop()
        await capture.finish()

    asyncio.run(take())
    return gzip.decompress(file.read_bytes())


def failure(address: Address, file: Path) -> ProfileFailed:
    with pytest.raises(ProfileFailed) as caught:
        taken(address, file)
    return caught.value


@pytest.mark.parametrize("arguments", [(), ("-tls",)], ids=["plain", "tls"])
def test_a_profile_ends_when_it_is_reported_to(program: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with goprogram.running(program, *arguments) as (process, address):
        assert b"main.heavy" in taken(address, tmp_path / "cpu.pb.gz", process)
        # And the next one is not refused: the first is over.
        assert b"main.heavy" in taken(address, tmp_path / "again.pb.gz", process)


def test_a_phase_shorter_than_one_sample_has_a_profile(program: Path, tmp_path: Path) -> None:
    with goprogram.running(program) as (_, address):
        assert b"cpu" in taken(address, tmp_path / "cpu.pb.gz")


def test_a_token_is_sent_and_a_wrong_one_is_reported(program: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("open-sesame\n")
    with goprogram.running(program, "-token", "open-sesame", "-tls") as (process, address):
        let_in = msgspec.structs.replace(address, token_file=str(token))
        assert b"main.heavy" in taken(let_in, tmp_path / "cpu.pb.gz", process)
        assert "token: true" in failure(address, tmp_path / "none.pb.gz").line


def test_an_unknown_certificate_is_reported(program: Path, tmp_path: Path) -> None:
    with goprogram.running(program, "-tls") as (_, address):
        stranger = msgspec.structs.replace(address, ca_file="")
        assert "insecure_skip_verify" in failure(stranger, tmp_path / "cpu.pb.gz").line
        trusted = msgspec.structs.replace(stranger, insecure_skip_verify=True)
        assert taken(trusted, tmp_path / "cpu.pb.gz")


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("not-found", "HTTP 404"),
        ("broken", "HTTP 500: the profiler is out of order"),
    ],
)
def test_an_endpoint_that_refuses_is_reported_at_once(program: Path, tmp_path: Path, mode: str, message: str) -> None:
    with goprogram.running(program, "-mode", mode) as (_, address):
        error = failure(address, tmp_path / "cpu.pb.gz")
        assert message in error.line
        assert error.next_step


def test_a_write_timeout_of_the_server_does_not_cut_a_profile(program: Path, tmp_path: Path) -> None:
    with goprogram.running(program, "-write-timeout", "10s") as (process, address):
        assert b"main.heavy" in taken(address, tmp_path / "cpu.pb.gz", process)


def test_an_older_go_refuses_for_its_write_timeout(snapshot: SnapshotAssertion) -> None:
    reported = Refused(400, "profile duration exceeds server's WriteTimeout")
    assert pprof.explained("http://x", reported).line == snapshot


@pytest.mark.parametrize("mode", ["never", "slow"])
def test_an_endpoint_that_never_ends_is_given_up(
    program: Path, tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    monkeypatch.setattr(pprof, "FINISH_S", 0.5)
    with goprogram.running(program, "-mode", mode) as (_, address):
        reported = failure(address, tmp_path / "cpu.pb.gz").line
        assert masked(reported, {address.url: "url"}) == snapshot


def test_a_second_profile_is_reported_that_the_first_is_busy(program: Path, tmp_path: Path) -> None:
    async def both(address: Address) -> ProfileFailed:
        first = await Pprof.attached(address, tmp_path / "first.pb.gz")
        with pytest.raises(ProfileFailed) as caught:
            await Pprof.attached(address, tmp_path / "second.pb.gz")
        first.stop()
        await first.finish()
        return caught.value

    with goprogram.running(program) as (_, address):
        assert "busy with another profile" in asyncio.run(both(address)).line
        assert (tmp_path / "first.pb.gz").stat().st_size


def test_a_process_that_ends_takes_its_profile_with_it(program: Path, tmp_path: Path) -> None:
    with goprogram.running(program) as (process, address):

        async def killed() -> None:
            capture = await Pprof.attached(address, tmp_path / "cpu.pb.gz")
            process.kill()
            capture.stop()
            await capture.finish()

        with pytest.raises(ProfileFailed, match="broke off") as caught:
            asyncio.run(killed())
        assert "the process has ended" in caught.value.line.lower()


def test_no_one_listens(tmp_path: Path) -> None:
    assert "No process listens" in failure(Address(url="http://127.0.0.1:1/debug/pprof"), tmp_path / "x").line


def test_snapshots_and_stacks(program: Path, tmp_path: Path) -> None:
    with goprogram.running(program) as (_, address):
        for kind, path in pprof.SNAPSHOTS.items():
            asyncio.run(pprof.snapshot(address, path, tmp_path / kind))
            assert gzip.decompress((tmp_path / kind).read_bytes())
        stacks = asyncio.run(pprof.dump(address))
        assert "main.work" in stacks
        with pytest.raises(ProfileFailed, match="HTTP 404"):
            asyncio.run(pprof.snapshot(address, "/no-such-thing", tmp_path / "none"))


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", b"hello"),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", ConnectionError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello", ConnectionError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nhello", ValueError),
        (b"SSH-2.0-server\r\n\r\n", ValueError),
        (b"", ConnectionError),
    ],
)
def test_bodies_are_whole_or_an_error(sent: bytes, wanted: bytes | type[Exception]) -> None:
    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        writer.close()

    async def read() -> bytes:
        server = await asyncio.start_server(answered, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            async with Exchange.opened(Address(url=f"http://127.0.0.1:{port}"), "/x?y=z") as exchange:
                return b"".join([piece async for piece in exchange.answer()])

    if isinstance(wanted, bytes):
        assert asyncio.run(read()) == wanted
    else:
        with pytest.raises(wanted):
            asyncio.run(read())
