"""The same responses, given to a real Prometheus and to ``lint-metrics``: what one refuses or drops, the other reports.

All of them are scraped by one Prometheus in one round. Which version runs does not matter: what only a later one
refuses (a response without a Content-Type) is in `STRICTER` with its reason, and so is all else that is reported of a
response that Prometheus takes.
"""

from __future__ import annotations

import gzip
import itertools
import random
import subprocess
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from pytest_grovescale.atomic_write import json_document
from pytest_grovescale.bench.lint_metrics import read_source
from pytest_grovescale.cluster import binaries, ports
from pytest_grovescale.cluster.versions import DEFAULT_KUBERNETES
from pytest_grovescale.endpoints import Address, Credentials
from pytest_grovescale.errors import GrovescaleError
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.operator.readiness import answers
from pytest_grovescale.prometheus import opening, server
from pytest_grovescale.prometheus.answers import Vector
from pytest_grovescale.prometheus.api import Api
from tests.serving import Reply, Request, serving
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

REFUSED = frozenset({"syntax", "transport"})
"""Rules whose faults say that a scraper refuses the response."""

MUTATED = 120

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

GAUGE = '# HELP x_things Help.\n# TYPE x_things gauge\nx_things{part="a"} 1\nx_things{part="b"} 2\n'
HISTOGRAM = (
    "# HELP h_seconds Help.\n# TYPE h_seconds histogram\n"
    'h_seconds_bucket{le="0.1"} 1\nh_seconds_bucket{le="1.0"} 2\nh_seconds_bucket{le="+Inf"} 3\n'
    "h_seconds_sum 4\nh_seconds_count 3\n"
)
OPEN = f"{GAUGE}# EOF\n"
COUNTER = '# HELP c Help.\n# TYPE c counter\nc_total{part="a"} 1\n'
NATIVE_OF_ITS_FORMAT = (
    "# HELP c Help.\n# TYPE c counter\n"
    'c_total{part="a"} 1\nc_total{part="b"} 12 # {trace_id="ab"} 1\n'
    "# TYPE x_seconds gauge\n# UNIT x_seconds seconds\n# HELP x_seconds Help.\n"
    'x_seconds{a="1",b="2"} 1.5\n# EOF\n'
)

TAKEN_BY_LATER = "Prometheus 3 refuses it"
OWN_LIMIT = "no scraper of this project reads it"
READ_DIFFERENTLY = "a reader of lines sees two broken ones"
STRICTER = {
    **dict.fromkeys(
        ("type_none", "type_empty", "type_html", "type_json", "type_octets", "type_word", "type_parameter"),
        TAKEN_BY_LATER,
    ),
    "type_openmetrics_2": "a later format, which was not asked for",
    "encoding_br": "it says that it is packed, and is not",
    "redirect": "the token must not leave its server; the message names the place",
    "nul_line": "Prometheus reads no further, and says nothing",
    "line_feed_in_label": READ_DIFFERENTLY,
    "no_samples": "an endpoint without metrics",
    "carriage_returns_only": "one comment, and no metrics",
    "label_of_20000": OWN_LIMIT,
    "labels_200": OWN_LIMIT,
}
"""Reported as refused although Prometheus (of this version) takes it, and why."""


def texts(now_ms: int) -> dict[str, str]:
    """Return responses in the text format, by name."""

    def value(text: str) -> str:
        return GAUGE.replace(" 2\n", f" {text}\n")

    def more(lines: str) -> str:
        return f"{GAUGE}{lines}\n"

    numbers: tuple[str, ...] = (
        "+Inf",
        "-Inf",
        "inf",
        "Infinity",
        "nan",
        "+NaN",
        "0x2",
        "0x1p-2",
        "1_000",
        "2,5",
        "1,024",
        "+2",
        "2.",
    )
    numbers += (".5", "1e3", "1E3", "1e400", "1e-400", "2f", "two", "", "50%", "0o17", "-0", "1 2 3", '"2"', "true")
    blanks = {"leading": " x_things{", "leading_tab": "\tx_things{", "in_name": "x_things {", "in_braces": "x_things{ "}
    labels: tuple[str, ...] = (
        'a="1",',
        'a="1",,',
        ',a="1"',
        "",
        "a='1'",
        "a=1",
        'a="1',
        'a="\\d"',
        'a="\\\\ \\" \\n"',
        'a="1\\"',
    )
    labels += ('a-b="1"', '1a="1"', 'a:b="1"', '__name__="y"', '__a="y"', 'a="1",a="2"', 'a=""', 'job="z"', 'ü="1"')
    labels += ('a="1"b="2"', 'a="say "hi""', 'a="1"b', 'a="1"b="2"c=3', ' a = "1" , b = "2" , ', '"a b"="1"', '"y"')
    names = ("x-y", "x.y", "1x", "x:y", ":x", "_x", '{a="1"}', "über", '{"my metric"}', '{""}', '{"x","y"}')
    types: tuple[str, ...] = (
        "number",
        "",
        "Gauge",
        "info",
        "stateset",
        "unknown",
        "untyped",
        "gaugehistogram",
        "gauge ",
        " gauge",
    )
    types += ("gauge gauge", "gauge\r")
    return {
        "sound": GAUGE,
        "sound_histogram": HISTOGRAM,
        **{f"number_{text}": value(text) for text in numbers},
        **{f"blank_{name}": GAUGE.replace("x_things{", text) for name, text in blanks.items()},
        **{f"labels_{text}": more(f"y{{{text}}} 1") for text in labels},
        **{f"name_{text}": more(f"{text} 1") for text in names},
        **{f"kind_{text}": GAUGE.replace("gauge", text) for text in types},
        "carriage_returns": GAUGE.replace("\n", "\r\n"),
        "carriage_returns_only": GAUGE.replace("\n", "\r"),
        "carriage_return_of_help": GAUGE.replace("Help.", "Help.\r"),
        "carriage_return_of_sample": value("2\r"),
        "old": value(f"2 {now_ms - 7_200_000}"),
        "of_this_hour": value(f"2 {now_ms - 1_800_000}"),
        "future": value(f"2 {now_ms + 7_200_000}"),
        "soon": value(f"2 {now_ms + 300_000}"),
        "seconds": value(f"2 {now_ms // 1000}"),
        "zero": value("2 0"),
        "negative": value("2 -5"),
        "fraction": value(f"2 {now_ms}.5"),
        "exponent": value("2 1.7e12"),
        "now": value(f"2 {now_ms}"),
        "endless": value("2 99999999999999999999"),
        "falling": more(f"y 1 {now_ms}\ny 2 {now_ms - 1000}"),
        "two_helps": more("# HELP x_things Again."),
        "two_types": more("# TYPE x_things counter"),
        "late_type": GAUGE.replace("# TYPE x_things gauge\n", "") + "# TYPE x_things gauge\n",
        "in_pieces": more('# TYPE y gauge\ny 1\nx_things{part="c"} 1'),
        "twice": more('x_things{part="b"} 2'),
        "twice_other_value": more('x_things{part="b"} 3'),
        "twice_other_order": more('x_things{b="1",a="1"} 3\nx_things{a="1",b="1"} 3'),
        "twice_by_empty_label": more('y{a=""} 1\ny 2'),
        "mark": f"\ufeff{GAUGE}",
        "nul_in_label": GAUGE.replace('"a"', '"\x00"'),
        "nul_line": more("\x00"),
        "escape_in_label": GAUGE.replace('"a"', '"\x1b[31m"'),
        "no_end": GAUGE[:-1],
        "cut_in_number": GAUGE[:-2],
        "cut_in_label": GAUGE[:-6],
        "no_samples": "# nothing\n",
        "empty_lines": GAUGE.replace("\n", "\n\n"),
        "trailing_blank": value("2 "),
        "tabs": GAUGE.replace(" ", "\t"),
        "line_feed_in_label": more('y{a="1\n2"} 1'),
        "help_without_text": GAUGE.replace(" Help.", ""),
        "help_without_name": more("# HELP"),
        "help_of_no_name": more("# HELP x-y Help."),
        "type_of_no_name": more("# TYPE x-y gauge"),
        "hash_alone": more("#HELP y Help.\n#TYPE y gauge"),
        "lower_case": more("# help y Help.\n# type y gauge"),
        "eof": more("# EOF"),
        "name_after_labels": more('{a="1","x"} 1'),
        "quoted_help": more('# HELP "my metric" Help.'),
        "label_of_20000": more('y{a="' + "l" * 20_000 + '"} 1'),
        "labels_200": more("y{" + ",".join(f'l{i}="1"' for i in range(200)) + "} 1"),
        "le_missing": HISTOGRAM.replace('{le="1.0"}', ""),
        "le_word": HISTOGRAM.replace('"1.0"', '"one"'),
        "le_twice": HISTOGRAM.replace('"1.0"', '"0.1"'),
        "exemplar_in_text": HISTOGRAM.replace('"1.0"} 2', '"1.0"} 2 # {trace_id="a"} 1'),
    }


def openmetrics(now_s: float) -> dict[str, str]:
    """Return responses in OpenMetrics, by name."""

    def more(lines: str) -> str:
        return f"{GAUGE}{lines}\n# EOF\n"

    exemplars: tuple[str, ...] = (
        '{a="1"} 0.5',
        f'{{a="1"}} 0.5 {now_s:.3f}',
        "{} 0.5",
        '{a="1"}',
        '{a="1"} x',
        '{a="1"}0.5',
    )
    exemplars += ('{a="1",a="2"} 0.5', '{a="1"} 0.5 # {a="2"} 1', '{a="1"} NaN', '{a-b="1"} 0.5')
    timestamps = (f"{now_s:.3f}", f"{now_s * 1000:.0f}", f"{now_s - 7200:.3f}", "1.7e9", "NaN", "+Inf", "-1")
    edits = {
        "no_eof": ("# EOF\n", ""),
        "eof_without_end": ("# EOF\n", "# EOF"),
        "after_eof": ("# EOF\n", "# EOF\ny 1\n"),
        "two_eofs": ("# EOF\n", "# EOF\n# EOF\n"),
        "eof_and_blank": ("# EOF", "# EOF "),
        "empty_line": ("gauge\n", "gauge\n\n"),
        "comment": ("# EOF", "# hello\n# EOF"),
        "leading_blank": ("x_things{", " x_things{"),
        "trailing_blank": (" 2\n", " 2 \n"),
        "tab": (" 2\n", "\t2\n"),
        "two_blanks": (" 2\n", "  2\n"),
        "no_blank": (" 2\n", "2\n"),
        "blank_before_brace": ("x_things{", "x_things {"),
        "blanks_in_braces": ("{part", "{ part"),
        "comma_at_end": ('"a"}', '"a",}'),
        "carriage_returns": ("\n", "\r\n"),
        "help_empty": (" Help.", " "),
        "help_without_text": (" Help.", ""),
        "type_upper_case": ("gauge", "Gauge"),
        "type_untyped": ("gauge", "untyped"),
        "type_unknown": ("gauge", "unknown"),
        "type_and_blank": ("gauge", "gauge "),
        "hash_alone": ("# HELP", "#HELP"),
        "escape": ('"a"', '"\\d"'),
        "hexadecimal": (" 2\n", " 0x2\n"),
        "infinity": (" 2\n", " Inf\n"),
        "exemplar_of_gauge": (" 2\n", ' 2 # {a="1"} 1\n'),
    }
    return {
        "sound": OPEN,
        **{name: OPEN.replace(*edit) for name, edit in edits.items()},
        **{f"exemplar_{text}": f"{HISTOGRAM}# EOF\n".replace('"} 2', f'"}} 2 # {text}') for text in exemplars},
        **{f"timestamp_{text}": OPEN.replace(" 2\n", f" 2 {text}\n") for text in timestamps},
        "exemplar_of_sum": HISTOGRAM.replace("_sum 4", '_sum 4 # {a="1"} 1') + "# EOF\n",
        "exemplar_of_counter": COUNTER.replace(" 1\n", ' 1 # {a="1"} 1\n') + "# EOF\n",
        "counter": f"{COUNTER}# EOF\n",
        "counter_without_total": "# TYPE c counter\nc 1\n# EOF\n",
        "created": f'{COUNTER}c_created{{part="a"}} 1.7e9\n# EOF\n',
        "type_twice": more("# TYPE x_things gauge"),
        "help_twice": more("# HELP x_things Help."),
        "in_pieces": more('# TYPE y gauge\ny 1\nx_things{part="c"} 1'),
        "twice": more('x_things{part="b"} 3'),
        "unit": more("# TYPE y_seconds gauge\n# UNIT y_seconds seconds\ny_seconds 1"),
        "unit_of_others": more("# TYPE y gauge\n# UNIT y seconds\ny 1"),
        "unit_without_text": more("# TYPE y gauge\n# UNIT y\ny 1"),
        "info": more('# TYPE y info\ny_info{a="1"} 1'),
        "stateset": more('# TYPE y stateset\ny{y="a"} 1\ny{y="b"} 0'),
        "quoted_name": more('# TYPE "my metric" gauge\n{"my metric"} 1'),
    }


def others() -> dict[str, Reply]:
    """Return responses that differ in their bytes or headers, by name."""
    gauge, packed = GAUGE.encode(), gzip.compress(GAUGE.encode())
    types: dict[str, str | None] = {
        "none": None,
        "empty": "",
        "text": "text/plain",
        "capitals": "TEXT/PLAIN; Version=0.0.4",
        "text_1": "text/plain; version=1.0.0; escaping=allow-utf-8",
        "html": "text/html",
        "json": "application/json",
        "octets": "application/octet-stream",
        "word": "metrics",
        "semicolon": "text/plain;",
        "parameter": "text/plain; version=;",
        "protobuf": "application/vnd.google.protobuf",
        "openmetrics": OPENMETRICS,
    }
    return {
        **{f"type_{name}": Reply(gauge, content_type=media) for name, media in types.items()},
        "type_openmetrics_2": Reply(OPEN.encode(), content_type="application/openmetrics-text; version=2.0.0"),
        "openmetrics_as_text": Reply(OPEN.encode()),
        "no_utf8": Reply(b'x{a="\xff"} 1\n'),
        "no_utf8_in_name": Reply(gauge + b"\xff 1\n"),
        "no_utf8_in_help": Reply(b"# HELP x \xff\n" + gauge),
        "no_utf8_in_comment": Reply(b"# \xff\n" + gauge),
        "surrogate": Reply(gauge + b'y{a="\xed\xa0\x80"} 1\n'),
        "gzip": Reply(packed, encoding="gzip"),
        "gzip_capitals": Reply(packed, encoding="GZIP"),
        "gzip_cut": Reply(packed[:-6], encoding="gzip"),
        "gzip_checksum": Reply(packed[:-8] + bytes(8), encoding="gzip"),
        "gzip_and_more": Reply(packed + b"xx", encoding="gzip"),
        "gzip_two": Reply(packed + gzip.compress(b"y 1\n"), encoding="gzip"),
        "gzip_unsaid": Reply(packed),
        "gzip_not_at_all": Reply(gauge, encoding="gzip"),
        "encoding_deflate": Reply(zlib.compress(gauge), encoding="deflate"),
        "encoding_br": Reply(gauge, encoding="br"),
        "encoding_identity": Reply(gauge, encoding="identity"),
        "length_too_long": Reply(gauge, length=len(gauge) + 50),
        "length_too_short": Reply(gauge, length=len(gauge) - 3),
        "redirect": Reply(status=302, location="/0"),
        **{f"status_{status}": Reply(gauge, status=status) for status in (201, 206, 401, 404, 500, 503)},
    }


def mutated(seed: int) -> Iterator[tuple[str, Reply]]:
    """Yield sound responses with an edit or two: characters and lines that are taken out, put in or moved."""
    chance = random.Random(seed)
    pieces = [*' \t\n\r"{}=,#\\_:-+.0129aexNIfnT', "\x00", "ü", "# ", "HELP ", "TYPE ", " 1", "\n\n", '""', "{}", "nan"]
    sound = ((GAUGE + HISTOGRAM, Reply().content_type), (NATIVE_OF_ITS_FORMAT, OPENMETRICS))
    for number in range(MUTATED):
        body, media = sound[number % 2]
        for _ in range(chance.choice((1, 1, 2))):
            at = chance.randrange(len(body))
            match chance.randrange(4):
                case 0:
                    body = body[:at] + body[at + chance.randrange(1, 12) :]
                case 1:
                    body = body[:at] + chance.choice(pieces) + body[at:]
                case 2:
                    body = body[:at] + chance.choice(pieces) + body[at + 1 :]
                case _:
                    lines = body.splitlines(keepends=True)
                    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
                    lines[one], lines[other] = lines[other], lines[one]
                    body = "".join(lines)
        yield f"mutated {number} of seed {seed}: {body!r}", Reply(body.encode(), content_type=media)


def replies(seed: int) -> dict[str, Reply]:
    """Return all responses, by name."""
    now_s = time.time()
    strict = {f"openmetrics: {name}": body.encode() for name, body in openmetrics(now_s).items()}
    return {
        **{name: Reply(body.encode()) for name, body in texts(round(now_s * 1000)).items()},
        **{name: Reply(body, content_type=OPENMETRICS) for name, body in strict.items()},
        **others(),
        **dict(mutated(seed)),
    }


def taken(folder: Path, port: int, names: Iterable[str]) -> dict[str, bool]:
    """Return path → whether Prometheus takes what is served there, and stores each sample."""
    binary = binaries.find([server.PROCESS], DEFAULT_KUBERNETES, given={}, progress=lambda _: None)[server.PROCESS]
    anywhere = {"all": Address(url=f"http://127.0.0.1:{port}")}
    config = server.configuration(anywhere, folder, interval_s=3, version=binary.version)
    job = config["scrape_configs"][0]
    # Of files it watches no more than 128.
    del job["file_sd_configs"]
    job["static_configs"] = [
        {"targets": [f"127.0.0.1:{port}"], "labels": {"__metrics_path__": f"/{name}", "instance": name}}
        for name in names
    ]
    file = folder / server.FILE
    file.write_bytes(json_document(config))
    (lease,) = ports.lease(1)
    address = Address(url=f"http://127.0.0.1:{lease.number}")
    command = server.command(binary.path, file, folder / "data", lease.number)
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_until(lambda: not answers(Address(url=f"{address.url}/-/ready")), "Prometheus")
            with Portal() as portal, opening.connected(address, portal) as api:
                return _taken(portal, api)
        finally:
            process.kill()
            ports.release([lease])


def _taken(portal: Portal, api: Api) -> dict[str, bool]:
    def targets() -> dict[str, str]:
        return {target.labels["instance"]: target.health for target in portal.run(api.targets())}

    def counts(query: str) -> dict[str, float]:
        # Samples that lie ahead show later only.
        found = portal.run(api.query(query, at=api.now() + 1200))
        assert isinstance(found, Vector)
        return {name: count for (name,), count in found.by("instance").items()}

    wait_until(lambda: (now := targets()) and "unknown" not in now.values(), "scrapes of all")
    scraped = counts("last_over_time(scrape_samples_scraped[1h])")
    stored = counts('count by (instance) (last_over_time({__name__!~"up|scrape_.*",instance!=""}[4h]))')
    return {name: health == "up" and scraped[name] == stored.get(name, 0.0) for name, health in targets().items()}


def reported(url: str) -> set[str]:
    """Return the rules of the faults that are reported of the response itself."""
    try:
        return {fault.rule for fault in read_source(url, Credentials(), 10.0)[1]}
    except GrovescaleError:
        return {"syntax"}


def test_what_prometheus_refuses_or_drops_is_a_fault(tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)
    named = dict(zip(map(str, itertools.count()), replies(seed).items(), strict=False))

    def reply(asked: Request) -> Reply:
        return named[asked.path[1:]][1]

    with serving(reply) as port:
        by_prometheus = taken(tmp_path, port, named)
        by_lint = {number: reported(f"http://127.0.0.1:{port}/{number}") for number in named}
    assert len(named) > 300
    names = {number: name for number, (name, _) in named.items()}
    assert [names[number] for number in named if not by_prometheus[number] and not by_lint[number]] == []
    stricter = [names[number] for number in named if by_prometheus[number] and by_lint[number] & REFUSED]
    assert [name for name in stricter if name not in STRICTER and not name.startswith("mutated")] == []
    assert by_prometheus["0"]
    assert by_lint["0"] == set()
