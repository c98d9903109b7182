"""Files to hash, bare loops and tools that hash or list them, and costs compared in turns."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import xxhash

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from slurm_io.filesystems.mounts import read_mounts
from slurm_io.staging.buffers import HUGE_PAGE_BYTES, aligned_buffer

Job = Callable[[], object]
_MIB = 1 << 20


class Scratch:
    """A folder below another one, gone afterwards."""

    def __init__(self, below: str) -> None:
        self._path = Path(tempfile.mkdtemp(prefix="slurm-io-bench-", dir=below))

    def __enter__(self) -> Path:
        return self._path

    def __exit__(self, *exc: object) -> None:
        shutil.rmtree(self._path)


@dataclass(frozen=True)
class Cost:
    """Least wall and CPU seconds of one job."""

    wall_s: float = float("inf")
    cpu_s: float = float("inf")

    def least(self, other: Cost) -> Cost:
        return Cost(min(self.wall_s, other.wall_s), min(self.cpu_s, other.cpu_s))


def in_turns(jobs: dict[str, Job], rounds: int, before: Job | None = None) -> dict[str, Cost]:
    """The least of each; jobs take turns, so that a busy moment hits all alike. `before` each."""
    least = dict.fromkeys(jobs, Cost())
    for _ in range(rounds):
        for name, job in jobs.items():
            if before is not None:
                before()
            wall_s, cpu_s = time.perf_counter(), _all_cpu_s()
            job()
            cost = Cost(time.perf_counter() - wall_s, _all_cpu_s() - cpu_s)
            least[name] = least[name].least(cost)
    return least


def _all_cpu_s() -> float:
    """Of this process, its threads and its dead children."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(kind)[:2]) for kind in kinds)


def show(costs: dict[str, Cost], amount: float, unit: str) -> None:
    """One line a job: by the clock, by CPU time, and its time as a multiple of the first one's."""
    first = next(iter(costs.values()))
    print(f"  {'':<34}{unit + ' by the clock':>20}{unit + ' of CPU':>20}{'time / first':>14}")
    for name, cost in costs.items():
        by_cpu = f"{amount / cost.cpu_s:20.2f}" if cost.cpu_s > 0.01 else f"{'-':>20}"
        print(f"  {name:<34}{amount / cost.wall_s:20.2f}{by_cpu}{cost.wall_s / first.wall_s:14.2f}")


def show_load() -> None:
    """How busy the machine is with other things."""
    print(f"load average {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores\n")


def make_large(root: Path, count: int, mib: int) -> list[Path]:
    """Files of `mib` MiB of random bytes, on the disk when this returns."""
    root.mkdir(parents=True)
    block = os.urandom(_MIB)
    paths = [root / f"{number:04d}.bin" for number in range(count)]
    for number, path in enumerate(paths):
        with path.open("wb") as file:
            for part in range(mib):
                file.write(part.to_bytes(4, "little") + number.to_bytes(4, "little") + block[8:])
            file.flush()
            os.fsync(file.fileno())
    return paths


def make_small(root: Path, count: int, size: int) -> list[Path]:
    """Files of `size` bytes, 1000 a folder, on the disk when this returns."""
    paths = [root / f"{n // 1000:04d}" / f"sample-{n:07d}.jpg" for n in range(count)]
    data = os.urandom(size)
    for number, path in enumerate(paths):
        if number % 1000 == 0:
            path.parent.mkdir(parents=True)
        path.write_bytes((number.to_bytes(8, "little") + data[8:])[:size])
    os.sync()
    return paths


def forget(paths: Iterable[Path]) -> None:
    """Have the kernel drop the files' data (not their names), so that the next read is a real one.

    Below a virtual machine its host may still have them in memory.
    """
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def medium(folder: Path) -> str:
    """Type and source of the mount a folder lies on: ``ext4 on /dev/vda``."""
    mount = read_mounts().of_path(os.path.realpath(folder))
    return "unknown" if mount is None else f"{mount.fstype} on {mount.source}"


def in_threads(
    paths: Sequence[Path], work: Callable[[int, memoryview], None], direct: bool = False
) -> None:
    """`work` on every file: four threads, or one a core, each with a buffer of its own."""
    waiting = list(paths)
    flags = os.O_RDONLY | (os.O_DIRECT if direct else 0)

    def loop() -> None:
        buffer = aligned_buffer(HUGE_PAGE_BYTES if direct else _MIB)
        while waiting:
            try:
                path = waiting.pop()
            except IndexError:
                return
            fd = os.open(path, flags)
            work(fd, buffer)
            os.close(fd)

    threads = [threading.Thread(target=loop) for _ in range(max(4, os.cpu_count() or 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def bare_read(fd: int, buffer: memoryview) -> None:
    """All blocks."""
    while os.readv(fd, [buffer]):
        pass


def bare_hash(fd: int, buffer: memoryview) -> None:
    """All blocks through xxh3-128."""
    hasher = xxhash.xxh3_128()
    while count := os.readv(fd, [buffer]):
        hasher.update(buffer[:count])
    hasher.hexdigest()


def hash_tools(paths: Sequence[Path], tools: Sequence[str]) -> dict[str, Job]:
    """The installed ones of xxhsum, b3sum, sha256sum on these files, alone and a process a core."""
    options = {"xxhsum": ["-H2"]}
    cores = len(os.sched_getaffinity(0))
    jobs: dict[str, Job] = {}
    for tool in tools:
        if not is_here(tool):
            continue
        command = [tool, *options.get(tool, [])]
        if fits := len(paths) <= 1000:  # on a command line
            jobs[" ".join(command)] = lambda command=command: silent([*command, *paths])  # type: ignore[misc]
        if not (fits and tool == "b3sum"):  # which has threads of its own
            several = ["xargs", "-0", "-n", str(max(1, min(500, len(paths) // cores))), "-P"]
            name = f"xargs -P {cores} {' '.join(command)}"
            names = b"\0".join(os.fsencode(path) for path in paths)
            jobs[name] = lambda args=[*several, str(cores), *command], names=names: silent(  # type: ignore[misc]
                args, names
            )
    return jobs


def is_here(tool: str) -> bool:
    """Whether a peer is installed; else a line says that it is not."""
    if shutil.which(tool):
        return True
    print(f"  ({tool} is not installed: its lines are left out)")
    return False


def silent(command: Sequence[str | Path], given: bytes = b"") -> None:
    """Run a peer; nothing of what it prints is shown."""
    subprocess.run(
        command, input=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )


def told(share: float, budget: float, of_what: str) -> bool:
    """Print one budget's outcome; whether it was missed."""
    kept = "kept" if share >= budget else "MISSED"
    print(f"  {share:.2f} of {of_what} (budget {budget}: {kept})\n")
    return share < budget
