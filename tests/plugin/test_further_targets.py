"""Endpoints that an operator definition names beside the operator's own: scraped, checked, and seen by Prometheus."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import ExitStack

import msgspec
import pytest

from pytest_grovescale.analysis.result import Result
from pytest_grovescale.atomic_write import write_private
from pytest_grovescale.cluster import pki
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.kube.subresources import PODS
from tests.serving import Reply, serving

pytestmark = pytest.mark.cluster

DEFINITION = """
name: served
command: ["{{python}}", -m, http.server, "{{health_port}}", --bind, 127.0.0.1, --directory, "{{directory}}"]
readiness: {{url: "http://127.0.0.1:{{health_port}}/"}}
manifests: [services.yaml]
values: {{reader: reader.crt}}
metrics:
  service: {{name: operator-metrics, namespace: default, port: metrics, via: ip}}
targets:
  - name: gateway
    url: https://127.0.0.1:{secure}/metrics
    ca_file: ca.crt
    cert_file: reader.crt
    key_file: reader.key
  - name: sidecar
    service: {{name: sidecar-metrics, namespace: default, port: {secure}, scheme: https, via: ip}}
    ca_file: ca.crt
    cert_file: reader.crt
    key_file: reader.key
  - name: nowhere
    service: {{name: nobody, namespace: default, port: metrics}}
  - name: agents
    pods: {{selector: app=agent, namespace: default, port: {plain}, via: ip}}
"""

SERVICES = """
apiVersion: v1
kind: Service
metadata: {{name: operator-metrics, namespace: default}}
spec: {{type: ExternalName, externalName: localhost, ports: [{{name: metrics, port: {plain}}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: sidecar-metrics, namespace: default}}
spec: {{type: ExternalName, externalName: localhost, ports: [{{name: metrics, port: {secure}}}]}}
"""

TEST = """
import pytest
from pytest_grovescale import checks
from pytest_grovescale.errors import CheckFailed


@pytest.mark.grovescale_budget(
    checks.Series(max=1, target="gateway"),
    checks.Series(max=1, target="agents"),
    checks.Labels(forbidden=["node"], target="sidecar"),
)
def test_small(scale):
    with scale.phase("wait", timeout="60s") as wait:
        wait.hold("1s")
    with pytest.raises(CheckFailed, match="series of sidecar in of_gateway 1 > 0"):
        scale.check(checks.Series(max=0, target="sidecar", family="of_gateway"))
    up = {job: value for (job,), value in scale.promql("up").by("job").items()}
    assert up == {"operator": 1, "gateway": 1, "sidecar": 1, "agents/agent": 1, "nowhere": 0}
"""


@pytest.fixture
def ports(pytester: pytest.Pytester) -> Iterator[dict[str, int]]:
    """Two endpoints on loopback: one that lets in whoever shows the right certificate, and a plain one."""
    made = pki.create(("reader",), service_ip="127.0.0.1")
    reader = made.clients["reader"]
    files = {
        "ca.crt": made.ca_pem,
        "reader.crt": reader.cert_pem,
        "reader.key": reader.key_pem,
        "server.crt": made.server.cert_pem,
        "server.key": made.server.key_pem,
    }
    for name, text in files.items():
        write_private(pytester.path / name, text)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=made.ca_pem)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(pytester.path / "server.crt", pytester.path / "server.key")
    with ExitStack() as open_:
        secure = open_.enter_context(serving(lambda _: Reply(b'of_gateway{pod="a"} 1\n'), tls=tls))
        plain = open_.enter_context(serving(lambda _: Reply(b"of_operator 1\n")))
        yield {"secure": secure, "plain": plain}


@pytest.fixture
def agent(running_cluster: Cluster) -> Iterator[None]:
    """A pod that nothing runs; by its status it does, on loopback."""
    spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": "agent", "namespace": "default", "labels": {"app": "agent"}}
    status = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
    with Portal() as portal:
        client = portal.client(running_cluster.access_as("harness"))
        portal.run(client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
        portal.run(client.patch(PODS, "agent", "default", body={"status": status}, subresource="status"))
        yield
        portal.run(client.delete(PODS, "agent", "default", grace_seconds=0))


@pytest.mark.usefixtures("agent")
def test_they_are_scraped_checked_and_seen_by_prometheus(
    pytester: pytest.Pytester, running_cluster: Cluster, ports: dict[str, int]
) -> None:
    pytester.makepyfile(TEST)
    (pytester.path / "served.yaml").write_text(DEFINITION.format(**ports), "utf-8")
    (pytester.path / "services.yaml").write_text(SERVICES.format(**ports), "utf-8")
    outcome = pytester.runpytest_subprocess(
        "--grovescale",
        f"--grovescale-cluster={running_cluster.name}",
        "--grovescale-operator=served.yaml",
        "--grovescale-prometheus=start",
    )
    outcome.assert_outcomes(passed=1)
    folder = pytester.path / "reports" / "latest"
    (test,) = msgspec.json.decode((folder / "result.json").read_bytes(), type=Result).tests
    found = {target.target: target for target in test.metrics}
    assert [name for name, target in found.items() if target.scrapes >= 2 and not target.failures] == [
        "operator",
        "agents/agent",
        "gateway",
        "sidecar",
    ]
    assert 'services "nobody" not found' in found["nowhere"].failure
    assert [family.family for family in found["operator"].own] == ["of_operator"]
    declared = [check for check in test.checks if check.source == "marker"]
    assert [check.verdict for check in declared] == ["pass", "pass", "pass"]
    assert declared[1].text.startswith("agents/agent: ")
    assert declared[1].text.endswith(" 1 ≤ 1")
