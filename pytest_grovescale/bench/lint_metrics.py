"""``grovescale lint-metrics``: reports the faults in an endpoint's response. Needs no cluster.

The response comes from a URL, a file or standard input; time and memory are bounded for any input.
"""

from __future__ import annotations

import asyncio
import os
import select
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from fnmatch import fnmatchcase
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple, get_args

import aiohttp
import msgspec
from yarl import URL

from .. import __version__, redaction
from ..analysis.metrics.snapshot import Surface, surface_of
from ..checks import budgets, snapshot_checks
from ..checks.metrics import lint as syntax
from ..checks.metrics.difference import difference
from ..checks.metrics.families import Problem, Rule
from ..checks.metrics.lint import LintRules, lint
from ..checks.metrics.one_process import in_one_process
from ..checks.run import unknown
from ..endpoints import Address, Credentials, addressed, authorization, ssl_context
from ..errors import ExitCode, ExpositionError, GrovescaleError, UsageError
from ..exposition.body import ACCEPT_ENCODING, Body, Limits
from ..exposition.reader import ACCEPT
from ..recording.scraping.target import Redaction
from ..report import lint as report

STDIN = "-"
_PIECE = 1 << 16
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 10
_GZIP = b"\x1f\x8b"
_REFUSALS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "It wants to know who asks: --bearer-token-file FILE.",
    HTTPStatus.FORBIDDEN: "Who asks may not read this: its RBAC needs the path among nonResourceURLs.",
    HTTPStatus.NOT_FOUND: "Check the path, often /metrics.",
}


class AnswerError(GrovescaleError):
    """There is no response, or none that could be read completely."""


class Answer(NamedTuple):
    """A complete, decompressed body."""

    body: bytes
    content_type: str
    """Empty for a file."""
    encoding: str = ""
    """Content-Encoding of the response as it came."""


def answer_of(source: str, credentials: Credentials, *, timeout_s: float, limits: Limits | None = None) -> Answer:
    """Return the contents of a URL, a file or ``-``. Raises AnswerError, UsageError."""
    bounds = limits or Limits()
    try:
        if source.startswith(("http://", "https://")):
            return asyncio.run(_fetched(addressed(source, credentials), timeout_s, bounds))
        return Answer(_unpacked(_pieces(source, timeout_s), bounds), "")
    except ExpositionError as error:
        raise AnswerError(f"{source}: {error.message}", next_step=error.next_step) from None
    except TimeoutError:
        raise AnswerError(
            f"{source}: no end of an answer within {timeout_s:g} s", next_step="Give it longer: --timeout SECONDS."
        ) from None
    except aiohttp.ClientConnectorCertificateError as error:
        raise AnswerError(
            f"{source}: {error.certificate_error}",
            next_step="For a certificate of an unknown authority: --ca FILE, or --insecure.",
        ) from None
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UsageError(f"{source}: {_reason(error)}", next_step=_hint(source)) from None
    except (aiohttp.ClientError, OSError) as error:
        raise AnswerError(f"{source}: {_reason(error)}", next_step=_hint(source)) from None


async def _fetched(address: Address, timeout_s: float, limits: Limits) -> Answer:
    # Before there is anything to close: their files may be missing.
    tls, let_in = _admission(address)
    session = aiohttp.ClientSession(
        headers={"User-Agent": f"grovescale/{__version__}", **let_in},
        timeout=aiohttp.ClientTimeout(total=timeout_s),
        # Decompressed here, up to a limit.
        auto_decompress=False,
    )
    url, redirects = URL(address.url), 0
    async with session:
        while True:
            asking = session.get(
                url,
                headers={"Accept": ACCEPT, "Accept-Encoding": ACCEPT_ENCODING},
                ssl=tls or True,
                # Followed here, as Prometheus does, but not to another server: the token must not leave its own.
                allow_redirects=False,
            )
            async with asking as response:
                if redirects < _MOST_REDIRECTS and (further := _on_its_server(url, response)) is not None:
                    url, redirects = further, redirects + 1
                    continue
                if response.status != HTTPStatus.OK:
                    raise _refused(address.url, response)
                encoding = response.headers.get("Content-Encoding", "")
                body = Body(encoding, limits)
                async for chunk in response.content.iter_any():
                    body.add(chunk)
                return Answer(body.whole(), response.headers.get("Content-Type", ""), encoding)


def _on_its_server(url: URL, response: aiohttp.ClientResponse) -> URL | None:
    """Return where a response leads on the server that gave it; None where it leads nowhere or to another one."""
    if response.status not in _REDIRECTS:
        return None
    try:
        further = url.join(URL(response.headers.get("Location", "")))
        return further if further.origin() == url.origin() else None
    except ValueError:
        return None  # no URL, or one without a server


def _admission(address: Address) -> tuple[ssl.SSLContext | None, dict[str, str]]:
    """Return TLS settings and credential headers. Raises UsageError for an unreadable or invalid file."""
    try:
        let_in = authorization(address)
    except (OSError, ValueError) as error:
        raise _unusable({"--bearer-token-file": address.token_file}, error) from None
    files = {"--ca": address.ca_file, "--cert": address.cert_file, "--key": address.key_file}
    try:
        return ssl_context(address), let_in
    except (OSError, ValueError) as error:
        raise _unusable(files, error) from None


def _unusable(files: Mapping[str, str], error: Exception) -> UsageError:
    """Return the error that names the file at fault; all candidates where Python does not report which one."""
    missing = getattr(error, "filename", None)
    blamed = [f"{option} {file}" for option, file in files.items() if file and missing in (None, file)]
    if missing:
        return UsageError(f"{' or '.join(blamed)}: {_reason(error)}")
    return UsageError(
        f"{' or '.join(blamed)}: not what is needed ({error})", next_step="Certificates and keys are PEM."
    )


def _refused(url: str, response: aiohttp.ClientResponse) -> AnswerError:
    to = response.headers.get("Location", "")
    return AnswerError(
        f"{url}: HTTP {response.status} {response.reason or ''}".rstrip(),
        next_step=f"It leads to {to}: name that instead." if to else _REFUSALS.get(response.status, ""),
    )


def _unpacked(pieces: Iterator[bytes], limits: Limits) -> bytes:
    body: Body | None = None
    for piece in pieces:
        body = body or Body("gzip" if piece.startswith(_GZIP) else "", limits)
        body.add(piece)
    return body.whole() if body is not None else b""


def _pieces(source: str, timeout_s: float) -> Iterator[bytes]:
    """Yield the contents of a file or pipe. Raises TimeoutError when its end does not come in time, and OSError."""
    if source == STDIN:
        yield from _read(sys.stdin.fileno(), timeout_s)
        return
    # Non-blocking: do not wait for a writer of a named pipe.
    descriptor = os.open(Path(source), os.O_RDONLY | os.O_NONBLOCK)
    with closing(os.fdopen(descriptor, "rb", buffering=0)):
        yield from _read(descriptor, timeout_s)


def _read(descriptor: int, timeout_s: float) -> Iterator[bytes]:
    end = time.monotonic() + timeout_s
    while True:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            raise TimeoutError
        piece = os.read(descriptor, _PIECE)
        if not piece:
            return
        yield piece


def _reason(error: Exception) -> str:
    """Return the operating system's error message, without the wrapping messages of the libraries."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, OSError) and cause.errno is not None:
        # asyncio words a refused connection differently; an unknown host has a negative number.
        return os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)
    return str(cause) or type(cause).__name__


def _hint(source: str) -> str:
    is_url = source.startswith(("http://", "https://"))
    if not is_url and not Path(source).exists() and (":" in source or "/metrics" in source):
        return f"For an endpoint write http://{source}."
    return "" if is_url else "Name an endpoint's URL, a file with what one served, or - for standard input."


class LintWanted(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of ``grovescale lint-metrics``."""

    source: str
    """URL, file, or ``-``."""
    against: str = ""
    """The endpoint before a change, or a moment ago, available without credentials; empty: no comparison."""
    budgets: str = ""
    """A file of checks like ``budgets.yaml``, of any tests; empty: none."""
    rules: LintRules = LintRules()
    credentials: Credentials = Credentials()
    timeout_s: float = 10.0
    json: bool = False
    hints: bool = False
    """Whether text shows what is no fault, too; JSON always has it."""


def lint_metrics(wanted: LintWanted, *, write: Callable[[str], None]) -> int:
    """Write the faults of an endpoint; return 0 for none, 1 for faults.

    Raises AnswerError for a source that cannot be fetched or read, UsageError and DefinitionError for invalid
    arguments.
    """
    declared = _declared(wanted.budgets)
    surface, faults = read_source(wanted.source, wanted.credentials, wanted.timeout_s)
    _refuse_unknown(wanted.rules, surface)
    # The token is sent to the endpoint only.
    before = read_source(wanted.against, Credentials(), wanted.timeout_s)[0] if wanted.against else None
    if before is not None:
        faults = [*faults, *in_one_process(before, surface)]
    found = report.Found(
        lint=lint(
            surface,
            wanted.rules,
            syntax=faults,
            now_s=time.time() if "://" in wanted.source else None,
            latest_s=time.time(),
        ),
        against=difference(before, surface) if before is not None else None,
        budgets=snapshot_checks.judge(declared, surface) if wanted.budgets else None,
    )
    write(report.json(found) if wanted.json else report.text(found, hints=wanted.hints))
    return ExitCode.FAILED if found.faults else ExitCode.PASSED


def _declared(file: str) -> list[budgets.Declared]:
    """Return the checks of all tests in a file. Raises DefinitionError."""
    if not file:
        return []
    by_test = budgets.read(Path(file), Path.cwd())
    return [one for checks in by_test.values() for one in checks]


def _refuse_unknown(wanted: LintRules, surface: Surface) -> None:
    """Raise UsageError for an exclusion that is neither a rule nor a family, and for a family without a bound.

    Patterns may match nothing: they are for future families.
    """
    if wanted.max_series_family and wanted.max_series is None:
        raise UsageError("--family is whose series are counted", next_step="Say how many there may be: --max-series N.")
    rules, families = get_args(Rule), {*surface.families, *surface.by_family()}
    for name in wanted.ignore:
        if "*" not in name and name not in rules and not any(fnmatchcase(family, name) for family in families):
            raise UsageError(f"--ignore {name}: {unknown('rule or family', name, rules)}")


def read_source(source: str, credentials: Credentials, timeout_s: float) -> tuple[Surface, list[Problem]]:
    """Return what a source serves, and what is wrong with the response as such. Raises AnswerError."""
    name = "standard input" if source == STDIN else source
    answer = answer_of(source, credentials, timeout_s=timeout_s)
    try:
        exposition, faults = syntax.read(
            answer.body,
            answer.content_type,
            encoding=answer.encoding,
            now_s=time.time() if "://" in source else None,
            latest_s=time.time(),
        )
    except ExpositionError as error:
        known = error.message.startswith("line ") or "protobuf" in answer.content_type.lower()
        of_bytes = "" if known else "It was taken for protobuf, since it is no text."
        raise AnswerError(f"{name}: {error.message}", next_step=error.next_step or of_bytes) from None
    surface = surface_of(Redaction()(exposition), target=redaction.text(name))
    if not surface.samples and not surface.families:
        wrong = "".join(f"; {fault.says}" for fault in faults[:1])
        raise AnswerError(f"{name}: no metrics at all{wrong}", next_step="Check the path, often /metrics.")
    return surface, faults
