"""The files of a project's first scale test, as text: operator definition, workloads, test, workflow.

Pure: facts in, files out. A guess is a comment that begins with ``guess:`` in the file itself; the command lists them.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import msgspec
import yaml

from ..errors import DefinitionError
from ..operator.manifests import CRD
from ..operator.schema import NAME
from . import builtin_kinds, compiled, custom_resources, deployment, dockerfile, interpreted, milestones, program
from .custom_resources import CustomResource, Sample
from .facts import KUSTOMIZED, OUTPUTS, UP, YAML, Facts, unreadable
from .first_test import first_test, is_reconciled, kinds_of, owned_kinds
from .program import Program
from .rbac import rbac
from .rendering import rendered, variable
from .workload_template import workload_template

FOLDER = "tests/scale"
WORKFLOW = ".github/workflows/scale.yml"
TRIGGER = "grovescale.io/reconcile-trigger"
GUESS = "guess: "
_IN_LINES = ("command", "env", "pod")


class File(msgspec.Struct, frozen=True):
    """A file to be written."""

    path: str
    """Relative to the project."""
    text: str
    appended: bool = False
    """Lines for an existing file's end, where it lacks them."""

    @property
    def guesses(self) -> Iterator[tuple[int, str]]:
        """Line and text of each guess."""
        for number, line in enumerate(self.text.splitlines(), 1):
            _, mark, text = line.partition(GUESS)
            if mark:
                yield number, text.removesuffix(" -#}").strip()


class Plan(msgspec.Struct, frozen=True):
    """What is written, and the command to type next."""

    files: tuple[File, ...]
    next_command: str
    test: str
    """Path of the test."""
    needs: tuple[str, ...] = ()
    """Modules that the operator imports, of which `install` is the command."""
    install: str = ""


def plan(facts: Facts) -> Plan:
    """Return the files for a project. Raises DefinitionError where it has no custom resource, or no operator."""
    resources = custom_resources.custom_resources(facts)
    if not resources and (refused := _lacks_definitions(facts)):
        raise refused
    found = program_of(facts) or (_as_pods(facts) if resources else None)
    builtin = None if resources or found is None else builtin_kinds.builtin_resource(facts, found)
    if found is None or not (resources or builtin):
        raise _nothing_defined(facts)
    ordered = [builtin] if builtin else _with_named(facts, _ordered(facts, resources, found), resources)
    samples = {resource.kind: _sample(facts, resource, found) for resource in ordered}
    with_samples = {resource.kind: (resource, samples[resource.kind]) for resource in ordered}
    primary = ordered[0]
    # Of a kind that no controller is for, no test shows anything.
    tested = [one for one in ordered if one is primary or is_reconciled(found, one, ordered)]
    made = {kind for one in tested for kind in kinds_of(one.kind, with_samples)}
    test = f"{FOLDER}/test_{variable(primary)}.py"
    command = f"pytest --grovescale {FOLDER}"
    files = [
        File(f"{FOLDER}/operator.yaml", _definition(facts, resources or ordered, primary, found)),
        *(
            File(
                f"{FOLDER}/workloads/{resource.kind.lower()}.yaml.j2",
                workload_template(facts, resource, samples, found),
            )
            for resource in ordered
            if resource.kind in made
        ),
        *(
            File(
                f"{FOLDER}/test_{variable(resource)}.py",
                first_test(_name(facts), facts, resource, found, with_samples),
            )
            for resource in tested
        ),
        File(WORKFLOW, _workflow(found, command, [resource.file for resource in resources])),
        File(".gitignore", "".join(f"{line}\n" for line in _ignored(facts, found)), appended=True),
    ]
    return Plan(tuple(file for file in files if file.text), command, test, found.modules, install_command(found))


def program_of(facts: Facts) -> Program | None:
    """Return the operator's program as a process; None where no sources of one are found."""
    return (
        program.go_program(facts)
        or interpreted.interpreted_program(facts)
        or compiled.compiled_program(facts)
        or interpreted.shell_program(facts)
        or interpreted.unstarted_program(facts)
    )


def _sample(facts: Facts, resource: CustomResource, found: Program) -> Sample:
    if resource.file:
        return custom_resources.sample(facts, resource)
    of_samples = tuple(obj for obj in facts.objects if builtin_kinds.is_sample(obj.file))
    if any(obj.kind == resource.kind for obj in of_samples):
        made = custom_resources.sample(msgspec.structs.replace(facts, objects=of_samples), resource)
        labels = {**(made.object["metadata"].get("labels") or {}), **builtin_kinds.MARK}
        return msgspec.structs.replace(
            made, object={**made.object, "metadata": {**made.object["metadata"], "labels": labels}}
        )
    return Sample(
        object=builtin_kinds.sample_of(resource, found.text), source="what its sources name", made_from_schema=True
    )


def _as_pods(facts: Facts) -> Program:
    """Return an operator that runs as the Deployment of its manifests, for a project without sources."""
    deployments = list(dict.fromkeys(found.file for found in facts.of_kind("Deployment")))
    unfound = interpreted.not_found(facts)
    if not deployments:
        why = "".join(f"; {message}" for message in (unfound, *facts.unrendered.values()) if message)
        raise DefinitionError(
            f"{facts.name}: no operator was found: no Go package that makes a manager, no handlers of kopf, no"
            " Cargo.toml, pom.xml, build.gradle or .csproj of a program, no program in Python, a shell or for node that"
            f" package.json, a Dockerfile or a Deployment starts, no Deployment{why}",
            next_step="Name the folder with its sources, or with its manifests"
            + (f": grovescale init {facts.inner[0]}" if facts.inner else ".")
            + f" Of another language: write {FOLDER}/operator.yaml with build: and command: (docs/operators.md).",
        )
    if KUSTOMIZED in facts.files:
        deployments = [str(PurePosixPath(KUSTOMIZED).parent)]
    started = next((start for start in dockerfile.starts(facts) if start.file.endswith("file")), None)
    if started and not unfound:
        instead = f"build: [make, build] and command: [bin/{PurePosixPath(started.words[0]).name}]"
        words = shlex.join(started.words)
        unfound = f"{started.file} starts {words}: as a process it needs no kind cluster, by {instead}"
    return Program(
        language="pods",
        command=(),
        manifests=tuple(deployments),
        guesses={"pod": (unfound,)} if unfound else {},
        text="",
    )


def _lacks_definitions(facts: Facts) -> DefinitionError | None:
    """Return what to do in a project whose kinds are defined by files that are not there yet, or cannot be read."""
    if wrong := next(unreadable(facts, CRD), None):
        return wrong
    kinds = program.project_kinds(facts)
    if kinds:
        return DefinitionError(
            f"{facts.name}: PROJECT lists {', '.join(kinds)}, but no CustomResourceDefinition is in this folder",
            next_step="Generate them first: make manifests",
        )
    if incomplete := facts.of_kind(CRD):
        one = incomplete[0]
        return DefinitionError(
            f"{one.file}: {one.name} has no version that is stored, or no names",
            next_step=f"See what it lacks: grovescale check {one.file}",
        )
    if writes := compiled.lacks_crds(facts):
        return DefinitionError(f"{facts.name}: no CustomResourceDefinition is in this folder", next_step=writes)
    return None


def _nothing_defined(facts: Facts) -> DefinitionError:
    return DefinitionError(
        f"{facts.name}: no CustomResourceDefinition is in this folder",
        next_step=f"Name the folder of an operator's project: grovescale init {(*facts.inner, 'FOLDER')[0]}. Or put the"
        " definitions of its kinds there as YAML: kubectl get crd NAME -o yaml > crd.yaml",
    )


def _ordered(facts: Facts, resources: Sequence[CustomResource], found: Program) -> list[CustomResource]:
    """Return the resources that users create, that which is tested first at the beginning."""
    listed = program.project_kinds(facts)
    reconciled = set(re.findall(r"\bFor\(\s*&\w+\.(\w+)\{", found.text))
    owned = owned_kinds(found)
    named = milestones.literals(found.text)
    has_sample = {obj.kind for obj in facts.objects if obj.kind != CRD}

    def is_made(resource: CustomResource) -> bool:
        """Return whether it is made for others, not by users: PROJECT lists what the project is about."""
        return resource.kind in owned and resource.kind not in listed

    def rank(resource: CustomResource) -> tuple[object, ...]:
        return (
            is_made(resource),
            bool(reconciled) and resource.kind not in reconciled,
            found.language == "python" and resource.plural not in named,
            listed.index(resource.kind) if resource.kind in listed else len(listed),
            resource.kind not in has_sample,
            resource.kind,
        )

    ranked = sorted(resources, key=rank)
    created = [each for each in ranked if each.kind in has_sample and not is_made(each)]
    return [ranked[0], *(each for each in created if each is not ranked[0])]


def _with_named(
    facts: Facts, ordered: Sequence[CustomResource], resources: Sequence[CustomResource]
) -> list[CustomResource]:
    """Return resources, then those that a field of their samples names and that have none."""
    found = list(ordered)
    for resource in (one for one in found if one.file):
        sample = custom_resources.sample(facts, resource).object
        others = {each.kind: "" for each in resources if each not in found}
        named = {one.kind for one in custom_resources.references(sample, others)}
        found += [each for each in resources if each.kind in named]
        found += [each for each in builtin_kinds.named_resources(facts, sample) if each not in found]
    return found


# ---- the operator definition


_CERTIFIED = "Its webhooks get an issued certificate: a rotated one would be mounted by a kubelet."
_MOUNTED = "What its Deployment mounts from a ConfigMap, with free ports."


def _definition(facts: Facts, resources: Sequence[CustomResource], primary: CustomResource, found: Program) -> str:
    rights, of_rights = ("", []) if found.manifests else rbac(facts, resources, found)
    metrics: dict[str, Any] = {"url": found.metrics}
    guesses = {field: list(texts) for field, texts in found.guesses.items()}
    if found.secure_metrics:
        metrics |= {"token": True, "insecure_skip_verify": True}
    guesses["rbac"] = of_rights
    if any(resource.file.startswith(OUTPUTS) for resource in resources):
        guesses["crds"] = [f"made by its build: where they are not there yet, {shlex.join(found.build)}"]
    fields: dict[str, Any] = {
        "name": _name(facts),
        "build": list(found.build),
        "command": list(found.command),
        "pod": _pod(facts, found),
        "env": dict(found.env),
        "files": dict(found.files),
        "crds": _crd_paths(facts, resources, found),
        "rbac": rights,
        "webhooks": [UP + file for file in found.webhooks],
        "webhook_port": found.webhook_port,
        "readiness": _readiness(found),
        "metrics": metrics if found.metrics else {},
        "reconciles": dict(found.reconciles),
        "pprof": {"url": found.pprof} if found.pprof else {},
        "trigger": {"kind": primary.kind, _trigger(primary): TRIGGER},
    }
    said = {
        "build": "Run where pytest is started, before the operator is.",
        "files": _CERTIFIED if "internalCertManagement" in "".join(found.files.values()) else _MOUNTED,
        "pod": "It runs as pods, which takes a kind cluster (docs/clusters.md): no sources of a program were found.",
        "rbac": "It runs as a ServiceAccount with these rights, never as admin.",
        "trigger": "Changed to trigger a reconcile that should find nothing to do.",
    }
    parts = [f"# {_name(facts)} under test: grovescale check {FOLDER}/operator.yaml\n"]
    parts += [f"# {GUESS}{text}\n" for text in _unread(facts)]
    for field, value in fields.items():
        if not value:
            continue
        parts += [f"# {said[field]}\n"] if field in said else []
        parts += [f"# {GUESS}{text}\n" for text in guesses.pop(field, [])]
        parts.append(_field(field, value, block=field in _IN_LINES or (field == "rbac" and isinstance(rights, list))))
    # Guesses of fields that are not written stand at the end.
    parts += [f"# {GUESS}{text}\n" for texts in guesses.values() for text in texts]
    return "".join(parts)


def _unread(facts: Facts) -> Iterator[str]:
    """Yield which charts could not be rendered, so that the Deployment and the roles in them are not known."""
    for folder, why in facts.unrendered.items():
        yield (
            f"the chart {folder} was not read ({why}): its Deployment, settings and roles are missing here. Install"
            " helm (https://helm.sh/docs/intro/install), remove this file, and run grovescale init again"
        )


def _trigger(primary: CustomResource) -> str:
    is_copied = not primary.file and primary.kind in builtin_kinds.COPIES_ANNOTATIONS
    return "label" if is_copied else "annotation"


def _readiness(found: Program) -> dict[str, str]:
    if found.manifests:
        return {}
    # On a busy machine, a JVM took 44 s to start Spring.
    timeout = {"timeout": "2m"} if found.language == "java" else {}
    return {**({"url": found.readiness} if found.readiness else {"log": "."}), **timeout}


def _pod(facts: Facts, found: Program) -> dict[str, Any]:
    if not found.manifests:
        return {}
    ports = [
        str(port["name"])
        for found_ in facts.of_kind("Deployment")
        for one in deployment.containers(found_.object)
        for port in one.get("ports") or []
        if "metrics" in str(port.get("name", ""))
    ]
    # A folder of an installation: Namespace, ServiceAccount and roles stand beside the Deployment.
    sources = [UP + _folder_of(facts, file) for file in found.manifests]
    return {"manifests": sources, **({"metrics": {"port": ports[0]}} if ports else {})}


def _folder_of(facts: Facts, file: str) -> str:
    """Return the folder of a file where its ServiceAccount is in another file of it, else the file."""
    folder = str(PurePosixPath(file).parent)
    beside = [found for found in facts.of_kind("ServiceAccount") if str(PurePosixPath(found.file).parent) == folder]
    return folder if folder != "." and beside and all(found.file != file for found in beside) else file


_NAMES = (
    ("PROJECT", r"^projectName:\s*(\S+)"),
    ("go.mod", r"^module\s+(?:\S+/)?(?!v\d+$)([^\s/]+)(?:/v\d+)?$"),
    ("Cargo.toml", r"^\[package\][^\[]*?^name\s*=\s*[\"']([^\"']+)"),
    # Its own, which stands behind its parent's.
    ("pom.xml", r"(?s)\A(?:.*?</parent>)?.*?<artifactId>\s*([^<\s]+)"),
    ("pyproject.toml", r"^\[project\][^\[]*?^name\s*=\s*[\"']([^\"']+)"),
    ("package.json", r"\"name\"\s*:\s*\"(?:@[^\"/]*/)?([^\"]+)"),
)
"""Files that have the project's name, and where; the first one counts."""
_ANY_OPERATOR = frozenset({"operator", "controller", "controller-manager", "manager", "app", "main", "src"})
"""Names that say no more than that."""


def _name(facts: Facts) -> str:
    """Return the project's name as its own files, its folder or its Deployment have it, as an operator's name."""
    found = (re.search(pattern, facts.files.get(file, ""), re.MULTILINE) for file, pattern in _NAMES)
    names = [next(filter(None, match.groups())) for match in found if match] or [facts.name]
    names += [str((one.object.get("metadata") or {}).get("name", "")) for one in facts.of_kind("Deployment")]
    plain = [re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:52].strip("-") for name in names]
    return next((name for name in plain if NAME.fullmatch(name) and name not in _ANY_OPERATOR), "operator")


_CONVERTED = "config/crd"
"""Where kubebuilder's patches of CRDs are, which name their conversion webhook."""


def _crd_paths(facts: Facts, resources: Sequence[CustomResource], found: Program) -> list[str]:
    """Return the folders of the CRDs' files where they hold nothing else, else the files.

    The kustomization of kubebuilder's CRDs where its patches have a conversion webhook that the program can serve.
    """
    patched = any("conversion" in obj.object.get("spec", {}) for obj in facts.objects if obj.kind == CRD)
    if patched and found.webhooks and f"{_CONVERTED}/kustomization.yaml" in facts.files:
        return [UP + _CONVERTED]
    files = dict.fromkeys(resource.file for resource in resources if resource.file)
    paths: dict[str, None] = {}
    for file in files:
        folder = str(PurePosixPath(file).parent)
        inside = [path for path in facts.files if str(PurePosixPath(path).parent) == folder and path.endswith(YAML)]
        whole = folder != "." and bool(inside) and set(inside) <= files.keys()
        paths[UP + (folder if whole else file)] = None
    return list(paths)


# ---- workflow, .gitignore


_SAME_NAME = {
    "aiohttp",
    "kopf",
    "kr8s",
    "kubernetes",
    "kubernetes_asyncio",
    "lightkube",
    "prometheus_client",
    "requests",
}
"""Modules whose package has the same name."""


def _installed(found: Program) -> str:
    """Return pip's arguments for what a Python program needs."""
    named = {"requirements.txt": " -r requirements.txt", "pyproject.toml": " ."}
    return named.get(found.requirements, "".join(f" {module}" for module in found.modules if module in _SAME_NAME))


def install_command(found: Program) -> str:
    """Return the command that installs what a Python program imports; empty for others, and where it is not known."""
    installed = _installed(found) if found.language == "python" else ""
    return f"pip install{installed}" if installed else ""


def _workflow(found: Program, command: str, crds: Iterable[str]) -> str:
    # Java's CRDs may be made by the build, which pytest starts after it has read them.
    crds_made = any(file.startswith(OUTPUTS) for file in crds)
    return rendered(
        "workflow.yml.j2",
        language=found.language,
        requirements=_installed(found),
        build=shlex.join(found.build) if crds_made else "",
        command=command,
    )


def _ignored(facts: Facts, found: Program) -> list[str]:
    """Return the lines that .gitignore lacks."""
    there = {line.strip().strip("/").removesuffix("/*") for line in facts.files.get(".gitignore", "").splitlines()}
    wanted = ["/reports/"]
    if found.language == "go" and not there & {"bin", "bin/manager", "manager"}:
        wanted.append("/bin/manager")
    output = {"rust": "target", "dotnet": "bin"}.get(found.language, "")
    if output and not any(PurePosixPath(line).name.lower() in (output, "[bb]in") for line in there):
        wanted.append(f"{output}/")
    return [line for line in wanted if line.strip("/") not in there]


def _field(name: str, value: Any, *, block: bool) -> str:
    """Return one field: its value beside its name, or below it where ``block``; texts of several lines as such."""
    if isinstance(value, dict) and any(isinstance(inner, str) and "\n" in inner for inner in value.values()):
        return f"{name}:\n" + "".join(f"  {key}: |\n{textwrap.indent(inner, '    ')}" for key, inner in value.items())
    if block and isinstance(value, list):
        return f"{name}:\n" + "".join(f"  - {_in_one_line(item)}\n" for item in value)
    if block and isinstance(value, dict):
        return f"{name}:\n" + "".join(f"  {key}: {_in_one_line(inner)}\n" for key, inner in value.items())
    return f"{name}: {_in_one_line(value)}\n"


def _in_one_line(value: Any) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10_000, default_flow_style=True)
    return text.removesuffix("...\n").rstrip("\n")


def described(files: Iterable[File]) -> list[str]:
    """Return ``file:line: guess`` for each guess in the files."""
    return [f"{file.path}:{line}: {text}" for file in files for line, text in file.guesses]


def sources(files: Iterable[File]) -> Mapping[str, str]:
    """Return path → text."""
    return {file.path: file.text for file in files}
