"""How an operator in Rust, Java, Kotlin or C# is built and started as a process of this machine.

What a build makes is known by the build tool's own file: Cargo.toml, pom.xml, build.gradle, a .csproj. Arguments, ports
and environment are those that its container and its sources name.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import msgspec

from ..errors import UsageError
from ..quantity import memory_bytes
from .deployment import Container, Flag, container, local
from .dockerfile import starts
from .facts import Facts
from .interpreted import CommandLine, assembled
from .program import Program


def compiled_program(facts: Facts) -> Program | None:
    """Return the program of a project in Rust, Java, Kotlin or C#; None where none is found."""
    return _rust(facts) or _java(facts) or _dotnet(facts)


def lacks_crds(facts: Facts) -> str:
    """Return how a project gets the CustomResourceDefinitions that its build or program writes; empty for others."""
    rust, java = _joined(facts, ".rs"), _joined(facts, ".java", ".kt")
    if re.search(r"derive\([^)]*\bCustomResource\b", rust):
        writer = next((each for each in _binaries(facts) if "crd" in each.name), None)
        if writer:
            return f"Its sources derive them; write them to a file: cargo run --bin {writer.name} > crd.yaml"
        return (
            "Its sources derive them (kube::CustomResource). Write them to a file, by a program that prints"
            " serde_yaml::to_string(&KIND::crd()) of each kind: cargo run --bin crdgen > crd.yaml"
        )
    if re.search(r"\bextends\s+CustomResource\s*<|:\s*CustomResource\s*<", java):
        return f"Its build generates them, with fabric8's crd-generator: {shlex.join(_maven_or_gradle(facts))}"
    if "IKubernetesObject" in _joined(facts, ".cs"):
        return "Its sources declare them; write them to a file, with KubeOps: dotnet kubeops generate crd"
    return ""


def _joined(facts: Facts, *suffixes: str) -> str:
    return "\n".join(text for suffix in suffixes for text in facts.sources(suffix).values())


def _path(*parts: str) -> str:
    return str(PurePosixPath(*parts))


def _words_of_containers(facts: Facts) -> list[str]:
    """Return all words by which the project's containers are started."""
    return [word for start in starts(facts) for word in start.words]


def _given(facts: Facts, name: str) -> tuple[Container, tuple[str, ...]]:
    """Return the container that starts a program, by a word that ends with its name, and the arguments behind that."""
    for start in starts(facts):
        for index, word in enumerate(start.words):
            if PurePosixPath(word).name == name:
                return start.given, start.words[index + 1 :]
    found = container(facts)
    # The image's entrypoint is the program.
    return found, found.args


# ---- Rust


class _Binary(NamedTuple):
    folder: str
    """Of its package."""
    package: str
    name: str
    is_default: bool
    asks_an_api_server: bool
    """Its package has a client for Kubernetes among its dependencies."""


def _rust(facts: Facts) -> Program | None:
    binaries = list(_binaries(facts))
    started = {PurePosixPath(word).name for word in _words_of_containers(facts)}
    ranked = sorted(
        binaries,
        key=lambda each: (
            not each.asks_an_api_server,
            each.name not in started,
            "crd" in each.name,
            not each.is_default,
            not re.search("operator|controller|manager", each.name),
            each.folder.count("/"),
            each.name,
        ),
    )
    if not ranked:
        return None
    chosen = ranked[0]
    root = _workspace(facts, chosen.folder)
    in_root = ("--manifest-path", _path(root, "Cargo.toml")) if root != "." else ()
    package = ("--package", chosen.package) if root != chosen.folder else ()
    others = [each for each in binaries if each.folder == chosen.folder and each.name != chosen.name]
    binary = ("--bin", chosen.name) if others else ()
    sources = {path: text for path, text in facts.sources(".rs").items() if PurePosixPath(path).is_relative_to(root)}
    source = "\n".join(sources.values())
    given, arguments = _given(facts, chosen.name)
    line = CommandLine(
        language="rust",
        build=("cargo", "build", "--release", *in_root, *package, *binary),
        words=(_path(root, "target/release", chosen.name),),
        arguments=arguments,
        source=source,
        flags=dict(_clap(source)),
    )
    return assembled(facts, line, given, {})


def _binaries(facts: Facts) -> Iterator[_Binary]:
    for path in facts.files:
        if PurePosixPath(path).name != "Cargo.toml":
            continue
        folder = str(PurePosixPath(path).parent)
        manifest = _toml(facts, path)
        package = manifest.get("package", {})
        if "name" not in package:
            continue
        name = str(package["name"])
        names = [str(each["name"]) for each in manifest.get("bin", []) if "name" in each]
        if _path(folder, "src/main.rs") in facts.files and not any(
            each.get("path", "src/main.rs") == "src/main.rs" for each in manifest.get("bin", [])
        ):
            names.append(name)
        in_bin = PurePosixPath(folder, "src/bin")
        for source in facts.files:
            inside = PurePosixPath(source)
            if inside.parent == in_bin and inside.suffix == ".rs":
                names.append(inside.stem)
            elif inside.name == "main.rs" and inside.parent.parent == in_bin:
                names.append(inside.parent.name)
        needed = manifest.get("dependencies", {}).keys()
        asks = any(each in needed for each in ("kube", "kube-runtime", "kube-client", "kubert", "stackable-operator"))
        for each in dict.fromkeys(names):
            yield _Binary(folder, name, each, each in (package.get("default-run"), name), asks)


def _toml(facts: Facts, path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(facts.files[path])
    except tomllib.TOMLDecodeError:
        return {}


def _workspace(facts: Facts, folder: str) -> str:
    """Return the folder of a package's workspace, in which cargo builds; its own without one."""
    for above in (PurePosixPath(folder), *PurePosixPath(folder).parents):
        path = str(above / "Cargo.toml")
        if path in facts.files and "workspace" in _toml(facts, path):
            return str(above)
    return folder


_CLAP = re.compile(
    r"#\[(?:arg|clap)\(((?:[^\[\]]|\[[^\]]*\])*)\)\]\s*(?:///[^\n]*\s*)*(?:pub(?:\([^)]*\))?\s+)?(\w+)\s*:\s*(\w+)"
)
_BUILT = re.compile(r'\.long\(\s*"([\w-]+)"\s*\)')


def _clap(source: str) -> Iterator[tuple[str, Flag]]:
    """Yield the flags of clap, which are fields of a struct or are built by calls."""
    for attributes, field, kind in _CLAP.findall(source):
        long = re.search(r'\blong\b(?:\s*=\s*"([\w-]+)")?', attributes)
        if long:
            default = re.search(r'default_value(?:_t)?\s*=\s*"?([\w.:\[\]-]+)', attributes)
            yield (
                long[1] or field.replace("_", "-"),
                Flag("Bool" if kind == "bool" else "", default[1] if default else ""),
            )
    for name in _BUILT.findall(source):
        yield name, Flag("", "")


# ---- Java and Kotlin


_MAIN = re.compile(r"\bstatic\s+void\s+main\s*\(|^\s*fun\s+main\s*\(|@QuarkusMain|@SpringBootApplication", re.M)
_PACKAGE = re.compile(r"^\s*package\s+([\w.]+)", re.MULTILINE)
_OPERATOR = re.compile(
    r"\bnew Operator\(|\bOperator\(|SharedInformerFactory|ControllerManager|@SpringBootApplication|@QuarkusMain"
)


class _Framework(NamedTuple):
    """What serves probes and metrics in an application of a framework, which no source names."""

    mark: str
    """In the build tool's file."""
    env: Mapping[str, str]
    managed: tuple[str, str]
    """Setting of a second port, for probes and metrics alone; its variable."""
    readiness: tuple[str, str]
    """What the build tool's file has for it; its path."""
    metrics: tuple[str, str]


_FRAMEWORKS = (
    _Framework(
        "io.quarkus",
        {"QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": "{metrics_port}"},
        ("quarkus.management.enabled", "QUARKUS_MANAGEMENT_PORT"),
        ("smallrye-health", "/q/health/ready"),
        ("registry-prometheus", "/q/metrics"),
    ),
    _Framework(
        "org.springframework.boot",
        {
            "SERVER_ADDRESS": "127.0.0.1",
            "SERVER_PORT": "{metrics_port}",
            "MANAGEMENT_ENDPOINTS_WEB_EXPOSURE_INCLUDE": "health,prometheus",
        },
        ("management.server.port", "MANAGEMENT_SERVER_PORT"),
        ("actuator", "/actuator/health"),
        ("registry-prometheus", "/actuator/prometheus"),
    ),
)


def _java(facts: Facts) -> Program | None:
    tool = _build_file(facts)
    if not tool:
        return None
    sources = facts.sources(".java") | facts.sources(".kt")
    is_maven = PurePosixPath(tool).name == "pom.xml"
    source = "\n".join(sources.values())
    tool_texts = "\n".join(text for path, text in facts.files.items() if PurePosixPath(path).name in _BUILD_FILES)
    is_quarkus = "io.quarkus" in tool_texts
    mains = [path for path, text in sources.items() if _MAIN.search(text)]
    named = tool_texts + " ".join(_words_of_containers(facts))
    mains.sort(
        key=lambda path: (
            not re.search(rf"\b{re.escape(PurePosixPath(path).stem)}(?:Kt)?\b", named),
            not _OPERATOR.search(sources[path]),
            path.count("/"),
            path,
        )
    )
    if not mains and not (is_quarkus and sources):
        return None
    guesses: dict[str, list[str]] = {}
    if len(mains) > 1 and not is_quarkus:
        guesses["command"] = [f"of {len(mains)} classes with a main method {PurePosixPath(mains[0]).stem} is started"]
    module = _module_of(facts, mains[0] if mains else next(iter(sources)), is_maven)
    build, words = _jvm(facts, module, mains, sources, is_maven=is_maven, is_quarkus=is_quarkus)
    options, arguments = _java_words(facts)
    options += _memory_of_container(container(facts).memory, options)
    line = CommandLine(
        "java", (words[0], *options, *words[1:]) if words[0] == "java" else words, arguments, source, {}, build
    )
    if options and words[0] != "java":
        guesses.setdefault("env", []).append(f"options of the JVM go into JAVA_OPTS: {' '.join(options)}")
    found = assembled(facts, line, container(facts), guesses)
    framework = next((each for each in _FRAMEWORKS if each.mark in tool_texts), None)
    return _in_framework(facts, found, framework, tool_texts) if framework else found


_BUILD_FILES = ("pom.xml", "build.gradle", "build.gradle.kts")


def _build_file(facts: Facts) -> str:
    found = [path for path in facts.files if PurePosixPath(path).name in _BUILD_FILES]
    return min(found, key=lambda path: (path.count("/"), _BUILD_FILES.index(PurePosixPath(path).name)), default="")


def _maven_or_gradle(facts: Facts) -> list[str]:
    """Return the command that builds all of a project."""
    if PurePosixPath(_build_file(facts)).name == "pom.xml":
        return [_wrapper(facts, "mvn"), "-B", "-q", "-DskipTests", "package"]
    return [_wrapper(facts, "gradle"), "classes"]


def _wrapper(facts: Facts, tool: str) -> str:
    """Return the project's own copy of a build tool, ``./mvnw``, if it has one."""
    own = {"mvn": "mvnw", "gradle": "gradlew"}[tool]
    return f"./{own}" if own in facts.files else tool


def _module_of(facts: Facts, source: str, is_maven: bool) -> str:
    """Return the folder of the module that a source belongs to."""
    files = ("pom.xml",) if is_maven else ("build.gradle", "build.gradle.kts")
    for above in PurePosixPath(source).parents:
        if any(str(above / name) in facts.files for name in files):
            return str(above)
    return "."


def _jvm(
    facts: Facts, module: str, mains: list[str], sources: Mapping[str, str], *, is_maven: bool, is_quarkus: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what builds a module and what starts it: paths without versions, so that they last."""
    if is_maven:
        chosen = ("-pl", module, "-am") if module != "." and "pom.xml" in facts.files else ()
        build = (_wrapper(facts, "mvn"), "-B", "-q", *chosen, "-DskipTests", "package")
        if is_quarkus:
            return build, ("java", "-jar", _path(module, "target/quarkus-app/quarkus-run.jar"))
        # Its classes as they are compiled: a jar has the version in its name, and may lack its dependencies.
        copied = ("dependency:copy-dependencies", "-DincludeScope=runtime")
        places = f"{_path(module, 'target/classes')}:{_path(module, 'target/dependency')}/*"
        return (*build, *copied), ("java", "-cp", places, _class(mains[0], sources[mains[0]]))
    task = f":{module.replace('/', ':')}:" if module != "." else ""
    gradle = _wrapper(facts, "gradle")
    if is_quarkus:
        return (gradle, f"{task}quarkusBuild"), ("java", "-jar", _path(module, "build/quarkus-app/quarkus-run.jar"))
    name = _gradle_name(facts, module)
    return (gradle, f"{task}installDist"), (_path(module, "build/install", name, "bin", name),)


def _class(path: str, text: str) -> str:
    package = _PACKAGE.search(text)
    stem = PurePosixPath(path).stem + ("Kt" if path.endswith(".kt") and re.search(r"^fun\s+main", text, re.M) else "")
    return f"{package[1]}.{stem}" if package else stem


def _gradle_name(facts: Facts, module: str) -> str:
    """Return the name that the plugin `application` gives its start script: the project's."""
    own = "\n".join(facts.files.get(_path(module, name), "") for name in ("build.gradle", "build.gradle.kts"))
    if found := re.search(r"applicationName\s*=\s*[\"']([^\"']+)", own):
        return found[1]
    if module != ".":
        return PurePosixPath(module).name
    settings = facts.files.get("settings.gradle", "") + facts.files.get("settings.gradle.kts", "")
    found = re.search(r"rootProject\.name\s*=\s*[\"']([^\"']+)", settings)
    return found[1] if found else facts.name


def _java_words(facts: Facts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the JVM's options and the program's arguments by which a container starts ``java``."""
    for start in starts(facts):
        words = list(start.words)
        java = next((index for index, word in enumerate(words) if PurePosixPath(word).name == "java"), None)
        if java is None:
            continue
        options: list[str] = []
        behind = words[java + 1 :]
        while behind and behind[0].startswith("-"):
            option = behind.pop(0)
            if option in ("-cp", "-classpath", "--class-path", "-jar") and behind:
                behind.pop(0)
                if option == "-jar":
                    return tuple(options), tuple(behind)
            else:
                options.append(option)
        return tuple(options), tuple(behind[1:])
    return (), container(facts).args


def _memory_of_container(limit: str, options: tuple[str, ...]) -> tuple[str, ...]:
    """Return the JVM's option for a container's limit: it sizes its heap by what the machine has, a process' too."""
    if any(option.startswith(("-Xmx", "-XX:MaxHeapSize", "-XX:MaxRAM=")) for option in options):
        return ()
    try:
        size = memory_bytes(limit) if limit else 0
    except UsageError:
        # A template's, or another form of a quantity.
        return ()
    return (f"-XX:MaxRAM={size >> 20}m",) if size >> 20 else ()


def _in_framework(facts: Facts, found: Program, framework: _Framework, tool_texts: str) -> Program:
    """Return a program with the ports and paths of its framework, where its container does not say others."""
    settings = "\n".join(
        text
        for path, text in facts.files.items()
        if re.match(r"application.*\.(properties|ya?ml)$", PurePosixPath(path).name)
    )
    setting, variable = framework.managed
    managed = setting in settings or (setting.split(".")[0] == "management" and _has_key(settings, setting))
    env = {**found.env, **framework.env}
    if managed:
        env |= {key: "0" for key, value in framework.env.items() if value == "{metrics_port}"}
        env[variable] = "{metrics_port}"
    metrics = f"{local('{metrics_port}')}{framework.metrics[1]}" if framework.metrics[0] in tool_texts else ""
    guesses = dict(found.guesses)
    for field in ("readiness", "metrics"):
        guesses.pop(field, None)
    probe = container(facts).readiness
    readiness = f"{local('{metrics_port}')}{probe or framework.readiness[1]}"
    if not probe and framework.readiness[0] not in tool_texts:
        readiness = metrics or readiness
        guesses["readiness"] = () if metrics else ("no probe was found: give a URL that answers 200 once it works",)
    return msgspec.structs.replace(found, env=env, metrics=metrics, readiness=readiness, guesses=guesses)


def _has_key(settings: str, setting: str) -> bool:
    """Return whether a setting is among others in YAML: each part on a line of its own, in their order."""
    return bool(re.search(r":\s*\n(?:.*\n)*?\s+".join(re.escape(part) for part in setting.split(".")), settings))


# ---- .NET


def _dotnet(facts: Facts) -> Program | None:
    projects = [
        path
        for path, text in facts.files.items()
        if path.endswith(".csproj") and _is_program(text) and not re.search(r"Tests?\.csproj$", path)
    ]
    words = " ".join(_words_of_containers(facts))
    projects.sort(
        key=lambda path: (
            "KubeOps" not in facts.files[path] and "KubernetesClient" not in facts.files[path],
            f"{_assembly(path, facts.files[path])}.dll" not in words,
            path.count("/"),
            path,
        )
    )
    if not projects:
        return None
    project, text = projects[0], facts.files[projects[0]]
    assembly = _assembly(project, text)
    sources = facts.sources(".cs")
    source = "\n".join(sources.values())
    given, arguments = _given(facts, f"{assembly}.dll")
    line = CommandLine(
        language="dotnet",
        build=("dotnet", "publish", "-c", "Release", "-o", "bin/scale", project),
        words=("dotnet", f"bin/scale/{assembly}.dll"),
        arguments=arguments,
        source=source,
    )
    found = assembled(facts, line, given, {})
    if "Microsoft.NET.Sdk.Web" not in text or any("{metrics_port}" in value for value in found.env.values()):
        return found
    # ASP.NET serves all on its one address.
    path = given.readiness or next(iter(re.findall(r'MapHealthChecks\(\s*"([^"]+)"', source)), "")
    metrics = f"{local('{metrics_port}')}/metrics" if re.search("MapMetrics|UseMetricServer|Prometheus", source) else ""
    guesses = {field: texts for field, texts in found.guesses.items() if field not in ("readiness", "metrics")}
    if not path and not metrics:
        guesses["readiness"] = ("no probe was found: give a URL that answers 200 once it works",)
    return msgspec.structs.replace(
        found,
        env={**found.env, "ASPNETCORE_URLS": local("{metrics_port}")},
        metrics=metrics,
        readiness=f"{local('{metrics_port}')}{path or ('/metrics' if metrics else '/healthz')}",
        guesses=guesses,
    )


def _is_program(text: str) -> bool:
    return bool(re.search(r"Microsoft\.NET\.Sdk\.(?:Web|Worker)|<OutputType>\s*Exe", text))


def _assembly(path: str, text: str) -> str:
    found = re.search(r"<AssemblyName>\s*([^<\s]+)", text)
    return found[1] if found else PurePosixPath(path).stem
