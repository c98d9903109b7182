"""Audits the layouts of a tree: one pass, no links followed, one file system, bounded memory.

With several processes, each takes a part of the tree and hands back the directories it did not get
to after a number of files, so parts need not be known beforehand. That pays where the file system
answers slowly (a real Lustre), not on one in memory.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from slurm_io.filesystems.layout.policy import Finding, judge_balance, judge_small_files
from slurm_io.filesystems.layout.question import Question
from slurm_io.filesystems.layout.tally import Tally
from slurm_io.filesystems.layout.waiting import Waiting
from slurm_io.filesystems.layout.walk import CHUNK_FILES, Walker, is_late

_FIRST_CHUNK_FILES = 500
_GIVE_UP_FILES = 10_000
Progress = Callable[[Tally], None]


@dataclass(frozen=True)
class Result:
    """`findings`: what breaks the policy, worst first within each kind. `cut`: why the walk ended
    before the end of the tree, None when it saw all of it."""

    tally: Tally
    findings: tuple[Finding, ...]
    wall_s: float
    cut: str | None = None


def audit(question: Question, progress: Progress | None = None) -> Result:
    """Walk the tree below `question.root` (or look at one file) and judge it.

    Raises OSError when the root itself cannot be opened.
    """
    began_s = time.monotonic()
    tally = Tally(question.use, question.keep)
    waiting = Waiting([b""])
    if stat.S_ISREG(os.stat(question.root).st_mode):
        tally.merge(Walker(question).one_file(question.root))
        waiting = Waiting()
    else:
        walk = _in_processes if question.processes > 1 else _in_this_process
        for part in walk(question, waiting):
            tally.merge(part)
            if progress is not None:
                progress(tally)
            if _is_hopeless(tally):
                break
    cut = _cut(tally, waiting)
    if tally.layouts:  # some files have one, so the first without were on no other file system
        tally.without_layout, tally.not_lustre = tally.without_layout + tally.not_lustre, 0
    return Result(tally, _findings(question, tally), time.monotonic() - began_s, cut)


def _is_hopeless(tally: Tally) -> bool:
    """Not one of many files knows what a layout is."""
    return _GIVE_UP_FILES <= tally.not_lustre == tally.files - tally.skipped


def _cut(tally: Tally, waiting: Waiting) -> str | None:
    reasons = []
    if waiting and _is_hopeless(tally):
        reasons.append(f"none of the first {tally.not_lustre} files lies on Lustre")
    elif waiting:
        reasons.append(f"out of time: {len(waiting)} directories or more were not looked at")
    if waiting.left_out:
        reasons.append(f"{waiting.left_out} directories were too many to keep in memory")
    return "; ".join(reasons) or None


def _in_this_process(question: Question, waiting: Waiting) -> Iterator[Tally]:
    return Walker(question).chunks(waiting)


def one_part(
    question: Question, folders: list[bytes], most_files: int
) -> tuple[Tally, list[bytes], int]:
    """One chunk, in a process of the pool: its tally, the folders it did not get to, and how many
    it could not keep."""
    waiting = Waiting(folders)
    tally = next(Walker(question).chunks(waiting, most_files), None)
    left = waiting.take(len(waiting))
    return tally or Tally(question.use, question.keep), left[::-1], waiting.left_out


def _in_processes(question: Question, waiting: Waiting) -> Iterator[Tally]:
    import multiprocessing
    from concurrent import futures

    context = multiprocessing.get_context("spawn")
    running: set[futures.Future[tuple[Tally, list[bytes], int]]] = set()
    with futures.ProcessPoolExecutor(question.processes, mp_context=context) as pool:
        while running or (waiting and not is_late(question)):
            while waiting and len(running) < question.processes and not is_late(question):
                # Small parts as long as there are not folders for all.
                few = len(waiting) < question.processes
                share = waiting.take(-(-len(waiting) // (question.processes - len(running))))
                most_files = _FIRST_CHUNK_FILES if few else CHUNK_FILES
                running.add(pool.submit(one_part, question, share, most_files))
            done, running = futures.wait(running, return_when=futures.FIRST_COMPLETED)
            for tally, left, left_out in (each.result() for each in done):
                for folder in left:
                    waiting.add(folder)
                waiting.left_out += left_out
                yield tally


def _findings(question: Question, tally: Tally) -> tuple[Finding, ...]:
    limits = question.thresholds
    found = [finding for _, top in sorted(tally.broken.items()) for finding in top.findings()]
    below = (tally.small_wide_below or question.root).rstrip("/") or "/"
    small = judge_small_files(below, tally.small_wide, limits)
    active = question.osts.active if question.osts is not None else None
    balance = judge_balance(question.root, tally.ost_objects, tally.ost_bytes, active, limits)
    return (*found, *(each for each in (small, balance) if each is not None))
