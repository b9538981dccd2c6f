"""Revisions of an operator: checked out, built, and gone afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_grovescale.bench import variant
from pytest_grovescale.bench.variant import BuildError
from pytest_grovescale.errors import UsageError
from tests import repositories


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two commits, tagged one and two."""
    top = tmp_path / "repository"
    top.mkdir()
    repositories.repository(top)
    for name in ("one", "two"):
        (top / "version").write_text(name, encoding="utf-8")
        repositories.committed(top, name)
    return top


def worktrees(top: Path) -> int:
    return len(repositories.git(top, "worktree", "list").splitlines())


def test_each_revision_is_built_in_a_folder_of_its_own(repository: Path, tmp_path: Path) -> None:
    said: list[str] = []
    for name in ("one", "two"):
        commit = variant.commit(repository, name)
        folder = tmp_path / "reports with space" / name
        folder.parent.mkdir(exist_ok=True)
        with variant.built(repository, commit, "cat version > built", folder, say=said.append) as top:
            assert (top / "built").read_text(encoding="utf-8") == name
            assert worktrees(repository) == 2
        assert not folder.exists()
        assert worktrees(repository) == 1
    assert any("cat version > built" in line for line in said)
    assert (repository / "version").read_text(encoding="utf-8") == "two", "the working tree is left alone"


def test_what_a_killed_comparison_left_is_made_again(repository: Path, tmp_path: Path) -> None:
    commit, folder = variant.commit(repository, "one"), tmp_path / "left"
    left = variant.built(repository, commit, "", folder, say=lambda text: None)
    left.__enter__()
    (folder / "half-built").touch()
    with variant.built(repository, commit, "", folder, say=lambda text: None) as top:
        assert not (top / "half-built").exists()
        assert (top / "version").exists()
    assert worktrees(repository) == 1


def test_a_failing_build_is_reported_with_its_last_lines(repository: Path, tmp_path: Path) -> None:
    commit, folder = variant.commit(repository, "one"), tmp_path / "broken"
    command = "echo compiling; echo 'undefined: x' >&2; exit 3"
    with (
        pytest.raises(BuildError, match=r"ended with code 3[\s\S]*compiling\n  undefined: x") as caught,
        variant.built(repository, commit, command, folder, say=lambda text: None),
    ):
        pytest.fail("it was not built")
    assert "broken-build.log" in caught.value.next_step
    assert not folder.exists()
    assert worktrees(repository) == 1


def test_a_revision_that_is_not_there_is_reported(repository: Path) -> None:
    for name in ("three", "--help"):
        with pytest.raises(UsageError, match="git rev-parse"):
            variant.commit(repository, name)


def test_outside_of_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(UsageError, match="not a git repository"):
        variant.repository()
