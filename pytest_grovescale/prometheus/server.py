"""The run's own Prometheus process: its configuration, start on loopback, targets that move, stop.

One job per target: the credentials are in the configuration, the address is in a file that Prometheus watches. So
Prometheus follows a target to another address without a reload, within 5 s
(https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config).

The cluster's supervisor owns it: it ends with the lease of its starter, whatever happens to the test process.
"""

from __future__ import annotations

import contextlib
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import msgspec

from .. import log_files
from ..atomic_write import json_document, write_private
from ..cluster import binaries, ports, processes
from ..cluster.binaries import Binary
from ..cluster.handle import Cluster, ProcessInfo, ProcessSpec
from ..cluster.supervisor_client import SupervisorGone, SupervisorStopped
from ..endpoints import Address, port_of, with_port
from ..errors import OperatorError, PrometheusError
from ..operator.readiness import NotReady, answers, wait_until
from ..procfs import descendants, ports_of

FILE = "prometheus.yml"
_TARGETS = "targets"
_LOOK_AGAIN = "5s"
"""Refresh interval for file systems that do not notify about changes."""
_MAX_BODY = "64MB"


def configuration(targets: Mapping[str, Address], folder: Path, *, interval_s: float, version: str) -> dict[str, Any]:
    """Return the configuration for a Prometheus of that version (``2.42.0``)."""
    # A slow target may take its whole interval; each target has a scrape loop of its own and delays no other.
    interval = f"{round(interval_s * 1000)}ms"
    return {
        "global": {"scrape_interval": interval, "scrape_timeout": interval},
        "scrape_configs": [
            _job(name, address, target_file(folder, name), version) for name, address in sorted(targets.items())
        ],
    }


def _job(name: str, address: Address, file: Path, version: str) -> dict[str, Any]:
    job: dict[str, Any] = {
        "job_name": name,
        "body_size_limit": _MAX_BODY,
        "file_sd_configs": [{"files": [str(file)], "refresh_interval": _LOOK_AGAIN}],
    }
    if int(version.partition(".")[0]) >= 3:
        # Since 3.0 a response without a known content type is rejected otherwise; 2.x does not know the field.
        job["fallback_scrape_protocol"] = "PrometheusText0.0.4"
    if query := urlsplit(address.url).query:
        job["params"] = parse_qs(query, keep_blank_values=True)
    if address.token_file:
        # Read again for each scrape.
        job["authorization"] = {"type": "Bearer", "credentials_file": address.token_file}
    if address.proxy:
        job["proxy_url"] = address.proxy
    if address.secure:
        tls: dict[str, Any] = {"insecure_skip_verify": address.insecure_skip_verify}
        if address.server_name:
            tls["server_name"] = address.server_name
        if address.ca_file:
            tls["ca_file"] = address.ca_file
        if address.cert_file:
            tls["cert_file"] = address.cert_file
            tls["key_file"] = address.key_file or address.cert_file
        job["tls_config"] = tls
    return job


def admitted_alike(left: Address, right: Address) -> bool:
    """Return whether two addresses differ only in the content of the target file."""
    nowhere = Path()
    return _job("", left, nowhere, "3") == _job("", right, nowhere, "3")


def target_file(folder: Path, name: str) -> Path:
    """Return the target file. Prometheus takes its path for a glob pattern: the path must contain no pattern."""
    return folder / _TARGETS / f"{quote(name, safe='')}.json"


def target(name: str, address: Address) -> list[dict[str, Any]]:
    """Return the content of the target file.

    ``instance`` is the target's name, not its host and port: after a restart at another address its series continue,
    and an increase over the restart is one increase with a counter reset in it.
    """
    parts = urlsplit(address.url)
    labels = {"__scheme__": parts.scheme, "__metrics_path__": parts.path or "/", "instance": name}
    return [{"targets": [parts.netloc], "labels": labels}]


def write_target(folder: Path, name: str, address: Address) -> None:
    """Write a target's address atomically: a running Prometheus sees the old address or the new one."""
    file = target_file(folder, name)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(file, json_document(target(name, address)))


def write_nowhere(folder: Path, name: str) -> None:
    """Write a target file without an address."""
    write_private(target_file(folder, name), json_document([]))


def check_files(name: str, address: Address) -> None:
    """Raise PrometheusError for an unreadable credential file: Prometheus would silently omit the target."""
    for file in filter(None, (address.token_file, address.ca_file, address.cert_file, address.key_file)):
        try:
            Path(file).read_bytes()
        except OSError as error:
            raise PrometheusError(
                f"target {name}: {file}: {error.strerror}", next_step="Correct how its endpoint is let in."
            ) from error


def write(targets: Mapping[str, Address], folder: Path, *, interval_s: float, version: str) -> Path:
    """Write configuration and target files; return the configuration's path. JSON is valid YAML.

    Raises PrometheusError for a target whose credential files are unreadable.
    """
    for name, address in targets.items():
        check_files(name, address)
        write_target(folder, name, address)
    content = configuration(targets, folder, interval_s=interval_s, version=version)
    write_private(folder / FILE, json_document(content))
    return folder / FILE


def place_now(address: Address, pid: int) -> Address:
    """Return the current address of a process' endpoint: the last one, or the first other port with such an answer.

    Also the last one if undetermined: the process has only just started, or belongs to another user.
    """
    own, port = ports_of([pid]), port_of(address.url)
    if port in own:
        return address
    if (moved := _answering(address, own)) is not None:
        # Before any port of a child, even its last address: the process itself may have been too busy to answer then.
        return moved
    others = ports_of(descendants(pid)) - own
    return address if port in others else _answering(address, others) or address


def _answering(address: Address, ports: Iterable[int]) -> Address | None:
    candidates = (msgspec.structs.replace(address, url=with_port(address.url, port)) for port in sorted(ports))
    return next((candidate for candidate in candidates if not answers(candidate)), None)


PROCESS = "prometheus"
"""Process name at the supervisor and in recordings: its own cost is measured too."""

Progress = Callable[[str], None]

_READY_S = 60.0
_STOP_GRACE_S = 30.0
_RELOAD_S = 10.0
_LOOK_S = 0.02
_MEMORY_BYTES = 2 << 30
_PORT_ATTEMPTS = 3
_TAIL_LINES = 15
_CRASHES = ("panic:", "fatal error:", "unexpected fault address", "SIG")
_CRASH_LINES = 3
_PORT_TAKEN = "address already in use"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Folders and scrape settings of a Prometheus."""

    folder: Path
    """Folder of its configuration; private, since it names token files."""
    data: Path
    log: Path
    interval_s: float


class Server:
    """A running Prometheus."""

    def __init__(
        self, cluster: Cluster, binary: Binary, place: Place, lease: ports.PortLease, targets: Mapping[str, Address]
    ) -> None:
        self.address = Address(url=f"http://127.0.0.1:{lease.number}")
        self.version = binary.version
        self.place = place
        self._cluster = cluster
        self._lease = lease
        self._targets = dict(targets)

    @property
    def targets(self) -> Mapping[str, Address]:
        """Its targets, by name."""
        return dict(self._targets)

    def info(self) -> ProcessInfo | None:
        """Return the process, or None if the supervisor no longer knows it."""
        return self._cluster.processes().get(PROCESS)

    def alive(self) -> bool:
        """Whether the process runs."""
        info = self.info()
        return info is not None and info.running

    def check(self, *, within_s: float = 0.0) -> None:
        """Raise PrometheusError, with its last log lines, if it is not alive, or ends ``within_s``.

        A crash breaks its connections some time before its supervisor has the exit code.
        """
        deadline = time.monotonic() + within_s
        while self.alive():
            if time.monotonic() >= deadline:
                return
            time.sleep(_LOOK_S)
        raise died(self.info(), self.place.log, "while it was needed")

    def tail(self) -> list[str]:
        """Return the last lines of its log."""
        return _tail(self.place.log, 0)

    def follow(self, name: str, address: Address) -> None:
        """Scrape an endpoint from now on, or at its new address.

        Raises PrometheusError when Prometheus rejects the new configuration.
        """
        before = self._targets.get(name)
        if before == address:
            return
        if before is not None and admitted_alike(before, address):
            write_target(self.place.folder, name, address)
            self._targets[name] = address
        else:
            self._reconfigure(self._targets | {name: address})

    def forget(self, name: str) -> None:
        """Stop scraping an endpoint; its series end.

        Its job stays, without a target: after the removal of a job, Prometheus would treat its last samples as current
        for 5 minutes.
        """
        if self._targets.pop(name, None) is not None:
            write_nowhere(self.place.folder, name)

    def stop(self) -> None:
        """End the process; its data is complete then. Idempotent."""
        try:
            if PROCESS in self._cluster.processes():
                self._cluster.stop_process(PROCESS)
        except (SupervisorGone, SupervisorStopped):
            # It ended with the supervisor; or a stopped supervisor ends it later, with the lease, whose release reports
            # that.
            pass
        finally:
            ports.release([self._lease])
            shutil.rmtree(self.place.folder, ignore_errors=True)

    def _reconfigure(self, targets: dict[str, Address]) -> None:
        write(targets, self.place.folder, interval_s=self.place.interval_s, version=self.version)
        _reload(self.address.url)
        self._targets = targets


def start(cluster: Cluster, targets: Mapping[str, Address], place: Place, *, progress: Progress) -> Server:
    """Start a Prometheus that scrapes ``targets`` and return when it answers queries.

    Raises BinaryError if there is no binary, PrometheusError if it does not become ready; then nothing is left behind.
    """
    binary = binaries.find([PROCESS], cluster.kubernetes, given={}, progress=progress)[PROCESS]
    attempts = 0
    while True:
        attempts += 1
        try:
            return _start_once(cluster, binary, targets, place, progress)
        except _PortTaken as error:
            if attempts == _PORT_ATTEMPTS:
                raise
            progress(f"prometheus: {error.message.splitlines()[0]}; once more with another port")


class _PortTaken(PrometheusError):
    """Another process listens on the port that was free a moment before."""


def _start_once(
    cluster: Cluster, binary: Binary, targets: Mapping[str, Address], place: Place, progress: Progress
) -> Server:
    with contextlib.ExitStack() as undo:
        place.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        undo.callback(shutil.rmtree, place.folder, ignore_errors=True)
        file = write(targets, place.folder, interval_s=place.interval_s, version=binary.version)
        place.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        (lease,) = ports.lease(1)
        undo.callback(ports.release, [lease])
        server = Server(cluster, binary, place, lease, targets)
        undo.callback(server.stop)
        began = time.monotonic()
        progress(f"prometheus {binary.version} ({binary.source}): starting")
        spec = ProcessSpec(
            name=PROCESS,
            argv=command(binary.path, file, place.data, lease.number),
            log=str(place.log),
            stop_grace_s=_STOP_GRACE_S,
            memory_bytes=_MEMORY_BYTES,
            cwd=str(place.folder),
        )
        written = place.log.stat().st_size if place.log.exists() else 0
        _wait_ready(server, cluster.start_process(spec), lease.number, written)
        progress(f"prometheus: ready after {time.monotonic() - began:.1f} s at {server.address.url}")
        undo.pop_all()
    return server


def command(binary: str, file: Path, data: Path, port: int) -> list[str]:
    """Return the command line; Prometheus has these options since 2.40."""
    return [
        binary,
        f"--config.file={file}",
        f"--storage.tsdb.path={data}",
        f"--web.listen-address=127.0.0.1:{port}",
        # POST /-/reload makes it read new targets.
        "--web.enable-lifecycle",
        # Changed targets wait up to 5 s in the discovery; without this they would wait 5 s more.
        "--scrape.discovery-reload-interval=100ms",
    ]


def _wait_ready(server: Server, first: ProcessInfo, port: int, written: int) -> None:
    ready = Address(url=f"{server.address.url}/-/ready")

    def step() -> str:
        problem = answers(ready)
        if not problem and port not in ports_of([first.pid]):
            return f"port {port} is answered by another process"
        return problem

    def dead() -> OperatorError:
        raise died(server.info(), server.place.log, "before it was ready", from_byte=written)

    try:
        wait_until(step, alive=server.alive, timeout=_READY_S, dead=dead)
    except NotReady as error:
        raise PrometheusError(
            f"prometheus was not ready after {_READY_S:g} s: {error.message}",
            next_step=f"Its log: {server.place.log}.",
        ) from None


def died(info: ProcessInfo | None, log: Path, when: str, *, from_byte: int = 0) -> PrometheusError:
    """Return the error for a process that has ended, with the last lines of its log."""
    lines = _tail(log, from_byte)
    message = [f"prometheus {processes.exit_text(info.exit_code if info else None)} {when}"]
    message += ["last lines of its log:", *(f"  {line}" for line in lines)] if lines else ["its log is empty"]
    kind = _PortTaken if any(_PORT_TAKEN in line for line in lines) else PrometheusError
    return kind("\n".join(message), next_step=f"Its whole log: {log}.")


def _tail(log: Path, from_byte: int) -> list[str]:
    return last_words(log_files.end_of(log, from_byte=from_byte).splitlines())


def last_words(lines: Sequence[str]) -> list[str]:
    """Return the end of a log; of a crashed Go program, the lines before the stack dump."""
    crash = next((index for index, line in enumerate(lines) if line.startswith(_CRASHES)), None)
    end = len(lines) if crash is None else crash + _CRASH_LINES
    return list(lines[max(0, end - _TAIL_LINES) : end])


def _reload(url: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(urllib.request.Request(f"{url}/-/reload", method="POST"), timeout=_RELOAD_S).close()
    except urllib.error.HTTPError as error:
        with error:
            body = error.read(2000).decode(errors="replace").strip()
        raise PrometheusError(f"prometheus refuses its new targets: {body}", next_step="Please report this.") from None
    except OSError as error:
        raise PrometheusError(f"prometheus cannot get its new targets: {error}") from error
