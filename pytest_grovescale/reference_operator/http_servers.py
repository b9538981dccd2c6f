"""The two servers: /metrics on one port, /healthz, /readyz and /debug/counts on the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from . import metrics
from .counts import Counts

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpServers:
    """Both servers; port 0 means that one is not wanted."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._runners: list[web.AppRunner] = []

    async def serve(self, port: int, routes: dict[str, Handler]) -> None:
        """Answer GET on some paths. Raises OSError where the port is taken."""
        if port == 0:
            return
        app = web.Application()
        app.add_routes([web.get(path, handler) for path, handler in routes.items()])
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        self._runners.append(runner)
        await web.TCPSite(runner, self._address, port).start()

    async def close(self) -> None:
        for runner in self._runners:
            await runner.cleanup()


def metrics_routes(registry: CollectorRegistry) -> dict[str, Handler]:
    async def scrape(_: web.Request) -> web.Response:
        return web.Response(body=metrics.render(registry), headers={"Content-Type": metrics.CONTENT_TYPE})

    return {"/metrics": scrape}


def health_routes(ready: Callable[[], bool], counts: Callable[[], Counts]) -> dict[str, Handler]:
    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(text="ok") if ready() else web.Response(status=503, text="caches have not synced")

    async def debug_counts(_: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(counts()), content_type="application/json")

    return {"/healthz": healthz, "/readyz": readyz, "/debug/counts": debug_counts}
