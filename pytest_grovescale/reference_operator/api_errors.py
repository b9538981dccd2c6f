"""What the API server answers instead of success, and how the metrics call it."""

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
"""The values of the label ``error_type``; everything that happens is one of them."""

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
    """A metav1.Status, as far as it matters here."""

    message: str = ""
    reason: str = ""
    code: int = 0


class ApiError(Exception):
    """An answer with a status code of 400 or more, or none at all (code 0)."""

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
        """The resourceVersion asked for is older than what the server still has."""
        return self.code == 410

    @property
    def persistent(self) -> bool:
        """Trying again without a change by someone will not help."""
        return self.code in (400, 403, 422)


class NotOwned(ApiError):
    """An object of the name that is needed is there, and belongs to someone else."""

    def __init__(self, kind: str, key: str) -> None:
        super().__init__(409, "AlreadyExists", f"{kind} {key} exists and is not controlled by this object")


class TerminalError(Exception):
    """A reconcile failed in a way that no retry can help; only a new event will be looked at."""


def from_answer(code: int, body: bytes) -> ApiError:
    """Return the error that an answer stands for; a body that is no Status is quoted."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        status = Status(message=body[:200].decode(errors="replace"))
    return ApiError(code, status.reason, status.message)


def error_type(error: BaseException) -> str:
    """Return the value of the label ``error_type`` for whatever ended a reconcile."""
    if isinstance(error, ApiError):
        if error.already_exists:
            return "already_exists"
        return _BY_CODE.get(error.code, "internal")
    return "timeout" if isinstance(error, TimeoutError) else "internal"
