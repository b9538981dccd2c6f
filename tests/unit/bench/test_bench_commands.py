"""What ``grovescale compare`` and ``sweep`` refuse before anything starts, and what they take for what."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import cli
from pytest_grovescale.bench import target_test
from pytest_grovescale.bench.command_context import Environment, operator_of
from pytest_grovescale.bench.compare import so_far
from pytest_grovescale.bench.driver import own_cluster_arguments
from pytest_grovescale.bench.from_results import WEAKER, compare_recorded, pairs_in
from pytest_grovescale.bench.output import FailOn, exit_code
from pytest_grovescale.bench.store import Slot, Store
from pytest_grovescale.errors import ExitCode, UsageError
from pytest_grovescale.report import result_file
from tests import forked
from tests.golden import masked
from tests.unit.bench.planned import plan, sample

REPOSITORY = Path(__file__).parents[3]
SAMPLE = str(REPOSITORY / "reports" / "sample")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a scale test, two in a file, and a file without one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    (tmp_path / "test_one.py").write_text("def test_one(scale): scale.parameter('replicas', 1)\n", encoding="utf-8")
    (tmp_path / "test_two.py").write_text("def test_a(scale): pass\ndef test_b(scale): pass\n", encoding="utf-8")
    (tmp_path / "test_none.py").write_text("def test_it(): pass\n", encoding="utf-8")
    (tmp_path / "test_broken.py").write_text("import nothing_of_this_name\n", encoding="utf-8")
    return tmp_path


@pytest.fixture(autouse=True)
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the pytest that looks for a command's test be a fork: `forked`."""

    def run(command: Sequence[str], *, env: Mapping[str, str], **_: Any) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            code = forked.Process("pytest", command[3:], env=env, streams=(out, err)).wait()
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(command, code, out.read(), err.read())

    monkeypatch.setattr(
        "pytest_grovescale.bench.target_test.subprocess", SimpleNamespace(run=run, DEVNULL=subprocess.DEVNULL)
    )


REFUSED = [
    (["compare", "nowhere.yaml"], "no such file"),
    (["compare", "reference", "nowhere.yaml"], "no such file"),
    (["compare", "--set-b=variant=fast"], "value variant cannot be 'fast'"),
    (["compare", "--git", "main", "HEAD"], "--git needs the operator's definition"),
    (["compare", "--set-b=variant"], "--set-b variant: not NAME=VALUE"),
    (["compare", "test_none.py"], "has no scale tests"),
    (["compare", "test_two.py"], "has 2 scale tests:\n  test_two.py::test_a\n  test_two.py::test_b"),
    (["compare", "test_one.py", "test_two.py"], " by test_one.py test_two.py"),
    (["compare", "a", "b", "c"], " by a b c"),
    (["compare", "test_one.py", "--parts=idle"], "--parts idle: "),
    (["compare", "test_one.py", "--pairs=1"], "1 pairs: "),
    (["compare", "test_one.py", "--window=soon"], "'soon' is not a duration"),
    (["compare", "test_one.py", "--triggers=0"], "with 0 triggers"),
    (["compare", "test_one.py", "--gate=speed:deploy"], "'speed:deploy' is not a metric"),
    (["compare", "test_one.py", "--gate=cpu:deploy", "--parts=noop"], "cpu:deploy is not measured"),
    (["compare", "test_one.py", "--cluster=nowhere.yaml"], "nowhere.yaml: no such file"),
    (["compare", "test_one.py"], "nothing says what reference is compared with"),
    (["compare", "reference", "test_one.py", "--set=variant=baseline"], "what reference is compared with"),
    (["bisect", "main"], "needs two commits and a figure"),
    (["bisect", "main", "HEAD", "mine.yaml"], "needs two commits and a figure"),
    (["bisect", "main", "HEAD", "--metric=cpu:deploy"], "needs the operator's definition"),
    (["bisect", "main", "HEAD", "mine.yaml", "--metric=cpu:deploy", "--pairs=1"], "--pairs 1"),
    (["bisect", "main", "HEAD", "mine.yaml", "--metric=cpu:deploy"], "git rev-parse"),
    (["bisect", "main", "HEAD", "mine.yaml", "--metric=cpu:deploy", "--skip=main"], "Use it with --resume"),
    (["bisect", "main", "--resume"], "main cannot change it"),
    (["bisect", "--metric=cpu:deploy", "--resume"], "--metric cannot change it"),
    (["bisect", "--resume"], "holds nothing of grovescale bisect"),
    (["compare", "--resume"], "holds nothing of grovescale compare"),
    (["compare", "--resume", "nowhere"], "no such file"),
    (["compare", "--pairs=3", "--resume"], "--pairs cannot change it"),
    (["compare", "--allow-context=far", "--resume"], "--allow-context cannot change it"),
    (["compare", "--no-early-stop", "--same-process", "--resume"], "--no-early-stop, --same-process cannot"),
    (["compare", "--parts=noop,deploy", "--resume"], "--parts cannot change it"),
    (["compare", "--build=make", "--resume"], "--build cannot change it"),
    (["compare", "--profile", "--resume"], "--profile cannot change it"),
    (["compare", "--no-profile", "--resume"], "--no-profile cannot change it"),
    (["sweep", "--repeats=3", "--resume"], "--repeats cannot change it"),
    (["sweep", "test_one.py", "--nodes=9", "--resume"], "test_one.py, --nodes cannot"),
    (["sweep", "test_one.py", "--set=replicas=5"], "none is a list"),
    (["sweep", "test_one.py", "--set=replicas=1,2,3", "--repeats=0"], "0 repeats"),
    (["sweep", "test_one.py", "--set=replicas=1,2,3", "--check=cpu:deploy=fast"], "not METRIC or METRIC=EXP"),
    (["sweep", "test_one.py", "--set=replicas=1,2,3", "--check=speed"], "--check speed: scales('speed'): "),
    (["sweep", "reference", "other", "--set=replicas=1,2,3"], "a sweep is of one operator"),
    (["sweep", "--resume"], "holds nothing of grovescale sweep"),
    (["compare", "test_one.py", "--param=replcas=3"], "--param replcas=3: "),
    (["sweep", "--set=replcas=1,2,3"], "\n  → Did you mean replicas?"),
    (["compare", "reference-pod", "test_one.py"], "reference-pod runs as pods"),
    (["compare", "test_one.py", "--kubernetes=1.63"], "Kubernetes 1.63 is not supported"),
]


@pytest.mark.parametrize(("arguments", "part"), REFUSED, ids=[" ".join(arguments) for arguments, _ in REFUSED])
def test_what_cannot_be_is_reported_and_nothing_is_started(
    arguments: list[str],
    part: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    snapshot: SnapshotAssertion,
) -> None:
    assert cli.main(arguments) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert part in said
    assert masked(said, {folder: "folder", REPOSITORY: "repository"}) == snapshot
    assert not (folder / "reports").exists()


@pytest.mark.parametrize(
    ("test", "quoted"), [("test_nowhere.py", "not found: test_nowhere.py"), ("test_broken.py", "nothing_of_this_name")]
)
def test_what_pytest_does_not_find_is_reported_in_its_words(
    test: str, quoted: str, folder: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    assert cli.main(["compare", test]) == ExitCode.USAGE
    first, *others, last = capsys.readouterr().err.strip().splitlines()
    assert test in first
    assert f"{first}\n{last}" == snapshot
    assert quoted in "\n".join(others)
    assert not (folder / "reports").exists()


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (
            ["compare"],
            [
                ": reference, reference again",
                "/test_pcs.py::test_pcs (cluster minimal, 100 nodes)",
                "  noop: 10 to 20 runs, about 2m00s to 5m00s",
                "  deploy: 14 to 28 runs, about 7m00s to 15m",
                "  profile: 2 runs, about 4m",
                "about 14m00s to 23m",
                ": grovescale compare --yes; ",
            ],
        ),
        (
            ["sweep", "--repeats=2"],
            [
                ": replicas=125, replicas=250, replicas=500, replicas=1000",
                "/test_pcs.py::test_pcs (cluster minimal, 100 nodes)",
                "  sweep: 8 runs, about 8m",
                "about 8m",
                ": grovescale sweep --yes; ",
            ],
        ),
    ],
    ids=["compare", "sweep"],
)
def test_a_bare_command_shows_its_plan_and_starts_nothing(
    arguments: list[str],
    parts: list[str],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    snapshot: SnapshotAssertion,
) -> None:
    assert cli.main(arguments) == 2
    shown = capsys.readouterr().out
    assert masked(shown, {REPOSITORY: "repository"}, numbers=True) == snapshot
    assert [part in line for line, part in zip(shown.splitlines(), parts, strict=True)] == [True] * len(parts)
    assert not (folder / "reports").exists()


def test_a_plans_time_is_that_of_earlier_runs_here(
    folder: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    found = target_test.find("")
    earlier = Store.create(folder / "reports", msgspec.structs.replace(plan(), subject=found))
    for part in ("noop", "deploy"):
        earlier.keep(sample(Slot(part=part, round=0, arm="a")))
    assert cli.main(["compare", "--no-profile"]) == 2
    (time,) = (line for line in capsys.readouterr().out.splitlines() if " in all, " in line)
    assert time.startswith("about 12m00s to 24m00s "), "24 to 48 runs of 30 s each"
    assert time == snapshot


def test_a_test_that_asks_for_profiles_is_one_test(folder: Path) -> None:
    marked = "import pytest\n@pytest.mark.grovescale(profile='auto', nodes=7)\ndef test_it(scale): pass\n"
    (folder / "test_profiled.py").write_text(marked, encoding="utf-8")
    found = target_test.find("test_profiled.py")
    assert (found.nodeid, found.nodes, found.cluster) == ("test_profiled.py::test_it", 7, "default")
    assert found.argument == f"{folder}/test_profiled.py::test_it"


def test_the_operator_is_that_of_the_test_where_none_is_given(folder: Path) -> None:
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    named = "import pytest\n@pytest.mark.grovescale(operator='{}', cluster='minimal')\ndef test_it(scale): pass\n"
    for operator in ("kcm-job", "none"):
        (folder / f"test_{operator}.py").write_text(named.format(operator), encoding="utf-8")

    def of(test: str, *names: str) -> str:
        return operator_of(names, test, lambda: target_test.find(test))

    assert of("") == "reference"
    assert of("test_one.py", "mine.yaml") == "mine.yaml"
    assert of("test_kcm-job.py") == "kcm-job"
    with pytest.raises(UsageError, match="no operator is named"):
        of("test_none.py")


def test_a_context_that_may_be_used_is_noted_for_every_run() -> None:
    found = target_test.find("test_one.py", Environment(Path("reports"), allowed_contexts=["far"]).options)
    assert found.allowed_contexts == ("far",)
    assert "--grovescale-allow-context=far" in own_cluster_arguments(found)


def test_recorded_runs_are_compared_and_called_weaker(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", SAMPLE, SAMPLE]) == 0
    assert "Weaker than interleaved runs" in capsys.readouterr().out
    written = {file.name for file in (folder / "reports" / "compared-sample-sample").iterdir()}
    assert written == {"comparison.json", "comparison.md", "comparison.html"}
    assert cli.main(["compare", SAMPLE, SAMPLE, "--fail-on=inconclusive"]) == ExitCode.INCONCLUSIVE


@pytest.mark.parametrize("names", [[SAMPLE], ["reference", SAMPLE]])
def test_a_recorded_run_is_not_compared_with_what_is_none(
    folder: Path, capsys: pytest.CaptureFixture[str], names: list[str]
) -> None:
    assert cli.main(["compare", *names]) == ExitCode.USAGE
    assert f"grovescale compare {SAMPLE} RUN" in capsys.readouterr().err


def test_recorded_runs_of_one_folder_each_are_one_pair() -> None:
    folder = Path(SAMPLE)
    found = compare_recorded(folder, folder, pairs_in(folder, folder))
    assert found.pairs == 1
    assert found.weaker == WEAKER
    assert found.verdict == "inconclusive", "one pair has no interval"


def test_passes_with_a_profiler_are_not_compared(folder: Path) -> None:
    sample = result_file.read(Path(SAMPLE) / result_file.NAME)
    (test,) = sample.tests
    pass_ = msgspec.structs.replace(test, test=f"{test.test}[profiled]", profiled=True)
    result_file.write(msgspec.structs.replace(sample, tests=(test, pass_)), folder / "run" / result_file.NAME)
    (pair,) = pairs_in(folder / "run", folder / "run")
    assert not pair.a.test.profiled
    result_file.write(msgspec.structs.replace(sample, tests=(pass_,)), folder / "run" / result_file.NAME)
    with pytest.raises(UsageError, match="only passes with a profiler"):
        pairs_in(folder / "run", folder / "run")


def test_a_folder_without_results_is_reported(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"has no result\.json"):
        pairs_in(Path(SAMPLE), folder)


@pytest.mark.parametrize(
    ("slower", "broken", "codes"),
    [
        (1.0, "", {"never": 0, "regression": 0, "inconclusive": 0}),
        (1.3, "", {"never": 0, "regression": 1, "inconclusive": 1}),
        (1.0, "deploy: timed out", {"never": 0, "regression": 1, "inconclusive": 1}),
    ],
)
def test_the_exit_code_is_the_verdicts(slower: float, broken: str, codes: dict[FailOn, int]) -> None:
    planned = plan(10, ("noop",))
    samples = {
        slot: sample(slot, (slower if slot.arm == "b" else 1.0) * (1 + 0.001 * slot.round), broken=broken)
        for slot in planned.slots
    }
    parts = [so_far(planned, samples, "noop")]
    assert {fail_on: exit_code(parts, fail_on) for fail_on in codes} == codes
