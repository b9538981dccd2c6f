"""The command ``grovescale``: arguments in, exit code out. Each command's work lives in its room."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import __version__
from .errors import GrovescaleError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0, or 1 after an error that was told, or 130 after Ctrl-C."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except GrovescaleError as error:
        _say(f"grovescale: {error}")
        return 1
    except BrokenPipeError:
        # `grovescale show … | head`: the reader has seen enough.
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        _say("grovescale: interrupted")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="grovescale", description="Scale tests for Kubernetes operators.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    setup = commands.add_parser("setup", help="find, download or build the control plane's binaries ahead of time")
    setup.add_argument("--kubernetes", metavar="VERSION", default="", help="instead of the default version")
    setup.set_defaults(run=_setup)

    up = commands.add_parser("up", help="start a cluster and leave it running")
    up.add_argument("cluster", nargs="?", default="default", metavar="FILE", help="cluster definition (default)")
    up.add_argument("--name", default="", help="name to find it by (default: the definition's)")
    up.add_argument("--kubernetes", metavar="VERSION", default="", help="instead of the definition's version")
    up.add_argument("--nodes", type=int, metavar="N", help="instead of the definition's number of simulated nodes")
    up.set_defaults(run=_up)

    status = commands.add_parser("status", help="list the clusters on this machine and their processes")
    status.set_defaults(run=_status)

    down = commands.add_parser("down", help="stop a cluster and remove what it left")
    down.add_argument("name", nargs="?", default="", metavar="NAME")
    down.add_argument("--all", action="store_true", help="every cluster of this user, and what killed runs left")
    down.set_defaults(run=_down)

    kubeconfig = commands.add_parser("kubeconfig", help="print a running cluster's kubeconfig file's path")
    kubeconfig.add_argument("name", nargs="?", default="", metavar="NAME")
    kubeconfig.set_defaults(run=_kubeconfig)

    show = commands.add_parser("show", help="print the tables of a recording again")
    show.add_argument("recording", type=Path, metavar="RECORDING", help="a .jsonl file, or a run's folder")
    show.set_defaults(run=_show)

    analyse = commands.add_parser("analyse", help="write result.json anew from a run's recordings")
    analyse.add_argument("folder", type=Path, metavar="RUN", help="the run's folder, as reports/latest")
    analyse.set_defaults(run=_analyse)
    return parser


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - a command's messages


def _print(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a command's result


def _setup(options: argparse.Namespace) -> int:
    from .cluster import commands

    return commands.setup(kubernetes=options.kubernetes, say=_say, write=_print)


def _up(options: argparse.Namespace) -> int:
    from .cluster import commands

    return commands.up(
        options.cluster,
        name=options.name,
        kubernetes=options.kubernetes,
        nodes=options.nodes,
        say=_say,
        write=_print,
    )


def _status(options: argparse.Namespace) -> int:
    from .cluster import commands

    return commands.status(write=_print)


def _down(options: argparse.Namespace) -> int:
    from .cluster import commands

    return commands.down(options.name, everything=options.all, say=_say)


def _kubeconfig(options: argparse.Namespace) -> int:
    from .cluster import commands

    return commands.kubeconfig(options.name, write=_print)


def _show(options: argparse.Namespace) -> int:
    from .analysis.analyse import analyse
    from .recording.journal import read
    from .report import terminal

    for recording in _recordings(options.recording):
        _print(terminal.render_test(analyse(read(recording))))
    return 0


def _recordings(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = sorted((path / "recordings").glob("*.jsonl"))
    if not found:
        raise GrovescaleError(
            f"{path}: no recording, and no folder of a run",
            next_step="Name reports/latest, or a .jsonl file in a run's recordings/ folder.",
        )
    return found


def _analyse(options: argparse.Namespace) -> int:
    from .analysis.analyse import analyse_run
    from .report import jsonfile

    _recordings(options.folder)
    jsonfile.write(analyse_run(options.folder), options.folder / "result.json")
    _say(f"wrote {options.folder / 'result.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
