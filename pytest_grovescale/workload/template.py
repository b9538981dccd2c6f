"""Workload templates: Kubernetes manifests with parameters, in jinja2.

Strict in both directions: a missing parameter is an error, and so is an unknown one. Three parameters are always
defined: ``namespace``, the test's own, ``run_id``, and ``node_labels``, the labels of the cluster's simulated nodes:
``nodeSelector: {{ node_labels | tojson }}`` schedules pods on these only. A parameter with a default is written ``{{
replicas | default(500) }}``, or once, at the top: ``{% set replicas = replicas | default(500) %}``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta
import jinja2.nodes
import msgspec

from .. import resources
from ..errors import DefinitionError
from ..operator import manifests
from ..operator.manifests import Object
from ..suggestions import did_you_mean

FOLDER = "workloads"
RUN_LABEL = "grovescale.io/run"
"""Label with the run's id, on every workload object and every namespace of a run."""

PROVIDED = ("namespace", "run_id", "node_labels")

_EXCERPT = 2
_CHECKED = 100_000
"""Characters of the rendered text that are read before a test runs; all of 10,000 pods would take two seconds."""


class MissingParameter(DefinitionError):
    """A required parameter of a template is missing."""


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of one template, ready to be applied."""

    source: str
    """The template's absolute path."""
    objects: list[Object]
    """In the template's order; each has a name, a namespace (cluster-scoped kinds ignore it) and, by default, the run's
    label."""
    parameters: dict[str, Any]
    node_labels: dict[str, str] = {}


def render(
    template: str,
    parameters: Mapping[str, Any],
    *,
    namespace: str,
    run_id: str,
    node_labels: Mapping[str, str] = {},
    base: resources.Folders | None = None,
    labelled: bool = True,
) -> Rendered:
    """Return the objects of a template, each with the run's label unless ``labelled`` is False.

    ``node_labels``: of the simulated nodes, if there are other nodes. ``template`` is a path (relative to one of the
    folders ``base``), or a name in their ``workloads`` or the bundled ones. Raises DefinitionError with ``file:line``
    for a missing template, invalid jinja2, an unknown or missing parameter, and rendered text that is no Kubernetes
    object.
    """
    path = resources.find(FOLDER, template, base=base)
    provided = {"namespace": namespace, "run_id": run_id, "node_labels": dict(node_labels)}
    values = {name: _json_safe(path, name, value) for name, value in parameters.items()}
    labels = {RUN_LABEL: run_id} if labelled else {}
    objects = _objects(path, _text(path, values, provided), namespace, labels)
    return Rendered(source=str(path), objects=objects, parameters=values, node_labels=dict(node_labels))


def check(
    template: str,
    parameters: Mapping[str, Any],
    *,
    base: resources.Folders | None = None,
    crds: Sequence[Object] = (),
) -> None:
    """Raise DefinitionError as `render` would for these parameters, before the test runs.

    So it is for a version or a misspelt kind that none of ``crds``, those of the operator under test, has. A value of
    None is not known; while one is not, or a parameter is missing, the template's own syntax and the parameters' names
    are checked. Of a long text, objects from its beginning: those of a loop are alike.
    """
    path = resources.find(FOLDER, template, base=base)
    _refuse_unknown(path, parameters, _parameters(_environment(path), path))
    if None in parameters.values():
        return
    try:
        text = _text(path, parameters, {"namespace": "default", "run_id": "check", "node_labels": {}})
    except MissingParameter:
        return
    end = text.rfind("\n---", 0, _CHECKED) if len(text) > _CHECKED else -1
    for obj in _objects(path, text[:end] if end > 0 else text, "default", {}):
        _refuse_unserved(path, obj, crds)


def _refuse_unserved(path: Path, obj: Object, crds: Sequence[Object]) -> None:
    group, _, version = str(obj["apiVersion"]).rpartition("/")
    kinds = {crd["spec"]["names"]["kind"]: crd["spec"] for crd in crds if crd["spec"].get("group") == group}
    kind = str(obj["kind"])
    if kind in kinds:
        versions = [str(one.get("name")) for one in kinds[kind].get("versions") or [] if one.get("served")]
        if versions and version not in versions:
            raise DefinitionError(
                f"{path}: {group}/{version}: the operator's CRD of {kind} has no such version",
                next_step=f"Served are: {', '.join(versions)}.",
            )
    # Others of the group may be there without it.
    elif near := did_you_mean(kind, kinds):
        raise DefinitionError(f"{path}: {group} has no kind {kind} among the operator's CRDs", next_step=near)


def parameters(template: str, *, base: resources.Folders | None = None) -> set[str]:
    """Return the names of a template's parameters. Raises DefinitionError as `check`."""
    path = resources.find(FOLDER, template, base=base)
    return _parameters(_environment(path), path)


def without_default(template: str) -> set[str]:
    """Return the names of a template's parameters that have no default. Raises DefinitionError as `check`."""
    path = resources.find(FOLDER, template)
    return _parameters(_environment(path), path, skip_defaults=True)


def _environment(path: Path) -> jinja2.Environment:
    return jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FileSystemLoader(path.parent),
        extensions=["jinja2.ext.do"],
        keep_trailing_newline=True,
    )


def _parameters(environment: jinja2.Environment, path: Path, *, skip_defaults: bool = False) -> set[str]:
    """Return every variable that the template, or one that it includes by a fixed name, reads.

    ``skip_defaults``: without those that are read with a default, ``{{ replicas | default(500) }}``.
    """
    found: set[str] = set()
    waiting, seen = [path.name], {path.name}
    while waiting:
        name = waiting.pop()
        try:
            source, _, _ = environment.loader.get_source(environment, name)  # type: ignore[union-attr]
            tree = environment.parse(source, name, str(path.parent / name))
            # Here a filter that jinja does not know is a mistake.
            undeclared = jinja2.meta.find_undeclared_variables(tree)
        except jinja2.TemplateSyntaxError as error:
            raise DefinitionError(
                f"{path.parent / name}:{error.lineno}: not a template: {error.message}",
                next_step="Mend this line, or the block that it belongs to: a workload is a Jinja template.",
            ) from error
        except jinja2.TemplateNotFound as error:
            raise DefinitionError(f"{path}:1: includes {error.name}, which is not in {path.parent}") from error
        except UnicodeDecodeError as error:
            raise DefinitionError(f"{path.parent / name}:1: cannot be read: {error}") from error
        if skip_defaults:
            for read in tree.find_all(jinja2.nodes.Filter):
                if read.name in ("default", "d"):
                    read.node = jinja2.nodes.Const(None)
            undeclared = jinja2.meta.find_undeclared_variables(tree)
        found |= undeclared
        included = {other for other in jinja2.meta.find_referenced_templates(tree) if other}
        waiting += included - seen
        seen |= included
    return found - set(PROVIDED)


def _refuse_unknown(path: Path, parameters: Iterable[str], known: set[str]) -> None:
    for name in parameters:
        if name in PROVIDED:
            raise DefinitionError(f"{path}:1: {name}: is given to every template by the run itself")
        if name not in known:
            raise DefinitionError(
                f"{path}:1: {name}: the template has no such parameter",
                next_step=f"{did_you_mean(name, known)} {_has(known)}".lstrip(),
            )


def _json_safe(path: Path, name: str, value: Any) -> Any:
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, msgspec.MsgspecError) as error:
        raise DefinitionError(
            f"{path}:1: {name}: {value!r:.80} cannot be written as JSON: {error}",
            next_step="Parameters are texts, numbers, booleans, lists and mappings.",
        ) from error


def _text(path: Path, parameters: Mapping[str, Any], provided: Mapping[str, Any]) -> str:
    """Return what a template renders to. ``provided``: values of `PROVIDED`."""
    environment = _environment(path)
    known = _parameters(environment, path)
    _refuse_unknown(path, parameters, known)
    try:
        return environment.get_template(path.name).render({**parameters, **provided})
    except jinja2.UndefinedError as error:
        missing = known - {*parameters, *provided}
        there = {*known, *_assigned(environment, path)} - missing
        near = " ".join(filter(None, (did_you_mean(name, there) for name in sorted(missing))))
        raise MissingParameter(
            f"{path}:{_line_of(error, path)}: {error.message}",
            next_step=near or f"Give it a value. {_has(known)}",
        ) from error
    except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        place = f"{path}:{_line_of(error, path)}"
        if jinja2.StrictUndefined.__name__ in str(error):
            # As range() does, which does not check the value first.
            raise MissingParameter(
                f"{place}: a parameter that is needed here has no value", next_step=f"Give it one. {_has(known)}"
            ) from error
        raise DefinitionError(f"{place}: {type(error).__name__}: {error}") from error


def _assigned(environment: jinja2.Environment, path: Path) -> set[str]:
    """Return the variables that a template sets itself, as those of its loops."""
    tree = environment.parse(path.read_text(encoding="utf-8"), path.name, str(path))
    return {name.name for name in tree.find_all(jinja2.nodes.Name) if name.ctx == "store"}


def _line_of(error: BaseException, path: Path) -> int:
    """Return the template's line: jinja2 rewrites the traceback's innermost template frame to it."""
    line, trace = 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _objects(path: Path, text: str, namespace: str, labels: Mapping[str, str]) -> list[Object]:
    """Return the objects of the rendered text; an error quotes the lines around it, as its numbers are of that text."""
    source = f"{path} (rendered)"
    try:
        objects = [_owned(manifest.object, namespace, labels) for manifest in manifests.parse(text, source)]
    except DefinitionError as error:
        lines = text.splitlines()
        # An unexpected end of the text is reported for the line after its last.
        number = min(int(error.message.removeprefix(f"{source}:").partition(":")[0]), len(lines))
        first = max(0, number - 1 - _EXCERPT)
        excerpt = "\n".join(
            f"  {'>' if index == number else ' '} {index:4} {line}"
            for index, line in enumerate(lines[first : number + _EXCERPT], start=first + 1)
        )
        raise DefinitionError(f"{error.message}\n{excerpt}", next_step=error.next_step) from None
    if not objects:
        raise DefinitionError(f"{path}:1: renders to no object", next_step="Check its conditions and loops.")
    _refuse_duplicates(path, objects)
    return objects


def _owned(obj: Object, namespace: str, labels: Mapping[str, str]) -> Object:
    metadata = {"namespace": namespace, **obj["metadata"]}
    if labels:
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    return {**obj, "metadata": metadata}


def _refuse_duplicates(path: Path, objects: list[Object]) -> None:
    seen: set[tuple[str, str, str, str]] = set()
    for obj in objects:
        metadata = obj["metadata"]
        if "name" not in metadata:
            raise DefinitionError(
                f"{path}:1: {manifests.title(obj)} has a generateName",
                next_step="Give each object a name of its own, e.g. with {{ loop.index }}: a test must find it again.",
            )
        identity = (obj["apiVersion"], obj["kind"], metadata["namespace"], metadata["name"])
        if identity in seen:
            raise DefinitionError(
                f"{path}:1: two objects are {manifests.title(obj)}",
                next_step="Objects in a loop need names that differ, e.g. with {{ loop.index }}.",
            )
        seen.add(identity)


def _has(known: set[str]) -> str:
    return f"Its parameters: {', '.join(sorted(known))}." if known else "It has no parameters."
