"""Why Prometheus refuses a response, or drops samples of it; that it is right, a test with a real one shows."""

from __future__ import annotations

import pytest

from pytest_grovescale.exposition.refusals import of_response

NOW_S = 1_795_000_000.0
TEXT = "text/plain; version=0.0.4"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
SOUND = '# HELP x Help, 1 1794990000000\n# TYPE x gauge\nx{a="1 2"} 1\nx{a="3"} 2 1794999999000\n'
STRICT = '# TYPE x counter\nx_total{a="1"} 1 # {b="2"} 1 1694999999\n# EOF\n'


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (SOUND, ""),
        (SOUND.replace("\n", "\r\n"), TEXT),
        (SOUND.replace("gauge", "info"), TEXT),
        (SOUND.replace("1794999999000", "1794990000000"), TEXT),
        (SOUND.replace("1794999999000", "1794999999"), TEXT),
        (STRICT.replace(" 1 #", "  1 #"), OPENMETRICS),
        (STRICT.replace(" 1 #", " 1 1694999999 #"), OPENMETRICS),
    ],
)
def test_one_reason_is_given(body: str, content_type: str) -> None:
    assert len(list(of_response(body.encode(), content_type, NOW_S))) == 1


@pytest.mark.parametrize(("body", "content_type"), [(SOUND, TEXT), (STRICT, OPENMETRICS)])
def test_what_it_takes_has_none(body: str, content_type: str) -> None:
    assert list(of_response(body.encode(), content_type, NOW_S)) == []


@pytest.mark.parametrize("part", ["1 ", " ", 'a="1",', "\\\\", "{", ", ", "1", "1.1e", '"', '"",', '"a', "}", "x "])
@pytest.mark.parametrize("begin", ["", "x{", 'x{a="', "# TYPE ", "x"])
def test_hostile_lines_take_no_time(begin: str, part: str) -> None:
    body = f"{begin}{part * (40_000 // len(part))}\n".encode()
    for content_type in (TEXT, OPENMETRICS):
        list(of_response(body, content_type, NOW_S))
