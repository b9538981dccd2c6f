"""Credentials never reach a recording; everything else does."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_grovescale.errors import UsageError
from pytest_grovescale.recording import redaction
from pytest_grovescale.recording.conditions import WatchSpec

JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl-_x"
KEY = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIexample\n-----END EC PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"Authorization: Bearer {JWT}", JWT),
        ("authorization: bearer abcdef123456", "abcdef123456"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA"),
        (f"token {JWT} expired", JWT),
        ("password=hunter2 user=x", "hunter2"),
        ('"password": "hunter2"', "hunter2"),
        ("DB_PASSWORD: hunter2", "hunter2"),
        ("client_secret='abc def'", "abc def"),
        ("--token=abc123", "abc123"),
        ("https://user:hunter2@host/path", "hunter2"),
        ("api-key=12345", "12345"),
        (f"key follows {KEY} end", "MHcCAQEEIexample"),
        (KEY[:50], "MHcC"),
        ("ghp_abcdefghijklmnop", "abcdefghijklmnop"),
    ],
)
def test_credentials_go(text: str, secret: str) -> None:
    found = redaction.text(text)
    assert secret not in found
    assert redaction.REDACTED in found


@pytest.mark.parametrize(
    "text",
    [
        "pod ns/p-0 is Pending: 0/100 nodes are available",
        "reconciled 500 tokens in 3 s",
        'controller_runtime_reconcile_total{controller="podclique",result="success"}',
        "GET https://127.0.0.1:6443/api/v1/pods",
        "keyboard: yes",
        "the secret of success",
        "",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert redaction.text(text) == text


def test_credentials_inside_fields() -> None:
    found: Any = {"a": [f"Bearer {JWT}", 1, None], "b": {"c": JWT}, "d": "Running"}
    assert redaction.value(found) == {
        "a": [f"Bearer {redaction.REDACTED}", 1, None],
        "b": {"c": redaction.REDACTED},
        "d": "Running",
    }


def test_urls() -> None:
    assert redaction.url("http://u:p@127.0.0.1:1/metrics?token=x#y") == "http://127.0.0.1:1/metrics"


@pytest.mark.parametrize(
    "path",
    [
        "data",
        "data.password",
        'data["a.b"]',
        "stringData.x",
        "metadata.annotations",
        "metadata",
        'metadata.annotations["x"]',
    ],
)
def test_secrets_are_not_read(path: str) -> None:
    with pytest.raises(UsageError, match="Secrets"):
        redaction.check_watch(WatchSpec(resource="secrets", path="/api/v1/secrets", fields=(path,)))
    redaction.check_watch(WatchSpec(resource="configmaps", path="/api/v1/configmaps", fields=(path,)))


def test_what_may_be_read_of_secrets() -> None:
    fields = ("metadata.labels", "metadata.name", "type")
    redaction.check_watch(WatchSpec(resource="secrets", path="/api/v1/secrets", fields=fields))


@pytest.mark.parametrize(
    "text", ["a" * 300_000, "eyJ" * 90_000, "password" * 40_000, "://" * 90_000, "token " * 50_000]
)
def test_long_text_without_credentials_stays(text: str) -> None:
    # A pattern that backtracks over all of it would not come to an end here.
    assert redaction.text(text) == text


def test_long_credential_goes() -> None:
    assert redaction.text("secret=" + "x" * 300_000) == f"secret={redaction.REDACTED}"
