"""What to scrape, and where it is found: data that travels from the harness to the recorder."""

from __future__ import annotations

from typing import Literal

import msgspec

from ...endpoints import Address, Credentials

Scheme = Literal["http", "https"]
Via = Literal["proxy", "ip"]
"""``proxy``: through the API server, as the recorder's own identity, which needs ``get`` on ``pods/proxy`` or
``services/proxy``; ``ip``: straight to the address that the API tells, from where the recorder runs."""


class Place(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="at"):
    """Where an endpoint is; looked up again at each scrape."""


class AtUrl(Place, tag="url", frozen=True, kw_only=True):
    """A fixed URL. One below the API server's own, without a token, is read with the recorder's own access."""

    address: Address


class OfProcess(Place, tag="process", frozen=True, kw_only=True):
    """A process of this host. When it no longer listens where it should, its other ports are tried."""

    process: str
    """Its name among the measured processes."""
    address: Address


class OfPods(Place, tag="pods", frozen=True, kw_only=True):
    """All running pods that a selector finds, as they come and go; each is a target ``<name>/<pod>``."""

    namespace: str
    label_selector: str
    port: int
    path: str = "/metrics"
    scheme: Scheme = "http"
    via: Via = "proxy"
    credentials: Credentials = Credentials()
    """Only for ``ip``: the proxy passes none on."""


class OfFollowed(Place, tag="followed", frozen=True, kw_only=True):
    """Whichever leads of the pods that the recorder follows under a name; see ``protocol.PodsToFollow``."""

    pods: str
    port: int
    path: str = "/metrics"
    scheme: Scheme = "http"
    via: Via = "proxy"
    credentials: Credentials = Credentials()
    """As for `OfPods`."""


class OfService(Place, tag="service", frozen=True, kw_only=True):
    """A Service: whichever endpoint it leads to. Only sensible with one endpoint behind it."""

    namespace: str
    service: str
    port: int | str
    """Number or name."""
    path: str = "/metrics"
    scheme: Scheme = "http"
    via: Via = "proxy"
    credentials: Credentials = Credentials()


AnyPlace = AtUrl | OfProcess | OfPods | OfFollowed | OfService


class ScrapeTarget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that serves metrics."""

    name: str
    """As ``operator``; records and checks name it so."""
    place: AnyPlace
    interval_s: float | None = None
    """Time between two scrapes, s; 0: at the edges of phases only; None: the recording's own."""
