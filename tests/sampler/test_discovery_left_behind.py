"""A look at the processes that is given up at any of its reads, because that read hung, and is made
again from its beginning: nothing that was found by then may be lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_io.sampler.discovery import Discovery
from slurm_io.sampler.relay import LeftBehindError
from tests.sampler.made_up_processes import MadeUpProcesses, made_up_spec, pids_of

RANK, WORKERS, LEFT, STRANGER, ELSEWHERE = 100, (110, 111), 120, 200, 999


class HangsAt:
    """``os.open`` which gives up at the `number`-th file of a process, once."""

    def __init__(self, root: Path, number: int) -> None:
        self._root = f"{root}/proc/"
        self._number = number
        self._open = os.open
        self.opened = 0

    def __call__(self, path: str, *arguments: int, **named: int) -> int:
        if os.fspath(path).startswith(self._root) and "/" in os.fspath(path)[len(self._root) :]:
            self.opened += 1
            if self.opened == self._number:
                raise LeftBehindError
        return self._open(path, *arguments, **named)


def job_with_new_workers(root: Path) -> Discovery:
    """A rank and a child of it that have been seen; two workers have come since, the child has
    ended, and a stranger is young enough to be looked at again."""
    proc = MadeUpProcesses(root / "proc")
    proc.add(1, ppid=0, starttime=1)
    proc.add(RANK, comm="python")
    proc.add(LEFT, ppid=RANK, comm="sh")
    young = os.sysconf("SC_CLK_TCK") * 1_000_000_000
    proc.add(STRANGER, comm="stranger", starttime=young)
    discovery = Discovery(made_up_spec(root, "user", root_pid=RANK))
    discovery.refresh({RANK: 0})
    assert pids_of(discovery) == [RANK, LEFT]
    proc.remove(LEFT)
    for pid in WORKERS:
        proc.add(pid, ppid=RANK, starttime=young)
    return discovery


@pytest.mark.parametrize("number", range(1, 30))
def test_what_was_found_before_the_read_that_hung_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    discovery = job_with_new_workers(tmp_path)
    hangs = HangsAt(tmp_path, number)
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", hangs)
        try:
            discovery.refresh({RANK: 0})
        except LeftBehindError:
            assert hangs.opened == number
            discovery.leave_out(ELSEWHERE, "stat")  # as the relay does
    discovery.refresh({RANK: 0})
    assert pids_of(discovery) == [RANK, *WORKERS]
    roles = {member.pid: member.role for member in discovery.members()}
    assert roles == {RANK: "rank", **dict.fromkeys(WORKERS, "worker")}


def test_the_looks_above_are_given_up_at_reads_of_every_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    discovery = job_with_new_workers(tmp_path)
    hangs = HangsAt(tmp_path, -1)
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", hangs)
        discovery.refresh({RANK: 0})
    assert 8 <= hangs.opened < 30
