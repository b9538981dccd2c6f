"""How an operator in Python, JavaScript or a shell is started as a process: with kopf, or as its container is.

The Deployment's command, or the Dockerfile's, names a script or module of the image; it is found among the sources by
what the Dockerfile copies, else by its name.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

import msgspec

from ..operator.manifests import WEBHOOKS
from .configuration import configured
from .deployment import (
    HEALTH,
    METRICS,
    Container,
    Flag,
    container,
    environment,
    kept_arguments,
    local,
    only_address,
    own_counter,
    own_values,
    port_value,
    probe_path,
    readiness_url,
    words_of,
)
from .dockerfile import images, starts
from .facts import Facts
from .kopf import START_HTTP_SERVER, imported, kopf_program, python_reconciles, requirements_of
from .program import Program


def interpreted_program(facts: Facts) -> Program | None:
    """Return the program of a project in Python or JavaScript that kopf runs or a container starts, else None."""
    return kopf_program(facts) or _started(facts)


def shell_program(facts: Facts) -> Program | None:
    """Return the program of a project whose container starts a script of a shell, else None.

    To be asked last: such a script may be what starts a program of another language.
    """
    return _started(facts, (_SHELL,))


def unstarted_program(facts: Facts) -> Program | None:
    """Return the program that package.json starts, or the only script, where no container starts one; else None."""
    return _npm_started(facts) or _only_script(facts)


def not_found(facts: Facts) -> str:
    """Return what a container starts with an interpreter and is not among the sources; empty where none does so."""
    for start in starts(facts):
        names = [PurePosixPath(word).name for word in start.words]
        for _, suffix, interpreter in (*_INTERPRETERS, _SHELL):
            if any(name.endswith(suffix) or interpreter.fullmatch(name) for name in names):
                return f"{start.file} starts {shlex.join(start.words)}, of which no source was found"
    if "package.json" in facts.files:
        line = shlex.join(_npm_start(facts, ("npm", "start")))
        if line:
            return f"package.json starts {line}, of which no source was found"
        return 'package.json has no script that starts it: add "scripts": {"start": "node FILE.js"}'
    return ""


# ---- the program that a container starts


_Interpreter = tuple[str, tuple[str, ...], re.Pattern[str]]
"""Language, suffixes of its sources, the interpreter's names."""
_INTERPRETERS: tuple[_Interpreter, ...] = (
    ("python", (".py",), re.compile(r"python[\d.]*")),
    ("node", (".js", ".mjs", ".cjs"), re.compile("node(js)?")),
)
_SHELL: _Interpreter = ("shell", (".sh", ".bash"), re.compile("(ba|da|k|z)?sh"))
_TYPESCRIPT = ("ts-node", "tsx")
"""Programs that run the sources of TypeScript."""
_WITH_VALUE = {"python": ("-X", "-W"), "node": ("-r", "--require", "--import", "--loader"), "shell": ("-o", "-O")}
"""Options of an interpreter that the next word belongs to."""


class _Script(NamedTuple):
    language: str
    words: tuple[str, ...]
    """The command line up to its own arguments: ``{python}``, the interpreter's options, the script."""
    path: str
    """Its source."""
    arguments: tuple[str, ...]
    python_path: str = ""
    """Folder of its modules, where that is not the project's."""


def _started(facts: Facts, interpreters: Sequence[_Interpreter] = _INTERPRETERS) -> Program | None:
    for start in starts(facts):
        script = _script(facts, start.words, start.workdir, interpreters)
        if script is not None:
            return _of_script(facts, script, start.given, {})
    return None


_API_CLIENT = re.compile(
    r"^\s*(?:from|import)\s+(?:kubernetes|kubernetes_asyncio|pykube|lightkube|kr8s)\b", re.MULTILINE
)


def _only_script(facts: Facts) -> Program | None:
    """Return the only Python script that asks an API server, where nothing says how the operator is started."""
    found = [
        path
        for path, text in facts.sources(".py").items()
        if _API_CLIENT.search(text) and re.search(r"^if __name__ == [\"']__main__[\"']", text, re.MULTILINE)
    ]
    if len(found) != 1 or starts(facts):
        return None
    guesses = {"command": ["no Dockerfile and no Deployment says how it is started: does it take arguments?"]}
    return _of_script(facts, _Script("python", ("{python}", *found), found[0], ()), container(facts), guesses)


def _npm_started(facts: Facts) -> Program | None:
    # Without a script, `npm start` runs server.js; `node .` runs what is named as main.
    main = str(_package(facts).get("main", "server.js"))
    script = _script(facts, _npm_start(facts, ("npm", "start")) or ("node", main), "/")
    return script and _of_script(facts, script, container(facts), {})


def _script(
    facts: Facts, words: Sequence[str], workdir: str, interpreters: Sequence[_Interpreter] = _INTERPRETERS
) -> _Script | None:
    """Return the script of a command line, ``tini -- python -u /app/a.py --b``; None where it is no source."""
    if len(words) > 2 and PurePosixPath(words[0]).name in ("sh", "bash") and re.fullmatch(r"-\w*c", words[1]):
        try:
            words = [*shlex.split(words[2], comments=True), *words[3:]]
        except ValueError:
            # A line of a shell that is more than a command.
            return None
    if "npm" in words and (lines := _npm_start(facts, words)):
        words = lines
    if "kopf" in words:
        # Of which no handlers were found.
        return None
    for index, word in enumerate(words):
        name = PurePosixPath(word).name
        for language, suffix, interpreter in interpreters:
            if interpreter.fullmatch(name):
                start = name if language == "shell" else _interpreter(language)
                return _interpreted(facts, language, words[index + 1 :], workdir, start)
            if name.endswith(suffix) and (path := _source(facts, word, workdir)):
                # A script that names its interpreter itself.
                start = _shebang(facts.files[path]) if language == "shell" else _interpreter(language)
                return _Script(language, (start, path), path, tuple(words[index + 1 :]))
        if name in _TYPESCRIPT and (script := _interpreted(facts, "node", words[index + 1 :], workdir, "node")):
            return script._replace(words=(f"node_modules/.bin/{name}", *script.words[1:]))
        if script := _entry_point(facts, name):
            return script._replace(arguments=tuple(words[index + 1 :]))
    return None


def _interpreter(language: str) -> str:
    return "{python}" if language == "python" else language


def _shebang(text: str) -> str:
    """Return the shell that a script names in its first line."""
    words = text.partition("\n")[0].removeprefix("#!").split()
    named = [PurePosixPath(word).name for word in words if _SHELL[2].fullmatch(PurePosixPath(word).name)]
    return named[0] if text.startswith("#!") and named else "sh"


def _interpreted(facts: Facts, language: str, words: Sequence[str], workdir: str, start: str) -> _Script | None:
    """Return the script behind an interpreter, which is started as ``start``."""
    options: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "-m" and language == "python" and rest:
            module = rest.pop(0)
            found = _module(facts, module, workdir)
            words = (start, *options, "-m", module)
            return found and _Script(language, words, found[0], tuple(rest), found[1])
        if not word.startswith("-"):
            path = (language == "node" and _compiled(facts, word, workdir)) or _source(facts, word, workdir)
            return _Script(language, (start, *options, path), path, tuple(rest)) if path else None
        options.append(word)
        if word in _WITH_VALUE[language] and rest:
            options.append(rest.pop(0))
    return None


def _source(facts: Facts, path: str, workdir: str) -> str:
    """Return the project's file of a path in the image; empty where there is none, or several may be it."""
    absolute = posixpath.normpath(posixpath.join(workdir, path))
    for image in images(facts):
        if absolute in image.files:
            return image.files[absolute]
    suffix = PurePosixPath(path).suffix
    parts = PurePosixPath(absolute).parts
    # Without what an image is made of, the file's name, and as much of its path as is the same.
    same = {each: _common(PurePosixPath(each).parts, parts) for each in facts.sources(suffix)} if suffix else {}
    best = [each for each, length in same.items() if length == max(same.values()) > 0]
    return best[0] if len(best) == 1 else ""


def _compiled(facts: Facts, path: str, workdir: str) -> str:
    """Return the file that `npm run build` makes, where package.json has such a script; empty without one."""
    absolute = PurePosixPath(posixpath.normpath(posixpath.join(workdir, path)))
    relative = absolute.relative_to(workdir) if absolute.is_relative_to(workdir) else PurePosixPath()
    is_output = "build" in _npm_scripts(facts) and relative.parts[:1] in {
        (name,) for name in ("dist", "build", "out", "lib")
    }
    return str(relative) if is_output and str(relative) not in facts.files else ""


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    """Return how many parts are the same, from the end."""
    count = 0
    for one, other in zip(reversed(first), reversed(second), strict=False):
        if one != other:
            break
        count += 1
    return count


def _module(facts: Facts, module: str, workdir: str) -> tuple[str, str] | None:
    """Return the file of a module, and the folder that it is imported from."""
    inner = module.replace(".", "/")
    for name in (f"{inner}/__main__.py", f"{inner}.py"):
        absolute = posixpath.normpath(posixpath.join(workdir, name))
        copied = [image.files[absolute] for image in images(facts) if absolute in image.files]
        ending = sorted(path for path in facts.sources(".py") if path == name or path.endswith(f"/{name}"))
        for path in (*copied, *sorted(ending, key=lambda path: path.count("/"))):
            if path.endswith(name):
                return path, path.removesuffix(name).rstrip("/")
    return None


def _entry_point(facts: Facts, name: str) -> _Script | None:
    """Return the program that pip makes of a name under ``[project.scripts]``, as a line that does the same."""
    try:
        project = tomllib.loads(facts.files.get("pyproject.toml", ""))
    except tomllib.TOMLDecodeError:
        return None
    scripts = _table(_table(project, "project"), "scripts") | _table(
        _table(_table(project, "tool"), "poetry"), "scripts"
    )
    module, _, function = str(scripts.get(name, "")).partition(":")
    found = _module(facts, module, "/") if module and function.isidentifier() else None
    line = f"import sys; from {module} import {function}; sys.exit({function}())"
    return found and _Script("python", ("{python}", "-c", line), found[0], (), found[1])


def _table(value: Mapping[str, object], name: str) -> dict[str, object]:
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}


def _package(facts: Facts) -> dict[str, object]:
    """Return the content of package.json; empty without one that can be read."""
    try:
        package = json.loads(facts.files.get("package.json", "{}"))
    except ValueError:
        return {}
    return package if isinstance(package, dict) else {}


def _npm_scripts(facts: Facts) -> dict[str, object]:
    return _table(_package(facts), "scripts")


def _npm_start(facts: Facts, words: Sequence[str]) -> list[str]:
    """Return the command line of ``npm start`` or ``npm run NAME``, by package.json."""
    behind = [word for word in words[list(words).index("npm") + 1 :] if word != "run" and not word.startswith("-")]
    try:
        return shlex.split(str(_npm_scripts(facts).get(behind[0], ""))) if behind else []
    except ValueError:
        # A line of a shell that is more than a command.
        return []


def _npm_build(facts: Facts, path: str) -> tuple[str, ...]:
    """Return what installs the modules of a script, and makes it where it is no source itself."""
    if "package.json" not in facts.files:
        return ()
    install = ("npm", "install", "--no-audit", "--no-fund")
    return install if path in facts.files else ("sh", "-c", f"{shlex.join(install)} && npm run build")


# ---- its flags, ports and probes


_PYTHON_FLAG = re.compile(r"(?:add_argument|option|Option)\(\s*((?:[\"']-{1,2}[\w/-]+[\"'],?\s*)+)([^)]*)")
_LONG = re.compile(r"[\"']--([\w-]+)")
_DEFAULT = re.compile(r"default\s*=\s*[\"']?([\w.:\[\]-]+)")
_FIXED_SERVER = re.compile(
    r"HTTPServer\(\s*\(\s*[\"'][^\"']*[\"'],\s*(\d+)|\.listen\(\s*(\d+)|\b(?:run|run_app|start_server|TCPSite)\([^)\n]*?port\s*=\s*(\d+)"
    # Rust, Java
    r"|\bbind\(\s*&?\(?\"[^\"]*:(\d+)\"|\bbind\(\s*\(\"[^\"]*\",\s*(\d+)|\bSocketAddr\w*::\w+\(\(\[[^\]]*\],\s*(\d+)"
    r"|\bInetSocketAddress\((?:[^()\n]*,\s*)?(\d+)\)"
)
_FINDS_KUBECONFIG = re.compile(
    r"load_kube_config|load_config\(|new_client_from_config|from_env\(|loadFromDefault|loadFromFile"
    r"|\bkubectl\b|try_default\(|Config::infer|from_kubeconfig|BuildDefaultConfig|BuildConfigFromConfigFile"
)
_SERVES_METRICS = re.compile(
    r"start_http_server|make_wsgi_app|make_asgi_app|prom-client|\bprometheus(?:_client)?::|io\.prometheus\."
    r"|PrometheusMeterRegistry|UseMetricServer|MapMetrics"
)
_IN_A_POD = re.compile(
    r"load_incluster_config|loadFromCluster|Config::incluster|ClientBuilder\.cluster\(|InClusterConfig\("
    r"|/var/run/secrets/kubernetes\.io/serviceaccount"
)
_SUFFIXES_OF_NODE = (".js", ".mjs", ".cjs", ".ts", ".mts")


class CommandLine(NamedTuple):
    """What starts a program, and what it is read by."""

    language: str
    words: tuple[str, ...]
    """The command line up to its own arguments."""
    arguments: tuple[str, ...]
    source: str
    flags: Mapping[str, Flag] = {}
    """Those that its sources name; empty: those of its arguments are all that is known."""
    build: tuple[str, ...] = ()


def _of_script(facts: Facts, script: _Script, given: Container, of_start: Mapping[str, list[str]]) -> Program:
    is_node, is_python = script.language == "node", script.language == "python"
    sources: dict[str, str] = {}
    for suffix in _SUFFIXES_OF_NODE if is_node else (PurePosixPath(script.path).suffix,):
        sources |= facts.sources(suffix)
    source = "\n".join(sources.values())
    guesses = {field: list(texts) for field, texts in of_start.items()}
    build = _npm_build(facts, script.path) if is_node else ()
    flags = dict(_flags(source)) if is_python else {}
    start = CommandLine(script.language, script.words, script.arguments, source, flags, build)
    requirements = requirements_of(facts) if is_python else ""
    modules = imported(facts, sources) if is_python else ()
    if modules and not requirements:
        guesses.setdefault("command", []).append(
            f"no requirements.txt and no pyproject.toml was found: {', '.join(modules)} must be there for this Python"
        )
    found = assembled(facts, start, given, guesses)
    env = {**({"PYTHONPATH": script.python_path} if script.python_path else {}), **found.env}
    return msgspec.structs.replace(found, env=env, requirements=requirements, modules=modules)


def assembled(facts: Facts, start: CommandLine, given: Container, guesses: dict[str, list[str]]) -> Program:
    """Return the program of a command line, with the ports, probes and metrics that its sources and container name."""
    source = start.source
    env = environment(facts, given, source, guesses)
    flags = start.flags
    if not flags:
        named = [argument.lstrip("-").partition("=") for argument in start.arguments if argument.startswith("-")]
        flags = {name: Flag("", value) for name, _, value in named}
    serves_metrics = bool(_SERVES_METRICS.search(source))
    own = own_values(flags, given, serves_metrics=serves_metrics)
    arguments = kept_arguments(start.arguments, flags, own, given, facts.files, env, guesses)
    arguments, env, files = configured(facts, given, source, flags, arguments, env, guesses)
    # A switch, as that of leader election, is off as long as it is not given.
    arguments += [f"--{name}={value}" for name, (role, value) in own.items() if role in (METRICS, HEALTH, "kubeconfig")]
    texts = (*arguments, *env.values(), *files.values())
    used = {port for port in (METRICS, HEALTH) if any(f"{{{port}}}" in text for text in texts)}
    path = given.readiness or probe_path(source)
    if not used and (variable := only_address(source)) and (serves_metrics or path):
        served_there = METRICS if serves_metrics else HEALTH
        used = {served_there}
        env[variable] = port_value(served_there, "port" in words_of(variable), default="")
    served = {int(port) for found in _FIXED_SERVER.findall(source) for port in found if port}
    fixed = sorted(served, key=lambda port: port != given.probe_port)
    metrics = _metrics(given, source, used, fixed, guesses)
    if HEALTH in used and not path:
        path = "/healthz"
        guesses.setdefault("readiness", []).append(f"no path of its probe was found: {path} is a usual one")
    if _IN_A_POD.search(source) and not _FINDS_KUBECONFIG.search(source):
        guesses.setdefault("command", []).append("it seems to find its API server in a pod only, not by KUBECONFIG")
    if configurations := sorted({found.file for found in facts.of_kind(*WEBHOOKS)}):
        guesses.setdefault("webhooks", []).append(f"those in {', '.join(configurations)} are not called here")
    return Program(
        language=start.language,
        build=start.build,
        command=(*start.words, *arguments),
        env=env,
        files=files,
        readiness=readiness_url(given, path, used, fixed, metrics, guesses, one_server=True),
        metrics=metrics,
        reconciles=_reconciles(source, guesses) if metrics else {},
        guesses={field: tuple(texts) for field, texts in guesses.items()},
        text=source,
    )


_COUNTER = re.compile(
    # prom-client for node: new Counter({name: "…", help: "…", labelNames: ["…"]}), in any order
    r"\bnew\s+(?:\w+\.)?Counter(?:<[^>]*>)?\(\s*\{"
    # the crate prometheus: register_int_counter_vec!("…", "…", &["…"]), IntCounterVec::new(Opts::new("…", "…"), &["…"])
    r"|\bregister_(?:int_)?counter(?:_vec)?(?:_with_registry)?!\(|\b(?:Int)?Counter(?:Vec)?::(?:new|with_opts)\("
    # prometheus-net: Metrics.CreateCounter("…", "…", new CounterConfiguration { LabelNames = new[] { "…" } })
    r"|\bCreateCounter\("
)
_END_OF_COUNTER = re.compile(r";|\?|\.unwrap|\.expect|\}\s*\)")
_LABELS_OF_COUNTER = re.compile(r"""[\[{]((?:\s*["'`]\w+["'`]\s*,?)+)\s*[\]}]""")
_OF_RECONCILES = re.compile(r"\w*reconcil\w*|(?:\w+_)?syncs?(?:_total)?")
_OF_OTHER_THINGS = re.compile("error|fail|retr|second|duration")


def _reconciles(source: str, guesses: dict[str, list[str]]) -> dict[str, str]:
    """Return the program's own counter of reconciles, as a definition names it."""
    for found in _COUNTER.finditer(source):
        text = _END_OF_COUNTER.split(source[found.end() : found.end() + 600], maxsplit=1)[0]
        named = re.search(r"""\bname:\s*["'`](\w+)["'`]""", text) or re.search(r"""["'`](\w+)["'`]""", text)
        if named and _OF_RECONCILES.fullmatch(named[1]) and not _OF_OTHER_THINGS.search(named[1]):
            labels = _LABELS_OF_COUNTER.search(text)
            return own_counter(named[1], labels[1] if labels else "", guesses)
    return python_reconciles(source, guesses)


def _metrics(given: Container, source: str, used: set[str], fixed: Sequence[int], guesses: dict[str, list[str]]) -> str:
    own_server = START_HTTP_SERVER.search(source)
    if METRICS in used:
        return f"{local('{metrics_port}')}/metrics"
    port = own_server[1] if own_server else str(given.metrics_port or "")
    if not port and len(fixed) == 1 and not used and re.search(r"[\"'`]/metrics/?[\"'`]", source):
        port = str(fixed[0])
    if port:
        guesses.setdefault("metrics", []).append(f"the program serves on port {port}, always")
        return f"{local(port)}/metrics"
    if HEALTH in used and re.search(r"[\"']/metrics/?[\"']", source):
        guesses.setdefault("metrics", []).append(
            "the program answers /metrics where its probe is answered, as it seems"
        )
        return f"{local('{health_port}')}/metrics"
    if _SERVES_METRICS.search(source):
        guesses.setdefault("metrics", []).append(
            "it serves metrics, but no flag or variable names their port: metrics: {url: 'http://127.0.0.1:PORT/metrics'}"
        )
    return ""


def _flags(source: str) -> Iterator[tuple[str, Flag]]:
    """Yield the flags of argparse, click and typer."""
    for names, rest in _PYTHON_FLAG.findall(source):
        default = _DEFAULT.search(rest)
        is_switch = "store_true" in rest or "is_flag" in rest or "/" in names
        for name in _LONG.findall(names)[:1]:
            yield name, Flag("Bool" if is_switch else "", default[1] if default else "")
