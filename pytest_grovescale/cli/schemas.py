"""``grovescale schema``: the JSON Schemas of what commands print with ``--json``.

Shipped in ``schemas/`` and kept equal to the structs by a test; ``python -m tools.schemas`` writes them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ExitCode
from .out import write

_FOLDER = Path(__file__).parents[1] / "schemas"


class Document(NamedTuple):
    """A kind of JSON document."""

    command: str
    """The command that prints it with ``--json``, after ``grovescale``."""
    content: type
    """The struct that it is encoded from."""
    title: str = ""

    def schema(self) -> bytes:
        """Return the schema as in its file."""
        from ..atomic_write import json_schema

        return json_schema(self.content, title=self.title or f"What `grovescale {self.command} --json` prints")


NAMES = (
    "backends",
    "binaries",
    "bisection",
    "clusters",
    "comparison",
    "defects",
    "doctor",
    "history",
    "kubeconfig",
    "lint-metrics",
    "power",
    "profiles",
    "result",
    "sweep",
)


def documents() -> dict[str, Document]:
    """Return all kinds, by name."""
    # Imported late: no command imports more than it needs.
    from ..analysis.backends import BackendsTable
    from ..analysis.bisection import Bisection
    from ..analysis.history import History
    from ..analysis.profiles.comparison import ProfilesFile
    from ..analysis.result import SCHEMA_VERSION, Result
    from ..bench.output import ComparisonFile, SweepFile
    from ..cluster.commands import BinariesFile, KubeconfigFile
    from ..cluster.inventory import StatusFile
    from ..report.lint import LintDocument
    from ..scaffold.doctor import DoctorFile
    from ..selftest.commands import PowerFile
    from ..selftest.matrix import MatrixFile

    return {
        "backends": Document("backends", BackendsTable),
        "binaries": Document("setup", BinariesFile),
        "bisection": Document("bisect", Bisection),
        "clusters": Document("status", StatusFile),
        "comparison": Document("compare", ComparisonFile),
        "defects": Document("selftest defects", MatrixFile),
        "doctor": Document("doctor", DoctorFile),
        "history": Document("history", History),
        "kubeconfig": Document("kubeconfig", KubeconfigFile),
        "lint-metrics": Document("lint-metrics", LintDocument),
        "power": Document("selftest power", PowerFile),
        "profiles": Document("profile", ProfilesFile),
        "result": Document("show", Result, f"Result of a pytest-grovescale run, schema version {SCHEMA_VERSION}"),
        "sweep": Document("sweep", SweepFile),
    }


def path_of(name: str) -> Path:
    """Return the file of a schema."""
    return _FOLDER / f"{name}.schema.json"


def add(commands: Any) -> None:
    """Add the command. ``commands``: the parser's subparsers."""
    schema = commands.add_parser("schema", help="print the JSON Schema of what a command prints with --json")
    schema.add_argument("name", nargs="?", choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    schema.set_defaults(run=_schema)


def _schema(options: argparse.Namespace) -> int:
    if options.name is None:
        write("\n".join(NAMES))
    else:
        write(path_of(options.name).read_text(encoding="utf-8").rstrip("\n"))
    return ExitCode.PASSED
