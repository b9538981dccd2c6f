"""The command ``grovescale``: arguments in, exit code out. Each command's work lives in its room."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .. import __version__
from ..errors import GrovescaleError
from . import clusters, comparing, lint_metrics, runs, selftest
from .out import say


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0, or 1 after an error that was told, or 130 after Ctrl-C."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except GrovescaleError as error:
        say(f"grovescale: {error}")
        return 1
    except BrokenPipeError:
        # `grovescale show … | head`: the reader has seen enough.
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        say("grovescale: interrupted")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="grovescale", description="Scale tests for Kubernetes operators.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for group in (clusters, runs, comparing, lint_metrics, selftest):
        group.add(commands)
    return parser
