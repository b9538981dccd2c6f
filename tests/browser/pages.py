"""Pages to test: of a recording that the real recorder made, of real profiles, and of a comparison of two of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
from msgspec.structs import replace

from pytest_grovescale.analysis.analyse import analyse_run_over_time
from pytest_grovescale.analysis.baseline import baseline_test, rows
from pytest_grovescale.analysis.comparability import in_force
from pytest_grovescale.analysis.comparison import Comparison, ComparisonPlan, Pair, VariantRun, compare
from pytest_grovescale.analysis.phase_result import BottleneckRow, Contention, Suspect
from pytest_grovescale.analysis.profiles.comparison import NotProfiled
from pytest_grovescale.analysis.profiles.phase_profiles import PhaseProfile, every_cpu_profile, matched
from pytest_grovescale.analysis.result import CheckResult, Finding
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.journal import Writer, read
from pytest_grovescale.report.html import files
from pytest_grovescale.report.html.page import Background, RunLink, RunRow, ShownRun
from pytest_grovescale.report.html.tiles import Against
from tests.unit.analysis.endpoint import T0, Endpoint, working
from tests.unit.analysis.simulated import full_run

TESTS = Path(__file__).parents[1]
RECORDING = TESTS / "unit" / "report" / "data" / "configmaps.jsonl"
PROFILES = TESTS / "data" / "profiles"
PHASE = "all"
TIME_TABLE: tuple[tuple[Suspect, float, str], ...] = (
    ("operator-core-wait", 0.44, "its threads were runnable without a core"),
    ("operator-cpu", 0.31, "its CPU clock"),
    ("kwok", 0.15, "pods that were bound and not yet running"),
    ("unattributed", 0.1, "no record of anything at work"),
    ("machine", 0.8, "CPU clocks of all processes"),
    ("operator-queue", 0.5, "its work queue held keys"),
)
CHECKS = (
    CheckResult(
        check="noop_writes(max=0)", subject="object writes by operator", id="noop_writes", verdict="pass", figure=0,
        bound=0, text="object writes by operator 0 ≤ 0", evidence=("200 reconciles of podclique",), source="marker",
    ),
    CheckResult(
        check='cpu("deploy", max="5s")', subject="operator CPU", id="cpu.deploy", phase="deploy",
        verdict="inconclusive", figure=6.84, bound=5, unit="s",
        text="operator CPU 6.84 s > 5 s, while others used 60 % of the cores",
        evidence=("6.84 s in 11.2 s of deploy",), source="tests/scale/budgets.yaml:9",
    ),
    CheckResult(
        check='api_requests("deploy", verb="create", max=200)', subject="creates by operator", id="creates.deploy",
        phase="deploy", verdict="fail", figure=240, bound=200, text="creates by operator 240 > 200",
        evidence=("240 of pods",), source="tests/scale/budgets.yaml:12",
    ),
    CheckResult(
        check='rss("deploy", max="100MB")', subject="operator peak memory", id="rss.deploy", phase="deploy",
        verdict="not enforced", figure=120e6, bound=100e6, unit="bytes", text="operator peak memory 120 MB > 100 MB",
    ),
)  # fmt: skip
HOSTILE = "</script><script>document.title='taken over'</script><img src=x onerror=\"document.title='taken over'\">"
FINDINGS = (
    Finding(
        id="left-behind", severity="defect", text="60 services that the operator made still exist",
        evidence=("t/svc-0, t/svc-1 and 58 more",), check='phase.milestone("services-gone", …)',
    ),
    Finding(id="idle-work", severity="waste", text=f"it asked for {HOSTILE}"),
    Finding(id="metric-names", severity="note", text="a name in camelCase"),
)  # fmt: skip
NAMES = ("baseline", "candidate")
WHY = "py-spy is not permitted to read the process"
REMEDY = "Run it as root."


def run_page(folder: Path, *, extra: str = "") -> Path:
    """Write the page of a run whose second phase timed out, with a profile by py-spy and one by pprof.

    ``extra``: folded stacks to be added to the profile by py-spy.
    """
    _record(folder, folded=(PROFILES / "asyncio.raw").read_text(encoding="utf-8") + extra)
    result, timelines, _ = analyse_run_over_time(folder)
    return files.write_run(folder, result, timelines)


def judged_page(folder: Path) -> Path:
    """Write the page of a run of 200 pods beside others on the machine: with checks of every verdict, and a baseline.

    The recording is simulated; contention, time table and checks are put into its result.
    """
    (folder / "recordings").mkdir()
    writer = Writer(folder / "recordings" / "judged.jsonl")
    for record in full_run(200).records():
        writer.append(record)
    writer.close()
    result, timelines, _ = analyse_run_over_time(folder)
    (test,) = result.tests
    deploy, *others = test.phases
    deploy = replace(
        deploy,
        contention=Contention(cores=2, run_cores=0.7, others_cores=1.1, steal_cores=0.1, others_share=0.6),
        bottleneck="operator waiting for a core 44 % of deploy",
        bottlenecks=tuple(
            BottleneckRow(suspect=suspect, seconds=share * deploy.seconds, share=share, evidence=evidence)
            for suspect, share, evidence in TIME_TABLE
        ),
    )
    judged = replace(
        test,
        verdict="failed",
        ended="failed",
        phases=(deploy, *others),
        checks=CHECKS,
        findings=FINDINGS,
        findings_off={"gauge": "it is a limit"},
        command="python -m pytest --grovescale tests/scale/test_pods.py::test_pods --grovescale-param=replicas=100",
    )
    before = baseline_test(test)
    before = replace(before, metrics={key: 0.8 * figure for key, figure in before.metrics.items()})
    beside = Against("main", rows(before, judged, same_machine=True))
    shown = replace(result, tests=(judged,), verdict="failed")
    return files.write_run(folder, shown, timelines, baselines={judged.test: beside})


def metrics_page(folder: Path) -> Path:
    """Write the page of a run whose operator and one component were scraped all along; the latter failed once."""
    began, *others = read(RECORDING)
    scrapes = [
        msgspec.structs.replace(record, at=began.at + (record.at - T0) // 40)
        for endpoint in (working(), shaky())
        for record in endpoint.records
    ]
    (folder / "recordings").mkdir()
    writer = Writer(folder / "recordings" / "configmaps.jsonl")
    for record in sorted([began, *others, *scrapes], key=lambda record: record.at):
        writer.append(record)
    writer.close()
    return files.write_run(folder, *analyse_run_over_time(folder)[:2])


def shaky() -> Endpoint:
    """Return a component that did not answer in the middle."""
    found = working("kube-scheduler", scrapes=4)
    found.fails(4)
    return found


def comparison_page(folder: Path) -> Path:
    """Write the page of a comparison in which B is slower, with a run of A and one of B, and their profiles."""
    page, found, shown = folder / files.NAME, [], []
    for name, variant in zip("ab", NAMES, strict=True):
        folded = (PROFILES / "asyncio.raw").read_text(encoding="utf-8")
        lines = [_shifted(line) if name == "b" else line for line in folded.splitlines()]
        (folder / name).mkdir()
        _record(folder / name, folded="\n".join(lines) + "\n")
        run = analyse_run_over_time(folder / name)
        files.write_run(folder / name, run.result, run.timelines)
        (test,) = run.result.tests
        found.append([_measured(one) for one in every_cpu_profile(run.result)])
        timeline = run.timelines[test.recording]
        shown.append(
            ShownRun(variant=variant, what="deploy, pair 10", test=test, timeline=timeline, page=f"{name}/{files.NAME}")
        )
    pairs = matched(found[0], found[1])
    links = [RunLink(page=f"{name}/{files.NAME}") for name in "ab"]
    background = Background(
        profiles=files.profile_pairs(pairs, (folder / "a", folder / "b"), page=page),
        not_profiled=(NotProfiled(variant="candidate", phase="delete", process="operator", why=WHY, next_step=REMEDY),),
        in_force=in_force([{"qps": 5000, "variant": "baseline"}], [{"qps": 5000, "variant": HOSTILE}]),
        runs=(
            RunRow(part="deploy and delete", pairs="1", a=links[0], b=links[1]),
            RunRow(part="deploy and delete", pairs="2", a=RunLink(), b=RunLink(broken="deploy: timeout")),
            RunRow(part="deploy and delete", pairs="3", a=links[0], b=None),
        ),
        shown=tuple(shown),
    )
    return files.write_comparison(folder, [slower()], background)


def _measured(one: PhaseProfile) -> PhaseProfile:
    """Return a profile as if its run had had a pass without a profiler too."""
    return msgspec.structs.replace(one, profile=msgspec.structs.replace(one.profile, cpu_s=4.0, profiled_cpu_s=4.6))


def slower() -> Comparison:
    """Return a comparison in which B took 20 % more CPU in every pair, and an API request more."""
    plan = ComparisonPlan(
        a=NAMES[0], b=NAMES[1], differs="variant: baseline, candidate", gated=("cpu:deploy", "wall:deploy")
    )
    noise = [0.99, 1.01, 1.0, 1.02, 0.98, 1.0, 1.01, 0.99, 1.0, 1.0]
    pairs = [
        Pair(
            a=VariantRun(metrics={"cpu:deploy": 4.0 * wobble, "wall:deploy": 10.0, "api:deploy": 500.0}),
            b=VariantRun(metrics={"cpu:deploy": 4.8 / wobble, "wall:deploy": 10.0 * wobble, "api:deploy": 501.0}),
        )
        for wobble in noise
    ]
    return compare(plan, pairs, facts={"kubernetes": "1.36.3"})


def _shifted(line: str) -> str:
    """Make one thread of a profile heavier, and so the share of the others smaller."""
    stack, _, count = line.rpartition(" ")
    return f"{stack} {int(count) * (3 if 'worker' in stack else 1)}"


def _record(folder: Path, *, folded: str) -> None:
    """Write the recording again, with records of two profiles in its first phase, and the profiles."""
    (folder / "recordings").mkdir()
    (folder / "profiles").mkdir()
    (folder / "profiles" / "operator.raw").write_text(folded, encoding="utf-8")
    shutil.copy(PROFILES / "known_shares.cpu.pb.gz", folder / "profiles" / "kwok.pb.gz")
    writer = Writer(folder / "recordings" / "configmaps.jsonl")
    for record in read(RECORDING):
        writer.append(record)
        if isinstance(record, rec.PhaseEnded) and record.phase == PHASE:
            writer.append(_taken(record.at, "operator", "pyspy", "profiles/operator.raw"))
            writer.append(_taken(record.at, "kwok", "pprof", "profiles/kwok.pb.gz"))
    writer.close()


def _taken(at: int, process: str, kind: rec.ProfileKind, file: str) -> rec.ProfileTaken:
    return rec.ProfileTaken(
        at=at, phase=PHASE, process=process, kind=kind, file=file, started=at - 1_000_000_000, ended=at
    )
