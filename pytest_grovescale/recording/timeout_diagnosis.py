"""Why a phase timed out: which objects are late, and what the API says about them. Bounded at any scale."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import UNSET

from .. import redaction
from ..kube.client import Client
from ..kube.errors import ApiError, NotFound
from ..suggestions import near_names
from .conditions import Predicate, WatchSpec, compile_predicate
from .evaluation import Shortfall
from .fieldpath import Key, Select, lookup, parse
from .records import LateObject, ObjectRef

LIMIT = 10
"""Maximum number of late objects reported for each milestone."""

_EVENTS = 5
_REQUEST_S = 3.0
_TEXT = 300
_TIMES = " (×"
_PREEMPTION = re.compile(r"\.? (?:no new claims to deallocate, )?preemption: .*")

_Object = dict[str, Any]


async def account(shortfalls: list[Shortfall], client: Client, *, phase: str, at: int) -> list[LateObject]:
    """Return the late objects of all open milestones: one GET and one bounded LIST of events for each object.

    Beside the first that is no pod, one bounded LIST of its namespace's pods without a node.
    For those that do not exist, one LIST of the namespace's warnings: who should make them says there why it cannot.
    After an API server failed to answer once, it is not asked about the other objects.
    """
    found: list[LateObject] = []
    reachable = True

    def add(milestone: str, ref: ObjectRef, reason: str, events: list[str], owner: str = "") -> None:
        safe = [redaction.text(event) for event in events]
        reason = redaction.text(reason)
        found.append(
            LateObject(at=at, phase=phase, milestone=milestone, object=ref, owner=owner, reason=reason, events=safe)
        )

    for shortfall in shortfalls:
        if missing := _missing(shortfall):
            watch = shortfall.count.watch
            names = shortfall.count.names
            name = names[0] if len(names) == 1 else ""
            ref = ObjectRef(resource=watch.resource, namespace=_namespace(watch.path), name=name)
            others, events = "", list[str]()
            if reachable and ref.namespace:
                try:
                    others, events = await _others(watch, client), await _warnings(ref, client)
                except ApiError as error:
                    reachable = 400 <= error.code < 500
            add(shortfall.milestone, ref, missing + others, events)
        for ref in shortfall.objects[:LIMIT]:
            owner, reason, events = "", "the API server does not answer", list[str]()
            if reachable:
                # Of the first one: mostly all wait for the same.
                pods = await _without_node(ref, client) if ref is shortfall.objects[0] and not shortfall.surplus else []
                owner, reason, events, reachable = await _tell(ref, shortfall, client, pods)
            add(shortfall.milestone, ref, reason, events, owner)
    return found


def _missing(shortfall: Shortfall) -> str:
    """Return a note about objects that do not exist, when that is (part of) the cause."""
    count = shortfall.count
    absent = count.n - shortfall.have - len(shortfall.objects)
    if shortfall.surplus or absent <= 0 or len(shortfall.objects) >= LIMIT:
        return ""
    return "does not exist" if len(count.names) == 1 else f"{absent} of {count.n} do not exist"


def _namespace(path: str) -> str:
    _, _, rest = path.partition("/namespaces/")
    return rest.split("/")[0]


async def _others(watch: WatchSpec, client: Client) -> str:
    """Return that there are objects which only the selector leaves out, and the first one's labels; else empty."""
    if not watch.label_selector:
        return ""
    found = _parts(await _listed(watch.path, client, limit="1"), "items")
    if not found:
        return ""
    meta = _part(found[0], "metadata")
    labels = ", ".join(f"{name}={value}" for name, value in _part(meta, "labels").items())
    return f"; {meta.get('name')} is there, which {watch.label_selector} does not select: {labels or 'without labels'}"


async def _warnings(ref: ObjectRef, client: Client) -> list[str]:
    """Return the warnings in a namespace about objects that could not be made, each once; of any kind without such."""
    found: dict[tuple[str, str], _Object] = {}
    path = f"/api/v1/namespaces/{ref.namespace}/events"
    for event in _parts(await _listed(path, client, limit="50", fieldSelector="type=Warning"), "items"):
        of = _part(event, "involvedObject")
        # Of many alike, which differ in generated names.
        found[str(of.get("kind")), str(event.get("reason"))] = event
    refused = {key: event for key, event in found.items() if "creat" in key[1].lower()}
    return [
        f"{kind}/{_part(event, 'involvedObject').get('name')}: {_event(event)}"
        for (kind, _), event in list((refused or found).items())[:_EVENTS]
    ]


async def _listed(path: str, client: Client, **parameters: str) -> _Object:
    body = await client.request("GET", path, params=parameters, timeout=_REQUEST_S)
    return msgspec.json.decode(body, type=dict[str, Any])


async def _without_node(ref: ObjectRef, client: Client) -> list[str]:
    """Return what the scheduler says of a pod without a node in an object's namespace; nothing where it is a pod.

    What a custom resource waits for are often its pods, and of these its own status seldom says why.
    """
    if ref.resource == "pods" or not ref.namespace:
        return []
    path = f"/api/v1/namespaces/{ref.namespace}/pods"
    try:
        pods = _parts(await _listed(path, client, limit=str(LIMIT), fieldSelector="spec.nodeName="), "items")
    except ApiError:
        return []  # without the right to list pods the rest stands; a server that does not answer, `_tell` reports
    for pod in pods:
        for condition in _parts(_part(pod, "status"), "conditions"):
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                return [f"pod {_part(pod, 'metadata').get('name')} has no node: {_reason(condition)}"]
    return []


async def _tell(
    ref: ObjectRef, shortfall: Shortfall, client: Client, beside: list[str]
) -> tuple[str, str, list[str], bool]:
    """Return owner, reason, last events, and whether the API server answered; ``beside``: a reason of its pods."""
    try:
        obj = await _get(ref, shortfall.count.watch.path, client)
        reason = "; ".join(
            (
                *failing(obj, shortfall),
                *beside,
                *explain(obj, leaving=shortfall.surplus and shortfall.count.where == Predicate()),
            )
        )
        # The scheduler says the same in a condition and in an event.
        said = await _events(ref, obj, client)
        events = [event for event in said if (event.partition(": ")[2].partition(_TIMES)[0] or event) not in reason]
        return _owner(obj), reason, events, True
    except NotFound:
        return "", "is gone from the API; the watch has not shown it yet", [], True
    except ApiError as error:
        return "", f"the API server could not be asked: {error.message}", [], 400 <= error.code < 500


async def _get(ref: ObjectRef, path: str, client: Client) -> _Object:
    if ref.namespace and "/namespaces/" not in path:
        # The watch covers all namespaces.
        head, _, plural = path.rpartition("/")
        path = f"{head}/namespaces/{ref.namespace}/{plural}"
    body = await client.request("GET", f"{path}/{ref.name}", timeout=_REQUEST_S)
    return msgspec.json.decode(body, type=dict[str, Any])


def failing(obj: _Object, shortfall: Shortfall) -> list[str]:
    """Return the field tests that an object fails, as text; none for an object that should not exist."""
    if shortfall.surplus:
        return []
    count = shortfall.count
    found = {path: lookup(obj, parse(path)) for path in count.watch.fields}
    fields = {path: value for path, value in found.items() if value is not UNSET}
    reasons = []
    for test in count.where.tests:
        is_what = repr(fields[test.path]) if test.path in fields else f"absent{_meant(obj, test.path)}"
        value = f"{test.path} is {is_what}"
        try:
            if compile_predicate(Predicate(tests=(test,)), count.watch)(fields):
                continue
        except TypeError as error:
            value = str(error)
        reasons.append(f"{value}, wanted {test.op} {test.value!r}")
    return reasons


def _meant(obj: _Object, path: str) -> str:
    """Return which name an object has in the place of the first one of a path that it lacks, where one is spelt alike.

    A letter more or less: what has no value yet is absent, too, and ``unavailableReplicas`` is there by design.
    """
    value: Any = obj
    for step in parse(path):
        if (inner := lookup(value, (step,))) is not UNSET:
            value = inner
            continue
        match step, value:
            case Key(name), dict():
                known = list(value)
            case Select(key, name), list():
                known = [str(one[key]) for one in value if isinstance(one, dict) and key in one]
            case _:
                return ""
        near = [other for other in near_names(name, known) if abs(len(other) - len(name)) <= 1]
        return f" (it has {near[0]})" if near else ""
    return ""


def explain(obj: _Object, *, leaving: bool) -> list[str]:
    """Return the object's own reasons for its state, as text; ``leaving``: it should be gone."""
    meta, spec, status = (_part(obj, key) for key in ("metadata", "spec", "status"))
    reasons = []
    if deleted := meta.get("deletionTimestamp"):
        reasons.append(f"deletion was requested at {deleted}")
    elif leaving:
        reasons.append("its deletion was not requested")
    if finalizers := meta.get("finalizers"):
        reasons.append(f"finalizers {', '.join(map(str, finalizers))}")
    if gates := [str(gate.get("name")) for gate in _parts(spec, "schedulingGates")]:
        reasons.append(f"scheduling gates {', '.join(gates)}")
    if isinstance(status.get("phase"), str):
        reasons.append(f"phase {status['phase']}")
    if obj.get("kind") == "Pod" and _unseen_by_schedulers(spec, status):
        reasons.append(f"no scheduler has looked at it: spec.schedulerName is {spec['schedulerName']}")
    for condition in _parts(status, "conditions"):
        if condition.get("status") != "True":
            reasons.append(_condition(condition))
    for container in (*_parts(status, "initContainerStatuses"), *_parts(status, "containerStatuses")):
        waiting = _part(_part(container, "state"), "waiting")
        if waiting:
            reasons.append(f"container {container.get('name')} waits: {_reason(waiting)}")
    return reasons


def _unseen_by_schedulers(spec: _Object, status: _Object) -> bool:
    """Return whether a pod waits for a node, and no scheduler has said anything about it."""
    said = any(condition.get("type") == "PodScheduled" for condition in _parts(status, "conditions"))
    return "schedulerName" in spec and not spec.get("nodeName") and not spec.get("schedulingGates") and not said


def _condition(condition: _Object) -> str:
    why = _reason(condition)
    return f"{condition.get('type')}={condition.get('status')}" + (f" ({why})" if why else "")


def _reason(obj: _Object) -> str:
    # What the scheduler tried beside it says nothing more.
    said = (_PREEMPTION.sub("", str(obj[key]))[:_TEXT] for key in ("reason", "message") if obj.get(key))
    return ": ".join(said)


def _owner(obj: _Object) -> str:
    owners = _parts(_part(obj, "metadata"), "ownerReferences")
    owner = next((o for o in owners if o.get("controller")), owners[0] if owners else None)
    return f"{owner.get('kind')}/{owner.get('name')}" if owner else ""


async def _events(ref: ObjectRef, obj: _Object, client: Client) -> list[str]:
    uid = _part(obj, "metadata").get("uid", "")
    params = {"fieldSelector": f"involvedObject.uid={uid}", "limit": "50"}
    path = f"/api/v1/namespaces/{ref.namespace or 'default'}/events"
    try:
        items = _parts(await _listed(path, client, **params), "items")
    except ApiError as error:
        return [f"its events cannot be read: {error.message}"]
    items.sort(key=_moment)
    return [_event(item) for item in items[-_EVENTS:]]


def _moment(event: _Object) -> str:
    series = _part(event, "series")
    stamps = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((str(stamp) for stamp in stamps if stamp), "")


def _event(event: _Object) -> str:
    times = event.get("count") or _part(event, "series").get("count") or 1
    return _reason(event) + (f"{_TIMES}{times})" if times > 1 else "")


def _part(obj: _Object, key: str) -> _Object:
    found = obj.get(key)
    return found if isinstance(found, dict) else {}


def _parts(obj: _Object, key: str) -> list[_Object]:
    found = obj.get(key)
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []
