"""An operator's start and end on a real control plane, with real processes."""

from __future__ import annotations

import os
import re
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_grovescale import procfs
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.endpoints import Address
from pytest_grovescale.errors import OperatorError
from pytest_grovescale.kube.access import from_kubeconfig
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.errors import Forbidden
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.operator import operator_state
from pytest_grovescale.operator import start as operators
from pytest_grovescale.operator.definition import OperatorDefinition, load
from pytest_grovescale.operator.handle import Operator
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

DATA = Path(__file__).parents[1] / "data/operators"


def plain(**values: str) -> OperatorDefinition:
    return load(str(DATA / "plain.yaml"), values=values)


def start(cluster: Cluster, folder: Path, definition: OperatorDefinition | None = None, **others: Any) -> Operator:
    said: list[str] = []
    return operators.start(definition or plain(), cluster, directory=folder / "logs", progress=said.append, **others)


@pytest.fixture
def operator(cluster: Cluster, tmp_path: Path) -> Iterator[Operator]:
    running = start(cluster, tmp_path)
    yield running
    running.stop()


def metrics_url(operator: Operator) -> str:
    assert isinstance(operator.metrics, Address)
    return operator.metrics.url


def private_folder(cluster: Cluster) -> Path:
    return cluster.directory / operator_state.PROCESS


def exited(operator: Operator) -> str:
    """Return how the process ended, once the supervisor has noticed."""
    wait_until(lambda: not operator.alive(), "the end of the process")
    return operator.describe_exit()


def test_ready_operator_answers_and_is_known(operator: Operator, tmp_path: Path) -> None:
    assert operator.alive()
    operator.check()
    with urllib.request.urlopen(metrics_url(operator)) as answer:
        assert answer.read() == b"plain_up 1\n"
    assert operator.tail(2) == ["line 38", "line 39"]
    assert operator.log == tmp_path / "logs/operator.log"
    assert operator.identity == "system:serviceaccount:grovescale-plain:plain"
    assert operator.trigger == "grovescale.io/reconcile-trigger"


def test_credentials_are_private_its_own_and_not_among_the_logs(
    operator: Operator, cluster: Cluster, tmp_path: Path
) -> None:
    folder = private_folder(cluster)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for name in ("kubeconfig", "token"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    config = yaml.safe_load((folder / "kubeconfig").read_text())
    assert config["users"] == [{"name": "plain", "user": {"token": (folder / "token").read_text()}}]
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["operator.log"]


async def _may(client: Client) -> dict[str, bool]:
    """Return what an identity may do, by doing it."""
    may: dict[str, bool] = {}
    for name in ("configmaps", "secrets", "nodes"):
        resource = await client.resource(name)
        try:
            await client.list(resource)
        except Forbidden:
            may[f"list {name}"] = False
        else:
            may[f"list {name}"] = True
    try:
        await client.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}}
        )
    except Forbidden:
        may["create configmaps"] = False
    else:
        may["create configmaps"] = True
    return may


def test_identity_may_do_what_is_granted_and_nothing_else(operator: Operator, cluster: Cluster) -> None:
    with Portal() as portal:
        client = portal.client(from_kubeconfig(private_folder(cluster) / "kubeconfig"))
        may = portal.run(_may(client))
    assert may == {
        "list configmaps": True,
        "list secrets": False,
        "list nodes": False,
        "create configmaps": False,
    }


def test_early_death_reports_code_and_last_lines(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as raised:
        start(cluster, tmp_path, plain(die="3"))
    message = raised.value.message
    assert "operator plain exited with code 3" in message
    assert message.splitlines()[-1].strip() == "cannot start: no luck"
    assert len(message.splitlines()) == 2 + 30
    assert "line 10" not in message
    assert str(tmp_path / "logs/operator.log") in raised.value.next_step
    assert not private_folder(cluster).exists()


DAEMON = """
import os, pathlib, time
read, write = os.pipe()
if os.fork():
    os.read(read, 1)
    os._exit(0)
os.setsid()
pathlib.Path("PID").write_text(str(os.getpid()))
os.write(write, b".")
time.sleep(600)
"""


def test_an_operator_that_daemonizes_is_ended_and_the_message_says_what_to_change(
    cluster: Cluster, tmp_path: Path
) -> None:
    pid, file = tmp_path / "pid", tmp_path / "daemon.yaml"
    command = ["{python}", "-c", DAEMON.replace("PID", str(pid))]
    file.write_text(yaml.safe_dump({"name": "daemon", "command": command, "readiness": {"log": "ready"}}))
    with pytest.raises(OperatorError, match="exited with code 0") as raised:
        start(cluster, tmp_path, load(str(file)))
    assert "foreground" in raised.value.next_step
    # It wrote nothing: there is no log to look at.
    assert "operator.log" not in raised.value.next_step
    number = int(pid.read_text())
    wait_until(lambda: not procfs.started_ticks(number), "the daemon has ended")


def test_token_that_it_prints_is_not_repeated(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as raised:
        start(cluster, tmp_path, plain(die="3", print_token="yes"))
    assert "my token is [redacted]" in raised.value.message


def test_command_that_is_not_there(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="operator plain exited with code 2"):
        start(cluster, tmp_path, plain(program="nowhere.py"))


def test_program_that_is_not_there(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "lost.yaml"
    file.write_text(
        "name: lost\ncommand: [/no/such/program, --port, '{health_port}']\n"
        "readiness: {url: 'http://127.0.0.1:{health_port}/readyz'}\n"
    )
    with pytest.raises(OperatorError) as raised:
        start(cluster, tmp_path, load(str(file)))
    assert "/no/such/program" in str(raised.value)
    assert operators.join(cluster) is None


def test_not_ready_in_time_reports_the_last_answer(cluster: Cluster, tmp_path: Path) -> None:
    text = (DATA / "plain.yaml").read_text().replace("timeout: 20s", "timeout: 1s").replace("workdir: .", "")
    file = tmp_path / "plain.yaml"
    file.write_text(text)
    definition = load(str(file), values={"ready": "no", "program": str(DATA / "plain_operator.py")})
    with pytest.raises(OperatorError) as raised:
        start(cluster, tmp_path, definition)
    assert "was not ready after 1.00 s" in raised.value.message
    assert "/readyz answered 503: caches" in raised.value.message
    assert "line 39" in raised.value.message
    assert not cluster.processes()[operator_state.PROCESS].running


def test_an_operator_that_listens_elsewhere_is_not_ready_for_that_reason(cluster: Cluster, tmp_path: Path) -> None:
    program = tmp_path / "elsewhere.py"
    program.write_text(
        "import http.server\nserver = http.server.HTTPServer(('127.0.0.1', 0), http.server.BaseHTTPRequestHandler)\n"
        "print('port', server.server_port, flush=True)\nserver.serve_forever()\n"
    )
    file = tmp_path / "elsewhere.yaml"
    readiness = {"url": "http://127.0.0.1:{health_port}/readyz", "timeout": "2s"}
    command = ["{python}", str(program), "{health_port}"]
    file.write_text(yaml.safe_dump({"name": "elsewhere", "command": command, "readiness": readiness}))
    with pytest.raises(OperatorError) as raised:
        start(cluster, tmp_path, load(str(file)))
    (port,) = re.findall(r"port (\d+)$", raised.value.message, re.MULTILINE)
    assert f"on {port}, not on" in raised.value.next_step


def test_limits_and_environment_reach_the_process(cluster: Cluster, tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    content = yaml.safe_load((DATA / "plain.yaml").read_text())
    content |= {"workdir": str(DATA), "env": {"LEVEL": "x-{ready}"}, "limits": {"cores": [core], "gomaxprocs": 1}}
    file = tmp_path / "plain.yaml"
    file.write_text(yaml.safe_dump(content))
    operator = start(cluster, tmp_path, load(str(file)))
    try:
        info = operator.info()
        assert info
        assert os.sched_getaffinity(info.pid) == {core}
        pairs = Path(f"/proc/{info.pid}/environ").read_text().rstrip("\0").split("\0")
        environment = dict(pair.split("=", 1) for pair in pairs)
        assert environment["LEVEL"] == "x-yes"
        assert environment["GOMAXPROCS"] == "1"
        assert environment["KUBECONFIG"] == str(private_folder(cluster) / "kubeconfig")
    finally:
        operator.stop()


def test_memory_above_its_limit_is_the_end(cluster: Cluster, tmp_path: Path) -> None:
    content = yaml.safe_load((DATA / "plain.yaml").read_text())
    content |= {"workdir": str(DATA), "limits": {"memory": "1Mi"}}
    file = tmp_path / "plain.yaml"
    file.write_text(yaml.safe_dump(content))
    definition = load(str(file), values={"ready": "no"})
    with pytest.raises(OperatorError, match=r"(?s)limits\.memory.* 1 MB"):
        start(cluster, tmp_path, definition)


def test_crash_after_ready_is_seen(operator: Operator) -> None:
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        urllib.request.urlopen(metrics_url(operator).replace("/metrics", "/exit/7"))
    assert exited(operator) == "exited with code 7"
    with pytest.raises(OperatorError, match=r"(?s)with code 7 .*asked to exit"):
        operator.check()


def test_restart_is_a_new_process_at_the_same_place(operator: Operator, cluster: Cluster) -> None:
    before = operator.info()
    operator.restart()
    after = operator.info()
    assert before
    assert after
    assert after.running
    assert after.pid != before.pid
    with urllib.request.urlopen(metrics_url(operator)) as answer:
        assert answer.status == 200
    assert operator.tail(1000).count("line 0") == 2


def test_stop_leaves_no_process_and_no_credentials(cluster: Cluster, tmp_path: Path) -> None:
    operator = start(cluster, tmp_path)
    operator.stop()
    assert not operator.alive()
    assert not private_folder(cluster).exists()
    assert operators.join(cluster) is None
    operator.stop()


def test_each_start_has_a_log_of_its_own(cluster: Cluster, tmp_path: Path) -> None:
    logs = []
    for _ in range(2):
        operator = start(cluster, tmp_path)
        logs.append(operator.log.name)
        operator.stop()
    assert logs == ["operator.log", "operator-2.log"]


def test_one_operator_per_cluster(operator: Operator, cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="already runs the operator plain"):
        start(cluster, tmp_path)
    with pytest.raises(OperatorError, match="already runs the operator plain"):
        start(cluster, tmp_path, plain(die="0"), others="share")
    assert operator.alive()


def test_shared_operator_lives_until_the_last_has_left(operator: Operator, cluster: Cluster, tmp_path: Path) -> None:
    second = start(cluster, tmp_path, others="share")
    third = operators.join(cluster)
    assert third is not None
    assert second.info() == third.info() == operator.info()
    operator.stop()
    second.stop()
    assert third.alive()
    third.stop()
    assert not third.alive()


def test_replaced_operator_is_gone(operator: Operator, cluster: Cluster, tmp_path: Path) -> None:
    before = operator.info()
    second = start(cluster, tmp_path, others="replace")
    after = second.info()
    assert before
    assert after
    assert before.pid != after.pid
    second.stop()


def test_what_a_dead_run_left_is_no_obstacle(operator: Operator, cluster: Cluster, tmp_path: Path) -> None:
    """The state file of an operator that was killed from outside does not keep the next one from starting."""
    cluster.stop_process(operator.process)
    assert operators.join(cluster) is None
    second = start(cluster, tmp_path)
    assert second.alive()
    second.stop()
