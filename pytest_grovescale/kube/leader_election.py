"""Who leads, by the ``holderIdentity`` of a Lease.

client-go's programs make it of the host name, which is the pod's, and a UUID: ``<host>_<uuid>``.
https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/leaderelection
"""

from __future__ import annotations

_HOST_NAME = 63
"""The kernel's longest host name: of a longer name of a pod it has the beginning, as the kubelet sets it."""


def holder_host(identity: str) -> str:
    """Return the host in a holder's identity: the pod's name, or as much of it as a host name holds."""
    return identity.partition("_")[0]


def holds(pod: str, identity: str) -> bool:
    """Return whether a holder's identity is that of a pod."""
    host = holder_host(identity)
    return bool(host) and host in (pod, pod[:_HOST_NAME].rstrip("-."))
