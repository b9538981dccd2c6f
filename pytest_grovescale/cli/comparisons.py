"""``grovescale compare | bisect | backends | sweep``: one test, run several times or on several clusters."""

from __future__ import annotations

import argparse
import functools
import sys
from typing import Any

from ..errors import UsageError
from .arguments import add_environment, add_json, environment_of
from .out import write

_NOT_OF_THE_PLAN = frozenset({"run", "resume", "reports", "fail_on", "json", "yes"})
"""Options of a resumed command that do not affect its runs."""


def add(commands: Any) -> None:
    """Add the commands. ``commands``: the parser's subparsers."""
    _add_compare(commands)
    _add_bisect(commands)
    _add_backends(commands)
    _add_sweep(commands)


def _add_compare(commands: Any) -> None:
    compare = commands.add_parser(
        "compare",
        help="run two variants of an operator, and tell whether the second is slower",
        usage="grovescale compare [A] [B] [TEST] [--set NAME=VALUE --set-b NAME=VALUE] "
        "[--git REV_A REV_B --build CMD] …\n"
        "       grovescale compare --resume [FOLDER]\n"
        "       grovescale compare RUN RUN",
    )
    compare.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="one or two operator definitions (reference), or two folders of finished runs; and a test, as "
        "tests/scale/test_mine.py::test_it (the bundled scenario of 1000 pods)",
    )
    compare.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="value of the definitions")
    compare.add_argument("--set-b", action="append", default=[], metavar="NAME=VALUE", help="override for variant B")
    compare.add_argument("--git", nargs=2, default=[], metavar=("REV_A", "REV_B"), help="two revisions of the operator")
    compare.add_argument("--build", default="", metavar="CMD", help="shell command that builds a revision")
    compare.add_argument("--parts", metavar="PARTS", help="noop windows, deploy runs, or both (noop,deploy)")
    compare.add_argument(
        "--pairs",
        type=int,
        metavar="N",
        help="most pairs (10 of windows, 14 of deploy runs, 12 of --quick)",
    )
    compare.add_argument(
        "--no-early-stop", action="store_true", help="make all pairs, without interim analyses, which may stop early"
    )
    compare.add_argument(
        "--sequential",
        action="store_true",
        help="deploy runs one after the other, for wall times of a machine to themselves (default: parallel)",
    )
    compare.add_argument(
        "--quick",
        action="store_true",
        help="whole runs of the test for at most 5 minutes: counts decide, CPU is for information",
    )
    compare.add_argument(
        "--time-limit",
        default="",
        metavar="DURATION",
        help="time for the pairs, builds not included; what is open then is inconclusive (--quick: 5m, else none)",
    )
    compare.add_argument(
        "--window", default="", metavar="DURATION", help="length of a no-op window (6s); --quick: longest hold (3s)"
    )
    compare.add_argument("--triggers", type=int, metavar="N", help="triggers in a no-op window (100)")
    compare.add_argument(
        "--same-process", action="store_true", help="all no-op windows on one process, instead of a fresh one for each"
    )
    compare.add_argument(
        "--profile", action=argparse.BooleanOptionalAction, help="profile both at the end (default: unless --quick)"
    )
    compare.add_argument("--gate", action="append", default=[], metavar="METRIC", help="metric the verdict is about")
    compare.add_argument(
        "--max-contention",
        default="",
        metavar="SHARE",
        help="discard a pair, and make it again, when programs outside the comparison and steal take more of the cores "
        "(25%%); 100%%: never",
    )
    compare.add_argument(
        "--fail-on",
        choices=["regression", "inconclusive", "never"],
        help="what is no success (regression; --quick: inconclusive too, with exit code 4)",
    )
    compare.add_argument(
        "--allow-different", action="store_true", help="finished runs may differ in parameters, size or machine"
    )
    add_json(compare)
    add_environment(compare)
    compare.set_defaults(run=functools.partial(_compare, compare))


def _add_bisect(commands: Any) -> None:
    bisect = commands.add_parser(
        "bisect",
        help="find the commit that changed a figure, by measurements that are noisy",
        description="Exit code: 0 where the commit was found, 4 where there is no change, or too few measurements.",
    )
    bisect.add_argument("range", nargs="*", metavar="GOOD BAD OPERATOR [TEST]", help="two commits, definition, test")
    bisect.add_argument("--metric", default="", metavar="KEY", help="the figure that changed, as cpu:deploy")
    bisect.add_argument("--build", default="", metavar="CMD", help="shell command that builds a commit")
    bisect.add_argument(
        "--skip", action="append", default=[], metavar="REV", help="with --resume: a commit that cannot be measured"
    )
    bisect.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="value of the definition")
    bisect.add_argument("--most", type=int, default=60, metavar="N", help="give up after so many measurements (60)")
    bisect.add_argument(
        "--pairs", type=int, default=8, metavar="N", help="of the comparison at the end (8); 0: no comparison"
    )
    bisect.add_argument("--no-profile", action="store_true", help="no profiling pass in the comparison at the end")
    bisect.add_argument(
        "--max-contention", default="", metavar="SHARE", help="leave out a pair when other programs take more (25%%)"
    )
    add_json(bisect)
    add_environment(bisect)
    bisect.set_defaults(run=functools.partial(_bisect, bisect))


def _bisect(bisect: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from ..bench.bisect_command import BisectWanted, resume_bisect, run_bisect

    color = sys.stdout.isatty()
    if options.resume is not None:
        options.names = options.range
        _refuse_beside_resume(options, bisect, "range", "skip")
        return resume_bisect(
            options.resume,
            options.reports.absolute(),
            skipped=options.skip,
            json=options.json,
            stream=sys.stderr,
            write=write,
            color=color,
        )
    if len(options.range) < 2 or not options.metric:
        raise UsageError(
            "a bisection needs two commits and a figure",
            next_step="Write: grovescale bisect GOOD BAD operators/mine.yaml --metric cpu:deploy --build CMD.",
        )
    if options.skip:
        raise UsageError("--skip is for a search that was begun", next_step="Use it with --resume.")
    good, bad, *names = options.range
    wanted = BisectWanted(
        good=good,
        bad=bad,
        names=names,
        metric=options.metric,
        build=options.build,
        values=options.set,
        parameters=options.param,
        most=options.most,
        pairs=options.pairs,
        profiles=not options.no_profile,
        max_contention=options.max_contention,
    )
    return run_bisect(wanted, environment_of(options), json=options.json, stream=sys.stderr, write=write, color=color)


def _add_backends(commands: Any) -> None:
    backends = commands.add_parser(
        "backends",
        help="one test on several clusters in one table: what must be equal, and what may differ",
        description="Creates, deletes and gate removals have to be equal exactly. Exit code: 1 where they are not.",
    )
    backends.add_argument(
        "runs", nargs="+", metavar="[NAME=]RUN", help="folder of a finished run, and what to call it, as kind=reports/x"
    )
    backends.add_argument(
        "--floor",
        action="append",
        default=[],
        metavar="NAME=RUN",
        help="for a column: a run of as many bare pods on the same cluster, without an operator",
    )
    backends.add_argument("--test", default="", help="which test, by the end of its id, where the runs have several")
    form = backends.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="as Markdown")
    add_json(form)
    backends.set_defaults(run=_backends)


def _add_sweep(commands: Any) -> None:
    sweep = commands.add_parser("sweep", help="run a test at several sizes, and tell how its figures grow")
    sweep.add_argument("names", nargs="*", metavar="NAME", help="operator definition (reference), and test")
    sweep.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="value of the definition; a list is swept"
    )
    sweep.add_argument("--repeats", type=int, metavar="N", help="runs of each size (3)")
    sweep.add_argument(
        "--check",
        action="append",
        default=[],
        metavar="METRIC[=EXPONENT]",
        help="hold a metric to growing with at most this power of the size (1.15), beside the test's own `scales`",
    )
    sweep.add_argument(
        "--fail-on",
        choices=["fail", "inconclusive", "never"],
        default="inconclusive",
        help="exit with 1 where a check fails, also where one cannot be decided (default), or never",
    )
    add_json(sweep)
    add_environment(sweep)
    sweep.set_defaults(run=functools.partial(_sweep, sweep))


def _compare(compare: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from ..bench.compare_command import CompareWanted, resume_compare, run_compare

    color = sys.stdout.isatty()
    if options.resume is not None:
        _refuse_beside_resume(options, compare)
        return resume_compare(
            options.resume,
            options.reports.absolute(),
            fail_on=options.fail_on,
            json=options.json,
            stream=sys.stderr,
            write=write,
            color=color,
        )
    wanted = CompareWanted(
        names=options.names,
        values=options.set,
        other=options.set_b,
        parameters=options.param,
        git=options.git,
        build=options.build,
        parts=options.parts,
        pairs=options.pairs,
        no_early_stop=options.no_early_stop,
        sequential=options.sequential,
        same_process=options.same_process,
        quick=options.quick,
        time_limit=options.time_limit,
        window=options.window,
        triggers=options.triggers,
        profiles=options.profile,
        gated=options.gate,
        max_contention=options.max_contention,
        fail_on=options.fail_on,
        allow_different=options.allow_different,
        yes=options.yes,
    )
    return run_compare(wanted, environment_of(options), json=options.json, stream=sys.stderr, write=write, color=color)


def _backends(options: argparse.Namespace) -> int:
    from ..bench.backends import BackendsWanted, backends

    wanted = BackendsWanted(
        runs=options.runs,
        floors=options.floor,
        test=options.test,
        markdown=options.markdown,
        json=options.json,
    )
    return backends(wanted, write=write, color=sys.stdout.isatty())


def _sweep(sweep: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from ..bench.sweep_command import SweepWanted, resume_sweep, run_sweep

    color = sys.stdout.isatty()
    if options.resume is not None:
        _refuse_beside_resume(options, sweep, "check")
        return resume_sweep(
            options.resume,
            options.reports.absolute(),
            checks=options.check,
            fail_on=options.fail_on,
            json=options.json,
            stream=sys.stderr,
            write=write,
            color=color,
        )
    wanted = SweepWanted(
        names=options.names,
        values=options.set,
        parameters=options.param,
        repeats=options.repeats,
        checks=options.check,
        fail_on=options.fail_on,
        yes=options.yes,
    )
    return run_sweep(wanted, environment_of(options), json=options.json, stream=sys.stderr, write=write, color=color)


def _refuse_beside_resume(options: argparse.Namespace, command: argparse.ArgumentParser, *others: str) -> None:
    """Reject options given beside ``--resume``, except ``others`` and those outside every command's plan."""
    known = {*_NOT_OF_THE_PLAN, *others, "names"}
    given = [
        f"--{'no-' if value is False else ''}{name.replace('_', '-')}"
        for name, value in vars(options).items()
        if name not in known and value != command.get_default(name)
    ]
    if given or options.names:
        raise UsageError(
            f"--resume reuses the stored plan: {', '.join([*options.names, *given])} cannot change it",
            next_step="Leave that out, or start a new comparison without --resume.",
        )
