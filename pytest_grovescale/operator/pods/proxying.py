"""What an operator's pods serve, as readers on this host reach it: through the API server, as the harness' identity."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from ...endpoints import Address
from ...kube.access import Access
from ...whole_files import write_private
from ..shape import Served

_CA, _CERTIFICATE, _KEY, _TOKEN = "api-ca.crt", "api-client.crt", "api-client.key", "api-token"


def write_credentials(access: Access, folder: Path) -> None:
    """Write what the API server is asked with into ``folder``, 0600: other programs read it from files."""
    found = {
        _CA: access.ca_pem,
        _CERTIFICATE: access.client_cert_pem,
        _KEY: access.client_key_pem,
        _TOKEN: access.token,
    }
    for name, text in found.items():
        if text:
            write_private(folder / name, text)


def address(access: Access, folder: Path, namespace: str, pod: str, served: Served) -> Address:
    """Return where an endpoint of a pod is read through the API server. ``folder`` has its credentials.

    https://kubernetes.io/docs/tasks/access-application-cluster/access-cluster-services/#manually-constructing-apiserver-proxy-urls
    """
    scheme = "https:" if served.scheme == "https" else ""
    place = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{scheme}{quote(pod, safe='')}:{served.number}/proxy"

    def file(name: str) -> str:
        return str(folder / name) if (folder / name).is_file() else ""

    return Address(
        url=f"{access.server.rstrip('/')}{place}{served.path}",
        token_file=access.token_file or file(_TOKEN),
        ca_file=file(_CA),
        cert_file=file(_CERTIFICATE),
        key_file=file(_KEY),
        insecure_skip_verify=access.insecure,
    )
