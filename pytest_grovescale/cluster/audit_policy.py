"""Audit policy of the control planes that grovescale creates: one line per answered request, without bodies."""

from __future__ import annotations

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}

AUDIT_MAX_MB = 100_000
"""Size at which the audit log is rotated, MB: more than any run writes."""
