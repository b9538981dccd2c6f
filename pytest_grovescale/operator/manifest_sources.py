"""Where the objects of a definition come from, and which field takes which of them.

A source is a file, a folder of files, a kustomize folder or a Helm chart. It is read once, whatever fields name it, and
each field takes the objects of its kinds: ``crds``, ``rbac``, ``webhooks`` and ``manifests`` may all name the folder of
an installation. What an operator as a process has no use for is left out: its own workload and what scales or guards
it, and objects for add-ons that the cluster of a test does not have.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ..definitions import Mistakes
from ..errors import DefinitionError, GrovescaleError
from ..yaml_errors import readable
from . import manifests
from .manifests import ACCOUNT, BINDINGS, CRD, ROLES, WEBHOOKS, Manifest, Object, group, title
from .schema import OperatorFile

Keys = tuple[str | int, ...]
Fail = Callable[..., DefinitionError]
FailHere = Callable[[str, str], DefinitionError]
"""Returns the error for the source that is read: problem, next step."""
Absolute = Callable[[Keys, str], str]
Progress = Callable[[str], None]

FORMS = (
    "Name a file, a folder of files, a kustomize folder (with a kustomization.yaml) or a Helm chart (a folder with a "
    "Chart.yaml, or an archive)."
)

DEFAULT_NAMESPACE = "grovescale-operator"
"""Namespace of an operator whose definition and manifests name none, and of a chart's release."""

_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""File names that kustomize reads, https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/."""

_CHART = "Chart.yaml"
_SUFFIXES = (".yaml", ".yml", ".json")
_RENDER_S = 120.0
"""Time limit, s. A kustomization may have remote bases to download."""

_KUBECTL = (1, 27)
"""The first kubectl with kustomize 5, https://github.com/kubernetes-sigs/kustomize#kubectl-integration."""

_KINDS: dict[str, tuple[str, ...]] = {
    "crds": (CRD,),
    "rbac": (*ROLES, *BINDINGS, ACCOUNT),
    "webhooks": WEBHOOKS,
}
"""Field → the kinds that it takes; ``manifests`` takes the others."""

_FIELD_OF = {kind: field for field, kinds in _KINDS.items() for kind in kinds}

_WORKLOADS = (
    *("CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "ReplicationController", "StatefulSet"),
    *("HorizontalPodAutoscaler", "NetworkPolicy", "PodDisruptionBudget"),
)
# An APIService whose server does not run breaks discovery for everyone.
_ADDONS = {
    "apiregistration.k8s.io": "its server does not run here",
    "cert-manager.io": "grovescale issues the certificate of a process: {cert_dir}",
    "monitoring.coreos.com": "grovescale scrapes the operator itself: `metrics`",
}
OPTIONAL_ADDONS = ("cert-manager.io", "monitoring.coreos.com")
"""Groups whose objects an operator in pods does without where the cluster does not serve them."""


class Source(NamedTuple):
    """A field's item, and the objects in it."""

    field: str
    keys: Keys
    path: Path
    objects: list[Manifest]

    def taken(self) -> list[Manifest]:
        """Return the objects that the field takes."""
        return [one for one in self.objects if not why_not(self.field, one.object)]


def why_not(field: str, obj: Object) -> str:
    """Return why a field does not take an object; empty: it does. ``pod.manifests`` takes all."""
    kind, addon = obj["kind"], _ADDONS.get(group(obj), "")
    own = _FIELD_OF.get(kind)
    if field == "pod.manifests":
        return ""
    if own is not None:
        return "" if own == field else f"belongs under `{own}`"
    if addon:
        return addon
    if kind in _WORKLOADS:
        return "for an operator that runs as pods; this one is a process"
    return "" if field == "manifests" else "belongs under `manifests`"


def read_all(
    written: OperatorFile, absolute: Absolute, fail: Fail, mistakes: Mistakes, *, progress: Progress
) -> list[Source]:
    """Return the sources of all fields, each read once; collect errors of the files, and of what the fields take.

    ``absolute`` returns the absolute path for a field and its value; ``fail`` the error at a place of the definition.
    """
    release = Release(written.name, written.identity.namespace or DEFAULT_NAMESPACE)
    if written.chart_values:
        with mistakes.noted():
            release = release._replace(values=_values(written.chart_values, absolute))
    read: dict[Path, list[Manifest] | None] = {}
    sources: list[Source] = []
    for field, keys, name in items(written):
        with mistakes.noted():
            path = _entry(Path(absolute(keys, name)))
            if path not in read:
                read[path] = None  # not again for the next field, if this ends with an error
                read[path] = _read(path, release, functools.partial(fail, keys), progress)
                wrong = list(manifests.errors(read[path] or ()))
                if wrong:
                    # A misspelt kind would be missed by its field, too: one mistake is enough.
                    read[path] = None
                    mistakes.errors += wrong
            if (objects := read[path]) is None:
                continue
            source = Source(field, keys, path, objects)
            if not source.taken():
                raise fail(keys, f"{path} has {_holds(objects)}, nothing that {field} takes", _takes(field))
            sources.append(source)
    if written.chart_values and not mistakes.errors and not any(map(_is_chart, read)):
        mistakes.errors.append(
            fail(
                ("chart_values",),
                "there is no Helm chart that could take them",
                "Name one under crds, rbac, webhooks or manifests; placeholders of the definition are `values:`.",
            )
        )
    return sources


def _values(given: str | dict[str, Any], absolute: Absolute) -> str:
    """Return the values of charts as YAML. Raises DefinitionError for a file that is no mapping."""
    if not isinstance(given, str):
        return yaml.safe_dump(given)
    file = Path(absolute(("chart_values",), given))
    with readable(file):
        text = file.read_text(encoding="utf-8")
        if not isinstance(yaml.safe_load(text), dict):
            raise DefinitionError(
                f"{file}:1: is no mapping", next_step="Values are written as in a chart's values.yaml."
            )
    return text


def items(written: OperatorFile) -> Iterator[tuple[str, Keys, str]]:
    """Yield field, place and path of each source that a definition names."""
    fields: dict[str, object] = {"crds": written.crds, "rbac": written.rbac, "webhooks": written.webhooks}
    fields["manifests"] = written.manifests
    if written.pod is not None:
        fields["pod.manifests"] = written.pod.manifests
    for field, value in fields.items():
        keys: Keys = tuple(field.split("."))
        if isinstance(value, str):
            yield field, keys, value
        else:
            assert isinstance(value, list)
            yield from ((field, (*keys, i), item) for i, item in enumerate(value) if isinstance(item, str))


def taken(sources: Sequence[Source], field: str) -> list[Manifest]:
    """Return the objects that a field takes, in order, each once."""
    found: dict[tuple[str, ...], Manifest] = {}
    for source in sources:
        if source.field == field:
            for one in source.taken():
                found.setdefault(_key(one.object), one)
    return list(found.values())


def accounts_of_deployments(sources: Sequence[Source]) -> set[str]:
    """Return the names of the ServiceAccounts that Deployments run as."""
    templates = [
        ((one.object.get("spec") or {}).get("template") or {}).get("spec") or {}
        for source in sources
        for one in source.objects
        if one.object["kind"] == "Deployment"
    ]
    return {str(template["serviceAccountName"]) for template in templates if template.get("serviceAccountName")}


def left_out(sources: Sequence[Source]) -> list[str]:
    """Return the objects that no field takes, and why, as in `Installation.left_out`."""
    used = {_key(one.object) for source in sources for one in source.taken()}
    others = {_key(one.object): one for source in sources for one in source.objects}
    return [
        named(one, why_not("manifests", one.object) or "belongs under `manifests`")
        for key, one in others.items()
        if key not in used
    ]


def named(one: Manifest, why: str) -> str:
    """Return an item of `Installation.left_out`. A line of what was rendered is of no use to a reader."""
    file, _, line = Path(one.source).name.rpartition(":")
    return f"{title(one.object)} ({file if file.endswith(')') else f'{file}:{line}'}): {why}"


def _key(obj: Object) -> tuple[str, ...]:
    metadata = obj["metadata"]
    return group(obj), obj["kind"], metadata.get("namespace", ""), metadata.get("name") or metadata["generateName"]


def kinds_text(objects: Sequence[Manifest]) -> str:
    """Return the kinds of objects with their numbers: ``ClusterRole, 2 × Role``."""
    counts = Counter(one.object["kind"] for one in objects)
    return ", ".join(kind if count == 1 else f"{count} × {kind}" for kind, count in sorted(counts.items()))


def _holds(objects: Sequence[Manifest]) -> str:
    return kinds_text(objects) or "no object"


def _takes(field: str) -> str:
    if field in _KINDS:
        return f"{field} takes {', '.join(_KINDS[field])}. {FORMS}"
    return f"{field} takes Namespaces, ConfigMaps, Secrets and the like, for a process no workload. {FORMS}"


class Release(NamedTuple):
    """What a chart is rendered with."""

    name: str
    namespace: str
    values: str = ""
    """YAML; empty: the chart's own alone."""


def _is_chart(path: Path) -> bool:
    return (path / _CHART).is_file() or path.name.endswith((".tgz", ".tar.gz"))


def _entry(path: Path) -> Path:
    """Return the folder of a kustomization or of a chart that is named by its file."""
    return path.parent if path.name in (*_KUSTOMIZATIONS, _CHART) else path


def _read(path: Path, release: Release, fail: FailHere, progress: Progress) -> list[Manifest]:
    """Return the objects of a source, in order. Raises DefinitionError."""
    if path.is_dir() and (file := next((path / name for name in _KUSTOMIZATIONS if (path / name).is_file()), None)):
        return manifests.parse(_kustomized(path, file, progress), f"{path} (kustomize)")
    if _is_chart(path):
        return render_chart(path, release, fail)
    found: list[Manifest] = []
    for file in _files(path, fail):
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DefinitionError(f"{file}:1: cannot be read: {error}") from error
        found += manifests.parse(text, str(file), rules=True)
    return found


def _files(path: Path, fail: FailHere) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
    if not files:
        inner = sorted(entry.name for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
        hint = f" Folders in it are not searched; name one: {', '.join(inner)}." if inner else ""
        raise fail(f"{path} has no *.yaml, *.yml or *.json file", f"{FORMS}{hint}")
    return files


def _kustomized(folder: Path, file: Path, progress: Progress) -> str:
    command = (*_kustomize(file, progress), str(folder))
    return _output(command, lambda why: DefinitionError(f"{file}:1: kustomize: {why}", next_step=_see(command)))


def _kustomize(file: Path, progress: Progress) -> list[str]:
    from ..cluster import binaries, versions  # most definitions have no kustomization

    kubectl = shutil.which("kubectl")
    if not binaries.is_present("kustomize", versions.DEFAULT_KUBERNETES) and kubectl is not None:
        version = binaries.probe(Path(kubectl))
        if version and tuple(map(int, version.split(".")[:2])) >= _KUBECTL:
            return [kubectl, "kustomize"]
    try:
        found = binaries.find(("kustomize",), versions.DEFAULT_KUBERNETES, given={}, progress=progress)
    except GrovescaleError as error:
        raise DefinitionError(
            f"{file}:1: there is nothing to render it with: {error.message}",
            next_step="Install kustomize or kubectl, or render it elsewhere and name that file: "
            f"kubectl kustomize {file.parent} > operator.yaml",
        ) from error
    return [found["kustomize"].path, "build"]


def render_chart(path: Path, release: Release, fail: FailHere) -> list[Manifest]:
    """Return the objects of a Helm chart. Raises what ``fail`` returns, also without helm."""
    command: tuple[str, ...] = ("helm", "template", release.name, str(path))
    command += ("--namespace", release.namespace, "--include-crds")
    if release.values:
        # Read from its input, https://helm.sh/docs/helm/helm_template/: a file of ours would have to be removed.
        command += ("--values", "-")
    if shutil.which("helm") is None:
        raise fail(
            f"{path} is a Helm chart, and helm is not installed",
            f"Install helm, or render it elsewhere and name that file: {' '.join(command)} > operator.yaml",
        )
    text = _output(command, lambda why: fail(f"{path}: helm: {why}", _see(command)), given=release.values)
    return manifests.parse(text, f"{path} (helm)")


def _see(command: Sequence[str]) -> str:
    return f"See: {' '.join(command)}"


def _output(command: tuple[str, ...], failed: Callable[[str], DefinitionError], *, given: str = "") -> str:
    """Return a command's output; ``given`` is its input. Raises ``failed(last line of its error output)``."""
    try:
        done = _completed(command, given)
    except (OSError, subprocess.SubprocessError) as error:
        raise failed(str(error)) from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise failed(lines[-1].strip() if lines else f"exit code {done.returncode}")
    return done.stdout


@functools.cache
def _completed(command: tuple[str, ...], given: str) -> subprocess.CompletedProcess[str]:
    """Run a command once in this process: each test of a session loads the same definition."""
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=_RENDER_S, check=False)
