"""What a window of stacks costs: py-spy, its start and the reading of its trace, by threads."""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

from slurm_io.collectors.stacks import RATE_HZ, WINDOW_S
from slurm_io.collectors.stacks.program import find_py_spy
from slurm_io.collectors.stacks.recording import Order, longest_s, record
from slurm_io.frames.table import FrameTable, load_table
from slurm_io.host.probe import Probe
from slurm_io.host.same_process import starttime_of
from slurm_io.model import STACKS_SHARE

TARGET = """
import sys, threading, time
def deep(n):
    if n: deep(n - 1)
    else:
        while True: time.sleep(0.01)
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=deep, args=(20,), daemon=True).start()
print("ready", flush=True)
deep(40)
"""


def main() -> None:
    """One line for each number of threads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 4, 30, 150])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    program = find_py_spy()
    if program is None:
        print("py-spy is not installed: nothing measured")
        return
    table = load_table()
    for threads in arguments.threads:
        command = [sys.executable, "-c", TARGET, str(threads)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as target:
            assert target.stdout is not None
            target.stdout.readline()
            costs = [window(target.pid, program, table) for _ in range(arguments.rounds)]
            target.kill()
        least = min(cpu_s for cpu_s, _ in costs)
        looks = max(instants for _, instants in costs)
        print(
            f"{threads:4d} threads: {least * 1000:7.1f} ms CPU a window of {WINDOW_S} s, {looks} "
            f"looks; paid for by {STACKS_SHARE:.1%} of a core after {least / STACKS_SHARE:.0f} s"
        )


def window(pid: int, program: str, table: FrameTable) -> tuple[float, int]:
    """(CPU seconds of all children, looks) of one window."""
    order = Order(
        pid=pid, starttime=starttime_of(pid) or 0, program=program, duration_s=WINDOW_S,
        rate_hz=RATE_HZ, spool="/tmp", uid=None, as_root=False, grid_ns=time.monotonic_ns(),
    )  # fmt: skip
    before_s = children_cpu_s()
    probe = Probe([(record, (order, table))], longest_s(WINDOW_S))
    while not probe.finished:
        probe.wait(1)
        probe.poll()
    answer = probe.answers[0]
    assert answer is not None and answer.state == "ok", answer
    return children_cpu_s() - before_s, answer.value.get("instants", 0)


def children_cpu_s() -> float:
    """CPU seconds of all children waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
