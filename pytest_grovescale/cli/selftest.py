"""``grovescale selftest``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .arguments import add_json
from .out import write


def add(commands: Any) -> None:
    """Add the command. ``commands``: the parser's subparsers."""
    selftest = commands.add_parser("selftest", help="how well the harness measures and judges")
    tests = selftest.add_subparsers(required=True, metavar="TEST")
    power = tests.add_parser("power", help="how often a comparison calls a known defect, and raises a false alarm")
    power.add_argument("--noise", type=Path, metavar="FILE", help="recorded noise (default: the package's)")
    power.add_argument("--pairs", type=int, metavar="N", help="of each part, with the warm-up (as compare makes)")
    power.add_argument(
        "--max-contention", default="", metavar="SHARE", help="as of compare (25%%); 100%%: no pair is repeated"
    )
    add_json(power)
    power.set_defaults(run=_selftest_power)
    noise = tests.add_parser("noise", help="gather the pairs of finished comparisons into a file for `power`")
    noise.add_argument("comparisons", type=Path, nargs="+", metavar="FOLDER", help="folders of `grovescale compare`")
    noise.add_argument("--output", type=Path, required=True, metavar="FILE")
    noise.add_argument("--how", required=True, metavar="TEXT", help="how they were recorded: workload, what else ran")
    noise.set_defaults(run=_selftest_noise)
    matrix = tests.add_parser("defects", help="every check against the bundled operator with each defect")
    matrix.add_argument("--only", action="append", default=[], metavar="DEFECT", help="one defect; several times")
    matrix.add_argument("--reports", type=Path, default=Path("reports"), metavar="DIR", help="where its folder is")
    matrix.add_argument(
        "--resume", nargs="?", const="", metavar="FOLDER", help="go on where it was interrupted (default: the newest)"
    )
    matrix.add_argument(
        "--again", action="store_true", help="measure a defect a second time where a cell differs, on a busy machine"
    )
    add_json(matrix)
    matrix.set_defaults(run=_selftest_defects)


def _selftest_power(options: argparse.Namespace) -> int:
    from ..selftest import commands

    return commands.selftest_power(
        options.noise, json=options.json, write=write, pairs=options.pairs, max_contention=options.max_contention
    )


def _selftest_defects(options: argparse.Namespace) -> int:
    from ..selftest import commands

    return commands.selftest_defects(
        options.reports.absolute(),
        only=options.only,
        resume=options.resume,
        again=options.again,
        json=options.json,
        stream=sys.stderr,
        write=write,
        color=sys.stdout.isatty(),
    )


def _selftest_noise(options: argparse.Namespace) -> int:
    from ..selftest import commands

    return commands.selftest_noise(options.comparisons, options.output, how=options.how, write=write)
