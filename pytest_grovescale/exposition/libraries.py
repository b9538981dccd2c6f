"""Distinguishes metric families of common libraries from a program's own."""

from __future__ import annotations

LIBRARIES = (
    "certwatcher_",
    "controller_runtime_",
    "go_",
    "leader_election_",
    "process_",
    "promhttp_",
    "python_",
    "rest_client_",
    "workqueue_",
)
"""Prefixes of the families of libraries: Go's and Python's clients, client-go, controller-runtime. All other families
are the program's own, whichever version of a library it was built with."""
