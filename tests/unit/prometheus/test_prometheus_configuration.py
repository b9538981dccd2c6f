"""What a Prometheus of the run's own is told to scrape."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import yaml

from pytest_grovescale.endpoints import Address
from pytest_grovescale.prometheus.server import admitted_alike, configuration, target, target_file, write, write_target

PLAIN = Address(url="http://127.0.0.1:8080/metrics")
SECURE = Address(
    url="https://10.0.0.1:8443/apis/metrics?scope=all&scope=x",
    token_file="/run/token",
    ca_file="/run/ca.crt",
    cert_file="/run/client.crt",
    key_file="/run/client.key",
)


def jobs(folder: Path, version: str = "3.5.0", **targets: Address) -> dict[str, dict[str, object]]:
    found = configuration(targets, folder, interval_s=2.5, version=version)
    assert found["global"] == {"scrape_interval": "2500ms", "scrape_timeout": "2500ms"}
    return {job["job_name"]: job for job in found["scrape_configs"]}


def test_each_target_is_a_job_and_a_file(tmp_path: Path) -> None:
    found = jobs(tmp_path, operator=PLAIN, etcd=SECURE)
    assert list(found) == ["etcd", "operator"]
    assert found["operator"]["file_sd_configs"] == [
        {"files": [str(target_file(tmp_path, "operator"))], "refresh_interval": "5s"}
    ]
    assert not {"authorization", "tls_config", "params"} & set(found["operator"])


def test_what_lets_us_in_is_named_and_never_written(tmp_path: Path) -> None:
    job = jobs(tmp_path, etcd=SECURE)["etcd"]
    assert job["authorization"] == {"type": "Bearer", "credentials_file": "/run/token"}
    assert job["tls_config"] == {
        "insecure_skip_verify": False,
        "ca_file": "/run/ca.crt",
        "cert_file": "/run/client.crt",
        "key_file": "/run/client.key",
    }
    assert job["params"] == {"scope": ["all", "x"]}


def test_the_way_there_is_reported() -> None:
    far = Address(url="https://api:1/metrics", proxy="http://proxy:3128", server_name="kubernetes.default")
    job = jobs(Path("/run"), api=far)["api"]
    assert job["proxy_url"] == "http://proxy:3128"
    assert job["tls_config"] == {"insecure_skip_verify": False, "server_name": "kubernetes.default"}
    assert not admitted_alike(far, Address(url=far.url))


def test_one_file_may_hold_certificate_and_key(tmp_path: Path) -> None:
    both = Address(url="https://127.0.0.1:1/metrics", cert_file="/run/both.pem", insecure_skip_verify=True)
    tls = jobs(tmp_path, a=both)["a"]["tls_config"]
    assert tls == {"insecure_skip_verify": True, "cert_file": "/run/both.pem", "key_file": "/run/both.pem"}


def test_only_a_prometheus_that_knows_a_field_is_reported_it(tmp_path: Path) -> None:
    assert "fallback_scrape_protocol" not in jobs(tmp_path, "2.42.0", a=PLAIN)["a"]
    assert jobs(tmp_path, "3.13.5", a=PLAIN)["a"]["fallback_scrape_protocol"] == "PrometheusText0.0.4"


def test_place_is_in_the_target_file_and_its_name_is_the_instance() -> None:
    labels = {"__scheme__": "https", "__metrics_path__": "/apis/metrics", "instance": "etcd"}
    assert target("etcd", SECURE) == [{"targets": ["10.0.0.1:8443"], "labels": labels}]
    assert target("a", Address(url="http://[::1]:80"))[0]["targets"] == ["[::1]:80"]


def test_a_move_needs_no_new_configuration_but_new_credentials_do() -> None:
    assert admitted_alike(PLAIN, Address(url="http://127.0.0.1:9999/other"))
    assert not admitted_alike(PLAIN, SECURE)
    assert not admitted_alike(PLAIN, Address(url=PLAIN.url, token_file="/run/token"))
    assert not admitted_alike(PLAIN, Address(url=f"{PLAIN.url}?all=1"))


def test_files_are_private_and_yaml(tmp_path: Path) -> None:
    file = write({"pods/a*[b]?": PLAIN}, tmp_path, interval_s=1, version="3.5.0")
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    (path,) = content["scrape_configs"][0]["file_sd_configs"][0]["files"]
    # Prometheus takes the path for a pattern.
    assert not set("*?[") & set(Path(path).name)
    assert json.loads(Path(path).read_text(encoding="utf-8"))[0]["targets"] == ["127.0.0.1:8080"]
    for written in (file, Path(path)):
        assert stat.S_IMODE(written.stat().st_mode) == 0o600
    write_target(tmp_path, "pods/a*[b]?", Address(url="http://127.0.0.1:1/metrics"))
    assert json.loads(Path(path).read_text(encoding="utf-8"))[0]["targets"] == ["127.0.0.1:1"]
