"""``grovescale check FILE …``: validates definition files without a cluster."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import DefinitionError, GrovescaleError, UsageError
from ..suggestions import did_you_mean
from .out import say, write

_TOP_LEVEL = re.compile(r"^([A-Za-z_]\w*):", re.MULTILINE)
_OF_AN_OBJECT = ("apiVersion", "kind", "metadata", "spec")


def add(commands: Any) -> None:
    """Add the command. ``commands``: the parser's subparsers."""
    check = commands.add_parser(
        "check",
        help="validate cluster, operator, workload and budget files, without a cluster",
        description="A file's kind is recognised by its content. Exit code: 0 where all are right, 2 where one is not.",
    )
    check.add_argument("files", nargs="+", type=Path, metavar="FILE")
    check.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="parameter of workload templates; without those that a template needs, its syntax alone is checked",
    )
    check.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="of an operator definition, also print which objects each field takes, and which are left out and why",
    )
    check.set_defaults(run=_check)


def _check(options: argparse.Namespace) -> int:
    parameters = _parameters(options.param)
    wrong = 0
    for file in options.files:
        try:
            what, check = _kind(file, parameters)
            detail, *more = check(file)
        except GrovescaleError as error:
            parts = error.parts if isinstance(error, DefinitionError) else (error,)
            wrong += len(parts)
            for part in parts:
                text = str(part)
                # Paths as given: an editor opens them with a click, and a CI log stays short.
                say(text.replace(str(file.resolve()), str(file)) if ":" in text else f"{file}: {text}")
        else:
            write(f"{file}: {what}{f' {detail}' if detail else ''}: ok")
            for line in more if options.verbose else ():
                write(f"  {line}")
    if wrong:
        say(f"{wrong} mistake{'s' if wrong > 1 else ''}")
    return 2 if wrong else 0


def _meant(file: Path) -> str:
    """Return which file is meant by the name of one that does not exist: where `init` writes it, or one close to it."""
    from ..scaffold import files

    places = [folder / file.name for folder in (Path(files.FOLDER), Path(files.FOLDER) / "workloads")]
    if there := [str(place) for place in places if place.is_file()]:
        return f"There is {there[0]}."
    return did_you_mean(file.name, (path.name for path in file.parent.glob("*.*")))


def _kind(file: Path, parameters: Mapping[str, Any]) -> tuple[str, Callable[[Path], list[str]]]:
    """Return a file's kind, and its check, which returns what the file defines, and details; detected by its keys.

    Raises DefinitionError for a file that cannot be read, and for one of no known kind.
    """
    import msgspec

    from ..cluster.definition import ClusterDefinition
    from ..operator.schema import OperatorFile
    from ..suggestions import near_names

    kinds: dict[str, tuple[tuple[str, ...], Callable[[Path], list[str]]]] = {
        "cluster definition": (_fields(msgspec.structs.fields(ClusterDefinition)), _cluster),
        "operator definition": (_fields(msgspec.structs.fields(OperatorFile)), _operator),
        "budgets": (("tests",), _budgets),
        "workload": (_OF_AN_OBJECT, lambda path: _workload(path, parameters)),
    }
    if not file.exists():
        raise DefinitionError(f"{file}: no such file", next_step=_meant(file))
    if file.is_dir():
        raise DefinitionError(f"{file}: is a folder", next_step=f"Name its files: grovescale check {file}/*.yaml.")
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"{file}:1: cannot be read: {error}") from error
    keys = set(_TOP_LEVEL.findall(text))
    # A misspelt key counts, too: its file must still be checked.
    scores = {
        what: sum(2 if key in names else bool(near_names(key, names)) for key in keys)
        for what, (names, _) in kinds.items()
    }
    best = max(scores, key=lambda what: scores[what])
    if not scores[best]:
        raise DefinitionError(
            f"{file}:1: is none of: {', '.join(kinds)}", next_step="None of its top-level keys is one of theirs."
        )
    return best, kinds[best][1]


def _fields(fields: Any) -> tuple[str, ...]:
    return tuple(field.encode_name for field in fields)


def _cluster(file: Path) -> list[str]:
    from ..cluster.definition import load_definition

    definition = load_definition(str(file.absolute()))
    return [f"({definition.backend}, Kubernetes {definition.kubernetes}, {definition.node_count} nodes)"]


def _operator(file: Path) -> list[str]:
    from ..checks.budgets import refuse_unknown_rules
    from ..operator.definition import load
    from ..operator.manifest_sources import kinds_text

    definition = load(str(file.absolute()), progress=say)
    refuse_unknown_rules(file.absolute(), definition.findings)
    objects = definition.installation
    fields = {"crds": objects.crds, "webhooks": objects.webhooks, "manifests": objects.manifests}
    taken = [f"{field}: {kinds_text(found)}" for field, found in fields.items() if found]
    whose = f"ServiceAccount {definition.identity.namespace}/{definition.service_account}"
    rights = f", granted {kinds_text(objects.rbac)}" if objects.rbac else ""
    return [definition.name, *taken, f"identity: {whose}{rights}", *(f"left out: {one}" for one in objects.left_out)]


def _budgets(file: Path) -> list[str]:
    from ..checks.budgets import read

    found = read(file.absolute(), Path.cwd())
    return [f"({sum(map(len, found.values()))} checks)"]


def _workload(file: Path, parameters: Mapping[str, Any]) -> list[str]:
    from ..operator import manifests
    from ..operator.manifests import Manifest
    from ..workload import template

    source = str(file.absolute())
    known = template.parameters(source)
    own = {name: value for name, value in parameters.items() if name in known}
    # Of several files each has its own; one that is like a name here is mistyped.
    for name in parameters.keys() - known:
        if near := did_you_mean(name, known - own.keys()):
            raise UsageError(f"--param {name}: {file} has no such parameter", next_step=near)
    try:
        rendered = template.render(source, own, namespace="default", run_id="check", labelled=False)
    except template.MissingParameter:
        needed = sorted(template.without_default(source) - own.keys())
        return [f"(syntax only; give the values that it needs by --param: {', '.join(needed)})"]
    found = [Manifest(obj, f"{file} (rendered):1") for obj in rendered.objects]
    if wrong := list(manifests.errors(found)):
        raise wrong[0]
    return [f"({len(found)} object{'s' if len(found) != 1 else ''})"]


def _parameters(given: list[str]) -> dict[str, Any]:
    import yaml

    from ..yaml_errors import readable

    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--param {text}: not NAME=VALUE", next_step="Write it as --param replicas=3.")
        with readable(f"--param {name.strip()}"):
            found[name.strip()] = yaml.safe_load(value)
    return found
