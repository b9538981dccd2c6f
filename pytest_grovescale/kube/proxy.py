"""HTTP proxy for an API server, from environment variables, with the same result as kubectl.

The rules are those of Go's ``golang.org/x/net/http/httpproxy``, which every client written in Go follows; Python's own
(``urllib.request``) supports no address ranges and uses a proxy for loopback.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from ..errors import ClusterError

_PORTS = {"https": 443, "http": 80}


def for_server(server: str, environ: Mapping[str, str]) -> str:
    """Return the URL of the proxy for an API server's URL; empty if there is none.

    ``HTTPS_PROXY`` (``HTTP_PROXY`` for ``http``), unless ``NO_PROXY`` names the server or it is on loopback.
    """
    parts = urlsplit(server)
    found = _variable(environ, f"{parts.scheme}_proxy")
    host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    if not found or is_loopback(host) or _excluded(host, port, _variable(environ, "no_proxy")):
        return ""
    return checked(found if "://" in found else f"http://{found}")


def checked(proxy: str) -> str:
    """Return a proxy's URL; raises ClusterError for an unsupported kind of proxy."""
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise ClusterError(
            f"the proxy {_without_password(proxy)} is neither an http nor an https one",
            next_step="Use an HTTP proxy, or reach the API server without one: NO_PROXY names servers.",
        )
    return proxy


def is_loopback(host: str) -> bool:
    """Return whether a name or address means this machine, without a DNS lookup."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def _excluded(host: str, port: int, no_proxy: str) -> bool:
    return any(_names(entry.strip().lower(), host, port) for entry in no_proxy.split(",") if entry.strip())


def _names(entry: str, host: str, port: int) -> bool:
    """Return whether one entry of NO_PROXY matches a server."""
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, wanted = _split(entry)
    if wanted and wanted != str(port):
        return False
    if address is not None:
        return _address(name) == address
    name = name.removeprefix("*")
    # ".example.com" matches subdomains only, "example.com" itself too.
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _split(entry: str) -> tuple[str, str]:
    """Return name and port of ``name``, ``name:port``, ``::1``, ``[::1]`` or ``[::1]:port``."""
    if entry.startswith("["):
        name, _, port = entry[1:].partition("]")
        return name, port.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _without_password(proxy: str) -> str:
    parts = urlsplit(proxy)
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
