"""What building a manifest costs, beside the bare hash and the tools people use instead.

``python bench/manifest_build.py [--gib G] [--files N] [--dir DIR]`` makes G GiB in large files and
N files of 4 KiB below DIR, reads all once (the page cache is warm: the disk is not measured), then
takes turns, three rounds each, and prints medians and ratios of the same run:

1. large files, GB/s: ``build`` (ends digests too; and with chunk digests), a bare loop of
   ``xxhash`` in one process and in one thread a core, ``xxhsum``, ``b3sum``, ``sha256sum`` where
   they are installed;
2. small files, files/s: ``build``, a bare loop of scandir, open, read and hash, the same tools;
3. reading a manifest of N files, in files/s: JSON Lines and Parquet.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import xxhash

from slurm_io.staging.manifest.build import BuildOptions, build, new_template
from slurm_io.staging.manifest.files import open_manifest, write_manifest
from slurm_io.staging.manifest.pool import cores

ROUNDS = 3
SMALL_BYTES = 4096
Run = Callable[[Path], object]


def make_large(folder: Path, gib: float) -> int:
    """Eight files; how many bytes."""
    folder.mkdir()
    block = os.urandom(1 << 20)
    blocks = max(1, int(gib * 128))
    for number in range(8):
        with (folder / f"{number}.tar").open("wb") as file:
            for index in range(blocks):
                file.write(index.to_bytes(8, "little") + block[8:])
    return 8 * blocks << 20


def make_small(folder: Path, count: int) -> None:
    data = os.urandom(SMALL_BYTES)
    for number in range(count):
        below = folder / f"{number // 1000:03}"
        if number % 1000 == 0:
            below.mkdir(parents=True)
        (below / f"{number:06}.jpg").write_bytes(number.to_bytes(8, "little") + data[8:])


def built(**options: object) -> Run:
    """A build into a fresh file, without a journal to take from."""

    def run(folder: Path) -> None:
        template = new_template("bench")
        output = str(folder.parent / "manifest")
        build(str(folder), output, BuildOptions(template, resume=False, **options))  # type: ignore[arg-type]

    return run


def files_below(folder: Path) -> list[str]:
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]  # noqa: PTH118


def hash_one(path: str) -> str:
    hasher = xxhash.xxh3_128()
    buffer = memoryview(bytearray(1 << 20))
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            hasher.update(buffer[:count])
    return hasher.hexdigest()


def bare_loop(folder: Path) -> None:
    for path in files_below(folder):
        hash_one(path)


def bare_threads(folder: Path) -> None:
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(hash_one, files_below(folder)))


def tool(*command: str) -> Run:
    """``find | xargs -P cores TOOL``, as people run it."""

    def run(folder: Path) -> None:
        with subprocess.Popen(
            ["find", str(folder), "-type", "f", "-print0"], stdout=subprocess.PIPE
        ) as find:
            xargs = ["xargs", "-0", "-n", "64", "-P", str(cores()), *command]
            subprocess.run(xargs, stdin=find.stdout, stdout=subprocess.DEVNULL, check=True)

    return run


def tools() -> dict[str, Run]:
    known = {"xxhsum -H2": ("xxhsum", "-H2"), "b3sum": ("b3sum",), "sha256sum": ("sha256sum",)}
    return {name: tool(*command) for name, command in known.items() if shutil.which(command[0])}


def compare(title: str, unit: str, amount: float, folder: Path, runs: dict[str, Run]) -> None:
    """Medians of interleaved rounds; ratios to the first."""
    wall: dict[str, list[float]] = {name: [] for name in runs}
    cpu: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            start, used = time.monotonic(), cpu_s()
            run(folder)
            wall[name].append(time.monotonic() - start)
            cpu[name].append(cpu_s() - used)
    print(f"{title} ({cores()} cores)")
    first = statistics.median(wall[next(iter(runs))])
    for name in runs:
        median = statistics.median(wall[name])
        print(
            f"  {name:<28} {amount / median:>10.4g} {unit}  {first / median:>6.2f} x  "
            f"{statistics.median(cpu[name]):>6.2f} s CPU"
        )


def cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--dir", default=None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.dir) as scratch:
        large, small = Path(scratch) / "large", Path(scratch) / "small"
        size = make_large(large, given.gib)
        bare_loop(large)
        runs = {
            "build": built(),
            "build, one process": built(workers=1),
            "build, 256 MiB chunks": built(chunk_bytes=256 << 20),
            "bare xxh3-128, one process": bare_loop,
            "bare xxh3-128, a thread a core": bare_threads,
        }
        compare("large files", "GB/s", size / 1e9, large, runs | tools())
        shutil.rmtree(large)
        make_small(small, given.files)
        bare_loop(small)
        del runs["build, 256 MiB chunks"]
        compare("files of 4 KiB", "files/s", given.files, small, runs | tools())
        manifest = open_manifest(str(Path(scratch) / "manifest"))
        for form in ("jsonl", "parquet"):
            write_manifest(str(Path(scratch) / f"m.{form}"), manifest)
        forms = {
            form: (lambda folder, form=form: open_manifest(str(folder.parent / f"m.{form}")))
            for form in ("jsonl", "parquet")
        }
        compare("reading a manifest", "files/s", given.files, small, forms)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
