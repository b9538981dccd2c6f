"""``grovescale compare`` for real: two variants on a control plane, killed on the way, resumed, and told apart."""

from __future__ import annotations

import datetime
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import yaml

from pytest_grovescale import resources
from pytest_grovescale.analysis.bisection import Bisection
from pytest_grovescale.analysis.comparison import MetricComparison
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.bench.measured import recorded_result
from pytest_grovescale.bench.output import ComparisonFile
from pytest_grovescale.bench.store import Slot, Store
from pytest_grovescale.cluster import handle
from pytest_grovescale.cluster.definition import load_definition
from pytest_grovescale.report import result_file
from tests.processes import wait_none
from tests.repositories import committed, repository

pytestmark = pytest.mark.cluster

COMMAND = [sys.executable, "-m", "pytest_grovescale.cli", "compare"]
# How many runs there are is not to depend on what else the machine does: no pair is contended, or each (`other_load`).
COMPARE = [*COMMAND, "--max-contention=100%"]
CONTENDED = [*COMMAND, "--max-contention=0.001%"]
SMALL = ["--nodes=3", "--param=replicas=5", "--pairs=2", "--window=1s", "--triggers=2", "--no-profile"]
ON_STANDING = ["--cluster=standing", "--parts=deploy"]
VARIANTS = ["--set=variant=baseline", "--set-b=variant=optimized"]

# Takes about a twentieth of a core: more than the resolution of /proc/stat in a window of one second.
LOAD = """
import time

while True:
    until = time.thread_time() + 0.005
    while time.thread_time() < until:
        pass
    time.sleep(0.1)
"""

# What an operator that crashes at its first pod never gets done.
BROKEN = """
import pytest
from pytest_grovescale import conditions

@pytest.mark.grovescale(nodes=1)
def test_it(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=1, pods_per_replica=1)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("ready", conditions.count("pods", 1, ready=True))
        pcs.apply()
    with scale.phase("steady", timeout="30s"):
        pcs.trigger_reconcile()
"""

# An operator that does nothing but burn CPU, a known share of it in one function: samples enough on any machine.
BUSY = """
import http.server
import sys
import threading
import time

class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass

def listed(until):
    while time.thread_time() < until:
        pass

def written(until):
    while time.thread_time() < until:
        pass

server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Ready)
threading.Thread(target=server.serve_forever, daemon=True).start()
share = int(sys.argv[2]) / 100
while True:
    listed(time.thread_time() + 0.004 * share)
    written(time.thread_time() + 0.004 * (1 - share))
"""
BUSY_DEFINITION = f"""
name: busy
command: [{sys.executable}, busy.py, "{{health_port}}", "{{share}}"]
values:
  share:
    default: 80
readiness:
  url: http://127.0.0.1:{{health_port}}/readyz
"""
BUSY_TEST = """
import pytest

@pytest.mark.grovescale(nodes=1)
def test_it(scale):
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.hold("1500ms")
"""
QUICK_TEST = f"""{BUSY_TEST}
    with scale.phase("after", timeout="60s") as after:
        after.hold("100ms")
"""


# The two revisions differ in a file, which only the build makes an operator of.
BUILD = f"""mkdir bin
program='{sys.executable} -P -m pytest_grovescale.reference_operator'
printf '#!/bin/sh\\nexec %s --variant %s "$@"\\n' "$program" "$(cat variant)" > bin/operator
chmod +x bin/operator"""
# Whoever imports from a revision's folder gets this.
TRAP = "raise SystemExit('imported from the revision')"


@pytest.fixture
def folder(tmp_path: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a comparison is run; nothing of it is left running afterwards."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    yield tmp_path
    wait_none(str(tmp_path))


@pytest.fixture
def other_load() -> Iterator[None]:
    """Another program that takes some CPU time in each window: on a quiet machine there would be none."""
    with subprocess.Popen([sys.executable, "-S", "-c", LOAD]) as program:
        yield
        program.kill()


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The state folder of a running cluster of this name, for runs that need none of their own."""
    folder = tmp_path_factory.mktemp("standing")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GROVESCALE_STATE_DIR", str(folder))
        cluster = handle.acquire(load_definition("default").with_nodes(1), name="standing", progress=lambda text: None)
    yield folder
    cluster.release()


def compared(folder: Path) -> ComparisonFile:
    return msgspec.json.decode((folder / "comparison.json").read_bytes(), type=ComparisonFile)


def metrics(found: ComparisonFile) -> dict[str, MetricComparison]:
    return {metric.key: metric for part in found.parts for metric in part.metrics}


class Span(NamedTuple):
    """When a phase was open, s since the epoch."""

    began: float
    ended: float


def phases(store: Store, run: str) -> dict[str, Span]:
    """Return when the phases of a process's one run were open; all runs have the machine's clock."""
    (test,) = result_file.read(store.run_folder(run) / "latest" / result_file.NAME).tests
    return spans(test)


def recorded_phases(store: Store, slot: Slot) -> dict[str, Span]:
    """Return the same of one run of several that a process has made."""
    test = recorded_result(store.folder / store.samples()[slot].run.recording)
    assert test is not None
    return spans(test)


def spans(test: TestResult) -> dict[str, Span]:
    began = {phase.name: (datetime.datetime.fromisoformat(phase.started).timestamp(), phase) for phase in test.phases}
    return {name: Span(at, at + phase.seconds) for name, (at, phase) in began.items()}


def interrupted(
    folder: Path,
    what: str,
    after: str,
    number: signal.Signals,
    variants: Sequence[str] = VARIANTS,
    command: Sequence[str] = COMPARE,
) -> tuple[int, str]:
    """Start a comparison, send it a signal once a line starts so; return its exit code and last words."""
    driver = subprocess.Popen(
        [*command, *variants, *SMALL, f"--parts={what}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    assert driver.stderr is not None
    while not (line := driver.stderr.readline()).startswith(after):
        assert line, f"the driver ended before {after!r}"
    driver.send_signal(number)
    _, said = driver.communicate(timeout=240)
    wait_none(str(folder))
    return driver.returncode, said


def revisions(top: Path) -> Path:
    """Make a repository of the bundled operator whose revisions ``baseline`` and ``optimized`` are its variants; only
    the operator may be of them. Return it."""
    top.mkdir()
    repository(top)
    fixtures = resources.find("fixtures/operators", "reference").parent
    definition = yaml.safe_load((fixtures / "reference.yaml").read_text(encoding="utf-8"))
    at = definition["command"].index("--variant")
    definition |= {
        "command": ["bin/operator", *definition["command"][3:at], *definition["command"][at + 2 :]],
        "crds": [str(fixtures / crds) for crds in definition["crds"]],
        "rbac": str(fixtures / definition["rbac"]),
    }
    del definition["values"]["variant"]
    (top / "operator.yaml").write_text(yaml.safe_dump(definition, sort_keys=False), encoding="utf-8")
    trap = top / "pytest_grovescale"
    trap.mkdir()
    (trap / "__init__.py").write_text(TRAP, encoding="utf-8")
    for variant in ("baseline", "optimized"):
        (top / "variant").write_text(variant, encoding="utf-8")
        committed(top, variant)
    shutil.rmtree(trap)
    return top


def resumed(folder: Path) -> dict[str, MetricComparison]:
    """Let the comparison go on to its end; return its metrics."""
    store = Store.latest(folder / "reports", "compare")
    before, plan = store.samples(), store.plan()
    assert before or any(store.discarded(plan.slots, part) for part in plan.comparisons), "something was measured"
    done = subprocess.run([*COMMAND, "--resume", "--fail-on=never"], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    after = store.samples()
    slots = plan.slots
    again = [(part, one.round) for part in plan.comparisons for one in store.discarded(slots, part)]
    kept = {slot: sample for slot, sample in before.items() if (slot.part, slot.round) not in again}
    assert {slot: after[slot] for slot in kept} == kept, "what was measured is not measured again"
    assert set(after) == set(slots)
    assert all((store.folder / sample.run.recording).is_file() for sample in after.values())
    assert {"comparison.json", "comparison.md", "comparison.html"} <= {file.name for file in store.folder.iterdir()}
    found = compared(store.folder)
    # Each recording counts the other run among other programs; together they are not more than the machine.
    shares = [pair.contention.share for part in found.parts for pair in part.contention]
    assert len(shares) == 2 + len(again), "of discarded pairs, too"
    assert all(share is not None for share in shares), found.parts[0].contention
    return metrics(found)


def less(metric: MetricComparison) -> bool:
    """Return whether B has less of it than A, both measured."""
    return metric.a is not None and metric.b is not None and metric.b < metric.a


@pytest.mark.usefixtures("other_load")
def test_contended_noop_windows_are_made_again_also_after_a_kill_and_tell_two_revisions_apart(folder: Path) -> None:
    top = revisions(folder / "repository")
    interrupted(
        top,
        "noop",
        "noop 1 of 2",
        signal.SIGKILL,
        ["operator.yaml", "--git", "baseline", "optimized", f"--build={BUILD}"],
        CONTENDED,
    )
    figures = resumed(top)
    store = Store.latest(top / "reports", "compare")
    assert len(store.discarded(store.plan().slots, "noop")) == store.plan().comparisons["noop"].repeats > 0
    assert any("-repeat-" in name for name in phases(store, "noop-a-2")), "by the run that went on"
    (part,) = compared(store.folder).parts
    assert (part.plan.a, part.plan.b, part.broken) == ("baseline", "optimized", ())
    assert figures["noop_writes"].b == 0
    assert less(figures["noop_writes"])
    assert less(figures["noop_requests"])
    assert figures["noop_reconciles"].a == figures["noop_reconciles"].b == 6, "every trigger is heard and dealt with"
    assert figures["noop_cpu"].gated
    assert not (top / "bin").exists(), "each is built in a folder of its own"


def assert_together(store: Store, part: str, pairs: int, first: str, last: str) -> None:
    """Both variants of a pair run at the same time, phase by phase."""
    for number in range(pairs):
        a, b = (recorded_phases(store, Slot(part=part, round=number, arm=arm)) for arm in "ab")
        for one, other in ((a, b), (b, a)):
            assert one[first].began < other[first].ended, "both at the same time"
            assert one[last].began >= other[first].ended, "each phase begins in both together"


# In CI: one that is killed and goes on (above), pairs that run together (below), Ctrl-C (the unit tests of commands).
@pytest.mark.long
def test_deploy_runs_go_on_after_ctrl_c_and_tell_the_variants_apart(folder: Path) -> None:
    code, said = interrupted(folder, "deploy", "deploy 1 of 2", signal.SIGINT)
    assert code == 130
    assert "interrupted" in said
    figures = resumed(folder)
    assert less(figures["api:deploy"])
    assert less(figures["writes:deploy"])
    assert figures["cpu:deploy"].gated
    store = Store.latest(folder / "reports", "compare")
    assert_together(store, "deploy", 2, "deploy", "delete")
    phases = recorded_phases(store, Slot(part="deploy", round=0, arm="a"))
    assert "touch" not in phases, "single objects are touched for findings, which these runs have none of"


def test_a_quick_comparison_runs_the_test_again_and_again_in_one_process_for_each_variant(folder: Path) -> None:
    for name, text in (("test_it.py", QUICK_TEST), ("busy.py", BUSY), ("busy.yaml", BUSY_DEFINITION)):
        (folder / name).write_text(text, encoding="utf-8")
    quick = [*COMMAND, "busy.yaml", "busy.yaml", "test_it.py", "--quick", "--pairs=4", "--gate=rss:deploy"]
    done = subprocess.run(quick, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    store = Store.latest(folder / "reports", "compare")
    found = compared(store.folder)
    assert (found.verdict, metrics(found)["rss:deploy"].verdict) == ("ok", "ok")
    processes = {file.parents[2].name for file in store.folder.glob("runs/*/2*/recordings/*.jsonl.zst")}
    assert processes == {"run-a-1", "run-b-1"}
    slots = store.plan().slots
    assert_together(store, "run", 4, "deploy", "after")
    # Not by when they began: both variants' phases may begin in the same millisecond.
    assert len({store.samples()[slot].run.recording for slot in slots}) == 8, "each has a recording of its own"


def test_a_variant_that_fails_its_milestones_is_broken_not_fast(
    folder: Path, standing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(standing))
    (folder / "test_it.py").write_text(BROKEN, encoding="utf-8")
    crashing = ["--set=concurrency=20", "--set-b=defect=crash=1"]
    done = subprocess.run(
        [*COMPARE, "test_it.py", *crashing, *ON_STANDING, "--pairs=3", "--no-profile"],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == 1, done.stderr
    found = compared(Store.latest(folder / "reports", "compare").folder)
    assert found.verdict == "broken"
    (part,) = found.parts
    assert [broken.variant for broken in part.broken] == ["b"]
    assert part.pairs == 1, "it is tried no more than it must"


def test_profiles_of_both_are_compared_function_by_function(
    folder: Path, standing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(standing))
    for name, text in (("test_it.py", BUSY_TEST), ("busy.py", BUSY), ("busy.yaml", BUSY_DEFINITION)):
        (folder / name).write_text(text, encoding="utf-8")
    shares = ["--set=share=80", "--set-b=share=20"]
    done = subprocess.run(
        [*COMPARE, "busy.yaml", "test_it.py", *shares, *ON_STANDING, "--pairs=2", "--fail-on=never"],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    store = Store.latest(folder / "reports", "compare").folder
    found = compared(store)
    assert found.profiles.missing == ()
    (deploy,) = found.profiles.functions
    assert (deploy.phase, deploy.process, deploy.kind) == ("deploy", "operator", "pyspy")
    assert deploy.before.profiled_cpu_s is not None, "what the profiler cost is stated"
    assert deploy.difference is not None, (deploy.before.problem, deploy.after.problem)
    assert deploy.difference.scale == "cpu_s"
    rows = {row.function: row for row in deploy.difference.rows}
    listed = rows["listed (busy.py)"]
    assert listed.before is not None
    assert listed.after is not None
    # Its share of the CPU time, whatever the machine left of that: 80 and 20 %.
    assert listed.before / deploy.difference.before > 0.5 > listed.after / deploy.difference.after
    table = "| function | 80 | 20 | Δ |"
    markdown = (store / "comparison.md").read_text(encoding="utf-8")
    assert table in markdown
    assert "- share: 80 80, 20 20\n" in markdown
    assert "- the same in both: " in markdown
    assert "CPU of operator: deploy" in done.stdout
    page = (store / "comparison.html").read_text(encoding="utf-8")
    reports = [*store.glob("runs/*/2*/report.html")]
    assert len(reports) == 6
    assert all(f'href="{report.relative_to(store).as_posix()}"' in page for report in reports)
    assert all(f'id="run{number}-timeline"' in page for number in (0, 1))


# Of a commit whose message has the word: the build of some fails.
BISECTED = BUILD.replace("mkdir bin", "grep -q broken variant && { echo no compiler; exit 3; }\nmkdir bin", 1)
BISECTED_TEST = """
from pytest_grovescale import conditions

def test_it(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=5, pods_per_replica=1)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("ready", conditions.count("pods", 5, ready=True))
        pcs.apply()
"""


@pytest.mark.long
def test_a_bisection_goes_on_after_ctrl_c_and_finds_the_commit_that_writes_more(
    folder: Path, standing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(standing))
    top = revisions(folder / "repository")
    (top / "test_it.py").write_text(BISECTED_TEST, encoding="utf-8")
    (top / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    for number, variant in enumerate(["optimized"] * 2 + ["broken", "optimized", "baseline", "baseline"]):
        (top / "variant").write_text(variant, encoding="utf-8")
        (top / "number").write_text(str(number), encoding="utf-8")
        committed(top, f"commit-{number}")
    command = [sys.executable, "-m", "pytest_grovescale.cli", "bisect"]
    search = ["optimized", "commit-5", "operator.yaml", "test_it.py", "--metric=writes:deploy", f"--build={BISECTED}"]
    driver = subprocess.Popen(
        [*command, *search, "--cluster=standing", "--pairs=2", "--no-profile"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=top,
    )
    assert driver.stderr is not None
    while "; next " not in (line := driver.stderr.readline()):
        assert line, "the driver ended before anything was measured"
    driver.send_signal(signal.SIGINT)
    driver.communicate(timeout=120)
    assert driver.returncode == 130
    wait_none(str(top))
    store = Store.latest(top / "reports", "bisect")
    before = store.samples()
    assert before
    assert not list((store.folder / "revisions").glob("*/variant")), "no checkout is left"
    done = subprocess.run([*command, "--resume", "--json"], capture_output=True, text=True, cwd=top)
    assert done.returncode == 0, done.stderr
    found = msgspec.json.decode(done.stdout, type=Bisection)
    assert [step.subject for step in found.steps if step.commit in found.guilty] == ["commit-4"]
    assert found.change > 1
    after = store.samples()
    assert {slot: after[slot] for slot in before} == before, "what was measured is not measured again"
    assert all("no compiler" in step.skipped for step in found.steps if step.skipped)
    assert len(after) <= 8
    (part,) = compared(store.folder / "guilty").parts
    assert (part.plan.a.split()[-1], part.plan.b.split()[-1]) == ("commit-3", "commit-4")
    assert less(metrics(compared(store.folder / "guilty"))["writes:deploy"]) is False
