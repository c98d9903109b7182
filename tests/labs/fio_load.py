"""fio on bare loop devices, in bursts: reads, writes with flushes, and discards.

Between two bursts the whole of fio is stopped and nothing is in flight, so that two readers of
/proc/diskstats that read a few milliseconds apart see the very same counters.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.labs.block import run_tool, tool_path

FIO = shutil.which("fio")
SIZE_BYTES = 64 << 20
MD_NAME = "md/sio_test"

# Slow enough to leave the machine to others, and never the same request twice in a row.
READS = ["rw=randread", "bs=4k", "rate_iops=60"]
MIXED = ["rw=randrw", "bsrange=4k-64k", "rate_iops=30,30", "fsync=16"]
TRIMS = ["rw=randtrim", "bs=128k", "rate_iops=8"]


def load_missing(with_md: bool = False) -> str | None:
    """Why the load cannot run here; None when it can."""
    if os.geteuid() != 0:
        return "loop devices need root"
    if not Path("/dev/loop-control").exists():
        return "the kernel offers no loop devices (/dev/loop-control is missing)"
    wanted = ["fio", "losetup", "addpart", *(["mdadm"] if with_md else [])]
    missing = [name for name in wanted if tool_path(name) is None]
    without = "the kernel has no software RAID (CONFIG_MD)" if with_md and not _has_md() else ""
    absent = f"not installed: {', '.join(missing)}" if missing else ""
    return "; ".join(each for each in (without, absent) if each) or None


def _has_md() -> bool:
    with contextlib.suppress(OSError):
        subprocess.run(["modprobe", "-q", "md_mod"], capture_output=True, check=False)
    return Path("/proc/mdstat").exists()


@dataclass(frozen=True)
class Target:
    """A device that fio works on, and what it does there."""

    path: str
    jobs: tuple[list[str], ...]


class LoopDisks:
    """Loop devices over sparse files: one with a partition, one bare, and with `with_md` a RAID 0
    over two more. :attr:`names` is all of them as /proc/diskstats has them."""

    def __init__(self, folder: Path, with_md: bool = False) -> None:
        self._folder = folder
        self._with_md = with_md
        self._undo = ExitStack()
        self.names: list[str] = []
        self.targets: list[Target] = []

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            disk = self._attach(undo, "disk", "--partscan")
            # Not by a partition table: not every kernel can read one.
            run_tool("addpart", disk, "1", "2048", str(SIZE_BYTES // 512 - 4096))
            undo.callback(run_tool, "delpart", disk, "1")
            partition = f"{disk}p1"
            _wait_for(Path(partition))
            bare = self._attach(undo, "bare")
            self.targets = [Target(partition, (READS,)), Target(bare, (MIXED, TRIMS))]
            self.names = [Path(path).name for path in (disk, partition, bare)]
            if self._with_md:
                self._make_raid(undo)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._undo.close()

    def _attach(self, undo: ExitStack, name: str, *options: str) -> str:
        image = self._folder / name
        with image.open("wb") as file:
            file.truncate(SIZE_BYTES)
        undo.callback(image.unlink)
        device = run_tool("losetup", *options, "--find", "--show", str(image)).strip()
        undo.callback(run_tool, "losetup", "--detach", device)
        return device

    def _make_raid(self, undo: ExitStack) -> None:
        members = [self._attach(undo, f"member{number}") for number in (0, 1)]
        raid = f"/dev/{MD_NAME}"
        run_tool("mdadm", "--create", raid, "--run", "--level=0", "--raid-devices=2", *members)
        undo.callback(run_tool, "mdadm", "--stop", raid)
        _wait_for(Path(raid))
        self.targets.append(Target(raid, (MIXED,)))
        self.names += [Path(path).name for path in members] + [Path(raid).resolve().name]


@contextlib.contextmanager
def fio_in_bursts(targets: list[Target], seconds: int) -> Iterator[Bursts]:
    """fio started and stopped before its first request is due; ended with the block."""
    assert FIO is not None
    argv = [
        FIO, "--output-format=json", "--direct=1", "--ioengine=psync", "--time_based",
        f"--runtime={seconds}", "--thread", "--group_reporting", "--allow_mounted_write=0",
        "--randrepeat=1", "--norandommap", "--thinktime=1000",
    ]  # fmt: skip
    for number, (target, job) in enumerate((t, job) for t in targets for job in t.jobs):
        argv += [f"--name=job{number}", f"--filename={target.path}", f"--size={SIZE_BYTES // 2}"]
        argv += [f"--{option}" for option in job]
    process = subprocess.Popen(
        argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        yield Bursts(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


class Bursts:
    """Lets fio work for a moment and waits until all it asked for has come back."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def stop(self, devices: list[str], timeout_s: float = 5.0) -> None:
        """No request is in flight afterwards, and none is made."""
        os.killpg(self._process.pid, signal.SIGSTOP)
        deadline = time.monotonic() + timeout_s
        while not self._has_stopped() or any(map(_in_flight, devices)):
            assert time.monotonic() < deadline, "requests never came back"
            time.sleep(0.005)

    def go(self) -> None:
        """On with the load."""
        assert self._process.poll() is None, self._complaint()
        os.killpg(self._process.pid, signal.SIGCONT)

    def _has_stopped(self) -> bool:
        """All threads; one that waits for its request stops when it has come back."""
        states = set()
        for task in Path(f"/proc/{self._process.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                states.add((task / "stat").read_text().rpartition(")")[2].split()[0])
        return states <= {"T", "t", "Z", "X"}

    def _complaint(self) -> str:
        assert self._process.stderr is not None
        return f"fio ended: {self._process.stderr.read().decode(errors='replace')[-500:]}"


def _in_flight(device: str) -> int:
    text = Path(f"/sys/class/block/{device}/inflight").read_text()
    return sum(map(int, text.split()))


def _wait_for(path: Path) -> None:
    for _ in range(200):
        if path.exists():
            return
        time.sleep(0.02)
    raise RuntimeError(f"{path} never appeared")
