"""User-written predicates: an expression over declared fields, or an importable function of them."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import UsageError

Judge = Callable[[dict[str, Any]], bool]
"""Takes declared path → value (None where the object lacks it); raises whatever the user's code raises."""

_CALLS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (len, min, max, sum, any, all, abs, str, int, float)}

_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.UAdd, ast.BinOp, ast.Add, ast.Sub,
    ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is,
    ast.IsNot, ast.In, ast.NotIn, ast.IfExp, ast.Constant, ast.Name, ast.Load, ast.Store, ast.Subscript, ast.Slice,
    ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Call, ast.GeneratorExp, ast.ListComp, ast.comprehension,
)  # fmt: skip
"""No attributes, lambdas, imports or powers: nothing that escapes the fields or runs without bound."""


def compile_expression(expression: str, paths: Sequence[str]) -> Judge:
    """Return the judge function for an expression over ``fields``.

    Raises UsageError, with the expression and the reason, for an expression that cannot be parsed, uses syntax that is
    not allowed, or reads a path that is not in `paths`.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        raise _refused(expression, f"is not a Python expression: {error}") from error
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if taken := bound & {"fields", *_CALLS}:
        raise _refused(expression, f"gives a new meaning to {taken.pop()}")
    for node in ast.walk(tree):
        _check(expression, node, bound, paths)
    code = compile(tree, "<expression>", "eval")

    def judge(fields: dict[str, Any]) -> bool:
        # One namespace as globals: comprehensions see no others.
        return bool(eval(code, {"__builtins__": {}, **_CALLS, "fields": fields}))

    return judge


def _check(expression: str, node: ast.AST, bound: set[str], paths: Sequence[str]) -> None:
    if not isinstance(node, _ALLOWED):
        raise _refused(expression, f"uses {type(node).__name__}, which is not allowed")
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS and not node.keywords:
            pass
        case ast.Call():
            raise _refused(expression, f"calls something else than {', '.join(_CALLS)}")
        case ast.Name(id=name) if name != "fields" and name not in bound and name not in _CALLS:
            raise _refused(expression, f"reads {name!r}; it may read only `fields`")
        case ast.Subscript(value=ast.Name(id="fields"), slice=ast.Constant(value=path)) if path not in paths:
            raise _refused(expression, f"reads {path!r}, which is not among the declared fields {sorted(paths)}")
        case ast.comprehension(is_async=is_async) if is_async:
            raise _refused(expression, "is asynchronous")


def _refused(expression: str, reason: str) -> UsageError:
    return UsageError(
        f"the expression {expression!r} {reason}",
        next_step='Write it over declared fields, as fields["status.phase"] == "Running", or give a module:function.',
    )


def load_function(name: str) -> Judge:
    """Return the function ``module:function`` (dots after the colon reach into classes).

    Raises UsageError, with the name and the reason, when it cannot be imported or called.
    """
    module, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(module) if module and attribute else None
        for part in attribute.split(".") if found else ():
            found = getattr(found, part)
    except Exception as error:  # the user's module may raise anything when it is imported
        raise UsageError(
            f"the condition's function {name!r} cannot be loaded: {type(error).__name__}: {error}",
            next_step="It must be importable by name from the test's process: module:function.",
        ) from error
    if not callable(found):
        raise UsageError(f"the condition's function {name!r} is no function", next_step="Name it as module:function.")
    function: Callable[[dict[str, Any]], Any] = found
    return lambda fields: _yes_or_no(name, function(fields))


def _yes_or_no(name: str, answer: object) -> bool:
    # None comes from a function without a return statement: a mistake, not False.
    if not isinstance(answer, bool):
        raise TypeError(f"{name} answered {answer!r}; a condition answers True or False")
    return answer
