"""Where the API server of a cluster that is there serves its metrics, if these can be told from another one's.

Behind one address several API servers may stand, each with counters of its own: read in turn they would look like
restarts. How many there are they say themselves, each by a Lease in kube-system
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
    """Return how many API servers there are; 0 where that is not told, or not to us."""
    try:
        leases = await client.list(await client.resource("Lease"), _NAMESPACE, label_selector=_LEASES)
    except ApiError:
        return 0
    return sum(is_held(item["spec"]) for item in leases.items)


def endpoint(folder: Path, access: Access) -> Address:
    """Return where metrics are served, for programs that read their credentials from files: the cluster's, here made.

    The recorder goes its own way there (``session/targets.py``).
    """
    files = state.access_files(folder)
    access_files.write(access, files)
    return access_files.address(access, files, PATH)


def is_held(spec: dict[str, Any]) -> bool:
    """Return whether a Lease is renewed: one that an API server left stays for an hour."""
    renewed = datetime.datetime.fromisoformat(spec["renewTime"])
    age = datetime.datetime.now(datetime.UTC) - renewed
    return age < datetime.timedelta(seconds=spec["leaseDurationSeconds"])
