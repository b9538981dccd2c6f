"""What a definition's ``pod:`` may contain; the Deployment that it selects, and what a start changes in it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ... import durations
from ...cluster.backend import backend
from ...cluster.definition import POOL_LABEL
from ...errors import DefinitionError, UsageError
from .. import manifest_sources
from ..command import single_values
from ..manifest_sources import DEFAULT_NAMESPACE, Source
from ..manifests import Manifest, Object
from ..placeholders import fill, names
from ..schema import Identity, Installation, OperatorDefinition, OperatorFile, Pod, Served, admitted

Keys = tuple[str | int, ...]
Fail = Callable[..., DefinitionError]

PROVIDED = {"namespace": "namespace that the operator's pods run in"}
"""Placeholders that the harness fills for pods → description."""

_OF_A_PROCESS = {
    "build": "An image is built by `pod.dockerfile`.",
    "env": "Write it under `pod.env`.",
    "workdir": "A container has its own.",
    "files": "Put a ConfigMap among `pod.manifests`.",
    "manifests": "Write them under `pod.manifests`.",
    "rbac": "What its ServiceAccount may do belongs into `pod.manifests`.",
    "webhooks": "They belong into `pod.manifests`, with a Service.",
    "webhook_port": "Their Service has it.",
    "readiness": "Its pods have probes; how long they may take says `pod.rollout_timeout`.",
    "metrics": "Write `pod.metrics: {port: 8080}`.",
    "pprof": "Write `pod.pprof: {port: 6060, path: /debug/pprof}`.",
    "stacks": "Write `pod.stacks: {port: 8081, path: /debug/tasks}`.",
    "limits": "Give the container `resources` in its manifest.",
    "stop_grace": "Set terminationGracePeriodSeconds in its manifest.",
}


def check(written: OperatorFile, fail: Fail) -> None:
    """Raise DefinitionError for contradictory fields."""
    pod = written.pod
    if pod is None:
        return
    if written.command:
        raise fail(("pod",), "there is a `command:` too", "An operator is either a process or pods.")
    fields = {field.name: field for field in msgspec.structs.fields(OperatorFile)}
    for name, instead in _OF_A_PROCESS.items():
        if getattr(written, name) != _default(fields[name]):
            raise fail((name,), "is for an operator that runs as a process; this one runs as pods", instead)
    if written.identity.service_account:
        raise fail(("identity", "service_account"), "is the one that the Deployment names", "Leave it out.")
    _check_numbers(pod, fail)
    if pod.pprof is not None and pod.pprof.via == "forward":
        raise fail(
            ("pod", "pprof", "via"),
            "a forwarded connection cannot be closed on one side alone, which is what ends a CPU profile",
            "Leave it out: through the proxy, profiles are taken in rounds.",
        )
    _check_image(pod, fail)


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _check_numbers(pod: Pod, fail: Fail) -> None:
    if not pod.manifests:
        raise fail(("pod", "manifests"), "is empty")
    given: dict[Keys, str | float] = {("pod", "rollout_timeout"): pod.rollout_timeout}
    if pod.metrics is not None and pod.metrics.interval is not None:
        given["pod", "metrics", "interval"] = pod.metrics.interval
    for path, value in given.items():
        try:
            durations.seconds(value)
        except UsageError as error:
            raise fail(path, error.message, error.next_step) from None
    for which, served in endpoints(pod).items():
        if not served.path.startswith("/"):
            raise fail(("pod", which, "path"), f"{served.path!r} does not start with '/'")
        if isinstance(served.port, int) and not 0 < served.port < 65536:
            raise fail(("pod", which, "port"), f"{served.port} is no port")


def _check_image(pod: Pod, fail: Fail) -> None:
    if pod.archive and pod.dockerfile:
        raise fail(("pod", "dockerfile"), "there is an `archive:` too", "The image is either built or there.")
    for name in ("archive", "dockerfile"):
        if getattr(pod, name) and not pod.image:
            raise fail(("pod", name), "needs `image:`, the name that the image has")
    for name in ("context", "build_args"):
        if getattr(pod, name) and not pod.dockerfile:
            raise fail(("pod", name), "is for an image that is built; there is no `dockerfile:`")


def refuse_for_pods(definition: OperatorDefinition) -> None:
    """Raise UsageError for an operator whose way to the API server cannot lead through a proxy of this host."""
    if definition.pod is not None:
        raise UsageError(
            f"scale.faults: operator {definition.name} runs as pods, which reach the API server by its Service inside"
            " of the cluster: no proxy of this machine is on that way",
            next_step="Run the operator as a process (`command:` in its definition), on local, kind or existing.",
        )


def refuse_where_none_run(definition: OperatorDefinition, of: str) -> None:
    """Raise UsageError for an operator that runs as pods on a cluster whose nodes run none. ``of``: its backend."""
    if definition.pod is not None and not backend(of).runs_pods:
        raise UsageError(
            f"operator {definition.name} runs as pods, and all nodes of a {of} cluster are simulated: they run none",
            next_step="Use --grovescale-cluster=kind or existing:CONTEXT, or an operator with a `command:`.",
        )


def replicas(definition: OperatorDefinition) -> int | None:
    """Return the number of pods in a definition; None: as in its Deployment. Raises UsageError."""
    asked = definition.pod.replicas if definition.pod is not None else None
    if asked is None:
        return None
    text = fill(str(asked), single_values(definition))
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(
            f"{definition.source}: pod.replicas: {text!r} is no number of pods", next_step="Give 1 or more."
        )
    return int(text)


def archive(definition: OperatorDefinition) -> Path | None:
    """Return the archive of a definition's image; None: no archive. Raises UsageError."""
    text = fill(definition.pod.archive, single_values(definition)) if definition.pod is not None else ""
    if not text:
        return None
    path = Path(text).expanduser().absolute()
    if not path.is_file():
        raise UsageError(f"{definition.source}: pod.archive: no such file: {path}", next_step="Write it: docker save.")
    return path


def tokens_are_sent(definition: OperatorFile) -> bool:
    """Return whether any endpoint of a definition requires the token of the operator's identity."""
    return any(part.token for part in admitted(definition).values())


def endpoints(pod: Pod) -> dict[str, Served]:
    """Return the endpoints of the pods themselves, by field name."""
    metrics = pod.metrics if pod.metrics is not None and pod.metrics.service is None else None
    found = {"metrics": metrics, "pprof": pod.pprof, "stacks": pod.stacks}
    return {name: served for name, served in found.items() if served is not None}


def resolved(
    written: OperatorFile, sources: list[Source], absolute: Callable[[Keys, str], str], fail: Fail
) -> tuple[OperatorFile, Installation]:
    """Return a definition with absolute paths under ``pod:``, ports as numbers, and the identity of its manifests.

    ``absolute`` returns the absolute path of an existing file for a field. Also returns the objects to create. Raises
    DefinitionError for manifests without the selected Deployment.
    """
    pod = written.pod
    assert pod is not None
    named = {
        name: absolute(("pod", name), getattr(pod, name))
        for name in ("archive", "dockerfile", "context")
        if getattr(pod, name) and not list(names(getattr(pod, name)))
    }

    def wrong(name: str, message: str) -> DefinitionError:
        return fail(("pod", name), message)

    objects = manifest_sources.taken(sources, "pod.manifests")
    chosen = choose(objects, pod, written.identity.namespace or DEFAULT_NAMESPACE, wrong)
    ports = {name: _numbered(chosen, name, served, fail) for name, served in endpoints(pod).items()}
    paths = [str(source.path) for source in sources if source.field == "pod.manifests"]
    definition = msgspec.structs.replace(
        written,
        pod=msgspec.structs.replace(pod, manifests=paths, **named, **ports),
        identity=Identity(namespace=chosen.namespace, service_account=chosen.service_account),
    )
    return definition, Installation(
        crds=manifest_sources.taken(sources, "crds"),
        manifests=objects,
        left_out=manifest_sources.left_out(sources),
    )


def _numbered(chosen: Chosen, name: str, served: Served, fail: Fail) -> Served:
    number = port(chosen, served.port)
    if number is None:
        raise fail(("pod", name, "port"), f"the container {chosen.container} has no port {served.port!r}")
    return msgspec.structs.replace(served, port=number)


API_VERSION = "apps/v1"


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's Deployment, and its frequently used fields."""

    manifest: Manifest
    namespace: str
    name: str
    container: str
    service_account: str
    selector: str
    """Label selector of its pods, in the API's syntax."""
    replicas: int
    """Number of pods, by its manifest or its definition."""

    @property
    def title(self) -> str:
        return f"Deployment {self.namespace}/{self.name}"


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that a start makes to the operator's container and pods."""

    image: str = ""
    loaded: bool = False
    """Whether grovescale loaded the image into the cluster, so that no pull is needed."""
    arguments: Sequence[str] = ()
    env: Mapping[str, str] = {}
    replicas: int | None = None
    tolerations: Sequence[Object] = ()


def choose(found: Sequence[Manifest], pod: Pod, namespace: str, fail: Callable[[str, str], DefinitionError]) -> Chosen:
    """Return the Deployment that a definition selects. ``namespace``: of objects without one.

    Raises ``fail(field, problem)`` for an error in a field of ``pod:``.
    """
    deployments = [
        manifest
        for manifest in found
        if manifest.object["kind"] == "Deployment" and manifest.object["apiVersion"] == API_VERSION
    ]
    wanted_namespace, _, wanted = pod.deployment.rpartition("/")
    matching = [
        manifest
        for manifest in deployments
        if wanted in ("", manifest.object["metadata"].get("name"))
        and wanted_namespace in ("", _namespace(manifest.object, namespace))
    ]
    if len(matching) != 1:
        names = ", ".join(_title(manifest.object, namespace) for manifest in deployments) or "none"
        problem = "there is no such Deployment" if not matching else "more than one Deployment may be meant"
        raise fail("deployment", f"{problem}; in its manifests: {names}")
    return _chosen(matching[0], pod, namespace, fail)


def _chosen(manifest: Manifest, pod: Pod, namespace: str, fail: Callable[[str, str], DefinitionError]) -> Chosen:
    obj = manifest.object
    try:
        spec = obj["spec"]
        template = spec["template"]["spec"]
        containers = [str(container["name"]) for container in template["containers"]]
        labels = {str(key): str(value) for key, value in spec["selector"]["matchLabels"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise DefinitionError(f"{manifest.source}: this Deployment lacks what one needs: {error}") from None
    if spec["selector"].get("matchExpressions"):
        raise DefinitionError(
            f"{manifest.source}: spec.selector.matchExpressions: pods are found by matchLabels alone here",
            next_step="Write the selector with matchLabels.",
        )
    if pod.container and pod.container not in containers:
        raise fail("container", f"the Deployment has no container {pod.container!r}; it has: {', '.join(containers)}")
    if not pod.container and len(containers) > 1:
        raise fail("container", f"missing; the Deployment has several: {', '.join(containers)}")
    return Chosen(
        manifest=manifest,
        namespace=_namespace(obj, namespace),
        name=str(obj["metadata"]["name"]),
        container=pod.container or containers[0],
        service_account=str(template.get("serviceAccountName") or "default"),
        selector=",".join(f"{key}={value}" for key, value in sorted(labels.items())),
        replicas=int(spec.get("replicas", 1)),
    )


def port(chosen: Chosen, wanted: int | str) -> int | None:
    """Return the number of a port of the operator's container; None for an unknown name."""
    if isinstance(wanted, int):
        return wanted
    template = chosen.manifest.object["spec"]["template"]["spec"]
    for container in template["containers"]:
        for found in container.get("ports") or []:
            if container["name"] == chosen.container and found.get("name") == wanted:
                return int(found["containerPort"])
    return None


def changed(chosen: Chosen, changes: Changes) -> Object:
    """Return the Deployment to apply: in its namespace, and with an affinity that excludes simulated nodes."""
    obj = copy.deepcopy(chosen.manifest.object)
    obj["metadata"]["namespace"] = chosen.namespace
    if changes.replicas is not None:
        obj["spec"]["replicas"] = changes.replicas
    template = obj["spec"]["template"]["spec"]
    (container,) = [found for found in template["containers"] if found["name"] == chosen.container]
    if changes.image:
        container["image"] = changes.image
    if changes.loaded:
        # "Always" would contact a registry for an image that is already loaded.
        container["imagePullPolicy"] = "IfNotPresent"
    if changes.arguments:
        container["args"] = [*(container.get("args") or []), *changes.arguments]
    kept = [entry for entry in container.get("env") or [] if entry.get("name") not in changes.env]
    if changes.env:
        container["env"] = [*kept, *({"name": name, "value": value} for name, value in changes.env.items())]
    if changes.tolerations:
        template["tolerations"] = [*(template.get("tolerations") or []), *changes.tolerations]
    _keep_off_simulated_nodes(template)
    return obj


def _keep_off_simulated_nodes(template: Object) -> None:
    """Extend each term of the pod's required node affinity, since the terms are or-ed."""
    rule = {"key": POOL_LABEL, "operator": "DoesNotExist"}
    affinity = template.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or []), rule]} for term in terms
    ]


def _namespace(obj: Mapping[str, Any], default: str) -> str:
    return str(obj["metadata"].get("namespace") or default)


def _title(obj: Mapping[str, Any], default: str) -> str:
    return f"{_namespace(obj, default)}/{obj['metadata'].get('name')}"


def refuse_rivals(definition: OperatorDefinition, controllers: str, cluster: str) -> None:
    """Raise UsageError for an operator that takes the place of a controller which the cluster runs.

    ``controllers``: those that it runs, separated by commas, as its controller manager is given them; empty: unknown.
    """
    names = controllers.split(",")
    running = [one for one in definition.replaces if one in names or ("*" in names and f"-{one}" not in names)]
    if running:
        raise UsageError(
            f"cluster {cluster} runs {', '.join(running)}, which operator {definition.name} takes the place of: both "
            "would act on the same objects",
            next_step="Use one that does not: --grovescale-cluster=minimal, or a definition of yours with other "
            "controller_manager.controllers.",
        )
