"""What verifying costs: files/s at level 1, bytes/s at level 4, beside the bare tools.

``python bench/verify.py [--files N] [--mib M] [--memory DIR] [--disk DIR] [--rounds R]`` makes N
files in folders of 1000 and M MiB in files of 64 MiB, then ten times as much, and prints:

1. level 1 (stat of every file against the record, and a look for extra ones), in memory, beside a
   bare os.scandir + stat, ``find -printf`` and ``rclone check --size-only`` of the folder with
   itself (which lists both sides),
2. level 4 (full xxh3-128) in memory, beside a bare xxhash loop and a bare read of all with as many
   threads, ``xxhsum`` and ``b3sum``; and the whole command, start of Python and all,
3. level 4 on a disk, the files' data dropped from memory before every run, beside plain reads
   (through the page cache, and past it) and the same tools,
4. level 4 of small files (16 KiB), in memory and on the disk.

Every figure is the least of several rounds (three times as many on a disk) that take turns, by the
clock and by CPU time (children included). A peer that is not installed is named and left out.

Budgets: level 1 at least 0.8 of the bare stat rate, level 4 at least 0.9 of the lower of hash and
read. In memory they are judged by CPU time, which a busy machine does not spoil as much: nothing
else is spent there. On the disk they are judged by the clock, against the faster plain read.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.lab.file_peers import (
    Job,
    Scratch,
    bare_hash,
    bare_read,
    forget,
    hash_tools,
    in_threads,
    in_turns,
    is_here,
    make_large,
    make_small,
    medium,
    show,
    show_load,
    silent,
    told,
)
from slurm_io.staging import record as records
from slurm_io.staging.manifest.content_id import content_id_of
from slurm_io.staging.manifest.files import write_manifest
from slurm_io.staging.manifest.hashing import FileHasher, HowToHash
from slurm_io.staging.manifest.model import FileEntry, Header, Manifest
from slurm_io.staging.verify.driver import Target, verify
from slurm_io.staging.verify.keep import keep, record_of

L1_BUDGET, L4_BUDGET = 0.8, 0.9
FILE_MIB = 64
DISK_TURNS = 3  # a disk's speed varies more from one reading to the next than memory's
SMALL_BYTES = 16 << 10


def manifest_of(root: Path, paths: list[Path]) -> Manifest:
    """Of these files, with digests."""
    hasher, entries = FileHasher(HowToHash()), []
    for path in sorted(paths, key=os.fsencode):
        with path.open("rb") as file:
            found = hasher.digest(file.fileno())
        name, size = os.fspath(path.relative_to(root)), found.identity.size_bytes
        entries.append(FileEntry(name, size, found.digest, found.ends))
    total = sum(entry.size_bytes or 0 for entry in entries)
    return Manifest(Header("bench", content_id_of(entries), len(entries), total), entries)


def kept_record(root: Path, state: str, manifest: Manifest) -> Target:
    """Verify once at level 1 and keep the record; the target that uses it."""
    answer = verify(Target(os.fspath(root), manifest=manifest, keep_proof=True), 1)
    assert answer.proof is not None, answer.text
    with records.locked(state, "bench", "local") as folder:
        record = record_of(answer, "bench", "local", os.fspath(root), manifest, None)
        record = keep(folder, record, answer.proof)
    table = records.open_table(state, record)
    return Target(os.fspath(root), record=record, table=table)


def scandir_and_stat(root: str) -> int:
    """The least a Python program can do to stat a whole tree."""
    count, waiting = 0, [root]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    entry.stat(follow_symlinks=False)
                    count += 1
    return count


def level_1(folder: Path, count: int, rounds: int) -> float:
    """Print the figures of one size; ours as a share of the bare rate."""
    root = folder / "files"
    manifest = manifest_of(root, make_small(root, count, 0))
    target = kept_record(root, os.fspath(folder / "state"), manifest)

    def ours() -> None:
        answer = verify(target, 1)
        assert (answer.answer, answer.files_stated) == ("OK", count), answer.text

    def by_size() -> None:
        assert verify(Target(os.fspath(root), manifest=manifest), 1).answer == "OK"

    jobs: dict[str, Job] = {
        "level 1, record": ours,
        "level 1, manifest": by_size,
        "os.scandir + stat": lambda: scandir_and_stat(os.fspath(root)),
    }
    if is_here("find"):
        fields = "%i %s %T@ %C@\n"
        jobs["find -printf"] = lambda: silent(["find", root, "-type", "f", "-printf", fields])
    if is_here("rclone"):
        check: list[str | Path] = ["rclone", "--config", "", "check", "--size-only", root, root]
        jobs["rclone check --size-only"] = lambda: silent(check)
    print(f"level 1, {count} files in memory")
    costs = in_turns(jobs, rounds)
    show(costs, count / 1000, "k files/s")
    return costs["os.scandir + stat"].cpu_s / costs["level 1, record"].cpu_s


def full_hash(root: Path, manifest: Manifest) -> Job:
    """A level 4 in this process."""

    def run() -> None:
        answer = verify(Target(os.fspath(root), manifest=manifest), 4)
        assert (answer.answer, answer.files_hashed) == ("OK", len(manifest.files)), answer.text

    return run


def whole_command(root: Path, manifest: Manifest) -> Job:
    """``slurm-io dataset verify`` as a person calls it."""
    path = os.fspath(root) + ".manifest"
    write_manifest(path, manifest)
    command = [sys.executable, "-m", "slurm_io", "dataset", "verify", "--level", "4"]
    return lambda: silent([*command, "--path", root, "--manifest", path])


def level_4_in_memory(folder: Path, mib: int, rounds: int) -> float:
    """Print the figures of one size; ours as a share of the lower of hash and read."""
    root = folder / "data"
    paths = make_large(root, mib // FILE_MIB, FILE_MIB)
    manifest = manifest_of(root, paths)
    jobs: dict[str, Job] = {
        "level 4": full_hash(root, manifest),
        "slurm-io dataset verify --level 4": whole_command(root, manifest),
        "bare xxh3-128, threads": lambda: in_threads(paths, bare_hash),
        "bare read, threads": lambda: in_threads(paths, bare_read),
    }
    print(f"level 4, {mib} MiB in memory ({medium(folder)})")
    costs = in_turns(jobs | hash_tools(paths, ("xxhsum", "b3sum")), rounds)
    show(costs, mib * 2**20 / 1e9, "GB/s")
    limit_s = max(costs["bare xxh3-128, threads"].cpu_s, costs["bare read, threads"].cpu_s)
    return limit_s / costs["level 4"].cpu_s


def level_4_on_disk(folder: Path, mib: int, rounds: int) -> float:
    """Print the figures of one size; ours as a share of the faster plain read."""
    root = folder / "data"
    paths = make_large(root, mib // FILE_MIB, FILE_MIB)
    manifest = manifest_of(root, paths)
    jobs: dict[str, Job] = {
        "level 4": full_hash(root, manifest),
        "plain read, threads": lambda: in_threads(paths, bare_read),
        "plain read, threads, O_DIRECT": lambda: in_threads(paths, bare_read, direct=True),
        "bare xxh3-128, threads": lambda: in_threads(paths, bare_hash),
    }
    print(f"level 4, {mib} MiB on {medium(folder)}, not in this machine's memory")
    jobs |= hash_tools(paths, ("xxhsum", "b3sum"))
    costs = in_turns(jobs, rounds * DISK_TURNS, lambda: forget(paths))
    show(costs, mib * 2**20 / 1e9, "GB/s")
    plain = [cost.wall_s for name, cost in costs.items() if name.startswith("plain read")]
    return min(plain) / costs["level 4"].wall_s


def small_files(folder: Path, count: int, rounds: int, cold: bool) -> None:
    """Print the figures of level 4 over files of 16 KiB."""
    root = folder / "small"
    paths = make_small(root, count, SMALL_BYTES)
    manifest = manifest_of(root, paths)
    jobs: dict[str, Job] = {
        "level 4": full_hash(root, manifest),
        "bare xxh3-128, threads": lambda: in_threads(paths, bare_hash),
    }
    jobs |= hash_tools(paths, ("xxhsum",))
    where = f"on {medium(folder)}, not in memory" if cold else "in memory"
    print(f"level 4, {count} files of 16 KiB {where}")
    costs = in_turns(jobs, rounds, (lambda: forget(paths)) if cold else None)
    show(costs, count / 1000, "k files/s")
    print()


def main() -> int:
    """Print all; exit 1 when a budget is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--memory", default="/dev/shm", help="a folder on a memory file system")
    parser.add_argument("--disk", default=tempfile.gettempdir(), help="a folder on a disk")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    missed = False
    show_load()
    for factor in (1, 10):
        count, mib, rounds = given.files * factor, given.mib * factor, given.rounds
        with Scratch(given.memory) as folder:
            missed |= told(level_1(folder, count, rounds), L1_BUDGET, "the bare stat rate")
        with Scratch(given.memory) as folder:
            share = level_4_in_memory(folder, mib, rounds)
            missed |= told(share, L4_BUDGET, "the lower of hash and read")
        with Scratch(given.memory) as folder:
            small_files(folder, count // 4, rounds, cold=False)
        if medium(Path(given.disk)).startswith("tmpfs"):
            print(f"{given.disk} is no disk: nothing measured there; give --disk DIR\n")
            continue
        with Scratch(given.disk) as folder:
            share = level_4_on_disk(folder, mib, rounds)
            missed |= told(share, L4_BUDGET, "the faster plain read")
        with Scratch(given.disk) as folder:
            small_files(folder, count // 4, rounds, cold=True)
    show_load()
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
