"""Metrics endpoint of an existing cluster's API server, if exactly one API server is behind its address.

Several API servers behind one address have counters of their own: alternating scrapes would look like restarts. Each
API server announces itself with a Lease in kube-system
(https://kubernetes.io/docs/concepts/architecture/leases/#api-server-identity).
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from ...endpoints import Address
from ...kube import access_files
from ...kube.access import Access
from ...kube.client import Client
from ...kube.errors import ApiError
from .. import state

NAME = "kube-apiserver"
PATH = "/metrics"

_LEASES = "apiserver.kubernetes.io/identity=kube-apiserver"
_NAMESPACE = "kube-system"


async def servers(client: Client) -> int:
    """Return the number of API servers; 0 if undetermined or not permitted."""
    try:
        leases = await client.list(await client.resource("Lease"), _NAMESPACE, label_selector=_LEASES)
    except ApiError:
        return 0
    return sum(is_held(item["spec"]) for item in leases.items)


def endpoint(folder: Path, access: Access) -> Address:
    """Return the metrics endpoint, for programs that read credentials from files; writes these files.

    The recorder uses another way (``session/targets.py``).
    """
    files = state.access_files(folder)
    access_files.write(access, files)
    return access_files.address(access, files, PATH)


def is_held(spec: dict[str, Any]) -> bool:
    """Return whether a Lease is still renewed: that of a stopped API server stays for an hour."""
    renewed = datetime.datetime.fromisoformat(spec["renewTime"])
    age = datetime.datetime.now(datetime.UTC) - renewed
    return age < datetime.timedelta(seconds=spec["leaseDurationSeconds"])
