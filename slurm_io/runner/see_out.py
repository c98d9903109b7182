"""The leader's last duty: its command has ended, its sampler stays for the node's other tasks."""

from __future__ import annotations

import signal
import time

from slurm_io.runner.child import END_SIGNALS, CommandEnd
from slurm_io.runner.meeting import Meeting
from slurm_io.runner.step import Step

POLL_S = 0.2
LATECOMERS_S = 3.0  # tasks of a step start together, their interpreters not quite
HURRY_S = 10.0  # well under Slurm's KillWait (30 s by default), after which nothing is delivered


def see_out(meeting: Meeting, step: Step, began_s: float, end: CommandEnd) -> int:
    """Wait for the followers; how many stayed behind. Signals of PASSED_ON must be blocked.

    As long as they need, and without a sampler too: their rings are read at the end. With two
    exceptions. After a signal that means the end, because Slurm
    kills soon. And after a failure of our own command: srun and launchers like it learn of the
    failure only by our exit, and the other tasks may hang until they do.
    """
    until_s = time.monotonic() + HURRY_S if end.told_to_end or end.failed else None
    while True:
        if not _waits_for_somebody(meeting, step, began_s):
            meeting.close()
            if not meeting.followers():
                return 0
        told = signal.sigtimedwait(END_SIGNALS, POLL_S)
        is_late = until_s is not None and time.monotonic() > until_s
        if told is not None or is_late:
            meeting.close()
            return meeting.followers()


def _waits_for_somebody(meeting: Meeting, step: Step, began_s: float) -> bool:
    if meeting.followers():
        return True
    are_due = step.local_tasks is not None and meeting.seats() < step.local_tasks
    return are_due and time.monotonic() - began_s < LATECOMERS_S
