"""``grovescale down NAME --context CONTEXT``: removes the objects of a lost run from a shared cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...errors import ClusterError, UsageError
from ...kube.access import Access
from ...kube.client import Client
from ...kube.portal import Portal
from .. import rights, state
from ..definition import Existing
from . import lost, preflight, reaching
from .leavings import Removal
from .lost import Left

Say = Callable[[str], None]


def clear(name: str, *, context: str, dry_run: bool, allowed_contexts: Sequence[str], say: Say, write: Say) -> int:
    """Write the list of objects labeled with cluster ``name`` at a context, and remove them; return 0.

    Raises UsageError for a context that is not allowed, a missing name, or the name of a cluster of this machine;
    ClusterError if the cluster is in use, permissions are missing, or an object cannot be removed.
    """
    access = reaching.access(Existing(context=context), allowed=allowed_contexts)
    _check_not_here(name, access)
    with Portal() as portal:
        client = portal.client(access, user_agent="grovescale-cluster")
        left = portal.run(_look(client, name, context))
        for line in left.lines:
            write(line)
        for kind in left.unseen:
            say(f"not looked for, as we may not list them: {kind}")
        if not left.lines:
            say(f"nothing is left of a cluster {name} at context {context}")
        if dry_run or not left.lines:
            return 0
        return _tell(portal.run(lost.remove(client, left)), say)


async def _look(client: Client, name: str, context: str) -> Left:
    preflight.demand(await preflight.ask(client, rights.rights()), identity=await preflight.identity(client))
    if not name:
        found = ", ".join(await lost.names(client))
        raise UsageError(
            f"which one at context {context}? " + (f"There is something of: {found}" if found else "There is none"),
            next_step="Give its NAME, if nobody uses it any more.",
        )
    left = await lost.find(client, name)
    if left.lines and (who := await lost.in_use(client, name)):
        raise lost.refuse(name, who)
    return left


def _check_not_here(name: str, access: Access) -> None:
    """Raise UsageError for a cluster of this machine: its folder has more information than labels."""
    if not name:
        return
    facts = state.facts(state.directory(name))
    if facts is not None and facts.server == access.server:
        raise UsageError(f"cluster {name} is one of this machine", next_step=f"Use: grovescale down {name}")


def _tell(removal: Removal, say: Say) -> int:
    say(f"removed: {', '.join(removal.removed) or 'nothing'}")
    for line in removal.kept:
        say(f"stays: {line}")
    if removal.stuck:
        raise ClusterError(
            "\n".join(["not everything goes:", *(f"  {line}" for line in removal.stuck)]),
            next_step="See what holds it, then the same command again.",
        )
    return 0
