"""What is told of the rights that a cluster grants and refuses, and what a refused one that is needed leads to."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import rbac
from pytest_grovescale.cluster.existing.discovery import KWOK_ROLE
from pytest_grovescale.cluster.rbac import Answer, Right
from pytest_grovescale.errors import ClusterError


def right(verb: str, resource: str = "nodes", *, needed: bool = True, role: str = "nodes", **fields: str) -> Right:
    return Right(verb=verb, resource=resource, role=role, needed=needed, without=f"no {resource} are made", **fields)


def granted(rules: list[dict[str, list[str]]]) -> set[tuple[str, str, str]]:
    """Return what rules grant: (group, resource or path, verb)."""
    return {
        (group, name, verb)
        for rule in rules
        for group in rule.get("apiGroups", ["path"])
        for name in rule.get("resources") or rule["nonResourceURLs"]
        for verb in rule["verbs"]
    }


@given(st.sets(st.sampled_from(rbac.rights())))
def test_rules_grant_just_what_is_missing(missing: set[Right]) -> None:
    found = granted(rbac.rules_of([Answer(one, False) for one in missing]))
    wanted = {
        (
            "path" if one.path else one.group,
            one.path or "/".join(filter(None, (one.resource, one.subresource))),
            one.verb,
        )
        for one in missing
    }
    assert found == wanted


def test_a_needed_right_that_is_refused_ends_it_with_the_rule_to_paste(snapshot: SnapshotAssertion) -> None:
    answers = [
        Answer(right("get"), True),
        Answer(right("create"), False),
        Answer(right("delete"), False),
        Answer(right("get", "pods", needed=False), False),
    ]
    with pytest.raises(ClusterError) as caught:
        rbac.demand(answers, identity="someone")
    assert str(caught.value) == snapshot
    pasted = caught.value.message.partition(":\n")[2]
    assert yaml.safe_load(pasted) == {
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["create", "delete"]}]
    }
    assert "fixtures/rbac/harness.yaml" in caught.value.next_step


def test_one_that_can_be_done_without_does_not() -> None:
    answers = [Answer(right("get", "pods", needed=False), False), Answer(right("list", "pods", needed=False), False)]
    rbac.demand(answers, identity="someone")
    assert rbac.refused(answers) == ["no pods are made"]


def test_a_role_that_this_run_needs_counts_as_needed() -> None:
    answers = [Answer(right("patch", "pods", needed=False, role=KWOK_ROLE), False)]
    rbac.demand(answers, identity="")
    with pytest.raises(ClusterError, match="resources"):
        rbac.demand(answers, identity="", also=(KWOK_ROLE,))


def test_the_table_says_what_may_and_what_may_not_be_done(snapshot: SnapshotAssertion) -> None:
    answers = [
        Answer(right("get"), True),
        Answer(right("list"), True),
        Answer(right("create"), False),
        Answer(right("get", "pods", subresource="proxy", needed=False, role="proxy"), False),
        Answer(Right(verb="get", path="/metrics", role="metrics", needed=False, without="x"), True),
    ]
    table = rbac.table(answers)
    assert [line.split()[0] for line in table] == ["NO", "NO", "yes"]
    assert "\n".join(table) == snapshot


def test_the_role_for_our_kwok_is_one_of_the_files() -> None:
    assert KWOK_ROLE in {one.role for one in rbac.rights()}
