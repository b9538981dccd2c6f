"""Which findings are shown together, and in which order."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.findings import RULES
from pytest_grovescale.analysis.findings.evidence import Sent, requests_read
from pytest_grovescale.analysis.findings.grouping import About, Aspect, Found, explains, grouped, of_outcome
from pytest_grovescale.analysis.result import SEVERITIES, Finding, Severity
from pytest_grovescale.recording import records as rec

from .test_findings import DEPLOYED, IDLE, poll, settled
from .test_findings_objects import clique, gone, shown


def requests(first: int, last: int) -> list[Sent]:
    """Return requests of a log by their place in it."""
    parts: dict[str, Any] = {"user": "operator", "verb": "patch", "resource": "pods", "code": 200}
    log = [rec.Request(at=at, received_wall=at, completed_wall=at + 1, name=f"p{at}", **parts) for at in range(last)]
    return requests_read(log, None, first, last)


def finding(id: str, aspect: Aspect, severity: Severity = "waste", **parts: Any) -> Found:
    return Found(id=id, severity=severity, text=f"{id} is wrong", about=About(aspect=aspect, **parts))


def groups(*findings: Finding) -> list[tuple[str, str, list[str]]]:
    """Return (id, severity, what it explains) of each group."""
    return [(one.id, one.severity, [other.id for other in one.explains]) for one in grouped(findings)]


def test_requests_that_two_rules_met_are_shown_once_with_what_they_are() -> None:
    idle = finding("idle", Aspect.AMOUNT, "defect", requests=requests(10, 20))
    wasted = finding("wasted", Aspect.ACTION, requests=requests(0, 20))
    assert groups(idle, wasted) == groups(wasted, idle) == [("wasted", "defect", ["idle"])]


def test_other_requests_have_another_cause() -> None:
    idle = finding("idle", Aspect.AMOUNT, requests=requests(10, 20))
    wasted = finding("wasted", Aspect.ACTION, requests=requests(0, 15))
    assert groups(idle, wasted) == [("wasted", "waste", []), ("idle", "waste", [])]


def test_a_consequence_explains_no_cause() -> None:
    assert not explains(
        About(aspect=Aspect.TIME, requests=requests(0, 20)), About(aspect=Aspect.ACTION, requests=requests(0, 20))
    )


def test_one_field_of_the_same_objects_is_shown_once() -> None:
    objects = {("cliques.a.io", ("t", f"c{number}")) for number in range(4)}
    of_all = finding("of-all", Aspect.STATE, objects=objects, field="metadata.ownerReferences")
    of_some = finding("of-some", Aspect.STATE, "defect", objects=list(objects)[:3], field="metadata.ownerReferences")
    other = finding("other", Aspect.STATE, objects=list(objects)[:3], field="metadata.finalizers")
    nameless = finding("nameless", Aspect.STATE, objects=list(objects)[:3])
    assert groups(of_some, other, nameless, of_all) == [
        ("of-all", "defect", ["of-some"]), ("other", "waste", []), ("nameless", "waste", []),
    ]  # fmt: skip


def test_a_field_is_shown_with_the_part_of_it_that_is_wrong() -> None:
    objects = {("cliques.a.io", ("t", "c"))}
    whole = About(aspect=Aspect.STATE, objects=objects, field="spec.template")
    part = About(aspect=Aspect.STATE, objects=objects, field="spec.template.spec")
    other = About(aspect=Aspect.STATE, objects=objects, field="spec.templates")
    assert explains(whole, part)
    assert explains(part, whole)
    assert not explains(whole, other)


def test_times_alone_are_shown_with_what_is_known_of_more_in_them() -> None:
    workers = finding("workers", Aspect.TIME, "defect", times=[(0, 100)])
    paced = finding("paced", Aspect.TIME, requests=requests(0, 20), times=[(0, 100)])
    elsewhere = finding("elsewhere", Aspect.TIME, times=[(100, 200)])
    assert groups(workers, paced, elsewhere) == [("paced", "defect", ["workers"]), ("elsewhere", "waste", [])]


def test_what_follows_from_a_consequence_follows_from_its_cause() -> None:
    cause = finding("cause", Aspect.STATE, requests=requests(0, 20))
    consequence = finding("consequence", Aspect.ACTION, requests=requests(4, 24))
    last = finding("last", Aspect.AMOUNT, requests=requests(19, 24))
    assert groups(last, consequence, cause) == [("cause", "waste", ["consequence", "last"])]


def test_what_may_be_intended_explains_nothing_that_is_wrong() -> None:
    note = finding("note", Aspect.ACTION, "note", requests=requests(0, 20))
    waste = finding("waste", Aspect.AMOUNT, requests=requests(0, 20))
    assert groups(note, waste) == [("waste", "waste", []), ("note", "note", [])]


def test_what_stays_stands_before_what_costs_and_what_is_worse_before_both() -> None:
    of_each = [
        finding(f"{severity}-{aspect.name}", aspect, severity) for aspect in reversed(Aspect) for severity in SEVERITIES
    ]
    assert [one.id for one in grouped(of_each)] == [
        f"{severity}-{aspect.name}" for severity in SEVERITIES for aspect in Aspect
    ]


def test_what_explains_many_others_stands_first_but_for_the_process() -> None:
    alone, crash = finding("alone", Aspect.STATE, "defect"), finding("crash", Aspect.PROCESS, "defect")
    cause = finding("cause", Aspect.ACTION, "defect", requests=requests(0, 20))
    amounts = [finding(f"amount-{number}", Aspect.AMOUNT, requests=requests(0, 18)) for number in range(3)]
    assert [one.id for one in grouped([alone, crash, cause, *amounts])] == ["crash", "cause", "alone"]
    assert [one.id for one in grouped([alone, crash, cause, *amounts[:2]])] == ["crash", "alone", "cause"]


DRAWN = st.tuples(st.sampled_from(Aspect), st.sampled_from(SEVERITIES), st.integers(0, 30), st.integers(1, 30))


@given(st.lists(DRAWN, max_size=12))
def test_each_finding_is_shown_once_whatever_they_rest_on(drawn: list[tuple[Aspect, Severity, int, int]]) -> None:
    findings = [
        finding(f"f{number}", aspect, severity, requests=requests(first, first + length))
        for number, (aspect, severity, first, length) in enumerate(drawn)
    ]
    shown = grouped(findings)
    assert sorted(one.id for group in shown for one in group.all) == sorted(one.id for one in findings)
    severities = [SEVERITIES.index(group.severity) for group in shown]
    assert severities == sorted(severities)
    assert all(type(one) is Finding and not one.explains for group in shown for one in group.explains)


def test_a_poll_is_shown_with_what_it_asks() -> None:
    sim = settled()
    poll(sim, DEPLOYED + 2000, IDLE, 1000)
    (one,) = analyse(sim.records()).findings
    assert (one.id, [other.id for other in one.explains]) == ("needless-reads", ["idle-work"])


@pytest.mark.parametrize(("void", "together"), [(6, True), (3, False)])
def test_writes_without_effect_are_a_habit_also_of_objects_that_no_watch_shows_from_the_start(
    void: int, together: bool
) -> None:
    """Half of the cliques were there at first: of their writes it is not known which had no effect."""
    sim = settled()
    parts: dict[str, Any] = {"verb": "patch", "resource": "cliques", "group": "a.io", "namespace": "t"}
    for number in range(12):
        known = number < 6
        clique(sim, f"c-{number}", 200, initial=not known)
        for step in range(2):
            at = DEPLOYED + 30 + 20 * number + step
            sim.request(at, **parts, name=f"c-{number}")
            if known and number >= void:
                shown(sim, f"c-{number}", at + 5, difference=rec.Difference(kind="content", paths=["spec.n"]))
    gone(sim)
    ids = [one.id for one in analyse(sim.records()).findings]
    assert ("noop-work" not in ids) is together


_KINDS = ("requests", "objects", "outcome", "times", "failures")


def evidence_of(rule: str) -> list[tuple[Aspect, str]]:
    """Return (aspect, what it rests on) of each finding of a rule, by its source, and those of its parts."""
    package = RULES[rule].__module__.rpartition(".")[0]
    parts = [one for name, one in sys.modules.items() if name.startswith(package) and getattr(one, "ID", "") == rule]
    sources = [Path(str(one.__file__)).read_text(encoding="utf-8") for one in parts]
    found = []
    for call in (node for source in sources for node in ast.walk(ast.parse(source))):
        maker = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
        if isinstance(call, ast.Call) and maker in ("About", "of_outcome"):
            names = {word.arg: word.value for word in call.keywords} | ({"outcome": call} if call.args else {})
            aspect = call.args[0] if call.args else names["aspect"]
            named = [node.attr for node in ast.walk(aspect) if isinstance(node, ast.Attribute)]
            aspects = [Aspect[name] for name in named] or list(Aspect)
            found += [(aspect, kind) for aspect in aspects for kind in _KINDS if kind in names]
        if isinstance(call, ast.Call) and maker == "of_time":
            found += [(Aspect.TIME, kind) for kind in ("times", "requests")[: len(call.args)]]
        if isinstance(call, ast.Call) and maker == "of_failures":
            found.append((Aspect.AMOUNT, "failures"))
    return found


def test_which_rules_may_explain_which(snapshot: SnapshotAssertion) -> None:
    """A change here is one of what is shown together: review it."""
    evidence = {rule: evidence_of(rule) for rule in RULES}
    lines = []
    for rule, own in evidence.items():
        by = [
            other
            for other, those in evidence.items()
            if other != rule
            and any(
                kind == shared and cause <= aspect and (kind != "times" or cause == aspect)
                for aspect, kind in own
                for cause, shared in those
            )
        ]
        lines.append(f"{rule}: {', '.join(by) or 'none'}")
    assert "\n".join(lines) == snapshot


def test_why_a_phase_failed_is_shown_once() -> None:
    stalled = Found(id="stalled", severity="defect", text="…", about=of_outcome(Aspect.STATE, ["deploy"]))
    missing = Found(id="missing", severity="defect", text="…", about=of_outcome(Aspect.PROCESS, ["deploy", "delete"]))
    other = Found(id="other", severity="note", text="…", about=of_outcome(Aspect.TIME, ["scale"]))
    assert groups(stalled, other, missing) == [("missing", "defect", ["stalled"]), ("other", "note", [])]
