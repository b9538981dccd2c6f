"""What a backend of clusters is, and which there are.

A backend is one way to have a cluster. To add one, write a package with a ``backend`` module whose ``BACKEND`` is a
subclass of `Backend`, and register it in `_MODULES`. No other module knows the backends by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ..errors import UsageError
from ..suggestions import with_all

if TYPE_CHECKING:
    from ..definitions import Source
    from ..kube.access import Access
    from . import state
    from .definition import ClusterDefinition
    from .launch import Plan

Progress = Callable[[str], None]

_MODULES = {"local": ".local.backend", "kind": ".kind.backend", "existing": ".existing.backend"}
"""Name → module; each is imported where a definition names it."""


class Backend(ABC):
    """One way to have a cluster: its capabilities, and what differs from the others."""

    name: ClassVar[str]

    foreign: ClassVar[bool] = False
    """Whether the clusters are not grovescale's: others may use them, and objects there are removed with care."""
    runs_pods: ClassVar[bool] = True
    """Whether some node runs containers, so that an operator can run as pods."""
    pods_on_control_plane: ClassVar[bool] = False
    """Whether those containers run on the control plane's node, without working Services."""
    node_leases: ClassVar[bool] = True
    """Whether a controller gives up simulated nodes that renew no Lease, whatever a definition says."""
    data_in_state_folder: ClassVar[bool] = False
    """Whether etcd's data is in the state folder where it does not fit into memory."""
    argument: ClassVar[str] = ""
    """What may follow the name of a definition and a colon, as ``CONTEXT``; empty: nothing."""

    @abstractmethod
    def start(self, plan: Plan, progress: Progress) -> state.Facts:
        """Start a cluster in its folder, which is empty except for our lease, and return the facts about it.

        It starts a supervisor, and stores teardown commands (``teardown_plan``) before it creates anything. When it
        raises, the caller ends the supervisor, which runs them.
        """

    @abstractmethod
    def binaries(self, definition: ClusterDefinition) -> tuple[str, ...]:
        """Return the names of the binaries that a cluster needs on this machine."""

    def check(self, written: ClusterDefinition, source: Source) -> ClusterDefinition:
        """Return a definition with the absolute paths of its own section. Raises a mistake of its source."""
        return written

    def with_argument(self, definition: ClusterDefinition, argument: str) -> ClusterDefinition:
        """Return the definition for ``NAME:ARGUMENT``. Raises UsageError for a definition that takes none."""
        raise UsageError(
            f"definition {definition.name} takes no {argument!r}: its backend is {self.name}",
            next_step="Leave out the colon and what follows it.",
        )

    def makes(self, definition: ClusterDefinition) -> bool:
        """Return whether it makes a cluster's control plane, rather than find one that stays as it is."""
        return not self.foreign

    def version_decided_by(self, definition: ClusterDefinition) -> str:
        """Return what decides the Kubernetes version of a cluster instead of its definition; empty: nothing does."""
        return ""

    def permitted(self, definition: ClusterDefinition, *, allowed_contexts: Collection[str]) -> Access | None:
        """Return the address of a cluster that is there; None for one that is created. Sends no request to it.

        Raises UsageError for one that tests may not use.
        """
        return None

    def settled(self, definition: ClusterDefinition) -> ClusterDefinition:
        """Return the definition with all defaults of the environment filled in. Raises ClusterError."""
        return definition

    def engine(self) -> str:
        """Return the container engine that makes its clusters here, with its version; empty: it needs none.

        Raises ClusterError, with what to do, where there is none that answers.
        """
        return ""

    def trouble(self, container: state.Container) -> str:
        """Return the fault of a cluster's container, as text; empty: it runs."""
        return ""

    def build_image(
        self,
        image: str,
        dockerfile: Path,
        context: Path,
        arguments: Mapping[str, str],
        container: state.Container,
        archive: Path,
    ) -> None:
        """Build an operator's image with the engine of a cluster's container, and write it to an archive."""
        raise NotImplementedError

    def load_image(
        self,
        archive: Path,
        container: state.Container,
        *,
        kubernetes: str,
        given: Mapping[str, str],
        progress: Progress,
    ) -> None:
        """Load the images of an archive into the nodes. ``given``: binaries that override all other sources."""
        raise NotImplementedError


def names() -> list[str]:
    """Return the names of all backends."""
    return list(_MODULES)


def backend(name: str) -> Backend:
    """Return a backend. Raises UsageError for an unknown name."""
    if name not in _MODULES:
        raise UsageError(f"there is no backend {name!r}", next_step=with_all(name, _MODULES, what="Backends"))
    found: Backend = import_module(_MODULES[name], __package__).BACKEND
    return found
