"""A kind cluster that is there: where its audit log lies on this machine, if it has one."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_grovescale.cluster.kind.container_engine import Mount
from pytest_grovescale.cluster.kind.provision import audit_log

SOURCE = "/home/me/audit"
MOUNTS = [
    Mount(source=SOURCE, destination="/var/log/audit", type="bind"),
    Mount(source="/var/lib/docker/volumes/x/_data", destination="/var", type="volume"),
]


def manifest(log: str = "--audit-log-path=/logs/api/audit.log", in_node: str = "/var/log/audit") -> dict[str, Any]:
    container = {
        "name": "kube-apiserver",
        "command": ["kube-apiserver", "--secure-port=6443", *([log] if log else [])],
        "volumeMounts": [
            {"name": "certs", "mountPath": "/etc/kubernetes/pki"},
            {"name": "logs", "mountPath": "/logs"},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    volumes = [
        {"name": "certs", "hostPath": {"path": "/etc/kubernetes/pki"}},
        {"name": "logs", "hostPath": {"path": in_node}},
        {"name": "tmp", "emptyDir": {}},
    ]
    return {"spec": {"containers": [container], "volumes": volumes}}


def test_log_is_followed_through_pod_and_node_to_this_machine() -> None:
    assert audit_log(manifest(), MOUNTS) == f"{SOURCE}/api/audit.log"


def test_mount_of_a_parent_folder_is_one_too() -> None:
    assert audit_log(manifest(in_node="/var/log/audit/deep/er"), MOUNTS) == f"{SOURCE}/deep/er/api/audit.log"


@pytest.mark.parametrize(
    ("log", "in_node"),
    [
        ("", "/var/log/audit"),
        ("--audit-log-path=-", "/var/log/audit"),
        ("--audit-log-path=/elsewhere/audit.log", "/var/log/audit"),
        ("--audit-log-path=/tmp/audit.log", "/var/log/audit"),
        ("--audit-log-path=/logs/audit.log", "/var/lib/audit"),
        ("--audit-log-path=/logs/audit.log", "/var/log/audit2"),
    ],
)
def test_log_that_is_not_on_this_machine_is_none(log: str, in_node: str) -> None:
    assert audit_log(manifest(log, in_node), MOUNTS) == ""


def test_last_of_a_flag_given_twice_counts() -> None:
    twice = manifest()
    twice["spec"]["containers"][0]["command"].append("--audit-log-path=/logs/other.log")
    assert audit_log(twice, MOUNTS) == f"{SOURCE}/other.log"
