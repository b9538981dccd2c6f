"""OpenMetrics: as prometheus_client reads and writes it, in the names of the text format."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, Histogram, Info, Summary
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics_writer

from pytest_grovescale.errors import ExpositionError
from pytest_grovescale.exposition.body import Limits
from pytest_grovescale.exposition.families import Exposition, Family, text
from pytest_grovescale.exposition.reader import Reader

from . import client
from .samples import LABELS, NAMES, OPENMETRICS_TYPE, TEXTS, escaped

KINDS = ("counter", "gauge", "histogram", "gaugehistogram", "summary", "info")
SUFFIXES = ("_total", "_created", "_bucket", "_sum", "_count", "_gsum", "_gcount", "_info")


def read(body: str) -> Exposition:
    return Reader().read(body.encode(), OPENMETRICS_TYPE)


def test_a_whole_exposition() -> None:
    found = read("""\
# HELP requests_seconds Of the API.
# TYPE requests_seconds counter
# UNIT requests_seconds seconds
requests_seconds_total{code="200"} 5.0 1.5 # {trace_id="a\\"b}"} 0.5 1520879607.789
requests_seconds_created{code="200"} 1520430000.123
# TYPE build info
build_info{version="1"} 1
# TYPE h histogram
h_bucket{le="1.0"} 1 # {} 0.5
h_bucket{le="+Inf"} 2
h_count 2
h_sum 3.0
h_created 1520430001
# TYPE state stateset
state{state="on"} 1
state{state="off"} 0
# TYPE gh gaugehistogram
gh_bucket{le="+Inf"} 2
gh_gcount 2
gh_gsum -1
untold 4
untold_created 5
# EOF
""")
    assert {name: family.type for name, family in found.families.items()} == {
        "requests_seconds_total": "counter",
        "build_info": "info",
        "h": "histogram",
        "state": "stateset",
        "gh": "gaugehistogram",
    }
    assert found.families["requests_seconds_total"] == Family(
        name="requests_seconds_total", type="counter", help="Of the API.", unit="seconds"
    )
    assert found.created == {'requests_seconds_total{code="200"}': "1520430000.123", "h": "1520430001"}
    assert found.samples == {
        'requests_seconds_total{code="200"}': "5.0",
        'build_info{version="1"}': "1",
        'h_bucket{le="1.0"}': "1",
        'h_bucket{le="+Inf"}': "2",
        "h_count": "2",
        "h_sum": "3.0",
        'state{state="on"}': "1",
        'state{state="off"}': "0",
        'gh_bucket{le="+Inf"}': "2",
        "gh_gcount": "2",
        "gh_gsum": "-1",
        "untold": "4",
        "untold_created": "5",
    }


def registry() -> CollectorRegistry:
    found = CollectorRegistry()
    counter = Counter("requests", 'of "all" kinds\n\\', ["code"], registry=found)
    counter.labels('2\\0"0\n').inc(3, exemplar={"trace": "x"})
    Counter("sent", "with a unit", unit="bytes", registry=found).inc(1e6)
    Gauge("depth", "", registry=found).set(float("nan"))
    Gauge("my.gauge", "a name in quotes", ["my label"], registry=found).labels("{}").set(float("-inf"))
    histogram = Histogram("work", "in s", ["queue"], buckets=(0.1, 1, 10), registry=found)
    histogram.labels("a b").observe(0.5, exemplar={"trace": "y"})
    Summary("size", "of it", registry=found).observe(4)
    Info("build", "the build", registry=found).info({"version": "1.2", "os": "linux"})
    Enum("phase", "of it", states=["on", "off"], registry=found).state("on")
    return found


def openmetrics_of(found: CollectorRegistry) -> bytes:
    write: Callable[..., bytes] = openmetrics_writer.generate_latest
    return write(found, escaping="allow-utf-8")


def test_what_prometheus_client_writes() -> None:
    body = openmetrics_of(registry())
    reader = Reader()
    found = reader.read(body, OPENMETRICS_TYPE)
    assert client.ours(found) == client.of_openmetrics(body.decode())
    assert reader.read(body, OPENMETRICS_TYPE) == found
    assert found.families["sent_bytes_total"].unit == "bytes"
    assert found.created.keys() == {
        'requests_total{code="2\\\\0\\"0\\n"}',
        "sent_bytes_total",
        'work{queue="a b"}',
        "size",
    }


def test_both_formats_name_the_same_series() -> None:
    """In the text format prometheus_client writes times of creation as series of their own, ``…_created``."""
    found = registry()
    as_text = Reader().read(generate_latest(found, escaping="allow-utf-8"), "text/plain")
    as_openmetrics = read(openmetrics_of(found).decode())
    assert {name for name in as_text.samples if "_created" not in name} == as_openmetrics.samples.keys()
    assert {name for name in as_text.families if "_created" not in name} == as_openmetrics.families.keys()


NUMBERS = st.one_of(st.floats(allow_nan=False, min_value=0).map(repr), st.integers(0, 10**20).map(str))
TIMES = st.one_of(st.just(""), st.integers(0, 2**40).map(lambda time: f" {time}"), st.just(" 1.5"), st.just(" -2.25e3"))
# prometheus_client loses count of quotes in an exemplar when one of them is escaped.
EXEMPLARS = st.one_of(
    st.just(""),
    st.tuples(st.dictionaries(LABELS, TEXTS.filter(lambda value: '"' not in value), max_size=2), TIMES).map(
        lambda parts: f" # {{{inside(parts[0])}}} 0.5{parts[1]}"
    ),
)
# It takes more than one blank before a help text for one, and any blank at its end for none.
HELPS = TEXTS.map(lambda words: f"x{words}x")


def inside(labels: dict[str, str], **more: str) -> str:
    return ",".join(f'{key}="{escaped(value)}"' for key, value in {**labels, **more}.items())


def line(name: str, labels: dict[str, str], rest: str, **more: str) -> str:
    pairs = inside(labels, **more)
    return f"{name}{{{pairs}}} {rest}" if pairs else f"{name} {rest}"


@st.composite
def expositions(draw: st.DrawFn) -> str:
    """Draw what the specification allows, whole metrics with all their samples."""
    lines = []
    names = NAMES.filter(lambda name: not name.endswith((*SUFFIXES, "_s")))
    for name in draw(st.lists(names, max_size=4, unique=True)):
        # A stateset's name is that of a label, too.
        kinds = [*KINDS, *(["stateset"] if ":" not in name and not name.startswith("__") else [])]
        kind = draw(st.sampled_from(kinds))
        if draw(st.booleans()):
            unit = "" if kind in ("info", "stateset") else draw(st.sampled_from(["", "s"]))
            name += f"_{unit}" if unit else ""
            lines += [f"# UNIT {name} {unit}"] if unit else []
            lines.append(f"# HELP {name} {escaped(draw(HELPS))}")
        lines.append(f"# TYPE {name} {kind}")
        for labels in draw(st.lists(st.dictionaries(LABELS, TEXTS, max_size=3), max_size=3, unique_by=repr)):
            labels = {key: value for key, value in labels.items() if key not in ("le", "quantile", name)}
            lines += draw(metric(name, kind, {**labels, "n": str(len(lines))}))
    return "".join(f"{line}\n" for line in [*lines, "# EOF"])


@st.composite
def metric(draw: st.DrawFn, name: str, kind: str, labels: dict[str, str]) -> list[str]:
    time, value = draw(TIMES), draw(NUMBERS)
    created = [line(f"{name}_created", labels, f"{draw(NUMBERS)}{time}")] if draw(st.booleans()) else []
    match kind:
        case "counter":
            return [line(f"{name}_total", labels, f"{value}{time}{draw(EXEMPLARS)}"), *created]
        case "gauge":
            return [line(name, labels, f"{draw(st.sampled_from([value, 'NaN', '-Inf', '-0.5']))}{time}")]
        case "info":
            # It takes all infos of a family for one, in which either all have a time or none.
            return [line(f"{name}_info", labels, "1")]
        case "stateset":
            return [line(name, labels, f"{on}{time}", **{name: f"s{on}"}) for on in (0, 1)]
        case "summary":
            quantiles = [line(name, labels, f"{value}{time}", quantile=q) for q in ("0.0", "0.99")]
            return [*quantiles, line(f"{name}_count", labels, f"3{time}"), *created]
        case _:
            g = "g" if kind == "gaugehistogram" else ""
            low, high = sorted(draw(st.lists(st.integers(0, 10**9), min_size=2, max_size=2)))
            return [
                line(f"{name}_bucket", labels, f"{low}{time}{draw(EXEMPLARS)}", le="1.0"),
                line(f"{name}_bucket", labels, f"{high}{time}{draw(EXEMPLARS)}", le="+Inf"),
                line(f"{name}_{g}count", labels, f"{high}{time}"),
                line(f"{name}_{g}sum", labels, f"{value}{time}"),
                *(created if not g else []),
            ]


@given(expositions())
def test_any_valid_exposition_is_read_as_prometheus_client_reads_it(body: str) -> None:
    reader = Reader()
    found = reader.read(body.encode(), OPENMETRICS_TYPE)
    assert client.ours(found) == client.of_openmetrics(body)
    assert reader.read(body.encode(), OPENMETRICS_TYPE) == found


def test_of_several_points_of_a_series_the_last_one_counts() -> None:
    assert read("x 1 1\nx 3 2.5\n# EOF\n").samples == {"x": "3"}


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        (["x"], 1),
        (["x  1"], 1),
        (["x 1 2 3"], 1),
        (["x 1 # {} "], 1),
        (["x 1 # {a=b} 1"], 1),
        (['x 1 # {a="b"}'], 1),
        (['x 1 # {a="b"} 1 2 3'], 1),
        (["x 1", "x 1"], 2),
        (["x 1 2", "x 1 2"], 2),
        (["x 1 2", "x 1 1"], 2),
        (["x 1", "x 1 2"], 2),
        (["x 1", "", "y 1"], 2),
        (["# a comment"], 1),
        (["#TYPE x gauge"], 1),
        (["# TYPE x untyped"], 1),
        (["# TYPE x"], 1),
        (["# TYPE x gauge", "# TYPE x gauge"], 2),
        (["# TYPE x gauge", "# TYPE x summary"], 2),
        (["# TYPE x gauge", "y 1", "# TYPE y gauge", "# HELP x a"], 4),
        (["# HELP x a", "y 1", "# HELP x b"], 3),
        (["# UNIT x seconds"], 1),
        (["# UNIT seconds seconds"], 1),
        (["# EOF", "x 1"], 2),
        (["# EOF", ""], 2),
    ],
)
def test_anything_else_is_refused_with_its_line(lines: list[str], number: int) -> None:
    with pytest.raises(ExpositionError, match=f"^line {number}: expected "):
        read("\n".join([*lines, "# EOF\n"]))


@pytest.mark.parametrize("body", ["", "x 1\n", "x 1\n# EO", "x 1\n# EOF x\n"])
def test_without_its_end_it_is_refused(body: str) -> None:
    with pytest.raises(ExpositionError, match=r"cut off|expected "):
        read(body)


def test_the_last_line_feed_may_be_missing() -> None:
    assert read("x 1\n# EOF").samples == {"x": "1"}


def test_two_families_whose_samples_would_share_a_name_are_refused() -> None:
    with pytest.raises(ExpositionError, match=r"^line 3: expected each family once"):
        read("# HELP x a\n# TYPE x counter\n# TYPE x_total gauge\n# EOF\n")


def test_a_gauge_and_a_counter_of_one_name_are_two_families() -> None:
    """As Go's client writes go_memstats_alloc_bytes and go_memstats_alloc_bytes_total. prometheus_client refuses it."""
    found = read("""\
# HELP x Now.
# TYPE x gauge
x 1
# HELP x In all.
# TYPE x counter
x_total 2
# EOF
""")
    assert found.families == {
        "x": Family(name="x", type="gauge", help="Now."),
        "x_total": Family(name="x_total", type="counter", help="In all."),
    }


def test_limits_hold_here_too() -> None:
    body = "".join(f"# TYPE x{n} gauge\n" for n in range(6)) + "# EOF\n"
    with pytest.raises(ExpositionError, match=r"^line 6: expected at most 5 families"):
        Reader(Limits(max_series=5)).read(body.encode(), OPENMETRICS_TYPE)


@given(TEXTS, st.dictionaries(LABELS, TEXTS, max_size=2))
def test_names_in_quotes(name: str, labels: dict[str, str]) -> None:
    name = f"my.{name}"
    found = read(f'# TYPE "{escaped(name)}" counter\n{text(f"{name}_total", labels)} 1\n# EOF\n')
    assert found.samples == {text(f"{name}_total", labels): "1"}
    assert list(found.families) == [f"{name}_total"]
