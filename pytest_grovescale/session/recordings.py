"""A test's recording: the recorder process that writes it, its initial records, and the Prometheus beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pytest

from .. import __version__, log_files, options, redaction
from ..analysis.analyse import RECORDINGS
from ..cluster import state
from ..cluster.handle import Cluster
from ..endpoints import Address
from ..kube.portal import Portal
from ..operator.fault_proxy import log_of
from ..operator.handle import Operator
from ..operator.pods.operator import OperatorPods
from ..operator.schema import OperatorDefinition
from ..options import Settings
from ..procfs import started_ticks
from ..prometheus import opening
from ..prometheus.opening import Occasion, Target
from ..prometheus.statistics import Live
from ..recording import records
from ..recording.journal import SUFFIX, name_of
from ..recording.machine import machine
from ..recording.recorder import Recorder, RecorderConfig
from ..recording.records import ReconcileCounter
from .run_folder import RunFolder, is_open, recorder_log
from .test_config import measured, node_id, operator_parameters


def conclude_without_controller(folder: RunFolder) -> None:
    """Start a process that writes a run's result, where this is an xdist worker whose controller has died."""
    if (folder.path / RECORDINGS).is_dir() and not is_open(folder.path):
        _start_conclusion(folder, _conclusion(folder))


def conclude_in_background(folder: RunFolder) -> None:
    """Start a process that writes a run's result, where this one is terminated before it has written it."""
    _start_conclusion(folder, _analyse(folder))


def _start_conclusion(folder: RunFolder, command: Sequence[str]) -> None:
    with log_files.appending(folder.part("logs") / "analyse.log") as log:
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def _conclusion(folder: RunFolder) -> tuple[str, ...]:
    return _analyse(folder, "--unless-open")


def _analyse(folder: RunFolder, *options: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "pytest_grovescale.cli", "analyse", *options, str(folder.path))


def start_recorder(
    item: pytest.Item,
    cluster: Cluster,
    definition: OperatorDefinition | None,
    *,
    run_id: str,
    folder: RunFolder,
    parameters: Mapping[str, str],
    contention_limit: float,
    profiled: bool,
    faults: bool,
) -> Recorder:
    """Start recording one run of a test. A rerun has a recording of its own. Raises RecordingError."""
    nodeid = node_id(item)
    name = folder.claim(nodeid)
    opened = records.Opened(
        at=0,
        schema_version=records.SCHEMA_VERSION,
        run=run_id,
        test=f"{measured(nodeid)}[profiled]" if profiled else nodeid,
        version=__version__,
        machine=machine(),
        cluster=redaction.parameters(cluster.facts),
        identities=cluster.identities | ({"operator": definition.user} if definition else {}),
        parameters=redaction.parameters({**operator_parameters(definition), **parameters}),
        command=options.repeating(item.config, measured(nodeid)),
        audited=cluster.audit_log is not None,
        profiled=profiled,
        contention_limit=contention_limit,
        findings_off=definition.findings if definition else {},
        reconciles=reconcile_counter(definition),
        simulated_nodes=cluster.pools,
    )
    config = RecorderConfig(
        journal=str(folder.part(RECORDINGS) / f"{name}{SUFFIX}"),
        run_folder=str(folder.path),
        opened=opened,
        access=cluster.access_as("recorder"),
        audit_log=str(cluster.audit_log or ""),
        fault_log=str(log_of(cluster)) if faults else "",
        processes_file=str(cluster.processes_file),
        extra_processes={"harness": (os.getpid(), started_ticks(os.getpid()))},
        # Runs when this process has been killed: measurements until then become a result.
        after_close=_conclusion(folder),
    )
    recorder = Recorder.start(config, log=recorder_log(folder, name))
    for file in _component_files(cluster):
        recorder.measure_file(file)
    return recorder


def processes_files(cluster: Cluster, operator: Operator | None) -> list[Path]:
    """Return the process lists that a recorder measures: the cluster's, and those of the operator's pods."""
    pods = [operator.processes_file] if isinstance(operator, OperatorPods) else []
    return [cluster.processes_file, *_component_files(cluster), *pods]


def reconcile_counter(definition: OperatorDefinition | None) -> ReconcileCounter | None:
    """Return the counter of reconciles that a definition names."""
    if definition is None or definition.reconciles is None:
        return None
    return ReconcileCounter(**msgspec.structs.asdict(definition.reconciles), controller=definition.name)


def _component_files(cluster: Cluster) -> list[Path]:
    """Return the process lists of control plane components that our supervisor did not start: a container's."""
    return [cluster.directory / state.CONTAINER_PROCESSES] if cluster.container is not None else []


def occasion(recorder: Recorder, nodeid: str, settings: Settings, *, run_id: str, folder: RunFolder) -> Occasion:
    """Return the context of a Prometheus start, and the folder of its output."""
    name = name_of(recorder.journal)
    return Occasion(
        run=run_id,
        test=nodeid,
        folder=folder.path / "prometheus" / name,
        log=folder.part("logs") / f"prometheus-{name}.log",
        interval_s=settings.prometheus_interval_s,
    )


def opened(
    wanted: str,
    cluster: Cluster,
    portal: Portal,
    targets: Mapping[str, Target],
    occasion: Occasion,
    recorder: Recorder,
    settings: Settings,
    say: opening.Progress,
    coming: Sequence[opening.Coming] = (),
) -> AbstractContextManager[Live]:
    """Return the Prometheus of a test: ``start`` or ``keep`` one, or connect to a URL.

    One of its own scrapes ``targets`` and those ``coming``.
    """
    if wanted in ("start", "keep"):
        return opening.own(
            cluster,
            portal,
            targets,
            occasion,
            keep=wanted == "keep",
            progress=say,
            report=lambda lines: recorder.lines("prometheus", lines) if recorder.alive() else None,
            coming=coming,
        )
    address = Address(url=wanted, token_file=settings.prometheus_token, ca_file=settings.prometheus_ca)
    return opening.there(address, portal, occasion, progress=say)
