"""The block lab: a real block device with a real file system, from a sparse image on a loop device.

    with BlockLab(folder, "ext4") as lab:
        write_something(lab.mountpoint)
        read_diskstats_of(lab.device_name)

Needs root and loop devices; `block_lab_missing` says why it cannot run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from tests.labs.mounts import unmount_lazily

FsType = Literal["ext4", "xfs"]
SIZE_BYTES = 320 * 2**20
"""mkfs.xfs refuses anything under 300 MiB; the image is sparse."""
MKFS = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}
TIMEOUT_S = 60


def block_lab_missing(fstype: FsType = "ext4") -> str | None:
    """Why the lab cannot run here, or None when it can."""
    if os.geteuid() != 0:
        return "a loop device needs root"
    if not Path("/dev/loop-control").exists():
        return "the kernel offers no loop devices (/dev/loop-control is missing)"
    if fstype not in Path("/proc/filesystems").read_text().split():
        return f"the kernel does not know {fstype}"
    tools = [tool for tool in ("losetup", MKFS[fstype][0]) if tool_path(tool) is None]
    return f"not installed: {', '.join(tools)}" if tools else None


class BlockLab:
    """One mounted image, gone with its loop device after the ``with`` block."""

    def __init__(
        self,
        folder: Path,
        fstype: FsType = "ext4",
        size_bytes: int = SIZE_BYTES,
        image: Path | None = None,
    ) -> None:
        """`image`: where the sparse file lies; by default in `folder`."""
        self.mountpoint = folder / "mount"
        self.device = ""
        self._image = image or folder / "image"
        self._fstype: FsType = fstype
        self._size_bytes = size_bytes
        self._undo = ExitStack()

    @property
    def device_name(self) -> str:
        """As /proc/diskstats has it, e.g. ``loop0``."""
        return Path(self.device).name

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self.mountpoint.mkdir(parents=True, exist_ok=True)
            with open(self._image, "wb") as image:
                image.truncate(self._size_bytes)
            undo.callback(self._image.unlink)
            self.device = run_tool("losetup", "--find", "--show", os.fspath(self._image)).strip()
            undo.callback(run_tool, "losetup", "--detach", self.device)
            run_tool(*MKFS[self._fstype], self.device)
            run_tool("mount", "-t", self._fstype, self.device, os.fspath(self.mountpoint))
            undo.callback(unmount_lazily, self.mountpoint)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._undo.close()


def tool_path(name: str) -> str | None:
    """Absolute path of a program; None when it is not installed."""
    # The sbin folders are not on every user's PATH.
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def run_tool(*command: str) -> str:
    """What a program printed; RuntimeError with its complaint when it failed."""
    program = tool_path(command[0]) or command[0]
    done = subprocess.run(
        [program, *command[1:]], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout
