"""Which pod a Lease's holder is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.operator.pods.replicas import holder_host, holds


@pytest.mark.parametrize(("holder", "host"), [("op-5d-x_a-b-c", "op-5d-x"), ("op-5d-x", "op-5d-x")])
def test_a_holder_names_its_host(holder: str, host: str) -> None:
    assert holder_host(holder) == host


@given(st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,80}[a-z0-9])?", fullmatch=True), st.uuids())
def test_a_holder_is_known_by_its_host_name(pod: str, uuid: object) -> None:
    # The kubelet cuts a host name to 63 characters, and what such a cut leaves at its end.
    host = pod if len(pod) <= 63 else pod[:63].rstrip("-.")
    assert holds(pod, f"{host}_{uuid}")
    assert not holds(f"x{pod}", f"{host}_{uuid}") or len(pod) >= 63
