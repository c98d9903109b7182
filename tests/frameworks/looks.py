"""Many looks at a training program with py-spy, judged by the product's own table of frames.

The product looks ten times a second in a window now and then: right on average, and far from a
truth of forty seconds by chance. Whether its *table* is right is seen with more looks.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from slurm_io.collectors.stacks.program import find_py_spy
from slurm_io.frames.table import load_table
from slurm_io.frames.windows import judge_window
from slurm_io.stacktext.chrometrace import parse_chrometrace

RATE_HZ = 25
_TABLE = load_table()


class Looks:
    """Begins when the program has announced its pid in `announced`; `collect` when it has ended."""

    def __init__(self, announced: Path, room: Path, seconds: float) -> None:
        self._trace = room / "looks.json"
        self._said = room / "looks.log"
        pid = _wait_for_pid(announced)
        program = find_py_spy(None)
        assert program is not None
        command = [program, "record", "--nonblocking", "--idle", "-f", "chrometrace"]
        command += ["-d", str(max(1, int(seconds))), "-r", str(RATE_HZ)]
        self.start_ns = time.monotonic_ns()
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [*command, "-o", str(self._trace), "-p", str(pid)], stdout=said, stderr=said
            )

    def collect(self) -> dict[str, int]:
        """Looks by state of the training thread."""
        self._process.wait(60)
        assert self._trace.exists(), self._said.read_text(errors="replace")
        trace = parse_chrometrace(self._trace.read_bytes())
        window = judge_window(trace, _TABLE, RATE_HZ, self.start_ns, self.start_ns)
        counts: dict[str, int] = {}
        for row in window.rows:
            if row.role == "rank":
                counts[row.state] = counts.get(row.state, 0) + row.samples
        return counts


def _wait_for_pid(announced: Path, patience_s: float = 120.0) -> int:
    until_s = time.monotonic() + patience_s
    while not announced.exists():
        assert time.monotonic() < until_s, "the program never began to train"
        time.sleep(0.05)
    return int(announced.read_text())
