"""Real scrapes and hostile ones, and parts of which valid ones are made."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

DATA = Path(__file__).parents[2] / "data" / "exposition"
TEXT = (DATA / "controller_runtime_head.prom").read_bytes()
PROTOBUF = (DATA / "controller_runtime_head.pb").read_bytes()
"""The same manager as in `TEXT`, scraped a moment apart."""
TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROTOBUF_TYPE = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"

NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True)
LABELS = st.from_regex(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]{0,5}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
UTF8_NAMES = st.one_of(NAMES, TEXTS.filter(bool))
UTF8_LABELS = st.one_of(LABELS, TEXTS.filter(lambda name: bool(name) and name != "__name__"))
VALUES = st.one_of(
    st.floats().map(repr),
    st.sampled_from(["NaN", "+Inf", "-Inf", "0", "1e+06", "1.5e-05", "-0", "+3", ".5", "7."]),
    st.integers(-(10**20), 10**20).map(str),
)


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def canonical(value: float) -> str:
    """Return a number so that NaN equals itself. prometheus_client reads -0 as an integer, without its sign."""
    return repr(float(value) + 0.0)
