"""Counters of the operator's own that say something else than the audit log, or than the objects.

A counter of what was created, deleted or finished is what rates and alerts are built on. Incremented before the
request, at each retry, or at two places, it grows by two for each; at none, it stays at zero, and looks like calm.
Incremented or observed at each reconcile, it says how often the operator looked, and its rate is that of events.

No false alarm: only counters whose name has what was done (created, deleted, finished) and a kind of object that the
operator or its user made or deleted, or whose phase says that it has ended, ten times or more. It is held against all
that it can mean: requests that were answered with success, all that were tried, and objects of the kind that came, went
or ended; it counts where it is a tenth and two beside each of these, and the last scrape was at rest. What happens
to objects, by the name of a counter or histogram, cannot happen while no object comes, changes or goes and the operator
writes none: what grows then, in a phase with no-op triggers, by as much as a controller reconciled, counts reconciles.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from ...exposition.families import LIBRARIES, family_of, parse
from ..metrics.history import TargetHistory
from ..reconciles import singulars
from ..result import Finding
from .evidence import ENDED, Span, is_news
from .observed import Observed

ID = "counter"

_ACTIONS = {
    "create": re.compile(r"^(created?|creates|creations?)$"),
    "delete": re.compile(r"^(deleted?|deletes|deletions?)$"),
    "finish": re.compile(r"^(finish(ed)?|completed?|completions?|ended)$"),
}
_QUALIFIED = re.compile(r"fail|error|retr|duration|seconds|bytes|event|conflict|skip|ready|pending|queue|wait|attempt")
"""Parts of names of counters of something else than what was done."""
_FILLS = re.compile(
    r"^(successfully|total|num|number|count|of|were|been|have|has|objects?|resources?|children|new|old)$"
)
"""Words that may stand between what was done and the kind that it was done to."""
_HAPPENS = re.compile(
    r"(^|_)(creat(ed|ions?)|delet(ed|ions?)|removed|started|startups?|completed|finished|provision(ed|ing)|deployed"
    r"|scheduled|scaled|restart(s|ed)|updated|transition(s|ed)|bound|admitted|evicted|expired|failovers?|rollouts?"
    r"|time_to_[a-z]+|(ready|creation|startup|running|available)_(time|duration|latency|seconds))(_|$)"
)
"""Parts of names of what happens to objects, each time once."""
_LOOKS = re.compile(
    r"reconcil|sync|request|check|queue|cache|handler|loop|event|attempt|skip|no_?op|unchanged|evaluat|watch|list|look"
    r"|calls?|received|processed|since"
)
"""Parts of names of what an operator does, whether anything happens or not."""
_FEW_RECONCILES = 5
_LEAST = 10
_OFF, _FEW = 0.1, 2


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each counter that is not what it can mean."""
    yield from _of_reconciles(seen)
    target, first = seen.target, seen.first_scrape
    last = seen.rests[-1] if seen.rests else None
    if target is None or first is None or last is None or last <= first or not seen.log_whole or not seen.operator:
        return
    grown: dict[str, float] = {}
    for series in target.series:
        name = family_of(parse(series).name, target.families)
        family = target.families.get(name)
        if family is None or family.type != "counter" or name.startswith(LIBRARIES) or _QUALIFIED.search(name):
            continue
        grown[name] = grown.get(name, 0.0) + target.grown(series, first, last)
    begin, end = target.moments[first].at, target.moments[last].at
    for name, number in sorted(grown.items()):
        words = name.lower().split("_")
        verb = next((verb for verb, form in _ACTIONS.items() if any(form.match(word) for word in words)), "")
        resource = _kind(seen, words, _ACTIONS[verb]) if verb else ""
        if not resource:
            continue
        meanings = _meanings(seen, verb, resource, begin, end)
        most = max(meanings.values())
        if most < _LEAST or any(abs(number - one) <= _OFF * max(one, number) + _FEW for one in meanings.values()):
            continue
        what, count = max(meanings.items(), key=lambda one: one[1])
        yield Finding(
            id=ID,
            severity="defect",
            text=f"{name} grew by {number:,.0f}, and there were {count:,} {what}",
            evidence=tuple(f"{count:,} {what}" for what, count in meanings.items()),
            check="" if verb == "finish" else f'invariant("sum({name}) == objects(\\"{resource}\\")")',
        )


def _of_reconciles(seen: Observed) -> Iterator[Finding]:
    """Yield the counters and histograms of what happens that grow with the reconciles while nothing does."""
    target = seen.target
    found: dict[str, Finding] = {}
    counting = list(_of_what_happens(target)) if target is not None else []
    for span in seen.spans if counting else ():
        edges = seen.scrapes_of(span)
        if target is None or edges is None or not span.phase.triggers or _anything_happens(seen, span):
            continue
        reconciles: Counter[str] = Counter()
        for row in span.phase.reconciles:
            reconciles[row.controller] += row.count
        grown: Counter[str] = Counter()
        for name, series in counting:
            grown[name] += round(target.grown(series, *edges))
        for name, number in grown.items():
            alike = (one for one, count in reconciles.items() if abs(number - count) <= _OFF * count)
            controller = next((one for one in alike if number >= _FEW_RECONCILES), "")
            if controller and name not in found:
                found[name] = Finding(
                    id=ID,
                    severity="defect",
                    text=f"{name} grew by {number:,} in {span.phase.name}, in which no object came, changed or went:"
                    f" it counts the reconciles of {controller}",
                    evidence=(f"{reconciles[controller]:,} reconciles of {controller} in {span.phase.name}",),
                )
    yield from found.values()


def _of_what_happens(target: TargetHistory) -> Iterator[tuple[str, str]]:
    """Yield family and series of what counts, by its name, what happens to objects."""
    for series in target.series:
        served = parse(series).name
        name = family_of(served, target.families)
        if name.startswith(LIBRARIES) or not _HAPPENS.search(name) or _LOOKS.search(name):
            continue
        kind = target.families[name].type if name in target.families else ""
        if kind == "counter" or (kind in ("histogram", "summary") and served.endswith("_count")):
            yield name, series


def _anything_happens(seen: Observed, span: Span) -> bool:
    """Return whether an object came, went or changed in a phase, but by the harness's triggers."""
    triggered = {one.object for one in seen.by_harness(span.start, span.end)}
    return any(one.changes for one in seen.requests_in(span.start, span.end)) or any(
        life.object not in triggered and any(map(is_news, life.between(span.start, span.end)))
        for lives in seen.lives.values()
        for life in lives
    )


def _kind(seen: Observed, words: list[str], action: re.Pattern[str]) -> str:
    """Return the resource of which something was done by a counter's name; empty without one.

    It stands beside the word for what was done: ``broker_operator_pods_created_total`` counts pods, not brokers.
    """
    said = [word for word in words if not _FILLS.match(word)]
    beside = {
        said[near]
        for at, word in enumerate(said)
        if action.match(word)
        for near in (at - 1, at + 1)
        if 0 <= near < len(said)
    }
    known = {one.resource for one in seen.requests if one.changes} | set(seen.lives)
    return next((one for one in sorted(known) if any(name in beside for name in singulars(one))), "")


def _meanings(seen: Observed, verb: str, resource: str, begin: int, end: int) -> dict[str, int]:
    """Return in words → number, of all that may have been counted between two scrapes."""
    if verb == "finish":
        events = [event for life in seen.lives.get(resource, ()) for event in life.between(begin, end)]
        ends = list(filter(None, (ENDED.match(str(event.numbers.get("status.phase", ""))) for event in events)))
        return {
            f"{resource} whose phase says that they ended": len(ends),
            "of these with success": sum(one[1] is not None for one in ends),
        }
    own = [one for one in seen.requests_in(begin, end) if one.resource == resource and not one.subresource]
    tried = [one for one in own if one.verb == verb]
    lives = seen.lives.get(resource, ())
    if verb == "create":
        moved = sum(begin <= life.begun < end for life in lives)
    else:
        moved = sum(begin <= (life.gone_at or 0) < end for life in lives)
    return {
        f"successful requests to {verb} {resource}": sum(one.changes for one in tried),
        f"requests to {verb} {resource}": len(tried),
        f"{resource} that {'came' if verb == 'create' else 'went'}": moved,
    }
