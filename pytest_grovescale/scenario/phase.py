"""The object of ``with scale.phase(…) as phase``: milestones and holds are declared on it, and it has the figures."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from .. import durations
from ..analysis import figures
from ..analysis.phase_result import PhaseResult
from .conditions import Declared

if TYPE_CHECKING:
    from .running_phase import RunningPhase


class Phase:
    """One measured phase; made by ``Scale.phase``.

    Used as a context manager: declare milestones, act, and leave the block; leaving waits until all milestones are
    met and every hold is over. It raises PhaseError at its timeout, when the operator dies, or when a source of
    the recording is lost that a milestone needs; ClusterError when that is the cluster's doing, RecordingError when
    the recording cannot be written any more. After the block,
    ``api``, ``client_requests``, ``cpu``, ``reconciles`` and ``reached`` return figures, and raise NotMeasuredError for
    what was not measured.
    """

    def __init__(self, phase: RunningPhase) -> None:
        self._phase = phase

    @property
    def name(self) -> str:
        """The phase's name in reports and checks."""
        return self._phase.name

    def __enter__(self) -> Self:
        self._phase.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._phase.__exit__(kind, error, trace)

    def milestone(self, name: str, condition: Declared) -> None:
        """Declare a milestone. All are declared before the first action, so that none can be missed."""
        self._phase.milestone(name, condition)

    def hold(self, duration: str | float) -> None:
        """Keep the phase open for at least this long from now on, whatever its milestones do.

        Shorter where the run cuts holds short (``--grovescale-hold``). Nothing is scraped while it is held: a scrape
        costs the operator as much as a small no-op does. Only after milestones, or a restart, it is, once.
        """
        self._phase.hold(duration)

    def wait(self, duration: str | float) -> None:
        """Return after this long, the phase going on: ``wait("10s")`` between two actions.

        Raises what ends the phase in the meantime, as its timeout or the operator's end.
        """
        self._phase.begin()
        self._phase.pass_time(durations.seconds(duration))

    def result(self) -> PhaseResult:
        """Return all measurements of this phase."""
        return self._phase.result()

    def api(self, identity: str) -> figures.ApiFigures:
        """API traffic of one identity, as ``operator``, ``kwok`` or a full user name."""
        return figures.api(self.result(), identity)

    def client_requests(self) -> figures.ClientFigures:
        """The operator's requests by its own count, where no audit log is read: by HTTP method, of all resources."""
        return figures.client_requests(self.result())

    def cpu(self, process: str) -> figures.CpuFigures:
        """CPU time and memory of one process, as ``operator`` or ``kube-apiserver``."""
        return figures.cpu(self.result(), process)

    def reconciles(self, controller: str, *, result: str | None = None) -> int:
        """Reconciles of one controller that ended in this phase, by its own metrics; ``result``: only those."""
        return figures.reconciles(self.result(), controller, result=result)

    def reached(self, milestone: str) -> figures.MilestoneFigures:
        """When a milestone was met: ``.seconds`` after the phase's start, and by which clock."""
        return figures.milestone(self.result(), milestone)

    def figures(self) -> dict[str, Any]:
        """All figures of the phase as plain data, as in result.json."""
        return figures.as_plain(self.result())
