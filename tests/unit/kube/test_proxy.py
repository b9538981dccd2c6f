"""Which proxy stands between us and an API server: the rules that every client written in Go follows."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.errors import ClusterError
from pytest_grovescale.kube import proxy

REMOTE = "https://api.example.com:6443"
BOTH = {"HTTPS_PROXY": "http://secure:3128", "HTTP_PROXY": "http://plain:3128"}


@pytest.mark.parametrize(
    ("server", "environ", "expected"),
    [
        (REMOTE, {}, ""),
        (REMOTE, BOTH, "http://secure:3128"),
        ("http://api.example.com", BOTH, "http://plain:3128"),
        (REMOTE, {"https_proxy": "http://small:1"}, "http://small:1"),
        (REMOTE, {"HTTPS_PROXY": "http://large:1", "https_proxy": "http://small:1"}, "http://large:1"),
        (REMOTE, {"HTTPS_PROXY": "bare:3128"}, "http://bare:3128"),
        ("https://localhost:6443", BOTH, ""),
        ("https://127.8.8.8:6443", BOTH, ""),
        ("https://[::1]:6443", BOTH, ""),
    ],
)
def test_the_environments_proxies(server: str, environ: dict[str, str], expected: str) -> None:
    assert proxy.for_server(server, environ) == expected


@pytest.mark.parametrize(
    ("server", "no_proxy", "excluded"),
    [
        (REMOTE, "*", True),
        (REMOTE, "example.com", True),
        (REMOTE, "other.org, EXAMPLE.com", True),
        (REMOTE, ".example.com", True),
        (REMOTE, "*.example.com", True),
        ("https://example.com", "example.com", True),
        ("https://example.com", ".example.com", False),
        ("https://notexample.com", "example.com", False),
        (REMOTE, "api.example.com:6443", True),
        (REMOTE, "api.example.com:443", False),
        ("https://api.example.com", "api.example.com:443", True),
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://11.1.2.3:6443", "10.0.0.0/8", False),
        ("https://10.1.2.3:6443", "10.1.2.3", True),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", True),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "fd00::1", True),
        ("https://[fd00::1]:6443", "[fd00::1]:443", False),
        (REMOTE, "10.0.0.0/8,not/a-range,", False),
    ],
)
def test_what_no_proxy_names(server: str, no_proxy: str, excluded: bool) -> None:
    found = proxy.for_server(server, {**BOTH, "NO_PROXY": no_proxy})
    assert found == ("" if excluded else "http://secure:3128")


@given(address=st.ip_addresses(network="127.0.0.0/8"), no_proxy=st.text(max_size=20))
def test_loopback_is_never_behind_a_proxy(address: ipaddress.IPv4Address, no_proxy: str) -> None:
    assert proxy.for_server(f"https://{address}:6443", {**BOTH, "NO_PROXY": no_proxy}) == ""


def test_a_proxy_that_is_not_spoken_is_refused_without_its_password() -> None:
    with pytest.raises(ClusterError, match="socks5://proxy:1080 is neither") as caught:
        proxy.for_server(REMOTE, {"HTTPS_PROXY": "socks5://me:secret@proxy:1080"})
    assert "secret" not in str(caught.value)
