"""Credentials for endpoints of the operator, with the placeholders of its definition filled."""

from __future__ import annotations

from collections.abc import Mapping

from ..endpoints import Credentials
from .placeholders import fill
from .shape import Admitted


def credentials(part: Admitted, values: Mapping[str, str]) -> Credentials:
    """Return the credentials for ``part``; ``values``: placeholder → value in this start."""
    return Credentials(
        token_file=values["token_file"] if part.token else fill(part.token_file, values),
        ca_file=fill(part.ca_file, values),
        cert_file=fill(part.cert_file, values),
        key_file=fill(part.key_file, values),
        insecure_skip_verify=part.insecure_skip_verify,
    )
