"""``grovescale history``: the figures of many runs, and the commits between which they changed."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec

from ..errors import ExitCode, RecordingError, UsageError
from .arguments import add_json, existing
from .out import say, write


def add(commands: Any) -> None:
    """Add the command. ``commands``: the parser's subparsers."""
    history = commands.add_parser(
        "history",
        help="print how figures went over many runs, where they changed, and between which commits",
        description="Runs are added by pytest --grovescale --grovescale-history=DIR, and by --add.",
    )
    history.add_argument("folder", type=Path, metavar="DIR", help="the history's folder")
    history.add_argument("--test", default="", help="only tests whose id contains this")
    history.add_argument("--metric", default="", metavar="KEY", help="only this figure, as cpu:deploy")
    history.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it as a page with charts, too")
    history.add_argument(
        "--add",
        type=existing,
        metavar="PATH",
        help="add a finished run's folder, or a JSON result of Grove's own scale tests, and print nothing",
    )
    history.add_argument("--commit", default="", metavar="REV", help="with --add: the commit that the run measured")
    history.add_argument("--machine", default="", metavar="NAME", help="with --add: where Grove's test ran")
    form = history.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="as Markdown")
    add_json(form)
    history.set_defaults(run=_history)


def _history(options: argparse.Namespace) -> int:
    if options.add is not None:
        return _add(options)
    if options.commit or options.machine:
        raise UsageError("--commit and --machine say more of the run of --add", next_step="Add it, or leave them out.")
    from ..analysis.history import history_of
    from ..atomic_write import json_text
    from ..bench import history as kept
    from ..report import document, history_table
    from ..report.document import terminal_width

    found = history_of(kept.read(options.folder), test=options.test, metric=options.metric)
    if options.json:
        write(json_text(found))
    elif options.markdown:
        write(document.markdown(history_table.blocks(found)).rstrip("\n"))
    else:
        width, color = terminal_width(shutil.get_terminal_size().columns), sys.stdout.isatty()
        write(document.text(history_table.blocks(found), width=width, color=color).rstrip("\n"))
    if options.output is not None:
        from ..report.html import files

        say(f"wrote {files.write_history(found, to=options.output)}")
    return ExitCode.PASSED


def _add(options: argparse.Namespace) -> int:
    from ..analysis import grove_results
    from ..analysis.history import history_run
    from ..bench import history as kept
    from ..report import result_file

    commit = kept.commit_at(Path.cwd(), options.commit) if options.commit else None
    path: Path = options.add
    if path.is_dir():
        result = result_file.read(path / result_file.NAME)
        run = history_run(result, saved=result.started, commit=commit)
    else:
        try:
            grove = msgspec.json.decode(path.read_bytes(), type=grove_results.GroveResult)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RecordingError(
                f"{path} is not a result of Grove's scale tests: {error}",
                next_step="Give the JSON file that they write, or the folder of a run of grovescale.",
            ) from error
        run = grove_results.history_run(grove, commit=commit, machine=options.machine)
    if run is None:
        raise UsageError(
            f"{path} has nothing to compare with: no test passed all its phases without a profiler",
            next_step="Add a run that works.",
        )
    say(f"added {kept.add(options.folder, run)}")
    return ExitCode.PASSED
