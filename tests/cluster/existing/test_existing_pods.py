"""An operator as pods on a cluster of others: behind a proxy, by credentials that end while it is used.

Nothing runs in its pods here; what one says of itself is read on kind (tests/kind/test_kind_existing.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.cluster import handle, state
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.kube import access as access_files
from pytest_grovescale.kube import subresources
from pytest_grovescale.kube.access import Access, from_kubeconfig
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.errors import NotFound
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.operator.pods import operator as starting
from pytest_grovescale.operator.pods.operator import Asking
from pytest_grovescale.operator.schema import Served
from pytest_grovescale.recording.scraping.connections import Connections, Where
from tests.foreign_cluster import (
    CONTEXT,
    account,
    cluster_roles,
    ending_token,
    plugin_user,
    refused,
    unique,
)
from tests.foreign_cluster import definition as existing
from tests.simulated_operator import NAMESPACE, definition, make_real, with_deployments
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

HARNESS = [str(role["metadata"]["name"]) for role in cluster_roles()]


@pytest.fixture(scope="module")
def with_controllers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Somebody's cluster that rolls Deployments out, with a node that counts as real."""
    with pytest.MonkeyPatch.context() as patch, Portal() as portal:
        patch.setenv("GROVESCALE_STATE_DIR", str(tmp_path_factory.mktemp("theirs")))
        held = handle.acquire(with_deployments(), name="with-controllers", progress=lambda text: None)
        portal.run(make_real(portal.client(held.access)))
    yield held
    held.release()


class Login:
    """What a plugin gives: a token that ends when it is told to, and then another."""

    def __init__(self, portal: Portal, admin: Client, folder: Path, access: Access) -> None:
        self._portal, self._admin, self._file = portal, admin, folder / "token"
        self._user = unique("user")
        portal.run(account(admin, HARNESS, name=self._user))
        self.kubeconfig = plugin_user(folder, access)
        self._end = portal.run(ending_token(admin, self._user, self._file))

    def ends(self, before: Access) -> None:
        """End the token that ``before`` holds; the plugin gives a fresh one."""
        self._file.write_text(self._portal.run(self._admin.token(self._user, "default")), encoding="utf-8")
        self._portal.run(self._end())
        wait_until(lambda: self._portal.run(refused(before)), "the end of the token")


def test_an_operator_as_pods_outlives_its_token_behind_a_proxy(
    with_controllers: Cluster, own_state: Path, portal: Portal, tmp_path: Path, proxy: tuple[str, list[str]]
) -> None:
    url, asked = proxy
    theirs = with_controllers.access
    admin = portal.client(theirs)
    login = Login(portal, admin, tmp_path, msgspec.structs.replace(theirs, proxy=url))
    ours = handle.acquire(
        existing(login.kubeconfig, kwok="there"),
        name=unique("pods"),
        allowed_contexts=(CONTEXT,),
        progress=lambda text: None,
    )
    try:
        wanted = definition(tmp_path)
        operator = starting.bring_up(wanted, ours, directory=tmp_path / "logs", progress=lambda text: None)
        try:
            served = Served(port=8080, path="/metrics")
            operator.metrics = served
            login.ends(ours.access)
            before = len(asked)
            assert operator.served_cpu_s() is None, "nothing runs in the pod, and it is asked with fresh credentials"
            assert len(asked) > before, "by way of the proxy"
            first = operator.leader
            operator.restart()
            assert operator.leader != first
            address = operator.address(served)
            assert address is not None
            assert address.proxy == url
        finally:
            operator.stop()
    finally:
        ours.release()
    assert portal.run(admin.exists(subresources.PODS, first, NAMESPACE)) is False
    assert state.names() == []


def test_each_way_to_a_pod_is_asked_again_with_fresh_credentials(
    theirs: Cluster, own_state: Path, portal: Portal, admin: Client, tmp_path: Path
) -> None:
    login = Login(portal, admin, tmp_path, theirs.access)
    access = from_kubeconfig(login.kubeconfig, CONTEXT)
    files = tmp_path / "files"
    access_files.write_files(access, files)
    follower, forwarder, recorder = (portal.client(access) for _ in range(3))
    asking = Asking(access)
    login.ends(access)

    async def follow() -> None:
        await anext(subresources.follow(follower, "default", "nobody", "main"))

    async def forward() -> None:
        async with subresources.port_connection(forwarder, "default", "nobody", 80):
            pass

    async def scrape() -> bytes:
        connections = Connections(recorder)
        try:
            return (await connections.get(Where(f"{theirs.server}/metrics", None))).body
        finally:
            await connections.close()

    # The API server looks for the pod after it has let us in.
    for work in (follow(), forward()):
        with pytest.raises(NotFound):
            portal.run(work)
    with pytest.raises(NotFound):
        asking.metrics(subresources.path("pods", "default", "nobody", 80, scheme="http", path="/metrics"))
    asking.close()
    assert b"apiserver_request_total" in portal.run(scrape())
    renew = access_files.renewal(access, files)
    assert renew is not None
    renew()
    fresh = Path(access_files.address_by_files(access, files, "/").token_file).read_text()
    assert not asyncio.run(refused(Access(server=access.server, ca_pem=access.ca_pem, token=fresh)))
