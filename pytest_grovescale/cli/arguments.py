"""The argument parser, which answers a typing error with a suggestion, and options of all commands that run a test."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

_PARSER = "_parser"


class Parser(argparse.ArgumentParser):
    """argparse's parser with "did you mean" for commands, choices and options. Its subparsers are of this class too."""

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Return the arguments; exits with 2, and a near option's name, for an unknown one."""
        options, unknown = self.parse_known_args(args, namespace)
        # The command's own parser, which knows its valid options.
        chosen: Parser = vars(options).pop(_PARSER)
        if unknown:
            chosen._refuse(unknown)
        return options

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse's, but keeps the innermost command's parser in the namespace."""
        namespace = argparse.Namespace() if namespace is None else namespace
        vars(namespace).setdefault(_PARSER, self)
        options, unknown = super().parse_known_args(args, namespace)
        return options, unknown

    def _check_value(self, action: argparse.Action, value: object) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError:
            choices = [str(choice) for choice in action.choices or ()]
            hint = did_you_mean(str(value), choices)
            raise argparse.ArgumentError(action, f"no {value!r}; {hint}there are: {', '.join(choices)}") from None

    def _refuse(self, unknown: Sequence[str]) -> NoReturn:
        known = [option for action in self._actions for option in action.option_strings]
        hints = [did_you_mean(text.partition("=")[0], known) for text in unknown if text.startswith("-")]
        hint = "".join(f"; {one.rstrip('; ')}" for one in hints if one)
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean X or Y?; `` where there are names near this one, else nothing."""
    near = difflib.get_close_matches(name, sorted(known), n=2)
    return f"did you mean {' or '.join(near)}?; " if near else ""


def existing(text: str) -> Path:
    """Return the path of an existing file or folder."""
    path = Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"{text}: no such file or folder")
    return path


def add_json(command: argparse._ActionsContainer) -> None:
    """Add ``--json`` to a command; its schema: ``grovescale schema``."""
    command.add_argument("--json", action="store_true", help="as JSON (its schema: grovescale schema)")


if TYPE_CHECKING:
    from ..bench.command_context import Environment


def add_allow_context(command: argparse.ArgumentParser) -> None:
    """Add the option for the contexts of a kubeconfig that may be used."""
    command.add_argument(
        "--allow-context",
        action="append",
        default=[],
        metavar="NAME",
        help="allow this non-local context",
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
    from ..bench.command_context import Environment

    return Environment(
        reports=options.reports.absolute(),
        cluster=options.cluster,
        nodes=options.nodes,
        kubernetes=options.kubernetes,
        allowed_contexts=tuple(options.allow_context),
    )
