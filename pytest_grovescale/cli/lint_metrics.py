"""``grovescale lint-metrics``."""

from __future__ import annotations

import argparse
from typing import Any

from .arguments import add_json
from .out import write


def add(commands: Any) -> None:
    """Add the command. ``commands``: the parser's subparsers."""
    lint = commands.add_parser(
        "lint-metrics",
        help="hold what a metrics endpoint serves to the rules that need no cluster",
        description="Names, labels, duplicates of built-ins, buckets. Exit code 1: faults; 3: no readable answer.",
    )
    lint.add_argument("source", metavar="URL|FILE|-", help="an endpoint, a saved answer of one, or standard input")
    lint.add_argument(
        "--against", default="", metavar="FILE", help="the same before a change, or a moment ago: show what differs"
    )
    lint.add_argument("--budgets", default="", metavar="FILE", help="checks as in a test's budgets.yaml; see there")
    lint.add_argument("--max-series", type=_number, metavar="N", help="fail where its own families have more")
    lint.add_argument(
        "--family", default="", metavar="FAMILY", help="count those of a family, of several or all (with *)"
    )
    lint.add_argument(
        "--max-combinations",
        type=_number,
        default=1_000,
        metavar="N",
        help="fail where one of its own families has more combinations of labels, buckets among them (1000)",
    )
    lint.add_argument("--hints", action="store_true", help="show what is worth a look and no fault, too")
    lint.add_argument("--forbid", action="append", default=[], metavar="LABEL", help="a label that none may have, too")
    lint.add_argument(
        "--ignore", action="append", default=[], metavar="RULE|FAMILY", help="a rule, or families (with *), to exclude"
    )
    add_json(lint)
    lint.add_argument("--bearer-token-file", default="", metavar="FILE", help="bearer token file")
    lint.add_argument("--ca", default="", metavar="FILE", help="certificate authority of an https endpoint, PEM")
    lint.add_argument("--cert", default="", metavar="FILE", help="client certificate, PEM")
    lint.add_argument("--key", default="", metavar="FILE", help="its key, where it is not in the same file")
    lint.add_argument("--insecure", action="store_true", help="skip TLS verification")
    lint.add_argument("--timeout", type=_seconds, default=10.0, metavar="SECONDS", help="for the whole answer (10)")
    lint.set_defaults(run=_lint_metrics)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no number of series: give 0 or more")
    return int(text)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is no time limit: give 0.1 to 3600 seconds")
    return value


def _lint_metrics(options: argparse.Namespace) -> int:
    from ..bench.lint_metrics import LintWanted, lint_metrics
    from ..checks.metrics.lint import LintRules
    from ..endpoints import Credentials

    wanted = LintWanted(
        source=options.source,
        against=options.against,
        budgets=options.budgets,
        rules=LintRules(
            max_series=options.max_series,
            max_series_family=options.family,
            max_combinations=options.max_combinations,
            forbidden=tuple(options.forbid),
            ignore=tuple(options.ignore),
        ),
        credentials=Credentials(
            token_file=options.bearer_token_file,
            ca_file=options.ca,
            cert_file=options.cert,
            key_file=options.key,
            insecure_skip_verify=options.insecure,
        ),
        timeout_s=options.timeout,
        json=options.json,
        hints=options.hints,
    )
    return lint_metrics(wanted, write=write)
