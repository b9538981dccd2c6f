"""An operator that runs as pods, asked for where no pod can run: refused before anything was started."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_grovescale.cluster import state


def test_local_cluster_is_not_even_started(
    pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "state"))
    pytester.makepyfile("def test_it(scale): pass")
    result = pytester.runpytest_subprocess("--grovescale", "--grovescale-operator=reference-pod")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*operator reference-pod runs as pods, and all nodes of a local cluster*"])
    result.stdout.fnmatch_lines(["*--grovescale-cluster=kind*"])
    assert state.names() == []


def test_wrong_value_is_told_before_anything_starts(
    pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "state"))
    pytester.makepyfile("def test_it(scale): pass")
    result = pytester.runpytest_subprocess(
        "--grovescale", "--grovescale-operator=reference-pod", "--grovescale-set=replicas=none"
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*pod.replicas: 'none' is no number of pods*"])
    assert state.names() == []
