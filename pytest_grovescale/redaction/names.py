"""Names of secrets, and values beside them that are none."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

REDACTED = "[redacted]"


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORD = re.compile(
    r"(?:pass(?:word|wd|phrase|code|wort)|secret|token|credential|apikey|passkey|dockerconfigjson|dockercfg)s?\Z"
    r"|(?:pass|pw|pwd|psk|otp|totp|jwt|jwe|bearer|authorization|cookie|kennwort|mnemonic)\Z"
    r"|(?:access|secret|private|signing|encryption|master|auth|shared|account|ssh|storage)key\Z"
)
_INNER_WORD = re.compile(r"(?:pass(?:word|wd|phrase|code)|secret|token|apikey)s?\Z")
"""Words that make a longer name secret, too: ``TOKEN_PROD``, but not ``authorization-mode``."""
_KEYS = words(
    """
    access account aes api app application auth client consumer deploy des encryption encrypt fernet hmac host
    integration license master private rsa secret service session shared sign signature signing ssh storage
    subscription tls webhook
    """
)
"""Words before ``key`` that make it a secret one; a work queue's or a cache's key is not secret."""
_HARMLESS_LAST = words(
    """
    age annotation audience audiences binding bucket cache class cleaner config configmap controller count dir
    directory enabled endpoint error errors exists expected expiration expired expires expiry file filename files
    folder format found generation generator group handler id ids index informer issued issuer key keys kind label
    labels length limit lister location manager max metric min missing mount mounts name names namespace path
    paths period phase policy present projection provider rate ratio ready reason ref reference refs refresher
    renewal request requested requests required resource resources result review reviews revision rotation rotated
    seconds size source status store sync synced template time timeout timestamp total ttl type types uid updated
    url uri used user username usage valid validator validity version volume watch watcher
    """
)
"""Last words of names that describe a secret without being one: ``--token-file``."""
_WEAK = words("auth cred creds sig signature nonce salt session sid csrf xsrf")
"""Names that are sometimes secret: their value decides, too."""
_LONGEST_NAME = 200
NAME_HINTS = words(
    """
    pass pw psk otp secret token key cred auth cookie jwt jwe bearer sig nonce salt sid session csrf xsrf docker
    kennwort mnemonic connection id_rsa id_ed id_ecdsa
    """
)
"""Hints in lower case, one of which is in every secret name. Tested first, since most text has none."""


def secret_name(name: str) -> bool:
    """Return whether a name denotes a secret value: ``DB_PASSWORD``, ``--api-key``, ``clientSecret``.

    Of a dotted name or a path the last part counts; ``token-file``, ``secretName`` and ``token_count`` are not secret.
    """
    return secrecy_of(name) != ""


def has(lower: str, hints: Iterable[str]) -> bool:
    """Return whether a text in lower case contains one of these."""
    return any(map(lower.__contains__, hints))


def secrecy_of(name: str) -> str:
    """Return ``sure`` where the last word is the secret, ``inner`` where another is, ``weak``, or an empty text."""
    name = name[-_LONGEST_NAME:].rstrip("\"'[]")
    if not has(name.lower(), NAME_HINTS):
        return ""
    whole = name.strip("-._/")
    if whole.endswith("serviceaccounts/token"):
        # A subresource.
        return ""
    parts = re.split(r"[./\"']", whole)
    while len(parts) > 1 and parts[-1].lower() in ("value", "data"):
        parts.pop()
    last = parts[-1]
    words = [word.lower() for word in _WORD.findall(last)]
    # ``tls.key`` and ``ssh.key`` are keys of Secrets, not dotted paths.
    if whole.lower() in ("tls.key", "id.rsa") or last.lower() in ("id_rsa", "id_ed25519", "id_ecdsa"):
        return "sure"
    if not words:
        return ""
    if words[-2:] == ["connection", "string"]:
        return "sure"
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in ("value", "data", "string", "base64", "b64", "pem")):
        words.pop()
    end = words[-1]
    if _SECRET_WORD.search(end):
        return "sure"
    if end in ("key", "keys") and len(words) > 1 and words[-2] in _KEYS:
        return "sure"
    if end in _WEAK:
        return "weak"
    if end in _HARMLESS_LAST:
        return ""
    inner = any(_INNER_WORD.search(word) for word in words[:-1])
    keyed = any(word == "key" and before in _KEYS for before, word in itertools.pairwise(words))
    return "inner" if inner or keyed else ""


_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h|d|%|[KMG]i?B?|B)?\Z")
_NO_VALUE = re.compile(
    r"(?:true|false|yes|no|null|nil|none|unset|empty|off|on|\*{3,}|x{3,12}|<[^<>\n]*>|\[redacted\]|redacted|\$\([\w.-]+\)|"
    r"\$\{[\w.:-]+\}|\$[A-Z_][A-Z0-9_]*|\{\w*\}|\{\{[^{}]*\}\}|\[\]|)[.,;:]*\Z",
    re.IGNORECASE,
)
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?\Z")
RANDOM = re.compile(r"(?=[^\s]*\d)(?=[^\s]*[A-Za-z])[^\s]{8,}")


def harmless(value: str) -> bool:
    """Return whether a value is empty, a switch, or the name of the value's place."""
    return _NO_VALUE.match(value) is not None


def spared(name: str, value: str, secrecy: str) -> bool:
    """Return whether a value beside a secret's name is no secret: a switch, a count, a reference, an object's name."""
    if harmless(value):
        return True
    last = re.split(r"[./]", name.strip("-._/"))[-1].lower()
    number = _NUMBER.match(value) is not None
    if secrecy == "weak":
        return not RANDOM.match(value)
    if number and (secrecy == "inner" or last.endswith("s") or "max" in last or "num" in last):
        return True
    return last.rstrip("s").endswith("secret") and _OBJECT_NAME.match(value) is not None


def kept_name(match: re.Match[str]) -> str:
    """Return a match's ``name`` with the marker in place of its ``value``, for `re.sub`."""
    return f"{match['name']}{REDACTED}"
