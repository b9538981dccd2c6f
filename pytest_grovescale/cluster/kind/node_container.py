"""The container of a kind node: whether it runs, in words for those to whom the cluster no longer answers."""

from __future__ import annotations

from ...errors import ClusterError
from ..state import Container
from . import engine as engines
from .container_processes import Node, of_node


def trouble(container: Container) -> str:
    """Return what is wrong with a node's container, or with its engine; empty: it runs."""
    engine = of_node(Node(executable=container.engine, name=container.name))
    try:
        state = engines.inspect(engine, container.name).state
    except ClusterError as error:
        return f"container {container.name}: {error.message}"
    if state.running:
        return ""
    return f"container {container.name} does not run ({state.status}); start it: {engine.name} start {container.name}"
