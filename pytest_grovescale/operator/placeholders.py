"""Texts with placeholders: ``{metrics_port}`` in a command, a URL, a configuration file.

Only ``{name}`` with a lower-case name is a placeholder, so that JSON and YAML in braces stand as they are;
``{{name}}`` stands for a literal ``{name}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_PLACEHOLDER = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}|\{([a-z][a-z0-9_]*)\}")

PORTS = ("metrics_port", "health_port", "pprof_port", "webhook_port")
"""Placeholders for free ports on loopback, allocated only if a definition uses them."""

BINARIES = {"kube_controller_manager": "kube-controller-manager", "kube_scheduler": "kube-scheduler"}
"""Kubernetes components that can be the operator under test; binaries in the version of the cluster."""

PROVIDED = {
    "kubeconfig": "kubeconfig of the operator's own identity (mode 0600)",
    "token_file": "file with the token of that identity (mode 0600)",
    "metrics_port": "a free port for /metrics",
    "health_port": "a free port for the readiness probe",
    "pprof_port": "a free port for net/http/pprof",
    "webhook_port": "a free port for its admission webhooks",
    "cert_dir": "folder with tls.crt, tls.key and ca.crt for its webhook server",
    "directory": "folder of this operator's run: log, kubeconfig, rendered files",
    "namespace": "namespace of the operator's ServiceAccount",
    "python": "the Python interpreter that runs the tests",
    **{placeholder: f"{binary} of the cluster's Kubernetes version" for placeholder, binary in BINARIES.items()},
}
"""Placeholders that the harness fills → description."""


def names(text: str) -> Iterator[str]:
    """Yield the placeholders of a text, in order."""
    for match in _PLACEHOLDER.finditer(text):
        if match[2]:
            yield match[2]


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return the text with each placeholder replaced. Raises KeyError for a name without a value."""
    return _PLACEHOLDER.sub(lambda match: f"{{{match[1]}}}" if match[1] else values[match[2]], text)
