"""The reference pages of the documentation, written from the code: `conf.py` has them written before a build.

Options, commands, checks, rules of findings, and the fields of definition files: each page says what the code says, so
that none can be out of date.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import msgspec

from pytest_grovescale import cli, options
from pytest_grovescale.analysis import findings
from pytest_grovescale.checks import check
from pytest_grovescale.checks.budgets import ids
from pytest_grovescale.cluster.definition import ClusterDefinition
from pytest_grovescale.errors import ExitCode
from pytest_grovescale.operator import schema as operator_schema
from pytest_grovescale.operator.placeholders import PROVIDED

_WIDTH = 100


def main(folder: Path) -> None:
    """Write all pages into a folder, which is made; a page that has not changed is left alone."""
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def pages() -> Mapping[str, str]:
    """Return name → Markdown of each page."""
    return {
        "options": "\n".join(_options()),
        "commands": "\n".join(_commands()),
        "checks": "\n".join(_checks()),
        "rules": "\n".join(_rules()),
        "operator-definitions": "\n".join(
            _definition("Operator definitions", operator_schema.OperatorFile, "`fixtures/operators/reference.yaml`")
        )
        + "\n".join(_placeholders()),
        "cluster-definitions": "\n".join(
            _definition("Cluster definitions", ClusterDefinition, "`fixtures/clusters/default.yaml`")
        ),
    }


def _options() -> Iterator[str]:
    yield "# Options of pytest\n"
    yield "On the command line, or without the dashes and with underscores in the ini file. The command line beats a"
    yield "test's marker, the marker beats the ini file.\n"
    for option in options.OPTIONS:
        value = "" if option.ini_type == "bool" else f"={option.metavar}"
        yield _item(f"`{option.flag}{value}` (ini: `grovescale_{option.name}`)", option.help)


def _commands() -> Iterator[str]:
    yield "# Commands\n"
    yield "The same exit codes for all:\n"
    for code in ExitCode:
        yield f"- `{code.value}`: {code.name.lower().replace('_', ' ')}"
    yield ""
    commands = next(action for action in cli.parser()._actions if isinstance(action, argparse._SubParsersAction))
    for name, one in _leaves("grovescale", commands):
        yield f"## {name}\n"
        yield f"```text\n{one.format_help().strip()}\n```\n"


def _leaves(prefix: str, commands: Any) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield each command without subcommands of its own, with its whole name."""
    for name, one in commands.choices.items():
        below = [action for action in one._actions if isinstance(action, argparse._SubParsersAction)]
        if below:
            yield from _leaves(f"{prefix} {name}", below[0])
        else:
            one.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=_WIDTH)
            yield f"{prefix} {name}", one


def _checks() -> Iterator[str]:
    yield "# Checks\n"
    yield "In a test (`scale.check(checks.NoopWrites(max=0))`), on a marker"
    yield "(`@pytest.mark.grovescale_budget(checks.NoopWrites(max=0))`), or in `budgets.yaml`"
    yield "(`noop_writes: {max: 0}`).\n"
    for tag, kind in [*check.kinds().items(), *check.bundles().items()]:
        yield f"## {kind.__name__}\n"
        yield f"In files: `{tag}`.\n"
        yield from _struct(kind, own=False)


def _rules() -> Iterator[str]:
    yield "# Rules of findings\n"
    yield "What a run says of an operator without a declared check; see [findings](../findings.md).\n"
    for name in findings.RULES:
        module = inspect.getmodule(findings.RULES[name])
        yield f"## {name}\n"
        yield f"{_markdown(inspect.getdoc(module) or '')}\n"
    yield "## Default checks\n"
    yield f"Judged on every run: {', '.join(f'`{name}`' for name in ids())}; see [checks](checks.md).\n"


def _definition(title: str, file: type[msgspec.Struct], example: str) -> Iterator[str]:
    yield f"# {title}\n"
    yield f"A complete example is {example}. A path is relative to the file that has it.\n"
    for kind in dict.fromkeys(_parts(file)):
        yield f"## {kind.__name__}\n"
        yield from _struct(kind, own=True)


def _parts(annotation: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield a struct and all that its fields hold, in their order."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation
        for field in msgspec.structs.fields(annotation):
            yield from _parts(field.type)
    for member in get_args(annotation):
        yield from _parts(member)


def _placeholders() -> Iterator[str]:
    yield "\n## Placeholders\n"
    for name, meaning in PROVIDED.items():
        yield _item(f"`{{{name}}}`", meaning)


def _struct(kind: type[msgspec.Struct], *, own: bool) -> Iterator[str]:
    """Yield what a struct is, and its fields with type, default and meaning."""
    if documented := inspect.getdoc(kind):
        yield f"{_markdown(documented)}\n"
    texts = {name: text for one in reversed(kind.__mro__) for name, text in _attribute_texts(one).items()}
    for field in msgspec.structs.fields(kind):
        required = field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
        default = "required" if required else f"default `{_default(field)}`"
        name = field.encode_name if own else field.name
        yield _item(f"`{name}` ({_type(field.type)}; {default})", texts.get(field.name, ""))
    yield ""


def _item(name: str, text: str) -> str:
    return f"- {name}{': ' if text else ''}{_markdown(text)}".replace("\n", "\n  ")


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    return repr(value) if not isinstance(value, msgspec.Struct) else type(value).__name__


def _type(annotation: Any) -> str:
    """Return a type in words: ``str or int``, ``one of a, b``."""
    members = get_args(annotation)
    if str(annotation).startswith("typing.Literal"):
        return "one of " + ", ".join(f"`{one}`" for one in members)
    if isinstance(annotation, type) and not members:
        return f"`{annotation.__name__}`"
    return "`" + re.sub(r"[a-zA-Z_.]*[.]([A-Za-z_]+)", r"\1", str(annotation)).replace("|", "or") + "`"


def _attribute_texts(kind: type) -> Mapping[str, str]:
    """Return field → the string below it in the source."""
    module = sys.modules.get(kind.__module__)
    if module is None or not kind.__module__.startswith("pytest_grovescale"):
        return {}
    tree = ast.parse(inspect.getsource(module))
    body = next(
        (node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == kind.__name__), []
    )
    return {
        node.target.id: inspect.cleandoc(after.value.value)
        for node, after in pairwise(body)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and isinstance(after.value.value, str)
    }


def _markdown(text: str) -> str:
    """Return a docstring as Markdown: one kind of quotes around code, and nothing that it would take for HTML."""
    parts = re.split(r"(``.+?``|`[^`\n]+`)", text)
    return "".join(
        f"`{part.strip('`')}`" if part.startswith("`") else re.sub(r"<(?=[A-Za-z/])", r"\\<", part) for part in parts
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
