"""Names of the API that a test uses and that do not exist: methods, attributes, arguments. Nothing is run."""

from __future__ import annotations

import ast
import collections
import functools
import inspect
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import pytest

from .test_code import method_of, tree_of


class Misspelt(NamedTuple):
    """A name of the API in a test's code that does not exist."""

    where: str
    """``file:line``."""
    text: str
    """What does not exist: ``scale.workloads``, ``the argument selectr of conditions.count``."""
    name: str
    known: tuple[str, ...]
    """The names that there are."""


def misspelt(item: pytest.Function) -> list[Misspelt]:
    """Return the names of `scale`, of phases, workloads and the package's modules in a test that do not exist.

    In the test's own function, whose variables are known; also keyword arguments of what is called there.
    """
    function = inspect.unwrap(item.function)
    if not isinstance(function, FunctionType) or (parsed := tree_of(function)) is None:
        return []
    tree, before = parsed
    known = _of_the_api(function, tree)
    file = inspect.getsourcefile(function)
    found: list[Misspelt] = []
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else node
        if not isinstance(called, ast.Attribute) or not isinstance(called.value, ast.Name):
            continue
        names = known.get(called.value.id)
        if names is None or not isinstance(called.ctx, ast.Load):
            continue
        where, text = f"{file}:{before + called.lineno}", f"{called.value.id}.{called.attr}"
        if called.attr not in names:
            if called is node:
                value = function.__globals__.get(called.value.id)
                public = tuple(name for name in names if not name.startswith("_") and _is_of(value, name))
                found.append(Misspelt(where, text, called.attr, public))
        elif isinstance(node, ast.Call) and (arguments := names[called.attr]) is not None:
            found += [
                Misspelt(where, f"the argument {keyword.arg} of {text}", keyword.arg, arguments)
                for keyword in node.keywords
                if keyword.arg is not None and keyword.arg not in arguments
            ]
    return found


def _is_of(value: object, name: str) -> bool:
    """Return whether a name is a module's own, and not what it imports; those of other values all are."""
    if not isinstance(value, ModuleType):
        return True
    one = getattr(value, name)
    return callable(one) and (getattr(one, "__module__", None) or "").startswith(value.__name__)


_Names = Mapping[str, tuple[str, ...] | None]
"""Names of a value → the arguments of each; None where it takes any, or cannot be called."""


def _of_the_api(function: FunctionType, tree: ast.AST) -> dict[str, _Names]:
    """Return variable → the names that its value has, of those whose value is this package's."""
    found: dict[str, _Names] = {
        name: {inner: _arguments(one) for inner, one in vars(value).items()}
        for name, value in function.__globals__.items()
        if isinstance(value, ModuleType)
        and value.__name__.startswith("pytest_grovescale.")
        and name not in function.__code__.co_varnames
    }
    if "scale" in function.__code__.co_varnames[: function.__code__.co_argcount]:
        found["scale"] = _names_of("scale", "Scale")
    stored = collections.Counter(
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    made: list[tuple[_Names, ast.expr]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and method_of(node.value) == "workload":
            made += [(_names_of("workloads", "Workload"), target) for target in node.targets]
        elif isinstance(node, ast.withitem) and isinstance(node.context_expr, ast.Call) and node.optional_vars:
            is_phase = method_of(node.context_expr) == "phase"
            made += [(_names_of("phase", "Phase"), node.optional_vars)] if is_phase else []
    found |= {target.id: names for names, target in made if isinstance(target, ast.Name)}
    # A variable with several values may be something else where it is used.
    return {
        name: names for name, names in found.items() if stored[name] <= (name not in ("scale", *function.__globals__))
    }


@functools.cache
def _names_of(module: str, cls: str) -> _Names:
    """Return the names of the objects of a class of `scenario`, by its source: to import it takes a client library."""
    tree = ast.parse((Path(__file__).parents[1] / "scenario" / f"{module}.py").read_text(encoding="utf-8"))
    (body,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls]
    found: dict[str, tuple[str, ...] | None] = {
        node.attr: None
        for part in body
        for node in ast.walk(part)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    for part in body:
        if isinstance(part, ast.FunctionDef):
            given = part.args
            is_called = not given.kwarg and not part.decorator_list
            names = tuple(one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs) if one.arg != "self")
            found[part.name] = names if is_called else None
    return found


def _arguments(value: Any) -> tuple[str, ...] | None:
    """Return the names of a function's arguments; None where it takes any, or is none."""
    if not isinstance(value, FunctionType):
        return None
    parameters = inspect.signature(value).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return tuple(parameter.name for parameter in parameters)
