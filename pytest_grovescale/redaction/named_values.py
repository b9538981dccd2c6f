"""Credentials beside a name: which names are secret, which values beside them are none; in all
notations of names and values, and the data of Secret objects."""

from __future__ import annotations

import functools
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
    age annotation arn arns audience audiences binding bucket cache class cleaner config configmap controller count dir
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
_GENERATED = re.compile(r"-(?=[a-z]*[2-9]+[a-z])[bcdfghjklmnpqrstvwxz2456789]{5,10}\Z")
"""The end of a name that Kubernetes has drawn (``generateName``, the hash of a pod template), as in ``web-j6gpw``: one
of 800 ends like a word for a password. Its letters: k8s.io/apimachinery/pkg/util/rand."""
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
    return _secrecy_of(name[-_LONGEST_NAME:])


@functools.lru_cache(maxsize=4096)
def _secrecy_of(name: str) -> str:
    """Paths of fields and keys of log lines come thousands of times."""
    name = name.rstrip("\"'[]")
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
    if _GENERATED.search(last):
        return ""
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
    r"(?:true|false|yes|no|null|nil|none|unset|empty|off|on|(?:in)?valid|expired|missing|absent|present|unknown|\*{3,}|x{3,12}|<[^<>\n]*>|\[redacted\]|redacted|\$\([\w.-]+\)|"
    r"\$\{[\w.:-]+\}|\$[A-Z_][A-Z0-9_]*|\{\w*\}|\{\{[^{}]*\}\}|\[\]|)[.,;:]*\Z",
    re.IGNORECASE,
)
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?\Z")
RANDOM = re.compile(r"(?=[^\s]*\d)(?=[^\s]*[A-Za-z])[^\s]{8,}")


def harmless(value: str) -> bool:
    """Return whether a value is empty, a switch, or the name of the value's place."""
    return _NO_VALUE.match(value) is not None


_PLAIN_WORD = re.compile(r"[a-z]{1,12}$")


def spared(name: str, value: str, secrecy: str) -> bool:
    """Return whether a value beside a secret's name is no secret: a switch, a count, a reference, an object's name."""
    if harmless(value):
        return True
    last = re.split(r"[./]", name.strip("-._/"))[-1].lower().rstrip("-_0123456789")
    number = _NUMBER.match(value) is not None
    if secrecy == "weak":
        return not RANDOM.match(value)
    # Language models count in tokens; one that lets someone in has a digit, or a capital.
    if last.endswith("tokens") and _PLAIN_WORD.match(value) is not None:
        return True
    if number and (secrecy == "inner" or last.endswith("s") or "max" in last or "num" in last):
        return True
    return last.rstrip("s").endswith("secret") and _OBJECT_NAME.match(value) is not None


def kept_name(match: re.Match[str]) -> str:
    """Return a match's ``name`` with the marker in place of its ``value``, for `re.sub`."""
    return f"{match['name']}{REDACTED}"


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
_VALUE_FIRST = re.compile(
    rf"""(?P<head>(?<![\w.]){_Q}?[Vv]alue{_Q}?[ \t]*[:=][ \t]*)(?P<open>{_Q}?)(?P<value>[^\s"'\\,][^\n"'\\,]{{0,2000}}?)
         (?P<tail>{_Q}?[ \t]*(?:,|\n|[ \t])[ \t\n]*{_Q}?[Nn]ame{_Q}?[ \t]*[:=][ \t]*{_Q}?(?P<name>[\w.-]+))""",
    re.VERBOSE,
)
"""An environment variable whose value stands before its name."""
_PAIR = re.compile(
    rf"""(?P<head>\(b?{_Q}(?P<name>[\w.-]+){_Q},[ ]b?)(?P<quote>["'])(?P<value>[^\n"']+)(?P=quote)(?=\))""", re.VERBOSE
)
"""A tuple of name and value, as Python prints headers."""
_HEREDOC = re.compile(r"<<[-~]?[\"']?(?P<end>\w+)[\"']?[ \t]*\n")
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
_OF_OBJECTS = re.compile(r"\b(?:secrets?|configmaps?|objects?|resources?|volumes?)\Z", re.IGNORECASE)
"""Words before the name of an object in quotes."""
_REFERENCE = re.compile(r"\$\([\w.-]+\)|\$\{[\w.:-]+\}|\{\{[^{}\n]*\}\}|<[^<>\n]*>(?!\w)")
"""Reference to a value: another name, or a template's placeholder."""
_STOP = words(
    """
    a an and are as at be been but by can cannot did does expired file flag flags for from had has have if in
    instead into is it its may must no not of off on option or should so that the then this to until use used
    using was when where which will with without you your
    """
)
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


def _named(found: str) -> str:
    """Return text without the values beside names of secrets."""
    parts: list[str] = []
    done = position = 0
    while match := _NAME.search(found, position):
        position = match.end()
        secrecy = secrecy_of(match["name"])
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
    if here := _HEREDOC.match(found, start):
        end_word = re.compile(rf"^[ \t]*{here['end']}\b", re.MULTILINE).search(found, here.end())
        return here.end(), end_word.start() if end_word else len(found), f"{REDACTED}\n"
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
        return None if harmless(found[start:stop]) else (start, stop, REDACTED)
    if last in ("cookie", "connectionstring") or last == "string":
        line = re.compile(r"[^\n\"'`]*").match(found, start)
        assert line is not None  # it matches nothing, too
        return (start, line.end(), REDACTED) if line[0] else None
    return _unquoted(found, match, secrecy, start)


def _unquoted(found: str, match: re.Match[str], secrecy: str, start: int) -> tuple[int, int, str] | None:
    value = _RAW.match(found, start)
    if value is None or _REFERENCE.match(found, start) or spared(match["name"], value[0], secrecy):
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
    words = begin.removesuffix(match["close"])
    before = words.rstrip(" \t")
    prose = _PROSE.match(found, start) if before != words and (before[-1:].isalpha() or before[-1:] == ":") else None
    object_name = words != begin and _OF_OBJECTS.search(before) is not None
    if prose and (object_name or not _PASSWORD.search(match["name"]) or prose[0] in _STOP):
        # ``failed to fetch the token: context deadline exceeded``, ``operator.yaml:14: metrics.token: is …``,
        # ``on secrets "web-token": the object has been modified``.
        return None
    return start, value.end(), REDACTED


_SHELL_QUOTE = re.compile(r"""'(?:\\'|"'")'""")


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
            # A shell's quote within quotes: 'it'\\''s'.
            if not (again := _SHELL_QUOTE.match(found, position)):
                break
            position, stop = again.end(), line_end if line_end >= 0 else len(found)
        position += 1
    content = found[opened.end() : stop]
    if not content.strip() or spared(name, content, secrecy):
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


_KIND_SECRET = re.compile(
    rf"(?<!\w)kind{_Q}?[ \t]*[:=][ \t]*{_Q}?Secret(?:List)?\b|\bSecret\{{", re.VERBOSE | re.IGNORECASE
)
_SECRET_DATA = re.compile(rf"(?<!\w)(?:data|stringData){_Q}?[ \t]*[:=][ \t]*", re.VERBOSE | re.IGNORECASE)
_DATA_BEGIN = re.compile(r"map\[(?:string\](?:\[\])?\w+)?|\{|\n")
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


def _value_first(match: re.Match[str]) -> str:
    if not (secrecy := secrecy_of(match["name"])) or spared(match["name"], match["value"], secrecy):
        return match[0]
    return f"{match['head']}{match['open']}{REDACTED}{match['tail']}"


def _pair(match: re.Match[str]) -> str:
    # ``("pass", "2026-01-01")`` is a verdict.
    if not secrecy_of(match["name"]) or match["name"] == "pass" or not RANDOM.search(match["value"]):
        return match[0]
    return f"{match['head']}{match['quote']}{REDACTED}{match['quote']}"


def _element(match: re.Match[str]) -> str:
    name, value = match["name"].rpartition(":")[2], match["value"]
    secrecy = secrecy_of(name)
    return match[1] + REDACTED if secrecy and not spared(name, value, secrecy) else match[0]


def without_named(found: str, lower: str) -> str:
    """Return text without values beside names of secrets. ``lower``: the text in lower case."""
    if not has(lower, NAME_HINTS):
        return found
    found = _named(_without_secret_data(found))
    found = _VALUE_FIRST.sub(_value_first, found) if "alue" in found else found
    found = _PAIR.sub(_pair, found) if "('" in found or '("' in found or "(b" in found else found
    found = _SENTENCE.sub(kept_name, _LOOSE.sub(kept_name, found))
    return _ELEMENT.sub(_element, found) if "</" in found else found
