"""Paths of the API server's proxy to a pod or to a Service's endpoint."""

from __future__ import annotations

from typing import Literal
from urllib.parse import quote


def path(
    plural: Literal["pods", "services"], namespace: str, name: str, port: int | str, *, scheme: str, path: str
) -> str:
    """Return the API server's proxy path for ``path`` of a pod or Service. ``port``: number, or a Service's port name.

    https://kubernetes.io/docs/tasks/access-application-cluster/access-cluster-services/#manually-constructing-apiserver-proxy-urls
    """
    secure = "https:" if scheme == "https" else ""
    target = f"{secure}{quote(name, safe='')}:{quote(str(port), safe='')}"
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/{plural}/{target}/proxy{path}"
