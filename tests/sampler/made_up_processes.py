"""A made-up /proc of processes, for what no test may do to real ones."""

from __future__ import annotations

import os
from pathlib import Path

from slurm_io.model import JobIdentity, Mode, SamplerSpec
from slurm_io.sampler.discovery import Discovery


class MadeUpProcesses:
    """Processes in a folder: parent, start time, environment, control group, inner pids."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        self._listed = 0
        self._touch()

    def add(
        self,
        pid: int,
        ppid: int = 1,
        comm: str = "python",
        starttime: int = 100,
        state: str = "S",
        cgroup: str = "0::/\n",
        environ: dict[str, str] | None = None,
        inner_pids: tuple[int, ...] = (),
        pid_ns: int = 4026531836,
        cmdline: str = "",
    ) -> None:
        """One process, or what it has turned into; owned by whoever runs the tests."""
        folder = self.root / str(pid)
        (folder / "ns").mkdir(parents=True, exist_ok=True)
        rest = ["0"] * 50
        rest[0], rest[1], rest[19] = state, str(ppid), str(starttime)
        (folder / "stat").write_text(f"{pid} ({comm}) {' '.join(rest)}\n")
        (folder / "status").write_text(f"Name:\t{comm}\nNSpid:\t{pid} {_words(inner_pids)}\n")
        (folder / "cgroup").write_text(cgroup)
        said = [f"{name}={value}" for name, value in (environ or {}).items()]
        (folder / "environ").write_text("".join(f"{each}\0" for each in said))
        (folder / "cmdline").write_text(cmdline or f"{comm}\0")
        link = folder / "ns/pid"
        link.unlink(missing_ok=True)
        link.symlink_to(f"pid:[{pid_ns}]")
        self._touch()

    def remove(self, pid: int) -> None:
        """It has ended and was collected."""
        folder = self.root / str(pid)
        for path in sorted(folder.rglob("*"), reverse=True):
            path.unlink() if not path.is_dir() or path.is_symlink() else path.rmdir()
        folder.rmdir()
        self._touch()

    def _touch(self) -> None:
        """The kernel has given out a pid: /proc is listed again."""
        self._listed += 1
        (self.root / "loadavg").write_text(f"0.0 0.0 0.0 1/100 {self._listed}\n")


def _words(numbers: tuple[int, ...]) -> str:
    return " ".join(map(str, numbers))


def made_up_spec(
    root: Path, mode: Mode = "slurm", job: str = "12", uid: int | None = None, **fields: object
) -> SamplerSpec:
    """A sampler's orders for job `job` on node1, over root/proc and root/sys."""
    identity = JobIdentity("c", job, 0, "u", os.getuid() if uid is None else uid)
    settings: dict[str, object] = {"node": "node1", "spool": "/s", "ring_dir": "/nowhere/rings"}
    return SamplerSpec(
        job=identity, mode=mode, proc_root=str(root / "proc"), sys_root=str(root / "sys"),
        **{**settings, **fields},  # type: ignore[arg-type]
    )  # fmt: skip


def pids_of(discovery: Discovery) -> list[int]:
    """The members' pids, sorted."""
    return sorted(member.pid for member in discovery.members())
