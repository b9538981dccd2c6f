"""An asynchronous client for the API server's REST interface.

Retries are few and never hidden: a 429 (the server did nothing) after its Retry-After, and a read whose connection
broke. Each is counted in ``Client.retries``. A write whose connection broke may or may not have happened: the caller
decides about a retry.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import aiohttp
import msgspec

from ..errors import ClusterError, UsageError
from . import resources
from .access import Access, bearer, renewed, ssl_context
from .errors import ApiError, NotFound, Status, TooManyRequests, Unauthorized, from_response, no_answer
from .resources import Resource, UnknownResource

T = TypeVar("T")
Object = dict[str, Any]

CONCURRENCY = 20
"""Requests at a time, of actions on many objects."""

_ATTEMPTS = 8
_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_READ_ERRORS = (
    aiohttp.ClientConnectionError,
    aiohttp.ClientPayloadError,
    # The proxy rejected the CONNECT, not the API server.
    aiohttp.ClientHttpProxyError,
    ConnectionResetError,
)


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """All objects of a LIST, over all pages, and the resourceVersion to watch from."""

    items: list[Object]
    resource_version: str


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[Object] | None = None


class Client:
    """Use as ``async with Client(access) as client``. All methods raise ``kube.errors.ApiError``.

    ``connections``: open at most, each watch has one; further requests wait. 0: no limit.
    """

    def __init__(self, access: Access, *, user_agent: str = "grovescale", connections: int = 64) -> None:
        self.access = access
        self.retries: Counter[str] = Counter()
        self._user_agent = user_agent
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        self._retired: list[aiohttp.ClientSession] = []
        """Sessions with a former client certificate; their open requests are completed."""
        self._renewing = asyncio.Lock()
        self._authorization = ""
        self._resources: list[Resource] | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Create the session; sends no request. Must run in the event loop that the client is used in."""
        self._authorization = bearer(self.access)
        self._session = aiohttp.ClientSession(
            base_url=self.access.server,
            connector=aiohttp.TCPConnector(
                # False would disable TLS verification; True means aiohttp's own default for http.
                ssl=ssl_context(self.access) or True,
                limit=self._connections,
                keepalive_timeout=60,
            ),
            headers={"User-Agent": self._user_agent, "Accept": "application/json"},
            # The access has already resolved the environment's proxy settings.
            trust_env=False,
            proxy=self.access.proxy or None,
        )
        # aiohttp repeats GET, PUT and DELETE by itself, uncounted, when a kept-alive connection turns out closed; its
        # own test client disables that in this way, there is no public one.
        self._session._retry_connection = False

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        sessions = [*self._retired, *([self._session] if self._session is not None else [])]
        self._session, self._retired = None, []
        for session in sessions:
            await session.close()

    async def renew(self, refused: Access) -> None:
        """Renew the credentials after a 401 to ``refused``; do nothing if another request has just done so.

        Open streams continue: they are already authenticated. Raises Unauthorized, with the reason, if renewal is
        impossible.
        """
        async with self._renewing:
            if self.access is not refused:
                return
            try:
                fresh = await asyncio.to_thread(renewed, refused)
                self._authorization = bearer(fresh)
            except (ClusterError, OSError) as error:
                text = f"the credentials are no longer valid, and there are no fresh ones: {error}"
                raise Unauthorized(Status(code=401, message=text)) from error
            # A copy, even without a change: concurrent requests with the same 401 then see that a renewal was tried.
            self.access = msgspec.structs.replace(fresh)
            self.retries["401"] += 1
            if fresh.client_cert_pem != refused.client_cert_pem and self._session is not None:
                self._retired.append(self._session)
                await self.open()

    def session(self) -> aiohttp.ClientSession:
        """Return the open session, for streams (see ``watch.py``)."""
        if self._session is None:
            raise RuntimeError("the client is not open: use `async with Client(…)`")
        return self._session

    def headers(self) -> dict[str, str]:
        """Return the headers that authenticate a request."""
        return {"Authorization": self._authorization} if self._authorization else {}

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float = 60.0,
    ) -> bytes:
        """Send one request and return the response body. ``timeout``: seconds for each attempt."""
        label = f"{method} {path}"
        renewed_once = False
        for attempt in range(_ATTEMPTS):
            last = attempt == _ATTEMPTS - 1
            used = self.access
            try:
                return await self._once(method, path, params, body, content_type, accept, timeout)
            except TooManyRequests as error:
                if last:
                    raise
                self.retries["429"] += 1
                await asyncio.sleep(error.retry_after if error.retry_after is not None else 1.0)
            except Unauthorized:
                # Rejected before any effect, so a second attempt is safe; bound tokens and plugin credentials expire.
                if renewed_once or last or not used.renewable:
                    raise
                renewed_once = True
                await self.renew(used)
            except _READ_ERRORS as error:
                if last or method != "GET" or isinstance(error, aiohttp.ClientConnectorError):
                    raise no_answer(label, error) from error
                self.retries["connection"] += 1
                await asyncio.sleep(min(0.05 * 2**attempt, 2.0))
            except TimeoutError as error:
                raise no_answer(label, TimeoutError(f"timed out after {timeout:g} s")) from error
        raise AssertionError("unreachable")

    async def _once(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        accept: str,
        timeout: float,
    ) -> bytes:
        headers = {"Accept": accept, **self.headers()}
        if body is not None:
            headers["Content-Type"] = content_type
        async with self.session().request(
            method,
            path,
            params=params,
            data=body,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=timeout),
            server_hostname=self.access.tls_server_name or None,
        ) as response:
            answer = await response.read()
            if response.status >= 400:
                raise from_response(
                    response.status, answer, request=f"{method} {path}", retry_after=_retry_after(response)
                )
            return answer

    # ---- discovery

    async def resources(self, *, refresh: bool = False) -> list[Resource]:
        """Return every served resource, core group first; cached."""
        if self._resources is None or refresh:
            core, groups = await asyncio.gather(
                self.request("GET", "/api", accept=resources.DISCOVERY_ACCEPT),
                self.request("GET", "/apis", accept=resources.DISCOVERY_ACCEPT),
            )
            self._resources = resources.parse(core) + resources.parse(groups)
        return self._resources

    async def resource(self, name: str, api_version: str = "") -> Resource:
        """Return the resource for ``name`` (see ``resources.find``); raises UnknownResource.

        An unknown name triggers one new discovery: its CRD may be new.
        """
        try:
            return resources.find(await self.resources(), name, api_version)
        except UnknownResource:
            return resources.find(await self.resources(refresh=True), name, api_version)

    async def _resource_of(self, obj: Object) -> Resource:
        return await self.resource(str(obj.get("kind", "")), str(obj.get("apiVersion", "")))

    # ---- objects

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        return _decode(await self.request("GET", resource.path(namespace, name)))

    async def exists(self, resource: Resource, name: str, namespace: str | None = None) -> bool:
        try:
            await self.request("GET", resource.path(namespace, name))
        except NotFound:
            return False
        return True

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        page: int = 500,
    ) -> Listing:
        """Return all objects, ``page`` per request; items lack apiVersion and kind, as the server sends them."""
        params = {"limit": str(page)} | selectors(label_selector, field_selector)
        items: list[Object] = []
        while True:
            answer = msgspec.json.decode(await self.request("GET", resource.path(namespace), params=params), type=_Page)
            items += answer.items or []
            if not answer.metadata.continue_:
                return Listing(items=items, resource_version=answer.metadata.resource_version)
            params["continue"] = answer.metadata.continue_

    async def create(self, obj: Object, *, strict: bool = True) -> Object:
        """Create an object. ``strict``: unknown fields are an error (400), not dropped."""
        resource = await self._resource_of(obj)
        path = resource.path(_namespace(resource, obj, self.access))
        return _decode(await self.request("POST", path, params=_validation(strict), body=msgspec.json.encode(obj)))

    async def apply(
        self,
        obj: Object,
        *,
        field_manager: str = "grovescale",
        force: bool = True,
        strict: bool = True,
        dry_run: bool = False,
    ) -> Object:
        """Server-side apply. ``dry_run``: only return the resulting object, with defaults."""
        resource = await self._resource_of(obj)
        path = resource.path(_namespace(resource, obj, self.access), obj["metadata"]["name"])
        params = {"fieldManager": field_manager, "force": str(force).lower()} | _validation(strict)
        if dry_run:
            params["dryRun"] = "All"
        body = msgspec.json.encode(obj)
        return _decode(
            # JSON is YAML: every server version accepts it under this content type.
            await self.request("PATCH", path, params=params, body=body, content_type="application/apply-patch+yaml")
        )

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        body: object,
        kind: Literal["merge", "json", "strategic"] = "merge",
        subresource: str = "",
    ) -> Object:
        return _decode(
            await self.request(
                "PATCH",
                resource.path(namespace, name, subresource),
                body=msgspec.json.encode(body),
                content_type=_PATCH_TYPES[kind],
            )
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        grace_seconds: int | None = None,
        uid: str = "",
        resource_version: str = "",
    ) -> None:
        """Delete an object; ``uid``: only if it is the same object, ``resource_version``: only if it is unchanged (else
        Conflict)."""
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if any(preconditions.values()):
            options["preconditions"] = {key: value for key, value in preconditions.items() if value}
        await self.request("DELETE", resource.path(namespace, name), body=msgspec.json.encode(options))

    async def token(self, service_account: str, namespace: str, *, seconds: int = 86400) -> str:
        """Return a bound token of a ServiceAccount (TokenRequest)."""
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        answer = _decode(await self.request("POST", path, body=msgspec.json.encode(request)))
        return str(answer["status"]["token"])

    async def ready(self) -> bool:
        """Return whether ``/readyz`` answers ok; False also without an answer."""
        try:
            await self.request("GET", "/readyz", timeout=2.0)
        except ApiError:
            return False
        return True


def selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    """Return the query parameters for selectors; empty ones are omitted."""
    pairs = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in pairs.items() if value}


def _decode(body: bytes) -> Object:
    return msgspec.json.decode(body, type=dict[str, Any])


def _validation(strict: bool) -> dict[str, str]:
    return {"fieldValidation": "Strict" if strict else "Ignore"}


def _namespace(resource: Resource, obj: Object, access: Access) -> str | None:
    if not resource.namespaced:
        return None
    return obj.get("metadata", {}).get("namespace") or access.namespace


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    try:
        return float(response.headers["Retry-After"])
    except (KeyError, ValueError):
        return None


async def in_parallel(
    items: Iterable[T],
    action: Callable[[T], Awaitable[None]],
    *,
    concurrency: int = CONCURRENCY,
    turn: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Run ``action`` for each item, started in order, at most ``concurrency`` at a time, each after its ``turn``.

    The first exception is raised after all running actions have ended; no others start.
    """
    if concurrency < 1:
        raise UsageError(f"a concurrency of {concurrency}", next_step="Give 1 or more.")
    waiting = iter(items)
    starting = asyncio.Lock()
    failed: list[Exception] = []

    async def worker() -> None:
        while not failed:
            async with starting:
                item = next(waiting, _END)
                if item is _END:
                    return
                if turn is not None:
                    await turn()
            try:
                await action(item)  # type: ignore[arg-type]
            except Exception as error:  # noqa: BLE001 raised again below, once the others have ended
                failed.append(error)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(worker())
    if failed:
        raise failed[0]


_END = object()
