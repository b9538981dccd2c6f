"""What a scale test may use: a change of these names or arguments is seen in the golden file, and meant."""

from __future__ import annotations

import inspect

from syrupy.assertion import SnapshotAssertion

import pytest_grovescale
from pytest_grovescale import checks, conditions, plugin


def test_names_of_the_package(snapshot: SnapshotAssertion) -> None:
    assert [name for name in pytest_grovescale.__all__ if not hasattr(pytest_grovescale, name)] == []
    assert pytest_grovescale.__all__ == snapshot


def test_fixtures(snapshot: SnapshotAssertion) -> None:
    assert sorted(plugin.__all__) == snapshot


def test_what_a_test_calls(snapshot: SnapshotAssertion) -> None:
    classes = (pytest_grovescale.Scale, pytest_grovescale.Phase, pytest_grovescale.Workload)
    assert "\n\n".join(_surface(one) for one in classes) == snapshot


def test_checks_and_conditions(snapshot: SnapshotAssertion) -> None:
    of_checks = [f"checks.{name}{inspect.signature(getattr(checks, name))}" for name in _public(checks)]
    of_conditions = [
        f"conditions.{name}{inspect.signature(getattr(conditions, name))}"
        for name in _public(conditions)
        if inspect.isfunction(getattr(conditions, name))
    ]
    assert "\n".join([*of_checks, *of_conditions]) == snapshot


def _public(module: object) -> list[str]:
    """Return the names of classes and functions that a module defines or imports from its own package."""
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__.startswith(module.__name__)  # type: ignore[attr-defined]
    )


def _surface(of: type) -> str:
    lines = [f"class {of.__name__}:"]
    for name, value in sorted(vars(of).items()):
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            lines.append(f"    {name}")
        elif inspect.isfunction(value):
            lines.append(f"    {name}{inspect.signature(value)}")
    return "\n".join(lines)
