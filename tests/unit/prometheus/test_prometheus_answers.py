"""Answers of Prometheus' HTTP API, as they come and as they must never be taken."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import NotMeasuredError, PrometheusError
from pytest_grovescale.prometheus.answers import Histogram, Matrix, QueryError, Scalar, Text, Vector, decode


def success(kind: str, result: Any, **more: Any) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}, **more}).encode()


def refused(kind: str, message: str) -> bytes:
    return json.dumps({"status": "error", "errorType": kind, "error": message}).encode()


def vector(*samples: tuple[dict[str, str], str]) -> Vector:
    answer = decode("q", success("vector", [{"metric": labels, "value": [1.5, value]} for labels, value in samples]))
    assert isinstance(answer, Vector)
    return answer


def test_vector_keeps_labels_time_and_every_kind_of_number() -> None:
    found = vector(({"__name__": "up", "job": "a"}, "1"), ({"job": "b"}, "NaN"), ({"job": "c"}, "+Inf"))
    assert [sample.labels["job"] for sample in found.samples] == ["a", "b", "c"]
    assert found.samples[0].at == 1.5
    assert found.samples[0].number == 1
    assert math.isnan(found.samples[1].number)
    assert found.samples[2].number == math.inf


def test_scalar_text_and_matrix_are_distinguished() -> None:
    assert decode("1", success("scalar", [2.5, "-Inf"])) == Scalar(at=2.5, value=-math.inf)
    assert decode("'x'", success("string", [2, "x"])) == Text(at=2.0, value="x")
    body = success("matrix", [{"metric": {"job": "a"}, "values": [[1, "1"], [2.25, "3"]]}])
    found = decode("up[5s]", body)
    assert isinstance(found, Matrix)
    assert [(point.at, point.value) for point in found.series[0].points] == [(1.0, 1.0), (2.25, 3.0)]


def test_native_histograms_are_no_numbers() -> None:
    histogram = {"count": "3", "sum": "NaN", "buckets": [[0, "0.5", "1", "3"]]}
    found = decode("h", success("vector", [{"metric": {"__name__": "h"}, "histogram": [1, histogram]}]))
    assert isinstance(found, Vector)
    value = found.samples[0].value
    assert isinstance(value, Histogram)
    assert (value.count, value.buckets) == (3.0, [(0, 0.5, 1.0, 3.0)])
    assert math.isnan(value.sum)
    with pytest.raises(NotMeasuredError, match="native histogram"):
        _ = found.samples[0].number
    body = success("matrix", [{"metric": {}, "values": [[2, "1"]], "histograms": [[1, histogram]]}])
    mixed = decode("h[5s]", body)
    assert isinstance(mixed, Matrix)
    assert [point.at for point in mixed.series[0].points] == [1.0, 2.0]


def test_remarks_are_kept() -> None:
    found = decode("q", success("vector", [], warnings=["w"], infos=["might not be a counter"]))
    assert found.warnings == ["w", "might not be a counter"]


def test_one_value_is_asked_of_one_sample_only() -> None:
    assert vector(({}, "0")).value == 0
    with pytest.raises(NotMeasuredError, match="0 samples"):
        _ = vector().value
    with pytest.raises(NotMeasuredError, match="2 samples, not one"):
        _ = vector(({"job": "a"}, "0"), ({"job": "b"}, "0")).value


def test_values_by_label() -> None:
    found = vector(({"job": "a", "code": "200"}, "1"), ({"job": "b"}, "2"))
    assert found.by("job", "code") == {("a", "200"): 1.0, ("b", ""): 2.0}
    with pytest.raises(NotMeasuredError, match="several samples have"):
        vector(({"job": "a", "code": "1"}, "1"), ({"job": "a", "code": "2"}, "2")).by("job")


@pytest.mark.parametrize("said", ['invalid parameter "query": ', ""], ids=["named", "bare"])
def test_a_mistake_is_shown_where_it_is(said: str, snapshot: SnapshotAssertion) -> None:
    query = "sum(up)\n  + näh(up"
    with pytest.raises(QueryError) as caught:
        decode(query, refused("bad_data", f"{said}2:12: parse error: unclosed left parenthesis"))
    error = caught.value
    assert (error.kind, error.line, error.column) == ("bad_data", 2, 12)
    # Columns count bytes: ä has two of them.
    shown = "  sum(up)\n    + näh(up\n            ^ line 2, column 12"
    assert error.message.partition("\n")[2] == shown
    assert error.message == snapshot


def test_a_refusal_without_a_place_names_the_query(snapshot: SnapshotAssertion) -> None:
    with pytest.raises(QueryError) as caught:
        decode("a * b", refused("execution", "multiple matches for labels"))
    assert (caught.value.line, caught.value.kind) == (0, "execution")
    assert caught.value.message.partition("\n")[2] == "  a * b"
    assert caught.value.message == snapshot


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>welcome</html>",
        b"\xff\xfe",
        b'{"status":"success"}',
        b'{"status":"success","data":{"resultType":"cube","result":[]}}',
        success("vector", [{"metric": {}}]),
        success("vector", [{"metric": {}, "value": [1, "many"]}]),
        success("scalar", [1]),
    ],
)
def test_what_is_no_answer_is_an_error_and_never_no_data(body: bytes) -> None:
    with pytest.raises(PrometheusError, match="is not Prometheus'"):
        decode("up", body)
