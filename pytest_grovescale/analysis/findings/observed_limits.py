"""The rate limit of an operator's own client, as the distances between its requests show it.

client-go lets a few requests through at once and the others at a steady rate; what waits for it looks like a pause of
the operator's, and is none. Without a metric that says so, only the steady rate does.
(https://pkg.go.dev/k8s.io/client-go/rest#Config)
"""

from __future__ import annotations

import functools
import itertools
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence

from ...recording.conditions import is_builtin
from .evidence import Sent, Span, rate_limited
from .observed_objects import ObservedObjects

_AS_FAR = (0.8, 1.3)
"""Ratio of a time between requests to that at a known limit within which it is the limit's."""

_LEAST_STEADY, _LEAST_GAP_NS, _STEADY = 100, 10_000_000, (0.8, 1.5)
"""Requests at a steady rate, the least distance between two of them, and what three of five have of the median."""

_LEAST_EXACT, _EXACT = 30, (0.95, 1.05)
"""The same where they come at one distance as exactly as a timer."""

_OF_A_KIND, _GAP_OF_A_KIND_NS, _KINDS, _SEVERAL = 15, 40_000_000, 2, 2.0
"""Requests for one kind, distance between them, kinds with one rate, and busy workers, from which on each kind may have
a limit of its own."""

_UNDER_WAY = 0.5
"""Requests under way on average from which on it is their answers that give the rate."""

_FIRST, _BETWEEN, _KNOWN = 4, 3, 0.8
"""Of the first requests for one object, how far apart those of a worker among several are in all requests; the
share of requests that are for objects of the recording."""


class ObservedLimits(ObservedObjects):
    """One test's objects and requests, and the rate at which the operator may send the latter."""

    @staticmethod
    def reached(span: Span) -> int:
        """Return when the last milestone of a phase was reached; its end, where one was not."""
        met = [one.observed_s for one in span.phase.milestones if one.met and one.observed_s is not None]
        return span.start + round(max(met) * 1e9) if met and len(met) == len(span.phase.milestones) else span.end

    def rate_limited(self, span: Span) -> bool:
        """Return whether the operator's own rate limit explains pauses and waits in a phase, by metrics or requests.

        A limit that one phase has shown holds in the others too: where requests for one kind come as far apart.
        """
        if rate_limited(span) or self.steady_rate(span) is not None:
            return True
        gap = self._gap_at_limit
        return gap is not None and any(
            _AS_FAR[0] * gap <= other <= _AS_FAR[1] * gap for other in self._gaps_of_kinds(span)
        )

    @functools.cached_property
    def _gap_at_limit(self) -> float | None:
        """The time between requests for one kind in a phase that the limit took most of, ns; None: there is none."""
        gaps = [gap for span in self.spans if rate_limited(span) for gap in self._gaps_of_kinds(span)[:1]]
        return min(gaps, default=None)

    def _gaps_of_kinds(self, span: Span) -> list[float]:
        """Return the median time between requests for each kind in a phase, ns; first of the kind with most."""
        times: dict[str, list[int]] = defaultdict(list)
        for one in self.requests_in(span.start, span.end):
            times[one.resource].append(one.received)
        return [
            statistics.median(after - before for before, after in itertools.pairwise(sorted(those)))
            for those in sorted(times.values(), key=len, reverse=True)
            if len(those) >= _OF_A_KIND
        ]

    def steady_rate(self, span: Span) -> float | None:
        """Return the requests a second that all of the operator's have in a phase, whatever they are for; None: others.

        At equal distances for half of the phase and more, and those for one object with some for others in between:
        what several workers share, not the pause of a single one.
        """
        return self._steady_rates[span.phase.name]

    @functools.cached_property
    def _steady_rates(self) -> Mapping[str, float | None]:
        return {span.phase.name: self._steady_rate(span) for span in self.spans}

    def _steady_rate(self, span: Span) -> float | None:
        sent = sorted(self.requests_in(span.start, span.end), key=lambda one: one.received)
        # A client of its own for custom resources has a limit of its own: client-go's dynamic one.
        of_kubernetes = [one for one in sent if is_builtin(one.resource)]
        rate = self._rate_of_all(span, sent) or self._rate_of_each_kind(span, sent)
        return rate or (self._rate_of_all(span, of_kubernetes) if 2 * len(of_kubernetes) >= len(sent) else None)

    def _rate_of_each_kind(self, span: Span, sent: Sequence[Sent]) -> float | None:
        """Return the rate at which requests for each kind come: controller-runtime's client has a limit for each.

        Of a single worker, its own pause would look the same: several have to be busy.
        """
        reached = self.reached(span)
        several = any((row.busy_workers or 0.0) >= _SEVERAL for row in span.phase.workers)
        if not several or self.working(span.start, reached) >= _UNDER_WAY or self.under_way(span) >= _UNDER_WAY:
            return None
        of_kind: dict[str, list[Sent]] = defaultdict(list)
        for one in sent:
            of_kind[one.resource].append(one)
        rates = []
        for those in of_kind.values():
            gaps = [after.received - before.received for before, after in itertools.pairwise(those)]
            if len(gaps) < _OF_A_KIND or sum(gaps) < (reached - span.start) / 2:
                continue
            # What a limit lets through at first comes at once: not the shortest fifth.
            middle, (_, least, _, most) = statistics.median(gaps), statistics.quantiles(gaps, n=5)
            if middle < _GAP_OF_A_KIND_NS or least < _STEADY[0] * middle or most > _STEADY[1] * middle:
                continue
            if len({one.object for one in those}) > len(those) / 2:
                rates.append(1e9 / middle)
        alike = len(rates) >= _KINDS and min(rates) >= _STEADY[0] * max(rates)
        return max(rates) if alike else None

    def _rate_of_all(self, span: Span, sent: Sequence[Sent]) -> float | None:
        """Return the rate at which requests come; of a single worker, its own pause would look the same."""
        busy = [row.busy_workers for row in span.phase.workers if row.busy_workers is not None]
        if len(sent) < _LEAST_EXACT or not span.phase.milestones or (busy and max(busy) < _SEVERAL):
            return None
        gaps = [after.received - before.received for before, after in itertools.pairwise(sent)]
        middle, (least, *_, most) = statistics.median(gaps), statistics.quantiles(gaps, n=5)
        exact = middle >= _GAP_OF_A_KIND_NS and least >= _EXACT[0] * middle and most <= _EXACT[1] * middle
        if len(sent) < _LEAST_STEADY and not exact:
            return None
        if middle < _LEAST_GAP_NS or least < _STEADY[0] * middle or most > _STEADY[1] * middle:
            return None
        # Requests that wait for their answers follow each other at one distance, too.
        if sum(gaps) < (self.reached(span) - span.start) / 2 or self.under_way(span) >= _UNDER_WAY:
            return None
        places: dict[str, list[int]] = {}
        for place, one in enumerate(sent):
            lives = self.of_name.get((one.resource, one.object), ())
            root = self.line(lives[-1])[-1].uid if lives else ""
            places.setdefault(root, []).append(place)
        places.pop("", None)
        if sum(map(len, places.values())) < _KNOWN * len(sent):
            return None
        apart = [after - before for those in places.values() for before, after in itertools.pairwise(those[:_FIRST])]
        return (
            1e9 / middle
            if len(apart) >= min(len(sent), _LEAST_STEADY) / 5 and statistics.median(apart) >= _BETWEEN
            else None
        )
