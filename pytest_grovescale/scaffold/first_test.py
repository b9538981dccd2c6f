"""The first test of a kind, as text: its milestones, what it needs beside it, what is left of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import msgspec

from .builtin_kinds import MARK, WORKS
from .custom_resources import CustomResource, Sample, references
from .facts import Facts
from .kopf import handled_field
from .milestones import Milestone, condition_milestone, milestones, sources_of
from .program import Program
from .rbac import may_create
from .rendering import rendered, variable, with_article

_ALL_EVENTS = re.compile(r"[gG]enerationAware(?:EventProcessing)?(?:\s*=\s*|\()false")
_OWNED = re.compile(r"(?:\bOwns\(\s*&\w+\.|\bowns\(\s*Api::<\s*(?:\w+::)*|\w+DependentResource<\s*)(\w+)(?=\s*[{>,])")
_OWNED_VARIABLES = re.compile(r"\bowns\(\s*(\w+)(?:\.clone\(\))?\s*,")
_INFORMED = re.compile(r"\bInformer(?:EventSource)?Configuration\s*\.\s*from\(\s*(\w+)\.class")
_FOR = re.compile(
    r"\bFor\(\s*&\w+\.(\w+)\{|&\w+\.(\w+)\{\}\s*,\s*&?handler\.(?:Typed)?EnqueueRequestForObject\b"
    r"|\bReconciler<(\w+)>|\bController::new\(\s*Api::<(?:\w+::)*(\w+)\s*>"
)
_FOR_ANY = re.compile(r"\bFor\(\s*[^&\s)]")
_FOR_VARIABLE = re.compile(r"\bController::new\(\s*(\w+)(?:\.clone\(\))?\s*,")
_KOPF = re.compile(r"@kopf\.(?:on\.\w+|daemon|timer)\(([^)]*)")
_MAKES_PODS = ("pods", "deployments", "statefulsets", "daemonsets", "replicasets", "jobs", "cronjobs")
_POD_OWNERS = {"Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"}


def owned_kinds(found: Program) -> set[str]:
    """Return the kinds that a program makes objects of for others, by what its framework needs to know.

    controller-runtime's ``Owns``, kube-rs' ``owns``, the Java Operator SDK's dependent resources, and the informers of
    that for kinds of which the program makes objects: an informer alone may be for what users refer to.
    """
    owned = set(_OWNED.findall(found.text))
    owned |= {kind for kind in _INFORMED.findall(found.text) if re.search(rf"\bnew {kind}(?:Builder)?\(", found.text)}
    for variable_name in _OWNED_VARIABLES.findall(found.text):
        owned |= _kinds_of_variable(variable_name, found.text)
    return owned


def _kinds_of_variable(name: str, source: str) -> set[str]:
    """Return the kinds of a variable of kube-rs' type ``Api<Kind>``."""
    return set(re.findall(rf"\b{name}\s*(?::\s*Api<|(?::[^=;]*)?=\s*Api::<)\s*(?:\w+::)*(\w+)\s*>", source))


def is_reconciled(found: Program, resource: CustomResource, others: Collection[CustomResource]) -> bool:
    """Return whether a program has a controller for a kind, not only one that reads it; also where that is not known.

    controller-runtime's ``For``, or a watch that enqueues the object itself, the Java Operator SDK's ``Reconciler<…>``,
    kube-rs' ``Controller::new``, kopf's decorators. Known where they name one of the project's kinds, each literally. A
    kind of Kubernetes' own is there for the project's, where it has some.
    """
    if not resource.file and any(one.file for one in others):
        return False
    kinds = {kind for names in _FOR.findall(found.text) for kind in names if kind}
    for variable_name in _FOR_VARIABLE.findall(found.text):
        kinds |= _kinds_of_variable(variable_name, found.text)
    handled = re.findall(r"[\"'](\w+)[\"']", " ".join(_KOPF.findall(found.text)))
    controlled = [one for one in others if one.kind in kinds or one.plural in handled or one.kind in handled]
    return not controlled or bool(_FOR_ANY.search(found.text)) or resource in controlled


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One kind's workload in a test: the one that is tested, or one whose objects it names."""

    plural: str
    """The variable of the workload."""
    resource: str
    """As a condition names it: ``websites.web.example.com``."""
    scope: str
    """Argument of conditions for objects without a namespace."""
    template: str
    milestones: tuple[Milestone, ...]
    """Of its deployment."""


def first_test(
    project: str,
    facts: Facts,
    resource: CustomResource,
    found: Program,
    samples: Mapping[str, tuple[CustomResource, Sample]],
) -> str:
    """Return the test of a kind; objects of other kinds that its sample names are there before, and go after it.

    ``project``: the operator's name; ``samples``: by kind, of all that have a workload.
    """
    owned, created = owned_kinds(found), may_create(facts, resource, found)
    kinds = [one for one, _ in samples.values()]
    steps = [
        _step(*samples[kind], found, created, alone=len(samples) == 1)
        if is_reconciled(found, samples[kind][0], kinds)
        else _step_of(samples[kind][0], _works(samples[kind][0]))
        for kind in kinds_of(resource.kind, samples)
    ]
    steps = [_after(steps[:index], step) for index, step in enumerate(steps)]
    makes = [plural for plural in _MAKES_PODS if plural in created]
    for_certain = not _POD_OWNERS.isdisjoint([*owned, *kinds_of(resource.kind, samples)])
    has_pods = for_certain or bool(makes)
    # What a kind without a namespace makes is in namespaces of its own choice; those of a real cluster have other pods.
    may_count_pods = resource.namespaced or not found.manifests
    guesses = []
    if "GenerationChangedPredicate" in found.text and "AnnotationChangedPredicate" not in found.text:
        guesses.append("the program has a GenerationChangedPredicate: a change of an annotation may not reach it")
    if "javaoperatorsdk" in found.text and not _ALL_EVENTS.search(found.text):
        guesses.append(
            "the Java Operator SDK passes changes of the spec alone, but with generationAwareEventProcessing = false"
        )
    is_handled = f"HANDLED = '{handled_field(found.text)}'\nIS_HANDLED = f\"fields[{{HANDLED!r}}] is not None\""
    return rendered(
        "test.py.j2",
        name=project,
        a_kind=with_article(resource.kind),
        step=steps[-1],
        needed=steps[:-1],
        constants=[is_handled] if any("HANDLED" in one.expression for step in steps for one in step.milestones) else [],
        place='cluster="kind"' if found.manifests else "nodes=10",
        trigger_guesses=guesses,
        has_pods=has_pods and may_count_pods,
        pods_scope=_anywhere(resource),
        pods_guess="" if for_certain else f"its role may create {' and '.join(makes)}: no pod is left of them",
    )


def kinds_of(kind: str, samples: Mapping[str, tuple[CustomResource, Sample]]) -> list[str]:
    """Return the kinds that a test of a kind makes: those that its sample names, those that these name, then itself."""
    names = {other: str(sample.object["metadata"]["name"]) for other, (_, sample) in samples.items()}
    found: list[str] = []

    def follow(one: str, above: frozenset[str]) -> None:
        others = {other: name for other, name in names.items() if other not in above}
        wanted = {ref.kind for ref in references(samples[one][1].object, others)}
        for other in samples:
            if other in wanted and other not in found:
                follow(other, above | {other})
        found.append(one)

    follow(kind, frozenset({kind}))
    return found


def _step(resource: CustomResource, sample: Sample, found: Program, created: Collection[str], *, alone: bool) -> Step:
    """Return the step of a kind. ``alone``: the program has no other, whose conditions and phases it may name."""
    owned, workload = owned_kinds(found), variable(resource)
    runs_jobs = "Job" in owned or "jobs" in created
    sources = [found.text] if alone else sources_of(resource, found.texts) or [found.text]
    candidates = (milestones(resource, sample.object, text, workload, runs_jobs=runs_jobs) for text in sources)
    deploy = next(filter(None, candidates), [])
    handlers = r"^@kopf\.on\.(create|update|resume|field)"
    if not deploy and found.language == "python" and re.search(handlers, found.text, re.M):
        deploy = [_handled_by_kopf(resource)]
    if not deploy and len(owned) == 1:
        deploy = [_children(next(iter(owned)), resource)]
    return _step_of(resource, deploy or _works(resource, ": what says that the operator is done with it?"))


def _step_of(resource: CustomResource, deploy: Sequence[Milestone]) -> Step:
    return Step(
        plural=variable(resource),
        resource=resource.target,
        scope=_scope(resource),
        template=f"{resource.kind.lower()}.yaml.j2",
        milestones=tuple(deploy),
    )


def _works(resource: CustomResource, question: str = "") -> list[Milestone]:
    """Return that Kubernetes has done its work for a kind of its own; ``question``: what is to be checked of that."""
    if resource.file or resource.kind not in WORKS:
        return []
    reason = f"Kubernetes says so of {with_article(resource.kind)}{question}"
    return [condition_milestone(variable(resource), WORKS[resource.kind], reason, is_guess=bool(question))]


def _anywhere(resource: CustomResource) -> str:
    """Return the argument of conditions on a kind without a namespace, and on what is made for it: in all of them."""
    return "" if resource.namespaced else ', namespace="*"'


def _scope(resource: CustomResource) -> str:
    """Return the further arguments of conditions on objects of a kind; of Kubernetes' own kinds there are others."""
    scope = _anywhere(resource)
    selector = ",".join(f"{name}={value}" for name, value in MARK.items())
    return scope if resource.file else f'{scope}, selector="{selector}"'


def _handled_by_kopf(resource: CustomResource) -> Milestone:
    target, scope = resource.target, _scope(resource)
    return Milestone(
        name="handled",
        expression=f'conditions.matching("{target}", objects, IS_HANDLED, fields=[HANDLED]{scope})',
        reason="kopf notes in the object that all of its handlers have succeeded",
        is_guess=False,
    )


def _after(before: Sequence[Step], step: Step) -> Step:
    """Return a step whose counts of children include those that steps before it have made."""
    placed = [one for each in before for one in each.milestones]
    milestones = []
    for one in step.milestones:
        times = 1 + sum(other == one for other in placed)
        expression = one.expression.replace(", objects,", f", {times} * objects,") if times > 1 else one.expression
        milestones.append(msgspec.structs.replace(one, expression=expression))
    return msgspec.structs.replace(step, milestones=tuple(milestones))


def _children(kind: str, owner: CustomResource) -> Milestone:
    return Milestone(
        name=f"{kind.lower()}s-there",
        expression=f'conditions.count("{kind.lower()}", objects, op=">="{_anywhere(owner)})',
        reason=f"the operator owns {kind}s: one or more for each object",
        is_guess=True,
    )
