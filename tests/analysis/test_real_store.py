"""The same jobs through real Parquet files, the store's reader and the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from slurm_io.analysis.api import analyse, analyse_store, write_reports
from slurm_io.commands.report import command as report_command
from slurm_io.commands.report import find_store
from slurm_io.commands.rule import command as rule_command
from slurm_io.errors import StoreError, UsageError
from tests.analysis.stand_in import Job, StandInStore, one_rank, train


def slow_job() -> StandInStore:
    return Job([train(one_rank(), 250, 0.05, lambda k: (0.05, "storage"))]).store()


def write_store(folder: Path, store: StandInStore) -> Path:
    """As delivery leaves it (contracts, section 4)."""
    folder.mkdir()
    assert store.job is not None
    job = {"schema": 1, "job": store.job.to_dict(), "nodes_expected": list(store.nodes_expected)}
    (folder / "job.json").write_text(json.dumps({**job, **store.extra}))
    if store.checkpoints is not None:
        (folder / "checkpoints.json").write_text(json.dumps(store.checkpoints))
    for name, node in store.nodes.items():
        inside = folder / f"node={name}"
        inside.mkdir()
        (inside / "meta.json").write_text(json.dumps(node.meta))
        (inside / "self.json").write_text(json.dumps(node.self_cost))
        for table in node.tables:
            pq.write_table(node.table(table), inside / f"{table}-0000.parquet")
    return folder


def test_real_files_say_what_the_stand_in_says(tmp_path: Path) -> None:
    store = slow_job()
    folder = write_store(tmp_path / "slurm-io-42", store)
    assert analyse(folder) == analyse_store(store)


def test_reports_are_written_whole_and_readable_by_others(tmp_path: Path) -> None:
    folder = write_store(tmp_path / "store", slow_job())
    report = write_reports(folder)
    assert json.loads((folder / "report.json").read_text()) == report
    assert (folder / "report.txt").read_text().startswith("slurm-io: STORAGE")
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
    assert (folder / "report.txt").stat().st_mode & 0o777 == 0o644
    assert write_reports(folder) == report  # reports in the store change nothing


def test_a_report_replaces_a_planted_link_and_not_its_target(tmp_path: Path) -> None:
    folder = write_store(tmp_path / "store", slow_job())
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (folder / "report.json").symlink_to(precious)
    write_reports(folder)
    assert precious.read_text() == "mine"
    assert not (folder / "report.json").is_symlink()


def test_command_prints_text_or_json(tmp_path: Path) -> None:
    folder = write_store(tmp_path / "store", slow_job())
    text = CliRunner().invoke(report_command, [str(folder)])
    assert text.exit_code == 0
    assert "STORAGE" in text.stdout
    assert "\x1b" not in text.stdout
    for options in (["-f", "json"], ["--json"]):
        done = CliRunner().invoke(report_command, [str(folder), *options])
        assert json.loads(done.stdout)["verdict"] == "storage"


def test_command_writes_a_file(tmp_path: Path) -> None:
    folder = write_store(tmp_path / "store", slow_job())
    target = tmp_path / "out.json"
    done = CliRunner().invoke(report_command, [str(folder), "-f", "json", "-o", str(target)])
    assert (done.exit_code, done.stdout) == (0, "")
    assert json.loads(target.read_text())["schema"] == 1


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    folder = write_store(tmp_path / "store", slow_job())
    target = tmp_path / "nowhere" / "out.json"
    done = CliRunner().invoke(report_command, [str(folder), "-o", str(target)])
    assert isinstance(done.exception, StoreError)
    assert str(target) in str(done.exception)


def test_a_job_id_means_its_store_here(tmp_path: Path) -> None:
    (tmp_path / "slurm-io-42").mkdir()
    (tmp_path / "slurm-io-421").mkdir()
    assert find_store("42", tmp_path).name == "slurm-io-42"
    (tmp_path / "slurm-io-42.1").mkdir()
    with pytest.raises(UsageError, match=r"slurm-io-42, slurm-io-42\.1"):
        find_store("42", tmp_path)
    with pytest.raises(StoreError, match="43"):
        find_store("43", tmp_path)
    with pytest.raises(StoreError, match="not a folder"):
        find_store("no/such", tmp_path)


def test_a_folder_that_is_no_store_is_an_error_of_ours(tmp_path: Path) -> None:
    done = CliRunner().invoke(report_command, [os.fspath(tmp_path)])
    assert isinstance(done.exception, StoreError)


def test_rules_are_listed_and_explained() -> None:
    listed = CliRunner().invoke(rule_command, ["list"])
    codes = [line.split()[0] for line in listed.stdout.splitlines() if not line.startswith(" ")]
    assert codes == sorted(codes)
    assert {"F01", "F02", "F04"} <= set(codes)
    as_json = json.loads(CliRunner().invoke(rule_command, ["list", "--json"]).stdout)
    assert as_json["rules"][0]["code"] == "F01"
    page = CliRunner().invoke(rule_command, ["show", "f04"])
    assert "Known false alarms" in page.stdout
    wrong = CliRunner().invoke(rule_command, ["show", "F99"])
    assert isinstance(wrong.exception, UsageError)
