"""What a fault answers: a metav1.Status as the API server writes it, and the end of a watch as an event.

Status: https://github.com/kubernetes/apimachinery/blob/master/pkg/api/errors/errors.go. Clients decode an answer by its
Content-Type, so an error may be JSON whatever they accept; an event has to be of its stream's own format.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from .request_path import Target
from .settings import FaultKind, Faults

_MAGIC = b"k8s\x00"
EXPIRED = "too old resource version: 1 (2)"


class Answer(NamedTuple):
    """An answer of the proxy's own. ``code`` 0: none, the connection is cut."""

    code: int
    body: bytes = b""
    retry_after_s: int = 0


def answer(kind: FaultKind, variant: float, target: Target, name: str, faults: Faults) -> Answer:
    """Return the answer of a fault to a request."""
    what = target.qualified
    match kind:
        case "conflict":
            return _status(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {what} "{name}": the object has been modified; please apply your'
                " changes to the latest version and try again",
                target,
                name,
            )
        case "throttled":
            text = "the server has received too many requests and has asked us to try again later"
            return _status(429, "TooManyRequests", text, target, name, retry_after_s=faults.retry_after_s)
        case "error" if variant < 0.5:
            return _status(500, "InternalError", "Internal error occurred: injected by grovescale", target, name)
        case "error":
            text = "the server is currently unable to handle the request: injected by grovescale"
            return _status(503, "ServiceUnavailable", text, target, name)
        case _ if variant < 0.5:
            text = f"the server was unable to return a response in the time allotted ({target.verb} {what})"
            return _status(504, "Timeout", text, target, name)
        case _:
            return Answer(0)


def _status(code: int, reason: str, message: str, target: Target, name: str, *, retry_after_s: int = 0) -> Answer:
    details: dict[str, Any] = {"name": name, "group": target.group, "kind": target.resource}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return Answer(code, status(code, reason, message, details), retry_after_s)


def status(code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> bytes:
    """Return a failed Status as JSON."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        **({"details": {key: value for key, value in details.items() if value}} if details else {}),
        "code": code,
    }
    return msgspec.json.encode(body)


def expired(*, protobuf: bool) -> bytes:
    """Return the event by which the API server ends a watch that is too far behind, as a frame of its stream."""
    if not protobuf:
        return b'{"type":"ERROR","object":' + status(410, "Expired", EXPIRED) + b"}\n"
    # metav1.WatchEvent{type=1, object=2: RawExtension{raw=1}}; raw: runtime.Unknown{typeMeta=1, raw=2} behind its magic
    # number; Status{status=2, message=3, reason=4, code=6}.
    body = _text(2, "Failure") + _text(3, EXPIRED) + _text(4, "Expired") + b"\x30" + _varint(410)
    unknown = _bytes(1, _text(1, "v1") + _text(2, "Status")) + _bytes(2, body)
    event = _text(1, "ERROR") + _bytes(2, _bytes(1, _MAGIC + unknown))
    return len(event).to_bytes(4, "big") + event


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _bytes(field: int, value: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
