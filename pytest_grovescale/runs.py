"""One pytest session's run: its folder, cluster, operator, and the scale tests in it.

What pytest gives (config, items, requests) ends here; the rooms below know nothing of it.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import os
import re
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from . import __version__
from .bench.baselines import Baselines, check_name
from .checks.account import account, line
from .checks.metrics.shape import Coexistence
from .cluster import handle, turns
from .cluster.definition import load_definition
from .cluster.handle import Cluster, UnsupportedPlatform
from .conclusion import UNJUDGED, baselines_of, conclude, tell_unjudged
from .errors import GrovescaleError, InconclusiveWarning, UsageError
from .fixtures import BUDGET
from .kube.portal import Portal
from .operator import process as operator_process
from .operator.definition import OperatorDefinition
from .operator.endpoints import Address
from .operator.process import Operator
from .options import Settings
from .prometheus import opening
from .prometheus.live import Live
from .recording import records
from .recording.machine import machine
from .recording.processes import started_ticks
from .recording.profiling.plan import Profiler, plan
from .recording.recorder import ProfileTarget, Recorder, RecorderConfig, ScrapeTarget
from .recording.scraping.targets import OfProcess
from .report import junit, progress
from .scenario import windows
from .scenario.budget import TEST, Budget
from .scenario.scale import Scale
from .wanted import Wanted, measured, operator_parameters
from .workload import namespace as namespaces


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Turn our own errors in a fixture into one clear failure, without the frames in between."""
    try:
        yield
    except GrovescaleError as error:
        told = error
    else:
        return
    if isinstance(told, UnsupportedPlatform):
        raise pytest.skip.Exception(str(told)) from None
    # Without its context, which pytest would show as a second error of the same text.
    raise pytest.fail.Exception(str(told), pytrace=False) from None


@contextlib.contextmanager
def _usage() -> Iterator[None]:
    """Turn our own errors, while pytest starts, into its own for a wrong command line."""
    try:
        yield
    except GrovescaleError as error:
        raise pytest.UsageError(str(error)) from None


class Run:
    """What lives as long as the pytest session. Every part is made when it is first needed."""

    def __init__(self, config: pytest.Config, settings: Settings, *, run_id: str = "") -> None:
        self.settings = settings
        # Not the environment's word for it: that also reaches a pytest which a worker's test has started.
        self.worker: str = getattr(config, "workerinput", {}).get("workerid", "")
        self.id = run_id or _new_id()
        self.folder = settings.reports / self.id
        for name in filter(None, (settings.save, settings.compare)):
            with _usage():
                check_name(name)
        self._baselines = Baselines(config.rootpath)
        self._screen = _screen(config)
        self.progress = progress.Progress(self._screen, quiet=bool(self.worker) or config.get_verbosity() < 0)
        self._cluster: tuple[str, Cluster] | None = None
        self._operator: tuple[str, Operator] | None = None
        self._portal: Portal | None = None
        self._scale: Scale | None = None

    # ---- what fixtures open

    @contextlib.contextmanager
    def turn(self, *, measured: bool) -> Iterator[None]:
        """Wait for, and hold, this test's turn on the machine."""
        with turns.exclusive(self.progress.say) if measured else turns.shared(self.progress.say):
            yield

    def cluster(self, item: pytest.Function) -> Cluster:
        """Return the cluster that a test asks for, started if it is not there."""
        with _told():
            wanted = Wanted.of(item, self.settings)
            if self._cluster is not None and self._cluster[0] == wanted.cluster_key:
                return self._cluster[1]
            if {"scale", "grovescale_operator"} & set(item.fixturenames):
                # Checked before anything starts: a wrong file must not cost a cluster.
                wanted.definition(item)
            self._drop_cluster()
            cluster = self._find_cluster(wanted, base=item.path.parent)
            self._cluster = (wanted.cluster_key, cluster)
            return cluster

    @contextlib.contextmanager
    def operator(self, item: pytest.Function, cluster: Cluster) -> Iterator[Operator]:
        """Yield the operator that a test asks for, running and ready."""
        wanted = Wanted.of(item, self.settings)
        with _told():
            definition = wanted.definition(item)
            if definition is None:
                raise UsageError(
                    "the test asks for an operator and for none", next_step="Leave grovescale_operator or `none` out."
                )
            per_session = (wanted.start or definition.start) == "session"
            alone = "scale" in item.fixturenames
            operator = self._find_operator(definition, cluster, wanted.operator_key, alone=alone)
        yield operator
        if not per_session:
            self._drop_operator()

    def _find_operator(self, definition: OperatorDefinition, cluster: Cluster, key: str, *, alone: bool) -> Operator:
        if self._operator is not None:
            if self._operator[0] == key and self._operator[1].alive():
                return self._operator[1]
            self._drop_operator()
        operator = operator_process.start(
            definition,
            cluster,
            directory=self._made("logs"),
            progress=self.progress.say,
            # A test that measures has its turn alone: whoever else left an operator needs it no more.
            others="replace" if alone else "share",
        )
        self._operator = (key, operator)
        return operator

    @contextlib.contextmanager
    def scale(self, request: pytest.FixtureRequest, cluster: Cluster, *, profiled: bool) -> Iterator[Scale]:
        """Yield one test's ``Scale``; afterwards its namespace is gone and its recording closed."""
        item = request.node
        wanted = Wanted.of(item, self.settings)
        with _told():
            if not profiled:
                self._demand_baseline(item.nodeid)
            definition = wanted.definition(item)
            recorder = self._start_recorder(item, cluster, definition, profiled=profiled)
        try:
            if self.settings.scrape == "components":
                self._scrape_components(cluster, recorder, wanted.scrape_interval_s)
            operator = self._recorded_operator(request, recorder, wanted.scrape_interval_s) if definition else None
            self._let_look_into(operator, recorder, wanted.profile, profiled=profiled)
            with self._prometheus(item, wanted.prometheus, cluster, operator, recorder) as prometheus:
                with _told():
                    scale = self._open_scale(
                        item, cluster, operator, recorder, profiled=profiled, prometheus=prometheus
                    )
                try:
                    yield scale
                finally:
                    self._scale = None
                    self._close_scale(scale)
        finally:
            recorder.stop()
        item.user_properties += junit.properties(scale.judged())

    def leaves_unjudged(self, item: pytest.Item, error: Exception) -> bool:
        """Return whether a profiled pass passes although something in its test did not hold: its phases went through.

        Noted on the item, so that the run's end can say so, whichever worker it ran on.
        """
        scale = self._scale
        if scale is None or not scale.profiled or scale.current is not None:
            return False
        outcomes = [phase.outcome for phase in scale.result().phases]
        if not outcomes or set(outcomes) != {"passed"}:
            return False
        item.user_properties.append((UNJUDGED, _first_line(error)))
        return True

    def hold_to_budget(self, item: pytest.Item) -> None:
        """Fail a test that has run by what its marker and ``budgets.yaml`` hold it to; its ``Scale`` is still open."""
        if self._scale is None or not self._scale.budget.declared or not self._scale.budget.enforced:
            return
        with _told():
            if any(isinstance(check, Coexistence) for check, _ in self._scale.budget.declared):
                self._scale.untracked()
            found = [check for check in self._scale.judged().checks if check.source != TEST]
        item.add_report_section("call", "grovescale checks", account(found))
        if failed := [check for check in found if self._scale.budget.fails(check)]:
            raise pytest.fail.Exception("\n".join(line(check) for check in failed), pytrace=False)
        for check in found:
            if check.verdict == "inconclusive":
                item.warn(InconclusiveWarning(line(check)))

    def _recorded_operator(
        self, request: pytest.FixtureRequest, recorder: Recorder, interval_s: float | None
    ) -> Operator:
        recorder.mark("operator-start", state="begin")
        operator: Operator = request.getfixturevalue("grovescale_operator")
        if operator.metrics is not None:
            recorder.add_target(
                ScrapeTarget(
                    name=operator.process,
                    place=OfProcess(process=operator.process, address=operator.metrics),
                    interval_s=operator.scrape_interval_s if interval_s is None else interval_s,
                )
            )
        recorder.mark("operator-start", state="end")
        return operator

    def _scrape_components(self, cluster: Cluster, recorder: Recorder, interval_s: float | None) -> None:
        if not cluster.metrics:
            self.progress.say(f"cluster {cluster.name} does not tell where its components serve metrics: not scraped")
        for name, address in _component_addresses(cluster).items():
            place = OfProcess(process=name, address=address)
            recorder.add_target(ScrapeTarget(name=name, place=place, interval_s=interval_s))

    def _let_look_into(
        self, operator: Operator | None, recorder: Recorder, wanted: Profiler, *, profiled: bool
    ) -> None:
        """Tell the recorder how the operator's inside is seen; skip a profiled pass that could show nothing."""
        target = _profile_target(operator, wanted)
        if isinstance(target, ProfileTarget):
            recorder.add_profile_target(target)
            if profiled:
                self.progress.say(f"pass with profilers ({target.profiler}); it measures nothing, the one before did")
        elif profiled:
            recorder.stop()
            recorder.journal.unlink()
            pytest.skip(f"nothing to profile: {target}")

    @contextlib.contextmanager
    def _prometheus(
        self, item: pytest.Item, wanted: str, cluster: Cluster, operator: Operator | None, recorder: Recorder
    ) -> Iterator[Live | None]:
        """Yield the Prometheus that a test asks for; one of its own scrapes what the recorder scrapes."""
        if wanted == "off":
            yield None
            return
        name = _file_name(item.nodeid)
        occasion = opening.Occasion(
            run=self.id,
            test=item.nodeid,
            folder=self.folder / "prometheus" / name,
            log=self._made("logs") / f"prometheus-{name}.log",
            interval_s=self.settings.prometheus_interval_s,
        )
        if wanted in ("start", "keep"):
            opened = opening.own(
                cluster,
                self.portal,
                self._scraped(cluster, operator),
                occasion,
                keep=wanted == "keep",
                progress=self.progress.say,
                told=lambda lines: recorder.lines("prometheus", lines) if recorder.alive() else None,
            )
        else:
            address = Address(
                url=wanted, token_file=self.settings.prometheus_token, ca_file=self.settings.prometheus_ca
            )
            opened = opening.there(address, self.portal, occasion, progress=self.progress.say)
        with contextlib.ExitStack() as running:
            with _told():
                live = running.enter_context(opened)
            yield live

    def _scraped(self, cluster: Cluster, operator: Operator | None) -> dict[str, opening.Target]:
        """Return what the recorder scrapes, as Prometheus is told it."""
        found = {}
        if operator is not None and operator.metrics is not None:

            def pid() -> int | None:
                info = operator.info()
                return info.pid if info is not None and info.running else None

            found[operator.process] = opening.Target(address=operator.metrics, pid=pid)
        if self.settings.scrape == "components":
            found |= {name: opening.Target(address=address) for name, address in _component_addresses(cluster).items()}
        return found

    def _open_scale(
        self,
        item: pytest.Item,
        cluster: Cluster,
        operator: Operator | None,
        recorder: Recorder,
        *,
        profiled: bool,
        prometheus: Live | None,
    ) -> Scale:
        client = self.portal.client(cluster.access_as("harness"))
        namespace = self.portal.run(namespaces.create(client, test=item.name, run_id=self.id))
        self._scale = Scale(
            run_id=self.id,
            cluster=cluster,
            operator=operator,
            recorder=recorder,
            portal=self.portal,
            client=client,
            namespace=namespace,
            progress=self.progress,
            parameters=self.settings.parameters,
            base=item.path.parent,
            longest_hold_s=math.inf if self.settings.hold_s is None else self.settings.hold_s,
            driver=windows.inherited(),
            profiled=profiled,
            prometheus=prometheus,
            budget=Budget(
                declared=() if profiled else item.stash.get(BUDGET, ()),
                enforced=self.settings.budgets,
                inconclusive=self.settings.inconclusive,
                baselines=baselines_of(self._baselines, item.nodeid),
            ),
        )
        return self._scale

    def _close_scale(self, scale: Scale) -> None:
        if self.settings.keep:
            self.progress.say(f"kept: namespace {scale.namespace} on cluster {scale.cluster.name}")
            return
        scale.recorder.mark("clean-up", state="begin", detail=scale.namespace)
        with _told():
            objects = [obj for workload in scale.workloads for obj in workload.objects]
            self.portal.run(
                namespaces.remove(
                    scale.client,
                    scale.namespace,
                    run_id=self.id,
                    objects=objects,
                    # Nobody is left to take finalizers off when the operator has died.
                    **({} if scale.operator and scale.operator.alive() else {"objects_timeout": 5.0, "timeout": 5.0}),
                    at_once=scale.cluster.backend == "local",
                    progress=self.progress.say,
                )
            )
        scale.recorder.mark("clean-up", state="end", detail=scale.namespace)

    def _start_recorder(
        self, item: pytest.Item, cluster: Cluster, definition: OperatorDefinition | None, *, profiled: bool
    ) -> Recorder:
        name = _file_name(item.nodeid)
        opened = records.Opened(
            at=0,
            schema_version=records.SCHEMA_VERSION,
            run=self.id,
            test=f"{measured(item.nodeid)}[profiled]" if profiled else item.nodeid,
            version=__version__,
            machine=machine(),
            cluster=cluster.facts,
            identities=cluster.identities | ({"operator": definition.user} if definition else {}),
            parameters={**operator_parameters(definition), **self.settings.parameters},
            audited=cluster.audit_log is not None,
            profiled=profiled,
        )
        config = RecorderConfig(
            journal=str(self._made("recordings") / f"{name}.jsonl"),
            run_folder=str(self.folder),
            opened=opened,
            access=cluster.access_as("recorder"),
            audit_log=str(cluster.audit_log or ""),
            processes_file=str(cluster.processes_file),
            extra_processes={"harness": (os.getpid(), started_ticks(os.getpid()))},
            # Runs when this process has been killed: what was measured until then becomes a result all the same.
            after_close=(sys.executable, "-m", "pytest_grovescale.cli", "analyse", str(self.folder)),
        )
        return Recorder.start(config, log=self._made("logs") / f"recorder-{name}.log")

    # ---- parts made when first needed

    @property
    def portal(self) -> Portal:
        if self._portal is None:
            self._portal = Portal()
        return self._portal

    def _made(self, part: str) -> Path:
        if not self.folder.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True)
            _point(self.settings.reports / "latest", self.folder.name)
        path = self.folder / part
        path.mkdir(exist_ok=True)
        return path

    def _find_cluster(self, wanted: Wanted, *, base: Path) -> Cluster:
        if handle.is_running(wanted.cluster):
            if wanted.kubernetes:
                raise UsageError(
                    f"cluster {wanted.cluster} runs already; its Kubernetes version cannot be changed",
                    next_step="Leave --grovescale-kubernetes out, or name a cluster definition file.",
                )
            cluster = handle.join(wanted.cluster, run_id=self.id, progress=self.progress.say)
        else:
            definition = load_definition(wanted.cluster, base=base)
            cluster = handle.acquire(
                wanted.adapted(definition),
                name=f"run-{self.id}",
                run_id=self.id,
                progress=self.progress.say,
            )
        return cluster

    # ---- the end

    def pause(self) -> None:
        """Stop the clocks of an open phase: a debugger is open."""
        if self._scale is not None and self._scale.current is not None:
            self._scale.current.pause()

    def resume(self) -> None:
        """Let the clocks of an open phase run on."""
        if self._scale is not None and self._scale.current is not None:
            self._scale.current.resume()

    def finish(self) -> None:
        """Stop the operator, leave the cluster, close the connections."""
        self._drop_operator()
        self._drop_cluster()
        if self._portal is not None:
            self._portal.close()
            self._portal = None

    def _drop_operator(self) -> None:
        if self._operator is not None and not self.settings.keep:
            self._operator[1].stop()
            self._operator = None

    def _drop_cluster(self) -> None:
        if self._cluster is not None:
            self._drop_operator()
            self._cluster[1].release(keep=self.settings.keep)
            self._cluster = None

    def summarise(self, reporter: pytest.TerminalReporter) -> None:
        """Write what the run's recordings say; a worker leaves that to the one that started it."""
        if self.worker:
            return
        if (self.folder / "recordings").is_dir():
            conclude(self.folder, self.settings, self._baselines, reporter)
        tell_unjudged(reporter)

    def _demand_baseline(self, nodeid: str) -> None:
        """Raise UsageError before anything is measured that is to be compared with what is not there."""
        name = self.settings.compare
        if name and self.settings.missing_baseline == "fail" and self._baselines.metrics(name, nodeid) is None:
            raise UsageError(
                f"baseline {name!r} does not hold {nodeid}",
                next_step=f"Record it: --grovescale-save={name}; or go on without: --grovescale-missing-baseline=warn.",
            )

    def close(self) -> None:
        """Close what ``finish`` leaves: the screen."""
        self.finish()
        self.progress.close()
        self._screen.close()


def _component_addresses(cluster: Cluster) -> dict[str, Address]:
    """Return where the control plane's components serve their metrics, as far as the cluster tells."""
    return {
        name: Address(
            url=endpoint.url, ca_file=endpoint.ca_file, cert_file=endpoint.cert_file, key_file=endpoint.key_file
        )
        for name, endpoint in cluster.metrics.items()
    }


def _profile_target(operator: Operator | None, wanted: Profiler) -> ProfileTarget | str:
    """Return how to look into the operator; the run's word beats the definition's, unless it leaves it open."""
    if operator is None:
        return "the test runs without an operator"
    profiler = wanted if wanted in ("pyspy", "pprof") else operator.definition.profiler
    info = operator.info()
    pid = info.pid if info else None
    return plan(profiler, process=operator.process, pid=pid, pprof=operator.pprof, stacks=operator.stacks)


def _first_line(error: Exception) -> str:
    text = error.message if isinstance(error, GrovescaleError) else str(error)
    return next(iter(text.strip().splitlines()), type(error).__name__)


def _new_id() -> str:
    now = datetime.datetime.now(datetime.UTC)
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def _file_name(nodeid: str) -> str:
    """Return a short file name that tells which test it belongs to."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", nodeid.rpartition("/")[2]).strip("-")[:120]


def _point(link: Path, target: str) -> None:
    """Let ``reports/latest`` point to a run; several runs may do so at once, so it is replaced, not rewritten."""
    temporary = link.with_name(f".latest-{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(link)


def _screen(config: pytest.Config) -> TextIO:
    """Return a stream to the terminal itself, so that progress shows while pytest captures a test's output."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        return os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
