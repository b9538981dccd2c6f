"""Forwards requests to a server after a delay: ``delaying_proxy.py URL SECONDS``.

It writes its port to standard output, and ends when its standard input does. Requests are delayed independently, as by
network latency; nothing is queued.
"""

import asyncio
import sys

import aiohttp
from aiohttp import web


async def main(url: str, delay_s: float) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), trust_env=False) as session:

        async def pass_on(request: web.Request) -> web.Response:
            await asyncio.sleep(delay_s)
            body = await request.read()
            headers = {"Content-Type": request.headers.get("Content-Type", "")}
            async with session.request(request.method, url + request.path_qs, data=body, headers=headers) as answer:
                return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", pass_on)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(runner.addresses[0][1], flush=True)  # noqa: T201 - its parent process reads this
        await asyncio.to_thread(sys.stdin.read)
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
