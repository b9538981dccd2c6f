"""What an operator sends beside its work: renewals of its Lease, Events, watches it opens again.

client-go's leader election renews every 2 s with a Lease of 15 s
(https://pkg.go.dev/k8s.io/client-go/tools/leaderelection); each renewal is a write to etcd, all day long. Events are
objects, too, an etcd write each. A watch stays open for minutes; one that is opened again costs the initial list.

No false alarm: renewals count from once a second on; Events only in no-op phases and idle windows; watches only while
nothing changes, when the API server has no reason to close them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..result import Finding
from .observed import Observed, during

ID = "housekeeping"

_RENEWALS_PER_S = 1.0
_LONG_ENOUGH_S = 5.0
_LEAST = 3


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind of housekeeping that is out of proportion."""
    yield from _renewals(seen)
    yield from _events(seen)
    yield from _watches(seen)


def _renewals(seen: Observed) -> Iterator[Finding]:
    seconds = (seen.end - seen.begin) / 1e9
    renewals = Counter(
        one.object for one in seen.housekeeping if one.category == "lease" and one.verb in ("update", "patch")
    )
    for (namespace, name), number in renewals.items():
        if seconds >= _LONG_ENOUGH_S and number / seconds > _RENEWALS_PER_S:
            yield Finding(
                id=ID,
                severity="waste",
                text=f"the operator renews its Lease {namespace}/{name} {number / seconds:.3g} times a second",
                evidence=(f"{number:,} times in {seconds:.0f} s",),
            )


def _events(seen: Observed) -> Iterator[Finding]:
    made = [one for one in seen.housekeeping if one.category == "event" and one.verb in ("create", "patch", "update")]
    for span in seen.spans:
        if not (span.phase.triggers or span.phase.name.endswith("(idle)")):
            continue
        inside = [one for one in made if during(one, span)]
        if len(inside) >= _LEAST:
            what = "no-op triggers" if span.phase.triggers else "nothing"
            yield Finding(
                id=ID,
                severity="waste",
                text=f"the operator wrote {len(inside):,} Events in {span.phase.name}, for {what}",
            )
            return


def _watches(seen: Observed) -> Iterator[Finding]:
    for window in seen.idle_windows:
        opened = Counter(one.resource for one in seen.within(window) if one.verb == "watch")
        often = {resource: number for resource, number in opened.items() if number >= _LEAST}
        if often:
            resource, number = max(often.items(), key=lambda one: one[1])
            yield Finding(
                id=ID,
                severity="waste",
                text=f"the operator opened its watch on {resource} {number:,} times in {window.seconds:.1f} s of"
                f" {window.phase}, while nothing changed",
            )
            return
