"""The command ``grovescale``: arguments in, exit code out. Each command's work is in its own package."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from .. import __version__
from ..errors import ExitCode, GrovescaleError
from . import check, clusters, comparisons, completion, history, lint_metrics, runs, scaffold, schemas, selftest
from .arguments import Parser
from .out import open_closed_streams, say, write_any_character

_INTERRUPTED = 128 + signal.SIGINT
_EXIT_CODES = (
    "Exit codes of all commands: 0 passed, 1 a verdict failed, 2 usage, 3 infrastructure (cluster, build, disk), "
    "4 inconclusive where that is a failure."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return an `ExitCode`, or 130 after Ctrl-C. Exits with 2 for wrong arguments."""
    open_closed_streams()
    write_any_character()
    commands = parser()
    completion.complete(commands)
    options = commands.parse_args(arguments)
    try:
        return int(options.run(options))
    except GrovescaleError as error:
        say(f"grovescale: {error}")
        return error.exit_code
    except (OSError, RuntimeError) as error:
        # For example a full disk or a process limit; user-supplied paths are checked where they are read.
        from ..storage import explained

        refused = explained(error)
        if refused is None and not (isinstance(error, OSError) and error.filename):
            # A defect of ours: a bug report needs its traceback.
            raise
        say(f"grovescale: {refused or f'{error.filename}: {error.strerror}'}")  # type: ignore[union-attr]
        return ExitCode.INFRASTRUCTURE
    except KeyboardInterrupt:
        say("grovescale: interrupted")
        return _INTERRUPTED


def parser() -> Parser:
    """Return the parser of all commands."""
    made = Parser(prog="grovescale", description="Scale tests for Kubernetes operators.", epilog=_EXIT_CODES)
    made.add_argument("--version", action="version", version=__version__)
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    for group in (scaffold, clusters, check, runs, comparisons, history, lint_metrics, selftest, schemas, completion):
        group.add(commands)
    return made
