"""What a node holds of a dataset, with real manifests, records and files."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurm_io.commands import cli
from slurm_io.config import Config, parse
from slurm_io.reservation.model import DataSays
from slurm_io.reservation.node_report.data import folder_of, is_what_checks_see, read_data
from slurm_io.reservation.node_report.says import parse_says


def call(*arguments: str) -> None:
    done = CliRunner().invoke(cli, list(arguments))
    assert done.exit_code == 0, done.output + repr(done.exception)


@pytest.fixture
def dataset(tmp_path: Path) -> tuple[Config, Path]:
    """Ten files of 1000 bytes, a manifest, and this node's record of level 4."""
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    for number in range(10):
        (folder / "sub" / f"{number}.bin").write_bytes(os.urandom(1000))
    manifest = tmp_path / "c4.manifest"
    call("dataset", "manifest", "build", str(folder), "-o", str(manifest))
    sections = {
        "state_dir": str(tmp_path / "lib"),
        "dataset": {"c4": {"local": str(folder), "manifest": str(manifest)}},
    }
    path = tmp_path / "site.toml"
    path.write_text(
        f'state_dir = "{tmp_path}/lib"\n[dataset.c4]\nlocal = "{folder}"\nmanifest = "{manifest}"\n'
    )
    call("dataset", "verify", "c4", "--level", "4", "--record", "--config", str(path))
    return parse(sections), folder


def look(config: Config, name: str = "c4", budget_s: float = 20.0) -> DataSays:
    found = read_data(config, "n1", name, "local", config.state_dir, budget_s)
    says = parse_says("n1", 0.0, json.dumps({"data": found}).encode())
    assert says.data is not None
    return says.data


def test_a_whole_and_verified_copy(dataset: tuple[Config, Path]) -> None:
    found = look(dataset[0])
    assert (found.state, found.level, found.problem) == ("ready", 4, None)
    assert (found.bytes_behind, found.files_behind, found.total_bytes) == (0, 0, 10_000)
    assert found.content_id == found.wanted_id
    assert found.age_s is not None and 0 <= found.age_s < 600


def test_missing_and_short_files_are_behind_in_whole(dataset: tuple[Config, Path]) -> None:
    config, folder = dataset
    (folder / "sub" / "3.bin").unlink()
    (folder / "sub" / "4.bin").write_bytes(b"x")
    (folder / "sub" / "5.bin").unlink()
    (folder / "sub" / "5.bin").mkdir()
    found = look(config)
    assert (found.bytes_behind, found.files_behind) == (3_000, 3)


def test_nothing_there_is_all_behind(dataset: tuple[Config, Path]) -> None:
    config, folder = dataset
    shutil.rmtree(folder)
    shutil.rmtree(config.state_dir)
    found = look(config)
    assert (found.state, found.level, found.age_s) == ("absent", -1, None)
    assert (found.bytes_behind, found.files_behind) == (10_000, 10)


def test_a_record_that_came_with_a_copied_disk_proves_nothing(
    dataset: tuple[Config, Path],
) -> None:
    config, _ = dataset
    path = Path(config.state_dir, "datasets", "c4@local", "record.json")
    record = json.loads(path.read_text())
    record["machine"]["node"] = "another"
    path.write_text(json.dumps(record))
    assert "another" in (look(config).problem or "")


def test_a_damaged_record_and_a_damaged_manifest_say_so(dataset: tuple[Config, Path]) -> None:
    config, folder = dataset
    manifest = Path(config.datasets["c4"].manifest)
    manifest.write_bytes(manifest.read_bytes()[:-40])
    assert "could not be counted" in (look(config).problem or "")
    assert look(config).bytes_behind is None
    Path(config.state_dir, "datasets", "c4@local", "record.json").write_text("{")
    assert "damaged" in (look(config).problem or "")
    assert folder.is_dir()


def test_no_time_is_no_count(dataset: tuple[Config, Path]) -> None:
    found = look(dataset[0], budget_s=-1.0)
    assert found.bytes_behind is None
    assert "the time was over" in (found.problem or "")


def test_an_unknown_dataset_is_a_problem(dataset: tuple[Config, Path]) -> None:
    assert "no dataset" in (look(dataset[0], "other").problem or "")
    assert folder_of(dataset[0], "n1", "other", "local") is None
    assert folder_of(dataset[0], "n1", "c4", "local") == str(dataset[1])


def test_checks_are_asked_about_the_copy_they_would_look_at() -> None:
    both = parse({"dataset": {"c4": {"local": "/a", "shared": "/b"}, "s": {"shared": "/c"}}})
    assert is_what_checks_see(both, "n1", "c4", "local")
    assert not is_what_checks_see(both, "n1", "c4", "shared")
    assert is_what_checks_see(both, "n1", "s", "shared")
    assert not is_what_checks_see(both, "n1", "other", "local")


def test_links_out_of_the_folder_are_not_followed(
    dataset: tuple[Config, Path], tmp_path: Path
) -> None:
    """A folder swapped for a link to another copy holds nothing of this one."""
    config, folder = dataset
    shutil.move(folder / "sub", tmp_path / "elsewhere")
    (folder / "sub").symlink_to(tmp_path / "elsewhere")
    assert look(config).files_behind == 10
