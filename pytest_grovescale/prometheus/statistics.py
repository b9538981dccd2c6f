"""Latest values, increases and rates of many metrics, grouped by labels, all of one point in time and one round trip.

No data, a failed query, and zero are distinct. Increases and rates are computed by Prometheus: from the samples in the
window, extrapolated to its edges, with counter resets
(https://prometheus.io/docs/prometheus/latest/querying/functions/#increase). Rates are computed per series and then
summed: in a rate of the sum, a series that comes or goes would be a jump.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from .. import durations
from ..errors import NotMeasuredError, PrometheusError, UsageError
from .answers import Answer, QueryError, Scalar, Vector
from .api import QUERY_S, Api
from .server import Server

Kind = Literal["gauge", "increase", "rate"]
"""``gauge``: the latest value; ``increase``: the increase over the window; ``rate``: the increase per second."""

Group = tuple[str, ...]
"""Values of the grouping labels, in their order; empty for a label that a series lacks."""

UNREACHABLE = "unreachable"


class Value(msgspec.Struct, frozen=True):
    """A value of one group; zero is a value."""

    value: float
    left_out: int = 0
    """Number of the group's series that are excluded, since the window has fewer than two of their samples."""


class NoData(msgspec.Struct, frozen=True):
    """No data; distinct from zero."""

    reason: str


class QueryFailed(msgspec.Struct, frozen=True):
    """The query failed: unknown whether there is data."""

    query: str
    kind: str
    """Prometheus' error type: ``bad_data``, ``execution``, ``timeout``; `UNREACHABLE` without an answer."""
    message: str


Figure = Value | NoData | QueryFailed


class Asked(NamedTuple):
    """One queried metric."""

    kind: Kind
    metric: str
    """A metric's name or any selector: ``workqueue_depth{name="podcliqueset"}``."""


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """Results of one batch, all evaluated at the same time."""

    at: float
    """Unix time, s, by Prometheus' clock."""
    window_s: float
    by: tuple[str, ...]
    """Grouping labels."""
    figures: dict[Asked, dict[Group, Value | NoData]]
    """Results of successful queries; a group with neither value nor samples is missing."""
    failed: dict[Asked, QueryFailed]

    def groups(self) -> list[Group]:
        """Return all groups of all metrics, sorted."""
        return sorted({group for figures in self.figures.values() for group in figures})

    def figure(self, kind: Kind, metric: str, *group: str) -> Figure:
        """Return the result of one metric for one group, with label values in the order of ``by``.

        Raises UsageError for a metric that was not queried.
        """
        asked = Asked(kind, metric)
        if len(group) != len(self.by):
            raise UsageError(
                f"{len(group)} label values for the group, but it is by {', '.join(self.by) or 'nothing'}",
                next_step="Give one value for each label that is grouped by.",
            )
        if asked in self.failed:
            return self.failed[asked]
        if asked not in self.figures:
            raise UsageError(
                f"the {kind} of {metric} was not asked for",
                next_step="Asked for were: " + ", ".join(f"{a.kind} {a.metric}" for a in [*self.figures, *self.failed]),
            )
        nothing = "no series of it now" if kind == "gauge" else f"no sample in {durations.text(self.window_s)}"
        return self.figures[asked].get(group, NoData(nothing))

    def value(self, kind: Kind, metric: str, *group: str) -> float:
        """Return the value of one metric of one group.

        Raises NotMeasuredError without data, and if some of the group's series were excluded; PrometheusError if the
        query failed.
        """
        found = self.figure(kind, metric, *group)
        of = f"{kind} of {metric}{f' of {group}' if group else ''}"
        match found:
            case Value(value=value, left_out=0):
                return value
            case Value(left_out=left_out):
                raise NotMeasuredError(
                    f"{of}: {left_out} series have fewer than two samples in {durations.text(self.window_s)}",
                    next_step="Ask later, for a longer window, or use `figure(…)`, which gives the rest.",
                )
            case NoData(reason=reason):
                raise NotMeasuredError(f"{of}: no data: {reason}", next_step="Ask later, or for a longer window.")
            case QueryFailed(message=message, query=query):
                raise PrometheusError(f"{of}: {message}\n  {query}")


def asked_for(gauge: Iterable[str], increase: Iterable[str], rate: Iterable[str]) -> list[Asked]:
    """Return the queries without duplicates. Raises UsageError if there are none, or for a string instead of a list."""
    lists: list[tuple[Kind, Iterable[str]]] = [("gauge", gauge), ("increase", increase), ("rate", rate)]
    for kind, metrics in lists:
        if isinstance(metrics, str):
            raise UsageError(f"statistics({kind}={metrics!r})", next_step=f"Give a list: {kind}=[{metrics!r}].")
    found = list(dict.fromkeys(Asked(kind, metric) for kind, metrics in lists for metric in metrics))
    if not found:
        raise UsageError(
            "statistics() is asked for nothing", next_step='As: statistics(rate=["…"], by=["controller"]).'
        )
    return found


def query_text(asked: Asked, by: Sequence[str], window_s: float) -> str:
    """Return the PromQL of one metric."""
    match asked.kind:
        case "gauge":
            inner = asked.metric
        case "increase":
            inner = f"increase({asked.metric}[{_duration(window_s)}])"
        case "rate":
            inner = f"rate({asked.metric}[{_duration(window_s)}])"
    return f"{_aggregate('sum', by)} ({inner})"


def short_text(metric: str, by: Sequence[str], window_s: float) -> str:
    """Return the PromQL for the number of series in each group with fewer than two samples in the window."""
    return f"{_aggregate('count', by)} (count_over_time({metric}[{_duration(window_s)}]) < 2)"


async def statistics(
    api: Api, asked: Sequence[Asked], *, by: Sequence[str], window_s: float, timeout_s: float = QUERY_S
) -> Statistics:
    """Return all results, evaluated at the same time; all queries run concurrently.

    A failed query raises nothing: it is part of the result.
    """
    if window_s <= 0:
        raise UsageError("a window of 0 s holds no samples", next_step="Give a duration: window='30s'.")
    at = api.now()
    counted = list(dict.fromkeys(one.metric for one in asked if one.kind != "gauge"))
    queries = [query_text(one, by, window_s) for one in asked] + [short_text(m, by, window_s) for m in counted]
    found = await asyncio.gather(*(_ask(api, query, by, at, timeout_s) for query in queries))
    return gathered(
        asked,
        found[: len(asked)],
        dict(zip(counted, found[len(asked) :], strict=True)),
        at=at,
        window_s=window_s,
        by=tuple(by),
    )


def gathered(
    asked: Sequence[Asked],
    answers: Sequence[dict[Group, float] | QueryFailed],
    short: Mapping[str, dict[Group, float] | QueryFailed],
    *,
    at: float,
    window_s: float,
    by: tuple[str, ...],
) -> Statistics:
    """Combine the results; ``short``: metric → number of series per group with fewer than two samples."""
    figures: dict[Asked, dict[Group, Value | NoData]] = {}
    failed: dict[Asked, QueryFailed] = {}
    for one, answer in zip(asked, answers, strict=True):
        few = {} if one.kind == "gauge" else short[one.metric]
        if isinstance(answer, QueryFailed):
            failed[one] = answer
        elif isinstance(few, QueryFailed):
            # Without it, an excluded series would not be visible.
            failed[one] = few
        else:
            figures[one] = _figures(answer, few, window_s)
    return Statistics(at=at, window_s=window_s, by=by, figures=figures, failed=failed)


def _figures(answer: Mapping[Group, float], few: Mapping[Group, float], window_s: float) -> dict[Group, Value | NoData]:
    found: dict[Group, Value | NoData] = {
        group: NoData(f"fewer than two samples in {durations.text(window_s)}") for group in few
    }
    return found | {group: Value(value, int(few.get(group, 0))) for group, value in answer.items()}


async def _ask(
    api: Api, query: str, by: Sequence[str], at: float, timeout_s: float
) -> dict[Group, float] | QueryFailed:
    try:
        return _by_group(await api.query(query, at=at, timeout_s=timeout_s), by)
    except QueryError as error:
        return QueryFailed(query, error.kind, error.message)
    except NotMeasuredError as error:
        return QueryFailed(query, "not-a-number", error.message)
    except PrometheusError as error:
        return QueryFailed(query, UNREACHABLE, error.message)


def _by_group(answer: Answer, by: Sequence[str]) -> dict[Group, float]:
    match answer:
        case Vector():
            return answer.by(*by)
        case Scalar():
            return {("",) * len(by): answer.value}
        case _:
            raise NotMeasuredError("the answer is no vector")


def _aggregate(function: str, by: Sequence[str]) -> str:
    return f"{function} by ({', '.join(by)})" if by else function


def _duration(seconds: float) -> str:
    return f"{max(round(seconds * 1000), 1)}ms"


DYING_S = 2.0
"""Time to wait for the end of a process that stopped answering, s, to report that end as the cause."""


class Live:
    """An open Prometheus; created in ``opening``."""

    def __init__(self, api: Api, own: Server | None = None) -> None:
        self.api = api
        self.server = own
        """Process of the run's own Prometheus; None for an existing one."""

    async def query(self, query: str, *, at: float | None = None, timeout_s: float = QUERY_S) -> Answer:
        """Return the result of an instant query, now or ``at`` a Unix time (s). Raises QueryError, PrometheusError."""
        try:
            return await self.api.query(query, at=at, timeout_s=timeout_s)
        except QueryError:
            raise
        except PrometheusError:
            await self._check()
            raise

    async def statistics(
        self,
        *,
        gauge: Sequence[str] = (),
        increase: Sequence[str] = (),
        rate: Sequence[str] = (),
        by: Sequence[str] = (),
        window_s: float,
    ) -> Statistics:
        """Return latest values, increases and rates, all of one point in time; see ``statistics.Statistics``.

        A failed query is part of the result; a run's own Prometheus that has died raises PrometheusError.
        """
        asked = asked_for(gauge, increase, rate)
        found = await statistics(self.api, asked, by=by, window_s=window_s)
        if any(failed.kind == UNREACHABLE for failed in found.failed.values()):
            await self._check()
        return found

    async def _check(self) -> None:
        if self.server is not None:
            await asyncio.to_thread(self.server.check, within_s=DYING_S)
