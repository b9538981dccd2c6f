"""Typed errors from the API server's Status objects."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from .. import redaction
from ..errors import GrovescaleError


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a ``v1.Status`` that this package reads."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: dict[str, Any] | None = None


# Message formats of the API server: admission/plugin/webhook/errors/statuserror.go and
# .../policy/validating/dispatcher.go.
_ADMISSION = (
    re.compile(r'admission webhook "([^"]+)" denied the request'),
    re.compile(r'failed calling webhook "([^"]+)"'),
    re.compile(r"ValidatingAdmissionPolicy '([^']+)'"),
)


class ApiError(GrovescaleError):
    """The API server rejected or failed a request.

    ``code`` is the HTTP status (0: no answer at all), ``reason`` the Status' machine-readable reason.
    """

    def __init__(self, status: Status, *, request: str = "", retry_after: float | None = None) -> None:
        status = msgspec.structs.replace(
            status, message=redaction.text(status.message), details=redaction.value(status.details)
        )
        text = status.message or status.reason or f"HTTP {status.code}"
        super().__init__(f"{request}: {text}" if request else text)
        self.status = status
        self.code = status.code
        self.reason = status.reason
        self.details = status.details or {}
        self.request = request
        self.retry_after = retry_after

    @property
    def causes(self) -> list[str]:
        """Field errors, ``spec.replicas: Invalid value: …``, as the server lists them."""
        return [f"{c.get('field', '')}: {c.get('message', '')}".strip(": ") for c in self.details.get("causes", [])]

    @property
    def by_the_server(self) -> bool:
        """Whether the error is the API server's own, not one of a server that it proxied to."""
        return self.status.kind == "Status"

    @property
    def admission(self) -> str:
        """Name of the admission webhook or policy that rejected the request; empty: none did."""
        found = (pattern.search(self.message) for pattern in _ADMISSION)
        return next((match[1] for match in found if match), "")


class BadRequest(ApiError):
    """400."""


class Unauthorized(ApiError):
    """401."""


class Forbidden(ApiError):
    """403."""


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409, reason Conflict: the object has changed."""


class AlreadyExists(ApiError):
    """409, reason AlreadyExists."""


class Gone(ApiError):
    """410: the resourceVersion is too old."""


class Invalid(ApiError):
    """422: the object breaks its schema."""


class TooManyRequests(ApiError):
    """429."""


class ServerUnavailable(ApiError):
    """5xx, or no answer: connection refused, reset or timed out."""


_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def from_response(code: int, body: bytes, *, request: str, retry_after: float | None = None) -> ApiError:
    """Return the error for a response of 400 or more; a body without a Status becomes the message."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.MsgspecError:
        status = Status(message=body[:500].decode(errors="replace").strip())
    status = msgspec.structs.replace(status, code=code)
    return from_status(status, request=request, retry_after=retry_after)


def from_status(status: Status, *, request: str, retry_after: float | None = None) -> ApiError:
    """Return the error of the matching type for a Status."""
    if status.code == 409 and status.reason == "AlreadyExists":
        return AlreadyExists(status, request=request, retry_after=retry_after)
    kind = _BY_CODE.get(status.code, ServerUnavailable if status.code >= 500 else ApiError)
    return kind(status, request=request, retry_after=retry_after)


def no_answer(request: str, error: BaseException) -> ServerUnavailable:
    """Return the error for a request without an answer."""
    return ServerUnavailable(Status(message=f"no answer: {error or type(error).__name__}"), request=request)
