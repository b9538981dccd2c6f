"""What a Prometheus of ours is told to scrape.

A job for each target: how it is let in stands in the configuration, where it is in a file that Prometheus watches.
So a target that moves is followed without a reload, within 5 s
(https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from ..endpoints import Address
from ..errors import PrometheusError
from ..whole_files import json_document, write_private

FILE = "prometheus.yml"
_TARGETS = "targets"
_LOOK_AGAIN = "5s"
"""Where a file system does not announce changes, they are found by looking."""
_MAX_BODY = "64MB"


def configuration(targets: Mapping[str, Address], folder: Path, *, interval_s: float, version: str) -> dict[str, Any]:
    """Return the configuration for a Prometheus of that version (``2.42.0``)."""
    # A slow target may take all of its interval; it has a loop of its own there, and delays no other.
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
        # Since 3.0 an answer without a known content type is refused otherwise; 2.x does not know the field.
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
    """Return whether two addresses differ in nothing but what the target's file says."""
    nowhere = Path()
    return _job("", left, nowhere, "3") == _job("", right, nowhere, "3")


def target_file(folder: Path, name: str) -> Path:
    """Return the file that says where a target is. Prometheus takes its path for a pattern: none of those in it."""
    return folder / _TARGETS / f"{quote(name, safe='')}.json"


def target(name: str, address: Address) -> list[dict[str, Any]]:
    """Return what stands in it.

    ``instance`` is the target's name, not its host and port: after a restart elsewhere its series go on, and an
    increase over the restart is one increase with a reset in it.
    """
    parts = urlsplit(address.url)
    labels = {"__scheme__": parts.scheme, "__metrics_path__": parts.path or "/", "instance": name}
    return [{"targets": [parts.netloc], "labels": labels}]


def write_target(folder: Path, name: str, address: Address) -> None:
    """Tell where a target is; a Prometheus that runs sees the old place or the new one."""
    file = target_file(folder, name)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(file, json_document(target(name, address)))


def write_nowhere(folder: Path, name: str) -> None:
    """Tell that a target is nowhere."""
    write_private(target_file(folder, name), json_document([]))


def check_files(name: str, address: Address) -> None:
    """Raise PrometheusError for a file that cannot be read: Prometheus would leave the target out, and go on."""
    for file in filter(None, (address.token_file, address.ca_file, address.cert_file, address.key_file)):
        try:
            Path(file).read_bytes()
        except OSError as error:
            raise PrometheusError(
                f"target {name}: {file}: {error.strerror}", next_step="Correct how its endpoint is let in."
            ) from error


def write(targets: Mapping[str, Address], folder: Path, *, interval_s: float, version: str) -> Path:
    """Write configuration and target files; return the former. YAML takes JSON as it is.

    Raises PrometheusError for a target that Prometheus could not be let in to.
    """
    for name, address in targets.items():
        check_files(name, address)
        write_target(folder, name, address)
    content = configuration(targets, folder, interval_s=interval_s, version=version)
    write_private(folder / FILE, json_document(content))
    return folder / FILE
