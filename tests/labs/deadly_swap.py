"""``spare swap`` in a process that dies, or has something done, at a chosen moment of its journal.

::

    python -m tests.labs.deadly_swap CONFIG WHEN LINE [COMMAND]

LINE is the beginning of a journal line's text, mostly of an intent. WHEN: ``before`` (killed with
SIGKILL when that line is on disk and nothing is done yet), ``after`` (killed when it is done and
nothing more is written), ``during`` (COMMAND runs, as a shell line, between the line and the act).
The swap may release a job that is held.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from slurm_io.config import load
from slurm_io.reservation.swap.journal import Event, Journal
from slurm_io.reservation.swap.model import Wish
from slurm_io.reservation.swap.real_world import open_world
from slurm_io.reservation.swap.run import swap
from slurm_io.reservation.swap.text import end_lines, step_line

RESERVATION = "train"


class DeadlyJournal(Journal):
    """Acts at the first line that the command line means."""

    when, line, command = "", "", ""
    is_armed = False
    is_over = False

    def write(self, step: str, event: Event, text: str, facts: Mapping[str, Any]) -> None:
        if DeadlyJournal.is_armed:
            os.kill(os.getpid(), signal.SIGKILL)
        super().write(step, event, text, facts)
        if not text.startswith(self.line) or DeadlyJournal.is_over:
            return
        DeadlyJournal.is_over = True
        if self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.when == "after":
            DeadlyJournal.is_armed = True
        else:
            subprocess.run(self.command, shell=True, check=True)


def main() -> None:
    """See the module's own text."""
    config_path, DeadlyJournal.when, DeadlyJournal.line, *rest = sys.argv[1:]
    DeadlyJournal.command = rest[0] if rest else ""
    world = open_world(load(config_path), RESERVATION, config_path)
    answer = swap(
        world,
        Wish(RESERVATION, release=True),
        lambda report: print(step_line(report), flush=True),
        DeadlyJournal,
    )
    print("\n".join(end_lines(answer)), flush=True)
    sys.exit(answer.exit_code)


if __name__ == "__main__":
    main()
