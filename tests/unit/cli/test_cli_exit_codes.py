"""What every command ends with, and how it answers a typing error."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_grovescale
from pytest_grovescale import cli, errors
from pytest_grovescale.analysis.comparison import Comparison, ComparisonPlan, ComparisonVerdict
from pytest_grovescale.bench import lint_metrics, measured, output, variant
from pytest_grovescale.bench.output import FailOn
from pytest_grovescale.cluster import binary_sources
from pytest_grovescale.errors import ExitCode, GrovescaleError
from pytest_grovescale.kube import errors as _api
from pytest_grovescale.kube import resources
from pytest_grovescale.report.html import files

CODES = {
    errors.UsageError: ExitCode.USAGE,
    errors.DefinitionError: ExitCode.USAGE,
    errors.MissingFileError: ExitCode.USAGE,
    resources.UnknownResource: ExitCode.USAGE,
    errors.OperatorError: ExitCode.FAILED,
    errors.WorkloadError: ExitCode.FAILED,
    errors.PhaseError: ExitCode.FAILED,
    errors.CheckFailed: ExitCode.FAILED,
    errors.CheckInconclusive: ExitCode.INCONCLUSIVE,
    errors.NotMeasuredError: ExitCode.INCONCLUSIVE,
    errors.MachineError: ExitCode.INFRASTRUCTURE,
    errors.BinaryError: ExitCode.INFRASTRUCTURE,
    errors.ClusterError: ExitCode.INFRASTRUCTURE,
    errors.RecordingError: ExitCode.INFRASTRUCTURE,
    errors.ExpositionError: ExitCode.INFRASTRUCTURE,
    errors.PrometheusError: ExitCode.INFRASTRUCTURE,
    binary_sources.BuildFailed: ExitCode.INFRASTRUCTURE,
    binary_sources.DownloadFailed: ExitCode.INFRASTRUCTURE,
    binary_sources.PackageFailed: ExitCode.INFRASTRUCTURE,
    variant.BuildError: ExitCode.INFRASTRUCTURE,
    lint_metrics.AnswerError: ExitCode.INFRASTRUCTURE,
    measured.NothingMeasured: ExitCode.INFRASTRUCTURE,
    files.PageError: ExitCode.INFRASTRUCTURE,
    _api.ApiError: ExitCode.INFRASTRUCTURE,
}


def import_all() -> None:
    """Import every module, so that each error's class is there, whatever ran before."""
    for module in pkgutil.walk_packages(pytest_grovescale.__path__, "pytest_grovescale."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def every(kind: type[GrovescaleError]) -> Iterator[type[GrovescaleError]]:
    for one in kind.__subclasses__():
        yield one
        yield from every(one)


def test_each_error_has_the_code_of_what_it_is() -> None:
    import_all()
    ours = [one for one in every(GrovescaleError) if one.__module__.startswith("pytest_grovescale.")]
    assert {one.__name__ for one in ours} > {"SupervisorGone", "PortTaken", "NotFound", "NothingMeasured"}
    for one in ours:
        nearest = next(base for base in one.__mro__ if base in CODES)
        assert one.exit_code is CODES[nearest], one.__name__


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (errors.UsageError("which?", next_step="That."), 2, "grovescale: which?\n  → That."),
        (errors.ClusterError("no etcd"), 3, "grovescale: no etcd"),
        (errors.OperatorError("it exited"), 1, "grovescale: it exited"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/r/result.json"), 3, "/r/result.json: No space left"),
        (KeyboardInterrupt(), 130, "grovescale: interrupted"),
    ],
)
def test_what_ends_a_command_is_its_exit_code(
    error: BaseException, code: int, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> int:
        raise error

    monkeypatch.setattr("pytest_grovescale.cluster.commands.status", lambda *_, **__: fail())
    assert cli.main(["status"]) == code
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verdict", "codes"),
    [
        ("ok", {"never": 0, "regression": 0, "inconclusive": 0}),
        ("inconclusive", {"never": 0, "regression": 0, "inconclusive": 4}),
        ("regression", {"never": 0, "regression": 1, "inconclusive": 1}),
        ("broken", {"never": 0, "regression": 1, "inconclusive": 1}),
    ],
)
def test_a_comparison_ends_with_its_verdicts_code(verdict: ComparisonVerdict, codes: dict[FailOn, int]) -> None:
    plan = ComparisonPlan(a="a", b="b", gated=(), pairs=1, warmup=0, looks=(1,))
    part = Comparison(plan=plan, verdict=verdict, pairs=1, metrics=())
    assert {fail_on: output.exit_code([part], fail_on) for fail_on in codes} == codes


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["shwo", "x"], "no 'shwo'; did you mean show?"),
        (["selftest", "powr"], "no 'powr'; did you mean power?"),
        (["status", "--jsn"], "unrecognized arguments: --jsn; did you mean --json?"),
        (["compare", "a", "--pars=4", "--quik"], "did you mean --parts or --pairs?; did you mean --quick"),
        (["down", "a", "b"], "unrecognized arguments: b"),
        (["compare", "--fail-on", "regresion"], "no 'regresion'; did you mean regression?"),
        (["show", "nowhere"], "nowhere: no such file or folder"),
        (["analyse", "nowhere"], "nowhere: no such file or folder"),
        (["report", "nowhere"], "nowhere: no such file or folder"),
        (["profile", "nowhere"], "nowhere: no such file or folder"),
        ([], "COMMAND"),
    ],
)
def test_a_wrong_command_line_is_usage(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    assert left.value.code == ExitCode.USAGE
    assert says in capsys.readouterr().err


def test_a_folder_without_recordings_is_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("show", "analyse", "report", "profile"):
        assert cli.main([command, str(tmp_path)]) == ExitCode.USAGE
        assert "no recording" in capsys.readouterr().err


def test_each_command_says_what_it_is_for() -> None:
    parser = cli.parser()
    [commands] = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    assert {one.dest: bool(one.help) for one in commands._choices_actions} == dict.fromkeys(commands.choices, True)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("grovescale comp", {"compare", "completion"}),
        ("grovescale status --j", {"--json"}),
        ("grovescale down m", {"mine", "my-other"}),
        ("grovescale schema lint", {"lint-metrics"}),
    ],
)
def test_a_shell_is_offered_what_fits(typed: str, offered: set[str], tmp_path: Path) -> None:
    for name in ("mine", "my-other", "run-7"):
        (tmp_path / "clusters" / name).mkdir(parents=True)
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "offered"),
        "COMP_LINE": typed,
        "COMP_POINT": str(len(typed)),
        "GROVESCALE_STATE_DIR": str(tmp_path),
    }
    command = [sys.executable, "-m", "pytest_grovescale.cli"]
    done = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert {word.strip() for word in (tmp_path / "offered").read_text().split("\x0b")} == offered


def test_completion_prints_code_that_its_shell_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "bash"]) == ExitCode.PASSED
    code = capsys.readouterr().out
    done = subprocess.run(["bash", "-c", f"{code}\ncomplete -p grovescale"], capture_output=True, text=True)
    assert "grovescale" in done.stdout, done.stderr


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_has_gone_changes_no_exit_code(stream: str, tmp_path: Path) -> None:
    """As in ``grovescale lint-metrics … | head``, with ``pipefail``: faults stay faults, and what follows is done."""
    (tmp_path / "wrong.prom").write_text("# TYPE Wrong_Name counter\nWrong_Name 1\n", "utf-8")
    command = [sys.executable, "-m", "pytest_grovescale.cli", "lint-metrics", "wrong.prom"]
    if stream == "stderr":
        command = [*command[:-1], "nothing-here.prom"]
    read, unread = os.pipe()
    os.close(read)
    out, error = (unread, None) if stream == "stdout" else (subprocess.DEVNULL, unread)
    ended = subprocess.run(command, cwd=tmp_path, check=False, stdout=out, stderr=error)
    os.close(unread)
    assert ended.returncode == (ExitCode.USAGE if stream == "stderr" else ExitCode.FAILED)
