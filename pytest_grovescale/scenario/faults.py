"""``scale.faults``: faults between the operator and the API server, for a block or until the end of the test."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..analysis.api_faults import MARK
from ..errors import UsageError
from ..kube.faults.settings import FaultArguments, Faults, faults_of
from ..operator import fault_proxy
from ..operator.fault_proxy import FaultProxy

if TYPE_CHECKING:
    from .running_test import RunningTest

NONE = Faults()


class FaultsInForce:
    """Faults that a call put in force. As a context manager, they end with the block, and what was before holds again.

    Without one they hold until the next call, or the end of the test.
    """

    def __init__(self, test: RunningTest, faults: Faults) -> None:
        self._test = test
        self._before = test.faults
        self.faults = faults
        put(test, faults)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End these faults; does nothing where others have replaced them."""
        if self._test.faults is self.faults:
            put(self._test, self._before)

    def __repr__(self) -> str:
        return f"<faults: {self.faults.text}>"


def start(test: RunningTest, arguments: FaultArguments) -> FaultsInForce:
    """Put faults in force. Raises UsageError for wrong arguments, and for an operator without a proxy on its way."""
    faults = faults_of(arguments)
    _proxy(test)
    for name in faults.resources:
        test.portal.run(test.client.resource(name.partition(".")[0]))
    return FaultsInForce(test, faults)


def put(test: RunningTest, faults: Faults) -> None:
    """Put faults in force, and record from when on they are."""
    test.recorder.mark(MARK, detail=faults.text)
    fault_proxy.put_in_force(test.portal, _proxy(test), faults)
    test.faults = faults


def end(test: RunningTest) -> None:
    """End all faults: the test is over, and its objects are to be removed in peace."""
    if test.faults.any and test.recorder.alive() and test.operator is not None and test.operator.alive():
        put(test, NONE)


def _proxy(test: RunningTest) -> FaultProxy:
    if test.operator is None:
        raise UsageError(
            "scale.faults: the test runs without an operator", next_step="Name one: grovescale(operator=…)."
        )
    if test.operator.fault_proxy is None:
        raise UsageError(
            f"scale.faults: operator {test.operator.name} was started without a proxy on its way to the API server",
            next_step="Its code does not show the call: add @pytest.mark.grovescale(faults=True).",
        )
    return test.operator.fault_proxy
