"""What verifying costs: files/s at level 1, bytes/s at level 4, beside the bare tools.

``python bench/verify.py [--files N] [--mib M] [--folder DIR]`` makes N files in folders of 1000 and
M MiB in files of 64 MiB, then ten times as much, on DIR (/dev/shm by default), and prints:

1. level 1 (stat of every file against the record, and a look for extra ones) beside a bare
   os.scandir + stat, ``find -printf`` and, when installed, ``rclone check --size-only``,
2. level 4 (full xxh3-128) beside a bare xxhash loop with as many threads, a bare read of all, and
   ``xxhsum`` and ``b3sum`` when they are installed.

Every figure is the best of several rounds that take turns, by wall time and by CPU time (children
included). Budgets: level 1 at least 0.8 of the bare stat rate, level 4 at least 0.9 of the lower of
hash and read. They are judged by CPU time, which a busy machine does not spoil: on a memory file
system nothing else is spent. On a disk (--folder) look at the wall time.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import xxhash

from slurm_io.staging import record as records
from slurm_io.staging.manifest.content_id import content_id_of
from slurm_io.staging.manifest.hashing import HowToHash, digest_file
from slurm_io.staging.manifest.model import FileEntry, Header, Manifest
from slurm_io.staging.verify.driver import Target, verify
from slurm_io.staging.verify.keep import keep, record_of

L1_BUDGET, L4_BUDGET = 0.8, 0.9
ROUNDS = 5
FILE_BYTES = 64 << 20
BLOCK_BYTES = 1 << 20
Job = Callable[[], object]


@dataclass(frozen=True)
class Cost:
    """Least wall and CPU seconds of one job."""

    wall_s: float
    cpu_s: float


def best_of(jobs: dict[str, Job], rounds: int = ROUNDS) -> dict[str, Cost]:
    """The least of each, the jobs taking turns so that a busy moment hits all alike."""
    best = dict.fromkeys(jobs, Cost(float("inf"), float("inf")))
    for _ in range(rounds):
        for name, job in jobs.items():
            wall_s, cpu_s = time.perf_counter(), all_cpu_s()
            job()
            wall_s, cpu_s = time.perf_counter() - wall_s, all_cpu_s() - cpu_s
            best[name] = Cost(min(best[name].wall_s, wall_s), min(best[name].cpu_s, cpu_s))
    return best


def all_cpu_s() -> float:
    """Of this process, its threads and its dead children."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(kind)[:2]) for kind in kinds)


def show(costs: dict[str, Cost], amount: float, unit: str) -> None:
    """One line a job."""
    for name, cost in costs.items():
        by_cpu = f"{amount / cost.cpu_s:10.2f} {unit} of CPU" if cost.cpu_s > 0.01 else ""
        print(f"  {name:<20}{amount / cost.wall_s:10.2f} {unit}{by_cpu}")


def make_files(root: Path, count: int) -> None:
    """Empty files, 1000 a folder."""
    for index in range(count):
        folder = root / f"shards-{index // 1000:04d}"
        if index % 1000 == 0:
            folder.mkdir(parents=True)
        (folder / f"sample-{index:07d}.tar").touch()


def make_data(root: Path, mib: int) -> None:
    """Files of 64 MiB of random bytes."""
    root.mkdir()
    block = os.urandom(1 << 20)
    for index in range(mib // 64):
        with (root / f"{index:04d}.bin").open("wb") as file:
            for part in range(64):
                file.write(part.to_bytes(4) + index.to_bytes(4) + block[8:])


def manifest_of(root: Path) -> Manifest:
    """Of all files, with digests."""
    entries = []
    for path in sorted(root.rglob("*"), key=lambda path: os.fsencode(path.relative_to(root))):
        if path.is_file():
            name = os.fspath(path.relative_to(root))
            size = path.stat().st_size
            if size == 0:
                entries.append(FileEntry(name, 0, "xxh3-128:" + "9" * 32, "xxh3-128:" + "9" * 32))
                continue
            with path.open("rb") as file:
                found = digest_file(file.fileno(), HowToHash())
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


def level_1(root: Path, state: str, count: int) -> float:
    """Print the figures of one size; ours as a share of the bare rate."""
    make_files(root, count)
    manifest = manifest_of(root)
    target = kept_record(root, state, manifest)

    def ours() -> None:
        answer = verify(target, 1)
        assert (answer.answer, answer.files_stated) == ("OK", count), answer.text

    def by_size() -> None:
        assert verify(Target(os.fspath(root), manifest=manifest), 1).answer == "OK"

    jobs: dict[str, Job] = {
        "level 1, record": ours,
        "level 1, manifest": by_size,
        "os.scandir + stat": lambda: scandir_and_stat(os.fspath(root)),
        "find -printf": lambda: run(["find", root, "-type", "f", "-printf", "%i %s %T@ %C@\n"]),
    }
    if shutil.which("rclone"):
        jobs["rclone check"] = lambda: run(["rclone", "check", "--size-only", root, root])
    costs = best_of(jobs)
    show(costs, count / 1000, "k files/s")
    return costs["os.scandir + stat"].cpu_s / costs["level 1, record"].cpu_s


def run(command: list[str | Path]) -> None:
    """A peer, silent."""
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def in_threads(paths: list[Path], work: Callable[[int, bytearray], None]) -> None:
    """`work` on every file, in as many threads as the verify uses, a buffer each."""
    waiting = list(paths)

    def loop() -> None:
        buffer = bytearray(BLOCK_BYTES)
        while waiting:
            try:
                path = waiting.pop()
            except IndexError:
                return
            descriptor = os.open(path, os.O_RDONLY)
            work(descriptor, buffer)
            os.close(descriptor)

    threads = [threading.Thread(target=loop) for _ in range(max(4, os.cpu_count() or 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def bare_read(descriptor: int, buffer: bytearray) -> None:
    """All blocks."""
    while os.readv(descriptor, [buffer]):
        pass


def bare_hash(descriptor: int, buffer: bytearray) -> None:
    """All blocks through xxh3-128."""
    hasher, view = xxhash.xxh3_128(), memoryview(buffer)
    while count := os.readv(descriptor, [buffer]):
        hasher.update(view[:count])
    hasher.hexdigest()


def level_4(root: Path, mib: int) -> float:
    """Print the figures of one size; ours as a share of the lower of hash and read."""
    make_data(root, mib)
    manifest = manifest_of(root)
    paths = sorted(root.iterdir())

    def ours() -> None:
        answer = verify(Target(os.fspath(root), manifest=manifest), 4)
        assert (answer.answer, answer.files_hashed) == ("OK", len(paths)), answer.text

    jobs: dict[str, Job] = {
        "level 4": ours,
        "bare xxh3-128": lambda: in_threads(paths, bare_hash),
        "bare read": lambda: in_threads(paths, bare_read),
    }
    for tool, options in (("xxhsum", ["-H2"]), ("b3sum", [])):
        if shutil.which(tool):
            command: list[str | Path] = [tool, *options, *paths]
            jobs[tool] = lambda command=command: run(command)  # type: ignore[misc]
    costs = best_of(jobs)
    show(costs, mib * 2**20 / 1e9, "GB/s")
    return max(costs["bare xxh3-128"].cpu_s, costs["bare read"].cpu_s) / costs["level 4"].cpu_s


def main() -> int:
    """Print all; exit 1 when a budget is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--folder", default="/dev/shm")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="verify-bench-", dir=given.folder))
    missed = False
    try:
        for factor in (1, 10):
            count, mib = given.files * factor, given.mib * factor
            print(f"{count} files")
            share = level_1(folder / f"files{factor}", os.fspath(folder / f"state{factor}"), count)
            missed |= told(share, L1_BUDGET, "the bare stat rate")
            shutil.rmtree(folder / f"files{factor}")
            print(f"{mib} MiB")
            share = level_4(folder / f"data{factor}", mib)
            missed |= told(share, L4_BUDGET, "the lower of hash and read")
            shutil.rmtree(folder / f"data{factor}")
    finally:
        shutil.rmtree(folder)
    return int(missed)


def told(share: float, budget: float, of_what: str) -> bool:
    """Print one budget's outcome; whether it was missed."""
    kept = "kept" if share >= budget else "MISSED"
    print(f"  {share:.2f} of {of_what} (budget {budget}: {kept})\n")
    return share < budget


if __name__ == "__main__":
    sys.exit(main())
