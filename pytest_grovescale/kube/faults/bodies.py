"""Names in bodies: the API server's audit log has them, the path of a create has not."""

from __future__ import annotations

import msgspec

from ...protobuf_wire import BYTES, WireError, grouped, last

_MAGIC = b"k8s\x00"
_FIRST, _SECOND = 1 << 3 | BYTES, 2 << 3 | BYTES


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    generate_name: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_decode = msgspec.json.Decoder(_Object).decode


def name_in(body: bytes) -> str:
    """Return the name of an object; of one whose name the API server generates, its beginning with a ``*``.

    JSON or Kubernetes' protobuf; empty for anything else.
    """
    try:
        found = _of_protobuf(body[len(_MAGIC) :]) if body.startswith(_MAGIC) else _decode(body).metadata
    except (msgspec.DecodeError, WireError, UnicodeDecodeError):
        return ""
    return found.name or (f"{found.generate_name}*" if found.generate_name else "")


def _of_protobuf(message: bytes) -> _Metadata:
    # runtime.Unknown{raw=2} of an object, whose first field is its ObjectMeta{name=1, generateName=2}.
    raw = last(grouped(message), _SECOND) or b""
    metadata = grouped(last(grouped(raw), _FIRST) or b"")
    return _Metadata((last(metadata, _FIRST) or b"").decode(), (last(metadata, _SECOND) or b"").decode())
