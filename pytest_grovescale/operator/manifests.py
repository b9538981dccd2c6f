"""Kubernetes objects from YAML text, as ``kubectl apply -f`` reads them, with line numbers in the errors.

JSON-safe by construction: dates stay strings, keys are strings, a duplicate key is an error (plain YAML readers take
the last one silently).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import yaml

from ..definitions import dotted, line_of, node_at, readable
from ..errors import DefinitionError

Object = dict[str, Any]
Keys = tuple[str | int, ...]
"""A place in an object: ``("rules", 0, "verbs")``."""


class Manifest(msgspec.Struct, frozen=True):
    """One object and its source position."""

    object: Object
    source: str
    """``file:line`` of the object's first line."""


class _Problem(Exception):
    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class _Loader(yaml.CSafeLoader):
    pass


# Dates stay strings, as the API server would get them.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


class _Documents(_Loader):
    def close(self) -> None:
        self.dispose()


def _mapping(loader: _Loader, node: yaml.MappingNode) -> Object:
    result: Object = {}
    loader.flatten_mapping(node)
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node)
        line = key_node.start_mark.line
        if not isinstance(key, str):
            raise _Problem(f"key {key!r} is not a text: write it in quotes", line)
        if key in result:
            raise _Problem(f"key {key!r} is there twice", line)
        result[key] = loader.construct_object(value_node, deep=True)
    return result


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse(text: str, source: str) -> list[Manifest]:
    """Return the objects of a multi-document YAML text; ``List`` kinds are expanded, empty documents omitted.

    ``source``: name of the text in errors. Raises DefinitionError with ``source:line``.
    """
    manifests: list[Manifest] = []
    for document, line in documents(text, source):
        try:
            manifests += _objects(document, source, line - 1)
        except _Problem as problem:
            raise DefinitionError(f"{source}:{problem.line + 1}: {problem.message}") from None
    return manifests


def documents(text: str, source: str) -> list[tuple[Any, int]]:
    """Return each non-empty YAML document with its first line (from 1)."""
    found: list[tuple[Any, int]] = []
    with readable(source), contextlib.closing(_Documents(text)) as loader:
        try:
            while loader.check_node():
                node = loader.get_node()
                assert node is not None
                document = loader.construct_document(node)
                if document is not None:
                    found.append((document, node.start_mark.line + 1))
        except _Problem as problem:
            raise DefinitionError(f"{source}:{problem.line + 1}: {problem.message}") from None
    return found


def read(paths: Iterable[str | Path]) -> list[Manifest]:
    """Return the objects of files, and of folders' ``*.yaml``, ``*.yml`` and ``*.json`` files in order of name.

    Raises DefinitionError for a file that is missing, and for a folder with no such file.
    """
    manifests: list[Manifest] = []
    for path in map(Path, paths):
        for file in _files(path):
            try:
                text = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise DefinitionError(f"{file}:1: cannot be read: {error}") from error
            manifests += parse(text, str(file))
    return manifests


def place(source: str, keys: Keys) -> str:
    """Return ``file:line: path.to.value`` for a place in a document; ``source``: ``file:line`` of its first line."""
    file, _, line = source.rpartition(":")
    path = Path(file)
    node = None
    if path.is_file():
        documents = yaml.compose_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        node = next((found for found in documents if found.start_mark.line + 1 == int(line)), None)
    number = line_of(node, keys) if node_at(node, keys[:1]) is not None else int(line)
    return f"{file}:{number}: {dotted(keys)}"


def title(obj: Object) -> str:
    """Return the name of an object for messages: ``PodCliqueSet demo/big``."""
    metadata = obj.get("metadata", {})
    name = metadata.get("name") or f"{metadata.get('generateName', '')}*"
    namespace = metadata.get("namespace")
    return f"{obj.get('kind')} {namespace}/{name}" if namespace else f"{obj.get('kind')} {name}"


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml", ".json"))
    if not files:
        raise DefinitionError(f"{path}:1: no *.yaml, *.yml or *.json file in this folder")
    return files


def _objects(document: Any, source: str, line: int) -> list[Manifest]:
    if isinstance(document, dict) and str(document.get("kind", "")).endswith("List") and "items" in document:
        if not isinstance(document["items"], list):
            raise _Problem("items: is no list", line)
        return [manifest for item in document["items"] for manifest in _objects(item, source, line)]
    _check(document, line)
    return [Manifest(document, f"{source}:{line + 1}")]


def _check(document: Any, line: int) -> None:
    if not isinstance(document, dict):
        raise _Problem(f"a Kubernetes object is a mapping, this is {document!r:.60}", line)
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise _Problem(f"{field}: missing", line)
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise _Problem(f"metadata.name: missing in this {document['kind']}", line)
    for field in ("name", "generateName", "namespace"):
        if not isinstance(metadata.get(field, ""), str):
            raise _Problem(f"metadata.{field}: {metadata[field]!r} is not a text: write it in quotes", line)
    for field in ("labels", "annotations"):
        _check_texts(metadata.get(field), f"metadata.{field}", line)


def _check_texts(mapping: Any, path: str, line: int) -> None:
    if mapping is None:
        return
    if not isinstance(mapping, dict):
        raise _Problem(f"{path}: is no mapping", line)
    for key, value in mapping.items():
        if not isinstance(value, str):
            raise _Problem(f"{path}.{key}: {value!r} is not a text: write it in quotes", line)
