"""The two servers: /metrics on one port, /healthz, /readyz, /debug/counts and /debug/tasks on the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from . import metrics, task_stacks
from .counts import Counts

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpServers:
    """Both servers; port 0 disables one."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._runners: list[web.AppRunner] = []
        self._sites: dict[int, tuple[web.AppRunner, web.TCPSite]] = {}
        """By the requested port."""

    async def serve(self, port: int, routes: dict[str, Handler]) -> None:
        """Serve GET on some paths. Raises OSError when the port is in use."""
        if port == 0:
            return
        app = web.Application()
        app.add_routes([web.get(path, handler) for path, handler in routes.items()])
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(runner, self._address, port)
        await site.start()
        self._sites[port] = (runner, site)

    async def move(self, port: int) -> int:
        """Move a server from this port to another, free port, and return that: defect port-move."""
        runner, site = self._sites.pop(port)
        await site.stop()
        await web.TCPSite(runner, self._address, 0).start()
        moved: int = runner.addresses[0][1]
        return moved

    async def close(self) -> None:
        for runner in self._runners:
            await runner.cleanup()


def metrics_routes(registry: CollectorRegistry, *, stalls: bool) -> dict[str, Handler]:
    async def scrape(_: web.Request) -> web.Response:
        if stalls:
            # Defect metrics-stall: waits for an event that is never set.
            await asyncio.Event().wait()
        return web.Response(body=metrics.render(registry), headers={"Content-Type": metrics.CONTENT_TYPE})

    return {"/metrics": scrape}


def health_routes(ready: Callable[[], bool], counts: Callable[[], Counts]) -> dict[str, Handler]:
    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(text="ok") if ready() else web.Response(status=503, text="caches have not synced")

    async def debug_counts(_: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(counts()), content_type="application/json")

    async def debug_tasks(_: web.Request) -> web.Response:
        return web.Response(text=task_stacks.text())

    return {"/healthz": healthz, "/readyz": readyz, "/debug/counts": debug_counts, "/debug/tasks": debug_tasks}
