"""What building a manifest costs, beside the bare hash and the tools people use instead.

``python bench/manifest_build.py [--files N] [--mib M] [--memory DIR] [--disk DIR] [--rounds R]``
makes M MiB in 8 files, the same in one file, and N files of 4 KiB, then ten times as much, and
prints for each, in memory and on a disk (the files' data dropped from memory before every run):

1. large files, GB/s: ``build`` (ends digests too; and with chunk digests), a bare loop of
   ``xxhash`` in one thread and in one thread a core, ``xxhsum``, ``b3sum``,
2. one huge file, GB/s: the same,
3. small files, files/s: ``build``, a bare loop of scandir, open, read and hash, the same tools,
4. reading a manifest of N files, in files/s: JSON Lines and Parquet.

Every figure is the least of several rounds that take turns, by the clock and by CPU time (children
included). A peer that is not installed is named and left out.
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
    make_large,
    make_small,
    medium,
    show,
    show_load,
)
from slurm_io.staging.buffers import aligned_buffer
from slurm_io.staging.manifest.build import BuildOptions, build, new_template
from slurm_io.staging.manifest.files import open_manifest, write_manifest
from slurm_io.staging.manifest.pool import cores

SMALL_BYTES = 4096
CHUNK_BYTES = 256 << 20


def built(folder: Path, **options: object) -> Job:
    """A build into a fresh file, without a journal to take from."""
    given = BuildOptions(new_template("bench"), resume=False, **options)  # type: ignore[arg-type]
    return lambda: build(str(folder), str(folder) + ".manifest", given)


def bare_loop(folder: Path) -> None:
    """One thread: list, open, read, hash, close, with one buffer for all."""
    buffer = aligned_buffer(1 << 20)
    for at, _, names in os.walk(folder):
        for name in names:
            fd = os.open(f"{at}/{name}", os.O_RDONLY)
            bare_hash(fd, buffer)
            os.close(fd)


def large(folder: Path, files: int, mib: int, rounds: int, cold: bool) -> None:
    """Print the figures of `mib` MiB in so many files."""
    root = folder / "large"
    paths = make_large(root, files, mib // files)
    jobs: dict[str, Job] = {
        "build": built(root),
        "build, one lane": built(root, workers=1),
        "build, 256 MiB chunks": built(root, chunk_bytes=CHUNK_BYTES),
        "bare xxh3-128, one thread": lambda: bare_loop(root),
    }
    if files > 1:
        jobs["bare xxh3-128, threads"] = lambda: in_threads(paths, bare_hash)
    jobs["plain read, threads"] = lambda: in_threads(paths, bare_read)
    print(f"{files} file(s), {mib} MiB in all, {_where(folder, cold)}")
    jobs |= hash_tools(paths, ("xxhsum", "b3sum"))
    costs = in_turns(jobs, rounds, (lambda: forget(paths)) if cold else None)
    show(costs, mib * 2**20 / 1e9, "GB/s")
    print()


def small(folder: Path, count: int, rounds: int, cold: bool) -> None:
    """Print the figures of `count` files of 4 KiB."""
    root = folder / "small"
    paths = make_small(root, count, SMALL_BYTES)
    jobs: dict[str, Job] = {
        "build": built(root),
        "build, one lane": built(root, workers=1),
        "bare loop, one thread": lambda: bare_loop(root),
        "bare xxh3-128, threads": lambda: in_threads(paths, bare_hash),
    }
    print(f"{count} files of 4 KiB, {_where(folder, cold)}")
    jobs |= hash_tools(paths, ("xxhsum", "b3sum", "sha256sum"))
    costs = in_turns(jobs, rounds, (lambda: forget(paths)) if cold else None)
    show(costs, count / 1000, "k files/s")
    print()


def reading(folder: Path, count: int, rounds: int) -> None:
    """Print how fast a manifest of `count` files is read; ``small`` has built one there."""
    manifest = open_manifest(str(folder / "small.manifest"))
    jobs: dict[str, Job] = {}
    for form in ("jsonl", "parquet"):
        path = str(folder / f"m.{form}")
        write_manifest(path, manifest)
        jobs[f"reading {form}"] = lambda path=path: open_manifest(path)  # type: ignore[misc]
    print(f"a manifest of {count} files")
    show(in_turns(jobs, rounds), count / 1000, "k files/s")
    print()


def _where(folder: Path, cold: bool) -> str:
    return f"{medium(folder)}, not in this machine's memory" if cold else "in memory"


def main() -> None:
    """Print all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=5_000)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--memory", default="/dev/shm", help="a folder on a memory file system")
    parser.add_argument("--disk", default=tempfile.gettempdir(), help="a folder on a disk")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    places = [(given.memory, False), (given.disk, True)]
    if medium(Path(given.disk)).startswith("tmpfs"):
        print(f"{given.disk} is no disk: nothing measured there; give --disk DIR")
        places.pop()
    print(f"builds use {cores()} lanes")
    show_load()
    for factor in (1, 10):
        count, mib = given.files * factor, given.mib * factor
        for place, cold in places:
            for files in (8, 1):
                with Scratch(place) as folder:
                    large(folder, files, mib, given.rounds, cold)
            with Scratch(place) as folder:
                small(folder, count, given.rounds, cold)
                if not cold:
                    reading(folder, count, given.rounds)
    show_load()


if __name__ == "__main__":
    main()
