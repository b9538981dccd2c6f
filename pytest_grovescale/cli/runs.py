"""``grovescale show | findings | analyse | report | profile | export``: the figures of a finished run."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ExitCode, UsageError
from .arguments import add_json, existing
from .out import say, write

if TYPE_CHECKING:
    from ..analysis.profiles.phase_profiles import PhaseProfile
    from ..analysis.result import Result, TestResult


def add(commands: Any) -> None:
    """Add the commands. ``commands``: the parser's subparsers."""
    show = commands.add_parser("show", help="print what a run came to again, as pytest did")
    show.add_argument("recording", type=existing, metavar="RECORDING", help="a .jsonl.zst file, or a run's folder")
    show.add_argument("-v", "--verbose", action="store_true", help="print all tables")
    form = show.add_mutually_exclusive_group()
    form.add_argument("--benchmark", action="store_true", help="its figures as JSON for a tracker of benchmarks")
    add_json(form)
    show.set_defaults(run=_show)

    findings = commands.add_parser("findings", help="print what is wrong with a run's operator, with evidence")
    findings.add_argument("recording", type=existing, metavar="RECORDING", help="a .jsonl.zst file, or a run's folder")
    findings.add_argument("--markdown", action="store_true", help="as Markdown, for a pull request")
    findings.set_defaults(run=_findings)

    analyse = commands.add_parser("analyse", help="rewrite result.json and report.html from a run's recordings")
    analyse.add_argument("folder", type=existing, metavar="RUN", help="the run's folder, as reports/latest")
    # For a recorder whose test process was killed: if the whole run was, no other process writes the result.
    analyse.add_argument("--unless-open", action="store_true", help=argparse.SUPPRESS)
    analyse.set_defaults(run=_analyse)

    report = commands.add_parser("report", help="rewrite a run's page: one HTML file, to be opened from disk")
    report.add_argument("folder", type=existing, metavar="RUN", help="the run's folder, as reports/latest")
    report.add_argument("-o", "--output", type=Path, metavar="FILE", help="instead of report.html in that folder")
    report.set_defaults(run=_report)

    profile = commands.add_parser("profile", help="print a run's function tables, or how those of two differ")
    profile.add_argument("folder", type=existing, metavar="RUN", help="the run's folder, as reports/latest")
    profile.add_argument(
        "after", type=existing, nargs="?", metavar="RUN2", help="another run's: print before, after and Δ"
    )
    profile.add_argument("--phase", default="", help="only of this phase")
    profile.add_argument("--process", default="", help="only of this process, as operator")
    profile.add_argument("--module", default="", help="only of this file, folder or package; * and ? match any")
    profile.add_argument("--top", type=int, default=20, metavar="N", help="the first N functions of each phase (20)")
    form = profile.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="as Markdown, for a pull request")
    add_json(form)
    profile.set_defaults(run=_profile)

    export = commands.add_parser(
        "export",
        help="write a run for other programs: a Perfetto trace, tables of events and samples, OpenMetrics",
        description="perfetto: trace.pftrace, for ui.perfetto.dev; csv, parquet: events and samples; "
        "openmetrics: run.openmetrics, with a time for each sample; grove: milestones, as Grove's own scale tests do.",
    )
    export.add_argument("recording", type=existing, metavar="RUN", help="the run's folder, or a .jsonl.zst file")
    export.add_argument("--format", required=True, choices=["perfetto", "csv", "parquet", "openmetrics", "grove"])
    export.add_argument("-o", "--output", type=Path, metavar="DIR", help="folder of its files (the run's folder)")
    export.set_defaults(run=_export)


def _judged(recording: Path) -> Result:
    """Return the judged result of a recording, or of all recordings in a run's folder."""
    from ..analysis.analyse import contents_of, merge, result_of
    from ..analysis.profiles.phase_profiles import profiles_in, with_tables
    from ..checks.judge import judge_run
    from ..recording.journal import read

    recordings = _recordings(recording)
    folder = recordings[0].parent.parent
    read_of = {path.relative_to(folder).as_posix(): contents_of(read(path)) for path in recordings}
    result = with_tables(merge([result_of(found, recording=name) for name, found in read_of.items()]), folder)
    return judge_run(result, _baselines(), lambda test: read_of[test.recording].metrics, profiles_in(folder))


def _show(options: argparse.Namespace) -> int:
    from ..atomic_write import json_text
    from ..report import result_file, run_report
    from ..report.document import terminal_width

    judged = _judged(options.recording)
    if options.json or options.benchmark:
        write(json_text(result_file.benchmark(judged) if options.benchmark else judged))
        return ExitCode.PASSED
    render = run_report.render_test if options.verbose else run_report.render_summary
    width, color = terminal_width(shutil.get_terminal_size().columns), sys.stdout.isatty()
    for test in judged.tests:
        write(render(test, width=width, color=color))
    return ExitCode.PASSED


def _findings(options: argparse.Namespace) -> int:
    from ..report import document, findings_table
    from ..report.document import terminal_width

    blocks = findings_table.of_tests(_judged(options.recording).tests)
    if options.markdown:
        write(document.markdown(blocks).rstrip("\n"))
    else:
        width, color = terminal_width(shutil.get_terminal_size().columns), sys.stdout.isatty()
        write(document.text(blocks, width=width, color=color).rstrip("\n"))
    return ExitCode.PASSED


def _export(options: argparse.Namespace) -> int:
    from ..report.export import export

    recordings = _recordings(options.recording)
    if options.format == "grove":
        return _export_grove(options)
    folder = recordings[0].parent if options.recording.is_file() else options.recording
    for file in export(recordings, options.format, options.output or folder):
        say(f"wrote {file}")
    return ExitCode.PASSED


def _export_grove(options: argparse.Namespace) -> int:
    from ..analysis.grove_results import of_test
    from ..atomic_write import json_document
    from ..report.export import write_grove

    folder = options.output or (options.recording.parent if options.recording.is_file() else options.recording)
    for file in write_grove([json_document(of_test(test)) for test in _judged(options.recording).tests], folder):
        say(f"wrote {file}")
    return ExitCode.PASSED


def _baselines() -> Callable[[TestResult], Callable[[str], Sequence[Mapping[str, float]]]]:
    """Return a function that finds the baselines of a test, stored in the project of the working folder."""
    from ..analysis.comparability import backend_of
    from ..bench.baselines import Baselines

    kept = Baselines(Path.cwd())
    return lambda test: lambda name: kept.runs(name, test.test, backend_of(test))


def _recordings(path: Path) -> list[Path]:
    from ..recording.journal import recordings_in

    if path.is_file():
        return [path]
    found = recordings_in(path / "recordings")
    if not found:
        raise UsageError(
            f"{path}: no recording, and no folder of a run",
            next_step="Name reports/latest, or a .jsonl.zst file in a run's recordings/ folder.",
        )
    return found


def _analyse(options: argparse.Namespace) -> int:
    from ..analysis.analyse import analyse_run_over_time
    from ..analysis.profiles.phase_profiles import profiles_in
    from ..checks.judge import judge_run
    from ..recording.journal import wait_closed
    from ..report import result_file
    from ..report.html import files
    from ..session.run_folder import is_open

    if options.unless_open:
        if is_open(options.folder):
            return ExitCode.PASSED
        # The whole run was killed: the recorders of its other workers are closing their recordings.
        wait_closed(_recordings(options.folder))
    _recordings(options.folder)
    run = analyse_run_over_time(options.folder)
    result = judge_run(run.result, _baselines(), run.metrics_of, profiles_in(options.folder))
    result_file.write(result, options.folder / "result.json")
    say(f"wrote {options.folder / 'result.json'}")
    say(f"wrote {files.write_run(options.folder, result, run.timelines)}")
    return ExitCode.PASSED


def _report(options: argparse.Namespace) -> int:
    from ..analysis.analyse import analyse_run_over_time
    from ..analysis.profiles.phase_profiles import profiles_in
    from ..checks.judge import judge_run
    from ..report.html import files

    _recordings(options.folder)
    run = analyse_run_over_time(options.folder)
    judged = judge_run(run.result, _baselines(), run.metrics_of, profiles_in(options.folder))
    say(f"wrote {files.write_run(options.folder, judged, run.timelines, to=options.output)}")
    return ExitCode.PASSED


def _profile(options: argparse.Namespace) -> int:
    from ..analysis.profiles.comparison import ProfilesFile, functions_compared
    from ..analysis.profiles.phase_profiles import paired, with_first
    from ..atomic_write import json_text
    from ..report import document, function_table

    render = document.markdown if options.markdown else document.text
    if options.after is None:
        profiles = _profiles(options, options.folder, module=options.module)
        if options.json:
            top = [with_first(one, options.top) for one in profiles]
            write(json_text(ProfilesFile(profiles=tuple(top))))
            return ExitCode.PASSED
        write(render(function_table.chosen(profiles, top=options.top, trunk=bool(options.module))))
        return ExitCode.PASSED
    pairs = paired(_profiles(options, options.folder), _profiles(options, options.after))
    if options.json:
        write(json_text(ProfilesFile(compared=functions_compared(pairs, module=options.module, top=options.top))))
        return ExitCode.PASSED
    write(render(function_table.differences(functions_compared(pairs, module=options.module), top=options.top)))
    return ExitCode.PASSED


def _profiles(options: argparse.Namespace, folder: Path, *, module: str = "") -> list[PhaseProfile]:
    from ..analysis.analyse import analyse_run
    from ..analysis.profiles.phase_profiles import cpu_profiles, with_whole_table

    _recordings(folder)
    chosen = cpu_profiles(analyse_run(folder), phase=options.phase, process=options.process)
    return [with_whole_table(folder, one, module=module) for one in chosen]
