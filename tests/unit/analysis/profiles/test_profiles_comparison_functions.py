"""Two profiles beside each other."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pytest_grovescale.analysis.phase_result import ProfileResult
from pytest_grovescale.analysis.profiles.comparison import Difference, difference
from pytest_grovescale.analysis.profiles.phase_profiles import with_table

from .recorded import read_folded


def table(cpu_s: float | None = None, **functions: int) -> ProfileResult:
    text = "".join(
        f"<module> (m.py:1);main (m.py:1);{name} (m.py:2) {samples}\n" for name, samples in functions.items()
    )
    return with_table(ProfileResult(process="operator", kind="pyspy", file="x"), read_folded(text), cpu_s=cpu_s)


def compared(before: ProfileResult, after: ProfileResult, **options: Any) -> Difference:
    found = difference(before, after, **options)
    assert found is not None
    return found


def rows(found: Difference) -> dict[str, tuple[float | None, float | None, float | None]]:
    return {row.function.partition(" ")[0]: (row.before, row.after, row.change) for row in found.rows}


def test_cpu_seconds_where_both_are_exact() -> None:
    found = compared(table(10.0, list=600, patch=400), table(5.0, list=200, patch=800))
    assert (found.scale, found.before, found.after, found.change) == ("cpu_s", 10.0, 5.0, -0.5)
    assert rows(found) == {
        "main": (10.0, 5.0, -0.5),
        "list": (6.0, 1.0, pytest.approx(-5 / 6)),
        "patch": (4.0, 4.0, 0.0),
    }
    assert found.rows[0].function == "main (m.py)"


def test_shares_where_one_is_not() -> None:
    found = compared(table(10.0, list=600, patch=400), table(None, list=200, patch=800))
    assert (found.scale, found.before, found.after, found.change) == ("share", 1.0, 1.0, None)
    assert rows(found)["list"] == pytest.approx((0.6, 0.2, -2 / 3))


def test_functions_on_one_side_only() -> None:
    found = compared(table(10.0, gone=500, kept=500), table(10.0, new=500, kept=500))
    assert rows(found)["gone"] == (5.0, None, None)
    assert rows(found)["new"] == (None, 5.0, None)


def test_differences_within_the_samples_error_are_distinguished() -> None:
    found = compared(table(10.0, a=500, b=500, rare=1), table(10.0, a=520, b=480))
    beyond = {row.function.partition(" ")[0]: row.beyond_error for row in found.rows}
    assert beyond == {"main": False, "a": False, "b": False, "rare": False}
    found = compared(table(10.0, a=500, b=500), table(5.0, a=900, c=100))
    assert {row.function.partition(" ")[0] for row in found.rows if row.beyond_error} == {"main", "a", "b", "c"}


def test_a_function_that_a_result_did_not_keep_may_have_been_there() -> None:
    before = table(10.0, **{f"f{number}": 50 for number in range(60)})
    after = table(10.0, **{f"f{number}": 50 for number in range(59)}, new=50)
    cut = msgspec.structs.replace(before, functions=before.functions[:40])
    beyond = {row.function: row.beyond_error for row in compared(before, after).rows}
    assert beyond["new (m.py)"]
    assert not any(row.beyond_error for row in compared(cut, after).rows)


def test_the_first_of_one_module() -> None:
    found = compared(table(None, a=500, b=400), table(None, a=300, b=500), module="m", top=3)
    assert [row.function for row in found.rows] == ["<module> (m.py)", "main (m.py)", "b (m.py)"]
    assert compared(table(None, a=500), table(None, a=300), module="other").rows == ()


def test_what_only_leads_to_others_is_left_out_unless_it_is_asked_for() -> None:
    both = table(None, a=500), table(None, a=300)
    assert "<module>" not in rows(compared(*both))
    assert "<module>" in rows(compared(*both, module="m"))


def test_without_a_table_there_is_no_difference() -> None:
    assert difference(table(None, a=500), table(None, a=5)) is None
    assert difference(msgspec.structs.replace(table(None, a=500), functions=()), table(None, a=500)) is None
