"""How an object changed between two events of a watch, without its values: the paths of the fields, and of what kind.

The audit log is at level Metadata and says that an object was written, not what for. A controller that writes a new
time, a counter or the same list in another order looks as busy there as one that works. Of each object the parts that
people and controllers write are kept as JSON, undecoded; only a part whose bytes differ is decoded. Of a Secret only
digests of its parts are kept, by a key that is in no file: that its data changed, and when, says nothing of them.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence, Set
from datetime import datetime
from typing import Any

import msgspec

from .. import redaction
from . import object_references
from .object_cache import ObjectKey
from .object_versions import ANNOTATIONS, LABELS, Version
from .records import Difference, DifferenceKind

_PATHS = 8
"""Paths of one difference that are kept."""

_NUMBERS = 32
"""Numbers, phases and conditions of one object that are kept."""

_BUDGET = 32 << 20
"""Bytes of objects that one watch keeps; further objects are not compared."""

_HISTORY = 64
"""Places of one object whose value before the last is kept."""

_STEPS_S = (86_400, 3_600, 60)
_FRESH_S = 3.0
"""Age up to which a time was the present one when it was written, s."""

_KEY = secrets.token_bytes(32)
"""Of digests: they compare parts within one process, and are written nowhere."""

_OPEN = (ANNOTATIONS, "status", "data")
"""Parts that anyone with the right to read objects sees, and in which operators put credentials."""

_VARIABLE = re.compile(rb'\{"name":"(\w+)","value":"([^"\\]{6,256})"')
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_LEAST_SECRET, _LONGEST_TEXT = 6, 4096
_HARMLESS, _SHORT = 4096, 96
_LOOKS = 2
"""Versions of one object in which credentials are looked for: the search costs as much as all else."""

_UNSET = frozenset({b"null", b"0", b'""', b"[]", b"{}"})
"""What a field has that its writer did not set."""

_OPENING, _LIST, _NULL, _NUMERIC = b"{", b"[", msgspec.Raw(b"null"), b"-0123456789"

_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?|\b\d\d:\d\d:\d\d\b|\b1\d{9}(\d{3}){0,3}\b"
)
_TIME_NAME = re.compile(
    r"(^|_)(time|timestamp|heartbeat|uptime|elapsed|age|at)$|(Time|Timestamp|Heartbeat|Uptime|Elapsed|Age|At|Seen)$"
)
_COUNTER_NAME = re.compile(
    r"attempt|retr(y|ies)|tries|syncs?$|reconcil|heartbeat|sequence|iteration|observations|resync", re.IGNORECASE
)
_ENUM = frozenset({"phase", "state"})
_CONDITIONS, _MOVED = "status.conditions[", "].lastTransitionTime"
_POSITION = re.compile(r"\[\d+\]")


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Facts(msgspec.Struct, frozen=True, gc=False):
    """What the recording keeps of one version of an object, beside the fields that conditions need."""

    difference: Difference | None = None
    """None for a version without a known one before it."""
    numbers: dict[str, str | int] = {}
    """Changed ones of: whole numbers and phases of spec and status, lengths of lists of spec, status of conditions."""
    written: list[str] = []
    """Declared fields of a status that no object had before; see `Comparer.look_for`."""
    coarse: dict[str, int] = {}
    """Path of a new time that is rounded to a minute, an hour or a day → that length, s."""
    needs: list[str] = []
    """Of a first version, what it names and needs; see `object_references`."""
    dropped: list[str] = []
    """Of a later version, what its spec may have named before, and does not any more; see `object_references`."""
    selects: str = ""
    """Of a first version, a checksum of what it selects its pods by; empty without."""
    selector: dict[str, str] = {}
    """Of a first version, the labels that it wants of pods."""
    labels: dict[str, str] = {}
    """Of a pod, those that none of its namespace had before."""
    exposed: list[str] = []
    """Changed fields of annotations, status and data, and variables of containers, that hold what looks like a
    credential."""


NO_FACTS = Facts()
"""Of a version that is not compared."""


class Known(msgspec.Struct, gc=False):
    """What is known of an object: its last version, and what changed before."""

    uid: str
    parts: dict[str, bytes]
    """By name; of Secrets, digests."""
    size: int
    """Bytes of the parts."""
    fields: dict[str, Any]
    """The values that the watch keeps."""
    generation: int
    numbers: dict[str, str | int]
    before: dict[str, Any]
    """Place → its value before the last change of it."""
    looks: int = 0
    """How many of its versions were searched for credentials."""


class Comparer:
    """Compares each version of a watch's objects with the one before."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._secret = resource == "secrets"
        self._numbers = resource not in ("pods", "secrets")
        self._known: dict[ObjectKey, Known] = {}
        self._harmless: set[str] = set()
        """Short lines without a credential: most of an object's are those of many others."""
        self._unwritten: set[str] = set()
        self._labels = object_references.PodLabels() if resource == "pods" else None
        self._bytes = 0
        self.full = False
        """Whether there was an object for which there was no room."""

    def look_for(self, fields: Iterable[str]) -> None:
        """Note which fields right below a status are to be found: each is reported of the first object that has it."""
        self._unwritten = set(fields)

    def known(self, key: ObjectKey, uid: str) -> Known | None:
        """Return what is known of an object; None for a new one."""
        known = self._known.get(key)
        return known if known is not None and known.uid == uid else None

    def forget(self, key: ObjectKey) -> None:
        """Drop an object that is gone."""
        known = self._known.pop(key, None)
        if known is not None:
            self._bytes -= known.size

    def facts(
        self,
        version: Version,
        data: msgspec.Raw,
        *,
        parts: dict[str, bytes],
        fields: dict[str, Any],
        wall_s: float,
    ) -> Facts | None:
        """Return what there is to say of an object's newest version; None where it is not compared.

        ``data``: its JSON; ``parts``: those of the version; ``fields``: what the watch keeps of it. ``wall_s``: when it
        was seen, seconds since 1970: a time in it may be that moment, rounded.
        """
        metadata = version.metadata
        key, generation = (metadata.namespace, metadata.name), metadata.generation
        known = self.known(key, metadata.uid)
        if known is None:
            self.forget(key)
            if self._bytes >= _BUDGET:
                self.full = True
                return None
        if self._secret:
            parts = {name: _digest(part) for name, part in parts.items()}
        coarse: dict[str, int] = {}
        needs, dropped, selects, selector = list[str](), list[str](), "", dict[str, str]()
        difference = None
        size = sum(map(len, parts.values()))
        if known is None:
            known = self._known[key] = Known(metadata.uid, {}, 0, {}, 0, {}, {})
            changed = parts
            needs = object_references.needed(self._resource, data)
            selects = object_references.selected(self._resource, data)
            selector = object_references.selector(self._resource, data)
        else:
            changed = {name: part for name, part in parts.items() if part != known.parts.get(name)}
            if "spec" in changed:
                dropped = object_references.dropped(self._resource, known.parts.get("spec", b""), changed["spec"])
            difference, coarse = _difference(known, parts, generation, size, wall_s, secret=self._secret)
        self._bytes += size - known.size
        first = difference is None
        numbers = self._read(known, changed, generation if first or generation != known.generation else None)
        known.parts, known.size, known.fields, known.generation = parts, size, fields, generation
        return Facts(
            difference=difference,
            numbers=numbers,
            written=self._written(changed.get("status", b"")) if self._unwritten else [],
            coarse=coarse,
            needs=needs,
            dropped=dropped,
            selects=selects,
            selector=selector,
            labels=self._labels.new(metadata.namespace, changed.get(LABELS, b"")) if self._labels is not None else {},
            exposed=self._exposed(known, changed),
        )

    def _written(self, status: bytes) -> list[str]:
        fields = _fields(status) if status.startswith(_OPENING) else {}
        found = sorted(name for name in self._unwritten & set(fields) if bytes(fields[name]) not in _UNSET)
        self._unwritten.difference_update(found)
        return found

    def _exposed(self, known: Known, changed: dict[str, bytes]) -> list[str]:
        if self._secret or known.looks >= _LOOKS:
            return []
        in_environment = list(_environment(changed.get("spec", b"")))
        if not self._numbers:
            known.looks += "spec" in changed
            return in_environment[:_PATHS]
        open_parts = [name for name in _OPEN if name in changed]
        known.looks += bool(open_parts)
        found = [path for name in open_parts for path in self._with_credentials(name, changed[name])]
        return [*in_environment, *found][:_PATHS]

    def _with_credentials(self, name: str, part: bytes) -> list[str]:
        """Return the fields of a part with text that is taken out of logs and reports."""
        found = {path: f"{path.rpartition('.')[2]}: {text}" for path, text in _texts(name, msgspec.json.decode(part))}
        lines = {path: line for path, line in found.items() if line not in self._harmless}
        # As a whole first: hardly any has one.
        if not lines or not redaction.has_credentials("\n".join(lines.values())):
            if len(self._harmless) < _HARMLESS:
                self._harmless.update(line for line in lines.values() if len(line) <= _SHORT)
            return []
        return [path for path, line in lines.items() if redaction.has_credentials(line)]

    def _read(self, known: Known, changed: dict[str, bytes], generation: int | None) -> dict[str, str | int]:
        if not self._numbers:
            return {}
        numbers: dict[str, str | int] = {}
        for name in ("spec", "status"):
            if name in changed and changed[name].startswith(_OPENING):
                numbers |= dict(_numbers(name, _fields(changed[name])))
        if generation is not None:
            numbers["metadata.generation"] = generation
        fresh = {path: value for path, value in numbers.items() if known.numbers.get(path) != value}
        room = _NUMBERS - len(known.numbers)
        kept = {path: value for path, value in fresh.items() if path in known.numbers or (room := room - 1) >= 0}
        known.numbers |= kept
        return kept


def _environment(spec: bytes) -> Iterator[str]:
    """Yield the variables of containers, of a pod or in a template, whose value is a credential in plain text.

    They are found without decoding: the API server writes an EnvVar's fields in this order.
    """
    for found in _VARIABLE.finditer(spec) if b'"env":' in spec else ():
        name, value = (text.decode(errors="replace") for text in found.groups())
        if redaction.has_credentials(f"{name}: {value}"):
            yield f"env[{name}] in spec"


def _digest(part: bytes) -> bytes:
    return hashlib.blake2b(part, digest_size=16, key=_KEY).digest()


def _texts(path: str, content: Any) -> Iterator[tuple[str, str]]:
    if isinstance(content, dict):
        for key, value in content.items():
            if key != _LAST_APPLIED:
                yield from _texts(f"{path}.{key}", value)
    elif isinstance(content, list):
        for value in content:
            yield from _texts(f"{path}[]", value)
    elif isinstance(content, str) and len(content) >= _LEAST_SECRET:
        yield path, content[:_LONGEST_TEXT]


def _difference(
    known: Known, parts: dict[str, bytes], generation: int, size: int, wall_s: float, *, secret: bool
) -> tuple[Difference, dict[str, int]]:
    """Return how an object changed, and which new times of it are rounded. ``secret``: the parts are digests."""
    changes: list[_Change] = []
    for name in {**known.parts, **parts} if parts != known.parts else ():
        old, new = known.parts.get(name), parts.get(name)
        if old == new:
            continue
        if name == "data" or secret:
            # Its keys are contents, too.
            changes.append((name, "content", _digest(old or b""), _digest(new or b"")))
        else:
            changes += _changes_of_part(name, old, new)
    back = _back(known.before, changes)
    paths = list(dict.fromkeys(_path(place) for place, _, _, _ in changes))
    kinds = {kind for _, kind, _, _ in changes}
    # An object's first status appears as a whole.
    of_status = (
        (_path(place), new) for place, _, _, new in changes if place == "status" or place.startswith("status.")
    )
    coarse = dict(one for path, new in of_status for one in _coarse(path, new, wall_s))
    difference = Difference(
        kind=_kind(kinds, generation=generation != known.generation),
        paths=paths[:_PATHS],
        back=back[:_PATHS],
        moved=_moved({place for place, _, old, _ in changes if old is not None}),
        grown=size - known.size,
    )
    return difference, coarse


_Change = tuple[str, DifferenceKind, Any, Any]
"""Place, kind, and both values. A place is a path with the positions in lists: ``status.conditions[1].message``."""


def _path(place: str) -> str:
    return _POSITION.sub("[]", place) if "[" in place else place


def _back(before: dict[str, Any], changes: Sequence[_Change]) -> list[str]:
    """Return the paths that have the value again that they had before the last change, and note those of this one.

    What an element of a list had that is now in another place has moved, as all do behind one that was taken out.
    """
    back: list[str] = []
    for place, _, old, new in changes:
        if place in before and before[place] == new and not isinstance(new, dict | list):
            path = _path(place)
            if path == place or not any(one == new and _path(other) == path for other, _, one, _ in changes):
                back.append(path)
        if place in before or len(before) < _HISTORY:
            before[place] = old
    return list(dict.fromkeys(back))


def _moved(places: Set[str]) -> int:
    """Return the number of conditions whose time of transition changed, and neither status nor type."""
    moved = [place.removesuffix(_MOVED) for place in places if place.startswith(_CONDITIONS) and place.endswith(_MOVED)]
    return sum(places.isdisjoint((f"{one}].status", f"{one}].type")) for one in moved)


def _kind(kinds: set[DifferenceKind], *, generation: bool) -> DifferenceKind:
    if not kinds:
        return "generation" if generation else "none"
    return next(iter(kinds)) if len(kinds) == 1 else "bookkeeping" if "content" not in kinds else "content"


def _changes_of_part(name: str, old: bytes | None, new: bytes | None) -> Iterator[_Change]:
    """Yield the leaves of a part that differ; only fields that do are decoded."""
    if not (old and new and old.startswith(_OPENING) and new.startswith(_OPENING)):
        yield from _changes(name, *(None if part is None else msgspec.json.decode(part) for part in (old, new)))
        return
    olds, news = _fields(old), _fields(new)
    for key in {**olds, **news}:
        before, now = olds.get(key, _NULL), news.get(key, _NULL)
        if before != now:
            yield from _changes(f"{name}.{key}", msgspec.json.decode(before), msgspec.json.decode(now))


def _changes(place: str, old: Any, new: Any) -> Iterator[_Change]:
    """Yield the leaves that differ, each by its place."""
    if old == new and type(old) is type(new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from _changes(f"{place}.{key}", old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) == len(new) and _same_elements(old, new):
            yield place, "order", None, None
        elif len(old) == len(new):
            for position, (one, other) in enumerate(zip(old, new, strict=True)):
                yield from _changes(f"{place}[{position}]", one, other)
        else:
            yield place, "content", None, None
    else:
        yield place, _leaf(place, old, new), old, new


def _same_elements(old: list[Any], new: list[Any]) -> bool:
    encode = msgspec.json.encode
    return sorted(map(encode, old)) == sorted(map(encode, new))


def _leaf(place: str, old: Any, new: Any) -> DifferenceKind:
    name = _path(place.rpartition(".")[2]).removesuffix("[]")
    if isinstance(old, str) and isinstance(new, str):
        if _TIME.search(old) and _TIME.sub("", old) == _TIME.sub("", new):
            return "time"
        return "time" if _TIME_NAME.search(name) and any(map(str.isdigit, old + new)) else "content"
    if isinstance(old, bool) or isinstance(new, bool):
        return "content"
    if isinstance(old, int | float) and isinstance(new, int | float):
        if _TIME_NAME.search(name):
            return "time"
        # How often it tried is no news of the object; how many replicas are ready is.
        return "counter" if _COUNTER_NAME.search(name) and new > old else "content"
    return "content"


def _rounded_to(value: str, wall_s: float) -> int:
    """Return the longest of a day, an hour and a minute that a time is rounded to, s; 0 for a finer or another time.

    A time that happens to be a whole minute is not older than the write that brought it.
    """
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return 0
    age = wall_s - moment.timestamp() if moment.tzinfo is not None else 0.0
    seconds = moment.hour * 3600 + moment.minute * 60 + moment.second
    if moment.microsecond:
        return 0
    return next((step for step in _STEPS_S if seconds % step == 0 and _FRESH_S < age < step), 0)


def _numbers(path: str, fields: dict[str, msgspec.Raw]) -> Iterator[tuple[str, str | int]]:
    """Yield whole numbers and phases right below spec or status, lengths of lists below spec, and conditions."""
    for key, raw in fields.items():
        text = bytes(raw)
        if path == "spec" and text.startswith(_LIST):
            yield f"{path}.{key}[]", len(_elements(text))
        elif text[0] in _NUMERIC or key in _ENUM:
            value = msgspec.json.decode(text)
            if type(value) is int or (key in _ENUM and isinstance(value, str)):
                yield f"{path}.{key}", value
        elif key == "conditions" and path == "status" and text.startswith(_LIST):
            for one in msgspec.json.decode(text):
                if isinstance(one, dict) and isinstance(one.get("type"), str) and isinstance(one.get("status"), str):
                    yield f"status.conditions[type={one['type']}].status", one["status"]


def _coarse(path: str, content: Any, wall_s: float) -> Iterator[tuple[str, int]]:
    """Yield path → step for each time that is rounded."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _coarse(f"{path}.{key}", value, wall_s)
    elif isinstance(content, list):
        for value in content:
            yield from _coarse(f"{path}[]", value, wall_s)
    elif isinstance(content, str) and _whole_minute(content) and (step := _rounded_to(content, wall_s)):
        yield path, step


def _whole_minute(text: str) -> bool:
    """Return whether a text is a time without seconds, by its places first: nearly all texts of a status are none."""
    if text[4:5] != "-" or text[10:11] not in ("T", " ") or (text[16:17] == ":" and text[17:19] != "00"):
        return False
    return _TIME.fullmatch(text) is not None
