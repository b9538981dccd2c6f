"""Options of all commands that run a test."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..bench.commands import Environment


def add_allow_context(command: argparse.ArgumentParser) -> None:
    """Add the option for the contexts of a kubeconfig that may be used."""
    command.add_argument(
        "--allow-context",
        action="append",
        default=[],
        metavar="NAME",
        help="a kubeconfig context that is not on this machine and may be used all the same",
    )


def add_environment(command: argparse.ArgumentParser) -> None:
    """Add the options for the place of a test's run and its output."""
    command.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="parameter of the test")
    command.add_argument("--cluster", default="", metavar="FILE", help="cluster definition, instead of the test's")
    command.add_argument("--nodes", type=int, metavar="N", help="number of simulated nodes, instead of the test's")
    command.add_argument("--kubernetes", default="", metavar="VERSION", help="instead of the definition's version")
    add_allow_context(command)
    command.add_argument("--reports", type=Path, default=Path("reports"), metavar="DIR", help="where its folder is")
    command.add_argument(
        "--yes", action="store_true", help="run it although no argument says what; without, the plan is shown"
    )
    command.add_argument(
        "--resume", nargs="?", const="", metavar="FOLDER", help="go on where it was interrupted (default: the newest)"
    )


def environment_of(options: argparse.Namespace) -> Environment:
    """Return the environment from the parsed options."""
    from ..bench.commands import Environment

    return Environment(
        reports=options.reports.absolute(),
        cluster=options.cluster,
        nodes=options.nodes,
        kubernetes=options.kubernetes,
        allowed_contexts=tuple(options.allow_context),
    )
