"""``grovescale setup | up | status | down | kubeconfig``."""

from __future__ import annotations

import argparse
from typing import Any

from .arguments import add_allow_context, add_json
from .completion import with_cluster_names
from .out import say, write


def add(commands: Any) -> None:
    """Add the commands. ``commands``: the parser's subparsers."""
    setup = commands.add_parser("setup", help="find, download or build the control plane's binaries ahead of time")
    setup.add_argument("--kubernetes", metavar="VERSION", default="", help="instead of the default version")
    add_json(setup)
    setup.set_defaults(run=_setup)

    up = commands.add_parser("up", help="start a cluster and leave it running")
    up.add_argument(
        "cluster",
        nargs="?",
        default="default",
        metavar="FILE",
        help="cluster definition (default), or existing:CONTEXT",
    )
    up.add_argument("--name", default="", help="name to find it by (default: the definition's)")
    up.add_argument("--kubernetes", metavar="VERSION", default="", help="instead of the definition's version")
    up.add_argument("--nodes", type=int, metavar="N", help="instead of the definition's number of simulated nodes")
    add_allow_context(up)
    add_json(up)
    up.set_defaults(run=_up)

    status = commands.add_parser("status", help="list the clusters on this machine, their users and processes")
    with_cluster_names(
        status.add_argument("name", nargs="?", default="", metavar="NAME", help="only this one (default: all)")
    )
    add_json(status)
    status.set_defaults(run=_status)

    down = commands.add_parser("down", help="stop a cluster and remove what it left")
    with_cluster_names(
        down.add_argument(
            "name", nargs="?", default="", metavar="NAME", help="default: the only cluster made by `grovescale up`"
        )
    )
    down.add_argument(
        "--all", action="store_true", help="every cluster of this user that is not in use, and what killed runs left"
    )
    down.add_argument("--force", action="store_true", help="also a cluster that a live run uses: the run fails")
    down.add_argument(
        "--context",
        metavar="CONTEXT",
        default="",
        help="on a cluster that grovescale did not create: remove what the lost run NAME left there",
    )
    down.add_argument("--dry-run", action="store_true", help="with --context: only say what would be removed")
    add_allow_context(down)
    down.set_defaults(run=_down)

    kubeconfig = commands.add_parser("kubeconfig", help="print a running cluster's kubeconfig file's path")
    with_cluster_names(
        kubeconfig.add_argument(
            "name", nargs="?", default="", metavar="NAME", help="default: the only cluster made by `grovescale up`"
        )
    )
    add_json(kubeconfig)
    kubeconfig.set_defaults(run=_kubeconfig)


def _setup(options: argparse.Namespace) -> int:
    from .. import storage
    from ..cluster import commands, versions

    version = versions.kubernetes(options.kubernetes or versions.DEFAULT_KUBERNETES)
    storage.refuse_unwritable(storage.to_make(versions.NEEDED, version))
    return commands.setup(kubernetes=options.kubernetes, json=options.json, say=say, write=write)


def _up(options: argparse.Namespace) -> int:
    from .. import storage
    from ..cluster import commands

    return commands.up(
        options.cluster,
        name=options.name,
        kubernetes=options.kubernetes,
        nodes=options.nodes,
        allowed_contexts=options.allow_context,
        json=options.json,
        refuse=lambda definition: storage.refuse_unwritable(storage.to_start(definition)),
        say=say,
        write=write,
    )


def _status(options: argparse.Namespace) -> int:
    from ..cluster import commands

    return commands.status(options.name, json=options.json, write=write)


def _down(options: argparse.Namespace) -> int:
    from ..cluster import commands
    from ..errors import UsageError

    if not options.context:
        if options.dry_run:
            raise UsageError("--dry-run is for --context", next_step="See: grovescale status")
        return commands.down(options.name, everything=options.all, force=options.force, say=say)
    if options.force:
        raise UsageError(
            "--force means a cluster of this machine, --context another's", next_step="Leave one of them out."
        )
    if options.all:
        raise UsageError(
            "--all means this machine, --context another's cluster", next_step="Give a NAME with --context."
        )
    return commands.down_elsewhere(
        options.name,
        context=options.context,
        dry_run=options.dry_run,
        allowed_contexts=options.allow_context,
        say=say,
        write=write,
    )


def _kubeconfig(options: argparse.Namespace) -> int:
    from ..cluster import commands

    return commands.kubeconfig(options.name, json=options.json, write=write)
