"""A GET with an endless response: a watch, a log."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import aiohttp

from .client import Client

_CONNECT_S = 10.0
_BLOCK = 1 << 20


async def opened(
    client: Client, path: str, params: Mapping[str, str], *, accept: str = "application/json", silence_s: float | None
) -> aiohttp.ClientResponse:
    """Return the response, whatever its status; after a 401, that of a second attempt with new credentials.

    ``silence_s``: longest time between two chunks, s; None: unlimited.
    """
    used = client.access
    response = await _asked(client, path, params, accept, silence_s)
    if response.status != HTTPStatus.UNAUTHORIZED or not used.renewable:
        return response
    response.close()
    await client.renew(used)
    return await _asked(client, path, params, accept, silence_s)


async def _asked(
    client: Client, path: str, params: Mapping[str, str], accept: str, silence_s: float | None
) -> aiohttp.ClientResponse:
    return await client.session().get(
        path,
        params=params,
        headers={**client.headers(), "Accept": accept},
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=silence_s),
        read_bufsize=_BLOCK,
        server_hostname=client.access.tls_server_name or None,
    )
