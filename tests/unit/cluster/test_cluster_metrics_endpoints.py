"""Where components serve their metrics: each on its own port, with a certificate where it asks for one."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pytest_grovescale.cluster import state
from pytest_grovescale.cluster.definition import load_definition
from pytest_grovescale.cluster.local import components
from pytest_grovescale.endpoints import Address

FOLDER = Path("/state/clusters/one")
START = components.Start(
    name="one",
    folder=FOLDER,
    definition=load_definition("default"),
    binaries={},
    ports={name: 18000 + number for number, name in enumerate(components.PORTS)},
)


def test_every_component_that_has_a_port() -> None:
    found = components.metrics_endpoints(START)
    assert set(found) == set(components.PORTS)
    assert {name: endpoint.url.partition("//")[2] for name, endpoint in found.items()} == {
        name: f"127.0.0.1:{port}/metrics" for name, port in START.ports.items()
    }


def test_over_tls_the_recorder_says_who_it_is() -> None:
    for name, endpoint in components.metrics_endpoints(START).items():
        files = [endpoint.ca_file, endpoint.cert_file, endpoint.key_file]
        if endpoint.url.startswith("https:"):
            assert files == [f"{FOLDER}/pki/{file}" for file in ("ca.crt", "recorder.crt", "recorder.key")]
        else:
            assert files == ["", "", ""]
            assert name in ("etcd", "kwok")


def test_facts_of_a_version_before_have_none() -> None:
    facts = state.Facts(
        name="one", backend="local", definition_digest="", server="", kubernetes="", nodes=1, identities={},
        audit_log="", facts={}, metrics={"kwok": Address(url="http://127.0.0.1:1/metrics")},
    )  # fmt: skip
    plain = msgspec.to_builtins(facts)
    assert msgspec.convert(plain, state.Facts) == facts
    del plain["metrics"]
    assert msgspec.convert(plain, state.Facts).metrics == {}
