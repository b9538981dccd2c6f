"""Start of an operator as pods, from its manifests until it is ready."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import msgspec

from ...cluster import state as clusters
from ...cluster.handle import Cluster
from ...kube import access_files
from ...kube.portal import Portal
from .. import identity, installed, webhooks
from ..handle import Progress, new_log
from ..running import PROCESS, Hold, stop
from ..running import write as write_state
from ..shape import OperatorDefinition
from . import checking, deployment, image, objects
from .keeping import hand_over
from .operator import OperatorPods
from .readiness import wait_kept, wait_rolled_out, wait_seen


def bring_up(definition: OperatorDefinition, cluster: Cluster, *, directory: Path, progress: Progress) -> OperatorPods:
    """Start an operator as pods, as `start.start` describes. No instance of it may run there."""
    with contextlib.ExitStack() as undo, Portal() as portal:
        client = portal.client(cluster.access_as("harness"))
        loaded = image.bring(definition, cluster, progress)
        folder = cluster.directory / PROCESS
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        parts = objects.parts_of(definition, cluster.owner)
        running = hand_over(definition, cluster, parts, folder, new_log(directory))
        undo.callback(stop, cluster, running)
        cluster.start_process(running.spec)
        ours = portal.run(objects.prepare(client, definition, parts, cluster.owner, progress))
        running = msgspec.structs.replace(running, ours=ours)
        write_state(cluster, running)
        access_files.write(cluster.access_as("harness"), clusters.access_files(cluster.directory))
        if checking.tokens_are_sent(definition):
            portal.run(identity.write_credentials(client, definition, cluster.access_as("harness"), folder))
        # Before the Deployment exists: from its first moment on, a process must be there to remove it.
        wait_kept(running)
        changes = portal.run(objects.changes_of(client, definition, cluster, loaded=loaded))
        obj = deployment.changed(parts.chosen, changes)
        generation = portal.run(objects.apply(client, definition, parts.chosen, obj, cluster.owner, progress))
        wait_rolled_out(portal, client, running, generation, progress)
        wait_seen(running)
        portal.run(installed.wait_settled(client, [crd.object for crd in parts.crds]))
        cluster.owner.note(hook.object for hook in parts.webhooks)
        portal.run(webhooks.activate(client, parts.webhooks, namespace=parts.chosen.namespace))
        undo.pop_all()
        return OperatorPods(cluster, running, Hold(cluster))
