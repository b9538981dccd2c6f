"""Shell completion of the command line: ``grovescale completion``, and completers of arguments."""

from __future__ import annotations

import argparse
import os
from typing import Any

from ..errors import ExitCode
from .out import write

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")


def add(commands: Any) -> None:
    """Add the command. ``commands``: the parser's subparsers."""
    completion = commands.add_parser(
        "completion",
        help="print shell code that completes commands, options and names of clusters",
        description='In ~/.bashrc: eval "$(grovescale completion bash)". It needs grovescale on the PATH.',
    )
    completion.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    completion.set_defaults(run=_completion)


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer a shell's completion request, and exit; do nothing when a user has run the command."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)


def with_cluster_names(argument: argparse.Action) -> None:
    """Complete an argument with the names of the clusters on this machine."""
    # argcomplete reads this attribute; argparse has no name for it.
    vars(argument)["completer"] = _cluster_names


def _cluster_names(**_: object) -> list[str]:
    from ..cluster import state

    return state.names()


def _completion(options: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    write(shellcode(["grovescale"], shell=options.shell).strip("\n"))
    return ExitCode.PASSED
