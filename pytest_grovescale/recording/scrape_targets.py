"""What to scrape, and where: data sent from the harness to the recorder."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..endpoints import Address, Credentials

Scheme = Literal["http", "https"]
Via = Literal["proxy", "ip"]
"""``proxy``: through the API server, with the recorder's own identity, which needs ``get`` on ``pods/proxy`` or
``services/proxy``; ``ip``: directly from the recorder's host to the address that the API reports."""


class Place(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="at"):
    """The location of an endpoint; resolved at each scrape."""


class AtUrl(Place, tag="url", frozen=True, kw_only=True):
    """A fixed URL. One below the API server's own, without a token, is read with the recorder's own access."""

    address: Address


class OfProcess(Place, tag="process", frozen=True, kw_only=True):
    """A process of this host. When it no longer listens where it should, its other ports are tried."""

    process: str
    """Its name among the measured processes."""
    address: Address


class InCluster(Place, frozen=True, kw_only=True):
    """An endpoint that the cluster's own objects lead to."""

    path: str = "/metrics"
    scheme: Scheme = "http"
    via: Via = "proxy"
    credentials: Credentials = Credentials()
    """Only for ``ip``: the proxy passes no credentials on."""


class OfPods(InCluster, tag="pods", frozen=True, kw_only=True):
    """All running pods that a selector matches, as they appear and disappear; each is a target ``<name>/<pod>``."""

    namespace: str
    label_selector: str
    port: int


class OfFollowed(InCluster, tag="followed", frozen=True, kw_only=True):
    """The leader of the pods that the recorder follows under a name; see ``protocol.PodsToFollow``."""

    pods: str
    port: int


class OfService(InCluster, tag="service", frozen=True, kw_only=True):
    """A Service: whichever endpoint it selects. Only meaningful with a single endpoint."""

    namespace: str
    service: str
    port: int | str
    """Port number or name."""


AnyPlace = AtUrl | OfProcess | OfPods | OfFollowed | OfService


class ScrapeTarget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A metrics endpoint."""

    name: str
    """Name in records and checks, such as ``operator``."""
    place: AnyPlace
    interval_s: float | None = None
    """Scrape interval, s; 0: only at the edges of phases; None: the recording's default."""
