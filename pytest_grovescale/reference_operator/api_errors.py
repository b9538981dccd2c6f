"""Errors of the API server, and their classification in the metrics."""

from __future__ import annotations

import msgspec

ERROR_TYPES = (
    "not_found",
    "conflict",
    "already_exists",
    "timeout",
    "forbidden",
    "invalid",
    "rate_limited",
    "internal",
)
"""The values of the label ``error_type``; every error has one of them."""

_BY_CODE = {
    400: "invalid",
    401: "forbidden",
    403: "forbidden",
    404: "not_found",
    408: "timeout",
    409: "conflict",
    410: "conflict",
    422: "invalid",
    429: "rate_limited",
    504: "timeout",
}


class Status(msgspec.Struct):
    """The fields of a metav1.Status that are used here."""

    message: str = ""
    reason: str = ""
    code: int = 0


class ApiError(Exception):
    """A response with a status code of 400 or more, or none at all (code 0)."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message

    @property
    def not_found(self) -> bool:
        return self.code == 404

    @property
    def already_exists(self) -> bool:
        return self.reason == "AlreadyExists"

    @property
    def conflict(self) -> bool:
        return self.code == 409 and not self.already_exists

    @property
    def gone(self) -> bool:
        """Whether the requested resourceVersion is older than the server's history (410 Gone)."""
        return self.code == 410

    @property
    def persistent(self) -> bool:
        """Whether a retry without a change elsewhere cannot succeed."""
        return self.code in (400, 403, 422)


class NotOwned(ApiError):
    """An object of the required name exists and has another owner."""

    def __init__(self, kind: str, key: str) -> None:
        super().__init__(409, "AlreadyExists", f"{kind} {key} exists and is not controlled by this object")


class TerminalError(Exception):
    """A reconcile failed in a way that no retry can fix; only a new event triggers the next one."""


def from_answer(code: int, body: bytes) -> ApiError:
    """Return the error for a response; quotes a body that is not a Status."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        status = Status(message=body[:200].decode(errors="replace"))
    return ApiError(code, status.reason, status.message)


def error_type(error: BaseException) -> str:
    """Return the value of the label ``error_type`` for the exception that ended a reconcile."""
    if isinstance(error, ApiError):
        if error.already_exists:
            return "already_exists"
        return _BY_CODE.get(error.code, "internal")
    return "timeout" if isinstance(error, TimeoutError) else "internal"
