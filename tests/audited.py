"""What an API server was asked, by whom: its audit log, for tests about the requests that a run makes."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Object(msgspec.Struct, frozen=True, rename={"group": "apiGroup"}):
    resource: str = ""
    group: str = ""
    namespace: str = ""
    subresource: str = ""


class _Status(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


class Asked(msgspec.Struct, frozen=True, rename="camel"):
    """One request."""

    audit_id: str = msgspec.field(name="auditID")
    verb: str
    uri: str = msgspec.field(name="requestURI")
    user: _User
    agent: str = msgspec.field(default="", name="userAgent")
    object: _Object = msgspec.field(default=_Object(), name="objectRef")
    status: _Status = msgspec.field(default=_Status(), name="responseStatus")

    @property
    def parameters(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.uri).query).items()}

    @property
    def what(self) -> str:
        """``patch podcliquesets.grove.io``, ``create serviceaccounts/token``, ``get /api``."""
        ref = self.object
        name = f"{ref.resource}.{ref.group}" if ref.group else ref.resource or urlsplit(self.uri).path
        return f"{self.verb} {name}" + (f"/{ref.subresource}" if ref.subresource else "")

    @property
    def reads_everybodys(self) -> bool:
        """Whether it goes over a collection that is in no namespace and is not narrowed by a selector.

        Not one that asks for a single object, to learn whether there is any.
        """
        if self.verb not in ("list", "watch", "deletecollection") or self.object.namespace:
            return False
        return not {"labelSelector", "fieldSelector"} & set(self.parameters) and self.parameters.get("limit") != "1"


def asked(log: Path) -> list[Asked]:
    """Return every request of an audit log, each once: a watch that is still open has only begun."""
    found: dict[str, Asked] = {}
    with log.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                request = msgspec.json.decode(line, type=Asked)
                found[request.audit_id] = request
    return list(found.values())
