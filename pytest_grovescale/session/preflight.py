"""Mistakes in the collected tests, found before anything is queued, built or started.

A test's options, marker and files are resolved here as its fixtures will resolve them later. Nothing is sent to a
cluster, and no client library is imported but for `existing` clusters, whose kubeconfig its own library reads.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from .. import definitions, redaction, storage
from ..analysis.result import NO_OPERATOR
from ..bench.baselines import Baselines, check_name
from ..checks.check import text_of
from ..errors import ClusterError, DefinitionError, UsageError
from ..operator import command
from ..operator.pods.definition import refuse_for_pods
from ..operator.schema import OperatorDefinition
from ..options import Settings
from ..scenario.running_phase import idle_twin_name
from ..storage import MB
from ..suggestions import with_all
from ..workload import template
from . import misspelt_names, test_code
from .clusters import planned
from .stash_keys import BUDGET
from .test_code import NamedInCode, Parameter
from .test_config import ItemConfig, folders, is_profiled, node_id

_WRITE_NO_CRDS = (["go", "build"], ["cargo", "build"])
_OPERATOR_FIXTURES = {"scale", "grovescale_operator"}


def of_settings(settings: Settings, root: Path) -> Iterator[str]:
    """Yield mistakes in the settings that affect every test: names of baselines. ``root``: the project's folder."""
    for option, name in (("save", settings.save), ("compare", settings.compare)):
        try:
            if name:
                check_name(name)
        except UsageError as error:
            yield f"--grovescale-{option} {name}: {error}"
            return
    if settings.missing_baseline == "fail" and (missing := missing_baseline(settings, root)):
        yield missing


def missing_baseline(settings: Settings, root: Path) -> str:
    """Return an error where the baseline to compare with is missing; empty if it exists, or none is named."""
    if not settings.compare or settings.compare in (names := Baselines(root).names()):
        return ""
    known = with_all(settings.compare, names, what="Saved are") or "None was saved yet."
    return (
        f"--grovescale-compare {settings.compare}: there is no baseline of that name\n"
        f"  → {known} Save one: --grovescale-save={settings.compare}."
    )


def of_tests(items: Sequence[pytest.Function], settings: Settings, root: Path, *, worker: bool) -> list[str]:
    """Return the mistakes in the tests to run, each once; empty without any.

    ``items`` use a fixture of the plugin. ``worker``: whether this is an xdist worker.
    """
    found: dict[str, None] = {}
    operators: dict[tuple[object, ...], OperatorDefinition | None] = {}
    of_item: dict[pytest.Function, OperatorDefinition | None] = {}
    for item in items:
        wanted = ItemConfig.of(item, settings)
        uses_operator = bool(_OPERATOR_FIXTURES & set(item.fixturenames))
        key = (wanted.operator_key, wanted.workdir, uses_operator, folders(item))
        if key not in operators:
            operators[key], wrong = _resolved(item, wanted, settings, uses_operator=uses_operator, worker=worker)
            found |= dict.fromkeys(wrong)
        of_item[item] = operators[key]
        found |= dict.fromkeys(_hindered(item))
    found |= dict.fromkeys(_without_baseline(items, settings, root))
    scaled = [item for item in items if "scale" in item.fixturenames]
    measured = {item.function for item in scaled if not is_profiled(item)}
    # The profiling pass has the same code; its mistakes are said where the measured one is not selected (-k profiled).
    read = [item for item in scaled if not (is_profiled(item) and item.function in measured)]
    codes = {item: test_code.read(item) for item in read}
    for item, code in codes.items():
        found |= dict.fromkeys(_wrong_workloads(item, code, settings, of_item[item]))
        found |= dict.fromkeys(_late_milestones(item))
        found |= dict.fromkeys(_misspelt(item))
        found |= dict.fromkeys(_wrong_phases(item, code) if settings.budgets else ())
    if not any("parameter" in code.undecided for code in codes.values()):
        found |= dict.fromkeys(unread(settings, _parameters_of(codes.values())))
    found |= dict.fromkeys(_wrong_parameters(settings, codes.values()))
    return list(found)


def _hindered(item: pytest.Function) -> Iterator[str]:
    """Yield the plugins of others that take from a scale test what it needs: pytest-forked, pytest-socket."""
    options = item.config.option
    if getattr(options, "forked", False) or item.get_closest_marker("forked"):
        yield (
            f"{node_id(item)}: pytest-forked runs it in a copy of pytest, without the threads that measure\n"
            "  → Leave out --forked: operator and cluster have processes of their own."
        )
    allowed = {"enable_socket", "allow_hosts"} & {mark.name for mark in item.iter_markers()}
    allowed |= {name for name in ("allow_hosts", "force_enable_socket") if getattr(options, name, None)}
    if getattr(options, "disable_socket", False) and not allowed and "socket_enabled" not in item.fixturenames:
        yield (
            f"{node_id(item)}: pytest-socket forbids all connections (--disable-socket)\n"
            "  → Mark it with @pytest.mark.enable_socket: its cluster is on this machine."
        )


def unwritable(settings: Settings) -> list[str]:
    """Return which of the folders that every run writes cannot be written, or have too little space left."""
    reports = storage.reports_folder(settings.reports, storage.REPORTS_BYTES)
    return [wrong for folder in (reports, storage.state_folder(MB)) if (wrong := storage.wrong_with(folder))]


def short_of_space(items: Sequence[pytest.Function], settings: Settings, *, worker: bool) -> list[str]:
    """Return why clusters of the tests cannot start: too little space in the state or the cache folder.

    For tests without other mistakes (`of_tests`).
    """
    found: dict[str, None] = {}
    seen: set[tuple[object, ...]] = set()
    for item in items:
        wanted = ItemConfig.of(item, settings)
        key = (wanted.cluster_key, folders(item))
        if key in seen:
            continue
        seen.add(key)
        definition = planned(wanted, None, base=folders(item), settings=settings, worker=worker)
        if definition is not None:
            found |= dict.fromkeys(filter(None, map(storage.wrong_with, storage.to_start(definition))))
    return list(found)


def unread(settings: Settings, read: Collection[str]) -> list[str]:
    """Return an error for each parameter of the command line that no test reads; ``read``: those that are read."""
    return [
        f"--grovescale-param {name}={redaction.value(value, name)}: no selected test reads it\n"
        f"  → {with_all(name, sorted(read), what='They read') or 'They read no parameter.'}"
        for name, value in settings.parameters.items()
        if "param" in settings.given and name not in read
    ]


def _parameters_of(codes: Iterable[NamedInCode]) -> set[str]:
    return {name for code in codes for name in code.names("parameter")}


def _wrong_parameters(settings: Settings, codes: Iterable[NamedInCode]) -> Iterator[str]:
    """Yield parameters whose value does not have the type of the test's default."""
    for call in (call for code in codes for call in code.calls if call.method == "parameter"):
        if call.default is not None and _given(settings, Parameter(call.name, call.default)) is None:
            kind, shown = type(call.default).__name__, redaction.value(settings.parameters[call.name], call.name)
            yield (
                f"--grovescale-param {call.name}={shown}: not a value like {call.default!r}\n"
                f"  → Give a value of type {kind}."
            )


def _given(settings: Settings, of: Parameter) -> str | float | bool | None:
    """Return a parameter's value as the test reads it, of its default's type; None: `_wrong_parameters` refuses it."""
    value = settings.parameters.get(of.name)
    if value is None:
        return of.default
    try:
        return type(of.default)(value)
    except ValueError:
        return None


def _wrong_workloads(
    item: pytest.Function, code: NamedInCode, settings: Settings, operator: OperatorDefinition | None
) -> Iterator[str]:
    """Yield the workloads that cannot be rendered: by their parameters' names, and, where all are known, values."""
    # Other builds may write CRDs, too: kubebuilder's `make build`, fabric8's generator for Maven.
    stay = operator is not None and (not operator.build or operator.build[:2] in _WRITE_NO_CRDS)
    crds = [crd.object for crd in operator.installation.crds] if operator is not None and stay else []
    for call in code.calls:
        if call.method == "workload":
            values = {
                name: _given(settings, value) if isinstance(value, Parameter) else value
                for name, value in zip(call.keywords, call.values, strict=True)
            }
            # An error quotes what was rendered.
            redaction.conceal(*redaction.secrets_in(values))
            try:
                template.check(call.name, values, base=folders(item), crds=crds)
            except DefinitionError as error:
                yield f"{node_id(item)}: scale.workload({call.name!r}): {error}"


def _late_milestones(item: pytest.Function) -> Iterator[str]:
    for late in test_code.late_milestones(item):
        yield (
            f"{late.where.removeprefix(f'{item.config.rootpath}{os.sep}')}: {late.text} is declared after"
            f" {late.action} in line {late.action_line}, which begins the phase\n"
            "  → Declare all milestones before the first action, so that none can be missed."
        )


def _misspelt(item: pytest.Function) -> Iterator[str]:
    for one in misspelt_names.misspelt(item):
        place = one.where.removeprefix(f"{item.config.rootpath}{os.sep}")
        yield f"{place}: {one.text} does not exist\n  → {with_all(one.name, sorted(one.known), what='There are')}"


def _without_builder(operator: OperatorDefinition) -> Iterator[str]:
    """Yield an error where the program that builds an operator is not on this machine."""
    tool = operator.build[0] if operator.build else ""
    # One with a folder may be made before it is needed; pytest's folder is where it runs.
    if tool and "/" not in tool and shutil.which(tool) is None:
        yield (
            f"{operator.source}: build: {tool} is not on PATH\n"
            f"  → Install {tool}, or build the operator by another program: its line is {shlex.join(operator.build)}"
        )


def _without_program(operator: OperatorDefinition) -> Iterator[str]:
    """Yield an error where an operator's command is a program that is not on this machine, and nothing makes it."""
    program = operator.command[0] if operator.command else ""
    if not isinstance(program, str) or {"/", "{"} & set(program) or "PATH" in operator.env or operator.build:
        return
    if program and shutil.which(program) is None:
        place = definitions.where(Path(operator.source), ("command", 0))
        yield f"{place}: {program} is not on PATH\n  → Install it, or name the program by its path."


def _wrong_phases(item: pytest.Function, code: NamedInCode) -> Iterator[str]:
    """Yield the phases that a test's checks name and its code does not have."""
    phases = code.names("phase")
    if "phase" in code.undecided or not phases:
        return
    known = [*phases, *map(idle_twin_name, phases)]
    for check, source in item.stash.get(BUDGET, ()):
        name = getattr(check, "phase", "")
        if name and name not in known:
            yield (
                f"{source}: {text_of(check)}: {node_id(item)} has no phase {name!r}\n"
                f"  → {with_all(name, phases, what='Its phases')}"
            )


def _resolved(
    item: pytest.Function, wanted: ItemConfig, settings: Settings, *, uses_operator: bool, worker: bool
) -> tuple[OperatorDefinition | None, list[str]]:
    """Return a test's operator, None without one or where it is wrong, and the mistakes in it and in its cluster."""
    operator: OperatorDefinition | None = None
    wrong: list[str] = []
    try:
        # A run that only collects needs none: `grovescale compare` names the operators itself.
        needed = uses_operator and (wanted.operator or not item.config.option.collectonly)
        operator = wanted.definition(item) if needed else None
        if operator is not None and operator.pod is None:
            command.core_numbers(operator.limits.cores)
            wrong += [*_without_builder(operator), *_without_program(operator)]
    except DefinitionError as error:
        wrong.append(_located(error, item, settings, "operator"))
    except UsageError as error:
        wrong.append(f"{_marked(item, settings, 'operator', 'values')}{error}")
    if operator is not None and wanted.faults:
        try:
            refuse_for_pods(operator)
        except UsageError as error:
            wrong.append(f"{node_id(item)}: {error}")
    if wanted.operator == NO_OPERATOR and "grovescale_operator" in item.fixturenames:
        wrong.append(
            f"{node_id(item)}: the test uses grovescale_operator, and its operator is `{NO_OPERATOR}`\n"
            "  → Leave one of them out."
        )
    try:
        planned(wanted, operator, base=folders(item), settings=settings, worker=worker)
    except DefinitionError as error:
        wrong.append(_located(error, item, settings, "cluster"))
    except (UsageError, ClusterError) as error:
        wrong.append(f"{_marked(item, settings, 'cluster', 'kubernetes')}{error}")
    return operator, wrong


def _without_baseline(items: Sequence[pytest.Function], settings: Settings, root: Path) -> Iterator[str]:
    if not settings.compare or settings.missing_baseline != "fail":
        return
    baselines = Baselines(root)
    for item in items:
        if "scale" in item.fixturenames and not is_profiled(item):
            nodeid = node_id(item)
            if baselines.metrics(settings.compare, nodeid) is None:
                yield (
                    f"baseline {settings.compare!r} does not hold {nodeid}\n  → Record it: "
                    f"--grovescale-save={settings.compare}; or go on without: --grovescale-missing-baseline=warn."
                )


def _located(error: DefinitionError, item: pytest.Item, settings: Settings, name: str) -> str:
    """Return a mistake with its place: in a file, the file's line; in a file's name, the place that names it."""
    text = str(error)
    if text.startswith("/"):
        return text
    marker = _marked(item, settings, name)
    return f"{marker}{text}" if marker else f"--grovescale-{name} {text}"


def _marked(item: pytest.Item, settings: Settings, *names: str) -> str:
    """Return the marker's effective arguments of these names, as the beginning of a message; empty for none."""
    marker = item.get_closest_marker("grovescale")
    chosen = {
        name: value
        for name, value in (marker.kwargs if marker is not None else {}).items()
        if name in names and name not in settings.given
    }
    arguments = ", ".join(f"{name}={value!r}" for name, value in chosen.items())
    return f"{node_id(item)}: @pytest.mark.grovescale({arguments}): " if chosen else ""
