"""Argument parser that answers a typing error with a suggestion."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

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
