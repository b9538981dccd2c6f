"""How an operator with kopf's handlers is started, and what projects in Python have in common."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from .configuration import configured
from .deployment import container, environment, local, own_counter
from .facts import Facts
from .program import Program

_KOPF_RUN = re.compile(r"kopf\W+run\b([^\n\]]*)")
START_HTTP_SERVER = re.compile(r"start_http_server\(\s*(?:port\s*=\s*)?(\d+)")


def kopf_program(facts: Facts) -> Program | None:
    """Return the program of a project with handlers of kopf, else None."""
    sources = facts.sources(".py")
    handlers = [path for path, text in sources.items() if re.search(r"^@kopf\.", text, re.MULTILINE)]
    if not handlers:
        return None
    source = "\n".join(sources[path] for path in handlers)
    guesses: dict[str, list[str]] = {}
    files = _kopf_files(facts, handlers, guesses)
    given = container(facts)
    _, env, mounted = configured(facts, given, source, {}, (), environment(facts, given, source, guesses), guesses)
    fixed = START_HTTP_SERVER.search(source)
    metrics = ""
    if any("{metrics_port}" in value for value in (*env.values(), *mounted.values())):
        metrics = f"{local('{metrics_port}')}/metrics"
    elif fixed:
        metrics = f"{local(fixed[1])}/metrics"
        guesses.setdefault("metrics", []).append(f"the program serves on port {fixed[1]}, always")
    return Program(
        language="python",
        command=(
            "{python}",
            *_without_the_folder(facts, files),
            "-m",
            "kopf",
            "run",
            "--all-namespaces",
            "--standalone",
            "--liveness=http://127.0.0.1:{health_port}/healthz",
            *files,
        ),
        env=env,
        files=mounted,
        readiness=f"{local('{health_port}')}/healthz",
        metrics=metrics,
        reconciles=python_reconciles(source, guesses) if metrics else {},
        requirements=requirements_of(facts),
        modules=imported(facts, handlers),
        guesses={field: tuple(texts) for field, texts in guesses.items()},
        text=source,
    )


_COUNTER = re.compile(
    r"""\bCounter\(\s*["'](\w*reconcil\w*|(?:\w+_)?syncs?(?:_total)?)["']\s*,\s*["'][^"'\n]*["']"""
    r"""(?:\s*,\s*(?:labelnames\s*=\s*)?[\[(]([^\])]*)[\])])?"""
)
"""A counter of prometheus_client that is named after reconciles, or syncs, with its labels.

One of handler calls may not grow with a trigger, which kopf does not call each handler for.
"""


def python_reconciles(source: str, guesses: dict[str, list[str]]) -> dict[str, str]:
    """Return the program's own counter of reconciles, as a definition names it: no library serves one in Python."""
    found = _COUNTER.search(source)
    if found is None:
        return {}
    # prometheus_client serves each counter with this suffix.
    return own_counter(f"{found[1].removesuffix('_total')}_total", found[2] or "", guesses)


_DIFF_BASE = re.compile(r"\b(Annotations|Status)DiffBaseStorage\(([^)]*)\)")


def handled_field(source: str) -> str:
    """Return the field that kopf writes once all handlers of an object have succeeded, as the program configures it."""
    found = _DIFF_BASE.search(source)
    kind, text = (found[1], found[2]) if found is not None else ("Annotations", "")
    given = dict(re.findall(r"""(\w+)\s*=\s*["']([^"']*)["']""", text))
    if kind == "Status":
        field: str = given.get("field", "status.{name}.last-handled-configuration")
        return field.replace("{name}", given.get("name", "kopf"))
    prefix, key = given.get("prefix", "kopf.zalando.org"), given.get("key", "last-handled-configuration")
    return f'metadata.annotations["{prefix}/{key}"]'


def _kopf_files(facts: Facts, handlers: Sequence[str], guesses: dict[str, list[str]]) -> list[str]:
    """Return what to run: the files, or modules, that the project's own command names, else all files with handlers."""
    commands = [text for path, text in facts.files.items() if PurePosixPath(path).name in ("Dockerfile", "Makefile")]
    given = container(facts)
    commands.append(" ".join([*given.command, *given.args]))
    for text in commands:
        for match in _KOPF_RUN.finditer(text.replace("\\\n", " ")):
            words = shlex.split(re.sub(r"[\",]", " ", match[1]))
            named = [PurePosixPath(word).name for word in words if word.endswith(".py")]
            if chosen := [path for path in handlers if PurePosixPath(path).name in named]:
                return chosen
            modules = [after for word, after in pairwise(words) if word in ("-m", "--module")]
            if modules and all(_is_module(facts, module) for module in modules):
                return [word for module in modules for word in ("-m", module)]
    if len(handlers) > 1:
        guesses.setdefault("command", []).append("all files with handlers of kopf are run")
    return list(handlers)


def _without_the_folder(facts: Facts, started: Sequence[str]) -> list[str]:
    """Return Python's option that keeps its folder out of the path, where an ``operator.py`` is there.

    With ``-m`` that would be imported instead of the standard library's; the command ``kopf`` does not look there
    (https://docs.python.org/3/using/cmdline.html#cmdoption-P).
    """
    there = {PurePosixPath(path).stem for path in facts.files if "/" not in path and path.endswith(".py")}
    return ["-P"] if "-m" not in started and there & sys.stdlib_module_names else []


def _is_module(facts: Facts, module: str) -> bool:
    """Return whether a module can be imported where the project's root is in Python's path."""
    path = module.replace(".", "/")
    return f"{path}.py" in facts.files or f"{path}/__init__.py" in facts.files


def requirements_of(facts: Facts) -> str:
    """Return the file that names what a project in Python needs; empty without one."""
    return next((path for path in ("requirements.txt", "pyproject.toml") if path in facts.files), "")


def imported(facts: Facts, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the modules that files import at their start, but Python's and the project's own."""
    own = {part.removesuffix(".py") for path in facts.sources(".py") for part in PurePosixPath(path).parts}
    found: set[str] = set()
    for path in paths:
        try:
            body = ast.parse(facts.files[path]).body
        except (SyntaxError, ValueError):
            # Of another version of Python: what it imports is not known.
            continue
        for statement in body:
            if isinstance(statement, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in statement.names}
            elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
                found.add(statement.module.partition(".")[0])
    return tuple(sorted(found - own - sys.stdlib_module_names))
