"""What the values of labels look like that have no end: identifiers, addresses, times, messages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

_DAY = "(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
_MONTH = "(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)[a-z]*"

_SHAPES = {
    "a UUID": re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE),
    "a pod's name": re.compile(r"(?:[^\s@]+@)?[a-z0-9.-]+-[bcdf-hj-np-tv-z2-9]{8,10}-[bcdf-hj-np-tv-z2-9]{5}"),
    "an object's namespace and name": re.compile(r"[a-z0-9][a-z0-9-]*/[a-z][a-z0-9]*-[a-z0-9-]*[0-9][a-z0-9-]*"),
    "a name with a ReplicaSet's hash": re.compile(r"[a-z][a-z0-9.-]*-(?=[a-z]*\d)[bcdf-hj-np-tv-z2-9]{8,10}"),
    "a generated name": re.compile(r"[a-z][a-z0-9.-]*-(?=[a-z]*\d)(?=\d*[a-z])[bcdf-hj-np-tv-z2-9]{5}"),
    "a ULID": re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}"),
    "a KSUID": re.compile(r"(?=.*\d)(?=.*[a-z])(?=.*[A-Z])[0-9A-Za-z]{27}"),
    "an email address": re.compile(r"[^\s@]+@[^\s@]+\.[a-z]{2,}", re.IGNORECASE),
    "a time": re.compile(
        r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?|\d{4}/\d\d/\d\d.*|\d\d:\d\d:\d\d(?:\.\d+)?"
        r"|\d{4}-W\d\d(?:-\d)?"
        r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? .*\d\d:\d\d:\d\d.*|1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?"
    ),
    "a date": re.compile(
        r"(?:0?[1-9]|[12]\d|3[01])[./](?:0?[1-9]|[12]\d|3[01])[./](?:19|20)\d\d"
        rf"|(?:{_DAY},? )?{_MONTH} \d{{1,2}}(?:,? \d{{4}})?|(?:{_DAY},? )?\d{{1,2}}[ -]{_MONTH}(?:[ -]\d{{4}})?"
    ),
    "a duration": re.compile(r"-?(?:\d+h)?(?:\d+m)?\d+\.\d{3,}(?:s|ms|µs|us)"),
    "a name with a time": re.compile(
        r"(?!v?\d)[^\s:]*[-_.](?:19|20)\d\d-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])[-_.t]?"
        r"(?:[01]\d|2[0-3])(?:[-_:]?[0-5]\d){1,2}z?",
        re.IGNORECASE,
    ),
    "a machine's name": re.compile(
        r"ip-\d{1,3}(?:-\d{1,3}){3}(?:[.:].*)?|[a-z][a-z0-9-]*-(?:[0-9a-f]{8}-[a-z0-9]{4}|vmss[0-9a-z]{6})"
    ),
    "a hash": re.compile(r"(?:sha\d+:)?(?=.*\d)(?=.*[a-f])[0-9a-f]{32,}", re.IGNORECASE),
    "an image's digest": re.compile(r"\S+@sha256:[0-9a-f]{8,}"),
    "a serial number or a fingerprint": re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){7,}", re.IGNORECASE),
    "an address": re.compile(
        r"\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?|\d{1,3}(?:-\d{1,3}){3}\.[a-z].*"
        r"|\[?(?=.*[0-9a-f]:)(?=(?:.*:){2})[0-9a-f:]{3,45}\]?(?:%\w+)?(?::\d+)?",
        re.IGNORECASE,
    ),
    "addresses of two ends": re.compile(
        r"\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\s?\W{1,3}\s?(?:to )?\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?:\W.*)?"
    ),
    "a pointer": re.compile(r"(?:<.* at )?0x[0-9a-f]{6,16}>?", re.IGNORECASE | re.DOTALL),
    "a URL with a number or a query": re.compile(
        r"[a-z][a-z0-9+.-]*://(?:\d{1,3}(?:\.\d{1,3}){3}\S*|[^/\s]+/\S*(?:\d{2}|[0-9a-f]{8}|\?|=)\S*)"
    ),
    "the path of an object": re.compile(r"\S*/(?:namespaces|pods|nodes)/[^/\s{]+(?:/\S*)?"),
    "a path with a number or a query": re.compile(
        r"/(?:[^/\s?]+/)*(?:[^/\s?]*\d{2}[^/\s?]*|\d|[0-9a-f-]*\d[0-9a-f-]{8,})(?:/[^\s]*)?(?:\?\S*)?|/[^\s?]+\?\S+"
    ),
    "a path with a number in it": re.compile(r"(?:[^/\s]+/)+[a-z][a-z_-]*/\d{3,}(?:/.*)?", re.IGNORECASE | re.DOTALL),
    "a sentence": re.compile(r"(?=.{40})\S+(?:\s+\S+){5,}", re.DOTALL),
    "a message about one object": re.compile(r'(?=.{20})(?>.*?\S\s).*["\'][a-z0-9][\w./-]+["\'].*', re.DOTALL),
    "a message with an address": re.compile(r"(?=.{20}).*\s\d{1,3}(?:\.\d{1,3}){3}:\d+.*", re.DOTALL),
    "an error with its message": re.compile(r"(?:[\w$]+\.)*[A-Z]\w*(?:Error|Exception): .+", re.DOTALL),
    "a release of Helm": re.compile(r"sh\.helm\.release\.v1\..+\.v\d+"),
    "a client's version": re.compile(r"\S+/v?\d+\.\d+\S* \(.*\).*"),
    "a database's query": re.compile(
        r"(?:SELECT|INSERT|UPDATE|DELETE)\s.+|[a-z_]+[ (].*\[\d+[smhdw]\].*", re.DOTALL | re.IGNORECASE
    ),
    "a place": re.compile(r"-?\d{1,3}\.\d{3,}, ?-?\d{1,3}\.\d{3,}"),
    "an object of Java": re.compile(r"(?:[\w$]+\.)*[A-Z][\w$]*@[0-9a-f]{5,8}|[\w.$]+\$\$Lambda.*", re.DOTALL),
    "an object's kind and name": re.compile(
        r"(?:[a-z0-9][a-z0-9.]*/){0,2}[A-Z][a-z][A-Za-z]+/(?:[a-z0-9][a-z0-9.-]*/)?[a-z][a-z0-9.-]*"
    ),
    "a connection's string": re.compile(r"(?:jdbc:)?(?!https?:)[a-z][a-z0-9+]*://\S+@\S+|jdbc:\S+"),
    "an identity of SPIFFE": re.compile(r"spiffe://\S+"),
    "a document": re.compile(r"-----BEGIN .*|[{\[].*[:,].*[}\]]|&?\{.*\}|map\[.*\]", re.DOTALL),
    "a text of several lines": re.compile(r".*\n.*", re.DOTALL),
    "a text of more than 200 characters": re.compile(r".{200,}", re.DOTALL),
    # https://www.rfc-editor.org/rfc/rfc3721, and the base specification of NVMe.
    "a storage target's name": re.compile(
        r"iqn\.\d{4}-\d\d\..+|nqn\.\d{4}-\d\d\..+|(?:eui|naa)\.[0-9a-f]{16,}", re.IGNORECASE
    ),
    "an ARN": re.compile(r"arn:[\w-]+:\S+:\S+"),
    "a stack trace": re.compile(r".*\bgoroutine \d+ \[.*|.*\.(?:go|py|java|rs):\d+.*", re.DOTALL),
    "a user of Kubernetes": re.compile(r"system:(?:serviceaccount:[^:\s]+:[^:\s]+|node:\S+)"),
    "a certificate's subject": re.compile(r"(?:CN|UID)=[^,]+(?:, ?\w+=.*)?|(?:OU|O|DC)=[^,]+, ?\w+=.*"),
    "a phone number": re.compile(r"\+\d{1,3}[ -]\d[\d -]{6,14}"),
    # Unix minutes, as of a CronJob's run, or numbers of builds; no dates, which models and releases have in them.
    "the name of one run": re.compile(
        r"[a-z][^/\s]*[-_](?!(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])$)[1-9]\d{7,}", re.IGNORECASE
    ),
    "an identifier with words beside it": re.compile(
        r"(?:.*[^0-9a-z])?(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{16,})"
        r"(?:[^0-9a-z].*)?",
        re.IGNORECASE | re.DOTALL,
    ),
}
"""What a value looks like, whatever its label is called. Pods' random parts have no vowels and none of 0, 1 and 3
(k8s.io/apimachinery/pkg/util/rand)."""

_SERVER = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:]+\]):\d{1,3}/?", re.IGNORECASE)
"""An address with one of the ports below 1024: of a server that the program was given, as one of a few."""

BUILD = "a build's version"
IMAGE = "an image of one build"
NUMBERED = "one of many that differ in a number"
BUILD_OF_ONE = "a name with its version"
OF_INFOS = (BUILD, IMAGE, BUILD_OF_ONE)
"""What families ``…_info`` are for."""

_PART = r"(?:.*[^0-9a-z])?"
_MIXED = r"[a-z]*(?:\d+[a-z]+){2,}\d*"
"""Digits and letters in turn, as no word has them: ``v1alpha1`` and ``secp256r1`` have one letter after a digit."""

_TERM = r"[a-z0-9][\w./-]*(?: ?[!=]?= ?[\w.-]*| (?:not)?in \([^)]*\))"

_TO_THE_SECOND = r"(?:\d+h)?\d+m\d?[1-46-9]s"
"""What someone chose is mostly a multiple of five seconds."""

_MANY_SHAPES = {
    "a hash": (2, re.compile(r"(?=.*\d)(?=.*[a-f])[0-9a-f]{7,}(?:\.{2,3}[0-9a-f]{7,})?")),
    "a name with a hash": (3, re.compile(r"[a-z][a-z0-9.]*[-_](?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,}")),
    "a random name": (3, re.compile(r"(?=\D*\d)(?=.*[a-z].*[a-z])(?=.*\d\D+\d|.*[a-z]\d+[a-z])[a-z0-9]{8,20}")),
    "a cloud's identifier": (2, re.compile(r"(?=.*\d)(?=.*[A-Z].*[A-Z])[A-Z0-9]{14,}")),
    "a coded text": (2, re.compile(r"eyJ[0-9A-Za-z_-]{8,}=*|(?=.*[a-z])(?=.*[A-Z])[0-9A-Za-z+/]{11,}={1,2}")),
    "a position in a log": (2, re.compile(r"[0-9A-F]{1,8}/[0-9A-F]{6,8}")),
    "a number of an issue": (
        2,
        re.compile(r"\S*#\d+|(?:.*[^A-Z])?(?!ISO|(?:RSA|DSA|RFC|SHA|DH)-)[A-Z]{2,}-\d{4,}(?:\D.*)?", re.DOTALL),
    ),
    "a time of day": (5, re.compile(r"\d\d:\d\d")),
    "a server's address": (3, _SERVER),
    "a place": (2, re.compile(r"-?\d{1,3}\.\d+, ?-?\d{1,3}\.\d+")),
    "a client's version": (2, re.compile(r"[a-z][\w.+-]*/v?\d+\.\d+\.\d+\S*", re.IGNORECASE)),
    BUILD: (
        2,
        re.compile(r"v?\d+\.\d+\.\d+[-+.](?:\S*[-+.])?g?(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}(?:[-+.]\S*)?", re.I),
    ),
    IMAGE: (2, re.compile(r"\S+/\S+:\S*[-.+](?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}", re.I)),
    "a message with a number in it": (2, re.compile(r"(?=.*\d)[a-z]\S*(?:\s+\S+){3,}", re.IGNORECASE)),
    "a schedule": (2, re.compile(r"(?:[\d*/,-]+ ){4}[\d*/,A-Za-z-]+")),
    "a month": (2, re.compile(r"(?:19|20)\d\d[-/](?:0[1-9]|1[0-2])")),
    "a name with a month": (2, re.compile(r"[a-z].*[-_.](?:19|20)\d\d[-_]?(?:0[1-9]|1[0-2])", re.IGNORECASE)),
    "a random part": (3, re.compile(rf"{_PART}(?=[0-9a-z]{{8,}}$){_MIXED}", re.IGNORECASE)),
    "a long random part": (2, re.compile(rf"{_PART}(?=[0-9a-z]{{12,}}$){_MIXED}", re.IGNORECASE)),
    "a URL": (5, re.compile(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)),
    "a duration": (
        3,
        re.compile(rf"-?(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)(?:s|ms|µs|us|ns)|{_TO_THE_SECOND}"),
    ),
    "a URL with a path": (3, re.compile(r"(?!spiffe)[a-z][a-z0-9+.-]*://[^/\s]+(?:/[^/\s]+){2,}/?", re.IGNORECASE)),
    "a file's path": (3, re.compile(r"(?=.*[a-z])(?:[\w.-]+/)+[\w.-]+\.[a-z]{1,5}", re.IGNORECASE)),
    BUILD_OF_ONE: (3, re.compile(r"[a-z][\w-]*-v?\d+\.\d+\.\d+")),
    "a Service's address": (3, re.compile(r"[a-z0-9-]+\.[a-z0-9-]+\.svc(?:[.:]\S*)?")),
    "a network": (5, re.compile(r"\d{1,3}(?:\.\d{1,3}){3}/\d{1,2}|(?=.*:)[0-9a-f:]{3,40}/\d{1,3}", re.IGNORECASE)),
    "a selector of labels": (2, re.compile(rf"{_TERM}(?:, ?{_TERM})*")),
    "a duration to the second": (2, re.compile(_TO_THE_SECOND)),
    # Of a scale of factors a few have as many: 1, 1.125, 1.0625.
    "a number with many digits": (1, re.compile(r"-?\d+\.\d{4,}(?:e[+-]?\d+)?", re.IGNORECASE)),
    "a number in hexadecimal": (3, re.compile(r"0x[0-9a-f]+", re.IGNORECASE)),
    "a text with an address": (2, re.compile(r"(?:.*[^\d.\w])?\d{1,3}(?:\.\d{1,3}){3}(?:[~@|_ ]|/\D).+", re.DOTALL)),
    "a number with leading zeros": (2, re.compile(r"(?=0.*[1-9])\d{6,}")),
    "a number in a name with leading zeros": (2, re.compile(r"[a-z][\w.]*[-_]0\d{4,}", re.IGNORECASE)),
    "a town": (3, re.compile(r"[A-Z][\w .'-]+, [A-Z]{2}")),
    "a number of six digits": (3, re.compile(r"(?!0)\d{6,}")),
    "a large number": (8, re.compile(r"(?!0)\d{6,}|6553[6-9]|655[4-9]\d|65[6-9]\d\d|6[6-9]\d{3}|[7-9]\d{4}")),
    "a number with a fraction": (10, re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?", re.IGNORECASE)),
}
"""What one value may look like by coincidence or as a setting: only so many that do are unbounded.
Ports end at 65535."""

_OF_FACTS = ("a URL with a path", "a sentence", "a message with a number in it", "a number in hexadecimal")

_NUMBERS = re.compile(r"\d+")
_NAMED_NUMBER = re.compile(r"(?=.*[a-z]{2}|[a-z][-_]).*\d.*", re.IGNORECASE)
# Not `.*[a-z].*…`: values may be long, and are matched in linear time.
_SEPARATED = re.compile(r"(?=.*[a-z]).*[-_./]v?\d+", re.IGNORECASE)
_FIXED = re.compile(
    r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}"
    r"|(?:[a-z][a-z0-9+.-]*://)?(?:127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1?\])"
    r"(?::(?:\d{1,4}|[12]\d{4}|3[01]\d{3}|32[0-6]\d\d|327[0-5]\d|3276[0-7]))?/?",
    re.IGNORECASE,
)
"""A network card's address, as fixed as the card, and those that a program on this machine listens on. Ports from 32768
on are those of who connects (ip_local_port_range)."""

_OF_THREADS = re.compile(
    r"pool-\d+-thread-\d+|(?:goroutine|thread|coroutine|fiber|task|pid|process|worker|conn(?:ection)?)\W?\d{3,}"
    r"|(?:goroutine|coroutine|fiber|pid|conn(?:ection)?|session|request|attempt)\W?\d+"
    r"|[\w.-]+-exec-\d+|(?:[\w.]+-)?(?:ForkJoinPool|\w*EventLoopGroup)[\w.-]*\d+",
    re.IGNORECASE,
)
"""What a language numbers as it makes it, and never the same again."""

_MANY_NUMBERS = 5
_SPREAD_NUMBERS = 4
_FAR = 100
"""Numbers from here on are identifiers sooner than parts of a fixed list: zones, devices, versions."""


_PASSING = (32_768, 65_535)
"""Ports of those who connect (ip_local_port_range)."""

_DRAWN, _SOME_DRAWN = (30_000, 32_767), 3
"""Ports of nodes that a cluster draws for Services (service-node-port-range), from as many on."""

_IDENTIFIER = re.compile(r"\d+|.*[-_./:]\d+|.*\d{2}.*|[a-z0-9][\w.-]*/[a-z0-9][\w.-]*", re.DOTALL)

_PORT = re.compile(r"(?<=[a-z]):\d{2,5}(?=/|$)")


_OF_PEERS = re.compile(r"(?:.*_)?(?:peer|client|remote|source|src|caller|local)_?port", re.IGNORECASE)


def shape_under(label: str, values: Collection[str], *, info: bool) -> tuple[str, str] | None:
    """Return what values look like under a label that says what they are of, and one of them; None where bounded.

    ``info``: whether they are facts of an info, which has any.
    """
    kinds = (_times, _ports) if info else (_times, _ports, _peers, _owned, _hashes, _issues, _messages)
    return next((found for of in kinds if (found := of(label, values)) is not None), None)


_OF_TIMES = re.compile(
    r"(?:.*_)?(?:hour|minute|second|week_?day|day|week|month|year|date|day_of_\w+|hour_of_\w+|time_of_\w+)",
    re.IGNORECASE,
)
_PART_OF_TIME = re.compile(rf"\d{{1,4}}|{_DAY}|{_MONTH}|\d\d?(?:am|pm)", re.IGNORECASE)


def _times(label: str, values: Collection[str]) -> tuple[str, str] | None:
    """Return that values are hours, days or months, and one of them: each sample has its time; None where not."""
    times = len(values) > 1 and _OF_TIMES.fullmatch(label) and all(map(_PART_OF_TIME.fullmatch, values))
    return ("a time", next(iter(values))) if times else None


def _ports(label: str, values: Collection[str]) -> tuple[str, str] | None:
    """Return that values are ports of those who connect, or that a cluster draws, and one of them; None if not."""
    if label.lower().endswith("port"):
        drawn = [value for value in values if value.isdecimal() and _DRAWN[0] <= int(value) <= _DRAWN[1]]
        if len(drawn) >= _SOME_DRAWN:
            return "a port of a Service on each node", drawn[0]
    if not _OF_PEERS.fullmatch(label):
        return None
    passing = [value for value in values if value.isdecimal() and _PASSING[0] <= int(value) <= _PASSING[1]]
    return ("a port of who connects", passing[0]) if len(passing) > 1 else None


_HOST = re.compile(r"(?:[a-z0-9_*-]+\.){2,}[a-z]{2,}\.?", re.IGNORECASE)
_OF_HOSTS = re.compile(
    r"(?:.*_)?(?:(?:v|virtual_?)?host(?:_?names?)?|domain(?:_name)?|fqdn|dns_?name|record|sni|server_?name|site)",
    re.IGNORECASE,
)
_OF_CERTIFICATES = re.compile(r"(?:.*_)?(?:common_?name|cn|sans?|subject_alt(?:ernative)?_?names?)", re.IGNORECASE)
_MANY_HOSTS, _SOME_HOSTS = 8, 3
"""Servers that a program was given are fewer; each certificate has a name of its own."""
_CARD = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}", re.IGNORECASE)
_MANY_CARDS = 4
"""A machine's own are fewer, or facts of an info."""


def _peers(label: str, values: Collection[str]) -> tuple[str, str] | None:
    """Return that many values are hosts or network cards of others, and one of them; None where they are not."""
    certified = _OF_CERTIFICATES.fullmatch(label) is not None
    of_hosts = certified or _OF_HOSTS.fullmatch(label)
    hosts = [value for value in values if _HOST.fullmatch(value)] if of_hosts else []
    if len(hosts) >= (_SOME_HOSTS if certified else _MANY_HOSTS) and 2 * len(hosts) >= len(values):
        return "a host's name", hosts[0]
    cards = [value for value in values if _CARD.fullmatch(value)]
    return ("a network card's address", cards[0]) if len(cards) >= _MANY_CARDS else None


_OWNED = re.compile(
    r"(?!(?:application|audio|font|image|multipart|text|video)/)([\w.-]+)/(?!v\d)[\w.-]+", re.IGNORECASE
)
_MANY_OWNED = 10
_OF_OBJECTS = re.compile(
    r"(?:.*_)?(?:owner|parent|target|obj(?:ect)?|ref(?:erence)?|subject|workload|instance|source|destination"
    r"|namespaced_?name|claim|app|tenant|item|key)",
    re.IGNORECASE,
)
_SOME_OWNED = 3


def _owned(label: str, values: Collection[str]) -> tuple[str, str] | None:
    """Return that many values are names with their owners, most of another one, and one of them; None if not.

    Under a label that means objects a few are enough: not a kind in the plural with its API group.
    """
    matches = [match for value in values if (match := _OWNED.fullmatch(value))]
    objects = _OF_OBJECTS.fullmatch(label) is not None and not all(value.endswith("s") for value in values)
    enough = max(_SOME_OWNED if objects else _MANY_OWNED, len(values) / 2)
    if len(matches) < enough or 3 * len({match[1] for match in matches}) < 2 * len(matches):
        return None
    return "a name with its owner", matches[0][0]


_OF_HASHES = re.compile(r"(?:.*_)?(?:hash|sha\d*|digest|checksum|fingerprint|thumbprint)", re.IGNORECASE)
_OF_TOKENS = re.compile(r"(?:.*_)?(?:etag|nonce|cursor)", re.IGNORECASE)
_HASH = re.compile(r"(?=.*\d)(?=.*[a-f])[0-9a-f]{5,}", re.IGNORECASE)
_DIGIT = re.compile(r".*\d.*", re.DOTALL)


def _hashes(label: str, values: Collection[str]) -> tuple[str, str] | None:
    """Return that values under such a label are hashes, however short, and one of them; None where they are not."""
    form = _DIGIT if _OF_TOKENS.fullmatch(label) else _HASH if _OF_HASHES.fullmatch(label) else None
    hashes = [value for value in values if form.fullmatch(value)] if form is not None else []
    return ("a hash", hashes[0]) if len(hashes) > 1 else None


_OF_ISSUES = re.compile(r"(?:.*_)?(?:pull|pr|issue|ticket|mr|merge_request|pull_request|bug|incident)", re.IGNORECASE)
_ISSUE = re.compile(r"\D*\d+")


def _issues(label: str, values: Collection[str]) -> tuple[str, str] | None:
    """Return that values are numbers of issues or pull requests, and one of them; None where they are not."""
    issues = len(values) > 1 and _OF_ISSUES.fullmatch(label) and all(map(_ISSUE.fullmatch, values))
    return ("a number of an issue", next(iter(values))) if issues else None


_OF_MESSAGES = re.compile(
    r"(?:.*_)?(?:reason|cause|error|err|message|msg|result|outcome|failure|detail|details|description|why"
    r"|subject|title|summary|comment|prompt|question|answer|query|search|text|content|body|note)",
    re.IGNORECASE,
)
_MESSAGE = re.compile(r"(?=[^ ]*[a-z])\S+(?: \S+)+", re.IGNORECASE)
_MANY_MESSAGES = 5
_OF_WORDS = re.compile(r"\S+(?: \S+){3,}")


def _messages(label: str, values: Collection[str]) -> tuple[str, str] | None:
    """Return that values under a label of errors are texts for people, and one of them; None where they are not.

    A few of two words may be a fixed list.
    """
    texts = [value for value in values if _MESSAGE.fullmatch(value)] if _OF_MESSAGES.fullmatch(label) else []
    if len(texts) >= _MANY_MESSAGES or (len(texts) > 1 and any(map(_OF_WORDS.fullmatch, texts))):
        return "a message", max(texts, key=len)
    return None


_NAMED_IN_PATH = re.compile(r"(?<=/)(?!v\d)[a-z]{3,}s/([a-z0-9][\w.-]*)(?=/[a-z]{3,}s(?:/|$))")


def objects_in_paths(values: Iterable[str]) -> tuple[str, str] | None:
    """Return that paths have names of objects in them, each behind its kind in the plural, and one of them.

    As ``/clusters/orders/topics`` and ``/clusters/billing/topics``.
    """
    known: dict[str, str] = {}
    for value in values:
        for match in _NAMED_IN_PATH.finditer(value):
            around = f"{value[: match.start(1)]}*{value[match.end(1) :].partition('/')[2].partition('/')[0]}"
            other = known.setdefault(around, match[1])
            if other != match[1]:
                return "a path with an object's name", value
    return None


def is_identifier(value: str) -> bool:
    """Return whether a value under a label that often holds identifiers is one: it has a number of its own."""
    return _IDENTIFIER.fullmatch(_PORT.sub("", value)) is not None and not _FIXED.fullmatch(value)


def shape_of(values: Iterable[str], *, info: bool = False) -> tuple[str, str] | None:
    """Return what a value looks like, and that value; None where none looks unbounded.

    ``info``: whether they are facts of an info, which may well be sentences: a processor's model, a weakness of it.
    """
    values = [value for value in values if value and not _FIXED.fullmatch(value)]
    for looks, (least, pattern) in _MANY_SHAPES.items():
        alike = [value for value in values if pattern.fullmatch(value)]
        if len(alike) >= least and 2 * len(alike) >= len(values) and not (info and looks in _OF_FACTS):
            return looks, alike[0]
    for value in values:
        for looks, pattern in _SHAPES.items():
            if pattern.fullmatch(value) and not _SERVER.fullmatch(value) and not (info and looks in _OF_FACTS):
                return looks, value
    return _numbered(values)


def _numbered(values: Iterable[str]) -> tuple[str, str] | None:
    """Return values that differ in a number only, where they are too many or too large for a fixed list."""
    alike: dict[str, list[str]] = {}
    for value in values:
        if _NAMED_NUMBER.fullmatch(value):
            alike.setdefault(_NUMBERS.sub("#", value), []).append(value)
    for some in alike.values():
        ends = sum(_SEPARATED.fullmatch(value) is not None for value in some)
        far = max(int(number) for value in some for number in _NUMBERS.findall(value)) >= _FAR
        made = len(some) > 1 and all(map(_OF_THREADS.fullmatch, some))
        if ends >= _MANY_NUMBERS or (far and len(some) >= _SPREAD_NUMBERS) or made:
            return NUMBERED, some[0]
    return None


_AMOUNTS = frozenset(
    {"replicas", "count", "value", "duration", "seconds", "bytes", "latency", "progress", "percent", "age", "attempt"}
    | {"attempts", "retry", "retries", "generation", "observed_generation", "revision", "line", "size"}
    | {"retry_after", "backoff", "delay", "wait", "wait_time"}
)
"""Labels that hold what the value of a series is for: an amount that changes."""
_AMOUNT = re.compile(r"(-?\d+(?:\.\d+)?)(?:/\d+)? ?(?:[KMGTP]i?B?|kB|B|%|m|[mµn]?s)?")
_OF_CLASSES = re.compile(r"class|tier|plan|flavou?r|preset|range|bucket|version|release|tag|level", re.IGNORECASE)
_BYTES = re.compile(r"\d+(?:\.\d+)?(?:[KMGTP]i|[KMGT]i?B)")
_MILLICORES = re.compile(r"[1-9]\d{2,}m")
_MEASURED = re.compile(r"-?(\d+)\.\d+")
_CHANGES = re.compile(
    r"(?:^|_)(?:generation|revision|attempts?|retry|retries|try|tries|replicas|(?:attempt|retry)_(?:number|no|count|index)"
    r"|(?:raft|leader|election)_?(?:term|epoch)|epoch|offset|lsn|[tz]?xid|sequence(?:_number)?|seq|iteration"
    r"|free|used|usage|utili[sz]ation|remaining|left|elapsed|lag|progress)$"
)
"""The end of the names of labels that number what happens to one object, or say how much there is now."""
_OF_SEVERAL = re.compile(
    r"(?!.*(?:status|class|address|process|access|ports|ids|codes|bits|bytes)$)[a-z_]*[a-z]{2}s", re.IGNORECASE
)
_MANY_MEASURED = 4
_MANY_AMOUNTS = 5
"""Different numbers under a label that is called after several things."""

_FEW_CHANGES = 2
"""A single number up to this one may be of a fixed list, as of generations of hardware."""


def is_amount(label: str, values: Collection[str]) -> bool:
    """Return whether the values of a label are amounts, by its name and by what they are."""
    if label.lower() in ("value", "val"):
        return True
    amounts = [_AMOUNT.fullmatch(value) for value in values]
    if not all(amounts):
        return False
    if _OF_SEVERAL.fullmatch(label) and len(values) >= _MANY_AMOUNTS and all(map(str.isdecimal, values)):
        numbers = sorted(map(int, values))
        return numbers[-1] - numbers[0] >= len(numbers)
    if not _OF_CLASSES.search(label) and (
        (len(values) > 1 and all(map(_BYTES.fullmatch, values)))
        or sum(map(bool, map(_MILLICORES.fullmatch, values))) > 1
        or _are_measured(values)
    ):
        return True
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", label).lower()
    if name == "size" and {*values} == {*map(str, range(len(values)))}:
        return False  # classes of sizes, numbered
    if _CHANGES.search(name):
        return len(values) > 1 or any(float(amount[1]) > _FEW_CHANGES for amount in amounts if amount)
    return len(values) > 1 and name in _AMOUNTS


def are_spread(values: Collection[str]) -> bool:
    """Return whether all are whole numbers with gaps between them, as a list of classes or devices has none."""
    numbers = sorted(map(int, values)) if all(map(str.isdecimal, values)) else []
    return len(numbers) >= _MANY_MEASURED and numbers[-1] - numbers[0] > 2 * len(numbers)


def _are_measured(values: Collection[str]) -> bool:
    """Return whether all are numbers with a fraction, spread as no list of versions or factors is."""
    matches = [_MEASURED.fullmatch(value) for value in values]
    wholes = {int(match[1]) for match in matches if match}
    return all(matches) and len(wholes) >= _MANY_MEASURED and max(wholes) >= 10
