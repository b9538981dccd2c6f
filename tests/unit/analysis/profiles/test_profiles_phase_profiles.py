"""From the recording and its files to the profiles of a result, whole or not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.analyse import analyse, analyse_run
from pytest_grovescale.analysis.phase_result import ProfileResult
from pytest_grovescale.analysis.profiles.comparison import ProfilesFile
from pytest_grovescale.analysis.profiles.phase_profiles import (
    cpu_profiles,
    folded_lines,
    paired,
    read_stacks,
    with_whole_table,
)
from pytest_grovescale.analysis.result import Result
from pytest_grovescale.cli import main
from pytest_grovescale.errors import UsageError
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.journal import Writer
from tests.golden import masked

from ..simulated import Simulation
from .protobuf import profile
from .recorded import CPU, HEAP, PYSPY, read_folded


def recorded(
    *profiles: tuple[str, float, float, dict[str, Any]], cpu_s: float = 5.0, **opened: Any
) -> list[rec.AnyRecord]:
    """A phase from 100 to 10,100 ms in which the operator used ``cpu_s``; profiles as (file, from ms, to ms, more)."""
    sim = Simulation()
    sim.cpu("operator", 99, 1.0, edge="start:deploy")
    sim.cpu("operator", 10_100, 1.0 + cpu_s, edge="end:deploy")
    sim.phase("deploy", 100, 10_101)
    for file, start, end, more in profiles:
        values = {"process": "operator", "kind": "pyspy", **more}
        sim.add(
            rec.ProfileTaken(
                at=sim.at(10_200), phase="deploy", file=file, started=sim.at(start), ended=sim.at(end), **values
            )
        )
    sim.add(rec.Closed(at=sim.at(10_500), reason="stopped"))
    first, *others = sim.records()
    return [msgspec.structs.replace(first, **opened), *others]


def save(folder: Path, name: str, records: list[rec.AnyRecord]) -> None:
    path = folder / "recordings" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = Writer(path)
    for record in records:
        writer.append(record)
    writer.close()


def run_of(folder: Path, *profiles: tuple[str, float, float, dict[str, Any]]) -> Result:
    """A measured pass and its profiled one, with the recorded files where they are named."""
    (folder / "profiles").mkdir(parents=True)
    for name, source in (("a.raw", PYSPY), ("b.raw", PYSPY), ("a.pb.gz", CPU), ("heap.pb.gz", HEAP)):
        shutil.copy(source, folder / "profiles" / name)
    test = "tests/scale/test_pods.py::test_pods"
    save(folder, "measured", recorded())
    save(folder, "profiled", recorded(*profiles, cpu_s=4.0, test=f"{test}[profiled]", profiled=True))
    return analyse_run(folder)


def only(result: Result) -> ProfileResult:
    (found,) = (one for test in result.tests for phase in test.phases for one in phase.profiles)
    return found


def test_shares_of_the_exact_cpu_seconds_of_the_measured_pass(tmp_path: Path) -> None:
    found = only(run_of(tmp_path, ("profiles/a.raw", 100, 10_100, {"samples": 281, "errors": 0})))
    assert (found.samples, found.cpu_s, found.problem) == (263, 5.0, "")
    assert found.coverage == pytest.approx(1, abs=1e-3)
    burn = next(row for row in found.functions if row.function == "burn (t.py)")
    assert burn.cpu_s == pytest.approx(5.0 * 258 / 263)
    # 400 samples fit into the 4 s that the process used while it was profiled: it never waited for a core.
    assert found.independent == 263


def test_a_process_that_waited_for_a_core_has_wider_intervals(tmp_path: Path) -> None:
    found = only(run_of(tmp_path, ("profiles/a.raw", 100, 5100, {})))
    assert found.coverage == pytest.approx(0.5, abs=1e-3)
    assert found.independent is not None
    assert found.independent == pytest.approx(263**2 / (200 + 5 * 63), rel=1e-2)


def test_what_the_recording_alone_reports() -> None:
    found = analyse(recorded(("profiles/a.raw", 100, 10_100, {"samples": 281, "errors": 0})))
    (one,) = found.phases[0].profiles
    assert (one.process, one.kind, one.file, one.samples, one.errors) == ("operator", "pyspy", "profiles/a.raw", 281, 0)
    assert one.functions == ()


def test_several_captures_of_one_process_are_one_profile(tmp_path: Path) -> None:
    result = run_of(
        tmp_path,
        ("profiles/b.raw", 5100, 10_100, {"samples": 281}),
        ("profiles/a.raw", 100, 4100, {"samples": 281}),
    )
    found = only(result)
    assert (found.file, found.more_files, found.samples) == ("profiles/a.raw", ("profiles/b.raw",), 2 * 263)
    assert found.coverage == pytest.approx(0.9, abs=1e-3)
    assert found.folded == "profiles/a.raw.folded"
    lines = (tmp_path / found.folded).read_text(encoding="utf-8")
    assert read_folded(lines).total == 2 * 263


def test_overlapping_captures_cover_no_time_twice() -> None:
    found = analyse(recorded(("a", 0, 6100, {}), ("b", 4100, 8100, {}), ("c", 9100, 20_000, {})))
    assert found.phases[0].profiles[0].coverage == pytest.approx(0.9, abs=1e-3)


def test_files_beside_the_raw_ones(tmp_path: Path) -> None:
    result = run_of(
        tmp_path,
        ("profiles/a.pb.gz", 100, 10_100, {"kind": "pprof"}),
        ("profiles/heap.pb.gz", 10_100, 10_100, {"kind": "heap"}),
        ("profiles/a.raw", 100, 10_100, {"kind": "pyspy"}),
    )
    (phase,) = result.tests[1].phases if result.tests[1].profiled else result.tests[0].phases
    by_kind = {one.kind: one for one in phase.profiles}
    assert by_kind["pyspy"].folded == "profiles/a.raw"
    assert by_kind["pprof"].functions
    assert (by_kind["heap"].functions, by_kind["heap"].problem, by_kind["heap"].coverage) == ((), "", 0.0)
    for one in by_kind.values():
        stacks = read_stacks(tmp_path, one)
        assert (tmp_path / one.speedscope).stat().st_size > 0
        if one.kind != "pyspy":
            assert (tmp_path / one.folded).read_text(encoding="utf-8") == "".join(folded_lines(stacks))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "profiles").iterdir()}
    assert analyse_run(tmp_path) == result
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "profiles").iterdir()} == before


@pytest.mark.parametrize(
    ("content", "samples"),
    [
        (None, None),
        (b"", None),
        (PYSPY.read_bytes()[:600], None),
        (PYSPY.read_bytes().splitlines(keepends=True)[0], 281),
        (b"<module> (m.py:1) 5\n" + b"nonsense\n", None),
    ],
    ids=["missing", "empty", "cut off", "short", "nonsense"],
)
def test_a_missing_or_damaged_file_is_the_profiles_problem(
    tmp_path: Path, content: bytes | None, samples: int | None, snapshot: SnapshotAssertion
) -> None:
    if content is not None:
        (tmp_path / "profiles").mkdir()
        (tmp_path / "profiles" / "x.raw").write_bytes(content)
    save(tmp_path, "profiled", recorded(("profiles/x.raw", 100, 10_100, {"samples": samples}), profiled=True))
    found = only(analyse_run(tmp_path))
    assert masked(found.problem, {tmp_path: "folder"}) == snapshot
    assert found.functions == ()


def test_a_damaged_go_profile(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "x.pb.gz").write_bytes(CPU.read_bytes()[:500])
    save(tmp_path, "profiled", recorded(("x.pb.gz", 100, 10_100, {"kind": "pprof"})))
    problem = only(analyse_run(tmp_path)).problem
    assert "x.pb.gz: " in problem
    assert masked(problem, {tmp_path: "folder"}) == snapshot


def test_a_profile_that_failed_is_missing_and_says_why() -> None:
    records = recorded()
    failure = rec.SourceFailed(
        at=records[0].at + 5_000_000_000, source="profile:operator", message="py-spy may not attach"
    )
    later = next(index for index, record in enumerate(records) if record.at > failure.at)
    found = analyse([*records[:later], failure, *records[later:]])
    assert found.phases[0].missing["profile:operator"] == "py-spy may not attach"
    assert found.phases[0].profiles == ()


def test_phases_of_one_name_have_their_own_profiles() -> None:
    sim = Simulation()
    for number, start in enumerate((100, 3100)):
        sim.phase("deploy", start, start + 2000)
        sim.add(
            rec.ProfileTaken(
                at=sim.at(start + 2100),
                phase="deploy",
                process="operator",
                kind="pyspy",
                file=f"{number}.raw",
                started=sim.at(start - 50),
                ended=sim.at(start + 1900),
            )
        )
    found = analyse(sim.records())
    assert [[one.file for one in phase.profiles] for phase in found.phases] == [["0.raw"], ["1.raw"]]


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    result = run_of(tmp_path, ("profiles/a.raw", 100, 10_100, {}))
    assert only(result).functions
    assert only(result).speedscope == ""
    assert any("cannot be written: Permission denied" in warning for warning in result.warnings)
    assert not list((tmp_path / "profiles").glob(".*"))


def test_the_readers_choice(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    result = run_of(tmp_path, ("profiles/a.raw", 100, 10_100, {}), ("profiles/heap.pb.gz", 1, 2, {"kind": "heap"}))
    (one,) = cpu_profiles(result, phase="deploy", process="operator")
    assert one.profile.kind == "pyspy"
    with pytest.raises(UsageError) as caught:
        cpu_profiles(result, phase="delete")
    assert "operator in deploy" in caught.value.next_step
    assert str(caught.value) == snapshot(name="phase")
    whole = with_whole_table(tmp_path, one, module="asyncio")
    assert {row.module.partition("/")[0] for row in whole.profile.functions} == {"asyncio"}
    assert with_whole_table(tmp_path, one).profile.functions == one.profile.functions
    assert paired([one], [whole]) == ((one, whole),)
    with pytest.raises(UsageError) as caught:
        paired([one], [msgspec.structs.replace(one, phase="delete")])
    assert str(caught.value) == snapshot(name="pair")


def test_runs_of_different_tests_are_paired_by_phase(tmp_path: Path) -> None:
    (one,) = cpu_profiles(run_of(tmp_path, ("profiles/a.raw", 100, 10_100, {})))
    other = msgspec.structs.replace(one, test="another.py::test")
    assert paired([one], [other]) == ((one, other),)
    assert paired([one], [other, one]) == ((one, one),)


def test_a_run_without_profiles_says_so(snapshot: SnapshotAssertion) -> None:
    result = Result(
        run="run-1",
        version="1",
        machine=None,
        verdict="passed",
        scenario_outcome="passed",
        started="",
        tests=(analyse(recorded()),),
    )
    with pytest.raises(UsageError, match="run-1") as caught:
        cpu_profiles(result)
    assert str(caught.value) == snapshot


def test_a_table_with_more_functions_than_a_result_keeps(tmp_path: Path) -> None:
    data = profile([([[f"main.f{number}"]], [3, 30]) for number in range(200)])
    (tmp_path / "x.pb.gz").write_bytes(data)
    save(tmp_path, "profiled", recorded(("x.pb.gz", 100, 10_100, {"kind": "pprof"})))
    (one,) = cpu_profiles(analyse_run(tmp_path))
    assert len(one.profile.functions) == 40
    assert len(with_whole_table(tmp_path, one).profile.functions) == 200


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "one"
    run_of(folder, ("profiles/a.raw", 100, 10_100, {}))
    assert main(["profile", str(folder), "--top", "1"]) == 0
    assert "burn (t.py)" in (text := capsys.readouterr().out)
    assert "worker (t.py)" not in text
    assert main(["profile", str(folder), "--module", "asyncio", "--markdown"]) == 0
    assert "| Runner.run (asyncio/runners.py) |" in capsys.readouterr().out
    assert main(["profile", str(folder), str(folder), "--phase", "deploy"]) == 0
    assert "within sampling error" in capsys.readouterr().out
    assert main(["profile", str(folder), "--top", "1", "--json"]) == 0
    [one] = msgspec.json.decode(capsys.readouterr().out, type=ProfilesFile).profiles
    assert (one.phase, [row.function for row in one.profile.functions]) == ("deploy", ["burn (t.py)"])
    assert main(["profile", str(folder), str(folder), "--json"]) == 0
    [compared] = msgspec.json.decode(capsys.readouterr().out, type=ProfilesFile).compared
    assert (compared.process, compared.phase) == ("operator", "deploy")
    assert main(["profile", str(folder), "--phase", "delete"]) == 2
    assert "It has: operator in deploy" in capsys.readouterr().err


def test_showing_a_run_fills_its_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_of(tmp_path, ("profiles/a.raw", 100, 10_100, {}))
    assert main(["show", "-v", str(tmp_path)]) == 0
    assert "burn (t.py)" in capsys.readouterr().out
    assert main(["show", str(tmp_path), "--json"]) == 0
    tests = msgspec.json.decode(capsys.readouterr().out, type=Result).tests
    assert any(profile.functions for test in tests for phase in test.phases for profile in phase.profiles)
