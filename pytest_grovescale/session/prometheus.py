"""A test's Prometheus: started beside its recorder, or an existing one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from ..cluster.handle import Cluster
from ..endpoints import Address
from ..kube.portal import Portal
from ..options import Settings
from ..prometheus import opening
from ..prometheus.live import Live
from ..prometheus.opening import Occasion, Target
from ..recording.recorder import Recorder
from .run_folder import RunFolder


def occasion(recorder: Recorder, nodeid: str, settings: Settings, *, run_id: str, folder: RunFolder) -> Occasion:
    """Return the context of a Prometheus start, and the folder of its output."""
    name = recorder.journal.stem
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
