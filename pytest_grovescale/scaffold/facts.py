"""What is in a project's folder: its texts, and the Kubernetes objects in them. All else is a pure function of that."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import msgspec

from ..errors import DefinitionError, UsageError
from ..operator.manifest_sources import DEFAULT_NAMESPACE, Release, render_chart
from ..operator.manifests import Object, parse

_NOT_ENTERED = {"vendor", "node_modules", "testdata", "third_party", "bin", "dist", "build", "reports", "venv", "hack"}
_NOT_ENTERED |= {"obj", "target"}
"""Names of folders with other projects, tests, and generated files. `dist` holds what `config` does, rendered."""
_OF_TESTS = {"test", "tests", "e2e"}
_OF_EXAMPLES = {"example", "examples", "sample", "samples", "docs"}
_NAMES = {"PROJECT", "Dockerfile", "Containerfile", "Makefile", ".gitignore", "go.mod", "Chart.yaml"}
_NAMES |= {"pom.xml", "mvnw", "gradlew", "build.gradle", "settings.gradle"}
_SUFFIXES = {".go", ".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rs", ".java", ".kt", ".cs"}
_SUFFIXES |= {".yaml", ".yml", ".json", ".toml", ".txt", ".kts", ".properties", ".csproj"}
OUTPUTS = ("target/", "build/")
_GENERATED = ("target/classes/META-INF/fabric8", "target/kubernetes", "build/classes/java/main/META-INF/fabric8")
"""Folders in a build's output where Java's tools write CustomResourceDefinitions (fabric8's crd-generator, Quarkus)."""
YAML = (".yaml", ".yml", ".json")
KUSTOMIZED = "config/default/kustomization.yaml"
"""kubebuilder's installation as a whole."""
UP = "../../"
"""The project's folder as seen from its scale tests."""
_LARGEST_BYTES = 4_000_000
_MOST_FILES = 20_000


class Found(msgspec.Struct, frozen=True):
    """A Kubernetes object in a file of the project."""

    object: Object
    file: str
    """Relative to the project, with slashes."""

    @property
    def kind(self) -> str:
        return str(self.object["kind"])

    @property
    def name(self) -> str:
        return str(self.object["metadata"].get("name", ""))

    @property
    def group(self) -> str:
        return str(self.object["apiVersion"]).rpartition("/")[0]


class Facts(msgspec.Struct, frozen=True):
    """A folder's content, as far as it is of use here."""

    name: str
    """Name of the folder."""
    files: Mapping[str, str]
    """Path, relative and with slashes → text: sources, YAML, and files with a known name."""
    objects: tuple[Found, ...]
    """Objects of files that are no templates, in the order of their paths; then those of rendered charts."""
    unrendered: Mapping[str, str] = {}
    """Folder of each chart that could not be rendered → why."""
    inner: tuple[str, ...] = ()
    """Folders with projects of their own, which are not read."""

    def of_kind(self, *kinds: str) -> list[Found]:
        """Return the objects of these kinds, without those of tests."""
        return [found for found in self.objects if found.kind in kinds and not _is_test(found.file)]

    def sources(self, suffix: str) -> dict[str, str]:
        """Return the texts with this suffix, without tests."""
        return {
            path: text
            for path, text in self.files.items()
            if path.endswith(suffix)
            and not path.endswith((f"_test{suffix}", f".test{suffix}", f".spec{suffix}"))
            and not _is_test(path)
        }


def read(root: Path) -> Facts:
    """Return the facts of a folder. Raises UsageError for one that does not exist, or is far too large."""
    if not root.is_dir():
        raise UsageError(f"{root}: no such folder", next_step="Name the folder of an operator's project.")
    inner: list[str] = []
    facts = of(root.resolve().name, dict(_texts(root, inner)))
    rendered: list[Found] = []
    unrendered: dict[str, str] = {}
    for folder in _charts(facts.files):
        try:
            release = Release(release_name(facts.name), DEFAULT_NAMESPACE)
            objects = render_chart(root / folder, release, lambda message, _: DefinitionError(message))
        except DefinitionError as error:
            # It stands in a file of the project: no path of this machine.
            unrendered[folder] = error.message.partition("\n")[0].replace(f"{root / folder} ", "it ")
        else:
            # A field takes the chart as a whole.
            rendered += [Found(manifest.object, folder) for manifest in objects]
    return msgspec.structs.replace(
        facts, objects=(*facts.objects, *rendered), unrendered=unrendered, inner=tuple(inner)
    )


def release_name(folder: str) -> str:
    """Return a folder's name as that of a release: Helm refuses what is no DNS name of at most 53 characters."""
    return re.sub(r"[^a-z0-9]+", "-", folder.lower())[:53].strip("-") or "operator"


def of(name: str, files: Mapping[str, str]) -> Facts:
    """Return the facts of these files; one that is no YAML, or a template, has no objects."""
    ordered = dict(sorted(files.items()))
    return Facts(name=name, files=ordered, objects=tuple(_objects(ordered)))


def _charts(files: Mapping[str, str]) -> list[str]:
    """Return the folders of charts, but those of charts that are parts of others, and of examples and tests."""
    charts = [PurePosixPath(path) for path in files if PurePosixPath(path).name == "Chart.yaml"]
    folders = [str(path.parent) for path in charts if not (_is_test(str(path)) or _OF_EXAMPLES & {*path.parts})]
    return [
        folder
        for folder in folders
        if not any(PurePosixPath(folder).is_relative_to(PurePosixPath(other) / "charts") for other in folders)
    ]


def is_template(path: str, files: Mapping[str, str]) -> bool:
    """Return whether a file belongs to the templates of a Helm chart, which are no YAML until they are rendered."""
    return any(
        parent.name == "templates" and str(parent.parent / "Chart.yaml").removeprefix("./") in files
        for parent in PurePosixPath(path).parents
    )


def _objects(files: Mapping[str, str]) -> Iterator[Found]:
    for path, text in files.items():
        if not path.endswith(YAML) or "apiVersion" not in text or is_template(path, files):
            continue
        try:
            manifests = parse(text, path)
        except DefinitionError:
            # Workflows, values, kustomizations, patches: not this project's objects.
            continue
        yield from (Found(manifest.object, path) for manifest in manifests)


def unreadable(facts: Facts, kind: str) -> Iterator[DefinitionError]:
    """Yield the mistake in each file that has an object of this kind, as it seems, and cannot be read."""
    for path, text in facts.files.items():
        mentions = path.endswith(YAML) and re.search(rf"^kind: *[\"']?{kind}\b", text, re.MULTILINE)
        if mentions and "{{" not in text and not is_template(path, facts.files):
            try:
                parse(text, path)
            except DefinitionError as error:
                yield error


def _texts(root: Path, inner: list[str]) -> Iterator[tuple[str, str]]:
    """Yield path and text of each file that is read; append the folders of other projects to ``inner``."""
    count = 0
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        # Rust has sources in src/bin.
        left_out = _NOT_ENTERED - {"bin"} if here.name == "src" else _NOT_ENTERED
        entered = sorted(name for name in folders if not name.startswith(".") and name not in left_out)
        own = [name for name in entered if not _is_project(here / name)]
        inner += [(here / name).relative_to(root).as_posix() for name in entered if name not in own]
        folders[:] = [name for name in own if not (here / name / "pyvenv.cfg").is_file()]
        generated = [path for inner_folder in _GENERATED for path in (here / inner_folder).glob("*.yml")]
        for file in (*sorted(here / name for name in names), *sorted(generated)):
            if file.name not in _NAMES and file.suffix not in _SUFFIXES:
                continue
            count += 1
            if count > _MOST_FILES:
                raise UsageError(
                    f"{root}: more than {_MOST_FILES:,} files of sources and YAML",
                    next_step="Name the folder of the operator itself.",
                )
            if file.is_file() and file.stat().st_size <= _LARGEST_BYTES:
                yield file.relative_to(root).as_posix(), file.read_text(encoding="utf-8", errors="replace")


def _is_project(folder: Path) -> bool:
    """Return whether a folder is a project of its own: a nested Go module, or one of kubebuilder's."""
    return any((folder / name).is_file() for name in ("go.mod", "PROJECT"))


def _is_test(path: str) -> bool:
    parts = PurePosixPath(path)
    return bool(_OF_TESTS & set(parts.parts[:-1])) or parts.name.startswith(("test_", "conftest"))
