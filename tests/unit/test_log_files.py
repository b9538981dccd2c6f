"""The end of a log; of a Go program that failed, its reason without the stacks of its goroutines."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_grovescale import log_files
from pytest_grovescale.log_files import last_lines, lines_with_credentials, what_to_do

GO = ["starting", "fatal error: all goroutines are asleep - deadlock!", "runtime stack:"]
STACKS = [f"goroutine {number} [select]:" for number in range(500)]


def written(tmp_path: Path, lines: list[str]) -> Path:
    log = tmp_path / "it.log"
    log.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return log


def test_a_log_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "none.log", 30) == []


def test_the_last_lines_are_shown_as_they_are(tmp_path: Path) -> None:
    assert last_lines(written(tmp_path, STACKS), 3) == STACKS[-3:]


def test_colours_are_left_out(tmp_path: Path) -> None:
    line = "\x1b[2m2026-01-02T03:04:05Z\x1b[0m \x1b[31mERROR\x1b[0m \x1b[2mshop\x1b[0m\x1b[2m:\x1b[0m no quota for {}"
    log = written(tmp_path, [line.format(number) for number in range(7)])
    assert last_lines(log, 1) == ["2026-01-02T03:04:05Z ERROR shop: no quota for 6"]
    assert log_files.facts(log).errors == 7
    assert log_files.facts(written(tmp_path, [line.replace("ERROR", "INFO")] * 7)).errors == 0


def test_an_error_behind_spans_is_named(tmp_path: Path) -> None:
    spans = "reconciling object{object.ref=Shop.v1.a.io/shop-{}.t object.reason=error policy requested retry}"
    lines = [f"2026-01-02T03:04:05Z  WARN {spans.replace('{}', str(number))}: shop: no quota" for number in range(7)]
    facts = log_files.facts(written(tmp_path, lines))
    assert (facts.errors, facts.error) == (7, "WARN shop: no quota")


def test_the_reason_of_a_failure_stands_without_stacks(tmp_path: Path) -> None:
    assert last_lines(written(tmp_path, [*GO, *STACKS]), 30) == [*GO[:2], "… 501 lines of stacks"]
    trace = ["panic: failed to create WAL", "", "goroutine 1 [running]:", "main.main()", "\t/src/main.go:31 +0x28"]
    assert last_lines(written(tmp_path, trace), 30) == [trace[0], "… 4 lines of stacks"]


def test_what_is_wrong_with_a_flag_stands_without_all_flags(tmp_path: Path) -> None:
    flags = [line for number in range(30) for line in (f"  -flag{number} string", "    \tdoes something")]
    log = ["flag provided but not defined: -metrics-adr", "Usage of bin/manager:", *flags]
    assert last_lines(written(tmp_path, log), 25) == [log[0], "… 61 lines of usage"]
    cobra = [
        "Error: unknown flag: --a",
        "Usage:",
        "  shop run [flags]",
        "",
        "Flags:",
        "  -h, --help",
        "",
        "unknown flag: --a",
    ]
    assert last_lines(written(tmp_path, cobra), 25) == [cobra[0], "… 6 lines of usage", cobra[-1]]


def test_what_comes_after_the_stacks_is_shown(tmp_path: Path) -> None:
    panics = ["panic: first", *STACKS, "restarted", "panic: second", "", *STACKS]
    assert last_lines(written(tmp_path, panics), 4) == [
        "… 500 lines of stacks",
        "restarted",
        "panic: second",
        "… 501 lines of stacks",
    ]
    klog = ["F1122 10:00:00.000000 1 main.go:3] no such flag", *STACKS]
    assert last_lines(written(tmp_path, klog), 2)[0] == klog[0]


def test_what_the_machine_refuses_a_program_has_a_next_step() -> None:
    assert "ulimit -u" in what_to_do(
        "runtime: may need to increase max user processes (ulimit -u)\nfatal error: newosproc"
    )
    assert "ulimit -u" in what_to_do("BlockingIOError: [Errno 11] Resource temporarily unavailable")
    assert "GROVESCALE_STATE_DIR" in what_to_do("wal: write data: No space left on device")
    assert "ulimit -n" in what_to_do("file descriptor limit of etcd process is too low; please set higher")
    assert "ulimit -f" in what_to_do("failed to create WAL: file too large")
    assert what_to_do("Error: unknown flag: --no-such-flag") == ""


def test_lines_with_credentials_are_found_by_their_number(tmp_path: Path) -> None:
    lines = ["starting", "password=hunter2hunter2", "took 3 s", "", "Authorization: Bearer abc123def456ghi789"]
    log = written(tmp_path, lines)
    assert lines_with_credentials(log) == [2, 5]
    assert lines_with_credentials(log, from_byte=len(lines[0]) + len(lines[1]) + 2) == [5]
    assert lines_with_credentials(tmp_path / "none.log") == []
    # What follows the name of an object is none, what follows a name of its own is.
    about = written(tmp_path, ["secret shop/token-1: conflict", "token-1: hunter2hunter2", "secrets: The user aborted"])
    assert lines_with_credentials(about) == [2]
    # What is redacted already is none.
    assert lines_with_credentials(written(tmp_path, ["password=[redacted]"])) == []


def test_panics_stacks_and_errors_that_repeat(tmp_path: Path) -> None:
    log = tmp_path / "operator.log"
    lines = [
        "starting",
        'E0101 12:00:00.1 1 a.go:7] "Observed a panic" panic="nil map"',
        "Traceback (most recent call last):",
        '  File "a.py", line 3',
        *(f'{{"level":"error","msg":"lookup of web-{number} failed"}}' for number in range(5)),
        '{"level":"error","msg":"the object has been modified"}',
        *(f'E0101 12:00:00.1 1 a.go:7] "Error" err="read version: {v} is not as new as {v + 9}"' for v in range(9)),
        "level=error something else",
        "I0101 errors are counted",
    ]
    log.write_text("\n".join(lines) + "\n")
    facts = log_files.facts(log)
    assert (facts.lines, facts.size) == (len(lines), log.stat().st_size)
    assert (facts.panics, facts.traces) == ([2], [3])
    assert (facts.errors, "web-0" in facts.error) == (5, True)
    rest = log_files.facts(log, from_byte=len("starting\n") + len(lines[1]) + 1)
    assert (rest.panics, rest.traces) == ([], [3])
    assert log_files.facts(tmp_path / "none").lines == 0


JAVA = [
    "[ReconcilerExecutor-1] WARN EventProcessor - Uncaught error during event processing",
    "io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: PATCH at: https://a/b. {}",
    "\tat io.fabric8.kubernetes.client.dsl.internal.OperationSupport.waitForResult(OperationSupport.java:507)",
    "\tat java.base/java.lang.Thread.run(Thread.java:840)",
    "Caused by: io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: PATCH. {}",
    "\tat io.vertx.core.http.impl.Http1xClientConnection$StreamImpl.lambda$new$0(Http1xClientConnection.java:448)",
    "\t... 14 more",
]
DOTNET = [
    "Unhandled exception. System.InvalidOperationException: {}",
    "   at Shop.Operator.Program.Main(String[] args) in /src/Program.cs:line 12",
    "   at Shop.Operator.Program.<Main>(String[] args)",
]
NODE = ["Error: {}", "    at reconcile (/app/dist/index.js:14:11)", "    at async /app/dist/index.js:40:3"]
PYTHON = ["Traceback (most recent call last):", '  File "a.py", line 3, in b', "    c()", "ValueError: {}"]


@pytest.mark.parametrize("stack", [JAVA, DOTNET, NODE, PYTHON])
def test_an_exception_counts_once_and_not_where_it_passes_by_itself(stack: list[str], tmp_path: Path) -> None:
    wrong = [line.format("no such unit") for line in stack]
    passing = [line.format('shops.example.com "a" not found') for line in stack]
    begin = 2 if stack is JAVA else 1
    facts = log_files.facts(written(tmp_path, [*wrong, "reconciled", *passing, "reconciled", *wrong]))
    assert facts.traces == [begin, begin + 2 * (len(stack) + 1)]
    assert "no such unit" in facts.exception
    assert facts.errors == (0 if stack is DOTNET else 2)


@pytest.mark.parametrize(
    ("line", "is_out"),
    [
        ('Exception in thread "pool-5-thread-16" java.lang.OutOfMemoryError: Java heap space', True),
        ("Terminating due to java.lang.OutOfMemoryError: Java heap space", True),
        ("Out of memory. System.OutOfMemoryException was thrown.", True),
        ("FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory", True),
        ("fatal error: runtime: out of memory", True),
        ("Picked up JAVA_TOOL_OPTIONS: -XX:+ExitOnOutOfMemoryError", False),
        ("pod web-0 was OOMKilled: out of memory", False),
    ],
)
def test_a_runtime_that_has_no_memory_left(line: str, is_out: bool, tmp_path: Path) -> None:
    facts = log_files.facts(written(tmp_path, ["starting", line]))
    assert facts.out_of_memory == ([2] if is_out else [])
    assert facts.traces == []


def test_the_reason_of_an_exception_stands_without_its_stack(tmp_path: Path) -> None:
    log = [*(line.format("no such unit") for line in JAVA), "stopped"]
    left_out = "… 1 lines of stacks"
    assert last_lines(written(tmp_path, log), 30) == [*log[:3], left_out, *log[4:6], left_out, "stopped"]


def test_an_error_that_is_shown_is_redacted(tmp_path: Path) -> None:
    log = tmp_path / "operator.log"
    log.write_text("level=error password=hunter2hunter2 was refused\n" * 3)
    assert "hunter2" not in log_files.facts(log).error


def test_an_error_that_mostly_passes_counts_where_it_does_not_pass(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    line = (
        'E1124 14:33:{:02d}.891436    8235 c.go:497] "Reconciler error" err="b {} not found" reconcileID="36d4add{}"\n'
    )
    path.write_text("".join(line.format(n, n, n) for n in range(30)))
    assert log_files.facts(path).errors == 0
    path.write_text("".join(line.format(n, n % 3, n) for n in range(30)))
    assert log_files.facts(path).errors == 30


def test_an_exception_of_python_in_a_line_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("".join(f"('n', 'task-{n}'): TypeError('f() takes no argument')\n" for n in range(30)))
    assert log_files.facts(path).errors == 30


def test_lines_in_json_are_the_same_where_their_error_is(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    fields = '"controller":"cache","controllerGroup":"store.example.com","Cache":{{"name":"c-{0}"}},"name":"c-{0}"'
    line = '{{"level":"error","ts":"2026-11-25T22:57:11Z","msg":"Reconciler error",' + fields + ',"error":"{1}"}}\n'
    path.write_text("".join(line.format(n, "no route" if n % 3 else f"c-{n} is not ready yet") for n in range(30)))
    facts = log_files.facts(path)
    assert (facts.errors, facts.error) == (20, "Reconciler error: no route")
