"""What is compared with what, and what the two are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_grovescale.bench.variant import of_definitions, of_revisions, pairs_of
from pytest_grovescale.errors import DefinitionError, UsageError

DEFINITION = """
name: mine
command: ["{python}", -m, mine, --level, "{level}"]
values: {level: low}
readiness: {url: "http://127.0.0.1:1/readyz"}
"""


def write(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(DEFINITION, encoding="utf-8")
    return str(path)


def test_two_values_of_one_definition_are_called_by_them() -> None:
    found = of_definitions(
        "reference", "", values={"variant": "baseline"}, other={"variant": "optimized"}, parameters={"replicas": "5"}
    )
    assert (found.a.label, found.b.label) == ("baseline", "optimized")
    assert found.differs == "variant: baseline, optimized"
    assert (found.a.values, found.b.values) == ({"variant": "baseline"}, {"variant": "optimized"})
    assert found.b.parameters == {"replicas": "5"}
    assert Path(found.a.operator).is_absolute()


def test_what_only_the_first_sets_holds_for_both() -> None:
    found = of_definitions(
        "reference",
        "",
        values={"concurrency": "4", "variant": "baseline"},
        other={"variant": "optimized"},
        parameters={},
    )
    assert found.b.values == {"concurrency": "4", "variant": "optimized"}


def test_several_values_are_all_named() -> None:
    found = of_definitions("reference", "", values={}, other={"concurrency": "4", "variant": "baseline"}, parameters={})
    assert found.b.label == "concurrency=4, variant=baseline"


def test_an_operator_may_be_compared_with_itself() -> None:
    found = of_definitions("reference", "", values={}, other={}, parameters={})
    assert (found.a.label, found.b.label) == ("reference", "reference again")
    assert found.differs == ""


def test_two_definitions_are_called_by_what_distinguishes_them(tmp_path: Path) -> None:
    first, second = write(tmp_path / "old" / "mine.yaml"), write(tmp_path / "new" / "mine.yaml")
    found = of_definitions(first, second, values={}, other={}, parameters={})
    assert (found.a.label, found.b.label) == ("old/mine", "new/mine")
    other = write(tmp_path / "new" / "theirs.yaml")
    assert of_definitions(second, other, values={}, other={}, parameters={}).b.label == "theirs"


def test_wrong_definitions_and_values_are_reported_of_either_side(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="no such file"):
        of_definitions("reference", "nowhere", values={}, other={}, parameters={})
    with pytest.raises(UsageError, match="value variant cannot be 'none'"):
        of_definitions("reference", "", values={}, other={"variant": "none"}, parameters={})
    (tmp_path / "bad.yaml").write_text("name: bad\n", encoding="utf-8")
    with pytest.raises(DefinitionError, match=r"bad\.yaml"):
        of_definitions(str(tmp_path / "bad.yaml"), "", values={}, other={}, parameters={})


def test_revisions_differ_in_their_commits(tmp_path: Path) -> None:
    definition = write(tmp_path / "deploy" / "mine.yaml")
    found = of_revisions(
        tmp_path, definition, [("main", "1" * 40), ("fix", "2" * 40)], build="make", values={}, parameters={}
    )
    assert (found.a.label, found.b.label) == ("main", "fix")
    assert found.differs == f"revision: main ({'1' * 12}), fix ({'2' * 12})"
    assert (found.b.operator, found.b.revision, found.b.build) == ("deploy/mine.yaml", "2" * 40, "make")


def test_a_revision_that_is_an_id_is_shown_as_short_as_ids_are(tmp_path: Path) -> None:
    definition = write(tmp_path / "deploy" / "mine.yaml")
    base = "1" * 40
    found = of_revisions(tmp_path, definition, [(base, base), ("HEAD", "2" * 40)], build="", values={}, parameters={})
    assert (found.a.label, found.a.revision) == ("1" * 12, base)
    assert found.differs == f"revision: {'1' * 12}, HEAD ({'2' * 12})"
    twice = of_revisions(tmp_path, definition, [(base, base), (base, base)], build="", values={}, parameters={})
    assert twice.a.label != twice.b.label


def test_a_definition_outside_of_the_repository_has_no_revisions(tmp_path: Path) -> None:
    definition = write(tmp_path / "elsewhere" / "mine.yaml")
    with pytest.raises(UsageError, match="is not in the repository"):
        of_revisions(tmp_path / "repo", definition, [("a", "1"), ("b", "2")], build="", values={}, parameters={})


@pytest.mark.parametrize("text", ["variant", "=x", " =x"])
def test_what_is_no_pair_is_reported(text: str) -> None:
    with pytest.raises(UsageError, match="not NAME=VALUE"):
        pairs_of("--set-b", [text])
