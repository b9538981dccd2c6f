"""What the audit log of a control plane of ours holds: one line for each answered request, without bodies."""

from __future__ import annotations

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}

AUDIT_MAX_MB = 100_000
"""Size at which the log is rotated: beyond what any run writes."""
