"""What kind is given of the environment: how to reach the engine, and proxies that leave loopback alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.cluster.kind import container_engine
from pytest_grovescale.cluster.kind.container_engine import PROVIDER, Engine

DOCKER = Engine(name="docker", executable="/usr/bin/docker", version="1", cgroup_version="2", rootless=False)


def test_engine_is_found_again_and_nothing_else_is_passed_on() -> None:
    environ = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "DOCKER_HOST": "unix:///run/mine.sock",
        "KUBECONFIG": "/home/me/.kube/config",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "HTTPS_PROXY": "http://user:password@proxy",
    }
    found = container_engine.environment(DOCKER, environ)
    assert found == {
        "PATH": "/bin",
        "HOME": "/home/me",
        "DOCKER_HOST": "unix:///run/mine.sock",
        PROVIDER: "docker",
    }


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY"])
def test_proxy_is_passed_on_and_not_for_loopback(name: str) -> None:
    found = container_engine.environment_with_proxies(
        DOCKER, {name: "http://proxy:1", "no_proxy": "intranet, 127.0.0.1"}
    )
    assert found[name.upper()] == found[name.lower()] == "http://proxy:1"
    assert found["NO_PROXY"] == found["no_proxy"] == "intranet,127.0.0.1,localhost,::1"


def test_without_a_proxy_nothing_is_said_of_any() -> None:
    assert container_engine.environment_with_proxies(DOCKER, {"NO_PROXY": "x"}) == {PROVIDER: "docker"}


@given(
    st.dictionaries(
        st.sampled_from(["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"]),
        st.text(alphabet="abc.,: ", max_size=12),
    )
)
def test_both_spellings_always_agree_and_loopback_is_always_direct(environ: dict[str, str]) -> None:
    found = container_engine.environment_with_proxies(DOCKER, environ)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        assert found.get(name) == found.get(name.lower())
    if found.get("HTTP_PROXY") or found.get("HTTPS_PROXY"):
        assert {"localhost", "127.0.0.1", "::1"} <= set(found["NO_PROXY"].split(","))
