"""Foreign text loses its credentials, control characters and CI commands; everything else stays as it was."""

from __future__ import annotations

import base64
import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import redaction
from pytest_grovescale.errors import UsageError
from pytest_grovescale.kube.errors import from_response
from pytest_grovescale.recording.conditions import WatchSpec

JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl-_x"
KEY = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIexample\n-----END EC PRIVATE KEY-----"
S = "Cana7ryX9zz"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def concealing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is concealed in the test is forgotten after it."""
    monkeypatch.setattr(redaction, "_concealed", {})


# ---- credentials go


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"Authorization: Bearer {JWT}", JWT),
        ("authorization: bearer abcdef123456", "abcdef123456"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA"),
        (f"token {JWT} expired", JWT),
        ("password=hunter2 user=x", "hunter2"),
        ('"password": "hunter2"', "hunter2"),
        ("DB_PASSWORD: hunter2", "hunter2"),
        ("client_secret='abc def'", "abc def"),
        ("--token=abc123", "abc123"),
        ("https://user:hunter2@host/path", "hunter2"),
        ("api-key=12345", "12345"),
        (f"key follows {KEY} end", "MHcCAQEEIexample"),
        (KEY[:50], "MHcC"),
        ("ghp_abcdefghijklmnop", "abcdefghijklmnop"),
        (b64(KEY + "x" * 200), b64(KEY)[40:80]),
        (b64(f"password={S}"), b64(f"password={S}")[8:]),
        (f"x={b64(f'password={S}')}", b64(f"password={S}")[8:]),
        (b64(b64(f"password={S}")), b64(b64(f"password={S}"))[8:]),
        (f"auths {b64(json.dumps({'auths': {'x': {'password': S}}}))}", b64('{"auths')[:8]),
    ],
)
def test_credentials_go(text: str, secret: str) -> None:
    found = redaction.text(text)
    assert secret not in found
    assert redaction.REDACTED in found


BESIDE_A_NAME = [
    f"AWS_SECRET_ACCESS_KEY={S}",
    f"--password {S} --verbose",
    f"args: [--token {S}]",
    f'["--token","{S}"]',
    f"'--password', '{S}'",
    f"- --token\n- {S}",
    f'{{"password":"{S}"}}',
    f'{{"password":"a\\"{S}"}}',
    f"password: a b {S}",
    f"  db-password: 'a {S}'",
    f"password: |\n  a {S}\n  b\nuser: x",
    f"password='{S}",
    f"password=p&{S}",
    f"password=a,{S}",
    f"password=a;{S}",
    f"password=a}}{S}",
    f'a{{token="{S}"}} 1',
    f"map[password:{S} user:x]",
    f"{{Password:{S} User:x}}",
    f"{{Name:DB_PASSWORD Value:{S} ValueFrom:nil}}",
    f"- name: DB_PASSWORD\n  value: {S}",
    f'{{\\"name\\":\\"DB_PASSWORD\\",\\"value\\":\\"{S}\\"}}',
    f'kind: Secret\ndata:\n  foo: {S}\n  bar: "{S}"\ntype: Opaque',
    f'{{"apiVersion":"v1","data":{{"foo":"{S}"}},"kind":"Secret"}}',
    f'{{\\"data\\":{{\\"foo\\":\\"{S}\\"}},\\"kind\\":\\"Secret\\"}}',
    f'spec.password: Invalid value: "{S}": must be shorter',
    f'data[password]: Invalid value: "{S}"',
    f"X-Vault-Token: {S}",
    f"Set-Cookie: session={S}; Path=/",
    f"Authorization:[Bearer {S}]",
    f"<password>{S}</password>",
    f"trying password {S} for x",
    f"the password for admin is {S}",
    f"token -> {S}",
    f"api key: {S}",
    f"db.password.value={S}",
    f"--from-literal=pw={S}",
    f"the token is {S}",
    f"postgres://u:p@ss/{S}@h:5/db",
    f"redis://:{S}@h:6379/0",
    f"user:{S}@tcp(host:3306)/db",
    f"Server=x;User Id=sa;Password={S};Encrypt=yes",
    f"connectionString=Endpoint {S}",
    f"AccountKey={S}==;EndpointSuffix=x",
    f"https://h/x?access_token={S}&b=1",
    f"curl -u admin:{S} https://x",
    f"password%3D{S}",
    f"example.com/token: {S}",
    f"os.environ['API_KEY'] = '{S}'",
    f"\x1b[36mtoken=\x1b[0m{S}",
    f"pass\u200bword={S} token={S}",
    f"- value: {S}\n  name: DB_PASSWORD",
    f'[{{"value": "{S}", "name": "DB_PASSWORD"}}]',
    f"[(b'x-api-key', b'{S}')]",
    f"password = <<EOF\n{S}\nEOF\nuser = x",
    f"PASSWORD='it'\\''s {S}'",
    f'{{"kind": "SecretList", "items": [{{"data": {{"foo": "{S}"}}}}]}}',
    f"&Secret{{Data:map[string][]byte{{}},StringData:map[string]string{{foo: {S},}},}}",
    f"creds={S}",
    f"curl -s --user=admin:{S} https://x",
    f"mysql -h db -u root -p{S} app",
    f"sshpass -p '{S}' ssh x",
    f"redis-cli -h x -a {S} ping",
    f"docker login -u x -p {S} registry",
    f"jdbc:oracle:thin:scott/{S}@//host:1521/x",
    f"https://api.telegram.org/bot123456789:{S}{S}/getMe",
    f"https://discord.com/api/webhooks/1234567890/{S}{S}",
    f"admin:$2y$10${S}{S}",
    f"hf_{S}{S} dckr_pat_{S}{S} glrt-{S}{S} shpat_{S}{S} GOCSPX-{S}",
]


@pytest.mark.parametrize("text", BESIDE_A_NAME)
def test_what_stands_beside_a_name_goes(text: str) -> None:
    found = redaction.text(text)
    assert S not in found.replace(f"pass\\u200bword={S}", "")
    assert redaction.REDACTED in found
    assert redaction.text(found) == found


@given(
    name=st.sampled_from(["password", "DB_PASSWORD", "api-key", "clientSecret", "AWS_SECRET_ACCESS_KEY", "x.y/token"]),
    secret=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=6, max_size=30).map(
        lambda t: f"Z9{t}q"
    ),
    levels=st.integers(0, 3),
)
def test_a_secret_in_json_in_json_goes(name: str, secret: str, levels: int) -> None:
    text = json.dumps({"a": "b", name: secret, "z": 1})
    for _ in range(levels):
        text = json.dumps({"msg": text, "n": 1})
    found = redaction.text(f"info {text}")
    assert f'{redaction.REDACTED}"' in found.replace("\\", "") or redaction.text(secret) != secret
    # The last that is in no escape: nothing of the value's end is left.
    assert not json.dumps(secret)[1:-1] or json.dumps(secret)[1:-1] not in found


@given(st.text())
def test_text_that_was_redacted_stays(text: str) -> None:
    once = redaction.text(text)
    assert redaction.text(once) == once


@given(st.lists(st.sampled_from([*BESIDE_A_NAME, KEY, JWT, "reconciled 5 objects", "::error::x"]), max_size=6))
def test_redaction_of_many_lines_is_final(parts: list[str]) -> None:
    once = redaction.lines(parts)
    assert redaction.lines(once) == once
    assert S not in "\n".join(once).replace(f"pass\\u200bword={S}", "")


def test_keys_go_over_lines_and_are_known_by_their_ends() -> None:
    body = [base64.b64encode(bytes(range(i, i + 48))).decode() for i in range(0, 150, 10)]
    lines = ["before", "-----BEGIN RSA PRIVATE KEY-----", *body, "-----END RSA PRIVATE KEY-----", "after"]
    for first in (0, 2, 5):
        found = redaction.lines(lines[first:])
        assert not any(line in "\n".join(found) for line in body)
        assert found[-1] == "after"
    assert redaction.lines(body[3:9]) == [redaction.REDACTED]


def test_the_base64_of_a_key_without_its_frame_goes() -> None:
    key = base64.b64encode(b"\x30\x82\x01\x00\x02\x01\x00" + bytes(range(200))).decode()
    certificate = base64.b64encode(b"\x30\x82\x01\x00\x30\x82\x01" + bytes(range(200))).decode()
    assert key not in redaction.text(f"read {key}")
    assert certificate in redaction.text(f"read {certificate}")


# ---- other text stays


@pytest.mark.parametrize(
    "text",
    [
        "pod ns/p-0 is Pending: 0/100 nodes are available",
        "reconciled 500 tokens in 3 s",
        'controller_runtime_reconcile_total{controller="podclique",result="success"}',
        "GET https://127.0.0.1:6443/api/v1/pods",
        "keyboard: yes",
        "the secret of success",
        "",
        "tokens: 5",
        "pods test-tokens-009202: 3 of 3 do not exist",
        "--authorization-mode=RBAC,Node --token-auth-file=/x",
        "in a second pass: shares of its samples",
        "options `--x-token`, `--x-ca`",
        "max_tokens=4096",
        "secrets: 12",
        "secret/default/foo not found",
        'secrets "foo" not found',
        "failed to get secret: not found",
        "E0101 12:00:00.000000 1 token.go:45] failed to get token: context deadline exceeded",
        'Operation cannot be fulfilled on secrets "web-0-token": the object has been modified',
        '{"error":"Operation cannot be fulfilled on secrets \\"web-token\\": the object has been modified"}',
        'failed to get Secret "db-password": context deadline exceeded',
        '{"msg":"Reconciling","controller":"secret","controllerKind":"Secret","Secret":{"name":"a","namespace":"b"}}',
        'I0101 1 main.go:1] "Reconciling" secret="default/foo" key="ns/x"',
        "goroutine 1 [running]:\nmain.main()\n\t/src/token.go:12 +0x1d",
        "--token-file=/path",
        "secret_arn=arn:aws:kms:eu-west-1:401928374655:alias/x9Kq2mPz",
        "--token-file /path",
        "--service-account-private-key-file=/x --tls-cert-file=/y",
        "--leader-elect=true --metrics-bind-address=:8080",
        "the flag --token is required",
        "/x/operator.yaml:14: metrics.token: would travel in the clear",
        "/x/operator.yaml:14: env.PASSWORD: is no name of an environment variable",
        "token_expired: true",
        "secretName: foo",
        "secretKeyRef: {name: a, key: b}",
        "imagePullSecrets: []",
        "automountServiceAccountToken: false",
        "using password: YES",
        "password: ''",
        "--token=$(TOKEN)",
        "serviceaccounts/token: forbidden",
        "std::foo::bar",
        "image: registry/x@sha256:" + "a1" * 32,
        "0123456789abcdef" * 4,
        "git@github.com:foo/bar.git",
        'workqueue_depth{name="token_cleaner"} 5',
        'Liveness probe failed: Get "http://10.0.0.1:8080/healthz": EOF',
        "basic functionality of it",
        "bearer authentication failed",
        "tls: private key does not match public key",
        "podcliqueset-controller-7d4b9c6f5d-abcde",
        'User "system:serviceaccount:a:b" cannot list resource "secrets" in API group ""',
        "passed=5 failed=2",
        "monkey=banana",
        '[("pass", "budgets.yaml:0"), ("token", "required")]',
        "creds: none for registry x",
        "- name: TOKEN_PATH\n  value: /x\n- name: PORT\n  value: 80",
        "mysql --port 3306 -P 3306, curl -uncommon failed",
        "helm list --all; user login from host-1 -p 8080",
        "global-controller-7d4b9c6f5d2a1 ASIA-PACIFIC-REGION-1",
        "it costs $5$ or $6",
        "héllo wörld → ✓ 日本語",
        "a\tb\nc",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert redaction.text(text) == text


@given(st.lists(st.text("abcdefghij ABC0123456789.,/()[]{}<>=%-_'", max_size=60), max_size=5))
def test_text_without_a_hint_of_a_secret_stays(parts: list[str]) -> None:
    text = "\n".join(parts)
    # No base64 can be in words of this length.
    if max(map(len, text.split()), default=0) < 20:
        assert redaction.text(text) == text


# ---- control characters and CI commands


def test_control_characters_are_shown() -> None:
    found = redaction.text("a\x1b[31mb\x00\u202ec\x9b\td\re\r\nf\x7f\u2028\u200b")
    assert found == "a\\x1b[31mb\\x00\\u202ec\\x9b\td\\re\nf\\x7f\\u2028\\u200b"


@given(st.text(st.characters(max_codepoint=0x2100)))
def test_no_control_character_is_left(text: str) -> None:
    assert all(unicodedata.category(char) != "Cc" or char in "\t\n" for char in redaction.text(text))
    assert not {"\x1b", "\r", "\x9b", "\u202e", "\u2066"} & set(redaction.text(text))


@pytest.mark.parametrize(
    "line",
    [
        "::error::x",
        "  ::warning file=a,line=1::x",
        "x ::add-mask::y",
        "##[error]x",
        "x ##vso[task.complete]",
        "##teamcity[x]",
    ],
)
def test_ci_commands_are_none(line: str) -> None:
    found = redaction.text(f"first\n{line}")
    assert "::e" not in found.split("\n")[1][:6]
    assert not any(command in found for command in (" ::", "\n::", "##[", "##vso[", "##teamcity["))
    # A reader sees what it was.
    assert found.replace("\\x3a", ":").replace("\\x23", "#") == f"first\n{line}"


# ---- values, arguments, parameters, URLs


def test_credentials_inside_fields() -> None:
    found: Any = {
        "a": [f"Bearer {JWT}", 1, None],
        "b": {"c": JWT},
        "d": "Running",
        "password": "x",
        "tokenExpired": True,
        "env": [{"name": "DB_PASSWORD", "value": "y"}, {"name": "MODE", "value": "z"}],
        "obj": {"kind": "Secret", "data": {"k": "v"}},
    }
    assert redaction.value(found) == {
        "a": [f"Bearer {redaction.REDACTED}", 1, None],
        "b": {"c": redaction.REDACTED},
        "d": "Running",
        "password": redaction.REDACTED,
        "tokenExpired": True,
        "env": [{"name": "DB_PASSWORD", "value": redaction.REDACTED}, {"name": "MODE", "value": "z"}],
        "obj": {"kind": "Secret", "data": {"k": redaction.REDACTED}},
    }
    assert redaction.value("x", 'metadata.annotations["example.com/token"]') == redaction.REDACTED


def test_arguments_are_redacted_by_name() -> None:
    given = ["op", "--password=a b", "--token", "x", "--token-file", "/y", "--set=api_key=a b", "-v", "--kubeconfig=/k"]
    shown = ["op", "--password=[redacted]", "--token", "[redacted]", "--token-file", "/y"]
    assert redaction.arguments(given) == [*shown, "--set=api_key=[redacted]", "-v", "--kubeconfig=/k"]


def test_parameters_are_redacted_by_name() -> None:
    given: dict[str, str | int] = {"password": "123", "tokens": 5, "replicas": "10", "token": "", "note": f"token={S}"}
    assert redaction.parameters(given) == {
        "password": redaction.REDACTED,
        "tokens": 5,
        "replicas": "10",
        "token": "",
        "note": f"token={redaction.REDACTED}",
    }


def test_secrets_are_found_by_name() -> None:
    objects = [
        {"kind": "Secret", "data": {"a": b64("in data")}, "stringData": {"b": "in string data"}},
        {"spec": {"env": [{"name": "API_TOKEN", "value": "in env"}], "tokens": "5"}},
    ]
    assert list(redaction.secrets_in(objects)) == ["in data", "in string data", "in env"]
    assert list(redaction.secrets_in(["op", "--password", "x1", "--token=x2", "--name=y"])) == ["x1", "x2"]


@pytest.mark.usefixtures("concealing")
def test_what_is_concealed_is_shown_nowhere(snapshot: SnapshotAssertion) -> None:
    redaction.conceal("hunter2-z!", "5", "default", "")
    shown = redaction.text(f"with hunter2-z! or {b64('hunter2-z!')} or hunter2-z%21, in default 5 times")
    assert shown.count("[redacted]") == 3
    assert shown.endswith("in default 5 times")
    assert shown == snapshot


def test_urls() -> None:
    assert redaction.url("http://u:p@127.0.0.1:1/metrics?token=x#y") == "http://127.0.0.1:1/metrics"


def test_no_error_of_ours_shows_a_credential() -> None:
    error = UsageError(f"it says: token={S}\n::error::x", next_step="Look.")
    error.message += f" and password={S}"
    assert S not in str(error) + repr(error.args)
    assert "\n::" not in str(error)
    body = json.dumps({"kind": "Status", "message": f"token={S}", "details": {"causes": [{"message": f"token={S}"}]}})
    refused = from_response(422, body.encode(), request="POST /x")
    assert S not in f"{refused} {refused.causes} {refused.status}"


# ---- Secrets are not watched


@pytest.mark.parametrize(
    "path",
    [
        "data",
        "data.password",
        'data["a.b"]',
        "stringData.x",
        "metadata.annotations",
        "metadata",
        'metadata.annotations["x"]',
    ],
)
def test_secrets_are_not_read(path: str) -> None:
    with pytest.raises(UsageError, match="Secrets"):
        WatchSpec(resource="secrets", path="/api/v1/secrets", fields=(path,)).check_readable()
    WatchSpec(resource="configmaps", path="/api/v1/configmaps", fields=(path,)).check_readable()


def test_what_may_be_read_of_secrets() -> None:
    fields = ("metadata.labels", "metadata.name", "type")
    WatchSpec(resource="secrets", path="/api/v1/secrets", fields=fields).check_readable()


# ---- long text


@pytest.mark.parametrize(
    "text",
    [
        "a" * 300_000,
        "eyJ" * 90_000,
        "password" * 40_000,
        "://" * 90_000,
        "token " * 50_000,
        "-u " * 90_000,
        "a:" * 100_000,
    ],
)
def test_long_text_without_credentials_stays(text: str) -> None:
    # A pattern that backtracks over all of it would not come to an end here.
    assert redaction.text(text) == text


@pytest.mark.parametrize(
    "text", ["password=" * 30_000, "token:[ " * 20_000, "kind: Secret data: {" * 10_000, 'password="\\' * 40_000]
)
def test_long_hostile_text_comes_to_an_end(text: str) -> None:
    assert redaction.REDACTED in redaction.text(text)


def test_long_credential_goes() -> None:
    assert redaction.text("secret=" + "x" * 300_000) == f"secret={redaction.REDACTED}"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("namespaces/a/pods/pcs-7-worker-j6gpw", False),
        ("web-5d4f8bpwd", False),
        ("web-n27pw", False),
        # Chosen by people.
        ("app-dbpw", True),
        ("db-pwd22", True),
        ("db-password", True),
        ("--admin-pw", True),
    ],
)
def test_a_drawn_name_that_ends_like_a_password_is_none(name: str, secret: bool) -> None:
    line = f"{name}: ServerDisconnectedError"
    assert (redaction.text(line) != line) == secret
