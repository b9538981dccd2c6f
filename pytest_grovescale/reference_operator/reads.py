"""What a reconcile reads from the cache, and how often.

``optimized`` reads the parent and the pods once per reconcile and finds pods through an index. ``baseline`` reads
them at every place that needs them, and finds pods as a list with a label selector does: by scanning the whole
namespace. As in a manager of controller-runtime, a read of the parent is a private copy from the cache; it is no
request, and costs the copy.
"""

from __future__ import annotations

import msgspec

from . import naming
from .api_client import ApiClient
from .caches import Caches
from .counts import Counts
from .defects import QUADRATIC_SELECT, Defects
from .objects import Pod, PodClique, PodCliqueSet
from .resources import POD
from .settings import Switches

_decode_set = msgspec.json.Decoder(PodCliqueSet).decode


class _PodList(msgspec.Struct):
    items: list[Pod] = []


_decode_pods = msgspec.json.Decoder(_PodList).decode


class PodSelection:
    """Finds the pods of a clique."""

    def __init__(self, caches: Caches, counts: Counts, switches: Switches, defects: Defects, api: ApiClient) -> None:
        self._api = api
        self._pods = caches.pods.store
        self._counts = counts
        # Defect quadratic-select: ignores the index, whatever the switch says.
        self._index = QUADRATIC_SELECT not in defects
        self._labels = not switches.narrow_selector

    def of(self, clique: PodClique) -> list[Pod]:
        """Return the pods that carry the clique's labels and are controlled by it."""
        self._counts.pod_selections += 1
        if self._index and not self._labels:
            found = self._pods.by("clique", clique.key)
            self._counts.pods_scanned += len(found)
        else:
            found = self._scan(clique)
        uid = clique.uid
        return [pod for pod in found if pod.controlled_by(uid)]

    async def listed(self, clique: PodClique) -> list[Pod]:
        """Return the same from the API server, for defect relist."""
        selector = f"{naming.MANAGED_SELECTOR},{naming.PODCLIQUE}%3D{clique.name}"
        path = f"{POD.collection(clique.namespace)}?labelSelector={selector}"
        found = _decode_pods(await self._api.get(path)).items
        return [pod for pod in found if pod.controlled_by(clique.uid)]

    def indexed(self, clique: PodClique) -> list[Pod]:
        """Return the same from the index, regardless of the switch: for loops over all cliques of a set."""
        if not self._index:
            return self.of(clique)
        uid = clique.uid
        return [pod for pod in self._pods.by("clique", clique.key) if pod.controlled_by(uid)]

    def _scan(self, clique: PodClique) -> list[Pod]:
        candidates = self._pods.by("namespace", clique.namespace)
        self._counts.pods_scanned += len(candidates)
        wanted = {naming.PODCLIQUE: clique.name}
        if self._labels:
            part_of = clique.metadata.labels.get(naming.PART_OF, "")
            wanted = {naming.MANAGED_BY: naming.MANAGER, naming.PART_OF: part_of, **wanted}
        selector = wanted.items()
        return [pod for pod in candidates if selector <= pod.metadata.labels.items()]


class SetReader:
    """Takes private copies of PodCliqueSets from the cache."""

    def __init__(self, caches: Caches, counts: Counts) -> None:
        self._sets = caches.sets.store
        self._counts = counts
        self._encoded: dict[str, tuple[str, bytes]] = {}
        self._sets.on_change(self._forget)

    def _forget(self, old: PodCliqueSet | None, new: PodCliqueSet | None) -> None:
        if old is not None and new is None:
            self._encoded.pop(old.key, None)

    def get(self, key: str) -> PodCliqueSet | None:
        """Return a copy that the caller may change."""
        self._counts.podcliqueset_reads += 1
        cached = self._sets.get(key)
        if cached is None:
            return None
        version, encoded = self._encoded.get(key, ("", b""))
        if version != cached.metadata.resource_version:
            encoded = msgspec.json.encode(cached)
            self._encoded[key] = (cached.metadata.resource_version, encoded)
        return _decode_set(encoded)


class Reads:
    """The reads of one reconcile of a clique or of a scaling group."""

    def __init__(self, sets: SetReader, pods: PodSelection, parent: str, *, memoise: bool) -> None:
        self._sets = sets
        self._selection = pods
        self._parent_key = parent
        self._memoise = memoise
        self._parent: PodCliqueSet | None = None
        self._pods: list[Pod] | None = None

    def podcliqueset(self) -> PodCliqueSet | None:
        """Return the set that the object is part of."""
        if self._parent is None or not self._memoise:
            self._parent = self._sets.get(self._parent_key)
        return self._parent

    def pods(self, clique: PodClique) -> list[Pod]:
        """Return the clique's pods."""
        if self._pods is None or not self._memoise:
            self._pods = self._selection.of(clique)
        return self._pods

    def take_pods(self, pods: list[Pod]) -> None:
        """Use pods from another source than the cache."""
        self._pods = pods

    def forget_pods(self) -> None:
        """Drop the pods read so far: the reconcile itself has changed them."""
        self._pods = None
