"""What checks ask of baselines: the metrics of an earlier run, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..errors import NotMeasuredError


class Baselines(Protocol):
    """Where baselines are kept."""

    def __call__(self, name: str, /) -> Mapping[str, float] | None:
        """Return the metrics of a baseline that may be compared with here, keys as in ``run_metrics``; None without."""


def no_baselines(name: str, /) -> None:
    """Stands where no baselines are kept."""


def metric_of(baselines: Baselines, name: str, key: str) -> float:
    """Return one metric of a baseline. Raises NotMeasuredError, also for a zero, which nothing can be divided by."""
    metrics = baselines(name)
    if metrics is None:
        raise NotMeasuredError(
            f"there is no baseline {name!r} for this machine",
            next_step=f"Record one with the version to compare with: pytest --grovescale --grovescale-save={name}"
            " --grovescale-inconclusive=warn.",
        )
    found = metrics.get(key)
    if not found or found <= 0:
        raise NotMeasuredError(f"baseline {name!r} holds no {key}", next_step="Record it again with these tests.")
    return found
