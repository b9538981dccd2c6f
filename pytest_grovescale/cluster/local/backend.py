"""The backend ``local``: a control plane as plain processes of this machine."""

from __future__ import annotations

from typing import ClassVar

from .. import state, versions
from ..backend import Backend, Progress
from ..definition import ClusterDefinition
from ..launch import Plan


class Local(Backend):
    """All nodes are simulated; a controller looks for their Leases only where the definition runs it."""

    name: ClassVar[str] = "local"
    runs_pods: ClassVar[bool] = False
    node_leases: ClassVar[bool] = False
    data_in_state_folder: ClassVar[bool] = True

    def start(self, plan: Plan, progress: Progress) -> state.Facts:
        from .start import start

        return start(plan, progress)

    def binaries(self, definition: ClusterDefinition) -> tuple[str, ...]:
        return versions.NEEDED


BACKEND = Local()
