"""The command ``grovescale``: arguments in, exit code out. Each command's work lives in its room."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import __version__
from .errors import GrovescaleError, UsageError

if TYPE_CHECKING:
    from .analysis.profiles.chosen import PhaseProfile
    from .analysis.result import TestResult
    from .bench.commands import Environment


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
    up.add_argument(
        "cluster",
        nargs="?",
        default="default",
        metavar="FILE",
        help="cluster definition (default), or existing:CONTEXT",
    )
    up.add_argument("--name", default="", help="name to find it by (default: the definition's)")
    up.add_argument("--kubernetes", metavar="VERSION", default="", help="instead of the definition's version")
    up.add_argument("--nodes", type=int, metavar="N", help="instead of the definition's number of simulated nodes")
    up.add_argument(
        "--allow-context",
        action="append",
        default=[],
        metavar="NAME",
        help="a kubeconfig context that is not on this machine and may be used all the same",
    )
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

    analyse = commands.add_parser("analyse", help="write result.json and report.html anew from a run's recordings")
    analyse.add_argument("folder", type=Path, metavar="RUN", help="the run's folder, as reports/latest")
    # What a recorder does whose test process was killed: if all of the run was, nobody else is left to do it.
    analyse.add_argument("--unless-open", action="store_true", help=argparse.SUPPRESS)
    analyse.set_defaults(run=_analyse)

    report = commands.add_parser("report", help="write a run's page anew: one HTML file, to be opened from disk")
    report.add_argument("folder", type=Path, metavar="RUN", help="the run's folder, as reports/latest")
    report.add_argument("-o", "--output", type=Path, metavar="FILE", help="instead of report.html in that folder")
    report.set_defaults(run=_report)

    _add_compare(commands)
    _add_backends(commands)
    _add_sweep(commands)
    _add_lint_metrics(commands)

    selftest = commands.add_parser("selftest", help="how well the harness measures and judges")
    tests = selftest.add_subparsers(required=True, metavar="TEST")
    power = tests.add_parser("power", help="how often a comparison calls a known defect, and raises a false alarm")
    power.add_argument("--noise", type=Path, metavar="FILE", help="recorded noise (default: the package's)")
    power.add_argument("--pairs", type=int, metavar="N", help="of each part, with the warm-up (as compare makes)")
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
    matrix.set_defaults(run=_selftest_defects)

    profile = commands.add_parser("profile", help="print a run's function tables, or how those of two differ")
    profile.add_argument("folder", type=Path, metavar="RUN", help="the run's folder, as reports/latest")
    profile.add_argument("after", type=Path, nargs="?", metavar="RUN2", help="another run's: print before, after and Δ")
    profile.add_argument("--phase", default="", help="only of this phase")
    profile.add_argument("--process", default="", help="only of this process, as operator")
    profile.add_argument("--module", default="", help="only of this file, folder or package; * and ? match any")
    profile.add_argument("--top", type=int, default=20, metavar="N", help="the first N functions of each phase (20)")
    profile.add_argument("--markdown", action="store_true", help="as Markdown, for a pull request")
    profile.set_defaults(run=_profile)
    return parser


def _add_compare(commands: Any) -> None:
    compare = commands.add_parser(
        "compare",
        help="run two variants of an operator in turn, and tell whether the second is slower",
        usage="grovescale compare [A] [B] [TEST] [--set NAME=VALUE --vs NAME=VALUE] [--git REV_A REV_B --build CMD] …\n"
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
    compare.add_argument("--vs", action="append", default=[], metavar="NAME=VALUE", help="value of the second only")
    compare.add_argument("--git", nargs=2, default=[], metavar=("REV_A", "REV_B"), help="two revisions of the operator")
    compare.add_argument("--build", default="", metavar="CMD", help="shell command that builds a revision")
    compare.add_argument("--what", default="noop,deploy", help="noop windows, deploy runs, or both (default)")
    compare.add_argument("--pairs", type=int, metavar="N", help="runs of each variant (noop 16, deploy 10)")
    compare.add_argument(
        "--one-look", action="store_true", help="make all pairs: no look on the way, which may end it early"
    )
    compare.add_argument("--quick", action="store_true", help="fewer and shorter: tells large differences only")
    compare.add_argument("--window", default="", metavar="DURATION", help="length of a no-op window (10s)")
    compare.add_argument("--triggers", type=int, metavar="N", help="triggers in a no-op window (100)")
    compare.add_argument(
        "--same-process", action="store_true", help="all no-op windows on one process, instead of a fresh one for each"
    )
    compare.add_argument(
        "--profile", action=argparse.BooleanOptionalAction, help="profile both at the end (default: unless --quick)"
    )
    compare.add_argument("--gate", action="append", default=[], metavar="METRIC", help="metric the verdict is about")
    compare.add_argument("--fail-on", choices=["regression", "inconclusive", "never"], default="regression")
    _add_environment(compare)
    compare.set_defaults(run=_compare)


def _add_backends(commands: Any) -> None:
    backends = commands.add_parser(
        "backends",
        help="one test on several clusters, side by side: what must be equal, and what may differ",
        description="Creates, deletes and gate removals have to be equal exactly. Exit code: 1 where they are not.",
    )
    backends.add_argument(
        "runs", nargs="+", metavar="[NAME=]RUN", help="folder of a finished run, and what to call it, as kind=reports/x"
    )
    backends.add_argument("--test", default="", help="which test, by the end of its id, where the runs have several")
    form = backends.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="as Markdown")
    form.add_argument("--json", action="store_true", help="as JSON")
    backends.set_defaults(run=_backends)


def _add_sweep(commands: Any) -> None:
    sweep = commands.add_parser("sweep", help="run a test at several sizes, and tell how its figures grow")
    sweep.add_argument("names", nargs="*", metavar="NAME", help="operator definition (reference), and test")
    sweep.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="value of the definition; a list is swept"
    )
    sweep.add_argument("--repeats", type=int, default=3, metavar="N", help="runs of each size (3)")
    sweep.add_argument(
        "--check", action="append", default=[], metavar="METRIC=EXPONENT", help="fail where a metric grows faster"
    )
    _add_environment(sweep)
    sweep.set_defaults(run=_sweep)


def _add_lint_metrics(commands: Any) -> None:
    lint = commands.add_parser(
        "lint-metrics",
        help="hold what a metrics endpoint serves to the rules that need no cluster",
        description="Names, labels, duplicates of built-ins, buckets. Exit code: 0 no faults, 1 faults, 2 unreadable.",
    )
    lint.add_argument("source", metavar="URL|FILE|-", help="an endpoint, a saved answer of one, or standard input")
    lint.add_argument("--against", default="", metavar="FILE", help="the same before a change: show what differs")
    lint.add_argument("--max-series", type=int, metavar="N", help="fail where it serves more")
    lint.add_argument("--forbid", action="append", default=[], metavar="LABEL", help="a label that none may have, too")
    lint.add_argument(
        "--ignore", action="append", default=[], metavar="RULE|FAMILY", help="a rule, or families (with *), to let off"
    )
    lint.add_argument("--json", action="store_true", help="as JSON")
    lint.add_argument("--bearer-token-file", default="", metavar="FILE", help="a token to be let in with")
    lint.add_argument("--ca", default="", metavar="FILE", help="certificate authority of an https endpoint, PEM")
    lint.add_argument("--cert", default="", metavar="FILE", help="client certificate to be let in with, PEM")
    lint.add_argument("--key", default="", metavar="FILE", help="its key, where it is not in the same file")
    lint.add_argument("--insecure", action="store_true", help="believe any certificate")
    lint.add_argument("--timeout", type=_seconds, default=10.0, metavar="SECONDS", help="for the whole answer (10)")
    lint.set_defaults(run=_lint_metrics)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is no time limit: give 0.1 to 3600 seconds")
    return value


def _add_environment(command: argparse.ArgumentParser) -> None:
    command.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="parameter of the test")
    command.add_argument("--cluster", default="", metavar="FILE", help="cluster definition, instead of the test's")
    command.add_argument("--nodes", type=int, metavar="N", help="number of simulated nodes, instead of the test's")
    command.add_argument("--kubernetes", default="", metavar="VERSION", help="instead of the definition's version")
    command.add_argument("--reports", type=Path, default=Path("reports"), metavar="DIR", help="where its folder is")
    command.add_argument(
        "--resume", nargs="?", const="", metavar="FOLDER", help="go on where it was interrupted (default: the newest)"
    )


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
        allowed_contexts=options.allow_context,
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
    from .analysis.analyse import analyse, merge
    from .analysis.metrics.history import histories_in
    from .analysis.profiles.attach import with_tables
    from .checks.judge import judge_run
    from .recording.journal import read
    from .report import terminal

    recordings = _recordings(options.recording)
    folder = recordings[0].parent.parent
    result = merge([analyse(read(path), recording=path.relative_to(folder).as_posix()) for path in recordings])
    result = with_tables(result, folder)
    for test in judge_run(result, _baselines(), histories_in(folder)).tests:
        _print(terminal.render_test(test))
    return 0


def _baselines() -> Callable[[TestResult], Callable[[str], Mapping[str, float] | None]]:
    """Return what gives the baselines of a test, kept in the project where the command is run."""
    from .analysis.likeness import backend_of
    from .bench.baselines import Baselines

    kept = Baselines(Path.cwd())
    return lambda test: lambda name: kept.metrics(name, test.test, backend_of(test))


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
    from .analysis.analyse import analyse_run_over_time
    from .checks.judge import judge_run
    from .recording.journal import wait_closed
    from .report import jsonfile
    from .report.html import files
    from .session.folder import is_open

    if options.unless_open:
        if is_open(options.folder):
            return 0
        # All of the run was killed: the recorders of its other workers are closing theirs.
        wait_closed(_recordings(options.folder))
    run = analyse_run_over_time(options.folder)
    result = judge_run(run.result, _baselines(), run.metrics_of)
    jsonfile.write(result, options.folder / "result.json")
    _say(f"wrote {options.folder / 'result.json'}")
    _say(f"wrote {files.write_run(options.folder, result, run.timelines)}")
    return 0


def _report(options: argparse.Namespace) -> int:
    from .analysis.analyse import analyse_run_over_time
    from .checks.judge import judge_run
    from .report.html import files

    _recordings(options.folder)
    run = analyse_run_over_time(options.folder)
    judged = judge_run(run.result, _baselines(), run.metrics_of)
    _say(f"wrote {files.write_run(options.folder, judged, run.timelines, to=options.output)}")
    return 0


def _compare(options: argparse.Namespace) -> int:
    from .bench import commands

    color = sys.stdout.isatty()
    if options.resume is not None:
        given = (
            "set",
            "vs",
            "param",
            "git",
            "pairs",
            "one_look",
            "quick",
            "window",
            "triggers",
            "same_process",
            "gate",
        )
        _refuse_beside_resume(options, *given)
        return commands.resume_compare(
            options.resume,
            options.reports.absolute(),
            fail_on=options.fail_on,
            stream=sys.stderr,
            write=_print,
            color=color,
        )
    wanted = commands.CompareWanted(
        names=options.names,
        values=options.set,
        other=options.vs,
        parameters=options.param,
        git=options.git,
        build=options.build,
        what=options.what,
        pairs=options.pairs,
        one_look=options.one_look,
        same_process=options.same_process,
        quick=options.quick,
        window=options.window,
        triggers=options.triggers,
        profiles=options.profile,
        gated=options.gate,
        fail_on=options.fail_on,
    )
    return commands.run_compare(wanted, _environment(options), stream=sys.stderr, write=_print, color=color)


def _backends(options: argparse.Namespace) -> int:
    from .bench.backends import BackendsWanted, backends

    wanted = BackendsWanted(runs=options.runs, test=options.test, markdown=options.markdown, json=options.json)
    return backends(wanted, write=_print, color=sys.stdout.isatty())


def _sweep(options: argparse.Namespace) -> int:
    from .bench import commands

    color = sys.stdout.isatty()
    if options.resume is not None:
        _refuse_beside_resume(options, "set", "param")
        return commands.resume_sweep(
            options.resume,
            options.reports.absolute(),
            checks=options.check,
            stream=sys.stderr,
            write=_print,
            color=color,
        )
    wanted = commands.SweepWanted(
        names=options.names,
        values=options.set,
        parameters=options.param,
        repeats=options.repeats,
        checks=options.check,
    )
    return commands.run_sweep(wanted, _environment(options), stream=sys.stderr, write=_print, color=color)


def _refuse_beside_resume(options: argparse.Namespace, *others: str) -> None:
    names = (*others, "cluster", "nodes", "kubernetes")
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(options, name)]
    if given or options.names:
        raise UsageError(
            f"--resume goes on with a plan as it was made: {', '.join([*options.names, *given])} cannot change it",
            next_step="Leave that out, or begin anew without --resume.",
        )


def _environment(options: argparse.Namespace) -> Environment:
    from .bench.commands import Environment

    return Environment(
        reports=options.reports.absolute(),
        cluster=options.cluster,
        nodes=options.nodes,
        kubernetes=options.kubernetes,
    )


def _lint_metrics(options: argparse.Namespace) -> int:
    from .bench.lint_metrics import LintWanted, lint_metrics
    from .checks.lint.labels import UNBOUNDED
    from .checks.lint.lint import Wanted
    from .endpoints import Credentials

    wanted = LintWanted(
        source=options.source,
        against=options.against,
        rules=Wanted(
            max_series=options.max_series,
            forbidden=(*UNBOUNDED, *options.forbid),
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
    )
    return lint_metrics(wanted, write=_print, say=_say)


def _profile(options: argparse.Namespace) -> int:
    from .report import function_difference, function_table

    if options.after is None:
        render = function_table.tables_markdown if options.markdown else function_table.tables_text
        profiles = _profiles(options, options.folder, module=options.module)
        _print(render(profiles, top=options.top, trunk=bool(options.module)))
        return 0
    compare = function_difference.differences_markdown if options.markdown else function_difference.differences_text
    before, after = _profiles(options, options.folder), _profiles(options, options.after)
    _print(compare(before, after, module=options.module, top=options.top))
    return 0


def _profiles(options: argparse.Namespace, folder: Path, *, module: str = "") -> list[PhaseProfile]:
    from .analysis.analyse import analyse_run
    from .analysis.profiles.chosen import cpu_profiles, with_whole_table

    _recordings(folder)
    chosen = cpu_profiles(analyse_run(folder), phase=options.phase, process=options.process)
    return [with_whole_table(folder, one, module=module) for one in chosen]


def _selftest_power(options: argparse.Namespace) -> int:
    from .bench import selftest

    return selftest.selftest_power(options.noise, write=_print, pairs=options.pairs)


def _selftest_defects(options: argparse.Namespace) -> int:
    from .bench import defects

    return defects.selftest_defects(
        options.reports.absolute(),
        only=options.only,
        resume=options.resume,
        stream=sys.stderr,
        write=_print,
        color=sys.stdout.isatty(),
    )


def _selftest_noise(options: argparse.Namespace) -> int:
    from .bench import selftest

    return selftest.selftest_noise(options.comparisons, options.output, how=options.how, write=_print)


if __name__ == "__main__":
    sys.exit(main())
