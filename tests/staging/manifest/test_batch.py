"""Batches of small files: every outcome in its place, whatever is in memory and whatever is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_io.staging.beneath import Folder
from slurm_io.staging.manifest.batch import Done, Job, hash_large, hash_small
from slurm_io.staging.manifest.hashing import FileDigest, FileHasher, HowToHash, digest_bytes
from slurm_io.staging.manifest.journal import Journal

SIZES = [0, 1, 4096, 100_000, 131_072, 131_073, 1_500_000]


def made(root: Path) -> tuple[list[Job], dict[int, bytes]]:
    jobs, contents = [], {}
    for number, size in enumerate(SIZES * 5):
        path = f"{number % 3}/{number}"
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        contents[number] = os.urandom(size)
        with (root / path).open("wb") as file:
            file.write(contents[number])
            os.fsync(file.fileno())
        jobs.append(Job(number, path.encode(), path.encode(), size))
    return jobs, contents


def forget(root: Path, jobs: list[Job]) -> None:
    """Out of the page cache, where there is a disk below it."""
    for job in jobs:
        with (root / job.opened.decode()).open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def hashed(root: Path, jobs: list[Job], open_files: int, how: HowToHash | None = None) -> Done:
    with Folder.at(str(root)) as folder:
        return hash_small(folder, jobs, FileHasher(how or HowToHash()), open_files)


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


@pytest.mark.parametrize("open_files", [1, 3, 100])
@pytest.mark.parametrize("in_memory", [True, False])
def test_each_file_has_its_own_digest(tmp_path: Path, open_files: int, in_memory: bool) -> None:
    jobs, contents = made(tmp_path)
    if not in_memory:
        forget(tmp_path, jobs)
    before = open_fds()
    done = hashed(tmp_path, jobs, open_files, HowToHash(chunk_bytes=100_000))
    assert open_fds() == before
    found = dict(done.outcomes)
    assert len(done.outcomes) == len(found) == len(jobs)
    for number, data in contents.items():
        outcome = found[number]
        assert isinstance(outcome, FileDigest)
        assert outcome.digest == digest_bytes(data)
        assert len(outcome.chunks) == (-(-len(data) // 100_000) if len(data) > 100_000 else 0)


def test_a_file_that_cannot_be_read_gives_its_reason_and_keeps_no_other_from_its_digest(
    tmp_path: Path,
) -> None:
    jobs, _ = made(tmp_path)
    (tmp_path / "0/3").unlink()
    (tmp_path / "1/4").unlink()
    (tmp_path / "1/4").symlink_to("/etc/passwd")
    (tmp_path / "2/5").unlink()
    os.mkfifo(tmp_path / "2/5")
    before = open_fds()
    found = dict(hashed(tmp_path, jobs, 4).outcomes)
    assert open_fds() == before
    assert found[3] == "cannot be read (No such file or directory)"
    assert found[4] == "cannot be read (Too many levels of symbolic links)"
    assert found[5] == "is not a regular file"
    assert sum(isinstance(outcome, FileDigest) for outcome in found.values()) == len(jobs) - 3


def test_a_file_that_changes_while_it_is_waited_for_has_no_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, _ = made(tmp_path)
    genuine = FileHasher.begin

    def begin(self: FileHasher, fd: int) -> object:
        found = genuine(self, fd)
        if os.fstat(fd).st_size == 1_500_000:
            os.utime(fd)
        return found

    monkeypatch.setattr(FileHasher, "begin", begin)
    found = dict(hashed(tmp_path, jobs, 100).outcomes)
    changed = [number for number, outcome in found.items() if isinstance(outcome, str)]
    assert changed == [6, 13, 20, 27, 34]
    assert {found[number] for number in changed} == {"changed while it was read"}


def test_the_journal_takes_the_line_and_knows_every_digest_by_its_own_path(tmp_path: Path) -> None:
    jobs, _ = made(tmp_path / "root")
    jobs = [job._replace(raw_path=b"link\xff" + job.raw_path) for job in jobs]
    (tmp_path / "root/0/3").unlink()
    done = hashed(tmp_path / "root", jobs, 4)
    for _ in range(2):
        log = Journal(str(tmp_path / "j"), {"created_at": ""})
        log.add(done.line)
        log.close(remove=False)
    found = dict(done.outcomes)
    wanted = {f"link\udcff{number % 3}/{number}": found[number] for number in found if number != 3}
    assert log.digests == wanted


def test_a_large_file_tells_its_bytes_and_what_the_caller_raises_comes_out(tmp_path: Path) -> None:
    jobs, _ = made(tmp_path)
    told: list[int] = []
    with Folder.at(str(tmp_path)) as folder:
        done = hash_large(folder, jobs[6], FileHasher(HowToHash()), told.append)
        assert sum(told) == 1_500_000 and len(told) == 2
        assert isinstance(done.outcomes[0][1], FileDigest)
        with pytest.raises(ZeroDivisionError):
            hash_large(folder, jobs[6], FileHasher(HowToHash()), lambda count: count // 0)
        gone = Job(9, b"gone", b"gone", 5)
        done = hash_large(folder, gone, FileHasher(HowToHash()), told.append)
    assert done == Done([(9, "cannot be read (No such file or directory)")], b"")
