"""Selectors of series, as PromQL writes them: ``name{label="value",other!~"a.*"}``.

https://prometheus.io/docs/prometheus/latest/querying/basics/#time-series-selectors. As there, a regular expression has
to match the whole value, and a label that a series lacks is the same as an empty one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Literal, NamedTuple, NoReturn, cast

from ...errors import UsageError
from ...exposition import families as texts
from ...exposition.families import Series

Operator = Literal["=", "!=", "=~", "!~"]
Kind = Literal["name", "number", "text", "sign", "end"]

_TOKEN = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r"|(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r'|(?P<text>"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')'
    r"|(?P<sign>=~|!~|!=|==|<=|>=|[={}(),+-])"
)
_SPACE = re.compile(r"\s*")
_ESCAPE = re.compile(r"\\(.)")


class ExpressionError(UsageError):
    """An invalid expression, with the place of the error."""

    def __init__(self, text: str, at: int, problem: str, *, next_step: str = "") -> None:
        super().__init__(f"{text!r}, character {at + 1}: {problem}", next_step=next_step)
        self.at = at


class Matcher(NamedTuple):
    """Condition on one label's value."""

    label: str
    operator: Operator
    value: str

    def fits(self, value: str) -> bool:
        """Return whether a label's value matches; a missing label's is empty."""
        same = _whole(self.value).fullmatch(value) is not None if "~" in self.operator else value == self.value
        return same is not self.operator.startswith("!")

    def __str__(self) -> str:
        return f"{self.label}{self.operator}{quoted(self.value)}"


class Selector(NamedTuple):
    """Selection of series: those of a name whose labels satisfy all matchers."""

    name: str
    matchers: tuple[Matcher, ...] = ()

    def fits(self, series: Series) -> bool:
        """Return whether a series is selected."""
        return series.name == self.name and all(
            matcher.fits(series.labels.get(matcher.label, "")) for matcher in self.matchers
        )

    def of(self, series: Iterable[str]) -> dict[str, Series]:
        """Return the selected ones of the series, with their parts."""
        parsed = ((text, texts.parse(text)) for text in series if self.name in text)
        return {text: parts for text, parts in parsed if self.fits(parts)}

    def __str__(self) -> str:
        return f"{self.name}{{{','.join(map(str, self.matchers))}}}" if self.matchers else self.name


class Token(NamedTuple):
    """One token of an expression and its place."""

    kind: Kind
    text: str
    at: int


class Reader:
    """Tokenizer of an expression; unexpected tokens raise ExpressionError with their place."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.next = _token(text, 0)
        """The next token; of kind ``end`` after the last."""

    def take(self, kind: Kind, *words: str) -> Token | None:
        """Return the next token and advance, if it is of a kind and, where words are given, one of them."""
        token = self.next
        if token.kind != kind or (words and token.text not in words):
            return None
        self.next = _token(self.text, token.at + len(token.text))
        return token

    def need(self, kind: Kind, what: str, *words: str) -> Token:
        """Return the next token and advance; raises ExpressionError if it is another."""
        token = self.take(kind, *words)
        return token if token is not None else self.wrong(f"expected {what}")

    def wrong(self, problem: str, *, at: int | None = None, next_step: str = "") -> NoReturn:
        """Raise ExpressionError for the next token, or for the one at ``at``."""
        raise ExpressionError(self.text, self.next.at if at is None else at, problem, next_step=next_step)


def selector(text: str) -> Selector:
    """Return the selector in a text. Raises ExpressionError."""
    reader = Reader(text)
    parsed = read_selector(reader)
    reader.need("end", "the end of the selector")
    return parsed


def read_selector(reader: Reader) -> Selector:
    """Return the selector at the reader's position."""
    name = reader.need("name", "the name of a metric").text
    matchers: list[Matcher] = []
    if reader.take("sign", "{"):
        while not reader.take("sign", "}"):
            if matchers:
                reader.need("sign", "`,` or `}`", ",")
            matchers.append(_matcher(reader))
    return Selector(name, tuple(matchers))


def quoted(value: str) -> str:
    """Return a label's value in quotes, as in an expression."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _matcher(reader: Reader) -> Matcher:
    label = reader.need("name", "the name of a label")
    if ":" in label.text:
        reader.wrong(f"{label.text!r} is not a label name", at=label.at)
    operator = cast(Operator, reader.need("sign", "`=`, `!=`, `=~` or `!~`", "=", "!=", "=~", "!~").text)
    text = reader.need("text", "a value in quotes")
    value = _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text.text[1:-1])
    if "~" in operator:
        try:
            _whole(value)
        except re.error as error:
            reader.wrong(f"{value!r} is not a regular expression: {error}", at=text.at)
    return Matcher(label.text, operator, value)


@functools.lru_cache(maxsize=1000)
def _whole(expression: str) -> re.Pattern[str]:
    return re.compile(expression)


def _token(text: str, at: int) -> Token:
    """Return the token at a place, after any whitespace."""
    space = _SPACE.match(text, at)
    at = space.end() if space else at
    if at == len(text):
        return Token("end", "", at)
    match = _TOKEN.match(text, at)
    if match is None:
        raise ExpressionError(text, at, f"unexpected {text[at]!r}")
    return Token(cast(Kind, match.lastgroup), match.group(), at)
