"""Full hashes: small files by the batch and huge ones by many reads come to the same answers."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_io.staging.manifest.model import FileEntry, Manifest
from slurm_io.staging.verify import hashing, pieces
from slurm_io.staging.verify.driver import Target, verify
from slurm_io.staging.verify.journal import Journal
from slurm_io.staging.verify.model import VerifyAnswer
from slurm_io.staging.verify.work import Options
from tests.labs.fault_kit import Bench, flip

SMALL = {
    **{f"{folder}/{number:03}.jpg": 1000 + number for folder in "abc" for number in range(90)},
    "a/deep/er/one": 3,
    "empty": 0,
    "zz": 5000,
}


def bench_of(tmp_path: Path, sizes: dict[str, int] | None = None) -> Bench:
    return Bench.made(tmp_path, sizes or SMALL, record=False)


def level_4(bench: Bench, options: Options | None = None, **target: object) -> VerifyAnswer:
    wanted = Target(os.fspath(bench.root), manifest=bench.manifest, **target)  # type: ignore[arg-type]
    return verify(wanted, 4, None, options)


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("batch", [1, 7, 64])
def test_all_small_files_are_hashed_once(
    tmp_path: Path, workers: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashing, "BATCH_FILES", batch)
    bench = bench_of(tmp_path)
    told: list[tuple[int, int, int]] = []
    before = open_fds()
    options = Options(workers=workers, progress=lambda *each: told.append(each), probe_files=0)
    answer = level_4(bench, options)
    assert (answer.answer, answer.level, answer.files_hashed) == ("OK", 4, len(SMALL))
    assert answer.bytes_read == sum(SMALL.values())
    assert told[-1] == (4, sum(SMALL.values()), sum(SMALL.values()))
    assert open_fds() == before


def test_every_fault_of_a_small_file_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = bench_of(tmp_path)
    root = bench.root
    genuine = hashing.HashPool.run

    def attack(self: hashing.HashPool, rows: object) -> set[int]:
        """After level 1 has seen that all was well."""
        (root / "a/000.jpg").unlink()
        os.truncate(root / "a/001.jpg", 500)
        os.truncate(root / "a/002.jpg", 5000)
        (root / "a/003.jpg").unlink()
        (root / "a/003.jpg").symlink_to("/etc/passwd")
        (root / "a/004.jpg").unlink()
        os.mkfifo(root / "a/004.jpg")
        flip(root / "a/005.jpg", 700)
        (root / "a/006.jpg").write_bytes(bytes(1006))
        shutil.rmtree(root / "b")
        (root / "c").rename(root / "away")
        (root / "c").symlink_to("away")
        return genuine(self, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(hashing.HashPool, "run", attack)
    answer = level_4(bench)
    found = {bad.path: bad.why for bad in answer.bad_files if bad.path.startswith("a/00")}
    assert found == {
        "a/000.jpg": "missing",
        "a/001.jpg": "truncated",
        "a/002.jpg": "longer",
        "a/003.jpg": "not a file",
        "a/004.jpg": "not a file",
        "a/005.jpg": "content",
        "a/006.jpg": "zero tail",
    }
    assert answer.counts["missing"] == 1 + 90, "all of b"
    assert answer.counts["unreadable"] == 90, "all of c, which is a link now"
    assert answer.files_hashed == len(SMALL) - 5 - 180


def test_a_small_file_that_changes_while_it_is_read_is_not_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = bench_of(tmp_path)
    genuine = pieces.FileRun.close

    def touch(self: pieces.FileRun) -> None:
        if self.path == b"zz":
            os.utime(bench.root / "zz")
        genuine(self)

    monkeypatch.setattr(pieces.FileRun, "close", touch)
    answer = level_4(bench, keep_proof=True)
    assert [(bad.path, bad.why) for bad in answer.bad_files] == [("zz", "changed")]


def test_what_a_level_4_that_was_cut_short_has_proven_is_not_read_again(tmp_path: Path) -> None:
    bench = bench_of(tmp_path)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        ident, inode = bench.manifest.header.content_id, bench.root.stat().st_ino
        with Journal(folder, ident, inode) as journal:
            first = level_4(bench, Options(probe_files=0), journal=journal)
        os.utime(bench.root / "zz")
        with Journal(folder, ident, inode) as journal:
            again = level_4(bench, Options(probe_files=0), journal=journal)
    finally:
        os.close(folder)
    assert (first.bytes_read, again.bytes_read) == (sum(SMALL.values()), 5000)
    assert again.files_hashed == len(SMALL)


def test_the_time_over_in_a_batch_leaves_the_rest_unproven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = bench_of(tmp_path)
    genuine, begun = pieces.begin, [0]

    def begin(*given: object) -> object:
        begun[0] += 1
        return genuine(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(pieces, "begin", begin)
    monkeypatch.setattr(pieces.Deadline, "over", lambda self: begun[0] >= 20)
    answer = level_4(bench, Options(workers=1, probe_files=0))
    assert (answer.answer, answer.level) == ("UNKNOWN", 2)
    assert answer.files_hashed == 20, "the last one was read by then"
    assert f"level 4: {len(SMALL) - 20} of {len(SMALL)} files were not hashed" in "".join(
        answer.not_looked_at
    )


def test_small_files_without_a_usable_digest_are_said(tmp_path: Path) -> None:
    bench = bench_of(tmp_path)

    def without(entry: FileEntry) -> FileEntry:
        digest = {"a": None, "b": "crc64nvme:" + "0" * 16}.get(entry.path[0], entry.digest)
        return replace(entry, digest=digest)

    bench.manifest = Manifest(bench.manifest.header, [without(e) for e in bench.manifest.files])
    answer = level_4(bench)
    assert (answer.answer, answer.files_hashed) == ("UNKNOWN", 92)
    notes = "\n".join(answer.not_looked_at)
    assert "files without a digest in the manifest were not hashed" in notes
    assert "cannot make crc64nvme digests" in notes


@pytest.mark.parametrize("fault", ["", "flip", "truncate"])
def test_a_huge_file_is_read_ahead(
    tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashing, "HUGE_BYTES", 1_500_000)
    monkeypatch.setattr(pieces, "TOLD_BYTES", 300_000)
    bench = bench_of(tmp_path, {"huge": 3_000_001})
    entry = replace(bench.manifest.files[0], chunks=())
    bench.manifest = Manifest(replace(bench.manifest.header, chunk_bytes=None), [entry])
    ahead: list[int] = []
    genuine = pieces.read_ahead

    def read_ahead(readers: list[pieces.Reader], *given: int) -> object:
        ahead.append(len(readers))
        if fault == "truncate":
            os.truncate(bench.root / "huge", 1_000_000)
        return genuine(readers, *given)

    monkeypatch.setattr(pieces, "read_ahead", read_ahead)
    if fault == "flip":
        flip(bench.root / "huge", 2_000_000)
    told: list[int] = []
    options = Options(
        block_bytes=100_000, probe_files=0, progress=lambda level, done, _: told.append(done)
    )
    answer = level_4(bench, options)
    assert ahead == [hashing.MOST_READS + 1]
    assert told[-1] == 3_000_001
    assert told == sorted(told)
    if fault == "truncate":
        assert answer.answer == "FAIL"
    else:
        assert dict(answer.counts) == ({"content": 1} if fault else {})
        assert answer.bytes_read == 3_000_001
        assert len(told) > 8, "signs of life on the way"


def test_many_files_are_not_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "HUGE_BYTES", 1_500_000)
    monkeypatch.setattr(hashing, "MOST_READS", 4)
    bench = bench_of(tmp_path, {f"{number}": 2_000_000 for number in range(9)})
    monkeypatch.setattr(pieces, "read_ahead", None)
    assert level_4(bench, Options(workers=8)).answer == "OK"


@pytest.mark.parametrize(("slow_s", "least", "most"), [(1000.0, 1, 1), (0.0, 2, 8)])
def test_small_files_get_more_threads_only_where_the_storage_keeps_them_waiting(
    tmp_path: Path, slow_s: float, least: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashing, "SLOW_FILE_S", slow_s)
    monkeypatch.setattr(hashing, "BATCH_FILES", 2)
    monkeypatch.setattr(hashing.os, "cpu_count", lambda: 1)
    started: list[pieces.Worker] = []

    def counted(*given: object) -> pieces.Worker:
        started.append(pieces.Worker(*given))  # type: ignore[arg-type]
        return started[-1]

    monkeypatch.setattr(hashing, "Worker", counted)
    assert level_4(bench_of(tmp_path)).answer == "OK"
    assert least <= len(started) <= most
