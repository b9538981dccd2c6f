"""The content of one exposition: families, series and their identifiers, and which families common libraries serve.

A family has its name in the text format 0.0.4: a counter's ends in ``_total`` where its samples do. So
``go_memstats_alloc_bytes``, a gauge, and ``go_memstats_alloc_bytes_total``, a counter, stay two families, which
OpenMetrics writes under one name.

A name that the classic format cannot represent is quoted among the labels: ``{"name with spaces",a="1"}``, as in
https://prometheus.io/docs/instrumenting/escaping_schemes/.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

MetricType = Literal["counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset", "unknown"]
"""``unknown``: ``untyped`` in the text format, and any family without a TYPE line."""


class Family(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Metadata of a metric family."""

    name: str
    type: MetricType = "unknown"
    help: str = ""
    unit: str = ""
    """Only in OpenMetrics and protobuf."""


class NativeHistogram(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A histogram with exponential buckets; counts are absolute, by bucket index (not deltas between neighbours)."""

    schema: int
    count: float
    sum: str
    """As text, since it may be NaN."""
    zero_threshold: float = 0.0
    zero_count: float = 0.0
    positive: dict[int, float] = {}
    negative: dict[int, float] = {}


class Exposition(msgspec.Struct, frozen=True, kw_only=True):
    """One response of an endpoint. Its dicts are shared with other responses: do not modify them.

    Exemplars and timestamps of samples are dropped.
    """

    families: dict[str, Family]
    """By name; also those without a sample."""
    samples: dict[str, str]
    """Series, in the format of `series.text` → value as exposed: as text, NaN equals itself."""
    native: dict[str, NativeHistogram] = {}
    """Series with exponential buckets → these buckets."""
    created: dict[str, str] = {}
    """Series (for a histogram or summary, without suffix) → its creation time, s since the epoch."""
    retyped: dict[str, tuple[MetricType, ...]] = {}
    """Families with several TYPE lines → the types, in order; the last one applies."""


CLASSIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
CLASSIC_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

_QUOTED = r'"((?:[^"\\]++|\\.)*+)"'
_PART = re.compile(rf"(?:([a-zA-Z_][a-zA-Z0-9_]*)|{_QUOTED})(?:={_QUOTED})?,?", re.DOTALL)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
_UNESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_SUFFIXES = {
    "histogram": ("_bucket", "_sum", "_count", "_created"),
    "gaugehistogram": ("_bucket", "_gsum", "_gcount"),
    "summary": ("_sum", "_count", "_created"),
    "counter": ("_created",),
    "info": ("_info",),
}


class Series(NamedTuple):
    """A series in its parts. Shared: do not modify it."""

    name: str
    labels: Mapping[str, str]


def text(name: str, labels: Mapping[str, str]) -> str:
    """Return the text of a series."""
    inside = [f"{_label_name(key)}={_quoted(labels[key])}" for key in sorted(labels)]
    if CLASSIC_NAME.fullmatch(name):
        return f"{name}{{{','.join(inside)}}}" if inside else name
    return "{" + ",".join([_quoted(name), *inside]) + "}"


def name_text(name: str) -> str:
    """Return a metric's name in the form of a HELP or TYPE line."""
    return name if CLASSIC_NAME.fullmatch(name) else _quoted(name)


@functools.lru_cache(maxsize=100_000)
def parse(series: str) -> Series:
    """Return the parts of a series' text, as written by `text`."""
    name, brace, inside = series.partition("{")
    labels: dict[str, str] = {}
    for match in _PART.finditer(inside[:-1]) if brace else ():
        classic, quoted, value = match.groups()
        if value is None:
            name = unescaped(quoted or "")
        else:
            labels[classic if classic is not None else unescaped(quoted)] = unescaped(value)
    return Series(name, labels)


def family_of(name: str, families: Mapping[str, Family]) -> str:
    """Return the family that a sample's name belongs to; its own name where no family matches."""
    if name in families:
        return name
    for suffix in ("_bucket", "_sum", "_count", "_created", "_gsum", "_gcount", "_info"):
        stem = name.removesuffix(suffix)
        for candidate in (stem, f"{stem}_total") if stem != name else ():
            family = families.get(candidate)
            if family is not None and suffix in _SUFFIXES.get(family.type, ()):
                return candidate
    return name


def _label_name(name: str) -> str:
    return name if CLASSIC_LABEL.fullmatch(name) else _quoted(name)


def _quoted(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        value = re.sub(r'[\\"\n]', lambda match: _ESCAPES[match[0]], value)
    return f'"{value}"'


def unescaped(value: str) -> str:
    """Return a quoted text unescaped. Unknown escapes are kept."""
    return re.sub(r'\\[\\"n]', lambda match: _UNESCAPES[match[0]], value) if "\\" in value else value


LIBRARIES = (
    "aspnetcore_",
    "certwatcher_",
    "controller_runtime_",
    "disk_",
    "dotnet_",
    "executor_",
    "go_",
    "http_client_requests_",
    "http_server_requests_",
    "jetty_",
    "jvm_",
    "kestrel_",
    "leader_election_",
    "log4j2_",
    "logback_",
    "netty_",
    "nodejs_",
    "process_",
    "promhttp_",
    "python_",
    "rest_client_",
    "system_cpu_",
    "system_load_",
    "tomcat_",
    "workqueue_",
)
"""Prefixes of the families of libraries: Go's, Python's, node's and .NET's clients, client-go, controller-runtime, and
Micrometer's binders as Spring Boot and Quarkus have them (docs.micrometer.io/micrometer/reference/reference/jvm.html,
docs.spring.io/spring-boot/reference/actuator/metrics.html). All other families are the program's own, whichever version
of a library it was built with."""

FRAMEWORKS = ("operator_sdk_",)
"""Prefixes of the families of frameworks that name and set them, and of which the program chooses the labels: the Java
Operator SDK's (javaoperatorsdk.io/docs/documentation/observability)."""
