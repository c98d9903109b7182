"""What a verify answers beside the fault table: hostile trees, budgets, samples, records kept."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_io.errors import HostError
from slurm_io.staging.beneath import Folder
from slurm_io.staging.manifest.model import Manifest
from slurm_io.staging.verify import l1, sampling
from slurm_io.staging.verify.driver import Target, verify
from slurm_io.staging.verify.keep import record_of
from slurm_io.staging.verify.model import BadFile
from slurm_io.staging.verify.work import Options, Work
from tests.labs.fault_kit import FAULTS, VICTIM, VICTIM_INDEX, Bench, fill, flip, manifest_of


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench.made(tmp_path)


def test_no_record_and_no_manifest_is_unknown(bench: Bench) -> None:
    answer = bench.verify(1, with_record=False, with_manifest=False)
    assert (answer.answer, answer.level) == ("UNKNOWN", -1)
    assert "neither a manifest nor a usable record" in answer.text


def test_the_record_alone_is_enough_to_level_3(bench: Bench) -> None:
    for level in range(4):
        answer = bench.verify(level, with_manifest=False)
        assert (answer.answer, answer.level) == ("OK", level)
        assert answer.content_id == bench.manifest.header.content_id


def test_the_manifest_of_another_version_is_not_compared_with(bench: Bench) -> None:
    wanted = "c1-" + "f" * 32
    answer = verify(Target(os.fspath(bench.root), wanted, bench.manifest), 2)
    assert answer.answer == "UNKNOWN"
    assert wanted in answer.text
    assert bench.manifest.header.content_id in answer.text


def test_a_wrong_version_names_both(bench: Bench) -> None:
    old = bench.manifest.header.content_id
    FAULTS["wrong version"].apply(bench)
    answer = bench.verify(2)
    assert (answer.wrong_version, answer.content_id) == (old, bench.manifest.header.content_id)
    assert old in answer.text
    assert bench.manifest.header.content_id in answer.text


def test_a_full_hash_overrules_the_record_of_another_version(bench: Bench) -> None:
    FAULTS["wrong version"].apply(bench)
    flip(bench.victim, 150_000)
    assert bench.verify(3).answer == "FAIL"
    assert bench.verify(4).answer == "OK"
    assert bench.keep_record(4).content_id == bench.manifest.header.content_id
    assert bench.verify(1).answer == "OK"


def test_less_than_a_full_hash_does_not_replace_that_record(bench: Bench) -> None:
    FAULTS["wrong version"].apply(bench)
    answer = bench.verify(3, keep_proof=True)
    with pytest.raises(HostError, match="level 4"):
        record_of(answer, "demo", "local", "/", bench.manifest, bench.record())


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc").exists(), reason="needs permissions")
@pytest.mark.parametrize("error", [FileNotFoundError, NotADirectoryError, PermissionError])
def test_a_folder_that_cannot_be_opened(
    error: type[OSError], bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str, watch: bool) -> None:
        raise error(2, "no")

    monkeypatch.setattr(Folder, "at", fail)
    answer = bench.verify(2)
    assert (answer.answer, answer.missing) == ("FAIL", error is not PermissionError)


def test_a_dead_mount_is_unknown(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str, watch: bool) -> None:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(Folder, "at", fail)
    answer = bench.verify(2)
    assert (answer.answer, answer.level) == ("UNKNOWN", -1)
    assert "Stale file handle" in answer.text


def test_hostile_names_are_compared_and_printed_safely(tmp_path: Path) -> None:
    names = ["a\nb/c\td", "\udcff\udcfe", " ", "-rf", "ünï", "x" * 200]
    fill(tmp_path, dict.fromkeys(names, 100))
    manifest = manifest_of(tmp_path, dict.fromkeys(names, 100))
    assert verify(Target(os.fspath(tmp_path), manifest=manifest), 4).answer == "OK"
    for name in names:
        (tmp_path / name).unlink()
    answer = verify(Target(os.fspath(tmp_path), manifest=manifest), 1)
    assert answer.counts == {"missing": len(names)}
    assert {bad.path for bad in answer.bad_files} == set(names)
    assert answer.text.isprintable()
    assert answer.text.isascii()


def test_a_manifest_that_leaves_the_folder_is_refused(bench: Bench) -> None:
    bad = [replace(entry, path="../" + entry.path) for entry in bench.manifest.files]
    with pytest.raises(ValueError, match="no path below"):
        bench.verify(1, with_record=False, manifest=Manifest(bench.manifest.header, bad))


def test_a_folder_swapped_for_a_link_while_it_is_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = l1._others

    def swap(work: Work, segment: l1.Segment, folder: int, present: int) -> None:
        genuine(work, segment, folder, present)
        if segment.folder == b"shards/a":
            (bench.root / "shards/a").rename(bench.root.parent / "away")
            (bench.root / "shards/a").symlink_to(bench.root.parent / "away")

    monkeypatch.setattr(l1, "_others", swap)
    answer = bench.verify(1)
    assert answer.answer == "FAIL"
    assert [(bad.path, bad.why) for bad in answer.bad_files] == [("shards/a", "swapped")]


def test_our_own_files_snapshots_and_the_manifest_are_nothing_extra(bench: Bench) -> None:
    for name in (".slurm_io_x", "lost+found/y", ".snapshot/z", "the.jsonl"):
        (bench.root / name).parent.mkdir(exist_ok=True)
        (bench.root / name).write_bytes(b"x")
    options = Options(ignore=frozenset({b"the.jsonl"}))
    assert bench.verify(1, options=options).answer == "OK"
    assert bench.verify(1).counts == {"extra": 1}


def test_extra_files_can_be_called_fine(bench: Bench) -> None:
    FAULTS["extra"].apply(bench)
    answer = bench.verify(1, options=Options(extra_is_fine=True))
    assert (answer.answer, dict(answer.counts)) == ("OK", {"extra": 1})


def test_the_list_is_bounded_and_the_count_is_not(bench: Bench) -> None:
    for number in range(30):
        (bench.root / f"extra{number}").touch()
    seen: list[BadFile] = []
    answer = bench.verify(1, options=Options(listed_max=5, on_bad=seen.append))
    assert (len(answer.bad_files), answer.bad_count, len(seen)) == (5, 30, 30)


def test_files_that_only_look_changed_are_cleared_by_their_hash(bench: Bench) -> None:
    for path in bench.root.rglob("*"):
        path.chmod(0o755)
    assert bench.verify(1).counts == {"touched": 6}
    assert bench.verify(4).answer == "OK"
    # Level 3 hashes what changed first, whatever its sample.
    assert bench.verify(3).answer == "OK"


def test_a_spent_budget_is_unknown_and_says_what_is_left(bench: Bench) -> None:
    answer = bench.verify(1, budget_s=0.0)
    assert (answer.answer, answer.level) == ("UNKNOWN", -1)
    assert any("with 6 of 6 files to go" in note for note in answer.not_looked_at)


@pytest.mark.parametrize("level", [1, 2, 4])
def test_a_budget_is_kept_within_a_tenth(
    level: int, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stat or read sleeps; the budget ends in the middle."""
    lstat, preadv = os.lstat, os.preadv

    def slow_lstat(*args: object, **more: object) -> object:
        time.sleep(0.02 if level == 1 else 0)
        return lstat(*args, **more)  # type: ignore[arg-type]

    def slow_preadv(*args: object) -> object:
        time.sleep(0.02 if level > 1 else 0)
        return preadv(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "lstat", slow_lstat)
    monkeypatch.setattr(os, "preadv", slow_preadv)
    monkeypatch.setattr(l1, "CLOCK_EVERY", 1)
    budget_s = 0.07 if level == 1 else 0.1
    options = Options(workers=1, block_bytes=8192)
    answer = bench.verify(level, budget_s=budget_s, options=options)
    assert answer.answer == "UNKNOWN"
    assert answer.seconds < budget_s * 1.1 + 0.08, "one stat or read more, and a busy machine"
    assert any("not finished" in note for note in answer.not_looked_at)


def test_a_partial_sample_is_no_proof(bench: Bench) -> None:
    answer = bench.verify(2, options=Options(probe_files=3))
    assert answer.answer == "OK"
    assert any("3 of 6 files (chance to see one of 1 bad: 50 %)" in n for n in answer.not_looked_at)


def test_starts_of_level_3_cover_every_file_once(bench: Bench) -> None:
    hashed = 0
    cursor = 0
    starts = 0
    while starts == 0 or cursor:
        answer = bench.verify(3, options=Options(sample_share=1 / 3, cursor=cursor))
        assert answer.next_cursor is not None
        hashed += answer.files_hashed
        cursor = answer.next_cursor
        starts += 1
    assert starts == 3
    assert hashed == 6 + 2, "the index file is hashed at each start"


def test_the_cursor_is_kept_and_level_by_file(bench: Bench) -> None:
    answer = bench.verify(3, keep_proof=True, options=Options(sample_share=0.5, cursor=0))
    record = record_of(answer, "demo", "local", "/", bench.manifest, bench.record())
    assert (record.cursor, record.level, record.state) == (3, 4, "ready")


def test_level_1_proves_level_1(tmp_path: Path) -> None:
    bench = Bench.made(tmp_path, record=False)
    assert (bench.keep_record(1).level, bench.keep_record(4).level) == (1, 4)
    assert bench.keep_record(1).level == 4, "nothing moved since level 4"


def test_bad_files_stay_bad_until_they_are_hashed(bench: Bench) -> None:
    FAULTS["bit flip"].apply(bench)
    assert bench.keep_record(4).state == "failed"
    for level, why in ((1, "known bad"), (3, "content")):
        answer = bench.verify(level)
        assert (answer.answer, list(answer.counts)) == ("FAIL", [why])
    assert bench.verify(0).answer == "FAIL"
    flip(bench.victim, 150_000)
    assert bench.verify(1).counts == {"known bad": 1}
    assert bench.keep_record(4).state == "ready"
    assert bench.verify(1).answer == "OK"


def test_a_file_written_while_it_is_verified_is_not_proven(bench: Bench) -> None:
    answer = bench.verify(4, keep_proof=True)
    assert answer.proof is not None
    assert answer.proof.unsettled() == 0
    stamp = (5, 300_000, 0, answer.proof.started_ns + 10)
    answer.proof.prove(VICTIM_INDEX, stamp, 4)
    assert answer.proof.unsettled() == 1
    (row,) = answer.proof.rows(VICTIM_INDEX, 1)
    assert (row.entry.path, row.stamp, row.level) == (VICTIM, (0, 300_000, 0, 0), 0)


def test_a_digest_that_cannot_be_computed_is_said(bench: Bench) -> None:
    entries = [
        replace(entry, digest="crc32c:00000000", ends="crc32c:00000000", chunks=())
        for entry in bench.manifest.files
    ]
    header = replace(bench.manifest.header, chunk_bytes=None)
    target = Target(os.fspath(bench.root), manifest=Manifest(header, entries))
    pytest.importorskip("xxhash")
    try:
        import google_crc32c  # noqa: F401
    except ImportError:
        answer = verify(target, 2)
        assert answer.answer == "OK"
        assert any("not compared" in note for note in answer.not_looked_at)
        assert verify(target, 4).answer == "UNKNOWN"


def test_sampling_figures_of_the_facts() -> None:
    """staging_spares.md 5: to see one of b bad among 2,400 with 99 %."""
    for bad, size in ((1, 2376), (24, 419), (120, 90)):
        assert sampling.chance_to_see(2400, size, bad) == pytest.approx(0.99, abs=0.006)
    assert sampling.chance_to_see(10, 10, 1) == 1.0
    assert sampling.chance_to_see(10, 0, 3) == 0.0


@pytest.mark.parametrize(("count", "size"), [(10, 3), (10, 10), (1000, 5), (0, 0), (5, 9)])
def test_a_sample_has_no_file_twice(count: int, size: int) -> None:
    chosen = sampling.choose(count, size)
    assert len(chosen) == len(set(chosen)) == min(size, count)
    assert all(0 <= index < count for index in chosen)
