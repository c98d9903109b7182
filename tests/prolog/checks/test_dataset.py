"""The dataset check: what a job is told of its data, and whose fault it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_io.config import DatasetConfig, parse
from slurm_io.host.probe import probe
from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import CHECKS
from slurm_io.prolog.checks.dataset import dataset
from slurm_io.prolog.job_message import message_lines
from slurm_io.prolog.policy import judge
from slurm_io.prolog.run_checks import RanCheck
from slurm_io.spec import JobSpec
from slurm_io.staging.manifest.content_id import content_id_of
from slurm_io.staging.manifest.files import write_manifest
from slurm_io.staging.manifest.model import Manifest
from slurm_io.staging.manifest.rows import totals_of
from slurm_io.staging.verify.absent_mount import absent_mount
from slurm_io.staging.verify.identity import Machine
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
        json.dumps(result.to_dict())
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
        assert "this site" in result.text


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


OTHER = "c1-" + "e" * 32


def asked(bench: Bench, content_id: str, **more: Any) -> CheckResult:
    """The check of a job that asked for one version, at each level the same."""
    found = [
        one(bench, settings_of(bench, level=level, **more), JobSpec(dataset=f"c4@{content_id}"))
        for level in (0, 1, 2)
    ]
    assert len({(each.answer, each.text) for each in found}) == 1
    return found[0]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_version_that_neither_record_nor_manifest_knows_is_a_fail_of_the_job(
    form: Any, bench: Bench
) -> None:
    write_manifest(os.fspath(bench.manifest_path), bench.manifest, form)
    result = asked(bench, OTHER)
    assert (result.answer, result.kind) == ("FAIL", "job")
    described = bench.manifest.header.content_id
    assert result.text == (
        f"dataset 'c4': version {OTHER} was asked for; the site's manifest describes {described}, "
        "and no record on node1 says it is here: ask for c4, or have it staged and verified"
    )
    assert result.commands == (
        f"slurm-io dataset verify c4@{OTHER} --tier local --manifest FILE --level 4 --record",
    )


def test_check_hold_stops_a_job_whose_version_cannot_be_proven(bench: Bench) -> None:
    ran = RanCheck("dataset", dataset, (asked(bench, OTHER),), 0.1, 0.1)
    (judged,) = judge([ran], parse({}), "hold").judged
    assert judged.action == "stop"
    (line, *_) = message_lines(judge([ran], parse({})), "node1")
    assert OTHER in line and "staged and verified" in line, "nothing of it is cut"


def test_a_record_of_the_version_asked_for_is_proof_whatever_the_manifest_describes(
    bench: Bench,
) -> None:
    bench.keep_record()
    wanted = bench.manifest.header.content_id
    newer = replace(bench.manifest, files=bench.manifest.files[1:])
    write_manifest(os.fspath(bench.manifest_path), with_own_id(newer))
    spec = JobSpec(dataset=f"c4@{wanted}")
    for level in (0, 1, 2, 3):
        assert one(bench, settings_of(bench, level=level), spec).answer == "OK"
    FAULTS["truncated"].apply(bench)
    assert one(bench, settings_of(bench, level=1), spec).answer == "FAIL"
    bench.manifest_path.unlink()
    assert one(bench, settings_of(bench, level=0), spec).answer == "OK"


@pytest.mark.parametrize("state", ["absent", "copied"])
def test_a_record_that_proves_nothing_is_no_proof_of_the_version(state: str, bench: Bench) -> None:
    bench.keep_record()
    bench.change_record(content_id=OTHER, state=state)
    drop_table(bench)
    result = asked(bench, OTHER)
    assert result.answer == "FAIL"
    assert ("never verified (record: copied)" in result.text) == (state == "copied")


def test_a_record_of_another_machine_is_no_proof_of_the_version(bench: Bench) -> None:
    bench.keep_record()
    bench.change_record(content_id=OTHER, machine=Machine("f" * 32, "n9"))
    result = asked(bench, OTHER)
    assert result.answer == "FAIL"
    assert "proves nothing (it was made on machine 'n9'" in result.text


def test_a_damaged_record_is_no_proof_of_the_version(bench: Bench) -> None:
    bench.keep_record()
    (bench.state_dir / "datasets/c4@local/record.json").write_text("{")
    assert asked(bench, OTHER).answer == "FAIL"


def test_where_neither_manifest_nor_record_can_be_read_the_version_is_unknown(bench: Bench) -> None:
    spec = JobSpec(dataset=f"c4@{OTHER}")
    assert one(bench, settings_of(bench, manifest=""), spec).answer == "UNKNOWN"
    bench.manifest_path.write_text("no manifest")
    assert one(bench, spec=spec).answer == "UNKNOWN"
    bench.manifest_path.unlink()
    result = one(bench, spec=spec)
    assert result.answer == "UNKNOWN"
    assert "No such file" in result.text


def test_the_sites_own_version_that_its_manifest_does_not_describe_is_a_fail(bench: Bench) -> None:
    result = one(bench, settings_of(bench, content_id=OTHER))
    assert (result.answer, result.kind) == ("FAIL", "job")
    assert f"version {OTHER} is the site's" in result.text
    assert "mend [dataset]" in result.text


def test_the_manifests_own_version_is_compared_with_the_files(bench: Bench) -> None:
    wanted = bench.manifest.header.content_id
    for written in (wanted, wanted.upper(), wanted.replace("c1-", "C1-")):
        assert one(bench, spec=JobSpec(dataset=f"c4@{written}")).answer == "OK"
    FAULTS["truncated"].apply(bench)
    assert one(bench, spec=JobSpec(dataset=f"c4@{wanted}")).answer == "FAIL"


@pytest.mark.parametrize("record", [True, False])
def test_the_beginning_of_an_id_is_no_id_and_the_whole_one_is_named(
    record: bool, bench: Bench
) -> None:
    if record:
        bench.keep_record()
    wanted = bench.manifest.header.content_id
    for short in (wanted[:7], wanted[:-1], wanted[:9].upper()):
        result = one(bench, spec=JobSpec(dataset=f"c4@{short}"))
        assert (result.answer, result.kind) == ("FAIL", "job")
        assert f"'{short.lower()}' is no content id" in result.text
        assert f"ask for c4@{wanted}" in result.text
    for strange in ("0000", f"{wanted}0", "sha256:abcd", "c2-" + wanted[3:]):
        result = one(bench, spec=JobSpec(dataset=f"c4@{strange}"))
        assert (result.answer, result.kind) == ("FAIL", "job")
        assert "slurm-io dataset list" in result.text
    bench.manifest_path.unlink()
    assert one(bench, spec=JobSpec(dataset="c4@0000")).answer == "FAIL"


def with_own_id(manifest: Manifest) -> Manifest:
    totals = totals_of(manifest.files)
    header = replace(
        manifest.header,
        content_id=content_id_of(manifest.files),
        file_count=totals.file_count,
        total_bytes=totals.total_bytes,
    )
    return replace(manifest, header=header)


def drop_table(bench: Bench) -> None:
    """A copy that was only recorded by whoever copied it has no table."""
    path = bench.state_dir / "datasets/c4@local/record.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "table": None}))


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


def test_the_facts_say_what_is_missing(bench: Bench, tmp_path: Path) -> None:
    """The report's rules go by them; texts are for people."""
    whole = one(bench).facts
    assert (whole["folder_missing"], whole["absent_mount"], whole["described"]) == (
        False, None, None,
    )  # fmt: skip
    FAULTS["nothing there"].apply(bench)
    gone = one(bench).facts
    assert (gone["folder_missing"], gone["record"]) == (True, None)
    tables = {"check": {"mounts": {"required": [os.fspath(tmp_path)]}}}
    absent = one(bench, tables=tables, proc_root=proc_with_mounts(tmp_path / "none")).facts
    assert absent["absent_mount"] == f"'{tmp_path}'"


def test_the_facts_tell_the_record_and_how_old_its_proof_is(bench: Bench) -> None:
    bench.keep_record()
    record = one(bench).facts["record"]
    age_s = record.pop("age_s")
    assert 0 <= age_s < 600
    content_id = bench.manifest.header.content_id
    assert record == {"content_id": content_id, "state": "ready", "level": 4}
    day_ago_ns = time.time_ns() - 86_400 * 10**9
    bench.change_record(verified_ns=day_ago_ns)
    assert 86_400 <= one(bench).facts["record"]["age_s"] < 87_000
    for never in (0, -1, 1 << 70):
        bench.change_record(verified_ns=never, state="copied")
        assert one(bench, settings_of(bench, level=1)).facts["record"]["age_s"] is None


def test_a_record_made_elsewhere_tells_nothing(bench: Bench) -> None:
    bench.keep_record()
    bench.change_record(machine=Machine("f" * 32, "n9"))
    facts = one(bench).facts
    assert facts["record"] is None
    assert "n9" in facts["record_problem"]


def test_the_facts_name_the_version_that_the_manifest_describes_instead(bench: Bench) -> None:
    facts = asked(bench, OTHER).facts
    assert facts["described"] == bench.manifest.header.content_id
    assert (facts["content_id"], facts["wrong_version"]) == (OTHER, None)


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
