"""A namespace's name tells the test, is a valid label, and is never the same twice."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.workload.namespace import name_for


@given(st.text(max_size=200))
def test_any_test_name_gives_a_dns_label(test: str) -> None:
    name = name_for(test)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name)
    assert len(name) <= 63


def test_name_reports_the_test_and_is_new_each_time() -> None:
    names = {name_for("test_thousand_pods[baseline-2]") for _ in range(50)}
    assert len(names) == 50
    assert all(name.startswith("test-thousand-pods-baseline-2-") for name in names)
