"""Building: a manifest names every file as it is, or there is none."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import xxhash

from slurm_io.errors import ManifestError, UsageError
from slurm_io.staging.manifest import build as building
from slurm_io.staging.manifest import pool
from slurm_io.staging.manifest.build import (
    BuildOptions,
    BuildProblems,
    BuildResult,
    Progress,
    build,
    new_template,
)
from slurm_io.staging.manifest.files import open_manifest

OPTIONS = BuildOptions(new_template("c4", created_at="2026-01-02T03:04:05Z"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small dataset with every kind of name."""
    folder = tmp_path / "c4"
    for n in range(40):
        (folder / f"part-{n % 3}").mkdir(parents=True, exist_ok=True)
        (folder / f"part-{n % 3}/{n}.tar").write_bytes(os.urandom(n * 1000))
    (folder / "index.json").write_text("{}")
    Path(os.fsdecode(os.fsencode(folder) + b"/a\nb\xff")).write_text("odd")
    return folder


def make(root: Path, options: BuildOptions = OPTIONS, name: str = "m.jsonl") -> BuildResult:
    return build(str(root), str(root.parent / name), options)


def test_every_file_with_its_digests(root: Path) -> None:
    make(root)
    found = open_manifest(str(root.parent / "m.jsonl"))
    assert found.header.file_count == 42 and found.header.missing_count == 0
    assert found.header.total_bytes == sum(range(40)) * 1000 + 5
    for entry in found.files:
        data = (root / entry.path).read_bytes()
        assert entry.size_bytes == len(data)
        assert entry.digest == f"xxh3-128:{xxhash.xxh3_128_hexdigest(data)}"
        assert entry.ends == entry.digest
    assert [e.path for e in found.files if e.role == "index"] == ["index.json"]
    assert "1 path(s) not UTF-8" in found.header.notes[0]
    assert not (root.parent / "m.jsonl.journal").exists()


@pytest.mark.parametrize("files_per_process", [1, 1000])
@pytest.mark.parametrize("large_bytes", [0, 20_000, 1 << 30])
def test_lanes_and_processes_give_the_same_bytes(
    root: Path, monkeypatch: pytest.MonkeyPatch, files_per_process: int, large_bytes: int
) -> None:
    (root / "link").symlink_to("part-1/1.tar")
    options = replace(OPTIONS, chunk_bytes=10_000, follow_links="inside", workers=1)
    make(root, options)
    monkeypatch.setattr(pool, "BATCH_FILES", 5)
    monkeypatch.setattr(pool, "FILES_PER_PROCESS", files_per_process)
    monkeypatch.setattr(pool, "LARGE_BYTES", large_bytes)
    make(root, replace(options, workers=3), "m2.jsonl")
    first, second = (root.parent / name for name in ("m.jsonl", "m2.jsonl"))
    assert first.read_bytes() == second.read_bytes()


def test_a_file_that_the_others_would_wait_for_is_read_ahead() -> None:
    def work(*sizes: int) -> list[tuple[int, int]]:
        jobs = [pool.Job(n, b"%d" % n, b"%d" % n, size << 20) for n, size in enumerate(sizes)]
        queue = pool._Work(jobs, 2)
        taken = iter(queue.next_large, None)
        return [(job.size_bytes >> 20, ahead) for job, ahead in taken]

    assert work(100, 900, 100) == [(900, pool.READERS), (100, pool.READERS), (100, pool.READERS)]
    assert work(50, 50, 50, 50) == [(50, 1), (50, 1), (50, pool.READERS), (50, pool.READERS)]
    assert work(1, 7) == []


def test_small_files_are_taken_folder_by_folder() -> None:
    paths = [b"b/1", b"a/1", b"b/0", b"a/0"]
    jobs = [pool.Job(n, path, path, 1000 - n) for n, path in enumerate(paths)]
    batches = iter(pool._Work(jobs, 2).next_batch, None)
    assert [[job.opened for job in batch] for batch in batches] == [sorted(paths)]


def test_an_error_of_the_caller_stops_all_lanes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "BATCH_FILES", 2)
    monkeypatch.setattr(pool, "FILES_PER_PROCESS", 1)

    def stop(progress: Progress) -> None:
        if progress.phase == "hashing" and progress.files >= 4:
            raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        build(str(root), str(root.parent / "m"), replace(OPTIONS, workers=2), stop)
    assert threading.active_count() == before
    assert not pool_of(os.getpid())
    assert 4 <= make(root, replace(OPTIONS, workers=2), "m").resumed_files < 42


def test_building_into_the_folder_itself(root: Path) -> None:
    for _ in range(2):
        build(str(root), str(root / "m.jsonl"), OPTIONS)
    assert open_manifest(str(root / "m.jsonl")).header.file_count == 42


def test_the_collector_of_cycles_is_as_it_was(root: Path) -> None:
    before = gc.get_threshold()
    make(root)
    with pytest.raises(ManifestError):
        make(root / "absent")
    assert gc.get_threshold() == before
    assert gc.isenabled()


def test_algorithm_and_chunks(root: Path) -> None:
    make(root, replace(OPTIONS, algorithm="sha256", chunk_bytes=10_000, ends=False))
    found = open_manifest(str(root.parent / "m.jsonl"))
    assert found.header.algorithm == "sha256" and found.header.chunk_bytes == 10_000
    longest = max(found.files, key=lambda entry: entry.size_bytes or 0)
    assert len(longest.chunks) == 4 and longest.ends is None


def test_chunks_grow_with_the_largest_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "MAX_CHUNKS", 4)
    assert make(root, replace(OPTIONS, chunk_bytes=1000)).header.chunk_bytes == 16_000


def test_progress_comes_to_its_end(root: Path) -> None:
    told: list[Progress] = []
    build(str(root), str(root.parent / "m"), OPTIONS, told.append)
    last = [each for each in told if each.phase == "hashing"][-1]
    assert (last.files, last.bytes) == (last.files_total, last.bytes_total) == (42, 780_005)
    assert told[0].phase == "listing" and told[-1].phase == "checking"


def test_problems_are_all_listed_and_nothing_is_written(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to("index.json")
    with pytest.raises(BuildProblems, match="2 path.s. cannot be in it") as caught:
        make(root)
    assert [problem.path for problem in caught.value.problems] == ["link", "pipe"]
    assert [each.name for each in root.parent.iterdir()] == ["c4"]


def test_keep_going_never_looks_complete(root: Path) -> None:
    os.mkfifo(root / "pipe")
    result = make(root, replace(OPTIONS, keep_going=True))
    assert result.header.missing_count == 1 == len(result.problems)
    found = open_manifest(str(root.parent / "m.jsonl"))
    assert found.header.file_count == 42
    assert found.header.notes[0].startswith("INCOMPLETE: 1 path(s)")
    assert "'pipe'" in found.header.notes[1]


def test_links_inside(root: Path) -> None:
    (root / "link").symlink_to("part-1/1.tar")
    result = make(root, replace(OPTIONS, follow_links="inside"))
    found = {entry.path: entry for entry in open_manifest(str(root.parent / "m.jsonl")).files}
    assert found["link"].digest == found["part-1/1.tar"].digest
    assert "1 file(s) are symbolic links inside the folder" in result.header.notes


def test_left_out_files_are_noted(root: Path) -> None:
    (root / ".1.tar.aB3xZ9").write_text("debris")
    result = make(root, replace(OPTIONS, exclude=("part-2",)))
    assert result.left_out == {"rsync's temporary files": 1, "part-2": 1}
    assert any(note.startswith("left out 1 path(s): 'part-2'") for note in result.header.notes)
    assert make(root, replace(OPTIONS, default_excludes=False)).header.file_count == 43


@pytest.mark.parametrize("kind", ["empty", "absent", "file", "only debris"])
def test_nothing_to_build_from(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "root"
    if kind == "file":
        root.write_text("x")
    elif kind != "absent":
        (root / "sub" / ".snapshot").mkdir(parents=True)
        (root / "sub" / ".snapshot" / "f").write_text("x")
    with pytest.raises(ManifestError, match="holds no file|cannot be read"):
        build(str(root), str(tmp_path / "m"), OPTIONS)
    assert not (tmp_path / "m").exists() and not (tmp_path / "m.journal").exists()


def test_what_cannot_end_well_shows_at_once(root: Path) -> None:
    with pytest.raises(ManifestError, match="rot13"):
        make(root, replace(OPTIONS, algorithm="rot13"))
    with pytest.raises(UsageError, match="is a folder"):
        build(str(root), str(root), OPTIONS)
    with pytest.raises(ManifestError, match="cannot be written"):
        build(str(root), str(root / "absent/m"), OPTIONS)
    with pytest.raises(UsageError, match="1 to 256 printable"):
        new_template("a\nb")


def attack(root: Path, change: str) -> None:
    """What another process may do to a file while the build is about to read it."""
    victim = root / "part-2/2.tar"
    if change == "edit":
        victim.write_bytes(b"z" * 2000)
        return
    if change == "appear":
        (root / "part-2/new").write_text("x")
        return
    victim.unlink()
    if change == "link":
        victim.symlink_to("/etc/passwd")
    elif change == "pipe":
        os.mkfifo(victim)
    elif change == "folder":
        victim.mkdir()
    elif change == "parent link":
        (root / "part-2").rename(root.parent / "moved")
        (root / "part-2").symlink_to(root.parent / "moved")


@pytest.mark.parametrize(
    "change", ["edit", "appear", "gone", "link", "pipe", "folder", "parent link"]
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_change_between_listing_and_end(
    root: Path, monkeypatch: pytest.MonkeyPatch, change: str, when: str
) -> None:
    real = building.hash_files

    def hash_files(*given: object) -> None:
        if when == "before" and change != "edit":  # read as edited it is simply the new content
            attack(root, change)
        real(*given)  # type: ignore[arg-type]
        if when == "after" or change == "edit":
            attack(root, change)

    monkeypatch.setattr(building, "hash_files", hash_files)
    with pytest.raises(BuildProblems):
        make(root)
    assert not (root.parent / "m.jsonl").exists()


def test_edit_before_reading_is_in_the_manifest(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = building.hash_files

    def hash_files(*given: object) -> None:
        attack(root, "edit")
        real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(building, "hash_files", hash_files)
    make(root)
    found = {entry.path: entry for entry in open_manifest(str(root.parent / "m.jsonl")).files}
    assert found["part-2/2.tar"].digest == f"xxh3-128:{xxhash.xxh3_128_hexdigest(b'z' * 2000)}"


def test_killed_worker_is_an_error_and_what_was_done_is_kept(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "BATCH_FILES", 4)
    monkeypatch.setattr(pool, "FILES_PER_PROCESS", 1)
    for n in range(3000):
        (root / f"part-0/more-{n}").touch()
    killed: list[int] = []

    def kill_one(progress: Progress) -> None:
        if progress.phase == "hashing" and progress.files >= 8 and not killed:
            crew = pool_of(os.getpid())
            os.kill(crew[0], signal.SIGKILL)
            killed.append(crew[0])

    options = replace(OPTIONS, workers=2)
    with pytest.raises(ManifestError, match="killed by signal 9"):
        build(str(root), str(root.parent / "m"), options, kill_one)
    assert killed and not (root.parent / "m").exists()
    assert not pool_of(os.getpid())
    assert build(str(root), str(root.parent / "m"), options).resumed_files >= 8


def pool_of(pid: int) -> list[int]:
    """Process ids of a process's hashing workers."""
    found = subprocess.run(
        ["pgrep", "-P", str(pid), "-f", "manifest.worker"],
        capture_output=True,
        text=True,
        check=False,
    )
    return [int(line) for line in found.stdout.split()]


BUILD = """
import sys, os, time
from dataclasses import replace
from slurm_io.staging.manifest import build as building, pool
pool.BATCH_FILES = 3
pool.FILES_PER_PROCESS = 1
root, output, workers, pause = sys.argv[1:]
def slowly(progress):
    if progress.phase == "hashing":
        print(progress.files, flush=True)
        time.sleep(float(pause))
options = building.BuildOptions(building.new_template("c4"), workers=int(workers))
print("resumed", building.build(root, output, options, slowly).resumed_files)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_build_goes_on_and_gives_the_identical_manifest(root: Path, workers: int) -> None:
    output = root.parent / "m.jsonl"
    command = [sys.executable, "-c", BUILD, str(root), str(output), str(workers)]
    for files in (9, 30):
        with subprocess.Popen([*command, "0.01"], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                if int(line) >= files:
                    break
            crew = pool_of(child.pid)
            child.kill()
        assert not output.exists()
        _gone(crew)
    created_at = '"created_at":"'
    first = (root.parent / "m.jsonl.journal").read_text().partition(created_at)[2][:20]
    time.sleep(max(0.0, 1.01 - time.time() % 1))  # another second: only the journal knows the first
    done = subprocess.run([*command, "0"], capture_output=True, text=True, check=True)
    resumed = int(done.stdout.split()[-1])
    assert 30 <= resumed <= 42
    # What an undisturbed build of that first moment would have written:
    options = BuildOptions(new_template("c4", created_at=first))
    build(str(root), str(root.parent / "whole.jsonl"), options)
    assert output.read_bytes() == (root.parent / "whole.jsonl").read_bytes()
    assert not (root.parent / "m.jsonl.journal").exists()


def _gone(crew: list[int]) -> None:
    """Workers end when their build is gone."""
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}/cmdline").exists() for pid in crew):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_file_changed_since_the_journal_is_hashed_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disk_full(*given: object) -> None:
        raise ManifestError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(building.files, "write_manifest", disk_full)
        with pytest.raises(ManifestError, match="no space"):
            make(root)
    victim = root / "part-2/2.tar"
    before = victim.stat()
    victim.write_bytes(b"z" * before.st_size)
    os.utime(victim, ns=(before.st_atime_ns, before.st_mtime_ns))  # as rsync -t would
    assert make(root).resumed_files == 41
    found = {entry.path: entry for entry in open_manifest(str(root.parent / "m.jsonl")).files}
    assert found["part-2/2.tar"].digest == f"xxh3-128:{xxhash.xxh3_128_hexdigest(b'z' * 2000)}"


def test_journal_of_a_manifest_that_was_written_is_spent(root: Path) -> None:
    make(root)
    journal = root.parent / "m.jsonl.journal"
    journal.write_text("left by a kill in the last instant")
    os.utime(journal, (1, 1))
    assert make(root).resumed_files == 0
