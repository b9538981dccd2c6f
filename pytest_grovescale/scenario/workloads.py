"""The handle of a test's workload: apply, trigger, scale, delete, and the conditions on its objects."""

from __future__ import annotations

import itertools
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..errors import UsageError
from ..recording.conditions import FieldTest
from ..workload import actions
from ..workload.template import Rendered
from .conditions import Declared, ObjectName, Scalar, each_of
from .quiescence import trigger_until_done

if TYPE_CHECKING:
    from .running_test import RunningTest

_WITHOUT_STATUS = frozenset(
    {
        *(("v1", kind) for kind in ("ConfigMap", "Secret", "ServiceAccount", "LimitRange", "PodTemplate", "Endpoints")),
        *(
            ("rbac.authorization.k8s.io/v1", kind)
            for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
        ),
        ("apps/v1", "ControllerRevision"),
        ("coordination.k8s.io/v1", "Lease"),
        ("networking.k8s.io/v1", "IngressClass"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("scheduling.k8s.io/v1", "PriorityClass"),
        ("storage.k8s.io/v1", "StorageClass"),
    }
)
"""apiVersion and kind of Kubernetes' own objects without a status (its API reference, v1.36)."""

_TRIGGER_S = 60.0
"""Maximum wait for an operator in a loop, which is never done with a trigger."""


class Workload:
    """The objects of one rendered template. Actions open the current phase, if there is one, and are recorded."""

    def __init__(self, test: RunningTest, rendered: Rendered) -> None:
        self.rendered = rendered
        self.objects = rendered.objects
        self.applied = False
        """Whether it was ever applied."""
        self.deleted = False
        """Whether it was deleted, and not applied again."""
        self._test = test
        self._triggers = itertools.count(1)
        self._trigger: tuple[Literal["annotations", "labels"], str] | None = None
        """The annotation or label that the last trigger changed."""

    def names(self) -> Sequence[ObjectName]:
        """Return the names of all objects, in the template's order."""
        return [_name(obj) for obj in self.objects]

    @property
    def name(self) -> ObjectName:
        """The name of the one object; raises UsageError where there are several."""
        names = self.names()
        if len(names) != 1:
            raise UsageError(
                f"the workload has {len(names)} objects",
                next_step="Say which one is meant: conditions.field(workload.names()[i], path, value).",
            )
        return names[0]

    # ---- actions

    def apply(self, *, rate: float | None = None, concurrency: int = 20) -> None:
        """Create or update all objects: all at once, or at ``rate`` objects a second."""
        self.applied = True
        self.deleted = False
        self._act(
            "apply",
            actions.apply(self._test.client, self.objects, rate=rate, concurrency=concurrency),
            count=len(self.objects),
        )

    def trigger_reconcile(self, *, annotation: str = "", label: str = "", times: int = 1) -> None:
        """Change an annotation or a label of every object, spec untouched: a reconcile that should find nothing to do.

        The operator definition names the one that passes its predicates. One no-op costs some hundredths of a second:
        ``times`` repeats the trigger, each time once the operator is done with the last, for a more exact cost per
        trigger. Returns when it is done with the last one.
        """
        if times < 1:
            raise UsageError(f"trigger_reconcile(times={times})", next_step="Trigger once or more.")
        operator = self._test.operator
        if operator is not None and not annotation and not label:
            annotation, label = operator.trigger, operator.trigger_label
        if not annotation and not label:
            raise UsageError(
                "the operator definition names no trigger",
                next_step="Set `trigger:` there, or pass annotation=… or label=…",
            )
        self._trigger = ("labels", label) if label else ("annotations", annotation)
        if times == 1:
            self.trigger_again()
            return
        if operator is None:
            raise UsageError(
                f"trigger_reconcile(times={times}) waits for an operator, and there is none",
                next_step="Name one: --grovescale-operator=FILE.",
            )
        wait = self._test.current.pass_time if self._test.current is not None else time.sleep
        for _ in range(times):
            trigger_until_done(operator, [self], self._test.idle_cores, limit_s=_TRIGGER_S, wait=wait)

    def trigger_again(self) -> None:
        """Repeat the last trigger, and return at once."""
        if self._trigger is None:
            raise UsageError("nothing was triggered before", next_step="Use trigger_reconcile().")
        part, key = self._trigger
        value = f"{self._test.run_id}-{next(self._triggers)}"
        if self._test.current is not None:
            self._test.current.triggered.append(self)
        action = actions.trigger(self._test.client, self.objects, key, value, part=part)
        self._act("trigger", action, count=len(self.objects))

    def scale(self, replicas: int) -> None:
        """Set the replicas of every object, through the scale subresource where it is served."""
        self._act(
            "scale",
            actions.scale(self._test.client, self.objects, replicas),
            count=len(self.objects),
            detail=f"replicas={replicas}",
        )

    def patch(self, body: Mapping[str, Any]) -> None:
        """Merge-patch every object with ``body``."""
        self._act("patch", actions.patch(self._test.client, self.objects, body), count=len(self.objects))

    def delete(self, *, propagation: actions.Propagation = "Background", concurrency: int = 20) -> None:
        """Delete all objects; returns when the API server has accepted every request, not when they are gone."""
        self.deleted = True
        self._act(
            "delete",
            actions.delete(self._test.client, self.objects, propagation=propagation, concurrency=concurrency),
            count=len(self.objects),
        )

    def _act(self, label: str, coroutine: Coroutine[Any, Any, None], *, count: int, detail: str = "") -> None:
        detail = detail or ", ".join(f"{n.kind} {n.name}" for n in self.names()[:3])
        try:
            if self._test.current is not None:
                self._test.current.begin()
            self._test.recorder.mark(label, state="begin", detail=detail, count=count)
        except BaseException:
            # Mostly Ctrl-C: Python warns at its end of a coroutine that never ran.
            coroutine.close()
            raise
        self._test.watched(coroutine)
        self._test.recorder.mark(label, state="end", detail=detail, count=count)

    # ---- conditions

    def status(self, *, conditions: Mapping[str, str] | None = None, **fields: Scalar) -> Declared:
        """The status of each object: ``pcs.status(availableReplicas=500, conditions={"Available": "True"})``.

        Objects of Kubernetes' own kinds that have no status, as Secrets beside a custom resource, are left out. Raises
        UsageError where no other is there.
        """
        tests = [FieldTest(path=f"status.{path}", value=value) for path, value in fields.items()]
        tests += [
            FieldTest(path=f"status.conditions[type={kind}].status", value=value)
            for kind, value in (conditions or {}).items()
        ]
        if not tests:
            raise UsageError("status() was given nothing to wait for", next_step="Name a field: status(replicas=3).")
        return each_of(with_status(self.names()), tuple(tests))


def _name(obj: Mapping[str, Any]) -> ObjectName:
    metadata = obj["metadata"]
    return ObjectName(
        kind=obj["kind"], api_version=obj["apiVersion"], namespace=metadata.get("namespace"), name=metadata["name"]
    )


def with_status(names: Sequence[ObjectName]) -> list[ObjectName]:
    """Return the objects that may have a status. Raises UsageError where none may."""
    found = [name for name in names if (name.api_version, name.kind) not in _WITHOUT_STATUS]
    if not found:
        raise UsageError(
            "no object of the workload has a status",
            next_step="Wait for what the operator makes of them: conditions.count(…).",
        )
    return found
