"""Admission and conversion webhooks served by a process on this host, and their server certificate.

Each start of an operator has a CA of its own: the API server trusts it only for this operator's webhooks.

A configuration or CRD may use ``clientConfig.service`` or ``url`` with ``{webhook_port}``: both are redirected to the
operator's port, with the CA of its certificate.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..atomic_write import write_private
from ..errors import DefinitionError, OperatorError
from ..kube.client import Client
from ..kube.errors import ApiError
from .manifests import WEBHOOKS, Manifest, Object, title
from .placeholders import fill

if TYPE_CHECKING:
    from ..cluster import pki


class ServerCertificate(msgspec.Struct, frozen=True):
    """A server's certificate and its CA. ``pair`` contains a secret."""

    ca_pem: str
    pair: pki.Pair


def issue(address: str) -> ServerCertificate:
    """Return a new CA and a server certificate for an IP address, localhost and 127.0.0.1."""
    from ..cluster import pki  # most operators have no webhooks, and cryptography takes 50 ms to load

    made = pki.create((), service_ip=address)
    return ServerCertificate(made.ca_pem, made.server)


def write(certificate: ServerCertificate, folder: Path) -> None:
    """Write ``tls.crt``, ``tls.key`` and ``ca.crt``, 0600 in a 0700 folder: the names that webhook servers expect."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(folder / "tls.crt", certificate.pair.cert_pem)
    write_private(folder / "tls.key", certificate.pair.key_pem)
    write_private(folder / "ca.crt", certificate.ca_pem)


_PROBE_LABEL = "grovescale.io/webhook-probe"
# No process listens there: a call fails, which the probe detects.
_NOWHERE = "https://127.0.0.1:1/probe"
_ACTIVE_S = 20.0
_PROBE_EVERY_S = 0.05


def local(manifest: Manifest, values: Mapping[str, str], *, ca_bundle: str, host: str = "127.0.0.1") -> Manifest:
    """Return a webhook configuration that calls ``host``, with ``ca_bundle`` (base64 of PEM) injected.

    Raises DefinitionError for another kind of object and for a webhook with neither service nor url.
    """
    obj = manifest.object
    if obj["kind"] not in WEBHOOKS:
        raise DefinitionError(
            f"{manifest.source}: kind: {obj['kind']} is no webhook configuration",
            next_step="Other objects belong under `manifests:`.",
        )
    hooks = []
    for index, hook in enumerate(obj.get("webhooks") or []):
        where = f"{manifest.source}: webhooks[{index}].clientConfig"
        url = _url(hook.get("clientConfig") or {}, values, host, where)
        hooks.append({**hook, "clientConfig": {"url": url, "caBundle": ca_bundle}})
    return Manifest({**obj, "webhooks": hooks}, manifest.source)


def converted_locally(crd: Manifest, values: Mapping[str, str], *, ca_bundle: str, host: str = "127.0.0.1") -> Manifest:
    """Return a CRD whose conversion webhook calls ``host``; one without such a webhook as it is."""
    spec = crd.object["spec"]
    conversion = spec.get("conversion") or {}
    if conversion.get("strategy") != "Webhook":
        return crd
    webhook = conversion.get("webhook") or {}
    url = _url(webhook.get("clientConfig") or {}, values, host, f"{crd.source}: spec.conversion.webhook.clientConfig")
    called = {**conversion, "webhook": {**webhook, "clientConfig": {"url": url, "caBundle": ca_bundle}}}
    return Manifest({**crd.object, "spec": {**spec, "conversion": called}}, crd.source)


def _url(client_config: Mapping[str, Any], values: Mapping[str, str], host: str, where: str) -> str:
    if "url" in client_config:
        try:
            return fill(str(client_config["url"]), values)
        except KeyError as error:
            raise DefinitionError(
                f"{where}.url: unknown placeholder {{{error.args[0]}}}", next_step="Known: " + ", ".join(sorted(values))
            ) from None
    if "service" in client_config:
        return f"https://{host}:{values['webhook_port']}/{str(client_config['service'].get('path', '')).lstrip('/')}"
    raise DefinitionError(f"{where}: neither url nor service")


async def activate(client: Client, configurations: Iterable[Manifest], *, namespace: str) -> None:
    """Apply configurations and return when the API server enforces each of them.

    Its admission plugins load a configuration a moment after it is stored; an object created in between is not checked,
    which would make a test's result depend on timing. So each configuration temporarily has one more webhook that only
    matches a labeled ConfigMap and has no server: once a dry-run create of such a ConfigMap fails because of it, the
    whole configuration is enforced. ``namespace``: a namespace of the run, for the dry runs.
    """
    for manifest in configurations:
        token = secrets.token_hex(8)
        probe = _probe(token)
        probed = {**manifest.object, "webhooks": [*(manifest.object.get("webhooks") or []), probe]}
        try:
            await client.apply(probed)
            await _wait_called(client, probe["name"], token, namespace, title(manifest.object))
            await client.apply(manifest.object)
        except ApiError as error:
            raise OperatorError(
                f"{manifest.source}: {title(manifest.object)} was refused: {error.message}",
                next_step="Correct the webhook configuration.",
            ) from error


def _probe(token: str) -> Object:
    return {
        "name": f"probe-{token}.grovescale.io",
        "clientConfig": {"url": _NOWHERE},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "objectSelector": {"matchLabels": {_PROBE_LABEL: token}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }


async def _wait_called(client: Client, hook: str, token: str, namespace: str, name: str) -> None:
    body = _config_map(token)
    try:
        async with asyncio.timeout(_ACTIVE_S):
            # No event announces that an admission plugin is up to date: it requires polling.
            while not await _called(client, hook, body, namespace):  # noqa: ASYNC110
                await asyncio.sleep(_PROBE_EVERY_S)
    except TimeoutError:
        raise OperatorError(
            f"the API server does not act on {name} {_ACTIVE_S:g} s after it was stored",
            next_step="Check that admission plugins are on: MutatingAdmissionWebhook, ValidatingAdmissionWebhook.",
        ) from None


async def _called(client: Client, hook: str, body: bytes, namespace: str) -> bool:
    try:
        await client.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", params={"dryRun": "All"}, body=body)
    except ApiError as error:
        # Its own webhooks may reject the ConfigMap before the probe is called: they are enforced just as well.
        if hook in error.message or "denied the request" in error.message:
            return True
        raise
    return False


def _config_map(token: str) -> bytes:
    metadata = {"generateName": "webhook-probe-", "labels": {_PROBE_LABEL: token}}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
