"""The findings of a test: what is wrong with the operator without a declared check, with evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.findings import may_have_findings
from ..analysis.result import Finding, Severity, TestResult
from .document import Answer, Block, Gap, Heading, Item, Tone

TONES: dict[Severity, Tone] = {"defect": "bad", "waste": "doubt", "note": "quiet"}

MAIN = 3
"""Findings that a summary shows at most."""


def main_findings(test: TestResult) -> list[Finding]:
    """Return the findings below the verdict: the most severe, without notes and what the test's failure says."""
    return [one for one in test.findings if one.severity != "note" and one.text not in test.failure][:MAIN]


def lines(test: TestResult, most: int = MAIN) -> Iterator[Block]:
    """Yield a line for each of the main findings, at most so many, and how many more, or how many notes, there are."""
    shown = main_findings(test)[:most]
    for one in shown:
        yield Item(in_words(one), TONES[one.severity])
    rest = len(test.findings) - len(shown)
    if shown and rest:
        yield Item(f"and {rest} more finding{'s' * (rest != 1)}, with -v", "quiet")
    elif rest and all(one.severity == "note" for one in test.findings):
        yield Item(f"{sums(test.findings)} on the operator, with -v", "quiet")
    yield from (Item(text, "doubt") for text in failed(test))


def in_words(finding: Finding) -> str:
    """Return a finding in one line, with the rules that met the same: ``defect: 60 services … (left-behind)``."""
    others = sorted({one.id for one in finding.explains} - {finding.id})
    also = f"; also seen by {', '.join(others)}" if others else ""
    return f"{finding.severity}: {finding.text} ({finding.id}{also})"


def findings(test: TestResult) -> Iterator[Block]:
    """Yield all findings with evidence, what each explains, and the check that enforces it; nothing without any."""
    if test.findings:
        yield Heading(f"Findings: {sums(test.findings)}")
    elif test.findings_off or test.findings_limited or test.findings_failed:
        yield Gap()
    yield from _all(test)


def _all(test: TestResult) -> Iterator[Block]:
    for one in test.findings:
        yield Item(in_words(one), TONES[one.severity])
        for part in one.evidence:
            yield Item(part, level=1)
        for other in one.explains:
            yield Item(f"explains: {other.text} ({other.id})", level=1)
            for part in other.evidence:
                yield Item(part, "quiet", level=2)
        if one.check:
            yield Item(f"enforced by {one.check}", "quiet", level=1)
    yield from not_looked_for(test)


def not_looked_for(test: TestResult) -> Iterator[Block]:
    """Yield which rules are switched off or failed, and the phases in which others' work hid what some look for."""
    yield from (Item(text, "doubt") for text in failed(test))
    for name, why in test.findings_off.items():
        yield Item(f"{name} is switched off: {why}", "quiet")
    if test.findings_limited:
        yield Item(
            "Beside other programs, waiting workers and short pauses were not looked for: "
            + ", ".join(test.findings_limited),
            "quiet",
        )


def failed(test: TestResult) -> Iterator[str]:
    """Yield which rules could not look for anything, for a reason of this project's, and what to do."""
    for name, error in test.findings_failed.items():
        yield f"{name} was not looked for: {error}, a defect of pytest-grovescale; report it, with the recording"


def of_tests(tests: Sequence[TestResult]) -> Iterator[Block]:
    """Yield the findings of all tests; a test without any says so, and one in which none was looked for."""
    for number, test in enumerate(tests):
        if number:
            yield Gap()
        found = sums(test.findings) or ("no finding" if may_have_findings(test) else "findings were not looked for")
        yield Answer(f"{test.test}: {found}{'' if test.ended else ' so far'}")
        yield from _unknown(test)
        yield from _all(test)


def _unknown(test: TestResult) -> Iterator[Block]:
    """Yield what of a test the rules do not know."""
    if not test.phases:
        yield Item("no phase is recorded", "doubt")
    elif test.disturbed:
        yield Item(f"others may have used the cluster: {test.disturbed}", "doubt")
    if test.scenario_outcome == "interrupted":
        yield Item("the test was interrupted: of what was to come nothing is known", "doubt")
    elif not test.ended:
        yield Item("the test has not ended: it still runs, or was killed", "doubt")
    if test.phases and not test.audited:
        yield Item("without an audit log no request is known: most rules have nothing to look at", "doubt")


def sums(found: Sequence[Finding]) -> str:
    """Return how many findings there are of each severity: ``3 defects, 2 waste, 1 note``."""
    numbers = {severity: sum(one.severity == severity for one in found) for severity in TONES}
    return ", ".join(
        f"{number} {severity}{'s' * (number != 1 and severity != 'waste')}"
        for severity, number in numbers.items()
        if number
    )
