"""What is found in a test's code without running it: names of parameters, phases, controllers …, late milestones.

From the test's function on, everything that is referred to by name counts as used: functions, classes, modules,
fixtures, and their references. So it finds too many names rather than too few: a name that is missing here is used
nowhere. Where a name is computed (``scale.parameter(f"{x}_size", 1)``), the names are undecided.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import itertools
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import pytest

from ..checks.check import kinds

_METHODS = ("parameter", "phase", "workload", "milestone")
_DYNAMIC = {"getfixturevalue", "import_module", "__import__", "eval", "exec"}
# Not code of a test: the plugin's own, pytest's, and the standard library's.
_FOREIGN = {*sys.stdlib_module_names, "pytest", "_pytest", "pluggy", "xdist", "pytest_grovescale"} - {"__main__"}
_MOST = 2000
"""Maximum number of functions to inspect: more belong to a library that the test uses."""
_UNKNOWN = object()


class Parameter(NamedTuple):
    """A parameter of a test as the value of an argument: ``replicas=scale.parameter("replicas", 500)``."""

    name: str
    default: str | int | float | bool


class Call(NamedTuple):
    """One call with a literal name: ``scale.parameter("replicas", 500)``."""

    method: str
    name: str
    keywords: tuple[str, ...]
    """Names of further arguments; empty where they are computed (``**parameters``)."""
    values: tuple[Parameter | str | int | float | bool | None, ...]
    """Values of `keywords`, in their order; None for one that is computed, or in a call that the test may not reach."""
    default: Any
    """Second argument; None where there is none, or it is computed."""


class NamedInCode(NamedTuple):
    """Names in the code of a test."""

    calls: tuple[Call, ...]
    undecided: frozenset[str]
    """Methods that are also called with computed names, or may be in code that cannot be inspected."""

    def names(self, method: str) -> list[str]:
        """Return the names that a method is called with, in the order of the code."""
        return list(dict.fromkeys(call.name for call in self.calls if call.method == method))


def read(item: pytest.Function) -> NamedInCode:
    """Return the names in a test's code, with its fixtures and the code that these use."""
    calls: dict[Call, None] = {}
    undecided: set[str] = set()
    walk = _Walk(item)
    for function, names in walk.functions():
        if names & _DYNAMIC:
            undecided.update(_METHODS)
        if names & {*_METHODS}:
            found = _calls(function, runs=function in walk.run)
            undecided.update(names & {*_METHODS} if found is None else found.undecided)
            calls |= dict.fromkeys(found.calls if found is not None else ())
    if walk.given_up:
        undecided.update(_METHODS)
    return NamedInCode(calls=tuple(calls), undecided=frozenset(undecided))


def calls(item: pytest.Function, *methods: str) -> bool:
    """Return whether a test's code calls a method of one of these names on something, as ``scale.faults(…)``."""
    return any(
        method in names and _is_called(function, method)
        for function, names in _Walk(item).functions()
        for method in methods
    )


def _is_called(function: FunctionType, method: str) -> bool:
    parsed = tree_of(function)
    return parsed is None or any(
        isinstance(node, ast.Attribute) and node.attr == method for node in ast.walk(parsed[0])
    )


def tree_of(function: FunctionType) -> tuple[ast.Module, int] | None:
    """Return a function's own source as a tree, and the line before its first; None where it cannot be read."""
    try:
        lines, first = inspect.getsourcelines(function)
        return ast.parse(textwrap.dedent("".join(lines))), first - 1
    except (OSError, TypeError, SyntaxError):
        return None


class NamedController(NamedTuple):
    """A controller that a check or a figure in a test's code names."""

    name: str
    where: str
    """``file:line``."""


def controllers(item: pytest.Function) -> list[NamedController]:
    """Return the operator's controllers that literals in a test's code name.

    In checks, ``NoopReconciles(controller="shop", per_trigger=1)``, and in figures, ``steady.reconciles("shop")``.
    """
    checks = {kind.__name__: kind.positional for kind in kinds().values()}
    found: list[NamedController] = []
    for function, names in _Walk(item).functions():
        if names & {"reconciles", *checks}:
            found += _controllers(function, checks)
    return found


def _controllers(function: FunctionType, checks: Mapping[str, tuple[str, ...]]) -> Iterator[NamedController]:
    if (parsed := tree_of(function)) is None:
        return
    tree, before = parsed
    value_of = functools.partial(_value, known=_constants(function))
    for node in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        positional = checks.get(called, ("controller",) if called == "reconciles" else None)
        if positional is None:
            continue
        given = dict(zip(positional, node.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
        values = [value_of(given[name]) for name in ("controller", "per_trigger") if name in given]
        where = f"{inspect.getsourcefile(function)}:{before + node.lineno}"
        for value in values:
            # `per_trigger` is a number, or one for each of several controllers.
            named = list(value) if isinstance(value, dict) else [value]
            yield from (NamedController(name, where) for name in named if isinstance(name, str) and name)


_ACTIONS = ("apply", "trigger_reconcile", "trigger_again", "scale", "patch", "delete")
"""Methods of a workload that begin a phase."""


class LateMilestone(NamedTuple):
    """A milestone in a test's code behind the first action of its phase, which begins the phase."""

    where: str
    """``file:line``."""
    text: str
    """``deploy.milestone("running", …)``, without what is long."""
    action: str
    """``pods.apply()``."""
    action_line: int


def late_milestones(item: pytest.Function) -> list[LateMilestone]:
    """Return the milestones in a test's code that are declared too late whatever the test does.

    In one block with the action before them: what stands under a condition or in a loop is left to the run.
    """
    found: list[LateMilestone] = []
    for function, names in _Walk(item).functions():
        if {"phase", "milestone"} <= names:
            found += _late_milestones(function)
    return found


def _late_milestones(function: FunctionType) -> Iterator[LateMilestone]:
    if (parsed := tree_of(function)) is None:
        return
    tree, before = parsed
    workloads = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and method_of(node.value) == "workload"
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for block in (node for node in ast.walk(tree) if isinstance(node, ast.With)):
        phases = {
            item.optional_vars.id
            for item in block.items
            if isinstance(item.optional_vars, ast.Name)
            and isinstance(item.context_expr, ast.Call)
            and method_of(item.context_expr) == "phase"
        }
        action: ast.Call | None = None
        for call in (node.value for node in block.body if isinstance(node, ast.Expr)):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            of = getattr(call.func.value, "id", "")
            if action is not None and of in phases and call.func.attr == "milestone":
                where = f"{inspect.getsourcefile(function)}:{before + call.lineno}"
                name = ast.unparse(call.args[0]) if call.args else "…"
                text = f"{of}.milestone({name}, …)"
                yield LateMilestone(where, text, ast.unparse(action), before + action.lineno)
            begins = (of in workloads and call.func.attr in _ACTIONS) or (
                of in phases and call.func.attr in ("hold", "wait")
            )
            action = action or (call if begins else None)


def method_of(call: ast.Call) -> str:
    """Return the name of the method that is called; empty where a plain function is."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


class _Walk:
    """Walk from a test's function to all code that it may use."""

    def __init__(self, item: pytest.Function) -> None:
        self.given_up = False
        self.run: set[FunctionType] = set()
        """The test's own function and those of its fixtures: each runs, while what they refer to may not."""
        self._item = item
        self._seen: set[int] = set()
        self._waiting: list[FunctionType] = []

    def functions(self) -> Iterator[tuple[FunctionType, set[str]]]:
        """Yield each function with all names that its code uses."""
        for value in (self._item.function, *_fixtures(self._item)):
            self._add(value)
        self.run.update(self._waiting)
        callspec = getattr(self._item, "callspec", None)
        for value in callspec.params.values() if callspec is not None else ():
            self._add(value)
        while self._waiting:
            function = self._waiting.pop()
            names = _names(function.__code__)
            yield function, names
            for value in _referred(function, names, self._item.cls):
                self._add(value)
            # A module that a function imports itself, and that is not imported yet, cannot be inspected.
            self.given_up = self.given_up or not all(map(_is_imported, _imports(function.__code__)))

    def _add(self, value: Any, depth: int = 0) -> None:
        value = inspect.unwrap(value) if callable(value) else value
        if isinstance(value, functools.partial):
            value = value.func
        if inspect.ismethod(value):
            value = value.__func__
        if id(value) in self._seen or _is_foreign(value):
            return
        if len(self._seen) >= _MOST:
            self.given_up = True
            return
        self._seen.add(id(value))
        if isinstance(value, FunctionType):
            self._waiting.append(value)
        elif isinstance(value, type):
            for part in (part for base in value.__mro__ if not _is_foreign(base) for part in vars(base).values()):
                self._add(_function_of(part))
        elif isinstance(value, dict | list | tuple | set | frozenset):
            for part in value.values() if isinstance(value, dict) else value:
                if depth < 2:
                    self._add(part, depth + 1)
        elif not isinstance(value, ModuleType | str | bytes | int | float | None):
            self._add(type(value))


def _fixtures(item: pytest.Function) -> Iterator[Any]:
    """Yield the functions of a test's fixtures, as far as its module, its class and plugins have them.

    An autouse fixture of an installed plugin is left out unless it takes ``scale``: the test gets nothing from it.
    """
    found: dict[str, list[tuple[Any, bool]]] = {}
    plugins = [plugin for plugin in item.config.pluginmanager.get_plugins() if not _is_foreign(plugin)]
    for place in (item.module, item.cls, *plugins):
        installed = place in plugins and getattr(place, "__name__", "").rpartition(".")[2] != "conftest"
        for attribute, value in list(vars(place).items() if hasattr(place, "__dict__") else ()):
            for name in {attribute, getattr(value, "name", "")} & set(map(str, item.fixturenames)):
                if callable(value):
                    found.setdefault(name, []).append((value, installed))
    requested = {
        name for value, installed in itertools.chain(*found.values()) if not installed for name in _takes(value)
    }
    marked = [name for mark in item.iter_markers("usefixtures") for name in mark.args]
    waiting = [*requested, *marked, *_takes(item.function)]
    while waiting:
        requested.add(name := waiting.pop())
        waiting += {taken for value, _ in found.get(name, ()) for taken in _takes(value)} - requested
    for name, values in found.items():
        for value, installed in values:
            if not installed or name in requested or "scale" in _takes(value):
                yield value


def _takes(function: Callable[..., object]) -> set[str]:
    """Return the names of a function's arguments, which are those of the fixtures that it requests."""
    return set(inspect.signature(inspect.unwrap(function)).parameters)


def _referred(function: FunctionType, names: set[str], cls: type | None) -> Iterator[Any]:
    """Yield the values of the names that a function refers to."""
    scope = {**function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            scope[name] = cell.cell_contents
        except ValueError:
            continue
    places = [scope[name] for name in names if isinstance(scope.get(name), ModuleType)]
    places += [sys.modules[name] for name in _imports(function.__code__) if name in sys.modules]
    yield from (scope[name] for name in names if name in scope)
    places = [place for place in (*places, cls) if place is not None and not _is_foreign(place)]
    for place in places:
        for name in names:
            value = getattr(place, name, None)
            if isinstance(value, ModuleType) and not _is_foreign(value) and value not in places:
                # Of `import suite.steps`: the names used are in there.
                places.append(value)
            elif value is not None:
                yield _function_of(value)


def _function_of(value: Any) -> Any:
    match value:
        case property():
            return value.fget
        case staticmethod() | classmethod():
            return value.__func__
        case functools.cached_property():
            return value.func
        case _:
            return value


def _names(code: CodeType) -> set[str]:
    inner = (_names(const) for const in code.co_consts if isinstance(const, CodeType))
    return {*code.co_names, *code.co_freevars}.union(*inner)


def _imports(code: CodeType) -> set[str]:
    """Return the modules that a function itself imports."""
    inner = (_imports(const) for const in code.co_consts if isinstance(const, CodeType))
    own = {str(one.argval) for one in dis.get_instructions(code) if one.opname == "IMPORT_NAME"}
    return own.union(*inner)


def _is_imported(name: str) -> bool:
    return name.partition(".")[0] in _FOREIGN or name in sys.modules


def _is_foreign(value: Any) -> bool:
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    if not isinstance(module, str):
        module = type(value).__module__
    top = module.partition(".")[0]
    # Containers and values of built-in types are inspected, too.
    return top in _FOREIGN and not isinstance(value, dict | list | tuple | set | frozenset)


def _calls(function: FunctionType, *, runs: bool) -> NamedInCode | None:
    """Return the names in a function's own source; None where its source cannot be read.

    ``runs``: it is the test's own function, or a fixture's. Whether a helper is called at all is left to the run.
    """
    if (parsed := tree_of(function)) is None:
        return None
    tree, _ = parsed
    value_of = functools.partial(_value, known=_constants(function))
    parameters = _parameters(tree, value_of)
    body = tree.body[0].body if runs and isinstance(tree.body[0], ast.FunctionDef | ast.AsyncFunctionDef) else []
    reached = set(map(id, _reached(body)))
    calls: list[Call] = []
    undecided: set[str] = set()
    called: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            called.add(id(node.func))
            call = _call(node, node.func.attr, value_of, parameters)
            if call is None:
                undecided.add(node.func.attr)
            else:
                calls.append(call if id(node) in reached else call._replace(values=(None,) * len(call.values)))
        elif isinstance(node, ast.Constant) and node.value in _METHODS and isinstance(node.value, str):
            # As in getattr(scale, "parameter").
            undecided.add(node.value)
    undecided |= {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in _METHODS and id(node) not in called
    }
    return NamedInCode(calls=tuple(calls), undecided=frozenset(undecided))


_BRANCHES = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_EXITS = {"skip", "skipif", "xfail", "fail", "exit", "importorskip"}
"""pytest's functions after which a test may not go on."""


def _reached(block: Iterable[ast.stmt]) -> Iterator[ast.Call]:
    """Yield the calls in a block of a test that are made whatever the values of its parameters are.

    None under a condition, in a loop, where an error is handled or expected, or behind a place where it may end.
    """
    for statement in block:
        if isinstance(statement, ast.With | ast.AsyncWith):
            managers = [call for item in statement.items for call in _made(item.context_expr)]
            yield from managers
            if any(method_of(call) in ("raises", "suppress") for call in managers):
                continue
            yield from _reached(statement.body)
        elif isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Assert | ast.Return):
            yield from _made(statement)
        if any(map(_may_end, ast.walk(statement))):
            return


def _made(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls of an expression or a simple statement, without those in a branch of it."""
    if isinstance(node, ast.Call):
        yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _BRANCHES):
            yield from _made(child)


def _may_end(node: ast.AST) -> bool:
    return isinstance(node, ast.Return | ast.Raise) or (
        isinstance(node, ast.Call) and (method_of(node) or getattr(node.func, "id", "")) in _EXITS
    )


def _parameters(tree: ast.AST, value_of: Callable[[ast.expr], Any]) -> dict[str, Parameter]:
    """Return variable → the test's parameter that it holds, of the variables that are assigned once."""
    stored = Counter(
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    return {
        target.id: found
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and (found := _parameter(node.value, value_of)) is not None
        for target in node.targets
        if isinstance(target, ast.Name) and stored[target.id] == 1
    }


def _parameter(node: ast.expr, value_of: Callable[[ast.expr], Any]) -> Parameter | None:
    """Return the parameter that an expression is, with a default that is known; None for any other expression."""
    if not isinstance(node, ast.Call) or method_of(node) != "parameter":
        return None
    call = _call(node, "parameter", value_of, {})
    return None if call is None or call.default is None else Parameter(call.name, call.default)


def _call(
    node: ast.Call, method: str, value_of: Callable[[ast.expr], Any], parameters: Mapping[str, Parameter]
) -> Call | None:
    keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
    first = {"workload": "template"}.get(method, "name")
    named = node.args[0] if node.args else keywords.get(first)
    name = value_of(named) if named is not None and not isinstance(named, ast.Starred) else _UNKNOWN
    if not isinstance(name, str):
        return None
    default = node.args[1] if len(node.args) > 1 else keywords.get("default")
    computed = len(keywords) != len(node.keywords)
    names = () if computed else tuple(sorted(set(keywords) - {first}))

    def known(given: ast.expr) -> Parameter | str | int | float | bool | None:
        if isinstance(given, ast.Name) and given.id in parameters:
            return parameters[given.id]
        value = value_of(given)
        return value if isinstance(value, str | int | float | bool) else _parameter(given, value_of)

    return Call(
        method,
        name,
        keywords=names,
        values=tuple(known(keywords[each]) for each in names),
        default=known(default) if default is not None else None,
    )


def _value(node: ast.expr, known: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return known.get(node.id, _UNKNOWN)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return _UNKNOWN


def _constants(function: FunctionType) -> dict[str, Any]:
    """Return the global names that a function uses as constants, without those that it assigns itself."""
    own = {*function.__code__.co_varnames, *function.__code__.co_cellvars}
    return {
        name: value
        for name, value in function.__globals__.items()
        if isinstance(value, str | int | float | bool) and name not in own
    }
