"""``--load-hook``: the hook goes into ranks that run already, and comes out when the attach ends.

Asked for by the user only, because it runs our code in a program that did not ask for it. Python
3.14 and newer; everything that stands in the way is one line, and the attach goes on from outside.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_io.collectors.base import Member
from slurm_io.errors import HostError
from slurm_io.host.same_process import is_alive
from slurm_io.runner.attach.remote_exec import Caller, call, find_caller
from slurm_io.runner.attach.remote_script import Who, leave_script, load_script
from slurm_io.runner.attach.survey import Survey
from slurm_io.runner.attach.target import inner_pid
from slurm_io.runner.child import hook_path
from slurm_io.runner.place import make_ring_dir

RINGS = "rings"
_LEAVE_LATER = Path(hook_path(True)).parent / "remote_leave.py"
_ANSWER_S = 10.0  # the main thread may be in a long call of C
_POLL_S = 0.05
_SAID = {
    "off": "process {pid}: the hook is switched off there (SLURM_IO_HOOK=0)",
    "there": "process {pid}: another recording has its hook there already",
}
_STAYS = (
    "the hook could not be taken out of process {pids} yet (in a long call, or refused): it "
    "records into memory that nobody reads, until that call returns or the process ends"
)
_LATE = (
    "process {pid} did not come to a point where it runs our script within {limit:g} s (it is in a "
    "long call): it is watched from outside"
)


@dataclass(frozen=True)
class _Rank:
    """One process, and who can call on it."""

    pid: int
    who: Who
    caller: Caller


@dataclass(frozen=True)
class HookInside:
    """The hook as loaded by us. `rings` takes the rings and lies in `base`; "" = nowhere loaded."""

    rings: str = ""
    base: str = ""
    notices: tuple[str, ...] = ()
    ranks: tuple[_Rank, ...] = ()

    def leave(self) -> tuple[str, ...]:
        """Take the hook out, remove the folder; what could not be taken out."""
        if not self.base:
            return ()
        base = Path(self.base)
        living = [rank for rank in self.ranks if is_alive(*rank.who[0])]
        answers, refusals = _ask_all(living, base, "leave", leave_script)
        _withdraw(living, answers)
        shutil.rmtree(base, ignore_errors=True)
        stuck = [rank.pid for rank in living if answers.get(rank.pid) != "left"]
        still = [pid for pid in stuck if Path(f"/proc/{pid}").exists()]
        if not still:
            return ()
        pids = ", ".join(map(str, still))
        return _STAYS.format(pids=pids), *refusals


def load_into(seen: Survey, uid: int) -> HookInside:
    """Load the hook into every rank of `seen`, whose user is `uid`."""
    if seen.ring_dir is not None:
        return HookInside(notices=("these processes have the hook already: it is read along",))
    ranks, notices = _find_ranks(seen.ranks, uid)
    if not ranks:
        return HookInside(notices=tuple(notices) or ("no rank was found to load the hook into",))
    base = _make_folders(uid)
    answers, refusals = _ask_all(ranks, base, "load", _loading(base / RINGS))
    loaded = tuple(rank for rank in ranks if answers.get(rank.pid) == "loaded")
    notices += [*refusals, *_complaints(ranks, answers)]
    _withdraw(ranks, answers)
    if not loaded:
        shutil.rmtree(base, ignore_errors=True)
        return HookInside(notices=tuple(notices))
    return HookInside(str(base / RINGS), str(base), tuple(notices), loaded)


def _loading(rings: Path) -> Callable[[Who, str], str]:
    home = hook_path(True)
    return lambda who, answer: load_script(who, home, str(rings), answer)


def _find_ranks(members: Sequence[Member], uid: int) -> tuple[list[_Rank], list[str]]:
    ranks, notices = [], dict[str, None]()
    for member in members:
        try:
            _refuse_container(member.pid)
            caller = find_caller(member.pid, uid)
        except HostError as error:
            notices[str(error)] = None
            continue
        inner = inner_pid(member.pid) or member.pid
        who = tuple(dict.fromkeys([(member.pid, member.starttime), (inner, member.starttime)]))
        ranks.append(_Rank(member.pid, who, caller))
    return ranks, list(notices)


def _refuse_container(pid: int) -> None:
    """Script and rings must lie where the process finds them under the same names."""
    try:
        theirs, ours = Path(f"/proc/{pid}"), Path("/proc/self")
        same = all((theirs / name).samefile(ours / name) for name in ("ns/mnt", "root"))
    except OSError as error:
        raise HostError(f"process {pid}: {error.strerror}") from error
    if not same:
        raise HostError(
            f"process {pid} has file systems of its own (a container): attach from inside it to "
            "load the hook"
        )


def _make_folders(uid: int) -> Path:
    """A folder of ours with the scripts, and in it one of the ranks' user, who writes there.

    So when root attaches, the user can neither change the scripts nor put anything in the place of
    his folder.
    """
    base = make_ring_dir()
    rings = base / RINGS
    rings.mkdir(mode=0o700)
    if os.geteuid() != uid:
        os.chown(rings, uid, -1)
        base.chmod(0o711)
    return base


def _ask_all(
    ranks: Sequence[_Rank], base: Path, verb: str, script: Callable[[Who, str], str]
) -> tuple[dict[int, str], list[str]]:
    """Have every rank run its script; (pid -> its answer, "late" or "refused"), refusals."""
    answers: dict[int, str] = {}
    refusals: list[str] = []
    for rank in ranks:
        try:
            path = _write_script(base, f"{verb}-{rank.pid}", rank, script)
            call(rank.caller, rank.pid, str(path))
        except (HostError, OSError) as error:
            answers[rank.pid] = "refused"
            refusals.append(str(error))
    until_s = time.monotonic() + _ANSWER_S
    while any(rank.pid not in answers for rank in ranks) and time.monotonic() < until_s:
        for rank in ranks:
            said = _answer(base / RINGS / f"{verb}-{rank.pid}.said")
            if said is not None:
                answers.setdefault(rank.pid, said)
            elif not is_alive(*rank.who[0]):
                answers.setdefault(rank.pid, "gone")
        time.sleep(_POLL_S)
    return {rank.pid: answers.get(rank.pid, "late") for rank in ranks}, refusals


def _write_script(base: Path, name: str, rank: _Rank, script: Callable[[Who, str], str]) -> Path:
    """A new file beside the rings, readable for the rank's user."""
    path = base / f"{name}.py"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o644), "w") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(script(rank.who, str(base / RINGS / f"{name}.said")))
    return path


def _answer(path: Path) -> str | None:
    """The user's file, so never followed, never waited for, and read no further than a line."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            return file.read(300).decode(errors="replace")
    return None


def _complaints(ranks: Sequence[_Rank], answers: dict[int, str]) -> list[str]:
    found = []
    for rank in ranks:
        said = answers[rank.pid]
        if said == "late":
            found.append(_LATE.format(pid=rank.pid, limit=_ANSWER_S))
        elif said in _SAID:
            found.append(_SAID[said].format(pid=rank.pid))
        elif said.startswith("failed"):
            found.append(f"process {rank.pid}: the hook could not start: {said!a}")
    return found


def _withdraw(ranks: Sequence[_Rank], answers: dict[int, str]) -> None:
    """Put a script that stays in the place of those that have not been run and will be gone."""
    for rank in ranks:
        if answers.get(rank.pid) == "late":
            with contextlib.suppress(HostError):
                call(rank.caller, rank.pid, str(_LEAVE_LATER))
