"""Labels without end, by their name and by their values; and those that only look so."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.checks.metrics.labels import MANY, UNBOUNDED
from pytest_grovescale.checks.metrics.lint import LintRules, lint

from .surfaces import family, problems, rules, surface


@pytest.mark.parametrize("label", [*UNBOUNDED, "label_app", "annotation_run", "Namespace"])
def test_labels_that_no_one_can_bound_are_found_by_name(label: str) -> None:
    assert rules(family("x_things", "gauge", f'{{{label}="web-7"}}')) == ["unbounded-label"]


@pytest.mark.parametrize(
    "value",
    [
        "9f2a7c1e-4f0b-4a53-9d0e-2f6f0f7f6b11",
        "web-7d4b9c6f5d-x2x9z",
        "default/web-0",
        "2026-11-21T16:49:29Z",
        "1790000000",
        "1790000000123",
        "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
        "10.244.3.17",
        "10.244.3.17:8080",
        "127.0.0.1:51212",
        "fd00:10:244::3",
        "[2001:db8::1]:8443",
        "web-7d4b9c6f5d",
        "web-x2x9z",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "someone@example.com",
        "2026-11-21",
        "0.0035612",
        "https://10.96.0.1:443/api",
        "/api/v1/namespaces/default/pods",
        "pods web-0 is forbidden: exceeded quota team-a in this namespace",
        "i-0a1b2c3d4e5f60718",
        "pvc-3fa85f64-5717-4562-b3fc-2c963f66afa6",
        "web-0_3fa85f64-5717-4562-b3fc-2c963f66afa6",
        "containerd://4bf92f3577b34da6a3ce929d0e0e4736",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "backup-28912345",
        "aks-nodepool1-12345678-vmss00000a",
        "system:serviceaccount:team-a:web",
        "system:node:worker",
        "CN=ada,OU=eng,O=acme",
        "refs/pull/123/head",
        "projects/acme/zones/east/instances/4523789012345678901",
        "+49 151 23456789",
        "52.5200,13.4050",
        "sum(rate(x_total[5m])) by (pod)",
    ],
)
def test_values_that_look_endless_are_found(value: str) -> None:
    found = problems(family("x_things", "gauge", f'{{part="{value}"}}'))
    assert [problem.rule for problem in found] == ["unbounded-values"]
    assert value in found[0].series


@pytest.mark.parametrize(
    "value",
    [
        *("", "true", "0", "200", "409", "PATCH", "podclique", "PodCliqueSet", "requeue_after", "not_found", "0.99"),
        *("::", "a:b", "leader-elector", "kube-proxy", "pod-worker", "0.999", "1.5", "us-east-1a", "x-large", "web-0"),
        *("apps/v1", "storage.k8s.io/v1", "v1.36.3", "/metrics", "/api", "grove.io", "kube-system", "on-cpu", "1e+06"),
        "The object has been modified",
        "podcliqueset-controller",
        *(
            "claude-3-20240229",
            "cluster-00000001",
            "Standard_D4s_v5",
            "GigabitEthernet1/0/101",
            "system:kube-scheduler",
            "system:nodes",
        ),
        *(
            "127.0.0.1:8080",
            "dns://127.0.0.1:15353",
            "0.0.0.0:8080",
            "[::1]:9090",
            "10.96.0.10:53",
            "dns://10.96.0.10:53",
        ),
        *("v1.8.2-0.20260102113045-3f2c9ab17d4e",),
        *("O=acme", "nvidia.com/gpu", "TLS_CHACHA20_POLY1305_SHA256", "sm_90", "6.8.0-1021-aws", "feedface", "+1"),
    ],
)
def test_values_that_someone_chose_are_not(value: str) -> None:
    assert rules(family("x_things", "gauge", f'{{part="{value}"}}')) == []


@pytest.mark.parametrize(
    ("least", "values"),
    [
        (3, ("10.96.0.10:53", "10.96.0.11:53", "dns://10.96.0.12:53")),
        (2, ("v1.8.2-0.20260102113045-3f2c9ab17d4e", "1.8.1+a1b2c3d")),
        (3, ("req-8c1f2a7d", "req-09be44c1", "req-f3a9d210")),
        (2, ("cus_9s6XKzkNRiz8i3", "cus_4QFOF3xrvBT2nU")),
        (2, ("eyJpZCI6NDQxMX0=", "eyJpZCI6NDQxMn0=")),
        (2, ("0/3000148", "1/9F00028")),
        (2, ("acme/shop#1412", "acme/web#88")),
        (2, ("feature/OPS-1412-resize", "fix/OPS-1501")),
        (2, ("0 3 * * *", "17 4 * * 1")),
        (2, ("registry.example.com/a:2.4.1-20261125.3f2c9ab", "registry.example.com/a:2.4.0-20261118.91be44c")),
        (5, ("02:00", "02:05", "02:10", "02:15", "02:20")),
    ],
)
def test_so_many_values_that_look_alike_are_endless(least: int, values: tuple[str, ...]) -> None:
    def found(some: tuple[str, ...], name: str = "x_things") -> list[str]:
        return rules(family(name, "gauge", *(f'{{part="{value}"}}' for value in some)))

    assert found(values) == ["unbounded-values"]
    assert found(values[: least - 1]) == []


def test_ports_of_who_connects_are_no_list() -> None:
    def of(label: str, *ports: int) -> list[str]:
        return rules(family("x_peers", "gauge", *(f'{{{label}="{port}"}}' for port in ports)))

    assert of("peer_port", 48122, 51877) == ["unbounded-values"]
    assert of("peer_port", 8080, 8443, 30080) == []
    assert of("port", 48122, 51877) == []
    assert of("zone", 48122, 51877) == []


def test_versions_are_for_infos() -> None:
    versions = ('{version="v1.30.1-eks-e564799"}', '{version="v1.8.2-0.20260102113045-3f2c9ab17d4e"}')
    assert rules(family("x_node_info", "gauge", *versions)) == []
    assert rules(family("x_nodes", "gauge", *versions)) == ["unbounded-values"]


def test_a_word_that_another_label_writes_as_code_is_no_object() -> None:
    """Kubernetes' own: authorizers, by name and type."""
    authorizer = '{name="rbac",type="RBAC"}'
    assert rules(family("x_decisions_total", "counter", authorizer)) == []
    assert rules(family("x_decisions_total", "counter", authorizer, '{name="web-0",type="RBAC"}')) == [
        "unbounded-label"
    ]
    assert rules(family("x_decisions_total", "counter", '{app="web",name="web-0"}')) == ["unbounded-label"]
    assert rules(family("x_decisions_total", "counter", '{name="web-0",pod="web-0"}')) == ["unbounded-label"] * 2


def test_parts_of_the_program_are_no_objects() -> None:
    """Kubernetes' own: a series for each feature or plugin, and the name of the informer's owner on all series."""
    features = ('{name="AllAlpha",stage="ALPHA"}', '{name="CSIMigration_v2",stage=""}')
    assert rules(family("x_feature_enabled", "gauge", *features)) == []
    assert rules(family("x_feature_enabled", "gauge", *features, '{name="web-0",stage=""}')) == ["unbounded-label"]
    owned = ('{name="manager",resource="pods"}', '{name="manager",resource="nodes"}')
    assert rules(family("x_informer_items", "gauge", *owned)) == []
    assert rules(family("x_informer_items", "gauge", *owned, '{name="web-0",resource="pods"}')) == ["unbounded-label"]


def test_a_few_plain_words_are_no_identifiers() -> None:
    """Prometheus' own: the name of a manager, and the handlers of its server."""
    assert rules(family("x_sd_configs", "gauge", '{name="scrape"}', '{name="notify"}')) == []
    some = family("x_sd_configs", "gauge", *(f'{{name="{word}"}}' for word in "vwxyz"))
    assert rules(some) == []
    assert [hint.rule for hint in lint(surface(some), LintRules()).hints] == ["unbounded-label"]
    many = [f'{{name="{word}"}}' for word in "abcdefghijk"]
    assert rules(family("x_sd_configs", "gauge", *many)) == ["unbounded-label"]
    assert rules(family("x_requests_total", "counter", '{handler="/api/v1/query"}')) == []
    assert rules(family("x_requests_total", "counter", '{handler="/api/v1/things/17"}')) == ["unbounded-values"]


def test_a_value_for_the_rest_reports_that_the_others_are_listed() -> None:
    assert rules(family("x_requests_total", "counter", '{username="kubelet"}', '{username="other"}')) == []
    assert rules(family("x_requests_total", "counter", '{username="user-7"}')) == ["unbounded-label"]


def test_what_a_process_reports_of_itself_in_one_series_may_look_like_anything() -> None:
    built = '{build_date="2026-11-21T16:49:29Z",git_commit="9f2a7c1e4f0b4a539d0e2f6f0f7f6b11aa22cc33"}'
    assert rules(family("x_build_info", "gauge", built)) == []
    assert rules(family("x_cluster_info", "gauge", built, built.replace("21", "22"))) == ["unbounded-values"] * 2
    assert rules(family("x_build", "gauge", built)) == ["unbounded-values"] * 2


def test_many_values_are_reported_whatever_they_are() -> None:
    series = [f'{{part="p{number}"}}' for number in range(MANY + 1)]
    assert rules(family("x_things", "gauge", *series[:-1])) == []
    assert [problem.says for problem in problems(family("x_things", "gauge", *series))] == [
        f"the label part has {MANY + 1} values"
    ]


def test_many_names_of_code_are_a_list_and_many_random_ones_are_none() -> None:
    codes = [f'{{name="Feature{first}{second}"}}' for first in "ABCDEFGHIJK" for second in "abcdefghijk"]
    found = lint(surface(family("x_feature_enabled", "gauge", *codes)), LintRules())
    assert (found.problems, [hint.rule for hint in found.hints]) == ((), ["unbounded-values"])
    assert rules(family("x_things", "gauge", *(code.replace("Feature", "F9e") for code in codes))) != []
    assert rules(family("x_things", "gauge", *(code.replace("name", "tenant") for code in codes))) != []


def test_what_a_library_labels_is_let_off_and_what_was_added_to_it_is_not() -> None:
    queue = '{controller="c",name="default/web-0"'
    assert rules(family("workqueue_depth", "gauge", f"{queue}}}")) == []
    added = rules(family("workqueue_depth", "gauge", f'{queue},namespace="n"}}'))
    assert added == ["unbounded-label", "builtin-collision"]
    assert rules(family("go_sched_new_things", "gauge", '{name="x"}')) == []


@pytest.mark.parametrize(
    ("name", "kind", "labels", "fault"),
    [
        ("x_cluster_ready", "gauge", '{{namespace="pay",name="{}"}}', False),
        ("x_cluster_info", "gauge", '{{namespace="pay",cluster="{}",version="7"}}', False),
        ("x_failovers_total", "counter", '{{namespace="pay",name="{}"}}', False),
        ("x_reconciles_total", "counter", '{{namespace="pay",name="{}"}}', True),
        ("x_wait_seconds", "histogram", 'x_wait_seconds_count{{namespace="pay",name="{}"}}', True),
        ("x_pods", "gauge", '{{namespace="{}"}}', True),
        ("workqueue_depth", "gauge", '{{name="x",controller="x",namespace="{}"}}', True),
    ],
)
def test_the_name_of_the_object_that_a_series_is_of_is_worth_a_look(
    name: str, kind: str, labels: str, fault: bool
) -> None:
    text = family(name, kind, *(labels.format(one) for one in ("orders", "carts", "users")))
    found = lint(surface(text), LintRules())
    assert ("unbounded-label" in [one.rule for one in found.problems]) == fault
    assert "unbounded-label" in [one.rule for one in (found.problems if fault else found.hints)]
    forbidding = lint(surface(text), LintRules(forbidden=("namespace",)))
    assert "unbounded-label" in [one.rule for one in forbidding.problems]


def test_times_of_creation_are_the_client_librarys() -> None:
    counter = family("x_things_total", "counter", '{pod="a"}')
    assert rules(counter, family("x_things_created", "gauge", '{pod="a"}', help="")) == ["unbounded-label"]
    assert rules(family("x_things_created", "gauge", '{pod="a"}')) == ["unbounded-label"]


def test_buckets_and_quantiles_are_no_labels_of_the_author() -> None:
    buckets = [f'x_seconds_bucket{{le="{number}"}}' for number in (*range(1, MANY + 5), "+Inf")]
    assert rules(family("x_seconds", "histogram", *buckets, "x_seconds_sum", "x_seconds_count")) == []


def test_one_fault_for_a_label_however_many_series_with_an_example(snapshot: SnapshotAssertion) -> None:
    found = problems(family("x_things", "gauge", '{pod="a"}', '{pod="b"}'))
    (problem,) = found
    assert problem.series == 'x_things{pod="a"}'
    assert " pod " in problem.says
    assert "2 values" in problem.says
    assert problem.says == snapshot


def test_what_is_forbidden_is_the_users_to_say() -> None:
    text = family("x_things", "gauge", '{tenant="a"}')
    assert rules(text, wanted=LintRules(forbidden=("tenant",))) == ["unbounded-label"]
    assert rules(text, wanted=LintRules(forbidden=())) == []


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_value_is_judged_in_time(value: str) -> None:
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    assert set(rules(family("x_things", "gauge", f'{{part="{escaped}"}}'))) <= {
        "unbounded-values",
        "label-variants",
        "credential",
    }


def test_hostile_values_take_no_time() -> None:
    values = ("a" * 16_000, "/a" * 8_000 + " ", "a-" * 8_000, "a b " * 4_000, "1" * 16_000, "0a" * 8_000 + "-")
    more = ("/a/123", "-12345678", "0123456789abcdef-", "a=1, ", "_", ":a")
    for value in (*values, *(f"CN=a{part * (16_000 // len(part))} \\n" for part in more), "a/" + "a." * 8_000 + "-"):
        for label in ("part", "error"):
            problems(family("x_things", "gauge", *(f'{{{label}="{value}{end}"}}' for end in ("", " ", "x"))))


def test_values_that_differ_in_a_number_at_their_end_are_found() -> None:
    numbered = [f'{{part="web-{number}"}}' for number in range(5)]
    assert rules(family("x_things", "gauge", *numbered)) == ["unbounded-values"]
    assert rules(family("x_things", "gauge", *numbered[:4])) == []
    # Devices and cores are numbered without a hyphen, and are as many as the machine has.
    assert rules(family("x_things", "gauge", *(f'{{part="loop{number}"}}' for number in range(9)))) == []


@pytest.mark.parametrize(
    ("series", "rule"),
    [
        (('{__part="a"}',), "reserved-label"),
        (('{job="a"}',), "reserved-label"),
        (('{instance="a"}',), "reserved-label"),
        (('{phase="Ready"}', '{phase="ready"}'), "label-variants"),
        (('{phase="Ready "}',), "label-variants"),
        (('{phase="Ready"}', '{phase="Pending",zone="a"}'), "label-sets"),
        (("", '{phase="Pending"}'), "label-sets"),
        (('{code="2xx"}', '{code="200"}'), "label-variants"),
        (('{token="[redacted]"}',), "credential"),
        ([f'{{rev="{number:04}ab7c9"}}' for number in range(3)], "unbounded-values"),
        ([f'{{seen="{number}"}}' for number in range(120_344, 120_400, 7)], "unbounded-values"),
        ([f'{{load="{number / 8}"}}' for number in range(10)], "unbounded-values"),
        ([f'{{a="{number % 40}",b="{number // 40}"}}' for number in range(1001)], "series"),
    ],
)
def test_labels_that_no_query_can_rely_on(series: Sequence[str], rule: str) -> None:
    assert rules(family("x_things", "gauge", *series)) == [rule]


@pytest.mark.parametrize(
    "series",
    [
        ('{phase="Ready",zone=""}', '{phase="Pending",zone="a"}'),
        ('{rev="0abc12def"}',),
        ('{code="2xx"}', '{code="5xx"}'),
        ('{api="v1alpha1"}', '{api="v2beta1"}'),
        ('{curve="secp256r1"}', '{curve="secp384r1"}', '{curve="prime-256v1"}'),
        ('{with="ECDHE-RSA-AES128-GCM-SHA256"}', '{with="ECDHE-RSA-AES256-GCM-SHA384"}', '{with="AES-256"}'),
        ('{charset="ISO-8859-1"}', '{charset="ISO-8859-15"}'),
        ('{type="c7gn.16xlarge"}', '{type="m5d.24xlarge"}', '{type="p5.48xlarge"}'),
        [f'{{code="{code}"}}' for code in range(200, 230)],
        [f'{{port="{port}"}}' for port in range(65_400, 65_436)],
        [f'{{level="0.{number}"}}' for number in range(1, 10)],
        [f'{{a="{number % 40}",b="{number // 40}"}}' for number in range(1000)],
    ],
)
def test_lists_of_labels_that_end(series: Sequence[str]) -> None:
    assert rules(family("x_things", "gauge", *series)) == []


@pytest.mark.parametrize(
    ("label", "values", "wrong"),
    [
        ("plan_generation", ("17", "18"), True),
        ("plan_generation", ("17",), True),
        ("observedGeneration", ("3", "4"), True),
        ("retry_count", ("0", "1"), True),
        ("attempt_number", ("1", "2", "3"), True),
        ("spec_revision", ("12",), True),
        # Of hardware, or of a garbage collector.
        ("generation", ("1",), False),
        ("generation", ("young", "old"), False),
        ("plan_generation", ("current", "17"), False),
        ("batch_size", ("10",), False),
    ],
)
def test_numbers_of_changes_have_no_end(label: str, values: tuple[str, ...], wrong: bool) -> None:
    found = rules(family("x_plans", "gauge", *(f'{{{label}="{value}"}}' for value in values)))
    assert ("unbounded-values" in found) is wrong


def test_a_scale_of_factors_is_a_fixed_list() -> None:
    factors = ("1.0", "1.03125", "1.0625", "1.125", "1.25", "1.5", "2", "3", "5")
    assert rules(family("x_costs", "gauge", *(f'{{factor="{one}"}}' for one in factors))) == []
    assert rules(family("x_costs", "gauge", '{factor="1.03125"}')) == ["unbounded-values"]


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        # Background work of a program, as Synapse names it.
        (("wake_destinations_needing_catchup", "prune_old_outbound_pokes", "notify_pushers_of_event", "send"), False),
        (("orders_db", "billing_db", "users_db"), True),
        (("wake_destinations_needing_1", "wake_destinations_needing_2"), True),
        (("wake-destinations-needing", "prune-old-outbound"), True),
    ],
)
def test_names_of_several_words_with_underscores_are_code(values: tuple[str, ...], wrong: bool) -> None:
    found = rules(family("x_runs_total", "counter", *(f'{{object_name="{value}"}}' for value in values)))
    assert ("unbounded-label" in found) is wrong


HOSTS = ("shop", "checkout", "grafana", "www", "mail", "api", "docs", "status")
CARDS = tuple(f"0a:58:0a:f4:03:1{digit}" for digit in range(4))


def labelled(label: str, *values: str, name: str = "x_things") -> list[str]:
    return rules(family(name, "gauge", *(f'{{{label}="{value}"}}' for value in values)))


@pytest.mark.parametrize(
    ("label", "values"),
    [
        ("host", tuple(f"{one}.eu.example.com" for one in HOSTS)),
        ("requester", CARDS),
        ("serial", ("04:9F:1C:77:E0:3B:AA:52",)),
        ("backup", ("daily-20261123-0300",)),
        ("backup", ("weekly_2026-11-23T03:00:00Z",)),
        ("flow", ("10.244.3.17:41022->10.96.0.10:53",)),
        ("disk_free", ("412Gi", "37Gi")),
        ("memory_usage", ("81%", "34%")),
    ],
)
def test_peers_runs_and_amounts_have_no_end(label: str, values: tuple[str, ...]) -> None:
    assert labelled(label, *values) == ["unbounded-values"]


@pytest.mark.parametrize(
    ("label", "values", "name"),
    [
        ("host", tuple(f"{one}.eu.example.com" for one in HOSTS[:5]), "x_things"),
        ("group", tuple(f"{one}.example.k8s.io" for one in HOSTS), "x_things"),
        ("mac", CARDS, "x_network_info"),
        ("mac", CARDS[:2], "x_things"),
        ("version", ("1.8.2-20260102113045",), "x_things"),
        ("size_class", ("10Gi", "100Gi"), "x_things"),
    ],
)
def test_servers_own_cards_and_classes_are_few(label: str, values: tuple[str, ...], name: str) -> None:
    assert labelled(label, *values, name=name) == []


@pytest.mark.parametrize(("label", "wrong"), [("region", True), ("environment", True), ("controller", False)])
def test_where_a_program_runs_is_of_its_target(label: str, wrong: bool) -> None:
    words = ("move", "thing", "lease", "gate", "pool")
    every = [family(f"x_{word}s", "gauge", f'{{{label}="one"}}') for word in words]
    assert rules(*every) == ["label-sets"] * wrong
    assert rules(*every[:4]) == []


def test_an_arn_of_a_secret_is_an_identifier_and_no_credential() -> None:
    arn = "arn:aws:secretsmanager:eu-west-1:401928374655:secret:[redacted]"
    assert labelled("secret_arn", arn) == ["unbounded-values"]


def test_names_of_classes_and_functions_are_parts_of_a_program() -> None:
    parts = (
        "StreamChangeCache",
        "RoomListCache",
        "TypingCache",
        "_event_auth_cache",
        "last_device_delete_cache",
        "state",
    )
    assert labelled("name", *parts, *(f"{part}Of" for part in parts)) == []
    assert labelled("name", "web-7", "api-9", *parts[:2]) == ["unbounded-label"]


@pytest.mark.parametrize(
    ("label", "values", "rule"),
    [
        ("selector", ("app=web,tier=front", "app in (a, b),env!=prod"), "unbounded-values"),
        ("listener", ("io.acme.OffsetListener@1a2b3c4d",), "unbounded-values"),
        ("after", ("3m12s", "12m9s"), "unbounded-values"),
        ("phase", ("0", "1", "2"), "label-variants"),
        ("queue", ('\\"etl\\"', '\\"ml\\"'), "label-variants"),
    ],
)
def test_what_a_program_prints_of_its_objects(label: str, values: tuple[str, ...], rule: str) -> None:
    assert labelled(label, *values) == [rule]


@pytest.mark.parametrize(
    ("label", "values"),
    [
        ("mode", ("a=b", "plain")),
        ("interval", ("5m0s", "1m30s", "2m15s")),
        ("phase", ("1st", "2nd")),
        ("level", ("0", "1", "2")),
        ("escaped", ('\\"a\\"', "b")),
        ("key_type", ("RSA-2048", "RSA-4096", "ECDSA-256")),
    ],
)
def test_what_someone_chose_is_a_list(label: str, values: tuple[str, ...]) -> None:
    assert labelled(label, *values) == []


OWNERS = ("acme", "stan", "openlab", "zoe", "bert", "kim", "lee", "mia", "noa", "oli")


@pytest.mark.parametrize(
    ("label", "values", "rule"),
    [
        ("subnet", tuple(f"81.12.{part}.0/24" for part in range(5)), "unbounded-values"),
        ("context", ("<plan.Plan object at 0x7f2a4c01d90>",), "unbounded-values"),
        ("dataset", tuple(f"{owner}/set" for owner in OWNERS), "unbounded-values"),
        ("worker", ("celery@etl-7f9c6d5b4-x2x9z",), "unbounded-values"),
        ("user_id", ("17", "4"), "unbounded-label"),
        ("connection_status", ("0", "2"), "label-variants"),
        ("resource_version", ("v1", "48213"), "unbounded-label"),
    ],
)
def test_what_real_programs_had_as_labels(label: str, values: tuple[str, ...], rule: str) -> None:
    assert labelled(label, *values) == [rule]


@pytest.mark.parametrize(
    ("label", "values"),
    [
        ("cidr", ("10.96.0.0/12", "10.244.0.0/16")),
        ("module", tuple(f"storage/{owner}" for owner in OWNERS)),
        ("content_type", tuple(f"application/{owner}" for owner in OWNERS)),
        ("group", tuple(f"{owner}/v1" for owner in OWNERS)),
        ("job_id", ("resync", "cleanup")),
        ("project_id", ("shop-4711",)),
        ("broker_id", ("1", "2", "3")),
        ("resource_version", ("v1beta1", "v2")),
        ("message", ("get_range", "range")),
        ("exit_status", ("0", "1")),
        ("http_status", ("1", "2")),
        ("device", tuple(f"sda{number}" for number in range(1, 16))),
        ("grpc_method", ("CreateCertificate", "DeleteCertificate", "ListCertificates")),
        ("access_mode", ("ReadWriteOnce", "ReadWriteMany")),
        ("resource", ("services", "services.loadbalancers")),
        ("size", tuple(map(str, range(11)))),
        ("k8s_version", ("1.29", "1.30", "1.31", "12.4")),
        ("runtime", ("node18", "node20", "node22")),
        ("platform", ("linux/amd64", "linux/arm64")),
        ("target", ("apps/deployments", "batch/jobs", "core/pods")),
        ("reason", ("Renewed", "Expired")),
        ("code", ("200", "<error>")),
        ("window", ("5m", "30m", "1h", "6h")),
    ],
)
def test_what_sound_programs_have_as_labels(label: str, values: tuple[str, ...]) -> None:
    assert labelled(label, *values) == []


def test_the_name_of_a_secret_is_no_credential() -> None:
    names = [f"default-token-{part}" for part in ("lz7m5", "lr6xr")]
    assert labelled("secret", *names) == ["unbounded-values"]
    assert labelled("secret", "shop-tls", "api-tls") == []
