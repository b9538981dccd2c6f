"""The ledger of what was put on somebody else's cluster: complete whatever happens to its writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.cluster import ledger
from pytest_grovescale.cluster.ledger import Made

names = st.text(alphabet="abc-", min_size=1, max_size=4)
objects = st.builds(
    lambda kind, name, namespace: {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
    },
    st.sampled_from(["ConfigMap", "Namespace"]),
    names,
    st.one_of(st.none(), names),
)


def made(obj: dict[str, Any]) -> Made:
    metadata = obj["metadata"]
    return Made(api_version="v1", kind=obj["kind"], name=metadata["name"], namespace=metadata["namespace"] or "")


@given(some=st.lists(objects, max_size=8), torn=st.integers(min_value=0, max_value=40))
def test_all_that_was_noted_is_found_last_first_and_once(
    tmp_path_factory: Any, some: list[dict[str, Any]], torn: int
) -> None:
    owner = ledger.of(tmp_path_factory.mktemp("cluster"))
    for obj in some:
        owner.note([obj])
    file = Path(owner.ledger)
    if torn and some:
        # Killed while it wrote the next one.
        file.write_bytes(file.read_bytes() + b'{"apiVersion":"v1","kind":"Secret","name":"never-made-so-far"'[:torn])
    wanted = [made(obj) for obj in some]
    assert ledger.noted(owner) == [one for index, one in enumerate(reversed(wanted)) if one not in wanted[::-1][:index]]


def test_nothing_noted_is_nothing_to_remove(tmp_path: Path) -> None:
    assert ledger.noted(ledger.of(tmp_path)) == []


def test_who_else_owns_an_object(tmp_path: Path) -> None:
    mine, other = ledger.of(tmp_path / "mine"), ledger.of(tmp_path / "other")
    labels = {"app": "x", mine.label: "true", other.label: "true"}
    assert ledger.others(labels, mine) == ["other"]
    assert ledger.others({mine.label: "true"}, mine) == []


def test_objects_are_called_by_kind_and_name() -> None:
    assert Made(api_version="v1", kind="ConfigMap", name="a", namespace="b").title == "ConfigMap b/a"
    assert Made(api_version="v1", kind="Namespace", name="a").title == "Namespace a"
