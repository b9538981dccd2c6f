"""What the plugin does when no scale test runs: next to nothing, and says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.baseline import Baseline
from pytest_grovescale.atomic_write import json_document
from pytest_grovescale.recording.machine import machine

SCALE_TEST = """
import pytest

@pytest.mark.grovescale(nodes=3)
def test_it(scale):
    raise AssertionError("must not run")
"""


def test_scale_tests_are_skipped_with_the_reason(pytester: pytest.Pytester, snapshot: SnapshotAssertion) -> None:
    pytester.makepyfile(SCALE_TEST)
    result = pytester.runpytest("-rs")
    result.assert_outcomes(skipped=1)
    (reported,) = (line for line in result.outlines if line.startswith("SKIPPED"))
    assert "--grovescale" in reported
    assert reported.rpartition(".py:")[2].partition(": ")[2] == snapshot


def test_only_a_run_of_nothing_but_scale_tests_is_reminded_of_the_option(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="def test_scale(scale): ...", test_other="def test_other(): ...", test_broken="import nothing_there"
    )
    reminder = "grovescale: *--grovescale"
    pytester.runpytest("test_it.py").stdout.fnmatch_lines([reminder])
    pytester.runpytest("test_it.py", "test_other.py").stdout.no_fnmatch_line(reminder)
    pytester.runpytest("test_broken.py").stdout.no_fnmatch_line(reminder)
    pytester.runpytest("test_other.py").stdout.no_fnmatch_line(reminder)


@pytest.mark.parametrize(
    ("argument", "meant"),
    [
        ("--grovescal", "--grovescale"),
        ("--grovescale-node=5", "--grovescale-nodes"),
        ("--grov-xyzxyz", "pytest --help"),
    ],
)
def test_a_misspelt_option_is_answered_with_the_one_that_is_meant(
    pytester: pytest.Pytester, argument: str, meant: str
) -> None:
    result = pytester.runpytest(argument)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*: {argument.partition('=')[0]}", f"  → *{meant}*"])


def test_an_option_of_the_project_is_not_taken_for_a_misspelt_one(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("def pytest_addoption(parser): parser.addoption('--grove-image')")
    pytester.makepyfile("def test_it(request): assert request.config.getoption('--grove-image') == 'a:1'")
    pytester.runpytest("--grove-image=a:1").assert_outcomes(passed=1)


def test_a_build_by_a_program_that_is_not_here_is_a_mistake(pytester: pytest.Pytester, untouched: Path) -> None:
    definition = {"name": "mine", "build": ["no-such-builder", "all"], "command": ["bin/mine", "{health_port}"]}
    definition["readiness"] = {"url": "http://127.0.0.1:{health_port}/readyz"}  # type: ignore[assignment]
    (pytester.path / "mine.yaml").write_text(yaml.safe_dump(definition))
    pytester.makepyfile(test_it="def test_it(scale): raise AssertionError('must not run')")
    result = pytester.runpytest("--grovescale", "--grovescale-operator=mine.yaml")
    assert_refused(result, pytester, untouched, "mine.yaml: build: no-such-builder is not on PATH")


def test_a_command_that_is_not_here_is_a_mistake(pytester: pytest.Pytester, untouched: Path) -> None:
    definition = {"name": "mine", "command": ["no-such-program", "{health_port}"]}
    definition["readiness"] = {"url": "http://127.0.0.1:{health_port}/readyz"}  # type: ignore[assignment]
    (pytester.path / "mine.yaml").write_text(yaml.safe_dump(definition))
    pytester.makepyfile(test_it="def test_it(scale): raise AssertionError('must not run')")
    result = pytester.runpytest("--grovescale", "--grovescale-operator=mine.yaml")
    assert_refused(result, pytester, untouched, "no-such-program is not on PATH")


def test_users_of_the_fixtures_are_skipped_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(grovescale_cluster): pass\ndef test_other(): pass")
    pytester.runpytest().assert_outcomes(skipped=1, passed=1)


def test_collecting_needs_no_cluster(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SCALE_TEST)
    result = pytester.runpytest("--collect-only", "--grovescale", "-q")
    result.stdout.fnmatch_lines(["*::test_it", "1 test collected*"])
    assert not (pytester.path / "reports").exists()


def test_help_names_every_option(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--help")
    names = ("cluster", "operator", "kubernetes", "nodes", "set", "param", "start", "reports", "keep")
    result.stdout.fnmatch_lines_random(["  --grovescale *", *(f"  --grovescale-{name}*" for name in names)])


def test_marker_is_registered(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.grovescale(*nodes*)*"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("3", "keyword arguments only"),
        ("nods=3", "no argument 'nods'; did you mean nodes? it has *nodes*"),
        ("nodes='3'", "not of type int"),
        ("nodes=True", "not of type int"),
        ("nodes=0", "at least one node"),
        ("start='never'", "start never: use `test` or `session`"),
        ("profile='pysyp'", "profile pysyp: use *Did you mean pyspy?"),
    ],
)
def test_a_wrong_marker_is_a_usage_error_at_collection(pytester: pytest.Pytester, arguments: str, message: str) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.grovescale({arguments})\ndef test_it(scale): pass")
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *::test_it: *{message}*"])


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--grovescale-nodes=many", "not a number of nodes"),
        ("--grovescale-nodes=0", "not a number of nodes"),
        ("--grovescale-set=variant", "not NAME=VALUE"),
        ("--grovescale-param==3", "not NAME=VALUE"),
        ("--grovescale-start=never", "`test` or `session`"),
        ("--grovescale-workdir=nowhere", "--grovescale-workdir nowhere: no such folder"),
        ("--grovescale-scrape=all", "`operator` or `components`"),
        ("--grovescale-profile=pysyp", "use *`off`. Did you mean pyspy[?]"),
        ("--grovescale-prometheus=strat", "use *Did you mean start[?]"),
    ],
)
def test_a_wrong_option_is_a_usage_error(pytester: pytest.Pytester, argument: str, message: str) -> None:
    result = pytester.runpytest(argument)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *{message}*"])


def test_ini_sets_what_the_command_line_leaves_open(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml('[tool.pytest]\ngrovescale_nodes = "7"\ngrovescale_set = ["a=1", "b=2"]')
    pytester.makeconftest(
        """
        from pytest_grovescale import options

        def pytest_report_header(config):
            settings = options.read(config)
            return f"read: {settings.nodes} {settings.values} {sorted(settings.given)}"
        """
    )
    pytester.runpytest().stdout.fnmatch_lines(["read: 7 {'a': '1', 'b': '2'} []"])
    result = pytester.runpytest("--grovescale-nodes=9", "--grovescale-set=a=3")
    result.stdout.fnmatch_lines(["read: 9 {'a': '3'} ['nodes', 'set']"])


def test_a_run_is_repeated_by_a_command_with_its_options(
    pytester: pytest.Pytester, snapshot: SnapshotAssertion
) -> None:
    pytester.makeconftest(
        """
        from pytest_grovescale import options

        def pytest_report_header(config):
            return options.repeating(config, "tests/test_a.py::test_it[a b]")
        """
    )
    given = ("--grovescale-nodes=9", "--grovescale-set=a=3", "--grovescale-set=b=x y", "--grovescale-save=main")
    result = pytester.runpytest(*given, "--grovescale-cluster-per-worker")
    (command,) = (line for line in result.outlines if line.startswith("python -m pytest "))
    assert "'tests/test_a.py::test_it[a b]'" in command
    assert command == snapshot


def test_the_plugin_imports_nothing_heavy() -> None:
    script = (
        "import sys, pytest\n"
        "before = set(sys.modules)\n"
        "import pytest_grovescale.plugin\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "['pytest_grovescale']"


def test_a_run_and_its_page_take_no_statistics() -> None:
    """scipy is loaded by the first comparison or sweep: it would be half of the start of a run without one."""
    script = (
        "import sys\n"
        "import pytest_grovescale.report.html.files\n"
        "import pytest_grovescale.session.run, pytest_grovescale.session.session_summary\n"
        "print(sorted({'scipy.optimize', 'scipy.special'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_a_bare_command_line_says_what_there_is() -> None:
    done = subprocess.run([sys.executable, "-m", "pytest_grovescale.cli"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "usage: grovescale" in done.stderr


def test_showing_what_is_no_recording_says_what_to_name(tmp_path: object) -> None:
    command = [sys.executable, "-m", "pytest_grovescale.cli", "show", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "no recording" in done.stderr
    assert "reports/latest" in done.stderr


@pytest.fixture
def untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of this test's own: whoever queues, builds or starts something leaves a file in it."""
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    contexts = [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("staging", "production")]
    clusters = [{"name": "c", "cluster": {"server": "https://192.0.2.1"}}]
    config = {"contexts": contexts, "clusters": clusters, "users": [{"name": "u", "user": {}}]}
    (tmp_path / "kubeconfig").write_text(json.dumps(config), encoding="utf-8")
    return tmp_path / "state"


def assert_refused(result: pytest.RunResult, pytester: pytest.Pytester, untouched: Path, *messages: str) -> None:
    """Assert that pytest ended with these messages alone, and that nothing was queued, built or started."""
    errors = [line for line in result.errlines if line.startswith("ERROR: ")]
    assert len(errors) == len(messages), result.errlines
    result.stderr.fnmatch_lines([f"*{message}" for message in messages])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    for sign in ("Traceback", "INTERNALERROR", "waiting for", "must not run"):
        assert sign not in result.stdout.str() + result.stderr.str()
    assert not (pytester.path / "reports").exists()
    assert [path for path in untouched.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "--grovescale-operator=refrence",
            "refrence: no such file*→ Did you mean reference or reference-pod[?] Known*",
        ),
        (
            "--grovescale-operator=nowhere/mine.yaml",
            "nowhere/mine.yaml: no such file*; looked at*",
        ),
        ("--grovescale-cluster=defualt", "--grovescale-cluster defualt: no such file*→ Did you mean default[?]*"),
        ("--grovescale-kubernetes=1.63", "Kubernetes 1.63 is not supported*→ Did you mean 1.36*Supported: 1.36*"),
        ("--grovescale-cluster=existing:stagign", "there is no context 'stagign'*→ Did you mean staging[?]*"),
        (
            "--grovescale-cluster=existing:staging",
            "which is not on this machine; nothing was sent to it*→ *--grovescale-allow-context=staging*",
        ),
        (
            "--grovescale-operator=reference-pod --grovescale-set=replicas=none",
            "pod.replicas: 'none' is no number of pods*",
        ),
        ("--grovescale-set=varaint=x", "the operator reference has no value 'varaint'*→ Did you mean variant[?]*"),
        ("--grovescale-set=variant=optimised", "variant cannot be 'optimised'*→ Did you mean optimized[?]*"),
        ("--grovescale-operator=reference-pod", "runs as pods, and all nodes of a local cluster are simulated*"),
        ("--grovescale-operator=broken.yaml", "broken.yaml:1: nam: unknown field*→ Did you mean name[?]*"),
        ("--grovescale-cluster=small.yaml", "small.yaml:2: nodes[[]0].cout: unknown field*→ Did you mean count[?]*"),
        ("--grovescale-save=a/b", "--grovescale-save a/b: 'a/b' is no name for a baseline*"),
        (
            "--grovescale-compare=mian --grovescale-missing-baseline=fail",
            "--grovescale-compare mian: there is no baseline of that name*→ Did you mean main[?] Saved are: main.*",
        ),
        (
            "--grovescale-compare=main --grovescale-missing-baseline=fail",
            "baseline 'main' does not hold test_it.py::test_it*→ Record it: --grovescale-save=main*",
        ),
        ("--grovescale-prometheus=https://a --grovescale-prometheus-ca=ca.crt", "prometheus-ca ca.crt: no such file*"),
    ],
)
def test_a_mistake_is_reported_when_tests_are_collected(
    pytester: pytest.Pytester, untouched: Path, arguments: str, message: str
) -> None:
    pytester.makepyfile(test_it=SCALE_TEST)
    files = {"broken.yaml": "nam: mine\n", "small.yaml": "nodes:\n- {prefix: a, cout: 3}\nstages: []\n"}
    for name, text in files.items():
        (pytester.path / name).write_text(text, encoding="utf-8")
    saved = pytester.path / ".grovescale/baselines/elsewhere/0001_main.json"
    saved.parent.mkdir(parents=True)
    saved.write_bytes(json_document(Baseline(name="main", saved="", run="", version="", machine=machine(), tests={})))
    result = pytester.runpytest("--grovescale", "--collect-only", *arguments.split())
    first, *rest = message.split("*→")
    assert_refused(result, pytester, untouched, first if not rest else f"{first}*")
    result.stderr.fnmatch_lines([f"  →{line}" for line in rest])


@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_a_mistake_is_reported_before_anything_is_queued_built_or_started(
    pytester: pytest.Pytester, untouched: Path, workers: list[str]
) -> None:
    wrong = "import pytest\n@pytest.mark.grovescale(operator='nonesuch')\ndef test_it(scale): pass"
    pytester.makepyfile(test_it=SCALE_TEST, test_other=wrong)
    result = pytester.runpytest_subprocess("--grovescale", "--grovescale-kubernetes=2.0", *workers)
    marker = "test_other.py::test_it: @pytest.mark.grovescale"
    messages = ("Kubernetes 2.0 is not supported", f"{marker}[(]operator='nonesuch'[)]: nonesuch: no such file*")
    assert_refused(result, pytester, untouched, *messages)


def test_all_mistakes_are_reported_at_once_and_each_once(pytester: pytest.Pytester, untouched: Path) -> None:
    marked = "import pytest\n@pytest.mark.grovescale(operator='nonesuch', cluster='nowhere')\ndef test_it(scale): pass"
    pytester.makepyfile(test_a=SCALE_TEST, test_b=SCALE_TEST, test_c=marked)
    result = pytester.runpytest("--grovescale", "--collect-only", "--grovescale-kubernetes=2.0")
    where = "test_c.py::test_it: @pytest.mark.grovescale"
    assert_refused(
        result,
        pytester,
        untouched,
        "Kubernetes 2.0 is not supported",
        f"{where}[(]operator='nonesuch'[)]: nonesuch: no such file*",
        f"{where}[(]cluster='nowhere'[)]: nowhere: no such file*",
    )


def test_a_mistake_of_a_file_of_budgets_is_said_once_for_all_its_tests(
    pytester: pytest.Pytester, untouched: Path
) -> None:
    pytester.makepyfile("def test_a(scale): pass\ndef test_b(scale): pass")
    (pytester.path / "budgets.yaml").write_text("tests: {test_a: [noop_write]}\n", encoding="utf-8")
    result = pytester.runpytest("--grovescale", "--collect-only")
    assert_refused(result, pytester, untouched, "*noop_write*")
    assert (str(result.stderr) + str(result.stdout)).count("budgets.yaml:1: ") == 1


OF_OTHERS = """
def pytest_addoption(parser):
    parser.addoption("--forked", action="store_true")
    parser.addoption("--disable-socket", action="store_true")
    parser.addoption("--allow-hosts")

def pytest_configure(config):
    config.addinivalue_line("markers", "enable_socket")
"""
"""The options of pytest-forked and pytest-socket."""


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (
            "--forked",
            [f"test_it.py::{test}: pytest-forked runs it in a copy of pytest*" for test in ("test_it", "test_m")],
        ),
        ("--disable-socket", ["test_it.py::test_it: pytest-socket forbids all connections*"]),
        ("--disable-socket --allow-hosts=127.0.0.1", []),
    ],
)
def test_a_plugin_that_takes_what_a_scale_test_needs_is_named(
    pytester: pytest.Pytester, untouched: Path, arguments: str, messages: list[str]
) -> None:
    pytester.makeconftest(OF_OTHERS)
    marked = "import pytest\n@pytest.mark.enable_socket\ndef test_m(scale): pass"
    pytester.makepyfile(test_it=f"{SCALE_TEST}\n{marked}")
    result = pytester.runpytest("--grovescale", "--collect-only", *arguments.split())
    if messages:
        assert_refused(result, pytester, untouched, *messages)
    else:
        assert result.ret == 0


NAMING_TEST = """
import pytest
from pytest_grovescale import checks
from suite import steps

SIZE = 500
STEPS = {"deploy": steps.deploy}

@pytest.fixture
def hold(scale):
    return scale.parameter("hold", "30s")

class Suite:
    def run(self, scale):
        STEPS["deploy"](scale)

@pytest.mark.grovescale_budget(checks.Cpu("deploy", max="4s"), checks.Cpu("rest (idle)", max="4s"))
def test_it(scale, hold):
    scale.workload("pcs.yaml.j2", replicas=scale.parameter("replicas", SIZE))
    with scale.phase("deploy"):
        Suite().run(scale)
    with scale.phase("rest"):
        pass

def test_other(scale):
    scale.parameter("other", 1)

def test_computed(scale):
    for name in ("one", "two"):
        scale.parameter(name, 1)
"""
STEPS = """
def deploy(scale):
    scale.parameter("rate", 2.5)

def unused(scale):
    scale.parameter("unused", 1)
"""


def names(
    pytester: pytest.Pytester, *arguments: str, test: str = "test_it", old: str = "", new: str = ""
) -> pytest.RunResult:
    """Collect one test of the project whose code names parameters, workloads and phases."""
    assert old in NAMING_TEST
    pytester.makepyfile(test_it=NAMING_TEST.replace(old, new, 1), **{"suite/__init__": "", "suite/steps": STEPS})
    return pytester.runpytest("--grovescale", "--collect-only", f"test_it.py::{test}", *arguments)


@pytest.mark.parametrize("read", ["replicas=3", "hold=5s", "rate=7"])
def test_a_parameter_is_found_where_the_tests_code_reads_it(pytester: pytest.Pytester, read: str) -> None:
    assert names(pytester, f"--grovescale-param={read}").ret == pytest.ExitCode.OK


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ("replcas=3", "replcas=3: no selected test reads it*→ Did you mean replicas? They read: hold, rate, replicas."),
        ("other=3", "other=3: no selected test reads it*→ They read: hold, rate, replicas."),
        ("unused=3", "unused=3: no selected test reads it*→ They read: hold, rate, replicas."),
        ("replicas=many", "replicas=many: not a value like 500*→ Give a value of type int."),
    ],
)
def test_a_parameter_that_no_selected_test_reads_is_a_mistake(
    pytester: pytest.Pytester, untouched: Path, parameter: str, message: str
) -> None:
    what, _, next_step = message.partition("*→")
    result = names(pytester, f"--grovescale-param={parameter}")
    assert_refused(result, pytester, untouched, f"--grovescale-param {what}")
    assert f"  →{next_step}" in result.errlines


def test_the_profiling_pass_alone_reads_the_same_parameters(pytester: pytest.Pytester) -> None:
    alone = ("--grovescale-profile=pyspy", "-k", "profiled")
    collected = names(pytester, "--grovescale-param=replicas=3", *alone)
    assert collected.ret == pytest.ExitCode.OK
    collected.assert_outcomes(deselected=1)
    assert names(pytester, "--grovescale-param=replcas=3", *alone).ret == pytest.ExitCode.USAGE_ERROR


INSTALLED = """
import importlib
import pytest

@pytest.fixture(autouse=True)
def of_every_test(request):
    importlib.import_module("json")

@pytest.fixture
def company(scale):
    return scale.parameter("company", 1)
"""


def test_an_installed_plugin_that_a_test_does_not_use_hides_no_mistake(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(installed=INSTALLED)
    plugin = ("-p", "installed")
    pytester.syspathinsert()
    result = names(pytester, "--grovescale-param=replcas=3", *plugin)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "Did you mean replicas?" in result.stderr.str()
    pytester.makepyfile(test_it="def test_it(scale, company): pass")
    collected = pytester.runpytest("--grovescale", "--collect-only", "--grovescale-param=company=3", *plugin)
    assert collected.ret == pytest.ExitCode.OK


def test_a_parameter_that_computed_names_may_mean_is_no_mistake_yet(pytester: pytest.Pytester) -> None:
    assert names(pytester, "--grovescale-param=two=3", test="test_computed").ret == pytest.ExitCode.OK


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('Cpu("deploy"', 'Cpu("deply"', 'marker: cpu("deply", max="4s"): test_it.py::test_it has no phase \'deply\''),
        ("pcs.yaml", "pc.yaml", "test_it.py::test_it: scale.workload('pc.yaml.j2'): pc.yaml.j2: no such file*"),
        (
            "replicas=s",
            "replcas=s",
            "test_it.py::test_it: scale.workload('pcs.yaml.j2'): *replcas: the template has no*",
        ),
    ],
)
def test_a_phase_or_a_workload_that_is_not_there_is_a_mistake(
    pytester: pytest.Pytester, untouched: Path, old: str, new: str, message: str
) -> None:
    result = names(pytester, old=old, new=new)
    assert_refused(result, pytester, untouched, message)
    result.stderr.fnmatch_lines(["  → Did you mean *"])


def test_a_milestone_behind_the_first_action_is_a_mistake(pytester: pytest.Pytester, untouched: Path) -> None:
    late = "steady.hold('1s'); steady.milestone('x', None)"
    pytester.makepyfile(test_it=f"def test_it(scale):\n    with scale.phase('steady') as steady:\n        {late}\n")
    result = pytester.runpytest("--grovescale", "--grovescale-operator=none")
    assert_refused(result, pytester, untouched, "test_it.py:3: steady.milestone('x', …)*")


CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a-map}\n"


def test_a_workload_that_renders_to_no_object_of_the_api_is_a_mistake(
    pytester: pytest.Pytester, untouched: Path
) -> None:
    file = pytester.path / "own.yaml.j2"
    file.write_text(f"{CONFIG_MAP.replace('kind', 'knd')}data: {{note: '{{{{ api_token }}}} {{{{ size }}}}'}}\n")
    given = "api_token=scale.parameter('api_token', ''), size=scale.parameter('size', 1)"
    pytester.makepyfile(test_it=f"def test_it(scale):\n    scale.workload('own.yaml.j2', {given})\n")
    options = ("--grovescale-param=api_token=s3cret-s3cret", "--grovescale-param=size=2")
    result = pytester.runpytest("--grovescale", "--grovescale-operator=none", *options)
    assert_refused(result, pytester, untouched, "*own.yaml.j2 (rendered):1: kind: missing")
    assert "s3cret" not in "\n".join([*result.outlines, *result.errlines])


def test_a_parameter_of_a_workload_has_the_type_of_its_default(pytester: pytest.Pytester) -> None:
    body = CONFIG_MAP.replace("a-map", "map-{{ number }}")
    (pytester.path / "own.yaml.j2").write_text("{% for number in range(size) %}\n---\n" + body + "{% endfor %}\n")
    pytester.makepyfile(
        test_it="def test_it(scale):\n    scale.workload('own.yaml.j2', size=scale.parameter('size', 1))\n"
    )
    given = ("--grovescale", "--grovescale-operator=none", "--collect-only")
    assert pytester.runpytest(*given, "--grovescale-param=size=2").ret == 0
    wrong = pytester.runpytest(*given, "--grovescale-param=size=two")
    assert "not a value like 1" in "\n".join([*wrong.outlines, *wrong.errlines])


def test_a_template_in_the_projects_root_is_found_from_any_folder(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\ngrovescale_operator = none")
    (pytester.mkdir("workloads") / "own.yaml.j2").write_text(CONFIG_MAP.replace("a-map", "{{ size }}-map"))
    tests = pytester.mkdir("tests")
    (tests / "test_it.py").write_text("def test_it(scale):\n    scale.workload('own.yaml.j2', size=1)\n")
    monkeypatch.chdir(tests)
    assert pytester.runpytest("--grovescale", "--collect-only", "-q").ret == pytest.ExitCode.OK


def test_tests_that_are_deselected_may_be_wrong(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import pytest\n@pytest.mark.grovescale(operator='nonesuch')\ndef test_it(scale): pass\ndef test_other(): pass"
    )
    result = pytester.runpytest("--grovescale", "--collect-only", "-q", "-k", "other")
    result.stdout.fnmatch_lines(["*::test_other", "1/2 tests collected*"])


def test_the_lines_of_a_log_are_shown_once_also_in_ci(
    pytester: pytest.Pytester, untouched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where pytest's short summary shows a failure's whole message, as in CI."""
    monkeypatch.setenv("CI", "true")
    pytester.makepyfile(
        """
        import pytest
        from pytest_grovescale.errors import OperatorError
        from pytest_grovescale.session.error_translation import translated_errors

        @pytest.fixture
        def grovescale_cluster():
            with translated_errors():
                raise OperatorError("exit code 1\\nlast lines of its log:\\n  no such flag")

        def test_it(grovescale_cluster): pass
        """
    )
    result = pytester.runpytest_subprocess("--grovescale")
    result.stdout.fnmatch_lines(["ERROR *::test_it - exit code 1"])
    assert result.stdout.str().count("no such flag") == 1


def test_a_test_without_an_operator_is_an_error_that_says_how_to_name_one(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SCALE_TEST)
    pytester.makeini("[pytest]\n")
    result = pytester.runpytest("--grovescale", "-o", "grovescale_operator=")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *no operator is named*", "*--grovescale-operator=FILE*`reference`*"])


def test_collecting_scale_tests_imports_no_client_library(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SCALE_TEST)
    pytester.makeconftest(
        """
        import sys

        def pytest_unconfigure():
            print("clients", sorted({"aiohttp", "kubernetes", "scipy", "cryptography"} & set(sys.modules)))
        """
    )
    result = pytester.run(sys.executable, "-m", "pytest", "--grovescale", "--collect-only", "-q")
    result.stdout.fnmatch_lines(["clients []"])


def test_a_definition_named_on_the_command_line_is_found_from_where_pytest_was_started(
    pytester: pytest.Pytester,
) -> None:
    """As a shell completes it: not beside the test."""
    for path, text in {"tests/test_it.py": SCALE_TEST, "deploy/mine.yaml": "nam: mine\n"}.items():
        file = pytester.path / path
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")
    result = pytester.runpytest(
        "--grovescale", "--collect-only", "--grovescale-operator=deploy/mine.yaml", "tests/test_it.py"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: */deploy/mine.yaml:1: *nam*"])


ENDED = """
import pytest
from pytest_grovescale.errors import ClusterError, UsageError
from pytest_grovescale.kube.errors import from_response

@pytest.fixture
def broken():
    raise ClusterError("etcd does not start")

def test_in_the_call():
    raise ClusterError("the cluster ended", next_step="Run it again.")

def test_silent_server():
    raise from_response(503, b"", request="GET /pods")

def test_in_setup(broken): pass

def test_refused_request():
    raise from_response(422, b"", request="POST /pods")

def test_assertion():
    assert 1 == 2
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_what_the_infrastructure_ends_is_an_error_and_no_failure(pytester: pytest.Pytester, workers: str) -> None:
    pytester.makepyfile(test_it=ENDED)
    result = pytester.runpytest_subprocess("--grovescale", "--junitxml=junit.xml", "-n", workers)
    result.assert_outcomes(errors=3, failed=2)
    text = result.stdout.str()
    for name, says in (("in_the_call", "the cluster ended"), ("silent_server", "GET /pods: HTTP 503")):
        assert f"ERROR at call of test_{name}" in text
        assert f"ERROR test_it.py::test_{name} - " in text
        assert says in text
    result.stdout.fnmatch_lines(["FAILED *::test_refused_request*"])
    suite = ElementTree.parse(pytester.path / "junit.xml").getroot()[0]
    assert (suite.get("errors"), suite.get("failures"), suite.get("tests")) == ("3", "2", "5")
    kinds = {case.get("name"): [one.tag for one in case] for case in suite}
    assert kinds == {
        "test_in_the_call": ["error"],
        "test_silent_server": ["error"],
        "test_in_setup": ["error"],
        "test_refused_request": ["failure"],
        "test_assertion": ["failure"],
    }


VERDICTS = """
from pytest_grovescale.errors import CheckFailed, UsageError

def helper():
    raise CheckFailed("CPU 6.84 s > 5 s\\n    evidence")

def test_check():
    helper()

def test_mistake():
    try:
        int("x")
    except ValueError as error:
        raise UsageError("no phase", next_step="Name one.") from error
"""


def test_a_failures_summary_begins_with_the_figure(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makepyfile(test_it=VERDICTS)
    result = pytester.runpytest_subprocess("--grovescale")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "E *CheckFailed: CPU 6.84 s > 5 s",
            "FAILED *::test_check - CPU 6.84 s > 5 s",
            "FAILED *::test_mistake - no phase",
        ]
    )
    # Its message says it all: what led to it is no second error.
    result.stdout.no_fnmatch_line("E *ValueError*")


def test_without_grovescale_nothing_is_an_error_that_pytest_calls_a_failure(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ENDED)
    pytester.runpytest().assert_outcomes(errors=1, failed=4)
