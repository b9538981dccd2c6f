"""How a project's operator is built and started as a process of this machine: what its sources and manifests say.

A Go program is read by its flags and its Deployment's arguments; a kopf operator by its decorators. What is not said
there is guessed, and each guess says so.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import msgspec
import yaml

from ..operator.manifests import WEBHOOKS, Object
from .facts import Facts

_METRICS, _HEALTH, _PPROF = "metrics_port", "health_port", "pprof_port"
_ADDRESS = frozenset({"addr", "address", "listen", "bind", "endpoint", "port", "host"})
_HEALTHY = frozenset({"health", "healthz", "probe", "probes", "readyz", "liveness"})
_PROFILING = frozenset({"pprof", "profiling", "profiler", "profile"})
_CERTIFICATE = frozenset({"cert", "certs", "certificate", "certificates", "tls"})
_OWN_NAMESPACE = re.compile(r"(MY_|SYSTEM_)?(POD|OPERATOR|CONTROLLER|MANAGER|OWN|CURRENT)_?(POD_)?NAMESPACE")


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """How the operator is built and run; fields as in an operator definition."""

    language: str
    """``go``, ``python``; ``pods``: there are only manifests."""
    command: tuple[str, ...]
    manifests: tuple[str, ...] = ()
    """Files with its Deployment, where it has to run as pods."""
    build: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    readiness: str = ""
    metrics: str = ""
    secure_metrics: bool = False
    """It answers with TLS, to authorized readers."""
    pprof: str = ""
    webhooks: tuple[str, ...] = ()
    """Files of webhook configurations that its process can serve."""
    webhook_port: int = 0
    """The port of its webhook server, where it cannot be chosen."""
    elects_leader: bool = False
    """It may elect a leader, for which it needs rights: no flag switches that off."""
    requirements: str = ""
    """File of what a Python program needs."""
    guesses: Mapping[str, tuple[str, ...]] = {}
    """Field of the definition → what was guessed there, or has to be known."""
    text: str
    """Its sources, joined."""


class _Flag(NamedTuple):
    kind: str
    default: str


def program(facts: Facts) -> Program | None:
    """Return the program of a project; None where there are only manifests."""
    return _go(facts) or _kopf(facts)


# ---- the operator's Deployment


class Container(NamedTuple):
    """The operator's container."""

    command: tuple[str, ...]
    """Without its arguments."""
    arguments: tuple[str, ...]
    env: tuple[Mapping[str, Any], ...]
    readiness: str
    """Path of its readiness or liveness probe."""


def containers(deployment: Object) -> list[Object]:
    """Return the containers of a Deployment, which may be a patch of one."""
    found = _pod_spec(deployment).get("containers")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _pod_spec(deployment: Object) -> Object:
    found: Any = deployment
    for key in ("spec", "template", "spec"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def container(facts: Facts) -> Container:
    """Return the operator's container, by the Deployment that looks most like an operator's; empty without any.

    One without a ServiceAccount, an operator's name or leader election is an example of something else.
    """
    found: list[tuple[int, Container]] = []
    for deployment in facts.of_kind("Deployment"):
        for one in containers(deployment.object):
            if "kube-rbac-proxy" in str(one.get("image", "")):
                continue
            command = tuple(map(str, one.get("command") or ()))
            arguments = (*command[1:], *map(str, one.get("args") or ()))
            probe = one.get("readinessProbe") or one.get("livenessProbe") or {}
            score = 4 * ("leader" in " ".join(arguments)) + 2 * (one.get("name") in ("manager", "operator"))
            score += 2 * ("serviceAccountName" in _pod_spec(deployment.object))
            score += deployment.file.startswith("config/manager/")
            path = str((probe.get("httpGet") or {}).get("path", ""))
            if score:
                found.append((score, Container(command[:1], arguments, tuple(one.get("env") or []), path)))
    return max(found, key=lambda each: each[0])[1] if found else Container((), (), (), "")


def _environment(facts: Facts, source: str, guesses: dict[str, list[str]], name: str) -> dict[str, str]:
    """Return the variables that the container sets, as a process of this machine needs them."""
    env: dict[str, str] = {}
    for item in container(facts).env:
        variable = str(item.get("name", ""))
        field = ((item.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "")
        if "valueFrom" not in item:
            env[variable] = _plain(str(item.get("value", "")))
        elif field == "metadata.namespace":
            env[variable] = "{namespace}"
        elif field == "metadata.name":
            env[variable] = f"{name}-0"
        elif field in ("status.podIP", "status.hostIP"):
            env[variable] = "127.0.0.1"
        else:
            guesses.setdefault("env", []).append(f"in its Deployment {variable} comes from the cluster; set it here")
    asked = set(re.findall(r"(?:Getenv|LookupEnv|getenv|environ\.get)\(\s*[\"'](\w+)[\"']", source))
    asked |= set(re.findall(r"environ\[[\"'](\w+)[\"']\]", source))
    for variable in sorted(asked - env.keys()):
        if _OWN_NAMESPACE.fullmatch(variable):
            env[variable] = "{namespace}"
    for variable in {*asked, *env}:
        # An operator that is installed into one namespace watches that one; a test has one of its own.
        if variable in ("WATCH_NAMESPACE", "WATCH_NAMESPACES"):
            env[variable] = ""
        value = _port_value(*(_role(variable) or ("", False)), default=env.get(variable, ""))
        if value:
            env[variable] = value
    return env


def _plain(text: str) -> str:
    """Return a text that is not taken for one with placeholders."""
    return re.sub(r"\{([a-z][a-z0-9_]*)\}", r"{{\1}}", text)


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
_FIXED_WEBHOOK = re.compile(r"\bPort:\s*(\d+)")
"""Also of older versions of controller-runtime, where the manager's options have it."""
_MAIN = re.compile(r"^package main\b.*^func main\(", re.MULTILINE | re.DOTALL)
_ALWAYS_LEADER = re.compile(r"\bLeaderElection:\s*true\b")
_KUBECONFIG = re.compile(r"GetConfig(OrDie)?\(|clientcmd\.|BuildConfigFromFlags\(")
_MANAGER = re.compile(r"\b(?:NewManager|manager\.New)\(")


def _go(facts: Facts) -> Program | None:
    sources = facts.sources(".go")
    package = _main_package(facts, sources)
    if package is None:
        return None
    sources = _of_program(sources, package)
    source = "\n".join(sources.values())
    guesses: dict[str, list[str]] = {}
    given = container(facts)
    flags = _flags(sources, package, given.arguments)
    env = _environment(facts, source, guesses, facts.name)
    arguments = _kept(given.arguments, flags, facts.files, env, guesses)
    ports: dict[str, str] = {}
    for name, flag in flags.items():
        role, own = _go_argument(name, flag)
        if own:
            arguments.append(f"--{name}={own}")
            ports.setdefault(role, name)
    webhooks = _webhooks(facts, source, arguments, env, guesses)
    start = _WITH_CERTIFICATE if env.get("TMPDIR") == "{directory}" else ("bin/manager",)
    webhook_port = 0
    if webhooks and not any("{webhook_port}" in argument for argument in arguments):
        fixed_webhook = _FIXED_WEBHOOK.search(source)
        webhook_port = int(fixed_webhook[1]) if fixed_webhook else 9443
    if not webhooks:
        # A port that no webhook is called on needs no place; the folder of its certificate may still be read.
        arguments = [each for each in arguments if "{webhook_port}" not in each]
    if "leader" not in ports and _ALWAYS_LEADER.search(source) and "LeaderElectionNamespace" not in source:
        guesses.setdefault("command", []).append(
            "its leader election is always on, and knows its namespace in a pod only: add a flag that switches it off"
        )
    if "InClusterConfig()" in source and not _KUBECONFIG.search(source):
        guesses.setdefault("command", []).append("it seems to find its API server in a pod only, not by KUBECONFIG")
    metrics, secure = _go_metrics(source, flags, ports, guesses)
    fixed_pprof = _FIXED_PPROF.search(source)
    return Program(
        language="go",
        build=("go", "build", "-o", "bin/manager", package),
        command=(*start, *arguments),
        env=env,
        readiness=_go_readiness(source, given, ports, metrics, guesses),
        metrics=metrics,
        secure_metrics=secure,
        pprof=f"{_local(fixed_pprof[1] if fixed_pprof else '{pprof_port}')}/debug/pprof"
        if _PPROF in ports or fixed_pprof
        else "",
        webhooks=webhooks,
        webhook_port=webhook_port,
        elects_leader="leader" not in ports,
        guesses={field: tuple(texts) for field, texts in guesses.items()},
        text=source,
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
            not _MANAGER.search(mains[folder]),
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


def _flags(sources: Mapping[str, str], package: str, arguments: Sequence[str]) -> dict[str, _Flag]:
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
        if any(_go_argument(name, flag)[1] for name, flag in found.items()):
            return found
    # Libraries that read flags in ways of their own: those that the Deployment gives are known.
    given = [argument.lstrip("-").partition("=") for argument in arguments if argument.startswith("-")]
    return found | {name: _Flag("", value) for name, _, value in given if name not in found}


_COMMAND = re.compile(r"\b(\w+)\.(?:Persistent)?Flags\(\)")


def _other_commands(texts: Sequence[str], arguments: Sequence[str]) -> set[str]:
    """Return the variables of the commands whose flags are not this one's; empty where that cannot be known."""
    commands = {name for text in texts for name in _COMMAND.findall(text)}
    words = [argument.lower() for argument in arguments if not argument.startswith("-")][:1] or ["root"]
    chosen = {name for name in commands if any(word in name.lower() for word in [*words, "root"])}
    return commands - chosen if chosen else set()


def _flags_in(text: str, others: set[str]) -> Iterator[tuple[str, _Flag]]:
    for pattern in _FLAGS:
        for match in pattern.finditer(text):
            command = _COMMAND.search(
                text[max(0, match.start() - _NAME_LENGTH) : match.start() + 1].rpartition("\n")[2]
            )
            if command is None or command[1] not in others:
                kind, name, default = match.groups()
                yield name, _Flag(kind, default.strip('"`'))


def _words(name: str) -> frozenset[str]:
    return frozenset(re.split(r"[-_.]", re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()))


def _role(name: str) -> tuple[str, bool] | None:
    """Return the placeholder of a flag's or a variable's port, and whether it names the port alone."""
    words = _words(name)
    if not words & _ADDRESS or words & {"secure", "cert", "key", "path", "namespace", "timeout", "interval"}:
        return None
    alone = "port" in words
    if words & _PROFILING:
        return _PPROF, alone
    if "metrics" in words or "metric" in words or "prometheus" in words:
        return _METRICS, alone
    if words & _HEALTHY:
        return _HEALTH, alone
    return ("webhook_port", True) if "webhook" in words and alone else None


def _port_value(placeholder: str, alone: bool, *, default: str) -> str:
    """Return the value of a flag or variable that takes a port, an address, or an address with a scheme."""
    if not placeholder:
        return ""
    if alone and ":" not in default:
        return f"{{{placeholder}}}"
    return f"127.0.0.1:{{{placeholder}}}"


def _go_argument(name: str, flag: _Flag) -> tuple[str, str]:
    """Return the role of a flag and the value that it gets here; empty for one that is left at its default."""
    words = _words(name)
    if (
        words & {"leader", "leaderelection"}
        and words <= {"leader", "elect", "election", "leaderelection", "enable", "enabled"}
        and flag.kind in ("Bool", "")
    ):
        return "leader", "false"
    if words == {"metrics", "secure"} or words == {"secure", "metrics", "serving"}:
        return "secure", "false"
    if name == "kubeconfig":
        return "kubeconfig", "{kubeconfig}"
    if role := _role(name):
        return role[0], _port_value(*role, default=flag.default)
    of_directory = bool(words & {"dir", "path", "directory"}) or name.endswith("certdir")
    if words & _CERTIFICATE and of_directory and ("webhook" in words or words <= {"cert", "certs", "dir", "tls"}):
        return "certificate", "{cert_dir}"
    return "", ""


_YAML_FILES = (".yaml", ".yml")


def _kept(
    given: Sequence[str],
    flags: Mapping[str, _Flag],
    files: Iterable[str],
    env: Mapping[str, str],
    guesses: dict[str, list[str]],
) -> list[str]:
    """Return a Deployment's arguments without those that get a value of their own here."""
    kept: list[str] = []
    items = list(given)
    while items:
        item = items.pop(0)
        name, equals, value = item.lstrip("-").partition("=")
        separate = (
            not equals and items and not items[0].startswith("-") and flags.get(name, _Flag("", "")).kind != "Bool"
        )
        if separate:
            value = items.pop(0)
        if not item.startswith("-"):
            kept.append(_plain(item))
            continue
        if _go_argument(name, flags.get(name, _Flag("", "")))[1] and name in flags:
            continue
        if flags and name not in flags and _go_argument(name, _Flag("", value))[1]:
            # A flag that an older version of the program had, or one that a patch adds.
            continue
        # As Kubernetes does it: $(NAME) is the container's variable.
        value = re.sub(r"\$\((\w+)\)", lambda match: env.get(match[1], match[0]), _plain(value))
        same = [path for path in files if path.endswith(_YAML_FILES) and PurePosixPath(path).name == value]
        if len(same) == 1:
            value = same[0]
        elif value.startswith("/") or "$(" in value:
            guesses.setdefault("command", []).append(f"--{name} as in its Deployment: does {value} exist here?")
        kept += [item, value] if separate else [f"{item.partition('=')[0]}={value}" if equals else item]
    return kept


def _go_metrics(
    source: str, flags: Mapping[str, _Flag], ports: Mapping[str, str], guesses: dict[str, list[str]]
) -> tuple[str, bool]:
    """Return the URL of /metrics, empty for none; and whether it is for authorized readers only."""
    fixed = _FIXED_METRICS.search(source)
    secure = bool(re.search(r"SecureServing:\s*true", source)) and "secure" not in ports
    if _METRICS in ports:
        return f"{_local('{metrics_port}', secure)}/metrics", secure
    if fixed:
        guesses.setdefault("metrics", []).append(
            f"the program serves on {fixed[1]}, always: two of it cannot run at once"
        )
        return f"{_local(fixed[2], secure)}/metrics", secure
    if _MANAGER.search(source) and not re.search(r'BindAddress:\s*"0"', source):
        guesses.setdefault("metrics", []).append(
            "no flag of the program names a metrics address: controller-runtime's own is :8080"
        )
        return f"{_local('8080')}/metrics", False
    return "", False


def _go_readiness(
    source: str, given: Container, ports: Mapping[str, str], metrics: str, guesses: dict[str, list[str]]
) -> str:
    path = given.readiness or ("/readyz" if "AddReadyzCheck" in source else "/healthz")
    served = "AddReadyzCheck" in source or "AddHealthzCheck" in source or bool(given.readiness)
    fixed = _FIXED_HEALTH.search(source)
    if served and _HEALTH in ports:
        return f"{_local('{health_port}')}{path}"
    if served and fixed:
        guesses.setdefault("readiness", []).append(f"the program serves its probes on port {fixed[1]}, always")
        return f"{_local(fixed[1])}{path}"
    if metrics:
        return metrics
    guesses.setdefault("readiness", []).append("no probe was found: give a URL that answers 200 once it works")
    return f"{_local('8081')}/readyz"


def _local(port: str, secure: bool = False) -> str:
    return f"{'https' if secure else 'http'}://127.0.0.1:{port}"


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


# ---- kopf


_KOPF_RUN = re.compile(r"kopf\W+run\b([^\n\]]*)")


def _kopf(facts: Facts) -> Program | None:
    sources = facts.sources(".py")
    handlers = [path for path, text in sources.items() if re.search(r"^@kopf\.", text, re.MULTILINE)]
    if not handlers:
        return None
    source = "\n".join(sources[path] for path in handlers)
    guesses: dict[str, list[str]] = {}
    files = _kopf_files(facts, handlers, guesses)
    env = _environment(facts, source, guesses, facts.name)
    fixed = re.search(r"start_http_server\(\s*(?:port\s*=\s*)?(\d+)", source)
    metrics = ""
    if any("{metrics_port}" in value for value in env.values()):
        metrics = f"{_local('{metrics_port}')}/metrics"
    elif fixed:
        metrics = f"{_local(fixed[1])}/metrics"
        guesses.setdefault("metrics", []).append(f"the program serves on port {fixed[1]}, always")
    requirements = next((path for path in ("requirements.txt", "pyproject.toml") if path in facts.files), "")
    return Program(
        language="python",
        command=(
            "{python}",
            "-m",
            "kopf",
            "run",
            "--all-namespaces",
            "--standalone",
            "--liveness=http://127.0.0.1:{health_port}/healthz",
            *files,
        ),
        env=env,
        readiness=f"{_local('{health_port}')}/healthz",
        metrics=metrics,
        requirements=requirements,
        guesses={field: tuple(texts) for field, texts in guesses.items()},
        text=source,
    )


def _kopf_files(facts: Facts, handlers: Sequence[str], guesses: dict[str, list[str]]) -> list[str]:
    """Return the files to run: those that the project's own command names, else all with handlers."""
    commands = [text for path, text in facts.files.items() if PurePosixPath(path).name in ("Dockerfile", "Makefile")]
    given = container(facts)
    commands.append(" ".join([*given.command, *given.arguments]))
    for text in commands:
        for match in _KOPF_RUN.finditer(text.replace("\\\n", " ")):
            words = shlex.split(re.sub(r"[\",]", " ", match[1]))
            named = [PurePosixPath(word).name for word in words if word.endswith(".py")]
            if chosen := [path for path in handlers if PurePosixPath(path).name in named]:
                return chosen
    if len(handlers) > 1:
        guesses.setdefault("command", []).append("all files with handlers of kopf are run")
    return list(handlers)


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
