"""A metrics endpoint that is scraped in a test: whole answers in, the records that the recorder writes of them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_grovescale.exposition.families import Family
from pytest_grovescale.recording import records as rec

T0 = 1_790_000_000_000_000_000
S = 1_000_000_000

RECONCILES = "controller_runtime_reconcile_total"
DEPTH = "workqueue_depth"
ERRORS = "my_operator_errors_total"
LATENCY = "my_operator_sync_seconds"

FAMILIES = (
    Family(name=RECONCILES, type="counter", help="Total number of reconciliations per controller."),
    Family(name=DEPTH, type="gauge", help="Current depth of workqueue."),
    Family(name=ERRORS, type="counter", help="Errors by kind."),
    Family(name=LATENCY, type="histogram", help="How long a sync took."),
)


class Endpoint:
    """One target; `records` has what a recording would hold of it."""

    def __init__(self, target: str = "operator", families: Sequence[Family] = FAMILIES) -> None:
        self.target = target
        self.records: list[rec.AnyRecord] = []
        self._families = {family.name: family for family in families}
        self._last: dict[str, float] = {}

    def answers(self, second: float, samples: Mapping[str, float], *, edge: str = "", took_ms: float = 4.0) -> None:
        """Let it be scraped; ``samples`` is all that it serves."""
        changed = {series: value for series, value in samples.items() if self._last.get(series) != value}
        self.records.append(
            rec.Scraped(
                at=at(second),
                target=self.target,
                edge=edge,
                took_ns=round(took_ms * 1e6),
                samples=changed,
                gone=[series for series in self._last if series not in samples],
                families=self._families,
            )
        )
        self._families, self._last = {}, dict(samples)

    def fails(self, second: float, message: str = "no answer within 5 s") -> None:
        self.records.append(rec.SourceFailed(at=at(second), source=f"scrape:{self.target}", message=message))


def at(second: float) -> int:
    return T0 + round(second * S)


def working(target: str = "operator", *, scrapes: int = 12) -> Endpoint:
    """An operator at work: two controllers, queues that fill and drain, an error in the middle, a lazy histogram."""
    found = Endpoint(target)
    for scrape in range(scrapes):
        samples = {
            f'{RECONCILES}{{controller="set",result="success"}}': 10.0 * scrape,
            f'{RECONCILES}{{controller="set",result="error"}}': float(scrape >= scrapes // 2),
            f'{RECONCILES}{{controller="clique",result="success"}}': 40.0 * scrape,
            f'{RECONCILES}{{controller="clique",result="error"}}': 0.0,
            f'{DEPTH}{{controller="set",name="set"}}': float(abs(scrapes // 2 - scrape)),
            f'{DEPTH}{{controller="clique",name="clique"}}': float(scrape % 3),
            f'{ERRORS}{{kind="conflict"}}': 2.0 * scrape,
        }
        if scrape >= 2:
            samples |= {f'{LATENCY}_bucket{{le="{le}"}}': 5.0 * scrape for le in ("0.1", "1.0", "+Inf")}
            samples |= {f"{LATENCY}_sum": 0.3 * scrape, f"{LATENCY}_count": 5.0 * scrape}
        found.answers(1 + 2 * scrape, samples, took_ms=4 + scrape / 10)
    return found
