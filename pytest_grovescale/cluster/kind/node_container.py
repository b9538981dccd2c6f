"""State of a kind node's container, as text, for errors after the cluster stops answering."""

from __future__ import annotations

from ...errors import ClusterError
from ..state import Container
from . import engine as engines
from .container_processes import Node, of_node


def trouble(container: Container) -> str:
    """Return the fault of a node's container, or of its engine; empty: it runs."""
    engine = of_node(Node(executable=container.engine, name=container.name))
    try:
        state = engines.inspect(engine, container.name).state
    except ClusterError as error:
        return f"container {container.name}: {error.message}"
    if state.running:
        return ""
    return f"container {container.name} does not run ({state.status}); start it: {engine.name} start {container.name}"
