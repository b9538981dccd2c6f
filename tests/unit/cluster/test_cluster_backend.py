"""Backends: what one more needs, and that no other module knows them by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from syrupy.assertion import SnapshotAssertion

import pytest_grovescale
from pytest_grovescale.cluster import backend as backends
from pytest_grovescale.cluster import binaries, state
from pytest_grovescale.cluster.backend import Backend, Progress, backend
from pytest_grovescale.cluster.definition import ClusterDefinition, load_definition
from pytest_grovescale.cluster.launch import Plan
from pytest_grovescale.errors import DefinitionError, UsageError

PACKAGE = Path(pytest_grovescale.__file__).parent

DEFINITION = """\
name: one
backend: remote
nodes: [{prefix: node, count: 1}]
stages: [node-initialize.yaml]
"""


class Remote(Backend):
    """One more backend, as its own package would define it."""

    name: ClassVar[str] = "remote"
    foreign: ClassVar[bool] = True

    def start(self, plan: Plan, progress: Progress) -> state.Facts:
        raise NotImplementedError

    def binaries(self, definition: ClusterDefinition) -> tuple[str, ...]:
        return ()


BACKEND = Remote()


@pytest.fixture
def definition(tmp_path: Path) -> Path:
    file = tmp_path / "one.yaml"
    file.write_text(DEFINITION, encoding="utf-8")
    return file


def test_a_registered_backend_is_all_that_a_definition_needs(definition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(backends._MODULES, "remote", __name__)
    loaded = load_definition(str(definition))
    assert backend(loaded.backend) is BACKEND
    assert loaded.kwok.lease_seconds > 0, "its controllers look for the Leases of nodes"
    assert binaries.resolve(loaded, progress=lambda text: None) == {}


def test_an_unknown_backend_is_refused_with_those_that_there_are(definition: Path, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(DefinitionError) as caught:
        load_definition(str(definition))
    assert str(caught.value).replace(str(definition), "one.yaml") == snapshot
    with pytest.raises(UsageError):
        backend("remote")


@pytest.mark.parametrize("name", backends.names())
def test_a_backend_is_registered_under_its_name(name: str) -> None:
    assert backend(name).name == name


def test_no_other_module_knows_a_backend_by_name() -> None:
    """No comparison with a name, and no import of its package, but for objects of a lost run on a cluster of others."""
    found = [use for file in sorted(PACKAGE.rglob("*.py")) for use in _uses(file)]
    assert [use.split() for use in found] == [["cluster/commands.py", "imports", "existing.orphans"]]


def _uses(file: Path) -> Iterator[str]:
    place = file.relative_to(PACKAGE)
    if place.parts[0] == "cluster" and place.parts[1] in (*backends.names(), "backend.py"):
        return
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Compare(left=left, comparators=others) if _names_backend([left, *others]):
                yield f"{place} compares {ast.unparse(node)}"
            case ast.Match(subject=subject) if _is_backend(subject):
                yield f"{place} matches {ast.unparse(subject)}"
            case ast.ImportFrom(module=module, names=names):
                for imported in names:
                    parts = [*(module or "").split("."), imported.name]
                    for one in backends.names():
                        after = parts[parts.index(one) + 1 :] if one in parts else []
                        if after:
                            yield f"{place} imports {one}.{'.'.join(after)}"


def _names_backend(operands: list[ast.expr]) -> bool:
    strings = {one.value for one in operands if isinstance(one, ast.Constant)}
    return bool(strings & set(backends.names())) and any(_is_backend(one) for one in operands)


def _is_backend(node: ast.expr) -> bool:
    return ast.unparse(node).rpartition(".")[2] == "backend"
