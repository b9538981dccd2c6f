"""Scale tests for Kubernetes operators, as ordinary pytest tests.

A test uses fixtures (see ``fixtures.py``), `conditions` for its milestones, `checks` for its bounds and `scenarios` for
whole courses of events; the classes here are for annotations, and for ``pytest.raises``. Names are loaded at first use:
pytest imports the package in every project of the environment, so the import must cost nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import checks as checks
    from .cluster.handle import Cluster as Cluster
    from .errors import CheckFailed as CheckFailed
    from .errors import CheckInconclusive as CheckInconclusive
    from .errors import ClusterError as ClusterError
    from .errors import DefinitionError as DefinitionError
    from .errors import GrovescaleError as GrovescaleError
    from .errors import InconclusiveWarning as InconclusiveWarning
    from .errors import NotMeasuredError as NotMeasuredError
    from .errors import OperatorError as OperatorError
    from .errors import PhaseError as PhaseError
    from .errors import UsageError as UsageError
    from .errors import WorkloadError as WorkloadError
    from .operator.handle import Operator as Operator
    from .scenario import conditions as conditions
    from .scenario import scenarios as scenarios
    from .scenario.phase import Phase as Phase
    from .scenario.scale import Scale as Scale
    from .scenario.workloads import Workload as Workload

__version__ = "0.1.0"

__all__ = [
    "CheckFailed",
    "CheckInconclusive",
    "Cluster",
    "ClusterError",
    "DefinitionError",
    "GrovescaleError",
    "InconclusiveWarning",
    "NotMeasuredError",
    "Operator",
    "OperatorError",
    "Phase",
    "PhaseError",
    "Scale",
    "UsageError",
    "Workload",
    "WorkloadError",
    "checks",
    "conditions",
    "scenarios",
]


def __getattr__(name: str) -> Any:
    match name:
        case "checks":
            return import_module(".checks", __name__)
        case "conditions":
            return import_module(".scenario.conditions", __name__)
        case "scenarios":
            return import_module(".scenario.scenarios", __name__)
        case "Cluster":
            module = ".cluster.handle"
        case "Operator":
            module = ".operator.handle"
        case "Phase":
            module = ".scenario.phase"
        case "Scale":
            module = ".scenario.scale"
        case "Workload":
            module = ".scenario.workloads"
        case _ if name in __all__:
            module = ".errors"
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module, __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
