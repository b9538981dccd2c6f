"""How operators in Rust, Java, Kotlin and C# are built and started, by their build tool's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_grovescale.scaffold import compiled, facts
from pytest_grovescale.scaffold.program import Program

CARGO = '[package]\nname = "shop-operator"\n[dependencies]\nkube = "3"\n'
RUST = "fn main() {}\n"


def found(files: dict[str, str]) -> Program:
    program = compiled.compiled_program(facts.of("shop", files))
    assert program is not None
    return program


def deployment(container: str) -> dict[str, str]:
    head = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: shop}\nspec: {template: {spec: {containers: ["
    return {"deploy/deployment.yaml": f"{head}{container}], serviceAccountName: shop}}}}}}\n"}


def test_a_rust_program_is_built_by_cargo() -> None:
    program = found({"Cargo.toml": CARGO, "src/main.rs": RUST})
    assert program.build == ("cargo", "build", "--release")
    assert program.command == ("target/release/shop-operator",)


def test_of_several_binaries_the_one_is_built_that_a_container_starts() -> None:
    files = {"Cargo.toml": CARGO, "src/bin/crdgen.rs": RUST, "src/bin/agent.rs": RUST, "src/bin/a/main.rs": RUST}
    program = found({**files, "Dockerfile": 'ENTRYPOINT ["/usr/local/bin/agent", "--level=3"]\n'})
    assert program.build[-2:] == ("--bin", "agent")
    assert program.command == ("target/release/agent", "--level=3")
    assert found({**files, "src/main.rs": RUST}).command == ("target/release/shop-operator",)


def test_a_package_of_a_workspace_is_built_in_its_workspace() -> None:
    files = {
        "rust/Cargo.toml": '[workspace]\nmembers = ["a", "b"]\n',
        "rust/a/Cargo.toml": '[package]\nname = "a"\n',
        "rust/a/src/main.rs": RUST,
        "rust/b/Cargo.toml": CARGO,
        "rust/b/src/main.rs": RUST,
    }
    program = found(files)
    assert program.build[3:] == ("--manifest-path", "rust/Cargo.toml", "--package", "shop-operator")
    assert program.command == ("rust/target/release/shop-operator",)


@pytest.mark.parametrize(
    ("source", "argument"),
    [
        ('#[arg(long, default_value = ":80")]\n  pub metrics_addr: String,', "metrics-addr=127.0.0.1:{metrics_port}"),
        ('#[clap(long = "metrics-port", default_value_t = 8080)]\n    port: u16,', "metrics-port={metrics_port}"),
        ('Arg::new("m").long("metrics-port")', "metrics-port={metrics_port}"),
    ],
)  # fmt: skip
def test_flags_of_clap_get_their_values(source: str, argument: str) -> None:
    assert f"--{argument}" in found({"Cargo.toml": CARGO, "src/main.rs": source}).command


@pytest.mark.parametrize(
    "source",
    [
        'let p = std::env::var("METRICS_PORT");',
        '#[arg(long, env = "METRICS_PORT")]\nlisten: u16,',
    ],
)
def test_variables_of_a_rust_program_are_known(source: str) -> None:
    files = {"Cargo.toml": CARGO, "src/main.rs": f'{source}\n"/metrics" "/health"'}
    container = "{name: a, ports: [{name: http, containerPort: 8080}], env: [{name: METRICS_PORT, value: '8080'}],"
    probed = deployment(container + " readinessProbe: {httpGet: {path: /health, port: http}}}")
    program = found({**files, **probed})
    assert program.env["METRICS_PORT"] == "{metrics_port}"
    assert program.metrics == "http://127.0.0.1:{metrics_port}/metrics"
    # The probe's port is that of the metrics, which the variable's value says.
    assert program.readiness == "http://127.0.0.1:{metrics_port}/health"


@pytest.mark.parametrize(
    "source",
    [
        'HttpServer::new(app).bind("0.0.0.0:8080")',
        'TcpListener::bind(("0.0.0.0", 8080))',
        "SocketAddr::from(([0, 0, 0, 0], 8080))",
    ],
)
def test_fixed_ports_of_a_rust_program_are_guesses(source: str) -> None:
    program = found({"Cargo.toml": CARGO, "src/main.rs": f'{source} "/metrics" "/health"'})
    assert program.metrics == "http://127.0.0.1:8080/metrics"
    assert program.readiness == "http://127.0.0.1:8080/health"
    assert program.guesses["metrics"]


MAIN = "package com.example;\npublic class Main { public static void main(String[] a) { new Operator(); } }\n"
POM = "<project><artifactId>shop</artifactId></project>\n"
IN_MAVEN = {"pom.xml": POM, "src/main/java/com/example/Main.java": MAIN}


def test_a_java_program_runs_as_maven_compiles_it() -> None:
    program = found({**IN_MAVEN, "Dockerfile": 'ENTRYPOINT ["java", "-Xmx64m", "-jar", "/a.jar", "--level=3"]\n'})
    assert program.build[0] == "mvn"
    assert program.command == (
        "java", "-Xmx64m", "-cp", "target/classes:target/dependency/*", "com.example.Main", "--level=3",
    )  # fmt: skip
    assert found({**IN_MAVEN, "mvnw": "#!/bin/sh\n"}).build[0] == "./mvnw"


@pytest.mark.parametrize(
    ("options", "limit", "given"),
    [
        ("", "512Mi", ["-XX:MaxRAM=512m"]),
        ('"-XX:MaxRAMPercentage=60", ', "1Gi", ["-XX:MaxRAMPercentage=60", "-XX:MaxRAM=1024m"]),
        ('"-Xmx64m", ', "512Mi", ["-Xmx64m"]),
        ("", "a lot", []),
    ],
)
def test_a_jvm_has_the_memory_of_its_container(options: str, limit: str, given: list[str]) -> None:
    limited = deployment(f"{{name: a, image: b, resources: {{limits: {{memory: {limit}}}}}}}")
    program = found({**IN_MAVEN, **limited, "Dockerfile": f'ENTRYPOINT ["java", {options}"-jar", "/a.jar"]\n'})
    assert list(program.command[1 : 1 + len(given)]) == given
    assert program.command[1 + len(given)] == "-cp"


def test_a_module_of_maven_is_built_with_what_it_needs() -> None:
    files = {"pom.xml": POM, "op/pom.xml": POM, "op/src/main/java/com/example/Main.java": MAIN}
    program = found(files)
    assert program.build[3:6] == ("-pl", "op", "-am")
    folders = [path.rpartition("/")[0] for path in program.command[2].removesuffix("/*").split(":")]
    assert (folders, program.command[3]) == (["op/target", "op/target"], "com.example.Main")


def test_of_several_classes_with_a_main_method_that_of_the_operator_is_started() -> None:
    other = {"src/main/java/A.java": "class A { public static void main(String[] a) {} }"}
    program = found({**IN_MAVEN, **other})
    assert program.command[-1] == "com.example.Main"
    assert program.guesses["command"]
    named = {"pom.xml": POM.replace("</project>", "<mainClass>A</mainClass></project>")}
    assert found({**IN_MAVEN, **other, **named}).command[-1] == "A"


def test_a_quarkus_application_serves_on_its_own_port() -> None:
    pom = "io.quarkus quarkus-smallrye-health quarkus-micrometer-registry-prometheus"
    files = {"pom.xml": pom, "src/main/java/R.java": "class R implements Reconciler<A> {}"}
    program = found(files)
    assert (program.command[:2], Path(program.command[2]).name) == (("java", "-jar"), "quarkus-run.jar")
    assert program.env["QUARKUS_HTTP_PORT"] == "{metrics_port}"
    assert program.readiness == "http://127.0.0.1:{metrics_port}/q/health/ready"
    assert program.metrics == "http://127.0.0.1:{metrics_port}/q/metrics"
    managed = found({**files, "src/main/resources/application.properties": "quarkus.management.enabled=true\n"})
    assert managed.env["QUARKUS_MANAGEMENT_PORT"] == "{metrics_port}"
    assert managed.env["QUARKUS_HTTP_PORT"] == "0"


def test_a_spring_boot_application_serves_its_actuator() -> None:
    pom = "org.springframework.boot spring-boot-starter-actuator"
    program = found({"pom.xml": pom, "src/main/java/App.java": "@SpringBootApplication class App {}"})
    assert program.command[-1] == "App"
    assert program.env["SERVER_PORT"] == "{metrics_port}"
    assert program.readiness == "http://127.0.0.1:{metrics_port}/actuator/health"
    assert program.metrics == ""


def test_gradle_installs_a_start_script() -> None:
    kotlin = {"src/main/kotlin/Main.kt": "fun main() { Operator() }\n"}
    program = found({"build.gradle.kts": "plugins { application }\n", **kotlin, "gradlew": ""})
    assert (program.build, program.command) == (("./gradlew", "installDist"), ("build/install/shop/bin/shop",))
    named = {"settings.gradle": "rootProject.name = 'store'\n"}
    assert found({"build.gradle": "", **kotlin, **named}).command == ("build/install/store/bin/store",)


def test_a_dotnet_program_is_published_and_served_on_one_address() -> None:
    web = '<Project Sdk="Microsoft.NET.Sdk.Web"><AssemblyName>shop</AssemblyName>KubeOps.Operator</Project>'
    source = {"src/Program.cs": 'app.MapHealthChecks("/ready"); app.MapMetrics();'}
    program = found({"src/Shop.csproj": web, "test/ShopTests.csproj": web, **source})
    assert program.build[-1] == "src/Shop.csproj"
    assert program.command == ("dotnet", "bin/scale/shop.dll")
    assert program.env["ASPNETCORE_URLS"] == "http://127.0.0.1:{metrics_port}"
    assert program.readiness == "http://127.0.0.1:{metrics_port}/ready"


def test_libraries_are_no_programs() -> None:
    for files in (
        {"Cargo.toml": CARGO, "src/lib.rs": ""},
        {"pom.xml": POM, "src/main/java/A.java": "class A {}"},
        {"A.csproj": '<Project Sdk="Microsoft.NET.Sdk"/>'},
    ):
        assert compiled.compiled_program(facts.of("shop", files)) is None


def test_an_only_variable_of_an_address_is_where_metrics_or_probes_are_served() -> None:
    source = 'env::var("PORT"); "/health"'
    program = found({"Cargo.toml": CARGO, "src/main.rs": source})
    assert (program.env, program.readiness) == ({"PORT": "{health_port}"}, "http://127.0.0.1:{health_port}/health")
    metrics = found({"Cargo.toml": CARGO, "src/main.rs": f"{source} use prometheus_client::Registry;"})
    assert metrics.env == {"PORT": "{metrics_port}"}


def test_how_a_project_gets_its_crds() -> None:
    rust = {"Cargo.toml": CARGO, "src/main.rs": "#[derive(CustomResource, Clone)]\n", "src/bin/crdgen.rs": RUST}
    assert "cargo run --bin crdgen" in compiled.lacks_crds(facts.of("shop", rust))
    java = {**IN_MAVEN, "src/main/java/A.java": "class A extends CustomResource<B, C> {}"}
    assert "mvn" in compiled.lacks_crds(facts.of("shop", java))
    assert compiled.lacks_crds(facts.of("shop", {"main.go": ""})) == ""


@pytest.mark.parametrize(
    ("source", "counter"),
    [
        (
            'register_int_counter_vec!(\n  "shop_reconciliations_total",\n  "By controller (and result)",\n'
            '  &["controller"]\n)?;',
            {"counter": "shop_reconciliations_total", "controller_label": "controller"},
        ),
        (
            'IntCounterVec::new(Opts::new("shop_reconciles", "All, with a result"), &["kind", "outcome"]).unwrap()',
            {"counter": "shop_reconciles", "controller_label": "kind", "result_label": "outcome"},
        ),
        (
            'register_int_counter!("shop_reconciles_total", "Those of a controller").unwrap()',
            {"counter": "shop_reconciles_total"},
        ),
        ('register_int_counter_vec!("shop_reconcile_errors_total", "Failed", &["controller"])?;', {}),
        ('register_int_counter_vec!("shop_writes_total", "All", &["reconciler"])?;', {}),
        ('register_histogram_vec!("shop_reconcile_duration_seconds", "Time", &["controller"])?;', {}),
    ],
)
def test_a_counter_of_the_crate_prometheus_counts_reconciles(source: str, counter: dict[str, str]) -> None:
    main = f'use prometheus::*;\nstd::env::var("METRICS_PORT");\n{source}\n'
    program = found({"Cargo.toml": CARGO, "src/main.rs": main})
    assert program.reconciles == counter
    assert ("reconciles" in program.guesses) == bool(counter)


def test_a_counter_of_prometheus_net_counts_reconciles() -> None:
    options = 'new CounterConfiguration { LabelNames = new[] { "kind" } }'
    counter = f'Metrics.CreateCounter("shop_reconciles_total", "All", {options});'
    source = f'Environment.GetEnvironmentVariable("METRICS_PORT"); app.MapMetrics();\n{counter}\n'
    project = '<Project Sdk="Microsoft.NET.Sdk.Web"><PackageReference Include="KubeOps" /></Project>'
    assert found({"Shop.csproj": project, "Program.cs": source}).reconciles == {
        "counter": "shop_reconciles_total",
        "controller_label": "kind",
    }
