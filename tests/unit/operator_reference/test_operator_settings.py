"""The command line, defects, credentials."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
import yaml

from pytest_grovescale.reference_operator import credentials, defects, settings
from pytest_grovescale.reference_operator.credentials import CredentialsError
from pytest_grovescale.reference_operator.settings import Switches

BASE = ("--kubeconfig", "k")


def test_variants_and_switches() -> None:
    assert settings.parse(BASE).switches == Switches()
    off = settings.parse([*BASE, "--variant", "baseline", "--switch", "memoise=on"]).switches
    assert off == Switches(parallel_groups=False, narrow_selector=False, memoise=True, skip_noop_status=False)
    one = settings.parse([*BASE, "--switch", "skip-noop-status=off"]).switches
    assert one == Switches(skip_noop_status=False)


@pytest.mark.parametrize(
    "wrong",
    [
        ("--switch", "memoise"),
        ("--switch", "nothing=on"),
        ("--defect", "nothing"),
        ("--defect", "orphan=3"),
        ("--defect", "crash=soon"),
        ("--concurrency", "0"),
    ],
)
def test_a_wrong_argument_is_a_usage_error(wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        settings.parse([*BASE, *wrong])
    assert ended.value.code == 2
    assert wrong[1].split("=")[0] in capsys.readouterr().err


def test_defects_and_their_numbers() -> None:
    found = defects.parse(["crash=7", "orphan"])
    assert defects.ORPHAN in found
    assert defects.HOT_LOOP not in found
    assert found.number(defects.CRASH) == 7
    assert defects.parse(["crash"]).number(defects.CRASH) == 100


def kubeconfig(folder: Path, **user: str) -> Path:
    path = folder / "config"
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1/"}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_token_file_is_read_again_when_it_changed(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    found = credentials.load(kubeconfig(tmp_path, tokenFile="token"))
    assert found.server == "http://127.0.0.1:1"
    assert found.authorization() == "Bearer first"
    token.write_text("second")
    os.utime(token, ns=(1, 1))
    assert found.authorization(now=True) == "Bearer second"


def test_a_token_in_the_file(tmp_path: Path) -> None:
    assert credentials.load(kubeconfig(tmp_path, token="t")).authorization() == "Bearer t"
    assert credentials.load(kubeconfig(tmp_path)).authorization() == ""


def test_what_is_not_supported_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="exec"):
        credentials.load(kubeconfig(tmp_path, exec="x"))
    with pytest.raises(CredentialsError, match="No such file"):
        credentials.load(tmp_path / "nothing")
    (tmp_path / "bad").write_text(base64.b64encode(b"x").decode())
    with pytest.raises(CredentialsError, match="not a kubeconfig"):
        credentials.load(tmp_path / "bad")
