"""Who brings a family: a library that many programs use, or the program itself."""

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
"""Beginnings of the families that libraries bring: Go's and Python's clients, client-go, controller-runtime. What
begins otherwise is the program's own, whichever version of a library it was built with."""
