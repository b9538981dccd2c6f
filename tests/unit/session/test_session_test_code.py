"""What is found in a test's code without running it: whether it calls ``scale.faults``."""

from __future__ import annotations

import pytest

from pytest_grovescale.session import test_code

TESTS = """
import pytest

faults = {"a": 1}

def with_faults(scale):
    return scale.faults(error=0.1)

@pytest.fixture
def outage(scale):
    with scale.faults(error=1.0):
        yield

def test_itself(scale):
    scale.faults(error=0.1)

def test_by_a_function(scale):
    with with_faults(scale):
        pass

def test_by_a_fixture(scale, outage):
    pass

def test_of_another_name(scale):
    assert faults and "faults"

def test_without(scale):
    scale.phase("deploy")
"""


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("test_itself", True),
        ("test_by_a_function", True),
        ("test_by_a_fixture", True),
        ("test_of_another_name", False),
        ("test_without", False),
    ],
)
def test_a_call_is_seen_wherever_the_tests_code_is(pytester: pytest.Pytester, name: str, called: bool) -> None:
    items = {item.name: item for item in pytester.getitems(TESTS)}
    item = items[name]
    assert isinstance(item, pytest.Function)
    assert test_code.calls(item, "faults") == called
