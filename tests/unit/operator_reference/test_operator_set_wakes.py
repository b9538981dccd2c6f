"""What happens to a set's children wakes it after a delay that grows with its size, so that its passes stay few."""

from __future__ import annotations

import pytest

from pytest_grovescale.reference_operator.event_mapping import CHILD_CHANGE_S, set_delay
from pytest_grovescale.reference_operator.objects import PodCliqueSet, SetSpec


@pytest.mark.parametrize(("replicas", "delay"), [(1, 0.2), (500, 0.2), (1000, 0.4), (5000, 2.0)])
def test_the_delay_of_a_set(replicas: int, delay: float) -> None:
    assert set_delay(PodCliqueSet(spec=SetSpec(replicas=replicas))) == pytest.approx(delay)


def test_a_set_that_is_not_known_is_looked_for_soon() -> None:
    assert set_delay(None) == CHILD_CHANGE_S


def test_the_work_of_all_passes_grows_in_proportion_to_the_set() -> None:
    """A deployment twice as large takes twice as long: replicas looked at by passes that follow each other so."""

    def looked_at(replicas: int) -> float:
        lasts = replicas / 50
        return replicas * lasts / set_delay(PodCliqueSet(spec=SetSpec(replicas=replicas)))

    assert looked_at(4000) == pytest.approx(4 * looked_at(1000))
