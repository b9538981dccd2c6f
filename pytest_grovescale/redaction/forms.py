"""Credentials that are detected by their form: keys, tokens, passwords in URLs and command lines, base64 of these."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

from .named_values import REDACTED, has, kept_name

_BLOB_HINT = re.compile(r"[A-Za-z0-9+/]{20}|[A-Za-z0-9_-]{40}")
_PEM = "-----BEGIN[ ][A-Z0-9 ]*PRIVATE[ ]KEY(?:[ ]BLOCK)?-----"
_PEM_END = "-----END[ ][A-Z0-9 ]*PRIVATE[ ]KEY(?:[ ]BLOCK)?-----"
_SHAPES = re.compile(
    rf"""
      {_PEM}.*?(?:{_PEM_END}|\Z)
    | \beyJ[\w-]{{8,}}\.[\w-]{{8,}}(?:\.[\w-]*){{0,3}}                                  # JWT, JWE
    | (?i:(?<=bearer[ ])|(?<=bearer:))(?=[^\s"',;\]]*\d|[^\s"',;\]]{{20,}}|[a-z][^\s"',;\]]*[A-Z])[\w.~+/=|-]{{6,}}
    | (?<![\w.])(?<=-u[ ])[^\s:"']+:[^\s"']+ | (?<=--user[ ])[^\s:"']+:[^\s"']+         # curl
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_SHAPE_HINTS = ("eyj", "bearer", "private key", "-u ", "--user ")
# fmt: off
_VENDOR_HINTS = (
    "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "xapp-", "akia", "asia", "npm_", "pypi-",
    "hvs.", "hvb.", "hvr.", "_v1_", "k_live_", "k_test_", "whsec_", "age-secret", "sg.", "ya29.", "aiza", "sk-",
    "slack.com", "gocspx-", "atatt3", "atctt3", "hf_", "shpat_", "shpca_", "shppa_", "shpss_", "nrak-", "glsa_", "glc_",
    "rubygems_", "dckr_pat_", "lin_api_", "pul-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-",
    "gloas-", "glsoat-", "glffct-", "dapi", "oy2", ".atlasv1.", "/webhook", "/bot", "$2a$", "$2b$", "$2x$", "$2y$",
    "$5$", "$6$", "$y$", "$apr1$", "$argon2", "$scrypt$",
)
# fmt: on
_VENDOR = re.compile(
    r"""\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|xapp-|npm_|pypi-|hv[sbr]\.|do[opr]_v1_
        |[sr]k_(?:live|test)_|whsec_|AGE-SECRET-KEY-|SG\.|ya29\.|AIza|GOCSPX-|ATATT3|ATCTT3)[\w.-]{10,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{12,}\b
    | \b(?:hf_|shp(?:at|ca|pa|ss)_|NRAK-|glsa_|glc_|rubygems_|dckr_pat_|lin_api_|pul-[0-9a-f]{8}
        |gl(?:dt|rt|cbt|ptt|ft|imt|agent|oas|soat|ffct)-)(?=[\w+/=-]*\d)[\w+/=-]{16,}
    | \bdapi[0-9a-f]{32}\b | \boy2[a-z0-9]{43}\b
    | \bsk-(?=[\w-]*\d)[\w-]{20,} | (?<=\.atlasv1\.)[\w-]{20,}
    | (?<=hooks\.slack\.com/services/)[\w/]{8,} | (?<=/webhookb2/)[\w@/-]{8,}
    | (?<=/webhooks/)\d+/[\w-]{20,} | (?<=/bot)\d{6,}:[\w-]{20,}
    | \$(?:2[abxy]|5|6|y|apr1|argon2\w*|scrypt)\$[\w./$=,+-]{20,}
    """,
    re.VERBOSE,
)
"""Tokens with their vendor's prefix, addresses of web hooks, hashes of passwords (crypt(5))."""
_COMMAND = re.compile(
    r"""(?P<name>\bcurl\b[^\n]{0,300}?\s(?:-u|--user[= ])[ "']*[^\s:"'/]{1,100}:
        | \b(?:mysql|mariadb)[\w-]*[^\n]{0,300}?\s-p(?=[^\s-])
        | \bsshpass\s+-p\s*["']?
        | \bredis-cli\b[^\n]{0,300}?\s-a\s+["']?
        | \b(?:docker|podman|nerdctl|helm|skopeo|buildah|crane|oras|oc|az)
          (?:[ ][\w./-]{1,100}){0,2}[ ]login\b[^\n;|&]{0,300}?\s-p\s+["']?
        | \bjdbc:oracle:\w+:[^\s/@]{1,100}/)
        (?P<value>[^\s"'@]+)""",
    re.VERBOSE,
)
"""Passwords that programs take beside an option, or a place, of another name."""
_COMMANDS = ("curl ", "mysql", "mariadb", "sshpass", "redis-cli", " login ", "jdbc:oracle:")
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


def _blob(match: re.Match[str], redact: Callable[[str], str]) -> str:
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
    return REDACTED if redact(inside) != inside else match[0]


def _key_lines(match: re.Match[str]) -> str:
    """Replace lines of 64 characters of base64 only, a key's or a certificate's; hexadecimal digests stay."""
    if re.fullmatch(r"[0-9a-f\s>|]*|[0-9A-F\s>|]*", match[0]):
        return match[0]
    mixed = re.search(r"[A-Z]", match[0]) and re.search(r"[a-z]", match[0]) and re.search(r"\d", match[0])
    if not mixed:
        return match[0]
    return REDACTED + ("\n" if match[0].endswith("\n") else "")


def without_forms(found: str, lower: str) -> str:
    """Return text without credentials that have a form of their own. ``lower``: the text in lower case."""
    if has(lower, _SHAPE_HINTS):
        found = _without_key_ends(_SHAPES.sub(REDACTED, found))
    if has(lower, _VENDOR_HINTS):
        found = _VENDOR.sub(REDACTED, found)
    if "." in found:
        found = _BOOTSTRAP.sub(REDACTED, found)
    if has(lower, _COMMANDS):
        found = _COMMAND.sub(kept_name, found)
    return _USER_INFO.sub(REDACTED, found) if "@" in found else found


def without_encoded(found: str, lower: str, redact: Callable[[str], str] | None) -> str:
    """Return text without base64 of credentials. ``redact``: removes those that are decoded; None: decode no more."""
    if "basic " in lower:
        found = _BASIC.sub(_basic, found)
    if redact is not None and _BLOB_HINT.search(found):
        found = _KEY_LINES.sub(_key_lines, found) if "\n" in found else found
        found = _BLOB.sub(lambda match: _blob(match, redact), found)
    return found
