"""How an operator in Go is built and started as a process of this machine: what its sources and manifests say.

It is read by its flags and its Deployment's arguments. What is not said there is guessed, and each guess says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

import msgspec
import yaml

from ..operator.manifests import WEBHOOKS, Object
from .configuration import configured
from .deployment import (
    HEALTH,
    METRICS,
    PPROF,
    Container,
    Flag,
    container,
    environment,
    kept_arguments,
    local,
    own_counter,
    own_values,
    probe_path,
    readiness_url,
)
from .facts import KUSTOMIZED, YAML, Facts


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """How the operator is built and run; fields as in an operator definition."""

    language: str
    """``go``, ``python``, ``node``, ``rust``, ``java``, ``dotnet``, ``shell``; ``pods``: there are only manifests."""
    command: tuple[str, ...]
    manifests: tuple[str, ...] = ()
    """Files with its Deployment, where it has to run as pods."""
    build: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    """Name → text of its configuration."""
    readiness: str = ""
    metrics: str = ""
    secure_metrics: bool = False
    """It answers with TLS, to authorized readers."""
    reconciles: Mapping[str, str] = {}
    """Its own counter of reconciles, where its library serves none."""
    pprof: str = ""
    webhooks: tuple[str, ...] = ()
    """Files of webhook configurations that its process can serve."""
    webhook_port: int = 0
    """The port of its webhook server, where it cannot be chosen."""
    elects_leader: bool = False
    """It may elect a leader, for which it needs rights: no flag switches that off."""
    requirements: str = ""
    """File of what a Python program needs."""
    modules: tuple[str, ...] = ()
    """Those that a Python program imports and that are neither its own nor Python's."""
    guesses: Mapping[str, tuple[str, ...]] = {}
    """Field of the definition → what was guessed there, or has to be known."""
    text: str
    """Its sources, joined."""
    texts: tuple[str, ...] = ()
    """Its sources, file by file, in Go."""


# ---- Go


_NAME_LENGTH = 80
_METHOD = "(?:String|Bool|Int|Int32|Int64|Uint|Uint16|Duration|Float64|StringSlice|StringArray)"
_FLAGS = (
    # flag.StringVar(&addr, "name", ":8080", …), with pflag's one letter after the name
    re.compile(rf'\.({_METHOD})VarP?\(\s*&[\w.\[\]]+,\s*"([A-Za-z][\w.-]*)"(?:,\s*"\w?")?,\s*([^\n]*?)\s*,'),
    re.compile(
        rf'\b(?:flag|pflag|fs|flags|flagSet|Flags\(\))\.({_METHOD})P?\(\s*"([A-Za-z][\w.-]*)"'
        r'(?:,\s*"\w?")?,\s*([^\n]*?)\s*,'
    ),
    re.compile(r'cli\.(\w+)Flag\{\s*Name:\s*"([A-Za-z][\w-]*)"()'),
    re.compile(r'\b(?:kingpin|app|cmd)\.()Flag\(\s*"([A-Za-z][\w-]*)"()'),
)
_FIXED_METRICS = re.compile(r'(?:metrics\w*\.Options\{[^}]*?\bBindAddress|MetricsBindAddress):\s*"([^"]*:(\d+))"', re.S)
_FIXED_HEALTH = re.compile(r'HealthProbeBindAddress:\s*"[^"]*:(\d+)"')
_FIXED_PPROF = re.compile(r'PprofBindAddress:\s*"[^"]*:(\d+)"')
_FIXED_WEBHOOK = re.compile(r"\b(?:webhook|ctrl|manager)\.(?:Server|Options)\{(?:[^{}]|\{[^{}]*\})*?\bPort:\s*(\d+)")
"""Also of older versions of controller-runtime, where the manager's options have it."""
_MAIN = re.compile(r"^package main\b.*^func main\(", re.MULTILINE | re.DOTALL)
_ALWAYS_LEADER = re.compile(r"\bLeaderElection:\s*true\b")
_KUBECONFIG = re.compile(r"GetConfig(OrDie)?\(|clientcmd\.|BuildConfigFromFlags\(")
_MANAGER = re.compile(r"\b(?:NewManager|manager\.New)\(")
_OWN_MANAGER = re.compile(r"^func NewManager\(", re.MULTILINE)


def go_program(facts: Facts) -> Program | None:
    """Return the program of a project in Go; None where it has no main package."""
    sources = facts.sources(".go")
    package = _main_package(facts, sources)
    if package is None:
        return None
    sources = _of_program(sources, package)
    source = "\n".join(sources.values())
    guesses: dict[str, list[str]] = {}
    given = container(facts)
    flags = _flags(sources, package, given.arguments)
    env = environment(facts, given, source, guesses)
    own = own_values(flags, given, serves_metrics=_serves_metrics(source))
    arguments = kept_arguments(given.arguments, flags, own, given, facts.files, env, guesses)
    arguments += [f"--{name}={value}" for name, (_, value) in own.items()]
    roles = {role for role, _ in own.values()}
    config = _configuration(facts, source, flags, roles)
    if config:
        arguments = [each for each in arguments if not each.startswith("--config")]
        arguments.append(f"--config={{directory}}/{_CONFIG}")
    else:
        arguments, env, config = configured(facts, given, source, flags, arguments, env, guesses)
    roles |= {
        port
        for port in (METRICS, HEALTH)
        if any(f"{{{port}}}" in text for text in (*arguments, *env.values(), *config.values()))
    }
    webhooks = _webhooks(facts, source, [*arguments, *config.values()], env, guesses)
    start = _WITH_CERTIFICATE if env.get("TMPDIR") == "{directory}" else ("bin/manager",)
    webhook_port = 0
    if webhooks and not any("{webhook_port}" in text for text in (*arguments, *config.values())):
        fixed_webhook = _FIXED_WEBHOOK.search(source)
        webhook_port = int(fixed_webhook[1]) if fixed_webhook else 9443
    if not webhooks:
        # A port that no webhook is called on needs no place; the folder of its certificate may still be read.
        arguments = [each for each in arguments if "{webhook_port}" not in each]
    if "leader" not in roles and _ALWAYS_LEADER.search(source) and "LeaderElectionNamespace" not in source:
        guesses.setdefault("command", []).append(
            "its leader election is always on, and knows its namespace in a pod only: add a flag that switches it off"
        )
    if "InClusterConfig()" in source and not _KUBECONFIG.search(source):
        guesses.setdefault("command", []).append("it seems to find its API server in a pod only, not by KUBECONFIG")
    metrics, secure = _go_metrics(source, given, roles, guesses)
    fixed_pprof = _FIXED_PPROF.search(source)
    return Program(
        language="go",
        build=("go", "build", "-o", "bin/manager", package),
        command=(*start, *arguments),
        env=env,
        files=config,
        readiness=_go_readiness(source, given, roles, metrics, guesses),
        metrics=metrics,
        secure_metrics=secure,
        reconciles=_go_reconciles(source, guesses) if metrics else {},
        pprof=f"{local(fixed_pprof[1] if fixed_pprof else '{pprof_port}')}/debug/pprof"
        if PPROF in roles or fixed_pprof
        else "",
        webhooks=webhooks,
        webhook_port=webhook_port,
        elects_leader="leader" not in roles,
        guesses={field: tuple(texts) for field, texts in guesses.items()},
        text=source,
        texts=tuple(sources.values()),
    )


def _of_program(sources: Mapping[str, str], package: str) -> dict[str, str]:
    """Return the sources without those of the module's other programs."""
    others = {str(PurePosixPath(path).parent) for path, text in sources.items() if _MAIN.search(text)}
    others.discard(_folder(package))
    return {path: text for path, text in sources.items() if str(PurePosixPath(path).parent) not in others}


def _folder(package: str) -> str:
    return package.removeprefix("./")


def _main_package(facts: Facts, sources: Mapping[str, str]) -> str | None:
    """Return the package of the program, ``./cmd``: that which makes a manager, else the one the Dockerfile builds."""
    mains: dict[str, str] = {}
    for path, text in sources.items():
        if _MAIN.search(text):
            folder = str(PurePosixPath(path).parent)
            mains[folder] = mains.get(folder, "") + text
    if not mains:
        return None
    built = _built_by_docker(facts)
    ranked = sorted(
        mains,
        key=lambda folder: (
            not _has_manager(mains[folder]),
            folder not in built,
            PurePosixPath(folder).name not in ("manager", "operator", "controller", "cmd", facts.name),
            folder.count("/"),
            folder,
        ),
    )
    return "." if ranked[0] == "." else f"./{ranked[0]}"


def _built_by_docker(facts: Facts) -> set[str]:
    found = set()
    for path, text in facts.files.items():
        if PurePosixPath(path).name in ("Dockerfile", "Containerfile"):
            for line in re.findall(r"go build [^\n&]*", text.replace("\\\n", " ")):
                target = PurePosixPath(line.split()[-1])
                found.add(str(target.parent if target.suffix == ".go" else target))
    return found


def _flags(sources: Mapping[str, str], package: str, arguments: Sequence[str]) -> dict[str, Flag]:
    """Return the program's flags: those beside its main function and its manager, or of all its sources.

    All where the former have none with a role. Of the commands of one program (cobra), those of the one that the
    Deployment runs, and of the root.
    """
    near = [
        text
        for path, text in sources.items()
        if str(PurePosixPath(path).parent) == _folder(package) or _MANAGER.search(text)
    ]
    for texts in (near, list(sources.values())):
        others = _other_commands(texts, arguments)
        found = {name: flag for text in texts for name, flag in _flags_in(text, others)}
        if own_values(found, Container(), serves_metrics=False):
            return found
    # Libraries that read flags in ways of their own: those that the Deployment gives are known.
    given = [argument.lstrip("-").partition("=") for argument in arguments if argument.startswith("-")]
    return found | {name: Flag("", value) for name, _, value in given if name not in found}


_COMMAND = re.compile(r"\b(\w+)\.(?:Persistent)?Flags\(\)")


def _other_commands(texts: Sequence[str], arguments: Sequence[str]) -> set[str]:
    """Return the variables of the commands whose flags are not this one's; empty where that cannot be known."""
    commands = {name for text in texts for name in _COMMAND.findall(text)}
    words = [argument.lower() for argument in arguments if not argument.startswith("-")][:1] or ["root"]
    chosen = {name for name in commands if any(word in name.lower() for word in [*words, "root"])}
    return commands - chosen if chosen else set()


def _flags_in(text: str, others: set[str]) -> Iterator[tuple[str, Flag]]:
    for pattern in _FLAGS:
        for match in pattern.finditer(text):
            command = _COMMAND.search(
                text[max(0, match.start() - _NAME_LENGTH) : match.start() + 1].rpartition("\n")[2]
            )
            if command is None or command[1] not in others:
                kind, name, default = match.groups()
                yield name, Flag(kind, default.strip('"`'))


_SERVED = re.compile(r'ListenAndServe(?:TLS)?\(\s*"[^":]*:(\d+)"|\bAddr:\s*"[^":]*:(\d+)"')
"""A port on which the program serves with net/http, always."""


_SERVERS = re.compile(r"\bListenAndServe(?:TLS)?\(|\.Serve(?:TLS)?\(\w+[,)]")


def _has_manager(source: str) -> bool:
    """Return whether a program has a manager of controller-runtime, not a type of its own that is called so."""
    return _MANAGER.search(source) is not None and not _OWN_MANAGER.search(source)


def _serves_metrics(source: str) -> bool:
    """Return whether a program serves its metrics by itself, not by controller-runtime's manager."""
    return "promhttp." in source and not _has_manager(source)


def _served_ports(source: str, first: int) -> list[int]:
    ports = dict.fromkeys(int(port) for found in _SERVED.findall(source) for port in found if port)
    return sorted(ports, key=lambda port: port != first)


def _go_metrics(source: str, given: Container, roles: set[str], guesses: dict[str, list[str]]) -> tuple[str, bool]:
    """Return the URL of /metrics, empty for none; and whether it is for authorized readers only."""
    fixed = _FIXED_METRICS.search(source)
    secure = bool(re.search(r"SecureServing:\s*true", source)) and "secure" not in roles
    served = _served_ports(source, given.metrics_port) if _serves_metrics(source) else []
    if METRICS in roles:
        return f"{local('{metrics_port}', secure)}/metrics", secure
    if HEALTH in roles and len(_SERVERS.findall(source)) == 1 and _serves_metrics(source):
        guesses.setdefault("metrics", []).append("the program has one server, which answers its probe as well")
        return f"{local('{health_port}')}/metrics", False
    if fixed or served:
        address, port = (fixed[1], fixed[2]) if fixed else (f":{served[0]}", str(served[0]))
        guesses.setdefault("metrics", []).append(
            f"the program serves on {address}, always: two of it cannot run at once"
        )
        return f"{local(port, secure)}/metrics", secure
    if _has_manager(source) and not re.search(r'BindAddress:\s*"0"', source):
        guesses.setdefault("metrics", []).append(
            "no flag of the program names a metrics address: controller-runtime's own is :8080"
        )
        return f"{local('8080')}/metrics", False
    return "", False


_COUNTER = re.compile(r"(?:Counter|Histogram)Opts\{((?:[^{}]|\{[^{}]*\})*)\}(?:,\s*\[\]string\{([^}]*)\})?")
_OF_RECONCILES = re.compile(r"reconcil|syncs?(?:_total|(?:_(?:duration|time|latency))?(?:_seconds)?)?$")
_TIMED = re.compile(r"_(?:duration|time|latency|seconds)(?:_seconds)?$")


def _go_reconciles(source: str, guesses: dict[str, list[str]]) -> dict[str, str]:
    """Return the counter of reconciles of a program without controller-runtime, which serves one of its own.

    A histogram of their times counts them, too.
    """
    for options, labels in [] if _has_manager(source) else _COUNTER.findall(source):
        parts = [re.search(rf'\b{part}:\s*"(\w+)"', options) for part in ("Namespace", "Subsystem", "Name")]
        name = "_".join(part[1] for part in parts if part)
        if parts[-1] and _OF_RECONCILES.search(name):
            return own_counter(f"{name}_count" if _TIMED.search(name) else name, labels, guesses)
    return {}


def _go_readiness(source: str, given: Container, roles: set[str], metrics: str, guesses: dict[str, list[str]]) -> str:
    path = given.readiness or ("/readyz" if "AddReadyzCheck" in source else "")
    path = path or ("/healthz" if "AddHealthzCheck" in source else probe_path(source))
    fixed = [int(port) for port in _FIXED_HEALTH.findall(source)] or _served_ports(source, given.probe_port)
    one_server = not _has_manager(source)
    return readiness_url(given, path, roles, fixed, metrics, guesses, one_server=one_server)


_SERVING = "{directory}/k8s-webhook-server"
_WITH_CERTIFICATE = (
    "sh",
    "-c",
    f'mkdir -p {_SERVING} && ln -sfn {{cert_dir}} {_SERVING}/serving-certs && exec bin/manager "$@"',
    "manager",
)
"""Start of a program whose webhook server reads its certificate where controller-runtime does without a setting: in
``k8s-webhook-server/serving-certs`` of the folder for temporary files (`webhook.Options.CertDir`)."""
_SERVES_WEBHOOKS = re.compile(r"WebhookManagedBy\(|GetWebhookServer\(|SetupWebhookWithManager\(")


def _webhooks(
    facts: Facts, source: str, arguments: Sequence[str], env: dict[str, str], guesses: dict[str, list[str]]
) -> tuple[str, ...]:
    """Return the files of webhook configurations that can be used; switch the webhooks off where none can."""
    if not _SERVES_WEBHOOKS.search(source):
        return ()
    configurations = sorted({found.file for found in facts.of_kind(*WEBHOOKS)})
    if KUSTOMIZED in facts.files and any(_is_patched(file, facts) for file in configurations):
        # Beside patches, a file says but a part of it.
        configurations = [str(PurePosixPath(KUSTOMIZED).parent)]
    given = " ".join([*arguments, *env.values()])
    if configurations and "{cert_dir}" in given:
        if "{webhook_port}" not in given:
            guesses.setdefault("webhook_port", []).append(
                "no flag of the program names it, so that two of it cannot run at once"
                + (': ENABLE_WEBHOOKS: "false" avoids that' if "ENABLE_WEBHOOKS" in source else "")
            )
        return tuple(configurations)
    if "ENABLE_WEBHOOKS" in source:
        env["ENABLE_WEBHOOKS"] = "false"
        if configurations:
            guesses.setdefault("env", []).append(
                "its webhooks are off here: no flag of the program names the folder of their certificate"
            )
    elif "{cert_dir}" not in given and "CertDir" in source:
        guesses.setdefault("command", []).append(
            "its webhook server wants a certificate in a folder that no flag of the program names: add one, or a switch"
        )
    elif "{cert_dir}" not in given:
        env["TMPDIR"] = "{directory}"
        guesses.setdefault("command", []).append(
            "no flag of the program names the folder of its webhooks' certificate: it is controller-runtime's own"
        )
        return tuple(configurations)
    return ()


def _is_patched(file: str, facts: Facts) -> bool:
    """Return whether a kustomization beside a file has patches."""
    return "patches" in facts.files.get(str(PurePosixPath(file).parent / "kustomization.yaml"), "")


_CONFIG = "config.yaml"


def _configuration(facts: Facts, source: str, flags: Mapping[str, Flag], roles: set[str]) -> dict[str, str]:
    """Return name → text of the configuration of a program that rotates its webhooks' certificate, if it says so there.

    With the issued certificate instead: the Secret of a rotated one is mounted by a kubelet, which a process has not.
    ``roles``: what flags name, and the configuration need not.
    """
    for path, text in facts.files.items():
        if "config" not in flags or "InternalCertManagement" not in source or not path.endswith(YAML):
            continue
        try:
            content = yaml.safe_load(text) if "internalCertManagement" in text else None
        except yaml.YAMLError:
            continue
        if not isinstance(content, dict) or not isinstance(content.get("internalCertManagement"), dict):
            continue
        own: dict[str, dict[str, object]] = {
            "webhook": {"port": "{webhook_port}", "certDir": "{cert_dir}"},
            "internalCertManagement": {"enable": False},
        }
        if METRICS not in roles:
            own["metrics"] = {"bindAddress": "127.0.0.1:{metrics_port}"}
        if HEALTH not in roles:
            own["health"] = {"healthProbeBindAddress": "127.0.0.1:{health_port}"}
        if "leader" not in roles:
            own["leaderElection"] = {"leaderElect": False}
        changed = {key: {**(content.get(key) or {}), **values} for key, values in own.items()}
        dumped = yaml.safe_dump({**content, **changed}, sort_keys=False, default_flow_style=False, width=1000)
        # A number, once it is known.
        return {_CONFIG: dumped.replace("'{webhook_port}'", "{webhook_port}")}
    return {}


# ---- what it may do


_MARKER = re.compile(r"^\s*//\s*\+kubebuilder:rbac:(.*)$", re.MULTILINE)


def rules_of_markers(source: str) -> list[Object]:
    """Return the rules of ``+kubebuilder:rbac`` markers, as controller-gen would write them into a role."""
    rules: list[Object] = []
    keys = {
        "groups": "apiGroups",
        "resources": "resources",
        "verbs": "verbs",
        "urls": "nonResourceURLs",
        "resourceNames": "resourceNames",
    }
    for marker in _MARKER.findall(source):
        rule: Object = {}
        for part in re.findall(r'(\w+)=((?:"[^"]*"|[^,"])*)', marker):
            if part[0] in keys:
                items = [item.strip('"') for item in part[1].strip().strip('"').split(";")]
                # controller-gen writes the core group's name as "core", too.
                rule[keys[part[0]]] = ["" if part[0] == "groups" and item == "core" else item for item in items]
        if rule.get("verbs") and rule not in rules:
            rules.append(rule)
    return rules


def project_kinds(facts: Facts) -> list[str]:
    """Return the kinds that PROJECT lists with a controller, in its order; empty without one."""
    try:
        content = yaml.safe_load(facts.files.get("PROJECT", ""))
    except yaml.YAMLError:
        return []
    resources = content.get("resources") if isinstance(content, dict) else None
    return [str(one.get("kind")) for one in resources or [] if isinstance(one, dict) and one.get("controller")]
