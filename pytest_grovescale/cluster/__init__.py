"""Kubernetes clusters with simulated nodes: binaries, control planes, the supervisor, leases and locks."""
