"""Typed results of Prometheus queries, https://prometheus.io/docs/prometheus/latest/querying/api/."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from ..errors import NotMeasuredError, PrometheusError

_POSITION = re.compile(r"(\d+):(\d+): (parse error: .*)", re.DOTALL)


class Histogram(msgspec.Struct, frozen=True, kw_only=True):
    """A native histogram at one point in time."""

    count: float
    sum: float
    buckets: list[tuple[int, float, float, float]] = []
    """Inclusive bounds (0: the upper, 1: the lower, 2: none, 3: both), lower bound, upper bound, count."""


class Point(NamedTuple):
    """One sample in time."""

    at: float
    """Unix time, s."""
    value: float | Histogram


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One element of a vector."""

    labels: dict[str, str]
    """Includes ``__name__`` if the query keeps it."""
    at: float
    """Unix time, s: time of the evaluation, not of the scrape."""
    value: float | Histogram

    @property
    def number(self) -> float:
        """The value. Raises NotMeasuredError for a native histogram, which has none."""
        if isinstance(self.value, Histogram):
            raise NotMeasuredError(
                f"{_shown(self.labels)} is a native histogram, not a number",
                next_step="Ask for a number of it: histogram_count(…), histogram_quantile(0.99, …).",
            )
        return self.value


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One element of a matrix."""

    labels: dict[str, str]
    points: list[Point]


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all results."""

    warnings: list[str] = []
    """Warnings of Prometheus about the query: a rate of a metric that is not a counter, for example."""


class Vector(_Answer, frozen=True, kw_only=True):
    """Any number of samples at one point in time; empty if the query matches none."""

    samples: list[Sample]

    @property
    def value(self) -> float:
        """Value of the only sample. Raises NotMeasuredError for no sample, or more than one."""
        if len(self.samples) != 1:
            found = ", ".join(_shown(sample.labels) for sample in self.samples[:5])
            raise NotMeasuredError(
                f"the query gave {len(self.samples)} samples, not one{f': {found}' if found else ''}",
                next_step="Aggregate it, as sum(…); or look at `.samples`." if found else "Nothing matched it.",
            )
        return self.samples[0].number

    def by(self, *labels: str) -> dict[tuple[str, ...], float]:
        """Return values by these labels' values; an empty string for a label that a sample lacks.

        Raises NotMeasuredError if two samples have the same label values, or one is a native histogram.
        """
        found: dict[tuple[str, ...], float] = {}
        for sample in self.samples:
            group = tuple(sample.labels.get(label, "") for label in labels)
            if group in found:
                raise NotMeasuredError(
                    f"several samples have {dict(zip(labels, group, strict=True))}",
                    next_step="Aggregate them in the query, as sum by (…) (…), or name more labels.",
                )
            found[group] = sample.number
        return found


class Scalar(_Answer, frozen=True, kw_only=True):
    """One number, without labels."""

    at: float
    value: float


class Matrix(_Answer, frozen=True, kw_only=True):
    """Samples over time, as of ``metric[30s]``; with the times of their scrapes."""

    series: list[Series]


class Text(_Answer, frozen=True, kw_only=True):
    """A string literal."""

    at: float
    value: str


Answer = Vector | Scalar | Matrix | Text


class QueryError(PrometheusError):
    """A query that failed. ``kind``: Prometheus' error type: ``bad_data``, ``timeout`` …"""

    def __init__(self, query: str, kind: str, message: str, *, next_step: str = "") -> None:
        self.query = query
        self.kind = kind
        self.line = self.column = 0
        """Position of the error in the query, from 1; 0 if Prometheus reports none."""
        shown = f"Prometheus refuses the query ({kind}): {message}\n  {query}"
        if found := _POSITION.search(message):
            self.line, self.column = int(found[1]), int(found[2])
            shown = f"Prometheus refuses the query: {found[3]}\n{_pointed(query, self.line, self.column)}"
            next_step = next_step or "Correct it where the mark is."
        super().__init__(shown, next_step=next_step)


class _Element(msgspec.Struct):
    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None
    histogram: tuple[float, dict[str, Any]] | None = None
    values: list[tuple[float, str]] = []
    histograms: list[tuple[float, dict[str, Any]]] = []


class _Data(msgspec.Struct, rename="camel"):
    result_type: Literal["vector", "scalar", "matrix", "string"]
    result: msgspec.Raw


class _Body(msgspec.Struct, rename="camel"):
    status: Literal["success", "error"]
    data: msgspec.Raw = msgspec.Raw(b"null")
    error_type: str = ""
    error: str = ""
    warnings: list[str] = []
    infos: list[str] = []


def decode(query: str, body: bytes) -> Answer:
    """Return the result of an instant query. Raises QueryError for a failed query, PrometheusError for other errors.

    ``body`` is that of the response, whatever its status.
    """
    try:
        answer = msgspec.json.decode(body, type=_Body)
        if answer.status == "error":
            raise QueryError(query, answer.error_type, answer.error)
        return _answer(msgspec.json.decode(answer.data, type=_Data), [*answer.warnings, *answer.infos])
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        text = body[:200].decode(errors="replace").strip()
        raise PrometheusError(
            f"the answer to {query!r} is not Prometheus': {error}\n  {text}",
            next_step="Is the URL that of a Prometheus, without /api/v1?",
        ) from error


def decode_data(body: bytes, content: Any, *, what: str) -> Any:
    """Return the data of any other response of the API, as ``content``. Raises PrometheusError."""
    try:
        answer = msgspec.json.decode(body, type=_Body)
        if answer.status == "success":
            return msgspec.json.decode(answer.data, type=content)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        text = body[:200].decode(errors="replace").strip()
        raise PrometheusError(
            f"{what}: the answer is not Prometheus': {error}\n  {text}",
            next_step="Is the URL that of a Prometheus, without /api/v1?",
        ) from error
    raise PrometheusError(f"{what}: {answer.error}")


def _answer(data: _Data, warnings: list[str]) -> Answer:
    match data.result_type:
        case "scalar":
            at, number = msgspec.json.decode(data.result, type=tuple[float, str])
            return Scalar(at=at, value=float(number), warnings=warnings)
        case "string":
            at, text = msgspec.json.decode(data.result, type=tuple[float, str])
            return Text(at=at, value=text, warnings=warnings)
        case "vector":
            elements = msgspec.json.decode(data.result, type=list[_Element])
            return Vector(samples=[_sample(element) for element in elements], warnings=warnings)
        case "matrix":
            elements = msgspec.json.decode(data.result, type=list[_Element])
            return Matrix(series=[_series(element) for element in elements], warnings=warnings)


def _sample(element: _Element) -> Sample:
    points = [*_points(filter(None, [element.value])), *_histograms(filter(None, [element.histogram]))]
    if len(points) != 1:
        raise ValueError(f"{_shown(element.metric)} has {len(points)} values")
    return Sample(labels=element.metric, at=points[0].at, value=points[0].value)


def _series(element: _Element) -> Series:
    points = sorted([*_points(element.values), *_histograms(element.histograms)], key=lambda point: point.at)
    return Series(labels=element.metric, points=points)


def _points(pairs: Iterable[tuple[float, str]]) -> list[Point]:
    return [Point(at, float(number)) for at, number in pairs]


def _histograms(pairs: Iterable[tuple[float, dict[str, Any]]]) -> list[Point]:
    # Its numbers are strings, since they may be NaN.
    return [Point(at, msgspec.convert(content, Histogram, strict=False)) for at, content in pairs]


def _shown(labels: dict[str, str]) -> str:
    inside = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()) if name != "__name__")
    return f"{labels.get('__name__', '')}{{{inside}}}"


def _pointed(query: str, line: int, column: int) -> str:
    """Return the query with a mark under the column, which Prometheus counts in bytes."""
    lines = query.split("\n")
    shown = [f"  {text}" for text in lines]
    if 0 < line <= len(lines):
        before = lines[line - 1].encode()[: column - 1].decode(errors="ignore")
        shown.insert(line, f"  {' ' * len(before)}^ line {line}, column {column}")
    return "\n".join(shown)
