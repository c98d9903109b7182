"""A sampler's life on a clock that never waits: a tick a second of made-up time.

    python -m tests.labs.simulated_day FOLDER SECONDS EVERY_S

The job is a made-up process tree whose counters move, whose workers end and come back under new
pids (and old ones), and two real rings that grow. Prints one line of JSON every EVERY_S: the
sampler's resident memory, its descriptors, and what lies in its spool.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

from slurm_io.model import JobIdentity, SamplerSpec
from slurm_io.sampler.loop import Loop
from slurm_io.sampler.session import Session
from slurm_io.store.schema import TABLES
from slurm_io.store.spool import SpoolWriter
from tests.sampler.ring_maker import RingMaker

NS = 1_000_000_000
ROOT, RANKS, WORKERS = 100, (200, 201), (300, 301, 302, 303)
_WORKER_LIVES_S = 240
_HOST_FILES = (
    "stat", "meminfo", "vmstat", "diskstats", "loadavg", "net/dev", "self/mountinfo",
    "pressure/cpu", "pressure/io", "pressure/memory",
)  # fmt: skip
_SYSCALLS = ("running", "202 0x7f 0x80 0x0 0x0 0x0 0x0 0x7f 0x7f", "0 0x3 0x7f 0x1")
_LENGTH = 200


class Tree:
    """The made-up /proc. One process moves at each second; workers are replaced one by one."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._last_pid = 1000
        self._workers = list(WORKERS)
        self._chance = random.Random(1)
        for name in _HOST_FILES:
            source = Path("/proc") / name
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source.read_text() if source.exists() else "")
        for name in ("syscall", "wchan"):
            (root / "self" / name).write_text("")
        self._add(ROOT, 1, 0)
        for rank in RANKS:
            self._add(rank, ROOT, 0)
        for number, worker in enumerate(WORKERS):
            self._add(worker, RANKS[number % 2], 0)

    def move(self, second: int) -> None:
        """What happens in one second."""
        turn = second % len(self._workers)
        pid, parent = self._workers[turn], RANKS[turn % 2]
        if second % _WORKER_LIVES_S == 0:
            self._remove(pid)
            self._last_pid += 1
            # A pid comes back after an hour or so, with another start time.
            pid = self._workers[turn] = 1000 + self._last_pid % 16
            self._add(pid, parent, second)
        self._write(pid, parent, second, self._chance.choice(_SYSCALLS))

    def _add(self, pid: int, parent: int, second: int) -> None:
        folder = self._root / str(pid)
        (folder / "task" / str(pid)).mkdir(parents=True)
        (folder / "starttime").write_text(str(100 + second))
        (folder / "environ").write_text("")
        (folder / "cmdline").write_text("python\0")
        (folder / "cgroup").write_text("0::/\n")
        self._write(pid, parent, second, _SYSCALLS[1])
        words = f"0.10 0.10 0.10 1/99 {self._last_pid}\n"
        (self._root / "loadavg").write_text(words)

    def _write(self, pid: int, parent: int, second: int, syscall: str) -> None:
        folder = self._root / str(pid)
        rest = ["0"] * 50
        rest[0], rest[1], rest[11], rest[17] = "S", str(parent), str(second), "1"
        rest[19], rest[21] = (folder / "starttime").read_text(), str(1000 + second % 9)
        _put(folder / "stat", f"{pid} (python) {' '.join(rest)}")
        counters = ("rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes")
        lines = "".join(f"{name}: {second * 4096:012d}\n" for name in counters)
        _put(folder / "io", lines + "cancelled_write_bytes: 0\n")
        for name, text in (("syscall", syscall), ("wchan", "folio_wait_bit_common")):
            _put(folder / "task" / str(pid) / name, text)

    def _remove(self, pid: int) -> None:
        folder = self._root / str(pid)
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()


def _put(path: Path, text: str) -> None:
    """Replace what is there by as many bytes: cutting a file to nothing costs a disk access."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(text.ljust(_LENGTH - 1) + "\n")


class Clock:
    """Time passes when somebody waits; `each_second` is called with every second that passed."""

    def __init__(self, each_second: Callable[[int], None]) -> None:
        self.now_ns = 1000 * NS
        self._each_second = each_second
        self._seen = self.now_ns // NS

    def monotonic_ns(self) -> int:
        """The time now."""
        return self.now_ns

    def wait(self, seconds: float) -> bool:
        """Let it pass. A child (sealing) lives in real time: it is waited for, not reaped."""
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        self.now_ns += max(1, int(seconds * NS))
        while self._seen < self.now_ns // NS:
            self._seen += 1
            self._each_second(self._seen)
        return False


def main() -> None:
    """Live, and print."""
    folder, seconds, every_s = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    spool, ring_dir = folder / "spool", folder / "rings"
    spool.mkdir()
    ring_dir.mkdir()
    tree = Tree(folder / "proc")
    rings = [
        RingMaker(ring_dir, rank, 100, 1024, {"rank": number}) for number, rank in enumerate(RANKS)
    ]

    def each_second(second: int) -> None:
        tree.move(second)
        for ring in rings:
            ring.phase(second % 2, 0)
            ring.batch(second * NS - NS // 2, second * NS, step=second)

    clock = Clock(each_second)
    spec = SamplerSpec(
        job=JobIdentity("lab", "1", 0, "u", os.getuid()), node="here", mode="user",
        spool=str(spool), ring_dir=str(ring_dir), root_pid=ROOT, proc_root=str(folder / "proc"),
        waits_hz=1.0, rotate_s=min(3600.0, seconds / 8),
    )  # fmt: skip
    sink = SpoolWriter(spool, TABLES.values(), flush_s=1.5, rotate_s=spec.rotate_s)
    session = Session(spec, sink, clock.now_ns, 0)
    session.open()
    start_ns, said = clock.now_ns, 0

    def end_reason(now_s: float, processes: int) -> str | None:
        nonlocal said
        assert processes == len((ROOT, *RANKS, *WORKERS)) or now_s < start_ns / NS + 30
        passed_s = (clock.now_ns - start_ns) // NS
        if passed_s // every_s > said:
            said = passed_s // every_s
            print(json.dumps({"second": passed_s, **state(spool)}), flush=True)
        return "over" if passed_s >= seconds else None

    chance = random.Random(2)
    Loop(
        session, 1.0, 1.0, clock.monotonic_ns, clock.wait, end_reason, chance.random
    ).run()  # fmt: skip


def state(spool: Path) -> dict[str, int]:
    """What the sampler holds now."""
    gc.collect()  # what waits for the collector is no growth
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    sizes = [path.stat().st_size for path in spool.iterdir()]
    return {
        "rss_bytes": pages * os.sysconf("SC_PAGE_SIZE"),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "files": len(sizes),
        "spool_bytes": sum(sizes),
    }


if __name__ == "__main__":
    main()
