"""What a project's Deployment says of its operator's start: command, environment, probe, ports.

A process of this machine needs that with other ports: what a flag or a variable is for is known by its name, or by
the Deployment's port that its value is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import msgspec

from ..operator.manifests import Object
from .facts import Facts, Found

METRICS, HEALTH, PPROF = "metrics_port", "health_port", "pprof_port"
_ADDRESS = frozenset({"addr", "address", "listen", "bind", "endpoint", "port", "host"})
_HEALTHY = frozenset({"health", "healthz", "probe", "probes", "readyz", "liveness"})
_PROFILING = frozenset({"pprof", "profiling", "profiler", "profile"})
_CERTIFICATE = frozenset({"cert", "certs", "certificate", "certificates", "tls"})
_PROMETHEUS = frozenset({"metrics", "metric", "prometheus", "prom"})
_LEADER = frozenset({"leader", "leaderelection"})
_SWITCH = _LEADER | {"elect", "election", "enable", "enabled"}
_SWITCHED = re.compile("true|1|yes|on", re.IGNORECASE)
_SERVER = frozenset({"http", "web", "server", "serve", "tcp", "service"})
_OWN_NAMESPACE = re.compile(r"(MY_|SYSTEM_)?(POD|OPERATOR|CONTROLLER|MANAGER|OWN|CURRENT)_?(POD_)?NAMESPACE")


# ---- the operator's Deployment


_ASKED = re.compile(
    r"(?:Getenv|LookupEnv|getenv|environ\.get)\(\s*[\"'](\w+)[\"']"
    r"|(?:environ|process\.env)\[[\"'](\w+)[\"']\]|process\.env\.(\w+)"
    r"|\benv::var(?:_os)?\(\s*\"(\w+)\"|#\[(?:arg|clap)\([^\]]*?\benv\s*=\s*\"(\w+)\""
    r"|getenv\(\)\s*\.\s*get(?:OrDefault)?\(\s*\"(\w+)\"|GetEnvironmentVariable\(\s*\"(\w+)\""
)
"""A variable that a program reads: in Go, Python, JavaScript, Rust, Java, C#."""


class Mount(NamedTuple):
    """A ConfigMap among a container's volumes."""

    path: str
    config_map: str
    items: Mapping[str, str]
    """Key → file, where not all are mounted."""
    sub_path: str


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """A container of a Deployment; that of no Deployment is empty."""

    command: tuple[str, ...] = ()
    """In place of its image's entrypoint."""
    args: tuple[str, ...] = ()
    env: tuple[Mapping[str, Any], ...] = ()
    """As Kubernetes has it; those of ConfigMaps among the project's files (``envFrom``, ``configMapKeyRef``) with their
    values."""
    readiness: str = ""
    """Path of its readiness or liveness probe."""
    probe_port: int = 0
    """0: the probe is no GET, or there is none."""
    metrics_port: int = 0
    """The port with ``metrics`` in its name."""
    mounts: tuple[Mount, ...] = ()
    memory: str = ""
    """Its limit: ``512Mi``."""
    file: str = ""
    account: str = ""
    """Its pods' ServiceAccount."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """All behind its command's first word."""
        return (*self.command[1:], *self.args)

    def role_of(self, address: str) -> str:
        """Return the placeholder of a port of this container, ``8080`` or an address that ends with it; or nothing."""
        port = re.fullmatch(r"(?:[\w.\[\]:]*:)?(\d+)", address)
        number = int(port[1]) if port else 0
        if number and number == self.metrics_port:
            return METRICS
        return HEALTH if number and number == self.probe_port else ""


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
    found = _scored(facts)
    return found[0][1] if found and found[0][0] else Container()


def any_containers(facts: Facts) -> list[Container]:
    """Return the containers of all Deployments, that which looks most like an operator's first."""
    return [one for _, one in _scored(facts)]


def _scored(facts: Facts) -> list[tuple[int, Container]]:
    found: list[tuple[int, Container]] = []
    for deployment in facts.of_kind("Deployment"):
        for one in containers(deployment.object):
            if "kube-rbac-proxy" in str(one.get("image", "")):
                continue
            made = _container(one, deployment, config_maps(facts))
            score = 4 * ("leader" in " ".join(made.arguments)) + 2 * (one.get("name") in ("manager", "operator"))
            score += 2 * ("serviceAccountName" in _pod_spec(deployment.object))
            score += deployment.file.startswith("config/manager/")
            found.append((score, made))
    return sorted(found, key=lambda each: -each[0])


def _mounts(one: Object, pod: Object) -> Iterator[Mount]:
    maps = {volume.get("name"): volume["configMap"] for volume in pod.get("volumes") or [] if "configMap" in volume}
    for mount in one.get("volumeMounts") or []:
        if (source := maps.get(mount.get("name"))) and mount.get("mountPath"):
            items = {str(item["key"]): str(item["path"]) for item in source.get("items") or []}
            yield Mount(str(mount["mountPath"]), str(source.get("name", "")), items, str(mount.get("subPath", "")))


def config_maps(facts: Facts) -> dict[str, Mapping[str, Any]]:
    """Return name → data of the project's ConfigMaps."""
    return {found.name: found.object.get("data") or {} for found in facts.of_kind("ConfigMap")}


def _variables(one: Object, maps: Mapping[str, Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield a container's variables, those of ConfigMaps first: ``env`` beats ``envFrom``."""
    for source in one.get("envFrom") or []:
        data = maps.get(str((source.get("configMapRef") or {}).get("name")), {})
        for key, value in data.items():
            yield {"name": f"{source.get('prefix', '')}{key}", "value": str(value)}
    for item in one.get("env") or []:
        ref = (item.get("valueFrom") or {}).get("configMapKeyRef") or {}
        data = maps.get(str(ref.get("name")), {})
        yield {"name": item.get("name", ""), "value": str(data[ref["key"]])} if ref.get("key") in data else item


def _container(one: Object, deployment: Found, maps: Mapping[str, Mapping[str, Any]]) -> Container:
    env = tuple(_variables(one, maps))
    ports = {
        str(port.get("name", "")): port["containerPort"]
        for port in one.get("ports") or []
        if isinstance(port.get("containerPort"), int)
    }
    get = (one.get("readinessProbe") or one.get("livenessProbe") or {}).get("httpGet") or {}
    probed = get.get("port", 0)
    return Container(
        command=tuple(map(str, one.get("command") or ())),
        args=tuple(map(str, one.get("args") or ())),
        env=env,
        readiness=str(get.get("path", "")),
        probe_port=probed if isinstance(probed, int) else ports.get(str(probed), 0),
        metrics_port=next((number for name, number in ports.items() if "metrics" in name), _metrics_variable(env)),
        mounts=tuple(_mounts(one, _pod_spec(deployment.object))),
        memory=str(((one.get("resources") or {}).get("limits") or {}).get("memory", "")),
        file=deployment.file,
        account=str(_pod_spec(deployment.object).get("serviceAccountName", "")),
    )


def _metrics_variable(env: Iterable[Mapping[str, Any]]) -> int:
    """Return the port that a variable of a container names as that of its metrics; 0 without one."""
    for item in env:
        name, found = str(item.get("name", "")), re.fullmatch(r"([\w.\[\]:]*:)?(\d+)", str(item.get("value", "")))
        # An address says what it is: METRICS=:8080.
        is_address = found and found[1] and words_of(name) <= _PROMETHEUS
        if found and (is_address or (role(name) or ("",))[0] == METRICS):
            return int(found[2])
    return 0


def environment(facts: Facts, given: Container, source: str, guesses: dict[str, list[str]]) -> dict[str, str]:
    """Return the variables that the container sets, as a process of this machine needs them.

    ``source``: the program's, whose variables of a port or a namespace get a value, too.
    """
    env: dict[str, str] = {}
    for item in given.env:
        variable = str(item.get("name", ""))
        field = ((item.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "")
        if "valueFrom" not in item:
            env[variable] = plain(str(item.get("value", "")))
        elif field == "metadata.namespace":
            env[variable] = "{namespace}"
        elif field == "metadata.name":
            env[variable] = f"{facts.name}-0"
        elif field in ("status.podIP", "status.hostIP"):
            env[variable] = "127.0.0.1"
        else:
            guesses.setdefault("env", []).append(f"in its Deployment {variable} comes from the cluster; set it here")
    asked = variables_asked(source)
    for variable in sorted(asked - env.keys()):
        if _OWN_NAMESPACE.fullmatch(variable):
            env[variable] = "{namespace}"
    for variable in (*env, *sorted(asked - env.keys())):
        # An operator that is installed into one namespace watches that one; a test has one of its own.
        if variable in ("WATCH_NAMESPACE", "WATCH_NAMESPACES"):
            env[variable] = ""
        value = env.get(variable, "")
        if switches_leader_election(variable, value or default_of(variable, source)):
            env[variable] = "false"
        named = role(variable) or (given.role_of(value), ":" not in value)
        if address := port_value(*named, default=value):
            env[variable] = "127.0.0.1" if _is_host(variable, asked | env.keys()) else address
    return env


def switches_leader_election(name: str, value: str) -> bool:
    """Return whether a variable is on, and switches leader election; a project's own word may stand before it.

    ``LEADER_ELECTION_ID`` and ``LEADER_ELECT_LEASE_DURATION`` have a word behind it, and no such value.
    """
    parts = re.split(r"[-_.]", name.lower())
    first = next((index for index, part in enumerate(parts) if part in _SWITCH), len(parts))
    behind = set(parts[first:])
    return bool(behind & _LEADER) and behind <= _SWITCH and bool(_SWITCHED.fullmatch(value))


def default_of(variable: str, source: str) -> str:
    """Return the literal that stands behind a variable's name where a program asks for it: its default."""
    found = re.search(rf"""["']{variable}["']\s*,\s*["']?([\w.:-]+)""", source)
    return found[1] if found else ""


def variables_asked(source: str) -> set[str]:
    """Return the variables of its environment that a program reads."""
    return {name for names in _ASKED.findall(source) for name in names if name}


def only_address(source: str) -> str:
    """Return the variable that names where a program listens, ``PORT``; empty without one, or with several."""
    asked = variables_asked(source)
    found = [
        name
        for name in asked
        if words_of(name) <= _ADDRESS | _SERVER and words_of(name) & _ADDRESS - {"host", "endpoint"}
    ]
    return found[0] if len(found) == 1 else ""


def plain(text: str) -> str:
    """Return a text that is not taken for one with placeholders."""
    return re.sub(r"\{([a-z][a-z0-9_]*)\}", r"{{\1}}", text)


# ---- what flags and variables are for


class Flag(NamedTuple):
    """A flag that a program has."""

    kind: str
    """As the library of flags calls it: ``String``, ``Bool``; empty: not known."""
    default: str


_JOINED = re.compile(r"(?<![a-z])(metrics?|healthz?|probes?|pprof|webhook|prometheus|listen)(?=(?:port|addr(?:ess)?)$)")


def words_of(name: str) -> frozenset[str]:
    """Return the words of a flag's or a variable's name, in lower case; ``metricsport`` has two."""
    parted = _JOINED.sub(r"\1-", re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower())
    return frozenset(re.split(r"[-_.]", parted))


def role(name: str) -> tuple[str, bool] | None:
    """Return the placeholder of a flag's or a variable's port, and whether it names the port alone."""
    words = words_of(name)
    if not words & _ADDRESS or words & {"secure", "cert", "key", "path", "namespace", "timeout", "interval"}:
        return None
    alone = "port" in words
    if words & _PROFILING:
        return PPROF, alone
    if words & _PROMETHEUS:
        return METRICS, alone
    if words & _HEALTHY:
        return HEALTH, alone
    return ("webhook_port", True) if "webhook" in words and alone else None


def _is_host(name: str, names: Iterable[str]) -> bool:
    """Return whether a flag or variable takes a host alone, as ``METRICS_HOST`` does beside ``METRICS_PORT``."""
    of = words_of(name)
    return "port" not in of and any("port" in (also := words_of(one)) and of ^ also <= _ADDRESS for one in names)


def port_value(placeholder: str, alone: bool, *, default: str) -> str:
    """Return the value of a flag or variable that takes a port, an address, or an address with a scheme."""
    if not placeholder:
        return ""
    if alone and ":" not in default:
        return f"{{{placeholder}}}"
    return f"127.0.0.1:{{{placeholder}}}"


def _of_name(name: str, flag: Flag) -> tuple[str, str]:
    """Return the role of a flag and the value that it gets here; empty for one that is left at its default."""
    words = words_of(name)
    if words & _LEADER and words <= _SWITCH and flag.kind in ("Bool", ""):
        return "leader", "false"
    if words == {"metrics", "secure"} or words == {"secure", "metrics", "serving"}:
        return "secure", "false"
    if name == "kubeconfig":
        return "kubeconfig", "{kubeconfig}"
    if found := role(name):
        return found[0], port_value(*found, default=flag.default)
    of_directory = bool(words & {"dir", "path", "directory"}) or name.endswith("certdir")
    if words & _CERTIFICATE and of_directory and ("webhook" in words or words <= {"cert", "certs", "dir", "tls"}):
        return "certificate", "{cert_dir}"
    return "", ""


def own_values(flags: Mapping[str, Flag], given: Container, *, serves_metrics: bool) -> dict[str, tuple[str, str]]:
    """Return flag → its role and the value that it gets here, of the flags that have a role.

    By its name, or by its default, which is one of the Deployment's ports. ``serves_metrics``: the program does so by
    itself, so that an only address without another role is where.
    """
    found = {name: value for name, flag in flags.items() if (value := _of_name(name, flag))[1]}
    for name, (port, address) in found.items():
        if port in address and _is_host(name, flags):
            found[name] = port, "127.0.0.1"
    for name, flag in flags.items():
        if name not in found and (port := given.role_of(flag.default)):
            found[name] = port, port_value(port, "port" in words_of(name), default=flag.default)
    addresses = [name for name in flags if name not in found and words_of(name) <= _ADDRESS | _SERVER]
    addresses = [name for name in addresses if words_of(name) & _ADDRESS and words_of(name) != {"host"}]
    if serves_metrics and len(addresses) == 1 and METRICS not in (port for port, _ in found.values()):
        (name,) = addresses
        found[name] = METRICS, port_value(METRICS, "port" in words_of(name), default=flags[name].default)
    return found


_YAML_FILES = (".yaml", ".yml")


def kept_arguments(
    arguments: Sequence[str],
    flags: Mapping[str, Flag],
    own: Mapping[str, tuple[str, str]],
    given: Container,
    files: Iterable[str],
    env: Mapping[str, str],
    guesses: dict[str, list[str]],
) -> list[str]:
    """Return a Deployment's arguments without those that get a value of their own here (``own``)."""
    kept: list[str] = []
    items = list(arguments)
    while items:
        item = items.pop(0)
        name, equals, value = item.lstrip("-").partition("=")
        separate = (
            not equals and items and not items[0].startswith("-") and flags.get(name, Flag("", "")).kind != "Bool"
        )
        if not item.startswith("-"):
            kept.append(plain(item))
            continue
        if separate:
            value = items.pop(0)
        if name in own:
            continue
        if flags and name not in flags and _of_name(name, Flag("", value))[1]:
            # A flag that an older version of the program had, or one that a patch adds.
            continue
        # As Kubernetes does it: $(NAME) is the container's variable.
        value = re.sub(r"\$\((\w+)\)", lambda match: env.get(match[1], match[0]), plain(value))
        if port := given.role_of(value):
            value = port_value(port, "port" in words_of(name), default=value)
        same = [path for path in files if path.endswith(_YAML_FILES) and PurePosixPath(path).name == value]
        if len(same) == 1:
            value = same[0]
        elif value.startswith("/") or "$(" in value:
            guesses.setdefault("command", []).append(f"--{name} as in its Deployment: does {value} exist here?")
        kept += [item, value] if separate else [f"{item.partition('=')[0]}={value}" if equals else item]
    return kept


def local(port: str, secure: bool = False) -> str:
    """Return the URL of a port of this host."""
    return f"{'https' if secure else 'http'}://127.0.0.1:{port}"


_PROBES = ("readyz", "ready", "readiness", "-/ready", "healthz", "health", "-/healthy", "livez", "live", "healthcheck")
"""Usual paths of probes, that which says most first."""
_PROBE = re.compile(rf"""["'`](?:GET )?/({"|".join(_PROBES)})["'`]""")


def probe_path(source: str) -> str:
    """Return the path of the best probe that the program handles, by the paths that stand in quotes; else nothing."""
    found = set(_PROBE.findall(source))
    return next((f"/{path}" for path in _PROBES if path in found), "")


def readiness_url(
    given: Container,
    path: str,
    used: Iterable[str],
    fixed: Sequence[int],
    metrics: str,
    guesses: dict[str, list[str]],
    *,
    one_server: bool,
) -> str:
    """Return the URL that answers 200 once the program works; empty where it serves none.

    ``path``: of its probe, empty where none was found; ``used``: placeholders of ports in its flags and variables;
    ``fixed``: the ports on which it serves always, that of the Deployment's probe first; ``one_server``: it may serve
    its probes beside its metrics.
    """
    if metrics.endswith(path or "-") and metrics.startswith("http:"):
        return metrics  # as some probe them
    if path and HEALTH in used:
        return f"{local('{health_port}')}{path}"
    beside = given.probe_port == given.metrics_port != 0 or not (fixed or given.probe_port)
    if path and METRICS in used and one_server and beside:
        return f"{local('{metrics_port}')}{path}"
    port = given.probe_port or (fixed[0] if fixed else 0)
    if path and port:
        guesses.setdefault("readiness", []).append(f"the program serves its probes on port {port}, always")
        return f"{local(str(port))}{path}"
    if metrics:
        return metrics
    if HEALTH in used:
        guesses.setdefault("readiness", []).append("no probe was found: give a URL that answers 200 once it works")
        return f"{local('{health_port}')}/readyz"
    guesses.setdefault("readiness", []).append(
        "no probe was found: it counts as ready at the first line that it writes; better, a pattern of the line that"
        " says so, or a URL"
    )
    return ""


def own_counter(name: str, labels: str, guesses: dict[str, list[str]]) -> dict[str, str]:
    """Return a definition's ``reconciles`` for a counter with these labels, which is a guess."""
    guesses.setdefault("reconciles", []).append(f"{name} counts its reconciles, as it seems")
    wanted = {"controller_label": ("controller", "handler", "kind"), "result_label": ("result", "outcome")}
    named = re.findall(r"\w+", labels)
    return {"counter": name} | {
        field: next(label for label in known if label in named)
        for field, known in wanted.items()
        if set(known) & set(named)
    }
