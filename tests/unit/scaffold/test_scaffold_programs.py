"""How an operator is started, read from its sources and manifests: flags, probes, webhooks, environment, handlers."""

from __future__ import annotations

import pytest

from pytest_grovescale.scaffold import facts, interpreted, program
from pytest_grovescale.scaffold.kopf import handled_field
from pytest_grovescale.scaffold.program import Program

MANAGER = "mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{OPTIONS})\n"
WEBHOOK = "func Setup(mgr ctrl.Manager) { ctrl.NewWebhookManagedBy(mgr, &v1.A{}) }\n"
CONFIGURATION = (
    "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: a}\n"
)


def go(flags: str = "", *, options: str = "", files: dict[str, str] | None = None) -> Program:
    """Return the program of a project with one main package."""
    main = f"package main\n\nfunc main() {{\n{flags}\n{MANAGER.replace('OPTIONS', options)}}}\n"
    found = program.go_program(facts.of("shop", {"cmd/main.go": main, **(files or {})}))
    assert found is not None
    return found


def deployment(container: str) -> dict[str, str]:
    head = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: shop}\nspec: {template: {spec: {containers: ["
    return {"config/manager/manager.yaml": f"{head}{container}]}}}}}}\n"}


def kopf(handlers: str, files: dict[str, str] | None = None) -> Program:
    source = f"import kopf\n\n{handlers}\n@kopf.on.create('a', 'v1', 'things')\ndef made(**_): ...\n"
    found = interpreted.interpreted_program(facts.of("shop", {"handlers.py": source, **(files or {})}))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("flag", "argument"),
    [
        ('flag.StringVar(&a, "metrics-bind-address", "0", "…")', "--metrics-bind-address=127.0.0.1:{metrics_port}"),
        ('flag.StringVar(&a, "metrics-addr", ":8080", "…")', "--metrics-addr=127.0.0.1:{metrics_port}"),
        ('a := flag.String("metrics_address", ":8080", "…")', "--metrics_address=127.0.0.1:{metrics_port}"),
        ('flag.IntVar(&a, "metrics-port", 8080, "…")', "--metrics-port={metrics_port}"),
        ('cmd.Flags().IntVar(&a, "metricsport", 8090, "…")', "--metricsport={metrics_port}"),
        ('flag.IntVar(&a, "healthzPort", 8080, "…")', "--healthzPort={health_port}"),
        ('pflag.StringVarP(&a, "metrics-addr", "m", ":8080", "…")', "--metrics-addr=127.0.0.1:{metrics_port}"),
        ('fs.StringVar(&o.Addr, "metrics-addr", o.Addr, "…")', "--metrics-addr=127.0.0.1:{metrics_port}"),
        ('cmd.Flags().StringVar(\n\t&a,\n\t"metrics-addr", ":8080", "…")', "--metrics-addr=127.0.0.1:{metrics_port}"),
        ('flag.StringVar(&a, "health-probe-bind-address", ":8081", "…")',
         "--health-probe-bind-address=127.0.0.1:{health_port}"),
        ('flag.StringVar(&a, "health-addr", ":8081", "…")', "--health-addr=127.0.0.1:{health_port}"),
        ('flag.BoolVar(&a, "leader-elect", true, "…")', "--leader-elect=false"),
        ('flag.BoolVar(&a, "enable-leader-election", true, "…")', "--enable-leader-election=false"),
        ('flag.BoolVar(&a, "metrics-secure", true, "…")', "--metrics-secure=false"),
        ('flag.StringVar(&a, "pprof-bind-address", "", "…")', "--pprof-bind-address=127.0.0.1:{pprof_port}"),
        ('flag.StringVar(&a, "kubeconfig", "", "…")', "--kubeconfig={kubeconfig}"),
        ('flag.StringVar(&a, "webhook-cert-path", "", "…")', "--webhook-cert-path={cert_dir}"),
        ('flag.StringVar(&a, "cert-dir", "", "…")', "--cert-dir={cert_dir}"),
        ('&cli.StringFlag{\n\tName: "metrics-addr",\n}', "--metrics-addr=127.0.0.1:{metrics_port}"),
    ],
)  # fmt: skip
def test_a_flag_gets_the_value_of_its_role(flag: str, argument: str) -> None:
    assert argument in go(flag).command


@pytest.mark.parametrize(
    "flag",
    [
        'flag.StringVar(&a, "metrics-cert-path", "", "…")',
        'flag.StringVar(&a, "leader-election-id", "", "…")',
        'flag.DurationVar(&a, "leader-elect-lease-duration", time.Second, "…")',
        'flag.StringVar(&a, "webhook-cert-name", "tls.crt", "…")',
        'flag.BoolVar(&a, "enable-http2", false, "…")',
        'zap.String("metrics-addr", addr)',
        'log.Info("starting", "metrics-addr", addr)',
    ],
)
def test_other_flags_keep_their_defaults(flag: str) -> None:
    assert go(flag).command == ("bin/manager",)


def test_a_deployments_arguments_are_kept_but_those_with_a_role() -> None:
    flags = 'flag.StringVar(&a, "metrics-addr", "", "…")\nflag.StringVar(&b, "region", "", "…")'
    container = (
        "{name: manager, command: [/manager], args: ['--metrics-addr=:8443', --region, 'a-{b}', --leader-elect]}"
    )
    assert go(flags, files=deployment(container)).command == (
        "bin/manager", "--region", "a-{{b}}", "--metrics-addr=127.0.0.1:{metrics_port}",
    )  # fmt: skip


def test_a_probe_of_the_metrics_is_asked_where_they_are() -> None:
    flags = 'flag.StringVar(&a, "metrics-addr", ":8080", "…")\nflag.StringVar(&b, "health-addr", ":8082", "…")'
    probed = "{name: manager, ports: [{name: http, containerPort: 8080}], readinessProbe: {httpGet: PROBE}}"
    found = go(flags, files=deployment(probed.replace("PROBE", "{path: /metrics, port: http}")))
    assert found.readiness == found.metrics == "http://127.0.0.1:{metrics_port}/metrics"


def test_a_type_that_is_called_as_controller_runtimes_manager_is_none() -> None:
    own = {"controller/controller.go": "package controller\n\nfunc NewManager(port int) *Manager { return nil }\n"}
    found = client_go("m := controller.NewManager(8090)\n" + METRICS, own)
    assert "controller-runtime" not in str(found.guesses)


def test_a_deployment_of_something_else_says_nothing() -> None:
    web = {"docs/web.yaml": deployment("{name: web, args: [--port=80]}")["config/manager/manager.yaml"]}
    assert go(files=web).command == ("bin/manager",)


@pytest.mark.parametrize(
    ("source", "counter"),
    [
        (
            'prometheus.CounterOpts{Name: "shop_syncs_total", Help: "a"}, []string{"result"})',
            {"counter": "shop_syncs_total", "result_label": "result"},
        ),
        (
            'prometheus.CounterOpts{\n Namespace: "shop",\n Name: "reconciles"}, []string{"controller"})',
            {"counter": "shop_reconciles", "controller_label": "controller"},
        ),
        (
            'prometheus.HistogramOpts{Name: "shop_sync_seconds", Buckets: []float64{1, 2}}, []string{"outcome"})',
            {"counter": "shop_sync_seconds_count", "result_label": "outcome"},
        ),
        ('prometheus.CounterOpts{Name: "async_writes_total"}', {}),
    ],
)
def test_a_counter_of_its_own_is_a_guess_without_controller_runtime(source: str, counter: dict[str, str]) -> None:
    main = (
        'package main\n\nfunc main() {\n\tflag.StringVar(&a, "metrics-addr", ":1", "")\n'
        f"\tpromhttp.Handler()\n\t{source}\n}}\n"
    )
    found = program.go_program(facts.of("shop", {"main.go": main}))
    assert found is not None
    assert found.reconciles == counter
    assert ("reconciles" in found.guesses) == bool(counter)


@pytest.mark.parametrize(
    ("source", "port"),
    [
        ("webhook.NewServer(webhook.Options{TLSOpts: []func(*tls.Config){a}, Port: 9444})", 9444),
        ("ctrl.Options{Metrics: server.Options{BindAddress: a}, Port: 9445}", 9445),
        # The port of a Service that the program makes.
        ('corev1.ServicePort{{Name: "cache", Port: 6379}}', 9443),
    ],
)
def test_a_webhook_servers_fixed_port_is_its_own(source: str, port: int) -> None:
    files = {"config/webhook/manifests.yaml": CONFIGURATION, "internal/a.go": f"package a\n{WEBHOOK}{source}\n"}
    assert go('flag.StringVar(&a, "webhook-cert-path", "", "…")', files=files).webhook_port == port


def test_a_script_of_a_shell_is_started_as_its_container_does() -> None:
    found = interpreted.shell_program(
        facts.of(
            "loop",
            {
                "Dockerfile": 'FROM alpine\nCOPY run.sh /usr/bin/run.sh\nCMD ["/usr/bin/run.sh", "--every=3"]\n',
                "run.sh": "#!/usr/bin/env bash\nwhile true; do kubectl get things; sleep ${EVERY:-2}; done\n",
                **deployment("{name: operator, image: a, env: [{name: EVERY, value: '3'}]}"),
            },
        )
    )
    assert found is not None
    assert (found.language, found.command, found.build) == ("shell", ("bash", "run.sh", "--every=3"), ())
    assert (found.env, found.readiness) == ({"EVERY": "3"}, "")
    assert [*found.guesses] == ["readiness"]


def test_a_script_that_starts_a_program_is_not_the_program() -> None:
    project = {
        "Dockerfile": 'FROM python\nWORKDIR /app\nCOPY . .\nENTRYPOINT ["./entry.sh", "python", "app.py"]\n',
        "entry.sh": '#!/bin/sh\nexec "$@"\n',
        "app.py": "from kubernetes import config\nconfig.load_kube_config()\n",
    }
    found = interpreted.interpreted_program(facts.of("a", project))
    assert found is not None
    assert found.command == ("{python}", "app.py")


def test_a_path_among_the_arguments_is_a_guess() -> None:
    found = go('flag.StringVar(&b, "config", "", "…")', files=deployment("{name: a, args: [--config=/etc/a.yaml]}"))
    assert "--config=/etc/a.yaml" in found.command
    assert "/etc/a.yaml" in " ".join(found.guesses["command"])


def test_the_environment_is_the_containers() -> None:
    env = """[{name: LEVEL, value: '3'}, {name: NS, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}},
      {name: KEY, valueFrom: {secretKeyRef: {name: a, key: b}}}, {name: WATCH_NAMESPACE, value: shop}]"""
    found = go('os.Getenv("POD_NAMESPACE")', files=deployment(f"{{name: a, env: {env}}}"))
    assert found.env == {"LEVEL": "3", "NS": "{namespace}", "POD_NAMESPACE": "{namespace}", "WATCH_NAMESPACE": ""}
    assert "KEY" in found.guesses["env"][0]


SETTINGS = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"
    "data: {SHOP_PROM_PORT: '9402', SHOP_LEADER_ELECTION: 'true', WORKERS: '3', text: b}\n"
)


def test_variables_of_a_config_map_are_the_containers() -> None:
    container = (
        "{name: manager, envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: key}}],"
        " env: [{name: WORKERS, value: '4'}, {name: A, valueFrom: {configMapKeyRef: {name: settings, key: text}}},"
        " {name: B, valueFrom: {secretKeyRef: {name: key, key: b}}}]}"
    )
    found = go("", files=deployment(container) | {"settings.yaml": SETTINGS})
    assert found.env == {
        "SHOP_PROM_PORT": "{metrics_port}",
        "SHOP_LEADER_ELECTION": "false",
        "WORKERS": "4",
        "text": "b",
        "A": "b",
    }
    assert len(found.guesses["env"]) == 1


@pytest.mark.parametrize(
    ("name", "default", "is_off"),
    [
        ("LEADER_ELECT", "true", True),
        ("SHOP_ENABLE_LEADER_ELECTION", "true", True),
        ("SHOP_LEADER_ELECTION", "false", False),
        ("LEADER_ELECTION_ID", "shop", False),
        ("LEADER_ELECT_RETRY_PERIOD", "1", False),
    ],
)
def test_a_variable_that_is_on_switches_leader_election_off(name: str, default: str, is_off: bool) -> None:
    assert go(f'a := getenv("{name}", "{default}")').env == ({name: "false"} if is_off else {})


def test_variables_in_arguments_are_the_containers() -> None:
    env = "[{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: A, value: b}]"
    found = go(files=deployment(f"{{name: manager, env: {env}, args: [--ip=$(IP), --a=$(A), --c=$(C)]}}"))
    assert found.command == ("bin/manager", "--ip=127.0.0.1", "--a=b", "--c=$(C)")
    assert "$(C)" in found.guesses["command"][0]


def test_readiness_is_the_probe_that_the_program_has() -> None:
    flag = 'flag.StringVar(&a, "health-probe-bind-address", ":8081", "…")\nmgr.AddReadyzCheck("readyz", healthz.Ping)'
    assert go(flag).readiness == "http://127.0.0.1:{health_port}/readyz"
    probed = deployment("{name: a, readinessProbe: {httpGet: {path: /ready, port: 8081}}}")
    assert go(flag, files=probed).readiness == "http://127.0.0.1:{health_port}/ready"
    fixed = go('mgr.AddHealthzCheck("healthz", healthz.Ping)', options='HealthProbeBindAddress: ":9440",')
    assert fixed.readiness == "http://127.0.0.1:9440/healthz"
    assert "readiness" in fixed.guesses


def test_without_a_probe_readiness_is_the_metrics_endpoint() -> None:
    found = go('flag.StringVar(&a, "metrics-addr", ":8080", "…")')
    assert found.readiness == found.metrics == "http://127.0.0.1:{metrics_port}/metrics"


def test_a_fixed_metrics_address_is_a_guess() -> None:
    found = go(options='Metrics: metricsserver.Options{BindAddress: ":9999"}')
    assert found.metrics == "http://127.0.0.1:9999/metrics"
    assert found.guesses["metrics"]
    assert go().metrics == "http://127.0.0.1:8080/metrics"


@pytest.mark.parametrize(("value", "known"), [(":8080", True), ("8080", False), ("on", False)])
def test_a_variable_for_metrics_is_an_address_where_its_value_is_one(value: str, known: bool) -> None:
    container = f'{{name: manager, env: [{{name: METRICS, value: "{value}"}}]}}'
    found = go(options='Metrics: metricsserver.Options{BindAddress: os.Getenv("METRICS")}', files=deployment(container))
    assert found.env["METRICS"] == ("127.0.0.1:{metrics_port}" if known else value)
    assert ("{metrics_port}" in found.metrics) is known


def test_metrics_that_are_always_secure_are_read_with_a_token() -> None:
    flag = 'flag.StringVar(&a, "metrics-bind-address", ":8443", "…")'
    found = go(flag, options="Metrics: metricsserver.Options{BindAddress: a, SecureServing: true}")
    assert found.secure_metrics
    assert found.metrics == "https://127.0.0.1:{metrics_port}/metrics"
    switch = 'flag.BoolVar(&s, "metrics-secure", true, "…")'
    assert not go(f"{flag}\n{switch}", options="SecureServing: true").secure_metrics


def test_webhooks_are_served_where_port_and_certificate_can_be_given() -> None:
    flags = 'flag.IntVar(&p, "webhook-port", 9443, "…")\nflag.StringVar(&c, "webhook-cert-path", "", "…")'
    found = go(
        flags, files={"hook/hook.go": f"package hook\n{WEBHOOK}", "config/webhook/manifests.yaml": CONFIGURATION}
    )
    assert found.webhooks == ("config/webhook/manifests.yaml",)
    assert found.webhook_port == 0
    assert {"--webhook-port={webhook_port}", "--webhook-cert-path={cert_dir}"} <= set(found.command)


def test_a_webhook_server_without_a_flag_for_its_port_has_a_fixed_one() -> None:
    files = {"hook/hook.go": f"package hook\n{WEBHOOK}", "config/webhook/manifests.yaml": CONFIGURATION}
    found = go('flag.StringVar(&c, "webhook-cert-path", "", "…")', files=files)
    assert found.webhook_port == 9443
    assert found.guesses["webhook_port"]


def test_webhooks_without_a_certificates_folder_are_off_where_the_program_has_a_switch() -> None:
    files = {"hook/hook.go": f"package hook\n{WEBHOOK}", "config/webhook/manifests.yaml": CONFIGURATION}
    found = go('if os.Getenv("ENABLE_WEBHOOKS") != "false" {}', files=files)
    assert found.env["ENABLE_WEBHOOKS"] == "false"
    assert found.webhooks == ()


def test_webhooks_without_flag_and_switch_find_their_certificate_in_the_default_folder() -> None:
    files = {"hook/hook.go": f"package hook\n{WEBHOOK}", "config/webhook/manifests.yaml": CONFIGURATION}
    found = go(files=files)
    assert found.env == {"TMPDIR": "{directory}"}
    assert found.command[:2] == ("sh", "-c")
    words = found.command[2].split()
    assert "{cert_dir}" in words
    assert "{directory}/k8s-webhook-server/serving-certs" in words
    assert (found.webhooks, found.webhook_port) == (("config/webhook/manifests.yaml",), 9443)
    elsewhere = go(options='WebhookServer: webhook.NewServer(webhook.Options{CertDir: "/certs"}),', files=files)
    assert elsewhere.command == ("bin/manager",)
    assert elsewhere.guesses["command"]


def test_the_package_is_the_one_that_makes_a_manager() -> None:
    other = "package main\nfunc main() {}\n"
    assert go(files={"main.go": other, "tools/a/main.go": other}).build[-1] == "./cmd"


def test_flags_of_other_programs_are_not_its_own() -> None:
    other = 'package main\n\nfunc main() {\n\tflag.StringVar(&a, "metrics-addr", ":8080", "…")\n}\n'
    assert go(files={"tools/a/main.go": other}).command == ("bin/manager",)


def test_flags_of_other_packages_count_where_main_has_none() -> None:
    options = 'package options\n\nfunc Add(fs *pflag.FlagSet) { fs.StringVar(&o.Addr, "metrics-addr", ":8080", "…") }\n'
    assert "--metrics-addr=127.0.0.1:{metrics_port}" in go(files={"pkg/options.go": options}).command
    here = 'flag.StringVar(&a, "health-addr", ":8081", "…")'
    assert go(here, files={"pkg/options.go": options}).command == (
        "bin/manager", "--health-addr=127.0.0.1:{health_port}",
    )  # fmt: skip


COBRA = """
rootCmd.Flags().StringVar(&metricsAddr, "metrics-addr", ":8080", "…")
webhookCmd.Flags().StringVar(&healthAddr, "healthz-addr", ":8081", "…")
port := webhookCmd.Flags().Int("webhook-port", 9443, "…")
"""


def test_flags_of_other_commands_are_not_the_roots() -> None:
    assert go(COBRA).command == ("bin/manager", "--metrics-addr=127.0.0.1:{metrics_port}")
    chosen = go(COBRA, files=deployment("{name: manager, args: [webhook]}"))
    assert chosen.command[1] == "webhook"
    assert "--healthz-addr=127.0.0.1:{health_port}" in chosen.command


def test_flags_that_only_the_deployment_shows_get_their_values() -> None:
    found = go(files=deployment("{name: a, args: [--metrics-bind-address=:8443, --level=3, --leader-elect]}"))
    assert found.command == (
        "bin/manager", "--level=3", "--metrics-bind-address=127.0.0.1:{metrics_port}", "--leader-elect=false",
    )  # fmt: skip


def test_leader_election_that_is_always_on_keeps_its_rights_and_may_not_start() -> None:
    assert go(options="LeaderElection: true,").elects_leader
    assert go(options="LeaderElection: true,").guesses["command"]
    named = go(options='LeaderElection: true, LeaderElectionNamespace: os.Getenv("OPERATOR_NAMESPACE"),')
    assert named.elects_leader
    assert "command" not in named.guesses
    assert named.env == {"OPERATOR_NAMESPACE": "{namespace}"}
    assert not go('flag.BoolVar(&l, "leader-elect", true, "…")').elects_leader


def test_a_configuration_file_of_the_project_is_found() -> None:
    files = {**deployment("{name: a, args: [--config=c.yaml]}"), "config/manager/c.yaml": "a: 1\n"}
    found = go('flag.StringVar(&b, "config", "", "…")', files=files)
    assert found.command == ("bin/manager", "--config=config/manager/c.yaml")


def test_a_kopf_operator_runs_all_files_with_handlers() -> None:
    more = {"more.py": "import kopf\n\n@kopf.on.event('pods')\ndef seen(**_): ...\n", "test_it.py": "@kopf.on.x\n"}
    found = kopf("", more)
    assert found.command[-2:] == ("handlers.py", "more.py")
    assert found.guesses["command"]
    docker = {"Dockerfile": 'CMD ["kopf", "run", "-A", "more.py"]\n'}
    assert kopf("", {**more, **docker}).command[-1] == "more.py"


@pytest.mark.parametrize(
    ("file", "kept_out"), [("operator.py", True), ("more.py", False), ("deploy/operator.py", False)]
)
def test_a_file_that_is_called_as_a_module_of_the_standard_library_is_kept_out(file: str, kept_out: bool) -> None:
    more = {file: "import kopf\n\n@kopf.on.event('pods')\ndef seen(**_): ...\n"}
    assert ("-P" in kopf("", more).command) is kept_out


def test_a_kopf_operator_is_run_by_its_module_where_its_own_command_names_one() -> None:
    docker = {"Dockerfile": 'CMD ["kopf", "run", "-A", "-m", "things.handlers"]\n'}
    package = {"things/handlers.py": "import kopf\n\n@kopf.on.event('pods')\ndef seen(**_): ...\n"}
    assert kopf("", {**docker, **package}).command[-2:] == ("-m", "things.handlers")
    # One that cannot be imported from the project's root is no module to run.
    assert kopf("", docker).command[-1] == "handlers.py"


@pytest.mark.parametrize(
    ("configured", "field"),
    [
        ("", 'metadata.annotations["kopf.zalando.org/last-handled-configuration"]'),
        ('kopf.AnnotationsDiffBaseStorage(prefix="a.io")', 'metadata.annotations["a.io/last-handled-configuration"]'),
        ("kopf.AnnotationsDiffBaseStorage(prefix='a.io', key='seen')", 'metadata.annotations["a.io/seen"]'),
        ("kopf.StatusDiffBaseStorage(name='x')", "status.x.last-handled-configuration"),
        ('kopf.StatusDiffBaseStorage(field="status.diff-base")', "status.diff-base"),
    ],
)
def test_where_kopf_notes_that_all_handlers_have_succeeded(configured: str, field: str) -> None:
    assert handled_field(f"settings.persistence.diffbase_storage = {configured}") == field


def test_a_kopf_operators_metrics_are_found() -> None:
    assert kopf("prometheus_client.start_http_server(9000)").metrics == "http://127.0.0.1:9000/metrics"
    by_variable = kopf("prometheus_client.start_http_server(int(os.environ['METRICS_PORT']))")
    assert by_variable.metrics == "http://127.0.0.1:{metrics_port}/metrics"
    assert by_variable.env["METRICS_PORT"] == "{metrics_port}"
    assert kopf("").metrics == ""


def test_a_host_beside_a_port_is_a_host_alone() -> None:
    environment = kopf("os.environ['METRICS_HOST'], os.environ['METRICS_PORT'], os.environ['HEALTH_ADDR']").env
    assert environment["METRICS_HOST"] == "127.0.0.1"
    assert environment["METRICS_PORT"] == "{metrics_port}"
    assert environment["HEALTH_ADDR"] == "127.0.0.1:{health_port}"
    flags = 'flag.StringVar(&a, "metrics-host", "0.0.0.0", "…")\nflag.IntVar(&p, "metrics-port", 8080, "…")'
    assert go(flags).command[1:3] == ("--metrics-host=127.0.0.1", "--metrics-port={metrics_port}")


def test_a_folder_without_a_program_has_none() -> None:
    nothing = facts.of("shop", {"a.go": "package a\n", "b.py": "import kopf\n"})
    assert program.go_program(nothing) is None
    assert interpreted.interpreted_program(nothing) is None


# ---- Go without controller-runtime


def client_go(main: str, files: dict[str, str] | None = None) -> Program:
    """Return the program of a project that serves its metrics and probes by itself."""
    found = program.go_program(
        facts.of("pool", {"main.go": f"package main\n\nfunc main() {{\n{main}\n}}\n", **(files or {})})
    )
    assert found is not None
    return found


METRICS = 'mux.Handle("/metrics", promhttp.Handler())\n'
READYZ = 'mux.HandleFunc("/readyz", ready)\n'


def test_a_probe_of_a_program_without_a_manager_is_the_path_that_it_handles() -> None:
    flags = 'm := flag.String("metrics-bind-address", ":80", "")\nh := flag.String("health-probe-addr", ":81", "")\n'
    found = client_go(flags + METRICS + READYZ)
    assert found.readiness == "http://127.0.0.1:{health_port}/readyz"
    assert client_go(flags + METRICS).readiness == found.metrics
    probed = deployment("{name: manager, readinessProbe: {httpGet: {path: /up, port: probes}}}")
    assert client_go(flags + METRICS, probed).readiness == "http://127.0.0.1:{health_port}/up"


def test_an_only_address_is_where_metrics_and_probes_are_served() -> None:
    found = client_go('a := flag.String("listen-address", ":8080", "")\n' + METRICS + 'mux.Handle("GET /healthz", ok)')
    assert found.command == ("bin/manager", "--listen-address=127.0.0.1:{metrics_port}")
    assert found.readiness == "http://127.0.0.1:{metrics_port}/healthz"


def test_metrics_of_an_only_server_are_where_its_probe_is() -> None:
    probe = "readinessProbe: {httpGet: {path: /healthz, port: http}}"
    container = f"{{name: manager, {probe}, ports: [{{name: http, containerPort: 9402}}]}}"
    flags = 'a := flag.String("listen", ":9402", "")\n'
    found = client_go(flags + METRICS + "http.ListenAndServe(*a, nil)", deployment(container))
    assert (found.metrics, found.readiness) == (
        "http://127.0.0.1:{health_port}/metrics", "http://127.0.0.1:{health_port}/healthz",
    )  # fmt: skip
    assert found.guesses["metrics"]


def test_addresses_are_known_by_the_deployments_ports() -> None:
    flags = 'a := flag.String("addr", ":8080", "")\nb := flag.String("other-addr", ":8081", "")\n'
    container = (
        "{name: manager, ports: [{name: http-metrics, containerPort: 8080}],"
        " livenessProbe: {httpGet: {path: /healthz, port: 8081}}}"
    )
    found = client_go(flags + METRICS, deployment(container))
    assert found.command[1:] == ("--addr=127.0.0.1:{metrics_port}", "--other-addr=127.0.0.1:{health_port}")
    assert found.readiness == "http://127.0.0.1:{health_port}/healthz"


def test_variables_are_addresses_too() -> None:
    found = client_go(f'a, h := os.Getenv("METRICS_ADDR"), os.Getenv("HEALTH_PORT")\n{METRICS}{READYZ}')
    assert found.env == {"HEALTH_PORT": "{health_port}", "METRICS_ADDR": "127.0.0.1:{metrics_port}"}
    assert (found.metrics, found.readiness) == (
        "http://127.0.0.1:{metrics_port}/metrics", "http://127.0.0.1:{health_port}/readyz",
    )  # fmt: skip


def test_addresses_that_are_fixed_are_guesses() -> None:
    found = client_go(f'{METRICS}{READYZ}http.ListenAndServe(":9090", mux)\n')
    assert (found.metrics, found.readiness) == ("http://127.0.0.1:9090/metrics", "http://127.0.0.1:9090/readyz")
    assert found.guesses["metrics"]
    assert found.guesses["readiness"]


# ---- Python and node, as their containers are started


TASK = "import kubernetes\nkubernetes.config.load_kube_config()\n"


def started(files: dict[str, str]) -> Program:
    read = facts.of("task", files)
    found = interpreted.interpreted_program(read) or interpreted.unstarted_program(read)
    assert found is not None
    return found


def test_a_deployment_says_how_a_python_program_is_started() -> None:
    container = (
        "{name: a, command: [python3, -u, /app/task.py], args: [--level=3, --leader-elect],"
        " env: [{name: PORT, value: '8080'}, {name: PROBES, value: ':8081'}],"
        " ports: [{name: metrics, containerPort: 8080}, {name: probes, containerPort: 8081}],"
        " readinessProbe: {httpGet: {path: /ready, port: probes}}}"
    )
    found = started({"src/task.py": TASK, "requirements.txt": "kubernetes\n", **deployment(container)})
    assert found.command == ("{python}", "-u", "src/task.py", "--level=3")
    assert found.env == {"PORT": "{metrics_port}", "PROBES": "127.0.0.1:{health_port}"}
    assert found.readiness == "http://127.0.0.1:{health_port}/ready"
    assert found.metrics == "http://127.0.0.1:{metrics_port}/metrics"
    assert (found.requirements, found.modules) == ("requirements.txt", ("kubernetes",))
    assert found.guesses == {}


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ('CMD ["python", "/app/task.py"]', ("{python}", "operator/task.py")),
        (
            'ENTRYPOINT ["tini", "--", "python3.12", "-X", "dev", "task.py"]',
            ("{python}", "-X", "dev", "operator/task.py"),
        ),
        ('ENTRYPOINT ["python"]\nCMD ["task.py", "--level=3"]', ("{python}", "operator/task.py", "--level=3")),
        ("CMD exec python -u \\\n  task.py", ("{python}", "-u", "operator/task.py")),
        ('CMD ["sh", "-c", "python task.py"]', ("{python}", "operator/task.py")),
        ('CMD ["./task.py"]', ("{python}", "operator/task.py")),
        ('CMD ["python", "-m", "task"]', ("{python}", "-m", "task")),
        ('CMD ["task-operator"]', ("{python}", "-c", "import sys; from task import main; sys.exit(main())")),
    ],
)
def test_a_dockerfile_says_how_a_python_program_is_started(start: str, words: tuple[str, ...]) -> None:
    docker = f"FROM python:3.12\nWORKDIR /app\nCOPY --chown=1:1 operator/ .\n{start}\n"
    scripts = '[project.scripts]\ntask-operator = "task:main"\n'
    # Another file of the same name: what is copied decides.
    others = {"tools/task.py": "", "pyproject.toml": scripts}
    found = started({"operator/task.py": TASK, "Dockerfile": docker, **others})
    assert found.command == words
    assert found.env == ({"PYTHONPATH": "operator"} if words[1] in ("-m", "-c") else {})
    assert found.requirements == "pyproject.toml"


def test_the_last_stage_of_a_dockerfile_counts() -> None:
    docker = (
        'FROM a AS b\nCOPY task.py /b/\nCMD ["python", "old.py"]\nFROM a\nCOPY --from=b /b /b\nCMD python /b/task.py\n'
    )
    assert started({"task.py": TASK, "old.py": "", "Dockerfile": docker}).command == ("{python}", "task.py")


def test_flags_of_a_python_program_get_their_values() -> None:
    source = (
        f'{TASK}p.add_argument("--metrics-port", type=int, default=8080)\np.add_argument("-p", "--probe-addr")\n'
        '@click.option("--leader-elect/--no-leader-elect")\nroute("/healthz")\n'
    )
    found = started(
        {"task.py": source, "Dockerfile": 'CMD ["python", "task.py", "--metrics-port", "80", "--leader-elect"]'}
    )
    assert found.command[2:] == ("--metrics-port={metrics_port}", "--probe-addr=127.0.0.1:{health_port}")
    assert found.readiness == "http://127.0.0.1:{health_port}/healthz"


def test_a_python_programs_fixed_ports_are_guesses() -> None:
    source = f'{TASK}start_http_server(9000)\nHTTPServer(("", 9001), Probes)\nif self.path == "/livez": ...\n'
    found = started({"task.py": source, "Dockerfile": "CMD python task.py\n"})
    assert (found.metrics, found.readiness) == ("http://127.0.0.1:9000/metrics", "http://127.0.0.1:9001/livez")
    assert {"metrics", "readiness", "command"} <= found.guesses.keys()


def test_a_python_program_that_reads_its_pods_credentials_alone_gets_a_guess() -> None:
    source = "import kubernetes\nkubernetes.config.load_incluster_config()\n"
    found = started({"task.py": source, "requirements.txt": "", "Dockerfile": "CMD python task.py\n"})
    assert "in a pod only" in found.guesses["command"][0]


def test_an_own_counter_of_reconciles_is_named() -> None:
    counter = 'port = os.environ["METRICS_PORT"]\nC = Counter("task_reconciles", "All.", ["handler", "result"])\n'
    found = started({"task.py": TASK + counter, "Dockerfile": "CMD python task.py\n"})
    assert found.reconciles == {
        "counter": "task_reconciles_total", "controller_label": "handler", "result_label": "result",
    }  # fmt: skip
    assert kopf(counter.replace("reconciles", "reconciled_total")).reconciles["counter"] == "task_reconciled_total"
    assert kopf(counter.replace("task_reconciles", "syncs_total")).reconciles["counter"] == "syncs_total"
    assert kopf(counter.replace("reconciles", "handled_total")).reconciles == {}
    assert kopf(counter.replace("reconciles", "async_calls")).reconciles == {}


def test_metrics_of_a_port_that_nothing_names_are_a_guess() -> None:
    served = f"{TASK}start_http_server(settings.port)\n"
    found = started({"task.py": served, "Dockerfile": "CMD python task.py\n"})
    assert found.metrics == ""
    assert found.guesses["metrics"]


def test_the_only_script_that_asks_an_api_server_is_a_guess() -> None:
    source = f'{TASK}\nif __name__ == "__main__":\n    main()\n'
    found = started({"a.py": source, "b.py": 'if __name__ == "__main__":\n    main()\n'})
    assert found.command == ("{python}", "a.py")
    assert found.guesses["command"]
    assert interpreted.unstarted_program(facts.of("task", {"a.py": source, "b.py": source})) is None


def test_a_program_for_node_is_started_as_its_container() -> None:
    source = "const port = process.env.METRICS_PORT\napp.get('/readyz', ready)\n"
    package = '{"scripts": {"start": "node --enable-source-maps src/index.js"}}'
    files = {
        "src/index.js": source,
        "package.json": package,
        "Dockerfile": 'WORKDIR /app\nCOPY . .\nCMD ["npm", "start"]\n',
    }
    found = started(files)
    assert found.command == ("node", "--enable-source-maps", "src/index.js")
    assert found.build[:2] == ("npm", "install")
    assert found.env == {"METRICS_PORT": "{metrics_port}"}
    assert found.readiness == "http://127.0.0.1:{metrics_port}/readyz"


@pytest.mark.parametrize(
    ("start", "command"),
    [
        ("node src/index.js", ("node", "src/index.js")),
        ("node --enable-source-maps dist/index.js", ("node", "--enable-source-maps", "dist/index.js")),
        ("tsx src/index.ts", ("node_modules/.bin/tsx", "src/index.ts")),
        ("NODE_ENV=production node src/index.js", ("node", "src/index.js")),
    ],
)
def test_package_json_starts_a_program_for_node_without_a_container(start: str, command: tuple[str, ...]) -> None:
    package = f'{{"scripts": {{"start": "{start}", "build": "tsc"}}}}'
    found = started({"package.json": package, "src/index.js": "", "src/index.ts": "process.env.METRICS_PORT"})
    assert found.command == command
    assert found.env == {"METRICS_PORT": "{metrics_port}"}
    assert ("npm run build" in found.build[-1]) == ("dist/index.js" in command)


def test_package_json_names_the_main_file_of_a_program_without_a_start_script() -> None:
    assert started({"package.json": '{"main": "src/a.js"}', "src/a.js": ""}).command == ("node", "src/a.js")
    assert started({"package.json": "{}", "server.js": ""}).command == ("node", "server.js")


def test_a_script_that_is_no_source_is_named() -> None:
    found = facts.of("task", {"task.py": TASK, "Dockerfile": "CMD python /app/other.py\n"})
    assert interpreted.interpreted_program(found) is None
    assert "/app/other.py" in interpreted.not_found(found)


@pytest.mark.parametrize(
    ("options", "counter"),
    [
        (
            "labelNames: ['controller', 'result'], name: 'shop_reconciles_total', help: 'Of a kind'",
            {"counter": "shop_reconciles_total", "controller_label": "controller", "result_label": "result"},
        ),
        ("name: 'shop_reconciles', help: 'Of a controller'", {"counter": "shop_reconciles"}),
        ("name: 'shop_reconcile_failures_total', help: 'All'", {}),
        ("name: 'shop_async_total', help: 'reconciles'", {}),
    ],
)
def test_a_counter_of_prom_client_counts_reconciles(options: str, counter: dict[str, str]) -> None:
    source = (
        f"import client from 'prom-client';\nserver.listen(process.env.METRICS_PORT);\n"
        f"const c = new client.Counter({{\n  {options},\n}});\n"
    )
    assert started({"package.json": '{"main": "a.js"}', "a.js": source}).reconciles == counter
