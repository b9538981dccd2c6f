"""Redaction of foreign text: removes credentials, control characters and commands to a CI system.

Foreign is all text that this package has not written itself: log lines, messages of the API server and of other
programs, labels and help texts of metrics, fields of objects, arguments, parameters. Each is redacted where it is read,
so that later code need not care. A credential is detected in two ways: by its form or the name beside it, and by its
value, once it was passed to `conceal`.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

REDACTED = "[redacted]"

V = TypeVar("V")


# ---- names


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORD = re.compile(
    r"(?:pass(?:word|wd|phrase|code|wort)|secret|token|credential|apikey|dockerconfigjson|dockercfg)s?\Z"
    r"|(?:pass|pw|pwd|psk|otp|totp|jwt|jwe|bearer|authorization|cookie|kennwort|mnemonic)\Z"
    r"|(?:access|secret|private|signing|encryption|master|auth|shared|account|ssh|storage)key\Z"
)
_INNER_WORD = re.compile(r"(?:pass(?:word|wd|phrase|code)|secret|token|apikey)s?\Z")
"""Words that make a longer name secret, too: ``TOKEN_PROD``, but not ``authorization-mode``."""
_KEYS = _words(
    """
    access account aes api app application auth client consumer deploy des encryption encrypt fernet hmac host
    integration license master private rsa secret service session shared sign signature signing ssh storage
    subscription tls webhook
    """
)
"""Words before ``key`` that make it a secret one; a work queue's or a cache's key is not secret."""
_HARMLESS_LAST = _words(
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
_WEAK = _words("auth sig signature nonce salt session sid")
"""Names that are sometimes secret: their value decides, too."""
_LONGEST_NAME = 200
_NAME_HINTS = _words(
    """
    pass pw psk otp secret token key cred auth cookie jwt jwe bearer sig nonce salt sid session docker kennwort
    mnemonic connection id_rsa id_ed id_ecdsa
    """
)
"""Hints in lower case, one of which is in every secret name. Tested first, since most text has none."""


def secret_name(name: str) -> bool:
    """Return whether a name denotes a secret value: ``DB_PASSWORD``, ``--api-key``, ``clientSecret``.

    Of a dotted name or a path the last part counts; ``token-file``, ``secretName`` and ``token_count`` are not secret.
    """
    return _secrecy(name) != ""


def _has(found: str, hints: Iterable[str]) -> bool:
    return any(map(found.lower().__contains__, hints))


def _secrecy(name: str) -> str:
    """Return ``sure`` where the last word is the secret, ``inner`` where another is, ``weak``, or an empty text."""
    name = name[-_LONGEST_NAME:].rstrip("\"'[]")
    if not _has(name, _NAME_HINTS):
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


# ---- known values


_LEAST_PLAIN, _LEAST = 12, 6
_concealed: dict[str, re.Pattern[str]] = {}
"""Form of a value → pattern that matches it as a whole word."""


def conceal(*values: str) -> None:
    """Remove these values from all later texts of this process, with their base64, URL and JSON forms.

    A process-wide list, like a CI system's masks: a secret that was given for one purpose appears in texts of any
    other. Values that are frequent in ordinary text (short ones, numbers, single words) are ignored.
    """
    for value in values:
        for form in _forms(value.strip()):
            if form not in _concealed:
                _concealed[form] = re.compile(rf"(?<![A-Za-z0-9]){re.escape(form)}={{0,2}}(?![A-Za-z0-9])")


def concealed() -> list[str]:
    """Return the concealed values, for another process of the same run: pass them through a pipe only."""
    return sorted(_concealed)


def _forms(value: str) -> Iterator[str]:
    short = len(value) < _LEAST
    plain = value.isalpha() and value.islower() and len(value) < _LEAST_PLAIN
    # A key over several lines is detected by its form.
    if short or plain or value.isdigit() or "\n" in value or _harmless(value):
        return
    yield value
    yield base64.b64encode(value.encode(errors="surrogateescape")).decode().rstrip("=")
    yield quote(value, safe="", errors="replace")
    yield json.dumps(value, ensure_ascii=False)[1:-1]


# ---- control characters, and CI commands


_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""C0 but tab and newline, DEL, C1, characters that are invisible or change a line's direction, and lone surrogates."""
_CI_COMMAND = re.compile(
    # GitHub and similar systems at a line's beginning, wherever that will be; its older form and Azure's anywhere in
    # a line.
    r"(?:^|(?<=\s)):(?=:[A-Za-z][\w.-]*(?:::|[ \t]))|#(?=#(?:vso|teamcity)?\[)|#(?=#teamcity\[)",
    re.MULTILINE,
)


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if match[0] == "\r":
        return "\\r"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _escaped(found: str) -> str:
    """Return text without cursor movements, invisible characters and CI commands; tabs and newlines stay."""
    if not found.isprintable():
        found = _CONTROL.sub(_visible, found.replace("\r\n", "\n"))
    return _CI_COMMAND.sub(_visible, found) if "::" in found or "##" in found else found


# ---- credentials detected by their form


_PEM = "-----BEGIN[ ][A-Z0-9 ]*PRIVATE[ ]KEY(?:[ ]BLOCK)?-----"
_PEM_END = "-----END[ ][A-Z0-9 ]*PRIVATE[ ]KEY(?:[ ]BLOCK)?-----"
_SHAPES = re.compile(
    rf"""
      {_PEM}.*?(?:{_PEM_END}|\Z)
    | \beyJ[\w-]{{8,}}\.[\w-]{{8,}}(?:\.[\w-]*){{0,3}}                                  # JWT, JWE
    | (?i:(?<=bearer[ ])|(?<=bearer:))(?=[^\s"',;\]]*\d|[^\s"',;\]]{{20,}}|[a-z][^\s"',;\]]*[A-Z])[\w.~+/=|-]{{6,}}
    | (?<![\w.])(?<=-u[ ])[^\s:"']+:[^\s"']+ | (?<=--user[ ])[^\s:"']+:[^\s"']+         # curl
    | \b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|xapp-|AKIA|ASIA|npm_|pypi-|hv[sbr]\.|dop_v1_
        |[sr]k_(?:live|test)_|whsec_|AGE-SECRET-KEY-|SG\.|ya29\.|AIza)[\w.-]{{10,}}     # well-known prefixes
    | \bsk-(?=[\w-]*\d)[\w-]{{20,}}
    | (?<=hooks\.slack\.com/services/)[\w/]{{8,}}
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
# fmt: off
_SHAPE_HINTS = (
    "eyj", "bearer", "private key", "-u ", "--user ", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_",
    "glpat-", "xox", "xapp-", "akia", "asia", "npm_", "pypi-", "hvs.", "hvb.", "hvr.", "dop_v1_", "k_live_",
    "k_test_", "whsec_", "age-", "sg.", "ya29.", "aiza", "sk-", "slack.com"
)
# fmt: on
_BOOTSTRAP = re.compile(r"(?<![\w.+-])[a-z0-9]{6}\.(?=[a-z0-9]*\d)[a-z0-9]{16}(?![\w.-])")
"""A bootstrap token of kubeadm."""
_ORPHAN_END = re.compile(_PEM_END, re.VERBOSE)
_KEY_LINE = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}(?:\\[rn]|[ \t])*\Z")
_USER_INFO = re.compile(
    r"""(?<=://)[^\s/:@"'<>\\]{0,200}:(?!\d{1,5}(?:[/?\#\s"',;)\]]|$))[^\s"'<>]{0,400}(?=@)       # user:password@host
      | (?<=://)[\w.~%+=-]{20,1000}(?=@)                                                            # token@host
      | (?<=\b:)(?<![/\s]:)[^\s@:/"']{1,400}(?=@(?:tcp|udp|unix)\()       # Go's MySQL: user:password@tcp(host)""",
    re.VERBOSE | re.MULTILINE,
)
_BASIC = re.compile(r"(?i:(?<=basic ))[A-Za-z0-9+/]{6,}={0,2}")
_BLOB = re.compile(
    # Whole, or wrapped as base64(1) and PEM do; \n may be escaped.
    r"(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/]{60,76}(?:\\r|\\n|[\r\n])+[ \t]*)+[A-Za-z0-9+/]*={0,2}"
    r"|(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/]{20,}|[A-Za-z0-9_-]{40,})={0,2}(?![A-Za-z0-9+/_-])"
)
_KEY_LINES = re.compile(
    r"(?:^[ \t>|]*[A-Za-z0-9+/]{64}[ \t]*(?:\n|\Z))+(?:^[ \t>|]*[A-Za-z0-9+/]{4,64}={0,2}[ \t]*$)?", re.M
)
_DEPTH = 3


def _without_key_ends(found: str) -> str:
    """Return text without the ends of PEM keys whose begin is missing, as in the last lines of a log."""
    if "PRIVATE KEY" not in found:
        return found
    parts: list[str] = []
    done = 0
    for match in _ORPHAN_END.finditer(found):
        start = found.rfind("\n", done, match.start()) + 1 or done
        while start > done:
            before = max(found.rfind("\n", done, start - 1) + 1, done)
            if not _KEY_LINE.search(found[before : start - 1]):
                break
            start = before
        parts += [found[done:start], REDACTED]
        done = match.end()
    return "".join([*parts, found[done:]])


def _basic(match: re.Match[str]) -> str:
    return REDACTED if b":" in _decoded(match[0]) else match[0]


def _decoded(blob: str) -> bytes:
    """Return the decoded bytes of a base64 text, as far as it is valid; empty if it is not."""
    packed = re.sub(r"\\[rn]|\s", "", blob).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(packed[: len(packed) // 4 * 4] + _rest(packed))
    except (binascii.Error, ValueError):
        return b""


def _rest(packed: str) -> str:
    rest = packed[len(packed) // 4 * 4 :]
    return rest + "=" * (4 - len(rest)) if len(rest) > 1 else ""


def _is_key(data: bytes) -> bool:
    """Return whether the data begins like a private key in DER: a sequence whose first element is a version, 0 or 1."""
    if len(data) < 24 or data[0] != 0x30:
        return False
    head = 2 if data[1] < 0x80 else 2 + (data[1] & 0x7F)
    return data[head : head + 3] in (b"\x02\x01\x00", b"\x02\x01\x01")


def _blob(match: re.Match[str], depth: int) -> str:
    data = _decoded(match[0])
    if _is_key(data):
        return REDACTED
    try:
        inside = data.decode()
    except UnicodeDecodeError:
        # Truncated in the middle of a character.
        inside = data[: max(len(data) - 4, 0)].decode(errors="ignore") if data[:8].isascii() else ""
    if not inside or not inside[:8].isprintable():
        return match[0]
    return REDACTED if _without_secrets(inside, depth + 1) != inside else match[0]


def _key_lines(match: re.Match[str]) -> str:
    """Replace lines of 64 characters of base64 only, a key's or a certificate's; hexadecimal digests stay."""
    if re.fullmatch(r"[0-9a-f\s>|]*|[0-9A-F\s>|]*", match[0]):
        return match[0]
    mixed = re.search(r"[A-Z]", match[0]) and re.search(r"[a-z]", match[0]) and re.search(r"\d", match[0])
    if not mixed:
        return match[0]
    return REDACTED + ("\n" if match[0].endswith("\n") else "")


# ---- credentials beside a name


_ANSI = r"(?:\\x1b\[[0-9;]*m)*"
_Q = r"""(?:\\*["'`]|\\+u0022|%22|&quot;|&\#34;)"""
_NAME = re.compile(rf"(?:(?<=\\x1b\[)[0-9;]*m|(?<![\w.\-/]))(?P<name>[\w.\-/]++)(?P<close>{_Q}?)", re.VERBOSE)
_BEFORE_VALUE = re.compile(
    rf"""{_ANSI}\]?[ \t]*(?::=|=>|={{1,3}}|:(?!:)|%3[AaDd]|\\+u003[dD])[ \t]*{_ANSI}
         (?:(?:Invalid|Unsupported|Duplicate)[ ]value:[ ])?""",
    re.VERBOSE,
)
_AFTER_FLAG = re.compile(rf"(?:[ \t]+|{_Q}?,[ \t]*|{_Q}?\n[ \t]*-[ \t]+)(?![\s=]|{_Q}?-)")
_ENV_VALUE = re.compile(rf"[,\s]+{_Q}?[Vv]alue{_Q}?[ \t]*[:=][ \t]*")
_OPEN = re.compile(_Q, re.VERBOSE)
_RAW = re.compile(
    r"""(?:[^\s"'`,;&}\])\\]
         | \\(?!["'`]|x1b\[|[nrt](?:[^\w]|\Z))
         | [,;&](?=[^\s"'`\\])(?![\w.\-]+["'`]?[ \t]*[:=])
         | [}\])](?=[\w@\#$%^*!~+/?])
        )++""",
    re.VERBOSE,
)
_SCHEME = re.compile(r"\[?(?:Bearer|Basic|Digest|Token|Negotiate|ApiKey|AWS4-HMAC-SHA256)[ ]+", re.IGNORECASE)
_BLOCK = re.compile(r"[|>][-+0-9]*[ \t]*(?:\#[^\n]*)?\n")
_LINE_START = re.compile(r"[ \t]*(?:-[ \t]+|export[ ]+|set[ ]+|ENV[ ]+)?[\"']?")
_DEEPEST = 200
"""Maximum number of characters before a name that are inspected."""
_PASSWORD = re.compile(r"pass(?:w|p|c)|pwd", re.IGNORECASE)
_PROSE = re.compile(r"[a-z]+[,.]?(?=\s|$)", re.MULTILINE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h|d|%|[KMG]i?B?|B)?\Z")
_NO_VALUE = re.compile(
    r"(?:true|false|yes|no|null|nil|none|unset|empty|off|on|\*{3,}|x{3,12}|<[^<>\n]*>|\[redacted\]|redacted|\$\([\w.-]+\)|"
    r"\$\{[\w.:-]+\}|\$[A-Z_][A-Z0-9_]*|\{\w*\}|\{\{[^{}]*\}\}|\[\]|)[.,;:]*\Z",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\$\([\w.-]+\)|\$\{[\w.:-]+\}|\{\{[^{}\n]*\}\}|<[^<>\n]*>(?!\w)")
"""Reference to a value: another name, or a template's placeholder."""
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?\Z")
_STOP = _words(
    """
    a an and are as at be been but by can cannot did does expired file flag flags for from had has have if in
    instead into is it its may must no not of off on option or should so that the then this to until use used
    using was when where which will with without you your
    """
)
_RANDOM = re.compile(r"(?=[^\s]*\d)(?=[^\s]*[A-Za-z])[^\s]{8,}")
_VALUE = r"""(?=[^\s"'`]*\d)(?=[^\s"'`]*[A-Za-z])[^\s"'`,;|/(){}\[\]]{6,}"""
_LOOSE = re.compile(
    rf"""(?P<name>\b(?:pass(?:word|wd|phrase)|token|(?:api|access)[ _-]?key|credentials?)[ \t]+
            (?:(?:is|was|set[ ]to|of|with|to)[ ])?["'`]?)
        (?P<value>{_VALUE})""",
    re.VERBOSE | re.IGNORECASE,
)
"""``trying password x1y2z3``"""
_SENTENCE = re.compile(
    rf"""(?P<name>\b(?:pass(?:word|wd|phrase)|token|secret|(?:api|access)[ _-]?key|credentials?)
            (?:[ ][a-z]\w{{0,15}}){{0,4}}[ \t]*(?:[ ](?:is|was)\b:?|:|=|->|→|\|)[ \t]*["'`]?)
        (?P<value>(?=[^\s"'`]*(?:[A-Z]|[^\w\s.:-])){_VALUE})""",
    re.VERBOSE,
)
"""``the password for admin is Xy12``: only values that cannot be an object's name, which has lower-case letters."""
_ELEMENT = re.compile(r"(<(?P<name>[\w:.-]+)(?:\s[^<>]*)?>)(?P<value>[^<>]+)(?=</)")


def _harmless(value: str) -> bool:
    """Return whether a value is empty, a switch, or the name of the value's place."""
    return _NO_VALUE.match(value) is not None


def _named(found: str) -> str:
    """Return text without the values beside names of secrets."""
    parts: list[str] = []
    done = position = 0
    while match := _NAME.search(found, position):
        position = match.end()
        secrecy = _secrecy(match["name"])
        if not secrecy:
            continue
        place = _value_of(found, match, secrecy)
        if place is None:
            continue
        start, end, put = place
        parts += [found[done:start], put]
        done = position = max(end, position)
    if not parts:
        return found
    return "".join([*parts, found[done:]])


def _value_of(found: str, match: re.Match[str], secrecy: str) -> tuple[int, int, str] | None:
    """Return (start, end, replacement) of a name's value; None where it is no secret."""
    name, end = match["name"], match.end()
    if before := _BEFORE_VALUE.match(found, end):
        start = before.end()
    elif after := _ENV_VALUE.match(found, end):
        start = after.end()
    elif name.startswith("-") and (flag := _AFTER_FLAG.match(found, match.end("name"))):
        start = flag.end()
        word = re.compile(r"[A-Za-z]*").match(found, start)
        if word and word[0].lower() in _STOP and not found[word.end() : word.end() + 1].strip():
            return None
    else:
        return None
    last = re.split(r"[._/-]", name.lower())[-1]
    if last == "authorization" and (scheme := _SCHEME.match(found, start)):
        start = scheme.end()
    if block := _BLOCK.match(found, start):
        return _block(found, match.start("name"), block.end())
    if opened := _OPEN.match(found, start):
        return _quoted(found, name, secrecy, opened)
    if found[start : start + 1] == "[" or found.startswith("map[", start):
        stop = _balanced(found, found.index("[", start))
        inside = found[start:stop]
        return None if inside in ("[]", REDACTED) or secrecy != "sure" else (start, stop, REDACTED)
    if found[start : start + 1] == "{":
        if secrecy != "sure" or last.rstrip("s") in ("secret", "credential", "auth"):
            # An object: its own names decide what is secret in it.
            return None
        stop = _balanced(found, start)
        return None if _harmless(found[start:stop]) else (start, stop, REDACTED)
    if last in ("cookie", "connectionstring") or last == "string":
        line = re.compile(r"[^\n\"'`]*").match(found, start)
        assert line is not None  # it matches nothing, too
        return (start, line.end(), REDACTED) if line[0] else None
    return _unquoted(found, match, secrecy, start)


def _unquoted(found: str, match: re.Match[str], secrecy: str, start: int) -> tuple[int, int, str] | None:
    value = _RAW.match(found, start)
    if value is None or _REFERENCE.match(found, start) or _spared(match["name"], value[0], secrecy):
        return None
    line = found.rfind("\n", 0, match.start("name")) + 1
    begin = found[max(line, match.start("name") - _DEEPEST) : match.start("name")]
    at_start = len(begin) < _DEEPEST and _LINE_START.fullmatch(begin) is not None
    colon = found[match.end() : start].rstrip(" \t").endswith(":") and found[start - 1] in " \t"
    if not colon and not (at_start and found[start - 1] in " \t" and not match["name"].startswith("-")):
        return start, value.end(), REDACTED
    if at_start:
        # YAML or INI: the whole line without a comment.
        rest = re.compile(r"[^\n]*?(?=[ \t]+\#[ \t]|[ \t]*$)", re.MULTILINE).match(found, start)
        assert rest is not None  # the value is on this line
        return start, max(rest.end(), value.end()), REDACTED
    before = begin.rstrip(" \t")
    prose = _PROSE.match(found, start) if before != begin and (before[-1:].isalpha() or before[-1:] == ":") else None
    if prose and (not _PASSWORD.search(match["name"]) or prose[0] in _STOP):
        # ``failed to fetch the token: context deadline exceeded``, ``operator.yaml:14: metrics.token: is …``
        return None
    return start, value.end(), REDACTED


def _quoted(found: str, name: str, secrecy: str, opened: re.Match[str]) -> tuple[int, int, str] | None:
    """As `_value_of`, for a value in quotes, which may be escaped any number of times."""
    mark = opened[0]
    escapes = len(mark) - len(mark.lstrip("\\"))
    quote_mark = mark[escapes:]
    line_end = found.find("\n", opened.end())
    stop = line_end if line_end >= 0 else len(found)
    position = opened.end()
    while (position := found.find(quote_mark, position, stop)) >= 0:
        run = position
        while run > opened.end() and found[run - 1] == "\\":
            run -= 1
        # The backslashes before a closing quote are the opening one's, plus pairs that stand for backslashes.
        if (position - run) % (2 * (escapes + 1)) == escapes or quote_mark[0] in "%&u":
            stop = position - escapes
            break
        position += 1
    content = found[opened.end() : stop]
    if not content.strip() or _spared(name, content, secrecy):
        return None
    return opened.end(), stop, REDACTED


def _block(found: str, name_at: int, start: int) -> tuple[int, int, str] | None:
    """As `_value_of`, for a YAML block: all lines below that are indented deeper than the name."""
    indent, end = _below(found, name_at, start)
    if end == start:
        return None
    put = f"{' ' * (indent + 2)}{REDACTED}"
    return start, end, put + ("\n" if found[end - 1] == "\n" else "")


def _balanced(found: str, start: int) -> int:
    """Return the index after the bracket that closes the one at ``start``; the line's end if there is none."""
    opening = found[start]
    closing = {"[": "]", "{": "}"}[opening]
    depth = 0
    for place in re.compile(rf"[\n{re.escape(opening + closing)}]").finditer(found, start):
        if place[0] == "\n" and opening == "[":
            return place.start()
        depth += (place[0] == opening) - (place[0] == closing)
        if depth == 0:
            return place.end()
    return len(found)


def _spared(name: str, value: str, secrecy: str) -> bool:
    """Return whether a value beside a secret's name is no secret: a switch, a count, a reference, an object's name."""
    if _harmless(value):
        return True
    last = re.split(r"[./]", name.strip("-._/"))[-1].lower()
    number = _NUMBER.match(value) is not None
    if secrecy == "weak":
        return not _RANDOM.match(value)
    if number and (secrecy == "inner" or last.endswith("s") or "max" in last or "num" in last):
        return True
    return last.rstrip("s").endswith("secret") and _OBJECT_NAME.match(value) is not None


_KIND_SECRET = re.compile(rf"(?<!\w)kind{_Q}?[ \t]*[:=][ \t]*{_Q}?Secret\b|\bSecret\{{", re.VERBOSE | re.IGNORECASE)
_SECRET_DATA = re.compile(rf"(?<!\w)(?:data|stringData){_Q}?[ \t]*[:=][ \t]*", re.VERBOSE | re.IGNORECASE)
_DATA_BEGIN = re.compile(r"map\[(?:string\]\[\]\w+)?|\{|\n")
_DATA_LINE = re.compile(r"([ \t]*)([^\s:#][^\n:]*:)([^\n]*)")


def _without_secret_data(found: str) -> str:
    """Return text without the data of every Secret object printed as JSON, YAML or by Go."""
    if "ecret" not in found or not _KIND_SECRET.search(found):
        return found
    parts: list[str] = []
    done = 0
    for match in _SECRET_DATA.finditer(found):
        begin = _DATA_BEGIN.match(found, match.end())
        if match.start() < done or begin is None:
            continue
        if begin[0] == "\n":
            end, put = _yaml_data(found, match.start(), match.end() + 1)
            if put:
                parts += [found[done : match.end() + 1], put]
                done = end
            continue
        bracket = begin.end() - 1 if begin[0] != "map[" else begin.start() + 3
        if found[bracket] not in "[{":
            bracket = found.find("{", begin.end())
            if bracket < 0:
                continue
        stop = _balanced(found, bracket)
        if found[bracket:stop] not in ("{}", "[]"):
            parts += [found[done:bracket], f"{{{REDACTED}}}"]
            done = stop
    return "".join([*parts, found[done:]])


def _yaml_data(found: str, name_at: int, start: int) -> tuple[int, str]:
    _, end = _below(found, name_at, start)
    entries = filter(None, map(_DATA_LINE.match, found[start:end].split("\n")))
    put = "\n".join(f"{entry[1]}{entry[2]} {REDACTED}" for entry in entries)
    if not put:
        return start, ""
    return end, put + ("\n" if found[end - 1] == "\n" else "")


def _below(found: str, name_at: int, start: int) -> tuple[int, int]:
    """Return the indent of a name's line, and the end of the lines from ``start`` on that are indented deeper."""
    line = found.rfind("\n", 0, name_at) + 1
    indent = len(found[line:name_at]) - len(found[line:name_at].lstrip(" "))
    end = start
    while end < len(found):
        stop = found.find("\n", end)
        stop = len(found) if stop < 0 else stop + 1
        text_of_line = found[end:stop]
        if text_of_line.strip() and len(text_of_line) - len(text_of_line.lstrip(" ")) <= indent:
            break
        end = stop
    return indent, end


# ---- public functions


_BLOB_HINT = re.compile(r"[A-Za-z0-9+/]{20}|[A-Za-z0-9_-]{40}")


def _without_secrets(found: str, depth: int = 0) -> str:
    if _concealed:
        # Longest first: one may be part of another.
        for form in sorted((form for form in _concealed if form in found), key=len, reverse=True):
            found = _concealed[form].sub(REDACTED, found)
    if _has(found, _SHAPE_HINTS):
        found = _without_key_ends(_SHAPES.sub(REDACTED, found))
    if "." in found:
        found = _BOOTSTRAP.sub(REDACTED, found)
    if "@" in found:
        found = _USER_INFO.sub(REDACTED, found)
    if _has(found, _NAME_HINTS):
        found = _named(_without_secret_data(found))
        found = _SENTENCE.sub(_kept_name, _LOOSE.sub(_kept_name, found))
        found = _ELEMENT.sub(_element, found) if "</" in found else found
    if "basic " in found.lower():
        found = _BASIC.sub(_basic, found)
    if depth < _DEPTH and _BLOB_HINT.search(found):
        found = _KEY_LINES.sub(_key_lines, found) if "\n" in found else found
        found = _BLOB.sub(lambda match: _blob(match, depth), found)
    return found


def _kept_name(match: re.Match[str]) -> str:
    return f"{match['name']}{REDACTED}"


def _element(match: re.Match[str]) -> str:
    name, value = match["name"].rpartition(":")[2], match["value"]
    secrecy = _secrecy(name)
    return match[1] + REDACTED if secrecy and not _spared(name, value, secrecy) else match[0]


def text(found: str) -> str:
    """Return foreign text (log lines, an error's message) without credentials, control characters and CI commands.

    Tabs and newlines stay; pass text of several lines as a whole, since keys span lines. Redacting twice changes
    nothing.
    """
    return _without_secrets(_escaped(found)) if found else found


def has_credentials(line: str) -> bool:
    """Return whether `text` takes credentials out of a line."""
    return text(line).count(REDACTED) > line.count(REDACTED)


def lines(found: Iterable[str]) -> list[str]:
    """Return foreign lines, redacted as by `text`, also secrets that span several of them: there may be fewer lines."""
    together = "\n".join(found)
    return text(together).split("\n") if together else []


def value(found: Any, name: str = "") -> Any:
    """Return a field of an object, or an object, without credentials; numbers and switches stay.

    ``name``: its path or key; strings below a secret name are removed, whatever their form.
    """
    if isinstance(found, str):
        if name and (secrecy := _secrecy(name)) and found and not _spared(name, found, secrecy):
            return REDACTED
        return text(found)
    if isinstance(found, list):
        return [value(element, name) for element in found]
    if isinstance(found, dict):
        return {key: _entry(found, key, element) for key, element in found.items()}
    return found


def _entry(holder: dict[str, Any], key: str, element: Any) -> Any:
    if holder.get("kind") == "Secret" and key in ("data", "stringData") and isinstance(element, dict):
        return dict.fromkeys(element, REDACTED)
    # An environment variable of a container.
    if key == "value" and isinstance(named := holder.get("name"), str):
        return value(element, named)
    return value(element, str(key))


def parameters(given: Mapping[str, V]) -> dict[str, V]:
    """Return parameters, or values of an operator, for display: without those that are secret by name."""
    return {name: value(one, name) for name, one in given.items()}


def arguments(argv: Sequence[str]) -> list[str]:
    """Return a command line for display: ``--password X``, ``--token=X`` and ``--set=token=X`` without X."""
    shown: list[str] = []
    expected = ""
    for argument in argv:
        if expected and not argument.startswith("-"):
            shown.append(value(argument, expected))
            expected = ""
            continue
        expected = ""
        name, equals, _ = argument.partition("=")
        if not equals:
            shown.append(text(argument))
            expected = name if name.startswith("-") and secret_name(name) else ""
            continue
        shown.append(_assigned(argument))
    return shown


def _assigned(argument: str) -> str:
    """Return ``--name=value`` or ``--set=name=value``, redacted where one of its names is secret."""
    start = 0
    while (at := argument.find("=", start)) >= 0:
        name, rest = argument[start:at], argument[at + 1 :]
        if not re.fullmatch(r"[\w.\-/]+", name):
            break
        if (secrecy := _secrecy(name)) and rest and not _spared(name, rest, secrecy):
            return f"{argument[: at + 1]}{REDACTED}"
        start = at + 1
    return text(argument)


def secrets_in(found: Any, name: str = "") -> Iterator[str]:
    """Yield the strings of an object, of parameters or of a command line that are secret by the name beside them."""
    if isinstance(found, str):
        if name and (secrecy := _secrecy(name)) and not _spared(name, found, secrecy):
            yield found
    elif isinstance(found, Mapping):
        secret = found.get("kind") == "Secret"
        for key, element in found.items():
            if secret and key in ("data", "stringData") and isinstance(element, Mapping):
                yield from (_plain_data(one, encoded=key == "data") for one in element.values() if isinstance(one, str))
            elif key == "value" and isinstance(named := found.get("name"), str):
                yield from secrets_in(element, named)
            else:
                yield from secrets_in(element, str(key))
    elif isinstance(found, Sequence):
        yield from _secret_items(found, name)


def _secret_items(found: Sequence[Any], name: str) -> Iterator[str]:
    before = ""
    for element in found:
        if isinstance(element, str) and before and not element.startswith("-"):
            yield from secrets_in(element, before)
        elif isinstance(element, str) and not name:
            given, _, rest = element.partition("=")
            yield from secrets_in(rest, given)
        else:
            yield from secrets_in(element, name)
        before = element if isinstance(element, str) and element.startswith("-") and "=" not in element else ""


def _plain_data(found: str, *, encoded: bool) -> str:
    try:
        return base64.b64decode(found, validate=True).decode() if encoded else found
    except (binascii.Error, UnicodeDecodeError):
        return found


def url(found: str) -> str:
    """Return a URL without its query, fragment and user information."""
    parts = urlsplit(found)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
