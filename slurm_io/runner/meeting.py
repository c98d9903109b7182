"""Where the tasks of one step find each other on a node: one leads and samples, the rest follow.

A meeting is a folder in the node's memory whose name every task can work out. It appears by a
rename with its leader already named in it, so whoever finds it knows whom to ask. In it:

- ``leader``: pid and start time of the leading ``slurm-io run``.
- ``seat-<task>``: taken by each task once. A task that comes again (two ``slurm-io run`` lines in
  one script) opens or joins the next meeting: else its leader would wait for a follower that waits
  for the leader's second line.
- ``task-<pid>-<starttime>``: a follower; the leader's sampler watches it, its wrapper waits for it.
- ``open``: the leader's store stands. ``closed``: it waits for nobody else.
- the rings (docs/development/contracts.md, 1).

The name can be guessed, so another user may have put something there first: a folder that is not
ours, or that others can enter, is never used.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slurm_io.host.same_process import is_alive, starttime_of
from slurm_io.runner.step import Step

_MOST_MEETINGS = 100
_MOST_TRIES = 1000
_POLL_S = 0.02
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TASK = re.compile(r"task-([1-9][0-9]{0,9})-([0-9]{1,19})", re.ASCII)
MEETING_FILES = ("leader", "open", "closed", "seat-*", "task-*")

Answer = Literal["leads", "follows", "over", "gone", "foreign"]


@dataclass(frozen=True)
class Meeting:
    """The folder, and whether this process leads there."""

    folder: Path
    leads: bool

    def open(self) -> None:
        """Let the followers start."""
        _create(self.folder / "open")

    def close(self) -> None:
        """From now on nobody joins; who joined before is among :meth:`followers`."""
        with contextlib.suppress(OSError):
            _create(self.folder / "closed")

    def dissolve(self) -> None:
        """Take the folder away, whole at first: a half-removed one would look like a meeting."""
        aside = self.folder.with_name(f".{self.folder.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            self.folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)

    def followers(self) -> int:
        """How many registered processes live."""
        return sum(is_alive(pid, starttime) for pid, starttime in _registered(self.folder))

    def seats(self) -> int:
        """How many tasks have come so far, the leader's included."""
        return sum(name.startswith("seat-") for name in _names(self.folder))


def meet(step: Step, parents: Iterable[Path], prefix: str) -> Meeting | None:
    """Lead or follow in the first meeting of `step` that still takes this task.

    Returns when this process leads, or when its leader is ready. None: no folder of `parents` can
    be trusted, so the caller goes alone.
    """
    for parent in parents:
        for number in range(1, _MOST_MEETINGS + 1):
            name = f"{step.job}.{step.restart}.{step.number}-{step.port}-{step.node}-{number}"
            folder = parent / f"{prefix}step-{name}"
            answer = _take_part(folder, step)
            if answer in ("leads", "follows"):
                return Meeting(folder, leads=answer == "leads")
            if answer == "foreign":
                break
    return None


def _take_part(folder: Path, step: Step) -> Answer:
    try:
        for _ in range(_MOST_TRIES):
            if not os.path.lexists(folder) and _claim(folder, step):
                return "leads"
            answer = _join(folder, step)
            if answer != "gone":
                return answer
    except OSError:  # no room, no right to write
        return "foreign"
    return "over"


def _claim(folder: Path, step: Step) -> bool:
    """Put a filled folder in place; False when another task was faster."""
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _create(fresh / "leader", f"{os.getpid()} {starttime_of(os.getpid())}")
        _create(fresh / f"seat-{step.task}")
        try:
            fresh.rename(folder)  # a rename replaces nothing but an empty folder of our own
        except OSError:
            return False
        return True
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _join(folder: Path, step: Step) -> Answer:
    try:
        folder_fd = os.open(folder, _FOLDER_FLAGS)
    except FileNotFoundError:
        return "gone"
    except OSError:  # a link, a file, a folder we may not enter
        return "foreign"
    try:
        if not _is_private(folder_fd):
            return "foreign"
        return _sit_down(folder_fd, step)
    except FileNotFoundError:
        return "gone" if os.fstat(folder_fd).st_nlink == 0 else "over"
    finally:
        os.close(folder_fd)


def _is_private(folder_fd: int) -> bool:
    facts = os.fstat(folder_fd)
    return facts.st_uid == os.geteuid() and not stat.S_IMODE(facts.st_mode) & 0o077


def _sit_down(folder_fd: int, step: Step) -> Answer:
    """Register, then look whether it was in time: the leader closes first and then counts."""
    leader = _leader(folder_fd)
    if leader is None or not is_alive(*leader) or _is_there(folder_fd, "closed"):
        return "over"
    own = (f"seat-{step.task}", f"task-{os.getpid()}-{starttime_of(os.getpid())}")
    try:
        _create(own[0], folder_fd=folder_fd)
    except FileExistsError:
        return "over"
    _create(own[1], folder_fd=folder_fd)
    if _wait_until_open(folder_fd, leader) and not _is_there(folder_fd, "closed"):
        return "follows"
    for name in own:
        os.unlink(name, dir_fd=folder_fd)
    return "over"


def _wait_until_open(folder_fd: int, leader: tuple[int, int]) -> bool:
    """Until the leader is ready; False when it gave up."""
    while not _is_there(folder_fd, "open"):
        if os.fstat(folder_fd).st_nlink == 0 or not is_alive(*leader):
            return False
        time.sleep(_POLL_S)
    return True


def _leader(folder_fd: int) -> tuple[int, int] | None:
    fd = os.open("leader", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)
    with open(fd, "rb") as file:
        words = file.read(64).split()
    return (int(words[0]), int(words[1])) if len(words) == 2 else None


def _create(path: Path | str, text: str = "", folder_fd: int | None = None) -> None:
    fd = os.open(path, _NEW_FLAGS, 0o600, dir_fd=folder_fd)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _is_there(folder_fd: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _registered(folder: Path) -> list[tuple[int, int]]:
    found = map(_TASK.fullmatch, _names(folder))
    return [(int(match[1]), int(match[2])) for match in found if match]


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []
