"""The bundled operator as a process: installed, started, asked, stopped."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import msgspec
import yaml

from pytest_grovescale.cluster import ports
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.kube.access import to_kubeconfig
from pytest_grovescale.kube.client import Client
from tests import forked
from tests.waiting import wait_until

_READY_S = 30.0
_STOP_S = 20.0
_SYSTEM = "operator-tests"
_NAME = "grove-reference-operator"


class Credentials(msgspec.Struct, frozen=True):
    """Of the operator's own identity."""

    kubeconfig: Path
    user: str


async def install(client: Client, cluster: Cluster, fixtures: Path, folder: Path) -> Credentials:
    """Apply CRDs, rights and a ServiceAccount; write a kubeconfig with its token. Idempotent."""
    documents = [*sorted((fixtures / "crds/grove").glob("*.yaml")), fixtures / "rbac/reference-operator.yaml"]
    for path in documents:
        for document in yaml.safe_load_all(path.read_text()):
            await client.apply(document)
    await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _SYSTEM}})
    account = {"name": _NAME, "namespace": _SYSTEM}
    await client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    await client.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "operator-tests"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _NAME},
            "subjects": [{"kind": "ServiceAccount", **account}],
        }
    )
    token = folder / "token"
    token.write_text(await client.token(_NAME, _SYSTEM))
    access = msgspec.structs.replace(
        cluster.access_as("harness"), client_cert_pem="", client_key_pem="", token_file=str(token)
    )
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(to_kubeconfig(access, name="operator"))
    return Credentials(kubeconfig, f"system:serviceaccount:{_SYSTEM}:{_NAME}")


class OperatorProcess:
    """One process with ports of its own."""

    def __init__(self, kubeconfig: Path, log: Path, arguments: tuple[str, ...]) -> None:
        self.log = log
        self.kubeconfig = kubeconfig
        self._ports = ports.lease(2)
        metrics, health = (port.number for port in self._ports)
        self.metrics_url = f"http://127.0.0.1:{metrics}/metrics"
        self._health_url = f"http://127.0.0.1:{health}"
        with log.open("wb") as output:
            self.process = forked.Process(
                "pytest_grovescale.reference_operator",
                [
                    *("--kubeconfig", str(kubeconfig)),
                    *("--metrics-port", str(metrics), "--health-port", str(health)),
                    *arguments,
                ],
                streams=(output, output),
            )

    def wait_healthy(self) -> None:
        """Return when it answers, though it may be waiting to lead."""
        self._wait("/healthz")

    def wait_ready(self) -> None:
        """Return when its caches have synced."""
        self._wait("/readyz")

    def _wait(self, path: str) -> None:
        def answers() -> bool:
            assert self.process.poll() is None, "it has ended"
            return self._answers(path)

        self._wait_until(answers, f"{path} of the operator")

    def _wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait, and fail with the operator's log."""
        try:
            wait_until(holds, what, _READY_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log.read_text()}") from None

    def _answers(self, path: str) -> bool:
        try:
            with urllib.request.urlopen(self._health_url + path, timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def counts(self) -> dict[str, int]:
        """Return /debug/counts."""
        with urllib.request.urlopen(f"{self._health_url}/debug/counts", timeout=5) as answer:
            return dict(json.loads(answer.read()))

    def wait_counts(self, check: Callable[[dict[str, int]], bool]) -> dict[str, int]:
        """Return /debug/counts once they are as ``check`` wants them."""
        found: dict[str, int] = {}

        def holds() -> bool:
            found.update(self.counts())
            return check(found)

        self._wait_until(holds, "counts as they should be")
        return found

    def settle(self, *, more_than: int = -1) -> None:
        """Return when the set controller has done more than so many reconciles and nothing waits or is at work."""
        self.wait_counts(lambda counts: not counts["keys_in_hand"] and self.reconciles("podcliqueset") > more_than)

    def metrics(self) -> dict[str, float]:
        """Return /metrics, the value by the series as written."""
        with urllib.request.urlopen(self.metrics_url, timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, value in (x.rsplit(" ", 1) for x in lines if not x.startswith("#"))}

    def requests(self, *methods: str) -> int:
        """Return the number of requests with these methods."""
        return round(
            sum(
                value
                for series, value in self.metrics().items()
                if series.startswith("rest_client_requests_total") and any(f'method="{m}"' in series for m in methods)
            )
        )

    def writes(self) -> int:
        return self.requests("POST", "PUT", "PATCH", "DELETE")

    def reconciles(self, controller: str) -> int:
        """Return the number of reconciles, whatever came of them."""
        name = f'controller="{controller}"'
        return round(
            sum(
                value
                for series, value in self.metrics().items()
                if series.startswith("controller_runtime_reconcile_total") and name in series
            )
        )

    def stop(self) -> int:
        """Stop it (SIGTERM) and return its exit status. Idempotent."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(_STOP_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            ports.release(self._ports)

    def died(self) -> int:
        """Wait until it ends by itself and return its exit status."""
        return self.process.wait(_READY_S)
