"""A stage and what it leaves: files, record, room; fresh, resumed, repaired, of another version."""

import json
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_io.errors import HostError, ManifestError
from slurm_io.staging import record as records
from slurm_io.staging.manifest.content_id import content_id_of
from slurm_io.staging.manifest.hashing import TICK_NS
from slurm_io.staging.manifest.model import Manifest
from slurm_io.staging.stage import this_boot
from slurm_io.staging.stage.order import Progress
from slurm_io.staging.stage.planning import plan
from slurm_io.staging.stage.run import stage
from slurm_io.staging.verify.driver import Target, verify
from tests.labs.fault_kit import fill, flip, same_mtime
from tests.staging.stage.kit import SIZES, Site, path_source


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.made(tmp_path)


def test_a_fresh_copy_is_ready_and_leaves_nothing_behind(site: Site) -> None:
    answer = site.stage()
    assert (answer.state, answer.exit_code, answer.copied_files) == ("ready", 0, len(SIZES))
    assert answer.by_source == {"source": sum(SIZES.values())}
    assert site.truth()
    assert site.room_is_gone()
    record = site.record()
    assert record is not None
    assert (record.state, record.level, record.method) == ("ready", 4, "copy")
    assert record.bytes_per_s is not None
    assert (site.target / "a/000.tar").stat().st_mode & 0o7777 == 0o644
    kept = {path.name for path in (site.folder / "state/datasets/demo@local").iterdir()}
    assert record.table is not None
    assert kept == {"lock", "record.json", record.table.file}


def test_the_record_is_good_for_a_prolog(site: Site) -> None:
    site.stage()
    record = site.record()
    assert record is not None
    table = records.open_table(os.fspath(site.folder / "state"), record)
    target = Target(os.fspath(site.target), record=record, table=table, roots=site.order().roots)
    for level in range(4):
        assert verify(target, level).answer == "OK"
    assert table is not None
    table.close()


def test_a_second_stage_has_nothing_to_do(site: Site) -> None:
    site.stage()
    before = site.record()
    answer = site.stage(sources=())
    assert (answer.state, answer.copied_files) == ("ready", 0)
    assert site.record() == before
    assert plan(site.order()).exit_code == 0


def test_only_what_is_missing_or_wrong_is_copied(site: Site) -> None:
    site.stage()
    kept = {path: (site.target / path).stat().st_ino for path in SIZES}
    (site.target / "a/000.tar").unlink()
    with same_mtime(site.target / "b/000.tar"):
        flip(site.target / "b/000.tar", 150_000)
    os.truncate(site.target / "small/003", 5)
    answer = site.stage()
    assert (answer.state, answer.copied_files, answer.repaired_files) == ("ready", 3, 2)
    assert site.truth()
    changed = {path for path, inode in kept.items() if (site.target / path).stat().st_ino != inode}
    assert changed >= {"b/000.tar", "small/003"}
    assert changed <= {"a/000.tar", "b/000.tar", "small/003"}


def test_a_copy_made_otherwise_is_hashed_and_not_copied(site: Site) -> None:
    fill(site.target, SIZES)
    flip(site.target / "a/001.tar", 7)
    planned = plan(site.order())
    assert (planned.to_copy, planned.to_hash) == (0, len(SIZES))
    answer = site.stage()
    assert (answer.state, answer.copied_files) == ("ready", 1)
    assert site.truth()


def test_a_dry_run_changes_nothing(site: Site, tmp_path: Path) -> None:
    planned = plan(site.order())
    assert (planned.to_copy, planned.copy_bytes) == (len(SIZES), sum(SIZES.values()))
    assert planned.exit_code == 1
    assert not site.target.exists()
    assert not (tmp_path / "state").exists()
    assert "secret" not in json.dumps(planned.to_dict())


def test_the_rate_of_the_last_copy_makes_the_estimate(site: Site) -> None:
    site.stage()
    record = site.record()
    assert record is not None
    (site.target / "a/000.tar").unlink()
    planned = plan(site.order())
    assert planned.rate_bytes_s == record.bytes_per_s
    assert planned.eta_s == 300_000 / record.bytes_per_s  # type: ignore[operator]


def test_a_record_of_less_than_a_full_hash_proves_no_content(site: Site) -> None:
    fill(site.target, SIZES)
    flip(site.target / "a/000.tar", 200_000)
    assert site.bench().keep_record(1).state == "ready"
    answer = site.stage()
    assert (answer.state, answer.copied_files) == ("ready", 1)
    assert site.truth()


def test_stopped_while_it_hashes_what_lies_there(site: Site) -> None:
    fill(site.target, SIZES)
    for path in ("a/000.tar", "a/001.tar", "b/000.tar"):
        flip(site.target / path, 200_000)
    stop = threading.Event()
    assert stage(site.order(), lambda progress: stop.set(), stop).state == "copying"
    assert site.stage().state == "ready"
    assert site.truth()


def test_files_without_a_digest_are_not_called_ready(site: Site) -> None:
    bare = [replace(entry, digest=None, chunks=(), ends=None) for entry in site.manifest.files]
    some = [*bare[:3], *site.manifest.files[3:]]
    header = replace(site.manifest.header, content_id=content_id_of(some))
    site.publish(Manifest(header, some))
    answer = site.stage()
    assert (answer.state, answer.exit_code, answer.copied_files) == ("verifying", 3, len(SIZES))
    record = site.record()
    assert record is not None
    assert (record.state, record.level) == ("copied", 1)
    accepted = site.stage(accept_sizes=True)
    assert (accepted.state, accepted.exit_code) == ("ready", 0)
    record = site.record()
    assert record is not None
    assert (record.state, record.level) == ("ready", 1)


def test_one_stage_at_a_time(site: Site) -> None:
    state_dir = os.fspath(site.folder / "state")
    with (
        records.locked(state_dir, "demo", "local"),
        pytest.raises(HostError, match="somebody else"),
    ):
        site.stage()


def test_the_manifest_may_lie_inside(site: Site) -> None:
    site.target.mkdir(parents=True)
    (site.folder / "demo.jsonl").rename(site.target / "demo.jsonl")
    answer = site.stage(manifest=os.fspath(site.target / "demo.jsonl"))
    assert answer.state == "ready"


def test_the_wrong_manifest_is_refused(site: Site) -> None:
    with pytest.raises(ManifestError, match="is wanted"):
        site.stage(content_id="c1-" + "0" * 32)


def test_no_source_and_nothing_changed(site: Site) -> None:
    answer = site.stage(sources=(path_source(site.folder / "nowhere"),))
    assert (answer.state, answer.exit_code) == ("failed", 3)
    assert "no source" in answer.text
    assert any("nowhere" in note for note in answer.notes)
    assert site.record() is None


def test_told_to_stop_it_goes_on_later(site: Site) -> None:
    stop = threading.Event()
    stop.set()
    answer = stage(site.order(), None, stop)
    assert (answer.state, answer.exit_code) == ("copying", 3)
    assert not site.says_ready()
    assert site.bench().verify(0).answer == "FAIL"  # what a prolog looks at first
    assert site.stage().state == "ready"


def test_what_the_record_vouched_for_needs_no_hash_after_a_stop(site: Site) -> None:
    site.stage()
    (site.target / "index.json").unlink()
    stop = threading.Event()
    stop.set()
    stage(site.order(), None, stop)
    record = site.record()
    assert record is not None
    assert (record.state, record.table) == ("copying", None)
    planned = plan(site.order())
    assert (planned.to_copy, planned.to_hash, planned.kept_files) == (1, 0, len(SIZES) - 1)


def _let_the_tick_pass(site: Site) -> None:
    """What changed within the clock's last tick is not proven by being read now."""
    newest_ns = max(path.stat().st_ctime_ns for path in site.target.rglob("*"))
    while time.time_ns() - newest_ns <= 2 * TICK_NS:
        time.sleep(TICK_NS / 1e9)


def test_after_a_boot_the_journal_proves_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()
    fill(site.target, {path: size for path, size in SIZES.items() if path != "index.json"})
    _let_the_tick_pass(site)

    def stop_when_copying(progress: Progress) -> None:
        if progress.phase == "copying":
            stop.set()

    stage(site.order(sources=()), None, None)  # hashes what lies there, then has no source
    stage(site.order(), stop_when_copying, stop)
    assert plan(site.order()).to_hash == 0
    monkeypatch.setattr(this_boot, "boot_id", lambda roots: "another-boot")
    assert plan(site.order()).to_hash == len(SIZES) - 1
    assert site.stage().copied_files <= 1
    assert site.truth()


def test_a_small_repair_leaves_the_rate_of_the_copy(site: Site) -> None:
    site.stage()
    before = site.record()
    (site.target / "small/003").unlink()
    assert site.stage().copied_files == 1
    after = site.record()
    assert before is not None
    assert after is not None
    assert after.bytes_per_s == before.bytes_per_s


def test_links_inside_stand_for_files(site: Site) -> None:
    header = replace(site.manifest.header, links="inside")
    site.publish(Manifest(header, site.manifest.files))
    site.stage()
    (site.target / "a/000.tar").rename(site.target / "b/moved")
    (site.target / "a/000.tar").symlink_to("../b/moved")
    assert site.stage().state == "degraded"  # the file that the link leads to is extra
    assert (site.target / "a/000.tar").is_symlink()
