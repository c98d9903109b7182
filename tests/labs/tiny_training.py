"""A training that takes no GPU and no data: steps, a checkpoint now and then, and it resumes.

A batch script of many nodes: the first prints steps and saves, the others run a worker each, so
that a node that dies takes processes of the job with it. Steps are printed as nanoGPT prints them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

SAVES_EVERY = 10
SCRIPT = """#!/bin/bash
srun --ntasks-per-node=1 --kill-on-bad-exit=0 sleep 1000 &
step=$(cat checkpoint 2>/dev/null || echo 0)
echo "start $step on $SLURM_JOB_NODELIST" >> history.txt
while [ ! -e stop ]; do
    step=$((step + 1))
    echo "iter $step: loss 2.0000, time 200.00ms, mfu 40.00%"
    echo $step > last_step
    if [ $((step % {every})) = 0 ]; then
        echo $step > checkpoint.new
        mv checkpoint.new checkpoint
    fi
    sleep 0.2
done
"""


@dataclass(frozen=True)
class TinyTraining:
    """What such a job left in its folder."""

    folder: Path

    @staticmethod
    def script() -> str:
        """For sbatch."""
        return SCRIPT.format(every=SAVES_EVERY)

    @property
    def last_step(self) -> int:
        """The newest step that was printed; 0 = none."""
        return self._number("last_step")

    @property
    def checkpoint(self) -> int:
        """The step that the newest checkpoint holds; 0 = there is none."""
        return self._number("checkpoint")

    @property
    def starts(self) -> list[tuple[int, str]]:
        """Of each start: after which step it went on, and the node list."""
        path = self.folder / "history.txt"
        text = path.read_text() if path.exists() else ""
        return [
            (int(n), nodes)
            for n, nodes in re.findall(r"^start (\d+) on (\S+)$", text, re.MULTILINE)
        ]

    def stop(self) -> None:
        """The job completes by itself."""
        (self.folder / "stop").touch()

    def _number(self, name: str) -> int:
        path = self.folder / name
        text = path.read_text().strip() if path.exists() else ""
        return int(text) if text else 0
