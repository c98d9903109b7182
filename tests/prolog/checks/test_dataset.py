"""The dataset check: what a job is told of its data, and whose fault it is."""

from __future__ import annotations

import json
import marshal
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_io.config import DatasetConfig, parse
from slurm_io.host.probe import probe
from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import CHECKS
from slurm_io.prolog.checks.dataset import dataset
from slurm_io.spec import JobSpec
from slurm_io.staging.manifest.files import write_manifest
from slurm_io.staging.verify.absent_mount import absent_mount
from tests.labs.fault_kit import FAULTS, VICTIM, Bench
from tests.prolog.checks.job_context import context_for, proc_with_mounts


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Verified on the machine this test runs on."""
    made = Bench.made(tmp_path, record=False)
    made.etc = Path("/etc")
    made.name = "c4"
    if not Path("/etc/machine-id").exists():
        from slurm_io.staging.verify import driver
        from slurm_io.staging.verify.identity import Machine

        monkeypatch.setattr(driver, "this_machine", lambda roots: Machine("0" * 32, "n1"))
    return made


def settings_of(bench: Bench, **more: Any) -> DatasetConfig:
    return DatasetConfig(
        **{"local": os.fspath(bench.root), "manifest": os.fspath(bench.manifest_path), **more}
    )


def results(
    bench: Bench,
    settings: DatasetConfig | None = None,
    spec: JobSpec | None = None,
    tables: dict[str, Any] | None = None,
    **more: Any,
) -> list[CheckResult]:
    context = context_for(settings or settings_of(bench), spec=spec, **more)
    config = parse(tables or {})
    config = replace(config, state_dir=os.fspath(bench.state_dir), datasets=context.config.datasets)
    found = dataset.run(replace(context, config=config))
    for result in found:
        marshal.dumps(result.to_dict())
        assert json.dumps(result.to_dict()).isascii()
        assert result.check == "dataset"
    return found


def one(bench: Bench, *arguments: Any, **more: Any) -> CheckResult:
    (result,) = results(bench, *arguments, **more)
    return result


def test_it_is_registered_as_the_users() -> None:
    found = CHECKS.discover()["dataset"]
    assert (found.kind, found.identity, found.scope) == ("job", "user", "node")


def test_a_job_without_a_dataset_gets_no_answer(bench: Bench) -> None:
    assert results(bench, spec=JobSpec()) == []


def test_shared_data_is_the_leaders_business(bench: Bench) -> None:
    shared = settings_of(bench, local="", shared=os.fspath(bench.root))
    assert results(bench, shared, leader=False) == []
    assert one(bench, shared, leader=True).answer == "OK"
    assert one(bench, leader=False).answer == "OK", "local data is looked at on every node"


def test_an_unknown_name_or_tier_is_the_jobs_fault(bench: Bench) -> None:
    for spec in (JobSpec(dataset="c5"), JobSpec(dataset="c4", tier="shared")):
        result = one(bench, spec=spec)
        assert (result.answer, result.kind) == ("FAIL", "job")
        assert "slurm-io:" in result.text


def test_a_verified_copy_is_ok_without_reading_the_manifest(bench: Bench) -> None:
    bench.keep_record()
    write_manifest(os.fspath(bench.manifest_path), bench.manifest, "parquet")
    result = one(bench)
    assert (result.answer, result.facts["level"], result.facts["used_record"]) == ("OK", 2, True)


def test_a_small_manifest_will_do_without_a_record(bench: Bench) -> None:
    result = one(bench)
    assert (result.answer, result.facts["used_record"]) == ("OK", False)
    assert any("no usable record" in note for note in result.not_looked_at)


@pytest.mark.parametrize(
    ("form", "own", "why"),
    [
        ("parquet", {}, "in Parquet"),
        ("jsonl", {"manifest_files_max": 5}, "names 6 files"),
        ("missing", {}, "No such file"),
    ],
)
def test_a_manifest_no_prolog_reads_is_unknown_and_names_the_command(
    form: Any, own: dict[str, int], why: str, bench: Bench
) -> None:
    if form == "missing":
        bench.manifest_path.unlink()
    else:
        write_manifest(os.fspath(bench.manifest_path), bench.manifest, form)
    result = one(bench, own=own)
    assert result.answer == "UNKNOWN"
    assert why in result.text
    assert "slurm-io dataset verify c4 --tier local --level 4 --record" in result.commands


def test_no_manifest_at_all_says_what_is_needed(bench: Bench) -> None:
    result = one(bench, settings_of(bench, manifest=""))
    assert result.answer == "UNKNOWN"
    assert "slurm-io dataset manifest build" in result.text


def test_a_missing_dataset_names_dataset_folder_and_node(bench: Bench) -> None:
    FAULTS["nothing there"].apply(bench)
    result = one(bench)
    assert (result.answer, result.kind) == ("FAIL", "job")
    for word in ("c4", os.fspath(bench.root), "node1", "stage it"):
        assert word in result.text


def test_a_wrong_version_names_both(bench: Bench) -> None:
    bench.keep_record()
    here = bench.manifest.header.content_id
    wanted = "c1-" + "e" * 32
    result = one(bench, spec=JobSpec(dataset=f"c4@{wanted}"))
    assert (result.answer, result.kind) == ("FAIL", "job")
    assert here in result.text
    assert wanted in result.text


def test_the_level_is_the_datasets_own(bench: Bench) -> None:
    bench.keep_record()
    FAULTS["truncated"].apply(bench)
    assert one(bench, settings_of(bench, level=0)).answer == "OK"
    result = one(bench, settings_of(bench, level=1))
    assert (result.answer, result.facts["bad_files"]) == ("FAIL", [f"truncated: '{VICTIM}'"])


def test_level_3_looks_with_the_rest_of_the_time(bench: Bench) -> None:
    bench.keep_record()
    result = one(bench, settings_of(bench, level=3))
    assert (result.answer, result.facts["level"]) == ("OK", 3)
    assert result.facts["files_hashed"] >= 1


def test_extra_files_are_what_the_site_says(bench: Bench) -> None:
    FAULTS["extra"].apply(bench)
    assert one(bench).answer == "DEGRADED"
    assert one(bench, own={"extra": "fine"}).answer == "OK"


def test_a_damaged_record_is_no_proof_and_no_crash(bench: Bench) -> None:
    bench.keep_record()
    (bench.state_dir / "datasets/c4@local/record.json").write_text("{")
    result = one(bench)
    assert (result.answer, result.facts["used_record"]) == ("OK", False)
    assert "damaged" in result.facts["record_problem"]


def test_a_spent_budget_is_unknown(bench: Bench) -> None:
    bench.keep_record()
    result = one(bench, budget_s=0.0)
    assert result.answer in ("UNKNOWN", "OK")
    assert result.facts["level"] < 2 or result.answer == "OK"


def test_the_node_is_to_blame_only_for_a_configured_mount_that_is_absent(
    bench: Bench, tmp_path: Path
) -> None:
    FAULTS["nothing there"].apply(bench)
    point = os.fspath(tmp_path)
    tables = {"check": {"mounts": {"required": [f"{point} fstype=xfs"]}}}
    absent = one(bench, tables=tables, proc_root=proc_with_mounts(tmp_path / "none"))
    assert (absent.answer, absent.kind) == ("FAIL", "node")
    assert point in absent.text
    there = proc_with_mounts(tmp_path / "there", data=(point, "xfs"))
    assert one(bench, tables=tables, proc_root=there).kind == "job"
    assert one(bench).kind == "job"


def test_a_path_the_user_chose_never_blames_the_node(bench: Bench, tmp_path: Path) -> None:
    tables = {"check": {"mounts": {"required": [os.fspath(tmp_path)]}}}
    spec = JobSpec(dataset=os.fspath(tmp_path / "gone"))
    proc = proc_with_mounts(tmp_path / "none")
    result = one(bench, spec=spec, tables=tables, proc_root=proc)
    assert (result.answer, result.kind) == ("FAIL", "job")


def test_fstab_names_mounts_too(tmp_path: Path) -> None:
    fstab = tmp_path / "fstab"
    fstab.write_text("# x\n/dev/md0 /local xfs defaults 0 0\nbad\nh:/x /nfs nfs noauto 0 0\n")
    proc = os.fspath(proc_with_mounts(tmp_path / "proc"))
    assert absent_mount("/local/c4", (), proc, os.fspath(fstab)) == "/local"
    assert absent_mount("/nfs/c4", (), proc, os.fspath(fstab)) is None
    assert absent_mount("/localx/c4", (), proc, os.fspath(fstab)) is None
    assert absent_mount("/local/c4", (), os.fspath(tmp_path / "no"), os.fspath(fstab)) is None


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_what_the_user_may_not_read_is_a_fail(bench: Bench) -> None:
    bench.root.chmod(0o700)
    result = probe(_as_nobody, bench, timeout_s=10)
    assert result.state == "ok", result.reason
    answer, text = result.value
    assert answer == "FAIL"
    assert "Permission denied" in text


def _as_nobody(bench: Bench) -> tuple[str, str]:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    result = one(bench)
    return result.answer, result.text


def test_it_loads_nothing_heavy(tmp_path: Path) -> None:
    """Not even when it looks: pyarrow, click and rich stay out of a prolog."""
    script = (
        "import sys\n"
        "from slurm_io.config import Config, DatasetConfig\n"
        "from slurm_io.spec import JobSpec\n"
        "from slurm_io.prolog.checks.base import CheckContext\n"
        "from slurm_io.prolog.checks.dataset import dataset\n"
        f"place = DatasetConfig(local='{tmp_path}')\n"
        f"config = Config(state_dir='{tmp_path}', datasets={{'c4': place}})\n"
        "context = CheckContext('n', config, JobSpec(dataset='c4'), 1.0, 'u', 0, 0)\n"
        "print(dataset.run(context)[0].answer)\n"
        "print({'pyarrow', 'click', 'rich', 'psutil', 'asyncio', 'logging'} & set(sys.modules))\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.split("\n")[:2] == ["UNKNOWN", "set()"]
