"""What checks ask of baselines: the metrics of an earlier run, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ..errors import NotMeasuredError


class Baselines(Protocol):
    """Where baselines are kept."""

    def __call__(self, name: str, /) -> Sequence[Mapping[str, float]]:
        """Return the metrics of a baseline's runs that may be compared with here, the newest first; empty without.

        Keys are as in ``run_metrics``.
        """


def no_baselines(name: str, /) -> tuple[Mapping[str, float], ...]:
    """Stands where no baselines are kept."""
    return ()


def metric_of(baselines: Baselines, name: str, key: str) -> float:
    """Return one metric of a baseline, of its newest run. Raises NotMeasuredError as `metric_of_all` does."""
    return metric_of_all(baselines, name, key)[0]


def metric_of_all(baselines: Baselines, name: str, key: str) -> list[float]:
    """Return one metric of all runs of a baseline that have it, the newest first, which must.

    Raises NotMeasuredError, also where that is a zero, which nothing can be divided by.
    """
    runs = baselines(name)
    if not runs:
        raise NotMeasuredError(
            f"there is no baseline {name!r} for this machine",
            next_step=f"Record one with the version to compare with: pytest --grovescale --grovescale-save={name}"
            " --grovescale-inconclusive=warn.",
        )
    if runs[0].get(key, 0.0) <= 0:
        raise NotMeasuredError(f"baseline {name!r} holds no {key}", next_step="Record it again with these tests.")
    return [run[key] for run in runs if run.get(key, 0.0) > 0]
