"""``grovescale init | doctor``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..errors import ExitCode
from .arguments import add_json
from .out import say, write


def add(commands: Any) -> None:
    """Add the commands. ``commands``: the parser's subparsers."""
    init = commands.add_parser(
        "init",
        help="write the first scale test of an operator's project",
        description="Reads a folder (kubebuilder, operator-sdk, kopf, or plain) and writes an operator definition, "
        "workloads, a test and a CI workflow that fit; no existing file is changed but .gitignore.",
    )
    init.add_argument("folder", nargs="?", type=Path, default=Path(), metavar="FOLDER", help="default: this one")
    init.add_argument("--dry-run", action="store_true", help="show the files, write none")
    init.add_argument(
        "--measure",
        action="store_true",
        help="run the test three times, and write bounds of its figures (budgets.yaml)",
    )
    init.set_defaults(run=_init)

    doctor = commands.add_parser(
        "doctor",
        help="say what this machine lacks for scale tests, and how to get it",
        description="Exit code: 0 where scale tests can run here, 3 where they cannot.",
    )
    add_json(doctor)
    doctor.set_defaults(run=_doctor)


def _init(options: argparse.Namespace) -> int:
    from ..scaffold import write as scaffold

    made = scaffold.init(options.folder, dry_run=options.dry_run, write=write)
    if options.measure and not options.dry_run:
        from ..scaffold import measure

        return measure.measure(options.folder, made, say=say, write=write)
    write(f"\nnext: {made.next_command}")
    return ExitCode.PASSED


def _doctor(options: argparse.Namespace) -> int:
    from ..scaffold import doctor

    return doctor.run(json=options.json, write=write)
