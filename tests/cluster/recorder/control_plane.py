"""A control plane of etcd and kube-apiserver alone, for tests that kill, restart and compact it.

No nodes and no controllers: objects stay as the test writes them.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import struct
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pytest_grovescale.kube.access import Access, ssl_context
from tests.waiting import wait_until

POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Proxy:
    """A way to the API server that can be cut: connections through it die, and new ones are refused, on command."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener: socket.socket | None = None
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self.port = free_port()
        self.open()

    def open(self) -> None:
        """Take connections."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self, *, refuse: bool = False) -> int:
        """Reset every connection, and take no new ones until `open` when asked to; return how many were cut."""
        if refuse and self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
        return len(pairs)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    near.close()
                    continue
                with self._lock:
                    self._pairs.append((near, far))
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=_pump, args=(one, other), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class ControlPlane:
    """``start`` it, use ``access``, and ``stop`` it."""

    def __init__(self, folder: Path, binaries: Callable[[str], Path]) -> None:
        self.folder = folder
        self.audit_log = folder / "audit.log"
        self.etcd_port, self.peer_port, self.port = free_port(), free_port(), free_port()
        self.etcd: subprocess.Popen[bytes] | None = None
        self.apiserver: subprocess.Popen[bytes] | None = None
        self._binaries = binaries
        self._opener: urllib.request.OpenerDirector | None = None

    @property
    def access(self) -> Access:
        """The recorder's own identity; everything is allowed."""
        return self.access_of("recorder")

    def access_of(self, user: str) -> Access:
        return Access(server=f"https://127.0.0.1:{self.port}", token=f"{user}-token", insecure=True)

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        (self.folder / "sa.key").write_bytes(pem)
        (self.folder / "policy.yaml").write_text(POLICY)
        users = [f'{u}-token,{u},{u},"system:masters"' for u in ("recorder", "writer", "harness")]
        users.append("nobody-token,nobody,nobody")
        (self.folder / "tokens.csv").write_text("\n".join(users) + "\n")
        self.start_etcd()
        self.start_apiserver()

    def start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{self.peer_port}"
        self.etcd = self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        )

    def start_apiserver(self, *flags: str) -> None:
        key = self.folder / "sa.key"
        self.apiserver = self._run(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={self.port}",
            f"--cert-dir={self.folder / 'certs'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--audit-policy-file={self.folder / 'policy.yaml'}",
            f"--audit-log-path={self.audit_log}",
            *flags,
        )
        wait_until(self.ready, "kube-apiserver is ready")

    def ready(self) -> bool:
        assert self.apiserver is not None
        assert self.apiserver.poll() is None, (self.folder / "kube-apiserver.log").read_text()[-3000:]
        try:
            self.request("GET", "/readyz")
            self.request("GET", "/api/v1/namespaces/default")
        except OSError:
            return False
        return True

    def request(self, method: str, path: str, body: Any = None, *, user: str = "writer", kind: str = "") -> Any:
        """One request of an identity of its own; raises urllib's errors. Returns decoded JSON, or text."""
        data = None if body is None else msgspec.json.encode(body)
        request = urllib.request.Request(self.access.server + path, data, method=method)
        request.add_header("Authorization", f"Bearer {user}-token")
        request.add_header("Content-Type", kind or "application/json")
        if self._opener is None:
            https = urllib.request.HTTPSHandler(context=ssl_context(self.access))
            self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), https)
        with self._opener.open(request, timeout=10) as answer:
            content = answer.read()
        return msgspec.json.decode(content) if content.startswith(b"{") else content.decode()

    def kill_apiserver(self) -> None:
        assert self.apiserver is not None
        self.apiserver.kill()
        self.apiserver.wait()

    def compact(self) -> None:
        """Make every resourceVersion of before unknown to etcd."""
        answer = self._etcd("/v3/kv/range", {"key": "AA=="})
        self._etcd("/v3/kv/compaction", {"revision": answer["header"]["revision"], "physical": True})

    def _etcd(self, path: str, body: Any) -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{self.etcd_port}{path}", msgspec.json.encode(body))
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=10) as answer:
            return msgspec.json.decode(answer.read())

    def stop(self) -> None:
        """API server first: it hangs once etcd is gone."""
        for process in (self.apiserver, self.etcd):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(3)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _run(self, name: str, *flags: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [str(self._binaries(name)), *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )
