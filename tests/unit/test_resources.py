"""fixtures/ and workloads/ are found the same way from a checkout and from an installed wheel."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

from pytest_grovescale import resources
from pytest_grovescale.errors import DefinitionError

CHECKOUT = Path(__file__).parents[2]


def _relative(folder: Path) -> set[str]:
    # A run of a bundled scenario leaves its compiled module in the checkout.
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.parent.name != "__pycache__"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel of this checkout."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(CHECKOUT)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (built,) = out.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(out / "site")
    return out / "site"


def test_checkout_has_them_beside_the_package() -> None:
    assert resources.root() == CHECKOUT
    assert resources.find("workloads", "pcs.yaml.j2") == CHECKOUT / "workloads" / "pcs.yaml.j2"


def test_wheel_has_the_same_files_inside_the_package(wheel: Path) -> None:
    for folder in ("fixtures", "workloads"):
        assert _relative(wheel / "pytest_grovescale" / "bundled" / folder) == _relative(CHECKOUT / folder)


def test_the_wheels_description_needs_no_checkout_beside_it(wheel: Path) -> None:
    (metadata,) = wheel.glob("*.dist-info/METADATA")
    described = message_from_string(metadata.read_text("utf-8"))
    assert described["Description-Content-Type"].startswith("text/markdown")
    targets = re.findall(r"\]\(([^)]*)\)", str(described.get_payload()))
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []


def test_wheel_finds_its_own(wheel: Path, tmp_path: Path) -> None:
    script = "from pytest_grovescale import resources; print(resources.find('fixtures/clusters', 'default'))"
    environment = {"PYTHONPATH": str(wheel), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=tmp_path, check=True, capture_output=True, text=True
    )
    ours = resources.find("fixtures/clusters", "default").relative_to(CHECKOUT)
    assert Path(done.stdout.strip()) == wheel / "pytest_grovescale/bundled" / ours


def test_wheel_carries_typing_and_go_modules(wheel: Path) -> None:
    names = _relative(wheel / "pytest_grovescale")
    assert "py.typed" in names
    assert any(name.startswith("cluster/gomodules/") and name.endswith("go.sum") for name in names)


def test_a_users_own_file_wins(tmp_path: Path) -> None:
    own = tmp_path / "workloads" / "pcs.yaml.j2"
    own.parent.mkdir()
    own.write_text("kind: Mine", encoding="utf-8")
    assert resources.find("workloads", "pcs.yaml.j2", base=tmp_path) == own


def test_the_first_of_several_folders_wins(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for path in (one / "both.yaml", other / "both.yaml", other / "workloads" / "second.yaml"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("kind: Mine", encoding="utf-8")
    assert resources.find("workloads", "both", base=(one, other)) == one / "both.yaml"
    assert resources.find("workloads", "second", base=(one, other)) == other / "workloads" / "second.yaml"


def test_a_missing_file_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"nope\.yaml: no such file") as caught:
        resources.find("fixtures/clusters", "nope.yaml", base=(tmp_path / "tests", tmp_path))
    for place in (tmp_path / "tests", tmp_path, resources.root()):
        assert str(place / "fixtures" / "clusters" / "nope.yaml") in caught.value.message
    assert "default.yaml" in caught.value.next_step


def test_each_place_is_named_once_and_a_near_name_first(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError) as caught:
        resources.find("fixtures/operators", str(tmp_path / "refrence.yaml"), base=(tmp_path, tmp_path / "tests"))
    assert caught.value.message.count(f"{tmp_path}/refrence.yaml") == 2, "its name, and where it was looked for"
    assert caught.value.next_step.startswith("Did you mean reference.yaml")


def test_a_misspelt_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gadget.yaml", "notes.txt"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DefinitionError) as refused:
        resources.find("fixtures/operators", "gadgt.yaml")
    assert "gadget.yaml" in refused.value.next_step
    assert "notes" not in refused.value.next_step


def test_a_file_with_another_suffix_is_suggested(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text("")
    with pytest.raises(DefinitionError) as caught:
        resources.find("fixtures/operators", "shop.yml", base=tmp_path)
    assert "shop.yaml" in caught.value.next_step
