"""Leader of an election, by the ``holderIdentity`` of a Lease.

client-go's programs build it from the host name, which is the pod's, and a UUID: ``<host>_<uuid>``.
https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/leaderelection
"""

from __future__ import annotations

_HOST_NAME = 63
"""The kernel's longest host name: the kubelet truncates a longer pod name to it."""


def holder_host(identity: str) -> str:
    """Return the host in a holder's identity: the pod's name, possibly truncated."""
    return identity.partition("_")[0]


def holds(pod: str, identity: str) -> bool:
    """Return whether a pod is the holder with this identity."""
    host = holder_host(identity)
    return bool(host) and host in (pod, pod[:_HOST_NAME].rstrip("-."))
