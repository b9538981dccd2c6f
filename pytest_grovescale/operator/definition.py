"""Reads an operator definition and checks everything that can be checked before a start."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from .. import definitions, durations, redaction, resources
from ..cluster.definition import CONTROLLERS
from ..errors import DefinitionError, UsageError
from ..quantity import memory_bytes
from ..suggestions import did_you_mean, with_all
from . import endpoints, manifest_sources, manifests, placeholders, rbac
from .manifest_sources import DEFAULT_NAMESPACE, Progress, Source
from .manifests import Manifest, PolicyRule
from .pods import definition as pods
from .rbac import Account, Grant
from .schema import (
    NAME,
    NAME_RULE,
    Admitted,
    Identity,
    Installation,
    OperatorDefinition,
    OperatorFile,
    Repeated,
    Scalar,
    Service,
    Setting,
    Value,
    arguments,
    credential_files,
    in_cluster,
    texts,
    urls,
)

__all__ = ["FOLDER", "OperatorDefinition", "load"]

FOLDER = "fixtures/operators"

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VALUE_NAME = re.compile(r"[a-z][a-z0-9_]*")
_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_HOW_READY = (
    "Say how to tell that it works: readiness: {url: …}; or, of one that serves nothing, by a line that it writes:"
    " readiness: {log: …}"
)
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LABEL_RULE = "Lower case letters, digits and '-'."
_QUALIFIED_NAME = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
"""Of an annotation or a label (k8s.io/apimachinery, `IsQualifiedName`)."""
_FILE_NAME = re.compile(r"[\w.-]+")
# The harness creates this one in the same folder.
_TAKEN = ("kubeconfig", "token", "certs")

Keys = tuple[str | int, ...]
Fail = Callable[..., DefinitionError]
Absolute = Callable[[Keys, str], str]
"""Returns the absolute path for a field of the file and its value."""


def load(
    path_or_name: str,
    *,
    values: Mapping[str, str] | None = None,
    base: resources.Folders | None = None,
    workdir: Path | None = None,
    progress: Progress = lambda text: None,
) -> OperatorDefinition:
    """Return the checked definition, with ``values`` (strings, as from ``--set NAME=VALUE``) in place of defaults.

    ``path_or_name``: a file, or the name of one in ``fixtures/operators`` (``base``'s, or the bundled one). A value
    whose default is a list takes several, separated by commas. ``workdir``: the operator's working folder if the
    definition sets none; None: the current one. ``progress`` reports a download or build of kustomize. Raises
    DefinitionError (``file:line: path: …``) for an error in the file, or in the files that it names, UsageError for an
    invalid value.
    """
    file = resources.find(FOLDER, path_or_name, base=base)
    written = definitions.load(file, OperatorFile)

    def fail(path: Keys, message: str, next_step: str = "") -> DefinitionError:
        return DefinitionError(f"{definitions.where(file, path)}: {message}", next_step=next_step)

    mistakes = definitions.Mistakes()
    known = {*(placeholders.PROVIDED if written.pod is None else pods.PROVIDED), *written.declared}
    for check in (_check_scalars, _check_values, pods.check, _check_rules):
        with mistakes.noted():
            check(written, fail)
    with mistakes.noted():
        _check_placeholders(written, known, fail)
        _check_urls(written, fail)
    absolute = functools.partial(_absolute, file, written.build, fail)
    sources = manifest_sources.read_all(written, absolute, fail, mistakes, progress=progress)
    mistakes.demand_none()
    resolved = _resolve_paths(written, absolute, workdir or Path.cwd())
    resolved, installation = (
        pods.resolved(resolved, sources, absolute, fail) if written.pod else _of_process(resolved, sources, file, fail)
    )
    _check_trigger(written, installation, fail)
    settings = {name: _setting(name, value, (values or {}).get(name)) for name, value in written.declared.items()}
    _check_chosen(written, values or {})
    fields = msgspec.structs.asdict(resolved)
    definition = OperatorDefinition(**fields, source=str(file), settings=settings, installation=installation)
    redaction.conceal(*_secrets(definition))
    pods.replicas(definition)
    pods.archive(definition)
    return definition


def _secrets(definition: OperatorDefinition) -> Iterator[str]:
    """Yield the operator's secret values, identified by their names: values, arguments, environment."""
    values = {name: value for name, value in definition.settings.items() if isinstance(value, str)}

    def filled(text: str) -> str:
        # Folders of a run are no secrets, and not known yet.
        return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), text)

    plain = [filled(item) for item in arguments(definition).values() if isinstance(item, str)]
    environment = definition.env | (definition.pod.env if definition.pod is not None else {})
    yield from redaction.secrets_in(definition.settings)
    yield from redaction.secrets_in(plain)
    yield from redaction.secrets_in({name: filled(text) for name, text in environment.items()})


def _check_scalars(written: OperatorFile, fail: Fail) -> None:
    if not NAME.fullmatch(written.name):
        raise fail(("name",), f"{written.name!r}: {NAME_RULE}")
    if written.pod is None:
        _check_process(written, fail)
    for name in written.env:
        if not _ENV_NAME.fullmatch(name):
            raise fail(("env", name), "is no name of an environment variable")
    for name in written.files:
        if not _FILE_NAME.fullmatch(name) or name in (".", "..", *_TAKEN):
            raise fail(("files", name), "must be a plain file name, and none of " + ", ".join(_TAKEN))
    durations_: dict[Keys, str | float] = {("stop_grace",): written.stop_grace}
    if written.readiness is not None:
        durations_["readiness", "timeout"] = written.readiness.timeout
    if written.metrics is not None and written.metrics.interval is not None:
        durations_["metrics", "interval"] = written.metrics.interval
    for index, target in enumerate(written.targets):
        if target.interval is not None:
            durations_["targets", index, "interval"] = target.interval
    _check_names(written, fail)
    if written.reconciles is not None:
        _check_reconciles(written, fail)
    for path, value in durations_.items():
        try:
            durations.seconds(value)
        except UsageError as error:
            raise fail(path, error.message, error.next_step) from None
    try:
        memory_bytes(written.limits.memory)
    except UsageError as error:
        raise fail(("limits", "memory"), error.message, error.next_step) from None
    cores = written.limits.cores
    if cores is not None and (cores == [] or (isinstance(cores, int) and cores < 1)):
        raise fail(("limits", "cores"), "at least one core")
    if written.limits.gomaxprocs is not None and written.limits.gomaxprocs < 1:
        raise fail(("limits", "gomaxprocs"), "at least 1")


def _check_names(written: OperatorFile, fail: Fail) -> None:
    """Raise for a name that Kubernetes would refuse only once the operator's objects are made."""
    if written.identity.namespace and not _LABEL.fullmatch(written.identity.namespace):
        raise fail(("identity", "namespace"), f"{written.identity.namespace!r} is no name of a namespace", _LABEL_RULE)
    if written.webhook_port not in range(65_536):
        raise fail(("webhook_port",), f"{written.webhook_port} is no port", "Write a number up to 65535.")
    for index, name in enumerate(written.replaces):
        if name not in CONTROLLERS and (near := did_you_mean(name, CONTROLLERS)):
            raise fail(("replaces", index), f"kube-controller-manager has no {name}", near)
    if written.trigger is None:
        return
    for field in ("annotation", "label"):
        name = getattr(written.trigger, field)
        if name and not _QUALIFIED_NAME.fullmatch(name):
            raise fail(
                ("trigger", field),
                f"{name!r} is no name of {'an annotation' if field == 'annotation' else 'a label'}",
                "Write it as example.com/name: letters, digits, '-', '_' and '.' behind a domain.",
            )


def _check_reconciles(written: OperatorFile, fail: Fail) -> None:
    counter = written.reconciles
    assert counter is not None
    if (written.metrics if written.pod is None else written.pod.metrics) is None:
        raise fail(("reconciles",), "there are no metrics to read it from", "Name the operator's endpoint: `metrics:`.")
    for field in ("counter", "controller_label", "result_label"):
        name = getattr(counter, field)
        if not _METRIC_NAME.fullmatch(name) and (name or field == "counter"):
            raise fail(("reconciles", field), f"{name!r} is no name in Prometheus' format", "Write it as it is served.")


def _check_process(written: OperatorFile, fail: Fail) -> None:
    if not written.command:
        raise fail(
            ("command",), "missing", "Say what to run: `command:` starts a process of this host, `pod:` a Deployment."
        )
    if written.readiness is None:
        raise fail(("readiness",), "missing", _HOW_READY)
    if bool(written.readiness.url) == bool(written.readiness.log):
        raise fail(("readiness",), "takes one of `url` and `log`", _HOW_READY)
    if given := [
        name for name in Admitted.__struct_fields__ if written.readiness.log and getattr(written.readiness, name)
    ]:
        raise fail(("readiness", given[0]), "is for a `url`; a log takes no credentials", "Leave it out.")
    try:
        re.compile(written.readiness.log)
    except re.error as error:
        raise fail(
            ("readiness", "log"),
            f"{written.readiness.log!r} is no regular expression: {error}",
            "Put \\ before what is meant as it stands: \\( \\[ \\*",
        ) from None


def _check_values(written: OperatorFile, fail: Fail) -> None:
    for name, value in written.declared.items():
        path = ("values", name)
        if not _VALUE_NAME.fullmatch(name):
            raise fail(path, "a value's name has lower case letters, digits and '_', and starts with a letter")
        if name in placeholders.PROVIDED:
            raise fail(path, f"{{{name}}} is filled by the harness: {placeholders.PROVIDED[name]}")
        if isinstance(value, Value) and value.choices:
            for item in _as_list(value.default):
                if item not in value.choices:
                    choices = ", ".join(map(_text, value.choices))
                    raise fail((*path, "default"), f"{_text(item)!r} is none of its choices: {choices}")
    for place, argument in arguments(written).items():
        if isinstance(argument, Repeated):
            name = argument.for_
            if name not in written.declared:
                raise fail((*place, "for"), f"no such value: {name}", _near(name, written.declared))
            if not isinstance(_default(written.declared[name]), list):
                raise fail((*place, "for"), f"the default of {name} is no list, so there is nothing to repeat")


def _check_placeholders(written: OperatorFile, known: set[str], fail: Fail) -> None:
    for path, text in {**texts(written), **urls(written), **credential_files(written), **_names(written)}.items():
        for name in placeholders.names(text):
            if name not in known:
                raise fail(path, f"unknown placeholder {{{name}}}", _near(name, known))
            is_list = name in written.declared and isinstance(_default(written.declared[name]), list)
            if is_list and not _inside_repeat(written, path, name):
                raise fail(
                    path,
                    f"{{{name}}} has a list for a default",
                    f"Repeat arguments for each item: - {{for: {name}, arguments: [--option, '{{{name}}}']}}",
                )


def _names(written: OperatorFile) -> dict[Keys, str]:
    """Return the names of targets in the cluster, which may contain placeholders."""
    found: dict[Keys, str] = {}
    for place, part in in_cluster(written).items():
        found[*place, "namespace"] = part.namespace
        if isinstance(part, Service):
            found[*place, "name"] = part.name
        else:
            found[*place, "selector"] = part.selector
    return found


def _inside_repeat(written: OperatorFile, path: Keys, name: str) -> bool:
    return any(
        isinstance(item, Repeated) and item.for_ == name and path[: len(place)] == place
        for place, item in arguments(written).items()
    )


_PORT = re.compile(r":(\d+)$")
_LAST_PORT = 65535


def _check_urls(written: OperatorFile, fail: Fail) -> None:
    passed = {name for text in texts(written).values() for name in placeholders.names(text)}
    for path, url in urls(written).items():
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise fail(path, f"{url!r} is no http or https URL", "Write http://127.0.0.1:{metrics_port}/metrics, say.")
        if (port := _PORT.search(parts.netloc)) is not None and not 0 < int(port[1]) <= _LAST_PORT:
            raise fail(path, f"{url!r}: {port[1]} is no port", f"Write a number up to {_LAST_PORT}.")
        for name in placeholders.names(url):
            if name in placeholders.PORTS and name not in passed:
                raise fail(
                    path,
                    f"{{{name}}} is used here, but the operator does not get this port",
                    f"Pass {{{name}}} in the command, the environment or a file of `files:`.",
                )
    endpoints.check(written, fail)
    if written.webhooks and "webhook_port" not in passed and not written.webhook_port:
        raise fail(
            ("webhooks",),
            "the operator does not get the port that its webhooks are called on",
            "Pass {webhook_port} and {cert_dir} in the command, the environment or a file of `files:`; or name the port"
            " that it always has: `webhook_port: 9443`.",
        )


_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*")
_SPECIAL_VERBS = ("use", "bind", "escalate", "impersonate", "approve", "sign", "attest")
"""Verbs of rights that are no requests (Kubernetes, `Using RBAC Authorization`); a project may have its own."""


def _check_rules(written: OperatorFile, fail: Fail) -> None:
    """Raise for rules that the API server would refuse, and for a misspelt verb, which would grant nothing."""
    mistakes = definitions.Mistakes()
    for index, item in enumerate(written.rbac):
        if isinstance(item, PolicyRule):
            mistakes.errors += [
                fail(("rbac", index, *keys), what, next_step)
                for keys, what, next_step in manifests.rule(item, namespaced=False)
            ]
            mistakes.errors += [
                fail(("rbac", index, "verbs", position), f"{verb!r} grants nothing", near)
                for position, verb in enumerate(item.verbs)
                if verb not in (*_VERBS, *_SPECIAL_VERBS) and (near := did_you_mean(verb, _VERBS))
            ]
    mistakes.demand_none()


def _check_trigger(written: OperatorFile, installation: Installation, fail: Fail) -> None:
    """Raise for a misspelt kind: one that is nearly that of a CRD of the definition. Others may be there already."""
    kinds = {str(crd.object["spec"]["names"]["kind"]) for crd in installation.crds}
    if written.trigger is not None and written.trigger.kind not in kinds:
        kind = written.trigger.kind
        if near := did_you_mean(kind, kinds):
            raise fail(("trigger", "kind"), f"no CustomResourceDefinition of `crds` has the kind {kind}", near)


def _absolute(file: Path, build: list[str], fail: Fail, place: Keys, name: str) -> str:
    """Return the absolute path of an existing file or folder that a definition names."""
    found = (file.parent / name).expanduser().resolve()
    if not found.exists():
        made = f" What its build makes has to be there before: {shlex.join(build)}" if build else ""
        steps = f"{_near_path(found)} Paths are relative to the definition file.{made}".lstrip()
        raise fail(place, f"no such file or folder: {found}", steps)
    return str(found)


def _near_path(missing: Path) -> str:
    """Return ``Did you mean rbac.yaml?`` for the first part of a path that is not there; empty where none is near."""
    part = missing
    while not part.parent.is_dir() and part != part.parent:
        part = part.parent
    try:
        return did_you_mean(part.name, [other.name for other in part.parent.iterdir()])
    except OSError:  # a folder that may not be listed
        return ""


def _resolve_paths(written: OperatorFile, absolute: Absolute, workdir: Path) -> OperatorFile:
    """Return the definition with absolute paths of existing files and folders."""
    lists: dict[str, list[str | PolicyRule]] = {
        "rbac": [item for item in written.rbac if isinstance(item, PolicyRule)],
        **{field: [] for field in ("crds", "manifests", "webhooks")},
    }
    for field, keys, name in manifest_sources.items(written):
        if field in lists:
            lists[field].append(absolute(keys, name))
    runs_in = absolute(("workdir",), written.workdir) if written.workdir else str(workdir)
    return msgspec.structs.replace(endpoints.with_files(written, absolute), **lists, workdir=runs_in)


def _of_process(
    written: OperatorFile, sources: list[Source], file: Path, fail: Fail
) -> tuple[OperatorFile, Installation]:
    """Return the definition of a process with its identity, and the objects to create for it."""
    granted = manifest_sources.taken(sources, "rbac")
    own = _account(written, granted, manifest_sources.accounts_of_deployments(sources), fail)
    identity = Identity(
        namespace=written.identity.namespace or (own.namespace if own else "") or DEFAULT_NAMESPACE,
        service_account=written.identity.service_account or (own.name if own else written.name),
    )
    rules = [item for item in written.rbac if isinstance(item, PolicyRule)]
    grants, unbound = rbac.grants(granted, own)
    if rules:
        grants.insert(0, Grant(source=str(file), rules=rules))
    installation = Installation(
        crds=manifest_sources.taken(sources, "crds"),
        rbac=rbac.objects(written.name, grants, identity),
        webhooks=manifest_sources.taken(sources, "webhooks"),
        manifests=manifest_sources.taken(sources, "manifests"),
        left_out=[
            *manifest_sources.left_out(sources),
            *(manifest_sources.named(one, f"no binding of ServiceAccount {own} has it") for one in unbound),
        ],
    )
    return msgspec.structs.replace(written, identity=identity), installation


def _account(written: OperatorFile, granted: list[Manifest], of_deployments: set[str], fail: Fail) -> Account | None:
    """Return the ServiceAccount whose bindings count; None where no binding names one.

    Of several it is the one of the definition's ``identity``, or of a Deployment beside them.
    """
    named = rbac.accounts(granted)
    asked = written.identity
    by_name = [one for one in named if one.name == asked.service_account and asked.namespace in ("", one.namespace)]
    near = (
        "" if by_name or not asked.service_account else did_you_mean(asked.service_account, {one.name for one in named})
    )
    if near:
        raise fail(("identity", "service_account"), f"no binding under `rbac` names {asked.service_account}", near)
    by_deployment = [one for one in named if one.name in of_deployments]
    for candidates in (by_name, by_deployment, named):
        if len(candidates) == 1:
            return candidates[0]
    if not named:
        return None
    raise fail(
        ("rbac",),
        f"its bindings name several ServiceAccounts: {', '.join(map(str, named))}",
        f"Say which one it runs as: identity: {{service_account: {named[0].name}}}",
    )


def _check_chosen(written: OperatorFile, chosen: Mapping[str, str]) -> None:
    for name in chosen:
        if name not in written.declared:
            raise UsageError(
                f"the operator {written.name} has no value {name!r}",
                next_step=_declaring(name, written)
                if name in written.env or not written.declared
                else _near(name, written.declared),
            )


def _setting(name: str, value: Scalar | list[Scalar] | Value, chosen: str | None) -> Setting:
    default = _default(value)
    choices = [_text(choice) for choice in value.choices] if isinstance(value, Value) else []
    if chosen is None:
        return tuple(map(_text, default)) if isinstance(default, list) else _text(default)
    items = [item.strip() for item in chosen.split(",") if item.strip()] if isinstance(default, list) else [chosen]
    for item in items:
        if choices and item not in choices:
            raise UsageError(
                f"the operator's value {name} cannot be {item!r}", next_step=with_all(item, choices, what="It may be")
            )
    return tuple(items) if isinstance(default, list) else chosen


def _default(value: Scalar | list[Scalar] | Value) -> Scalar | list[Scalar]:
    return value.default if isinstance(value, Value) else value


def _as_list(value: Scalar | list[Scalar]) -> list[Scalar]:
    return value if isinstance(value, list) else [value]


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _declaring(name: str, written: OperatorFile) -> str:
    """Return how a definition gets a value, for a variable of its environment or an argument."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "name"
    default = written.env.get(name, "…")
    place = f"env: {{{name}: '{{{plain}}}'}}" if name in written.env else f"'{{{plain}}}' in its command or env"
    return f"Declare it in its definition, values: {{{plain}: {default}}}, and use it there: {place}"


def _near(name: str, known: Iterable[str]) -> str:
    return with_all(name, sorted(known), what="Known")
