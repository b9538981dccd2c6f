"""Configuration of the run's own Prometheus.

One job per target: the credentials are in the configuration, the address is in a file that Prometheus watches. So
Prometheus follows a target to another address without a reload, within 5 s
(https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from ..atomic_write import json_document, write_private
from ..endpoints import Address
from ..errors import PrometheusError

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
