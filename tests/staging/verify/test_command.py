"""``slurm-io dataset verify`` and ``--record``, as a person types them."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_io.commands.dataset.verify import command
from slurm_io.errors import SlurmIoError
from slurm_io.staging.verify import driver
from slurm_io.staging.verify.identity import Machine
from slurm_io.staging.verify.journal import Journal
from tests.labs.fault_kit import FAULTS, VICTIM, Bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench.made(tmp_path, record=False)
    monkeypatch.setattr(driver, "this_machine", lambda roots: Machine("0" * 32, "n1"))
    config = f'state_dir = "{made.state_dir}"\n[dataset.demo]\nlocal = "{made.root}"\n'
    (tmp_path / "config.toml").write_text(config + f'manifest = "{made.manifest_path}"\n')
    return made


def run(bench: Bench, *arguments: str) -> Result:
    config = bench.root.parent / "config.toml"
    return CliRunner().invoke(command, [*arguments, "--config", os.fspath(config)])


def test_a_good_copy(bench: Bench) -> None:
    result = run(bench, "demo", "--level", "4")
    assert result.exit_code == 0
    assert result.output.startswith("OK        6 files")
    assert "6 hashed" in result.output


def test_a_folder_and_a_manifest_without_the_registry(bench: Bench) -> None:
    place = ("--path", os.fspath(bench.root), "--manifest", os.fspath(bench.manifest_path))
    assert run(bench, *place).exit_code == 0
    assert run(bench, "--path", os.fspath(bench.root)).exit_code == 3


@pytest.mark.parametrize(("fault", "code"), [("truncated", 1), ("extra", 1), ("nothing there", 1)])
def test_a_bad_copy_exits_1(fault: str, code: int, bench: Bench) -> None:
    FAULTS[fault].apply(bench)
    assert run(bench, "demo").exit_code == code


def test_level_0_without_a_record_exits_3(bench: Bench) -> None:
    assert run(bench, "demo", "--level", "0").exit_code == 3


def test_json_and_repair_list(bench: Bench, tmp_path: Path) -> None:
    FAULTS["bit flip"].apply(bench)
    FAULTS["extra"].apply(bench)
    result = run(bench, "demo", "--level", "4", "--json", "--repair-list", f"{tmp_path}/repair")
    answer = json.loads(result.output)
    assert result.exit_code == 1
    assert (answer["answer"], answer["counts"]) == ("FAIL", {"content": 1, "extra": 1})
    (repair,) = map(json.loads, (tmp_path / "repair").read_text().splitlines())
    assert (repair["path"], repair["ranges"]) == (VICTIM, [[131072, 131072]])


def test_record_then_level_0_then_a_change(bench: Bench) -> None:
    assert run(bench, "demo", "--level", "4", "--record").exit_code == 0
    assert run(bench, "demo", "--level", "0").exit_code == 0
    FAULTS["same size, same mtime"].apply(bench)
    assert run(bench, "demo", "--level", "1").exit_code == 1


def test_a_record_that_cannot_be_kept_is_an_error(bench: Bench) -> None:
    assert run(bench, "demo", "--level", "4", "--record").exit_code == 0
    FAULTS["wrong version"].apply(bench)
    from slurm_io.staging.manifest.files import write_manifest

    write_manifest(os.fspath(bench.manifest_path), bench.manifest)
    result = run(bench, "demo", "--level", "1", "--record")
    assert result.exit_code == 1
    assert "only level 4" in result.output


@pytest.mark.parametrize(
    "arguments", [(), ("demo", "--path", "/x"), ("demo", "--level", "0", "--record")]
)
def test_usage_errors(arguments: tuple[str, ...], bench: Bench) -> None:
    result = run(bench, *arguments)
    assert isinstance(result.exception, SlurmIoError)
    assert result.exception.exit_code == 2


def test_a_level_4_cut_short_goes_on(bench: Bench, tmp_path: Path) -> None:
    """What the journal holds is not read again, unless it changed."""
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with Journal(folder, bench.manifest.header.content_id, 7) as journal:
            journal.add(3, (1, 2, 3, 4))
            journal.add(4, (1, 2, 3, 4))
            journal.add(3, (5, 6, 7, 8))
        with (tmp_path / "journal.bin").open("ab") as torn:
            torn.write(b"torn")
        with Journal(folder, bench.manifest.header.content_id, 7) as journal:
            assert len(journal) == 2
            assert journal.has(3, (5, 6, 7, 8))
            assert not journal.has(4, (5, 6, 7, 8))
        with Journal(folder, bench.manifest.header.content_id, 8) as journal:
            assert len(journal) == 0, "another folder"
    finally:
        os.close(folder)


def test_the_journal_saves_reading(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    place = bench.state_dir / "datasets" / "demo@local"
    monkeypatch.setattr(Journal, "remove", lambda self: None)
    first = json.loads(run(bench, "demo", "--level", "4", "--record", "--json").output)
    assert (place / "journal.bin").exists()
    second = json.loads(run(bench, "demo", "--level", "4", "--record", "--json").output)
    assert first["answer"] == second["answer"] == "OK"
    assert second["files_hashed"] == 6
    assert second["bytes_read"] < first["bytes_read"] - 1_000_000
