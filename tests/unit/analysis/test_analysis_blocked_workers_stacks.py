"""Stack dumps of all kinds: which of them are workers inside a reconcile, and on which line they wait."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.blocked_workers import (
    Frame,
    Stack,
    read_dump,
    stack_groups,
    waiting_line,
    waiting_workers,
)

GO = """\
goroutine 1 [select, 3 minutes]:
sigs.k8s.io/controller-runtime/pkg/manager.(*controllerManager).Start(0xc0003ea000, {0x23b6a30, 0xc00052e4b0})
\tsigs.k8s.io/controller-runtime@v0.20.4/pkg/manager/internal.go:455 +0xb4b
main.main()
\texample.com/kaito/cmd/main.go:87 +0x12a

goroutine 231 [sleep]:
time.Sleep(0x3b9aca00)
\truntime/time.go:338 +0x145
k8s.io/apimachinery/pkg/util/wait.PollUntilContextTimeout({0x23b6a30, 0xc00052e4b0}, 0x3b9aca00, {0x1, ...})
\tk8s.io/apimachinery@v0.32.3/pkg/util/wait/poll.go:48 +0x85
example.com/kaito/pkg/controllers.(*Reconciler).ensureNodePlugins(0xc00052e4b0, {0x23b6a30, 0xc0002})
\texample.com/kaito/pkg/controllers/plugins.go:112 +0x2b7
example.com/kaito/pkg/controllers.(*Reconciler).Reconcile(0xc00052e4b0)
\texample.com/kaito/pkg/controllers/reconciler.go:64 +0x44
sigs.k8s.io/controller-runtime/pkg/internal/controller.(*Controller[...]).reconcileHandler(0x23f1a00)
\tsigs.k8s.io/controller-runtime@v0.20.4/pkg/internal/controller/controller.go:316 +0x3a5
created by sigs.k8s.io/controller-runtime/pkg/internal/controller.(*Controller[...]).Start.func2 in goroutine 178
\tsigs.k8s.io/controller-runtime@v0.20.4/pkg/internal/controller/controller.go:224 +0x5b0
"""
IDLE_GO = """\
goroutine 77 [sync.Cond.Wait, 2 minutes]:
sync.runtime_notifyListWait(0xc0002e4450, 0x1)
\t/usr/local/go/src/runtime/sema.go:597 +0x159
k8s.io/client-go/util/workqueue.(*Typed[...]).Get(0x2a0e080)
\t/go/pkg/mod/k8s.io/client-go@v0.32.3/util/workqueue/queue.go:277 +0x8b
example.com/op/controller.(*Controller).processNextWorkItem(0xc0001)
\t/src/controller/controller.go:97 +0x3a
"""
PYSPY = """\
Process 4711: python -m operator
Python v3.11.7 (/usr/bin/python3.11)

Thread 4711 (idle): "MainThread"
    select (/usr/lib/python3.11/selectors.py:468)
    _run_once (/usr/lib/python3.11/asyncio/base_events.py:1884)
    <module> (/src/op/__main__.py:3)
Thread 4712 (idle): "worker-0"
    wait (/usr/lib/python3.11/threading.py:324)
    wait_ready (/srv/lib/python3.11/site-packages/kr8s/_objects.py:501)
    ensure_plugins (/src/op/plugins.py:31)
    reconcile (/src/op/reconciler.py:12)
    _work (/src/op/controller.py:70)
    run (/usr/lib/python3.11/threading.py:982)
Thread 4713 (idle): "worker-1"
    wait (/usr/lib/python3.11/threading.py:324)
    get (/usr/lib/python3.11/queue.py:171)
    _work (/src/op/controller.py:69)
"""
FAULTHANDLER = """\
Thread 0x00007f19c2ffd640 (most recent call first):
  File "/src/op/plugins.py", line 31 in ensure_plugins
  File "/src/op/reconciler.py", line 12 in reconcile
  File "/src/op/controller.py", line 70 in _work
"""
TRACEBACK = """\
Task podcliqueset-3 (most recent call last):
  File "/src/op/controller.py", line 70, in Controller._work
    result = await self._reconcile(key)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/src/op/plugins.py", line 31, in ensure_plugins
    await asyncio.sleep(POLL_S)
  File "/usr/lib/python3.11/asyncio/tasks.py", line 649, in sleep
    return await future
"""


def places(text: str) -> list[tuple[int, str, str, int]]:
    groups = waiting_workers(read_dump(text.splitlines()))
    return [(group.count, group.line.function, group.line.file, group.line.line) for group in groups]


def test_goroutines_wait_on_a_line_of_the_operators_own() -> None:
    (group,) = waiting_workers(read_dump(GO.splitlines()))
    assert (group.count, group.state) == (1, "sleep")
    assert group.line == Frame(
        "example.com/kaito/pkg/controllers.(*Reconciler).ensureNodePlugins",
        "example.com/kaito/pkg/controllers/plugins.go",
        112,
    )
    assert len(group.frames) == 5


def test_equal_goroutines_are_one_group_whatever_their_arguments() -> None:
    another = GO.replace("goroutine 231", "goroutine 232").replace("0x23b6a30", "0xc0ffee0")
    other_place = GO.replace("plugins.go:112", "plugins.go:140")
    found = places("\n".join([GO, other_place, another]))
    assert [(count, line) for count, _, _, line in found] == [(2, 112), (1, 140)]


def test_workers_that_wait_for_a_key_are_idle() -> None:
    assert places(IDLE_GO) == []


def test_threads() -> None:
    assert places(PYSPY) == [(1, "ensure_plugins", "/src/op/plugins.py", 31)]


def test_workers_that_compute_do_not_wait() -> None:
    assert places(GO.replace("[sleep]", "[running]")) == []
    assert places(PYSPY.replace("(idle)", "(active+gil)")) == []


def test_what_python_prints_itself() -> None:
    assert places(FAULTHANDLER) == [(1, "ensure_plugins", "/src/op/plugins.py", 31)]
    (group,) = waiting_workers(read_dump(TRACEBACK.splitlines()))
    assert group.line == Frame("ensure_plugins", "/src/op/plugins.py", 31, "await asyncio.sleep(POLL_S)")
    assert group.frames[0].function == "sleep"


def test_several_dumps_in_one_text() -> None:
    text = "\n".join([TRACEBACK, "# py-spy is not permitted to read the process.", "", PYSPY, GO])
    assert [stack.name for stack in read_dump(text.splitlines())] == [
        "Task podcliqueset-3",
        "MainThread",
        "worker-0",
        "worker-1",
        "goroutine 1",
        "goroutine 231",
    ]


@pytest.mark.parametrize(
    ("files", "waits_at"),
    [
        # Innermost first. An operator that is installed as a package: its own package's line.
        (("asyncio/tasks.py", "aiohttp/client.py", "myop/plugins.py", "myop/worker.py"), "myop/plugins.py"),
        (
            (
                "/usr/lib/python3.12/asyncio/tasks.py",
                "/venv/lib/python3.12/site-packages/aiohttp/client.py",
                "/venv/lib/python3.12/site-packages/myop/plugins.py",
                "/venv/lib/python3.12/site-packages/myop/worker.py",
            ),
            "/venv/lib/python3.12/site-packages/myop/plugins.py",
        ),
        # Handlers of its own in a framework that is installed.
        (
            (
                "/usr/lib/python3.12/threading.py",
                "/src/handlers.py",
                "/venv/lib/python3.12/site-packages/kopf/_core/invocation.py",
            ),
            "/src/handlers.py",
        ),
        # Nothing but Python's own.
        (("/usr/lib/python3.12/queue.py", "/usr/lib/python3.12/threading.py"), "/usr/lib/python3.12/queue.py"),
        # A main module without a dot in its path, and one in a vendored build.
        (("/usr/local/go/src/runtime/time.go", "operator/plugins.go"), "operator/plugins.go"),
        (("/w/vendor/k8s.io/client-go/util/wait.go", "/w/internal/plugins.go"), "/w/internal/plugins.go"),
    ],
)
def test_the_waiting_line_is_the_operators_own(files: tuple[str, ...], waits_at: str) -> None:
    names = {"/usr/local/go/src/runtime/time.go": "time.Sleep", "operator/plugins.go": "operator/plugins.Ensure"}
    frames = [Frame(names.get(file, "main.f" if file.endswith(".go") else "f"), file, 1) for file in files]
    assert waiting_line(frames).file == waits_at


@given(st.lists(st.sampled_from([*GO.splitlines(), *PYSPY.splitlines(), *TRACEBACK.splitlines(), "\x00", "goroutine"])))
def test_no_mixture_of_lines_is_too_much(lines: list[str]) -> None:
    for stack in read_dump(lines):
        assert stack.frames
        assert waiting_line(stack.frames) in stack.frames
    waiting_workers(read_dump(lines))


@given(st.text())
def test_nor_any_text(text: str) -> None:
    waiting_workers(read_dump(text.splitlines()))
    waiting_workers([Stack(name="x", frames=(Frame(text or "reconcile", text, 0),))])


def test_a_dump_is_groups_of_equal_stacks_workers_first(snapshot: SnapshotAssertion) -> None:
    computing = GO.replace("231 [sleep]", "233 [running]").replace("plugins.go:112", "plugins.go:140")
    another = GO.replace("goroutine 231", "goroutine 232").replace("0x23b6a30", "0xc0ffee0")
    found = stack_groups(read_dump("\n".join([GO, another, computing, IDLE_GO, PYSPY]).splitlines()))
    assert [(one.kind, one.count, one.of, one.waits_for_key, one.function, one.state) for one in found] == [
        ("reconcile worker", 2, 6, False, "controllers.(*Reconciler).ensureNodePlugins", "sleep"),
        ("reconcile worker", 1, 6, False, "controllers.(*Reconciler).ensureNodePlugins", "running"),
        ("reconcile worker", 1, 6, False, "plugins.ensure_plugins", "idle"),
        ("reconcile worker", 1, 6, True, "controller.(*Controller).processNextWorkItem", "sync.Cond.Wait"),
        ("reconcile worker", 1, 6, True, "controller._work", "idle"),
        ("goroutine", 3, 3, False, "main.main", "select"),
        ("thread", 1, 1, False, "__main__.<module>", "idle"),
    ]
    assert found[0].place.endswith("/plugins.go:112")
    assert "\n".join(one.place for one in found) == snapshot
    assert len(found[0].frames) == 5


def test_a_stack_that_is_cut_off_keeps_what_it_has() -> None:
    cut = textwrap.dedent(GO).splitlines()[:9]
    assert [len(stack.frames) for stack in read_dump(cut)] == [2, 1]
