"""The life of ``slurm-io run``: prepare, launch, pass signals, collect, finish.

Of the tasks of an srun step the first one on each node does so, the others become their command
(:mod:`slurm_io.runner.meeting`); its sampler stays until the last of them has ended.

Process tree: this wrapper → sampler (:mod:`slurm_io.sampler.launch`) → the command. The wrapper
prints nothing unless its stderr is a terminal, so that the command's output stays untouched; what
went wrong on our side stands in ``run.log`` of the store.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from slurm_io.errors import SlurmIoError
from slurm_io.model import SamplerSpec
from slurm_io.runner.child import CommandEnd, launch, stop, wait_for_command
from slurm_io.runner.finish import finish
from slurm_io.runner.follow import become
from slurm_io.runner.meeting import Meeting
from slurm_io.runner.place import give_back, meet_the_step, node_name, prepare
from slurm_io.runner.see_out import see_out
from slurm_io.runner.step import read_step


@dataclass(frozen=True)
class RunOptions:
    """What the user asked of ``slurm-io run``."""

    argv: tuple[str, ...]
    output: Path | None = None
    spool_parent: Path | None = None
    hook: bool = True
    report: bool = True
    stacks: bool = False
    budget_share: float = SamplerSpec.budget_share


def run_command(options: RunOptions) -> int:
    """Run the command to its end and return its exit code (or die of its signal)."""
    meeting = meet_the_step(read_step(os.environ, node_name(os.environ)))
    if meeting is not None and not meeting.leads:
        end = become(options.argv, meeting.folder, hook=options.hook)
        _complain(end, options)
        return _leave_as(end)
    try:
        end = _record(options, meeting)
    finally:
        if meeting is not None:
            meeting.dissolve()
    return _leave_as(end)


def _record(options: RunOptions, meeting: Meeting | None) -> CommandEnd:
    """Prepare, run the command under a sampler, bring the recording home."""
    place = prepare(
        options.argv,
        options.output,
        options.spool_parent,
        meeting,
        stacks=options.stacks,
        budget_share=options.budget_share,
    )
    try:
        began_s = time.monotonic()
        if meeting is not None:
            meeting.open()
        launched = launch(place, options.argv, hook=options.hook)
        end = wait_for_command(launched)
        _complain(end, options)
        _release_pipes()
        stayed = 0
        if meeting is not None and place.step is not None:
            stayed = see_out(meeting, place.step, began_s, end)
        stop(launched.sampler)
        if end.errno is not None and len(place.nodes) == 1:
            give_back(place)  # a typo: the next try may have the same store
            shutil.rmtree(place.spool, ignore_errors=True)
            return end
        with contextlib.suppress(SlurmIoError, OSError):  # the exit code is the command's
            finish(place, end, report=options.report, stayed=stayed)
    finally:
        if meeting is None:
            shutil.rmtree(place.ring_dir, ignore_errors=True)
    return end


def _complain(end: CommandEnd, options: RunOptions) -> None:
    if end.errno is not None:
        print(f"slurm-io: {options.argv[0]}: {os.strerror(end.errno)}", file=sys.stderr)


def _release_pipes() -> None:
    """Whoever reads the command's output gets its end now, not after our analysis."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    if not os.isatty(2):
        os.dup2(null, 2)
    os.close(null)


def _leave_as(end: CommandEnd) -> int:
    """The command's exit code; when a signal ended it, die of the same signal."""
    if end.errno is not None:
        return 127 if end.errno == errno.ENOENT else 126
    code = os.waitstatus_to_exitcode(end.status)
    if code >= 0:
        return code
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command has dumped its own core
    with contextlib.suppress(OSError, ValueError):  # SIGKILL cannot be reset, and need not be
        signal.signal(-code, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.kill(os.getpid(), -code)
    return 128 - code
